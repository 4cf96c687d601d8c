package ir

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Parse reads the textual form that Print writes. Constants written as hashes
// are looked up in side, which may be nil when there are none, and shared with
// it. Errors give line and column.
//
// Parse checks the form, that each value is defined once and that ids are dense;
// whether operators fit their operands is for Verify to say. It allocates no
// more than the text has room to fill, whatever sizes the text declares.
func Parse(text string, side Side) (*Graph, error) {
	p := &parser{text: text, side: side, g: &Graph{}, defs: map[ValueID]definition{}}
	if err := p.graph(); err != nil {
		return nil, err
	}
	return p.g, nil
}

// A definition is a value as read, before it is known that ids are dense.
type definition struct {
	value Value
	pos   int
}

// A use is a reference to a value, checked once all are defined.
type use struct {
	id  ValueID
	pos int
}

type parser struct {
	text     string
	pos      int // offset of what comes next
	side     Side
	g        *Graph
	defs     map[ValueID]definition
	uses     []use
	oneShift bool // the blocks at hand have a shift in common
}

// errorAt says what is wrong at an offset of the text.
func (p *parser) errorAt(pos int, format string, args ...any) error {
	before := p.text[:min(pos, len(p.text))]
	line := strings.Count(before, "\n") + 1
	col := utf8.RuneCountInString(before[strings.LastIndexByte(before, '\n')+1:]) + 1
	return fmt.Errorf("%d:%d: %w", line, col, fmt.Errorf(format, args...))
}

// errorNext says that something else was expected here.
func (p *parser) errorNext(want string) error {
	p.space()
	got := "the end of the text"
	if p.pos < len(p.text) {
		word := p.run()
		if word == "" {
			_, n := utf8.DecodeRuneInString(p.text[p.pos:])
			word = p.text[p.pos : p.pos+n]
		}
		if len(word) > 40 {
			word = word[:40] + "…"
		}
		got = strconv.Quote(word)
	}
	return p.errorAt(p.pos, "want %s, found %s", want, got)
}

// space skips blanks and comments.
func (p *parser) space() {
	for p.pos < len(p.text) {
		switch c := p.text[p.pos]; {
		case c == ' ' || c == '\t' || c == '\n' || c == '\r':
			p.pos++
		case strings.HasPrefix(p.text[p.pos:], "//"):
			if n := strings.IndexByte(p.text[p.pos:], '\n'); n >= 0 {
				p.pos += n
			} else {
				p.pos = len(p.text)
			}
		default:
			return
		}
	}
}

// next returns the byte that comes next, 0 at the end.
func (p *parser) next() byte {
	p.space()
	if p.pos < len(p.text) {
		return p.text[p.pos]
	}
	return 0
}

// accept consumes c if it comes next.
func (p *parser) accept(c byte) bool {
	if p.next() != c || p.pos == len(p.text) {
		return false
	}
	p.pos++
	return true
}

func (p *parser) expect(c byte) error {
	if !p.accept(c) {
		return p.errorNext(strconv.Quote(string(c)))
	}
	return nil
}

// run returns the letters, digits, '_', '.', '+' and '-' that come next,
// without consuming them.
func (p *parser) run() string {
	p.space()
	end := p.pos
	for end < len(p.text) {
		c := p.text[end]
		if c|0x20 >= 'a' && c|0x20 <= 'z' || c >= '0' && c <= '9' || c == '_' || c == '.' || c == '+' || c == '-' {
			end++
			continue
		}
		break
	}
	return p.text[p.pos:end]
}

// keyword consumes word if it comes next.
func (p *parser) keyword(word string) bool {
	if p.run() != word {
		return false
	}
	p.pos += len(word)
	return true
}

func (p *parser) quoted() (string, error) {
	p.space()
	q, err := strconv.QuotedPrefix(p.text[p.pos:])
	if err != nil && p.next() == '"' {
		return "", p.errorAt(p.pos, "the quoted name has no end, or an escape that does not exist")
	}
	if err != nil || q[0] != '"' {
		return "", p.errorNext("a name in double quotes")
	}
	s, err := strconv.Unquote(q)
	if err != nil {
		return "", p.errorAt(p.pos, "the quoted name is malformed: %w", err)
	}
	p.pos += len(q)
	return s, nil
}

// integer reads a decimal integer of at most bits bits.
func (p *parser) integer(bits int) (int64, error) {
	word := p.run()
	v, err := strconv.ParseInt(word, 10, bits)
	if err != nil {
		return 0, p.errorNext(fmt.Sprintf("an integer of %d bits", bits))
	}
	p.pos += len(word)
	return v, nil
}

func (p *parser) unsigned(base, bits int) (uint64, error) {
	word := p.run()
	v, err := strconv.ParseUint(word, base, bits)
	if err != nil {
		return 0, p.errorNext(fmt.Sprintf("an unsigned integer of %d bits", bits))
	}
	p.pos += len(word)
	return v, nil
}

// nanBits reads "nan(0x…)" if it comes next.
func (p *parser) nanBits(bits int) (uint64, bool, error) {
	start := p.pos
	if !p.keyword("nan") {
		return 0, false, nil
	}
	if err := p.expect('('); err != nil {
		return 0, false, err
	}
	v, err := p.unsigned(0, bits)
	if err != nil {
		return 0, false, err
	}
	if bits == 32 && !math.IsNaN(float64(math.Float32frombits(uint32(v)))) || bits == 64 && !math.IsNaN(math.Float64frombits(v)) {
		return 0, false, p.errorAt(start, "%#x are not the bits of a NaN", v)
	}
	return v, true, p.expect(')')
}

func (p *parser) float(bits int) (float64, error) {
	word := p.run()
	v, err := strconv.ParseFloat(word, bits)
	if err != nil || v != v {
		return 0, p.errorNext(fmt.Sprintf("a float of %d bits", bits))
	}
	p.pos += len(word)
	return v, nil
}

func (p *parser) f32() (float32, error) {
	if b, ok, err := p.nanBits(32); ok || err != nil {
		return math.Float32frombits(uint32(b)), err
	}
	v, err := p.float(32)
	return float32(v), err
}

func (p *parser) f64() (float64, error) {
	if b, ok, err := p.nanBits(64); ok || err != nil {
		return math.Float64frombits(b), err
	}
	return p.float(64)
}

// list reads open, items separated by commas, and the closing bracket.
func list[T any](p *parser, open, close byte, item func() (T, error)) ([]T, error) {
	if err := p.expect(open); err != nil {
		return nil, err
	}
	var out []T
	for !p.accept(close) {
		if len(out) > 0 {
			if !p.accept(',') {
				return nil, p.errorNext(fmt.Sprintf("',' or %q", close))
			}
		}
		v, err := item()
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, nil
}

func (p *parser) dim() (int, error) {
	v, err := p.integer(strconv.IntSize)
	return int(v), err
}

func (p *parser) zero() (int32, error) {
	v, err := p.integer(32)
	return int32(v), err
}

// shift reads the shift of a block.
func (p *parser) shift() (uint8, error) {
	at := p.pos
	v, err := p.integer(32)
	if err == nil && (v < 0 || v > MaxShift) {
		err = p.errorAt(at, "shift %d, want 0 to %d", v, MaxShift)
	}
	return uint8(v), err
}

// typ reads an element type, a shape, and a quantisation when there is one.
func (p *parser) typ() (Type, error) {
	word := p.run()
	d, ok := ParseDType(word)
	if !ok {
		return Type{}, p.errorNext("an element type, such as f32")
	}
	p.pos += len(word)
	shape, err := list(p, '[', ']', p.dim)
	if err != nil {
		return Type{}, err
	}
	t := TypeOf(d, shape...)
	if p.run() == "scale" {
		t.Quant, err = p.quant()
	}
	if err == nil && t.Quant != nil && t.Quant.Block > 0 && p.oneShift {
		err = p.sameShifts(t)
	}
	return t, err
}

// mostShifts bounds the shifts that a single one in the text may stand for.
const mostShifts = 1 << 28

// sameShifts gives all blocks of t the one shift that was read.
func (p *parser) sameShifts(t Type) error {
	q := t.Quant
	codes := t.Numel()
	if q.Axis < 0 || q.Axis >= len(t.Shape) || t.Shape[q.Axis] < 1 || codes < 1 {
		return p.errorNext("an axis of channels for the blocks")
	}
	channels := t.Shape[q.Axis]
	if n := float64(channels) * float64(q.BlocksOf(codes/channels)); n > mostShifts {
		return p.errorNext(fmt.Sprintf("at most %d blocks", mostShifts))
	}
	q.Shift = slices.Repeat(q.Shift, channels*q.BlocksOf(codes/channels))
	return nil
}

func (p *parser) quant() (*Quant, error) {
	q := &Quant{Axis: -1}
	var err error
	if err := p.key("scale"); err != nil {
		return nil, err
	}
	if q.Scale, err = bareOrList(p, p.f32); err != nil {
		return nil, err
	}
	if err := p.key("zero"); err != nil {
		return nil, err
	}
	bare := p.next() != '['
	if q.Zero, err = bareOrList(p, p.zero); err != nil {
		return nil, err
	}
	if p.run() == "axis" {
		p.pos += len("axis")
		if err := p.expect('='); err != nil {
			return nil, err
		}
		if q.Axis, err = p.dim(); err != nil {
			return nil, err
		}
		if bare && len(q.Scale) > 0 { // one zero point for all
			q.Zero = slices.Repeat(q.Zero, len(q.Scale))
		}
	}
	if p.run() != "block" {
		return q, nil
	}
	p.pos += len("block")
	if err := p.expect('='); err != nil {
		return nil, err
	}
	if q.Block, err = p.dim(); err != nil {
		return nil, err
	}
	if err := p.key("shift"); err != nil {
		return nil, err
	}
	p.oneShift = p.next() != '['
	q.Shift, err = bareOrList(p, p.shift)
	return q, err
}

func (p *parser) key(word string) error {
	if !p.keyword(word) {
		return p.errorNext(strconv.Quote(word))
	}
	return p.expect('=')
}

func bareOrList[T any](p *parser, item func() (T, error)) ([]T, error) {
	if p.next() == '[' {
		return list(p, '[', ']', item)
	}
	v, err := item()
	return []T{v}, err
}

// attr reads the attributes of an operator over its defaults.
func (p *parser) attr(k OpKind) (Attr, error) {
	a := cloneAttr(Info(k).Attr)
	open := p.next() == '{'
	switch {
	case a == nil && open:
		return nil, p.errorAt(p.pos, "%s takes no attributes", k)
	case a == nil:
		return nil, nil
	case !open:
		t := reflect.TypeOf(a).Elem()
		for i := range t.NumField() {
			if name, opt := fieldTag(t, i); !opt {
				return nil, p.errorAt(p.pos, "%s needs an attribute %s", k, name)
			}
		}
		return a, nil
	}
	return a, p.fields(reflect.ValueOf(a).Elem())
}

// fields reads "{name=value, …}" into a struct that holds the defaults.
func (p *parser) fields(v reflect.Value) error {
	p.space()
	start := p.pos
	names, seen := make([]string, v.NumField()), make([]bool, v.NumField())
	for i := range names {
		names[i], _ = fieldTag(v.Type(), i)
	}
	_, err := list(p, '{', '}', func() (struct{}, error) {
		i := slices.Index(names, p.run())
		switch {
		case i < 0:
			return struct{}{}, p.errorNext("one of " + strings.Join(names, ", "))
		case seen[i]:
			return struct{}{}, p.errorAt(p.pos, "%s is given twice", names[i])
		}
		seen[i] = true
		if err := p.key(names[i]); err != nil {
			return struct{}{}, err
		}
		return struct{}{}, p.value(v.Field(i))
	})
	for i, name := range names {
		if _, opt := fieldTag(v.Type(), i); err == nil && !opt && !seen[i] {
			err = p.errorAt(start, "%s is missing", name)
		}
	}
	return err
}

// value reads one attribute into a field.
func (p *parser) value(v reflect.Value) error {
	switch x := v.Addr().Interface().(type) {
	case *float32:
		f, err := p.f32()
		*x = f
		return err
	case *float64:
		f, err := p.f64()
		*x = f
		return err
	case *int:
		i, err := p.dim()
		*x = i
		return err
	case *bool:
		*x = p.run() == "true"
		if !p.keyword("true") && !p.keyword("false") {
			return p.errorNext("true or false")
		}
		return nil
	case *PadMode:
		i := slices.Index(padModeNames[:], p.run())
		if i < 0 {
			return p.errorNext("one of " + strings.Join(padModeNames[:], ", "))
		}
		*x = PadMode(i)
		p.pos += len(padModeNames[i])
		return nil
	case *ScatterMode:
		i := slices.Index(scatterModeNames[:], p.run())
		if i < 0 {
			return p.errorNext("one of " + strings.Join(scatterModeNames[:], ", "))
		}
		*x = ScatterMode(i)
		p.pos += len(scatterModeNames[i])
		return nil
	case *SampleMode:
		i := slices.Index(sampleModeNames[:], p.run())
		if i < 0 {
			return p.errorNext("one of " + strings.Join(sampleModeNames[:], ", "))
		}
		*x = SampleMode(i)
		p.pos += len(sampleModeNames[i])
		return nil
	case *SampleEdge:
		i := slices.Index(sampleEdgeNames[:], p.run())
		if i < 0 {
			return p.errorNext("one of " + strings.Join(sampleEdgeNames[:], ", "))
		}
		*x = SampleEdge(i)
		p.pos += len(sampleEdgeNames[i])
		return nil
	case *[]int:
		s, err := list(p, '[', ']', p.dim)
		*x = s
		return err
	case **Act:
		if p.keyword("none") {
			*x = nil
			return nil
		}
		*x = &Act{}
		return p.fields(v.Elem())
	}
	// What is left are arrays of integers.
	p.space()
	start := p.pos
	s, err := list(p, '[', ']', p.dim)
	if err == nil && len(s) != v.Len() {
		err = p.errorAt(start, "want %d numbers, found %d", v.Len(), len(s))
	}
	if err == nil {
		reflect.Copy(v, reflect.ValueOf(s))
	}
	return err
}

func (p *parser) id() (ValueID, error) {
	if err := p.expect('%'); err != nil {
		return 0, err
	}
	v, err := p.unsigned(10, 31)
	return ValueID(v), err
}

// operand reads a reference to a value, which may be defined later.
func (p *parser) operand() (ValueID, error) {
	p.space()
	start := p.pos
	id, err := p.id()
	p.uses = append(p.uses, use{id, start})
	return id, err
}

func (p *parser) graph() error {
	if !p.keyword("graph") {
		return p.errorNext("\"graph\"")
	}
	var err error
	if p.g.Name, err = p.quoted(); err != nil {
		return err
	}
	if err := p.expect('{'); err != nil {
		return err
	}
	for !p.accept('}') {
		if p.keyword("output") {
			err = p.outputs()
		} else {
			err = p.definition()
		}
		if err != nil {
			return err
		}
	}
	if p.next() != 0 || p.pos < len(p.text) {
		return p.errorNext("the end of the text")
	}
	return p.finish()
}

func (p *parser) outputs() error {
	for {
		id, err := p.operand()
		if err != nil {
			return err
		}
		p.g.Outputs = append(p.g.Outputs, id)
		if !p.accept(',') {
			return nil
		}
	}
}

// definition reads a line that defines a value.
func (p *parser) definition() error {
	p.space()
	start := p.pos
	if p.next() != '%' {
		return p.errorNext("a definition (%0 = …), \"output\" or \"}\"")
	}
	id, err := p.id()
	if err != nil {
		return err
	}
	if d, ok := p.defs[id]; ok {
		return p.errorAt(start, "%s is defined twice, before in line %d", id, strings.Count(p.text[:d.pos], "\n")+1)
	}
	v := Value{Def: -1}
	named := p.next() == '"'
	if named {
		if v.Name, err = p.quoted(); err != nil {
			return err
		}
	}
	if err := p.expect('='); err != nil {
		return err
	}
	word := p.run()
	switch kind, ok := ParseOpKind(word); {
	case ok:
		p.pos += len(word)
		err = p.op(kind, id, &v, named)
	case named:
		return p.errorNext("an operator")
	case p.keyword("input"):
		p.g.Inputs = append(p.g.Inputs, id)
		err = p.nameAndType(&v)
	case p.keyword("const"):
		if err = p.nameAndType(&v); err == nil {
			v.Const, err = p.constant(v.Type)
		}
	default:
		return p.errorNext("input, const or an operator")
	}
	p.defs[id] = definition{v, start}
	return err
}

func (p *parser) nameAndType(v *Value) error {
	var err error
	if v.Name, err = p.quoted(); err != nil {
		return err
	}
	if err = p.expect(':'); err != nil {
		return err
	}
	v.Type, err = p.typ()
	return err
}

// op reads what follows an operator's mnemonic.
func (p *parser) op(kind OpKind, id ValueID, v *Value, named bool) error {
	op := Op{Kind: kind, Out: id}
	for first := true; first || p.accept(','); first = false {
		if p.keyword("_") {
			op.In = append(op.In, NoValue)
			continue
		}
		if first && p.next() != '%' {
			break
		}
		in, err := p.operand()
		if err != nil {
			return err
		}
		op.In = append(op.In, in)
	}
	var err error
	if op.Attr, err = p.attr(kind); err != nil {
		return err
	}
	if err = p.expect(':'); err != nil {
		return err
	}
	if v.Type, err = p.typ(); err != nil {
		return err
	}
	if p.accept('@') {
		if op.Name, err = p.quoted(); err != nil {
			return err
		}
	}
	if !named {
		v.Name = op.Name
	}
	v.Def = int32(len(p.g.Ops))
	p.g.Ops = append(p.g.Ops, op)
	return nil
}

// finish moves the definitions into the graph, whose ids must be dense.
func (p *parser) finish() error {
	n := len(p.defs)
	for _, u := range p.uses {
		if _, ok := p.defs[u.id]; !ok {
			return p.errorAt(u.pos, "%s is not defined", u.id)
		}
	}
	p.g.Values = make([]Value, n)
	for id := range ValueID(n) {
		d, ok := p.defs[id]
		if !ok {
			return p.errorAt(len(p.text), "%d values are defined but not %s: ids must be dense", n, id)
		}
		p.g.Values[id] = d.value
	}
	return nil
}

// constant reads the elements of a constant, or its hash.
func (p *parser) constant(t Type) (*Tensor, error) {
	p.space()
	start := p.pos
	if p.keyword("sha256") {
		if err := p.expect(':'); err != nil {
			return nil, err
		}
		sum := p.run()
		p.pos += len(sum)
		c, ok := p.side[sum]
		if !ok {
			return nil, p.errorAt(start, "the side file has no constant sha256:%s", sum)
		}
		if !c.Type().Equal(t.WithQuant(nil)) {
			return nil, p.errorAt(start, "constant sha256:%s is %s, the text says %s", sum, c.Type(), t.WithQuant(nil))
		}
		return c, nil
	}
	if err := validShape(t.Shape); err != nil {
		return nil, p.errorAt(start, "constant: %w", err)
	}
	if p.keyword("described") {
		std, err := p.described()
		return Describe(t.DType, std, t.Shape...), err
	}
	data, n, err := p.elems(t.DType)
	if err != nil {
		return nil, err
	}
	if n != t.Numel() {
		return nil, p.errorAt(start, "%s has %d elements, found %d", t.WithQuant(nil), t.Numel(), n)
	}
	return &Tensor{DType: t.DType, Shape: t.Shape, data: data}, nil
}

// described reads what stands in place of the elements of a described constant.
func (p *parser) described() (float32, error) {
	p.space()
	if !p.keyword("std") {
		return 0, p.errorAt(p.pos, "a described constant is written: described std=0.02")
	}
	if err := p.expect('='); err != nil {
		return 0, err
	}
	return p.f32()
}

// elems reads the elements of a constant and counts them.
func (p *parser) elems(d DType) (any, int, error) {
	switch d {
	case F32:
		return elemList(p, p.f32)
	case F64:
		return elemList(p, p.f64)
	case F16, BF16:
		return elemList(p, func() (uint16, error) { v, err := p.unsigned(0, 16); return uint16(v), err })
	case I4, I8:
		return elemList(p, func() (int8, error) { v, err := p.integer(8); return int8(v), err })
	case I16:
		return elemList(p, func() (int16, error) { v, err := p.integer(16); return int16(v), err })
	case I32:
		return elemList(p, p.zero)
	case I64:
		return elemList(p, func() (int64, error) { return p.integer(64) })
	case U4, U8, Bool:
		return elemList(p, func() (uint8, error) { v, err := p.unsigned(10, 8); return uint8(v), err })
	case U16:
		return elemList(p, func() (uint16, error) { v, err := p.unsigned(10, 16); return uint16(v), err })
	case U32:
		return elemList(p, func() (uint32, error) { v, err := p.unsigned(10, 32); return uint32(v), err })
	}
	return elemList(p, func() (uint64, error) { return p.unsigned(10, 64) })
}

func elemList[T Elem](p *parser, item func() (T, error)) (any, int, error) {
	s, err := list(p, '{', '}', item)
	return s, len(s), err
}
