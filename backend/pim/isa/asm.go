package isa

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

// maxTextConsts bounds the constants that .zero lines of a text may ask for.
const maxTextConsts = 1 << 32

// Assemble reads a program from the text form that Disassemble writes; order of
// operands is free. name stands for the text in errors, which are of the form
// "name:line: what is wrong". The result is a valid program.
func Assemble(r io.Reader, name string) (*Program, error) {
	a := assembler{p: &Program{}}
	sc := bufio.NewScanner(r)
	sc.Buffer(make([]byte, 1<<16), 1<<24)
	line := 0
	for sc.Scan() {
		line++
		if err := a.line(sc.Bytes()); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, line, err)
		}
	}
	if err := sc.Err(); err != nil {
		return nil, fmt.Errorf("%s:%d: %w", name, line+1, err)
	}
	if !a.sawISA {
		return nil, fmt.Errorf("%s: no line `.isa %d`; is this a program?", name, ISAVersion)
	}
	if err := Validate(a.p); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return a.p, nil
}

type assembler struct {
	p        *Program
	sawISA   bool
	stream   *Stream // that instructions go to
	layer    int32
	inConsts bool
}

func (a *assembler) line(text []byte) error {
	text = bytes.TrimSpace(text)
	switch {
	case len(text) == 0 || text[0] == ';':
		return nil
	case text[0] == '.':
		fields, err := splitFields(string(text[1:]))
		if err != nil {
			return err
		}
		return a.directive(fields)
	case a.inConsts:
		n := len(a.p.Consts)
		a.p.Consts = append(a.p.Consts, make([]byte, base64.StdEncoding.DecodedLen(len(text)))...)
		got, err := base64.StdEncoding.Decode(a.p.Consts[n:], text)
		a.p.Consts = a.p.Consts[:n+got]
		return err
	case a.stream == nil:
		return errors.New("an instruction before the first .init or .main")
	}
	in, err := parseInst(string(text))
	if err != nil {
		return err
	}
	a.stream.Insts = append(a.stream.Insts, in)
	a.stream.Layer = append(a.stream.Layer, a.layer)
	return nil
}

// splitFields cuts a directive at spaces, undoing quotes, up to a comment.
func splitFields(s string) ([]string, error) {
	var fields []string
	for {
		s = strings.TrimLeft(s, " \t")
		if s == "" || s[0] == ';' {
			break
		}
		if s[0] != '"' {
			n := strings.IndexAny(s, " \t;")
			if n < 0 {
				n = len(s)
			}
			fields, s = append(fields, s[:n]), s[n:]
			continue
		}
		quoted, err := strconv.QuotedPrefix(s)
		if err != nil {
			return nil, fmt.Errorf("bad string %s", s)
		}
		plain, err := strconv.Unquote(quoted)
		if err != nil {
			return nil, fmt.Errorf("bad string %s", quoted)
		}
		fields, s = append(fields, plain), s[len(quoted):]
	}
	if len(fields) == 0 {
		return nil, errors.New("a lone dot")
	}
	return fields, nil
}

// directives lists, for each line that starts with a dot, how many fields it
// has and what it does with them.
var directives map[string]directive

type directive struct {
	fields int
	do     func(a *assembler, f *fields)
}

func init() {
	directives = map[string]directive{
		"isa": {1, func(a *assembler, f *fields) {
			if v := f.int(); v != ISAVersion && f.err == nil {
				f.err = fmt.Errorf("%w: it has version %d, this build executes version %d", ErrISA, v, ISAVersion)
			}
			a.sawISA = true
		}},
		"model":    {1, func(a *assembler, f *fields) { a.p.Model = f.string() }},
		"quant":    {1, func(a *assembler, f *fields) { a.p.Quant = f.string() }},
		"replicas": {1, func(a *assembler, f *fields) { a.p.Replicas = int(f.int()) }},
		"rounds":   {1, func(a *assembler, f *fields) { a.p.Rounds = int(f.int()) }},
		"arch": {2, func(a *assembler, f *fields) {
			a.p.Arch = f.string()
			sum, err := hex.DecodeString(f.string())
			if err != nil || len(sum) != len(a.p.Fingerprint) {
				f.err = errors.New("the fingerprint is not 64 hexadecimal digits")
			}
			copy(a.p.Fingerprint[:], sum)
		}},
		"region": {3, func(a *assembler, f *fields) {
			a.p.Regions = append(a.p.Regions, Region{Start: f.int(), End: f.int(), Die: int(f.int())})
		}},
		"input":  {6, func(a *assembler, f *fields) { a.p.Inputs = append(a.p.Inputs, f.tensor()) }},
		"output": {6, func(a *assembler, f *fields) { a.p.Outputs = append(a.p.Outputs, f.tensor()) }},
		"state": {5, func(a *assembler, f *fields) {
			a.p.States = append(a.p.States, State{Input: int(f.bounded(0, math.MaxInt32)), Output: f.string(), Bytes: f.int(), New: f.int(), Spilled: f.bool()})
		}},
		"layer": {4, func(a *assembler, f *fields) {
			a.p.Layers = append(a.p.Layers, Layer{Name: f.string(), Op: f.string(), MACs: f.int(), Mapping: f.string()})
		}},
		"fallback": {3, func(a *assembler, f *fields) {
			a.p.Fallbacks = append(a.p.Fallbacks, Fallback{Node: f.string(), Op: f.string(), Share: f.float64()})
		}},
		"init": {0, func(a *assembler, f *fields) { a.open(&a.p.Init) }},
		"main": {0, func(a *assembler, f *fields) { a.open(&a.p.Main) }},
		"at":   {1, func(a *assembler, f *fields) { a.layer = int32(f.bounded(-1, math.MaxInt32)) }},
		"consts": {0, func(a *assembler, f *fields) {
			a.stream, a.inConsts = nil, true
		}},
		"zero": {1, func(a *assembler, f *fields) {
			n := f.bounded(0, maxTextConsts-int64(len(a.p.Consts)))
			a.p.Consts = append(a.p.Consts, make([]byte, n)...)
		}},
	}
	for i, name := range sizeNames {
		directives[name] = directive{1, func(a *assembler, f *fields) { *a.p.sizes()[i] = f.int() }}
	}
}

// open starts the next cluster's stream.
func (a *assembler) open(streams *[]Stream) {
	*streams = append(*streams, Stream{})
	a.stream, a.layer, a.inConsts = &(*streams)[len(*streams)-1], -1, false
}

func (a *assembler) directive(words []string) error {
	d, ok := directives[words[0]]
	if !ok {
		return fmt.Errorf("unknown directive .%s", words[0])
	}
	if len(words)-1 != d.fields {
		return fmt.Errorf(".%s has %d fields, expected %d", words[0], len(words)-1, d.fields)
	}
	f := &fields{rest: words[1:]}
	d.do(a, f)
	if f.err != nil {
		return fmt.Errorf(".%s: %w", words[0], f.err)
	}
	return nil
}

// fields takes the fields of a directive in order and keeps the first error.
type fields struct {
	rest []string
	err  error
}

func (f *fields) string() string {
	s := f.rest[0]
	f.rest = f.rest[1:]
	return s
}

func (f *fields) int() int64 { return f.bounded(math.MinInt64, math.MaxInt64) }

func (f *fields) bounded(lo, hi int64) int64 {
	s := f.string()
	x, err := strconv.ParseInt(s, 10, 64)
	if err == nil && (x < lo || x > hi) {
		err = fmt.Errorf("%d is outside %d..%d", x, lo, hi)
	}
	if err != nil {
		f.err = errors.Join(f.err, err)
		return 0
	}
	return x
}

func (f *fields) bool() bool {
	x, err := strconv.ParseBool(f.string())
	f.err = errors.Join(f.err, err)
	return x
}

func (f *fields) float32() float32 {
	bits, err := parseFloat32(f.string())
	f.err = errors.Join(f.err, err)
	return math.Float32frombits(bits)
}

func (f *fields) float64() float64 {
	s := f.string()
	if hexBits, ok := strings.CutPrefix(s, "nan:"); ok {
		bits, err := strconv.ParseUint(hexBits, 16, 64)
		f.err = errors.Join(f.err, err)
		return math.Float64frombits(bits)
	}
	x, err := strconv.ParseFloat(s, 64)
	f.err = errors.Join(f.err, err)
	return x
}

func parseFloat32(s string) (bits uint32, err error) {
	if hexBits, ok := strings.CutPrefix(s, "nan:"); ok {
		x, err := strconv.ParseUint(hexBits, 16, 32)
		return uint32(x), err
	}
	x, err := strconv.ParseFloat(s, 32)
	return math.Float32bits(float32(x)), err
}

func (f *fields) tensor() IO {
	io := IO{Name: f.string()}
	io.DType = f.dtype()
	shape := f.string()
	list, ok := strings.CutPrefix(shape, "[")
	list, ok2 := strings.CutSuffix(list, "]")
	if !ok || !ok2 {
		f.err = errors.Join(f.err, fmt.Errorf("%q is no shape such as [1,3]", shape))
	} else if list != "" {
		for _, s := range strings.Split(list, ",") {
			n, err := strconv.Atoi(s)
			f.err = errors.Join(f.err, err)
			io.Shape = append(io.Shape, n)
		}
	}
	io.Addr = f.int()
	io.Scale = f.float32()
	io.Zero = int32(f.bounded(math.MinInt32, math.MaxInt32))
	return io
}

func (f *fields) dtype() DType {
	s := f.string()
	for t, name := range dtypeNames {
		if name == s {
			return DType(t)
		}
	}
	f.err = errors.Join(f.err, fmt.Errorf("unknown type %q", s))
	return 0
}

// parseInst reads `mnemonic name=value … ; comment`.
func parseInst(text string) (Inst, error) {
	if i := strings.IndexByte(text, ';'); i >= 0 {
		text = text[:i]
	}
	words := strings.Fields(text)
	op, ok := Lookup(words[0])
	if !ok {
		return Inst{}, fmt.Errorf("unknown instruction %q", words[0])
	}
	operands := table[op].Operands
	in := Inst{Op: op, Args: make([]int64, len(operands))}
	for i, o := range operands {
		in.Args[i] = o.Kind.defaultValue()
	}
	var given uint64 // bit i: operand i was named
	for _, word := range words[1:] {
		name, value, ok := strings.Cut(word, "=")
		i := operandIndex(operands, name)
		switch {
		case !ok:
			return Inst{}, fmt.Errorf("%s: %q is not of the form name=value", words[0], word)
		case i < 0:
			return Inst{}, fmt.Errorf("%s has no operand %q", words[0], name)
		case given>>i&1 != 0:
			return Inst{}, fmt.Errorf("%s: %s is given twice", words[0], name)
		}
		given |= 1 << i
		x, err := parseOperand(operands[i].Kind, value)
		if err != nil {
			return Inst{}, fmt.Errorf("%s: %s: %w", words[0], name, err)
		}
		in.Args[i] = x
	}
	return in, nil
}

func operandIndex(operands []Operand, name string) int {
	for i := range operands {
		if operands[i].Name == name {
			return i
		}
	}
	return -1
}

func parseOperand(kind OperandKind, s string) (int64, error) {
	switch {
	case kind == KFloat:
		bits, err := parseFloat32(s)
		return int64(bits), err
	case kind == KReg:
		return parseReg(s)
	case kind.isAddr():
		imm, regName, indexed := strings.Cut(s, "+")
		reg := int64(0)
		if indexed {
			var err error
			if reg, err = parseReg(regName); err != nil {
				return 0, err
			}
		}
		x, err := strconv.ParseInt(imm, 10, 64)
		if err == nil && (x < 0 || x >= 1<<addrRegShift) {
			err = fmt.Errorf("address %d is negative or too large", x)
		}
		return Addr(x, int(reg)), err
	}
	return strconv.ParseInt(s, 10, 64)
}

func parseReg(s string) (int64, error) {
	num, ok := strings.CutPrefix(s, "r")
	n, err := strconv.Atoi(num)
	if !ok || err != nil || n < 0 || n >= NumRegs {
		return 0, fmt.Errorf("%q is no register r0 to r%d", s, NumRegs-1)
	}
	return int64(n), nil
}
