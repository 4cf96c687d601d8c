package isa

import (
	"bytes"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"hash/crc32"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

var update = flag.Bool("update", false, "rewrite golden files")

// tableSum is the checksum of opcode numbers and operand lists at ISAVersion.
const tableSum = 0xcb304623

func TestTableVersion(t *testing.T) {
	var b strings.Builder
	for op := OpInvalid + 1; op < numOps; op++ {
		fmt.Fprintf(&b, "%d %s", op, op)
		for _, o := range table[op].Operands {
			fmt.Fprintf(&b, " %s:%d", o.Name, o.Kind)
		}
		b.WriteByte('\n')
	}
	if got := crc32.Checksum([]byte(b.String()), castagnoli); got != tableSum {
		t.Errorf("the table's opcodes or operands have changed (checksum %#x, was %#x): raise ISAVersion and put the new checksum here", got, tableSum)
	}
}

func TestTableRows(t *testing.T) {
	for op := OpInvalid + 1; op < numOps; op++ {
		row := op.Info()
		if row.Mnemonic == "" || row.Doc == "" {
			t.Errorf("opcode %d has no mnemonic or meaning", op)
		}
		if got, ok := Lookup(row.Mnemonic); !ok || got != op {
			t.Errorf("Lookup(%q) = %v, %v", row.Mnemonic, got, ok)
		}
		seen := map[string]bool{}
		for _, o := range row.Operands {
			if o.Name == "" || strings.ContainsAny(o.Name, " =") || seen[o.Name] {
				t.Errorf("%s: operand name %q is empty, unusable in text or not unique", op, o.Name)
			}
			seen[o.Name] = true
		}
	}
}

// TestOperandPositions holds operands.go to the table: under a comment with the
// mnemonic stand its operands in order, named mnemonic + operand.
func TestOperandPositions(t *testing.T) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "operands.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	mnemonic := ""
	for _, spec := range file.Decls[0].(*ast.GenDecl).Specs {
		c := spec.(*ast.ValueSpec)
		if c.Doc != nil {
			mnemonic = strings.TrimSpace(c.Doc.Text())
		}
		op, ok := Lookup(mnemonic)
		if !ok {
			t.Fatalf("no instruction %q", mnemonic)
		}
		i := seen[mnemonic]
		seen[mnemonic]++
		operands := op.Info().Operands
		if i >= len(operands) {
			t.Errorf("%s: %s is one too many", mnemonic, c.Names[0].Name)
			continue
		}
		want := mnemonic + strings.ReplaceAll(operands[i].Name, "_", "")
		if got := c.Names[0].Name; !strings.EqualFold(got, want) {
			t.Errorf("operand %d of %s is called %s, the table says %s", i, mnemonic, got, operands[i].Name)
		}
		if v := c.Values[0].(*ast.BasicLit).Value; v != strconv.Itoa(i) {
			t.Errorf("%s = %s, want %d", c.Names[0].Name, v, i)
		}
	}
	for op := OpInvalid + 1; op < numOps; op++ {
		if n := len(op.Info().Operands); seen[op.String()] != n {
			t.Errorf("operands.go has %d of the %d operands of %s", seen[op.String()], n, op)
		}
	}
}

// genOperand draws a value that Validate accepts.
func genOperand(t *rapid.T, op Op, o Operand, clusters int) int64 {
	if l, ok := narrowed(op, o.Name); ok {
		if l.two {
			return rapid.SampledFrom([]int64{l.lo, l.hi}).Draw(t, o.Name)
		}
		return rapid.Int64Range(l.lo, l.hi).Draw(t, o.Name)
	}
	switch {
	case o.Name == "first":
		return int64(rapid.IntRange(0, clusters-1).Draw(t, o.Name))
	case o.Name == "count":
		return 1
	case o.Kind == KCount:
		return rapid.OneOf(rapid.Int64Range(1, 5), rapid.Int64Range(1, maxCount)).Draw(t, o.Name)
	case o.Kind == KReg:
		return rapid.Int64Range(1, 15).Draw(t, o.Name)
	case o.Kind == KFloat:
		return int64(rapid.Uint32().Draw(t, o.Name))
	case o.Kind.isAddr():
		return Addr(rapid.Int64Range(0, 1<<48-1).Draw(t, o.Name), rapid.IntRange(0, 15).Draw(t, o.Name+" register"))
	}
	return rapid.OneOf(rapid.Int64Range(-3, 3), rapid.Int64Range(-1<<48, 1<<48)).Draw(t, o.Name)
}

func genStream(t *rapid.T, clusters, layers int) Stream {
	var s Stream
	depth := 0
	emit := func(op Op) {
		in := Inst{Op: op}
		for _, o := range op.Info().Operands {
			in.Args = append(in.Args, genOperand(t, op, o, clusters))
		}
		s.Insts = append(s.Insts, in)
		s.Layer = append(s.Layer, int32(rapid.IntRange(-1, layers-1).Draw(t, "layer")))
	}
	for range rapid.IntRange(0, 12).Draw(t, "instructions") {
		switch op := Op(rapid.IntRange(1, int(numOps)-1).Draw(t, "op")); {
		case op == OpLoop && depth == MaxLoopDepth, op == OpNext && depth == 0, op == OpHalt:
		case op == OpLoop:
			depth++
			emit(op)
		case op == OpNext:
			depth--
			emit(op)
		default:
			emit(op)
		}
	}
	for range depth {
		emit(OpNext)
	}
	emit(OpHalt)
	return s
}

func genProgram(t *rapid.T) *Program {
	text := rapid.OneOf(rapid.String(), rapid.StringMatching(`[a-z "\\;]{0,6}`))
	p := &Program{
		Model: text.Draw(t, "model"), Arch: text.Draw(t, "arch"), Quant: text.Draw(t, "quant"),
		Consts:   rapid.SliceOfN(rapid.Byte(), 0, 200).Draw(t, "consts"),
		Replicas: rapid.IntRange(0, 9).Draw(t, "replicas"),
	}
	p.Consts = append(p.Consts, make([]byte, rapid.IntRange(0, 200).Draw(t, "zeros"))...)
	p.Fingerprint[rapid.IntRange(0, 31).Draw(t, "byte")] = 7
	for _, x := range p.sizes() {
		*x = rapid.Int64Range(1<<20, 1<<40).Draw(t, "size")
	}
	p.DescribedBytes = rapid.Int64Range(0, 500).Draw(t, "described")
	p.Regions = []Region{{0, 100, 0}, {200, 1 << 20, 3}}[:rapid.IntRange(0, 2).Draw(t, "regions")]
	for range rapid.IntRange(0, 2).Draw(t, "tensors") {
		io := IO{Name: text.Draw(t, "tensor"), DType: DType(rapid.IntRange(0, len(dtypeNames)-1).Draw(t, "dtype")),
			Shape: rapid.SliceOfN(rapid.IntRange(0, 9), 0, 4).Draw(t, "shape"), Addr: 1000,
			Scale: rapid.Float32Range(0, 1e30).Draw(t, "scale"), Zero: rapid.Int32().Draw(t, "zero")}
		p.Inputs, p.Outputs = append(p.Inputs, io), append(p.Outputs, io)
		if bytes := rapid.Int64Range(0, 1<<40).Draw(t, "state"); rapid.Bool().Draw(t, "kept") {
			p.States = append(p.States, State{Input: len(p.Inputs) - 1, Output: text.Draw(t, "next"), Bytes: bytes, New: rapid.Int64Range(0, bytes).Draw(t, "new"), Spilled: rapid.Bool().Draw(t, "spilled")})
		}
	}
	for range rapid.IntRange(0, 3).Draw(t, "layers") {
		p.Layers = append(p.Layers, Layer{text.Draw(t, "name"), text.Draw(t, "op"), rapid.Int64Range(0, math.MaxInt64).Draw(t, "macs"), text.Draw(t, "mapping")})
		p.Fallbacks = append(p.Fallbacks, Fallback{text.Draw(t, "node"), text.Draw(t, "op"), rapid.Float64().Draw(t, "share")})
	}
	clusters := rapid.IntRange(1, 3).Draw(t, "clusters")
	for range clusters {
		p.Init = append(p.Init, genStream(t, clusters, len(p.Layers)))
		p.Main = append(p.Main, genStream(t, clusters, len(p.Layers)))
	}
	return p
}

func TestRoundTrips(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := genProgram(t)
		if err := Validate(p); err != nil && strings.Contains(err.Error(), "executes") {
			t.Skip("loops too long")
		}
		data, err := Encode(p)
		if err != nil {
			t.Fatalf("Encode: %v", err)
		}
		q, err := Decode(data)
		if err != nil {
			t.Fatalf("Decode: %v", err)
		}
		if d := cmp.Diff(p, q, cmpopts.EquateEmpty(), cmpopts.EquateNaNs()); d != "" {
			t.Fatalf("Decode(Encode(p)) differs (-p +q):\n%s", d)
		}
		var text, text2 bytes.Buffer
		if err := Disassemble(&text, p); err != nil {
			t.Fatal(err)
		}
		r, err := Assemble(bytes.NewReader(text.Bytes()), "x.s")
		if err != nil {
			t.Fatalf("Assemble: %v\n%s", err, text.String())
		}
		if d := cmp.Diff(p, r, cmpopts.EquateEmpty(), cmpopts.EquateNaNs()); d != "" {
			t.Fatalf("Assemble(Disassemble(p)) differs (-p +r):\n%s\n%s", d, text.String())
		}
		if Disassemble(&text2, r); text.String() != text2.String() {
			t.Fatal("text changes in a round trip")
		}
	})
}

// tiny returns a small valid program.
func tiny() *Program {
	load := Inst{OpLoad, []int64{Addr(64, 0), Addr(128, 1), 1, 0, 0, 2, 64, 32, 16}}
	s := func(in ...Inst) Stream {
		in = append(in, Inst{Op: OpHalt})
		layer := make([]int32, len(in))
		layer[len(in)-1] = -1
		return Stream{Insts: in, Layer: layer}
	}
	return &Program{
		Model: "tiny", Arch: "test", Fingerprint: [32]byte{1}, DRAMBytes: 4096, Consts: []byte("constants"),
		Layers: []Layer{{Name: "a", Op: "conv2d"}},
		Inputs: []IO{{Name: "x", DType: F32, Shape: []int{1, 4}, Addr: 512}},
		Init:   []Stream{s(), s()},
		Main: []Stream{
			s(Inst{OpSet, []int64{1, 5}}, Inst{OpLoop, []int64{3}}, load, Inst{OpAddi, []int64{1, 16}}, Inst{Op: OpNext}),
			s(Inst{OpUnaryF, []int64{3, 0, 64, 16, int64(math.Float32bits(0.1)), int64(math.Float32bits(float32(math.NaN())))}}),
		},
	}
}

func TestTextGolden(t *testing.T) {
	var b bytes.Buffer
	if err := Disassemble(&b, tiny()); err != nil {
		t.Fatal(err)
	}
	golden(t, "testdata/tiny.s", b.Bytes())
}

func TestReference(t *testing.T) {
	var b bytes.Buffer
	if err := Reference(&b); err != nil {
		t.Fatal(err)
	}
	for op := OpInvalid + 1; op < numOps; op++ {
		_, section, _ := strings.Cut(b.String(), "\n### "+op.String()+"\n")
		section, _, _ = strings.Cut(section, "\n##")
		for _, o := range op.Info().Operands {
			if row := fmt.Sprintf("| %s | %s | %s |", o.Name, o.Kind, o.Doc); !strings.Contains(section, row) {
				t.Errorf("%s: no row %q", op, row)
			}
		}
		if !strings.Contains(section, fmt.Sprintf("Opcode %d.", op)) {
			t.Errorf("%s: no opcode", op)
		}
	}
}

func golden(t *testing.T, path string, got []byte) {
	t.Helper()
	if *update {
		if err := os.MkdirAll("testdata", 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, got, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), string(got)); d != "" {
		t.Errorf("%s differs; rewrite it with -update if the change is meant (-want +got):\n%s", path, d)
	}
}

func TestDecodeErrors(t *testing.T) {
	good, err := Encode(tiny())
	if err != nil {
		t.Fatal(err)
	}
	reseal := func(b []byte) []byte {
		binary.LittleEndian.PutUint32(b[offChecksum:], crc32.Checksum(b[:offChecksum], castagnoli))
		return b
	}
	edit := func(off int, x byte) []byte {
		b := bytes.Clone(good)
		b[off] ^= x
		return b
	}
	// A program whose code section is garbage with the right checksum.
	garbled := bytes.Clone(good)
	code := garbled[offSections+secCode*sectionSize:]
	off, n := binary.LittleEndian.Uint64(code), binary.LittleEndian.Uint64(code[8:])
	garbled[off] = 0xff
	binary.LittleEndian.PutUint32(code[16:], crc32.Checksum(garbled[off:off+n], castagnoli))
	for _, c := range []struct {
		name string
		data []byte
		want error
	}{
		{"other file", []byte("\x7fELF and so on"), ErrMagic},
		{"empty", nil, ErrTruncated},
		{"cut in the header", good[:60], ErrTruncated},
		{"cut in the constants", good[:len(good)-3], ErrTruncated},
		{"longer", append(bytes.Clone(good), 0), ErrTruncated},
		{"format version", reseal(edit(offFormat, FormatVersion+1)), ErrVersion},
		{"instruction set version", reseal(edit(offISA, 0x40)), ErrISA},
		{"bit error in the header", edit(offFingerprint, 1), ErrChecksum},
		{"bit error in the constants", edit(len(good)-1, 1), ErrChecksum},
		{"section outside the file", reseal(edit(offSections+6, 1)), ErrCorrupt},
		{"garbage code", reseal(garbled), ErrCorrupt},
	} {
		p, err := Decode(c.data)
		if !errors.Is(err, c.want) || p != nil {
			t.Errorf("%s: Decode gives %v, want %v", c.name, err, c.want)
		}
	}
	p, err := Decode(good)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.CheckArch("test", p.Fingerprint); err != nil {
		t.Error(err)
	}
	for _, name := range []string{"test", "other"} {
		if err := p.CheckArch(name, [32]byte{2}); !errors.Is(err, ErrArch) {
			t.Errorf("CheckArch(%s) = %v", name, err)
		}
	}
}

func TestValidateFaults(t *testing.T) {
	for want, breakIt := range map[string]func(p *Program){
		"1 init and 2 main":            func(p *Program) { p.Init = p.Init[:1] },
		"does not hold":                func(p *Program) { p.DRAMBytes = 3 },
		"closes no loop":               func(p *Program) { p.Main[0].Insts[1] = Inst{Op: OpNext} },
		"not closed":                   func(p *Program) { p.Main[0].Insts[4] = Inst{OpSet, []int64{1, 1}} },
		"the limit is":                 func(p *Program) { p.Main[0].Insts[1].Args[0] = 1 << 39 },
		"no such opcode":               func(p *Program) { p.Main[0].Insts[1].Op = numOps },
		"8 operands":                   func(p *Program) { p.Main[0].Insts[2].Args = p.Main[0].Insts[2].Args[1:] },
		"not a valid count":            func(p *Program) { p.Main[0].Insts[2].Args[LoadLen] = 0 },
		"not a valid register":         func(p *Program) { p.Main[0].Insts[0].Args[0] = 0 },
		"not a valid DRAM addr":        func(p *Program) { p.Main[0].Insts[2].Args[LoadSrc] = -1 },
		"clusters 1..2":                func(p *Program) { p.Main[0].Insts[0] = Inst{OpBarrier, []int64{0, 1, 2}} },
		"belongs to layer 1":           func(p *Program) { p.Main[0].Layer[0] = 1 },
		"5 layer numbers":              func(p *Program) { p.Main[0].Layer = p.Main[0].Layer[1:] },
		"lie in the constants":         func(p *Program) { p.Inputs[0].Addr = 4090 },
		"negative or too large":        func(p *Program) { p.Inputs[0].Shape = []int{1 << 30, 1 << 30, 1 << 30} },
		"each once":                    func(p *Program) { p.States = []State{{Input: 0}, {Input: 0}} },
		"is of input 1":                func(p *Program) { p.States = []State{{Input: 1}} },
		"replaces 3 of 2 bytes":        func(p *Program) { p.States = []State{{Bytes: 2, New: 3}} },
		"of 9223372036854775807 bytes": func(p *Program) { p.States = []State{{Bytes: math.MaxInt64}} },
		"out of order":                 func(p *Program) { p.Regions = []Region{{5, 5, 0}} },
		"value = 256 is not":           func(p *Program) { p.Main[0].Insts[0] = Inst{OpFill, []int64{0, 1, 0, 1, 0, 1, 256}} },
	} {
		p := tiny()
		breakIt(p)
		err := Validate(p)
		if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("Validate = %v, want one with %q", err, want)
		}
	}
}

// TestValidateOperands refuses operands outside the ranges of their instructions.
func TestValidateOperands(t *testing.T) {
	mvm := make([]int64, len(OpMVM.Info().Operands))
	for i, o := range OpMVM.Info().Operands {
		if o.Kind == KCount {
			mvm[i] = 1
		}
	}
	mvm[MVMWbits] = 8
	types := int64(NumDTypes)
	for _, tt := range []struct {
		op      Op
		args    []int64
		operand int
		bad     []int64
	}{
		{OpWrap, []int64{1, 4, 8}, WrapReg, []int64{-1, 0, NumRegs}},
		{OpWrap, []int64{1, 4, 8}, WrapImm, []int64{-4, 0, maxCount + 1}},
		{OpWrap, []int64{1, 4, 8}, WrapSize, []int64{math.MinInt64, -1, 0}},
		{OpShlAcc, []int64{0, 1, 4}, ShlAccBy, []int64{-1, 0, 32}},
		{OpShlAcc, []int64{0, 1, 4}, ShlAccN, []int64{0, math.MinInt64}},
		{OpPick, []int64{4, 0, 0, 64, 128, 1, 5, 1, 1}, PickSize, []int64{0, 16}},
		{OpPick, []int64{4, 0, 0, 64, 128, 1, 5, 1, 1}, PickType, []int64{-1, types}},
		{OpPick, []int64{4, 0, 0, 64, 128, 1, 5, 1, 1}, PickN, []int64{0, -5}},
		{OpPut, []int64{0, 0, 1, 0, 64, 128, 1, 5, 1, 1}, PutFn, []int64{-1, 256}},
		{OpPut, []int64{0, 0, 1, 0, 64, 128, 1, 5, 1, 1}, PutType, []int64{-1, types}},
		{OpPut, []int64{0, 0, 1, 0, 64, 128, 1, 5, 1, 1}, PutItype, []int64{-1, types}},
		{OpTopK, []int64{0, 0, 64, 1, 0, 1, 2, 1}, TopKType, []int64{-1, types}},
		{OpTopK, []int64{0, 0, 64, 1, 0, 1, 2, 1}, TopKSmallest, []int64{-1, 2}},
		{OpTopK, []int64{0, 0, 64, 1, 0, 1, 2, 1}, TopKK, []int64{0, -1}},
		{OpMVM, mvm, MVMRow0, []int64{-1, 1 << 16}},
		{OpMVM, mvm, MVMShifts, []int64{-1, 2}},
		{OpLoadW, []int64{0, 0, 1, 1, 1, 1, 8, 0, 1, 0}, LoadWShifts, []int64{-1, 2}},
	} {
		try := func(x int64) error {
			p := tiny()
			args := slices.Clone(tt.args)
			args[tt.operand] = x
			p.Main[0].Insts[0] = Inst{tt.op, args}
			return Validate(p)
		}
		if err := try(tt.args[tt.operand]); err != nil {
			t.Errorf("%s %v: %v", tt.op, tt.args, err)
		}
		name := tt.op.Info().Operands[tt.operand].Name
		for _, x := range tt.bad {
			if err := try(x); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), fmt.Sprintf("%s = %d", name, x)) {
				t.Errorf("%s %s = %d: %v", tt.op, name, x, err)
			}
		}
	}
}

func TestAssembleErrors(t *testing.T) {
	for text, want := range map[string]string{
		"":                                   "no line `.isa",
		".isa 999":                           "another version",
		".isa 1\n.frob 1":                    "x.s:2: unknown directive .frob",
		".isa":                               "has 0 fields, expected 1",
		".isa 1\nhalt":                       "x.s:2: an instruction before",
		".isa 1\n.init\nhlt":                 `x.s:3: unknown instruction "hlt"`,
		".isa 1\n.init\nset reg=r16":         "no register",
		".isa 1\n.init\nset reg=r1 x=3":      `set has no operand "x"`,
		".isa 1\n.init\nset r1":              "name=value",
		".isa 1\n.init\nset imm=1 imm=1":     "given twice",
		".isa 1\n.init\nload dst=-4":         "negative",
		".isa 1\n.consts\n.zero 99999999999": "outside",
		".isa 1\n.consts\n*":                 "illegal base64",
		".isa 1\n.model \"x":                 "bad string",
		".isa 1\n.input \"x\" f64 [] 0 0 0":  `unknown type "f64"`,
		".isa 1":                             "0 init and 0 main",
	} {
		text = strings.Replace(text, ".isa 1", fmt.Sprintf(".isa %d", ISAVersion), 1)
		_, err := Assemble(strings.NewReader(text), "x.s")
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: Assemble gives %v, want an error with %q", text, err, want)
		}
	}
}

func FuzzDecode(f *testing.F) {
	good, err := Encode(tiny())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good[headerSize:], []byte{3})
	f.Fuzz(func(t *testing.T, meta, code []byte) {
		// Well-sealed sections of any content, so that the fuzzer gets past the checksums.
		b := bytes.Clone(good[:headerSize])
		le := binary.LittleEndian
		for i, sec := range [numSections][]byte{meta, code, nil} {
			entry := b[offSections+i*sectionSize:]
			le.PutUint64(entry, uint64(len(b)))
			le.PutUint64(entry[8:], uint64(len(sec)))
			le.PutUint32(entry[16:], crc32.Checksum(sec, castagnoli))
			b = append(b, sec...)
		}
		le.PutUint64(b[offLength:], uint64(len(b)))
		le.PutUint32(b[offChecksum:], crc32.Checksum(b[:offChecksum], castagnoli))
		if p, err := Decode(b); err == nil {
			again, err := Encode(p)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := Decode(again); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func FuzzAssemble(f *testing.F) {
	var b bytes.Buffer
	Disassemble(&b, tiny())
	f.Add(b.Bytes())
	f.Fuzz(func(t *testing.T, text []byte) {
		if bytes.Contains(text, []byte(".zero")) {
			t.Skip(".zero expands to more bytes than the fuzzer should write out again; TestAssembleErrors holds its bound")
		}
		p, err := Assemble(bytes.NewReader(text), "fuzz.s")
		if err != nil {
			return
		}
		if err := Disassemble(&b, p); err != nil {
			t.Fatal(err)
		}
		b.Reset()
	})
}

// TestFloatText checks that text keeps the bits of a signalling NaN, which random
// programs seldom have.
func TestFloatText(t *testing.T) {
	for _, bits := range []uint32{0xffb6c4b6, 0x7f800001, 0x7fc00000, 0x80000000, 0x00000001, 0xff800000, 0x3dcccccd} {
		got, err := parseFloat32(formatFloat32(bits))
		if err != nil || got != bits {
			t.Errorf("%#x is written %s and read as %#x (%v)", bits, formatFloat32(bits), got, err)
		}
	}
}
