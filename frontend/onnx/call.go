package onnx

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"situ/frontend/onnx/onnxpb"
	"situ/ir"
)

// call is one node being translated. Its methods read operands and attributes
// and add operators; the first failure is kept in err, after which they do
// nothing, so a translation reads as straight-line code.
type call struct {
	*importer
	proto *onnxpb.NodeProto
	opset int64
	in    []*value // nil where an optional input is absent
	out   []*value
	read  map[string]bool // attributes that have been looked at
	err   error
}

// unsupportedError says that a valid node uses something that has no translation.
type unsupportedError struct{ reason string }

func (e *unsupportedError) Error() string { return e.reason }

func (c *call) failf(format string, args ...any) {
	if c.err == nil {
		c.err = fmt.Errorf(format, args...)
	}
}

func (c *call) unsupportedf(format string, args ...any) {
	if c.err == nil {
		c.err = &unsupportedError{fmt.Sprintf(format, args...)}
	}
}

// complete refuses results that are wanted but have no translation, and
// attributes that were not looked at.
func (c *call) complete() {
	for i, v := range c.out {
		if v == nil && c.used[c.proto.Output[i]] {
			c.unsupportedf("its result %d", i)
		}
	}
	if c.err == nil {
		c.err = c.unread()
	}
}

// bind gives the results their names. Values of the graph from first on were
// made by this node; others are merely passed on.
func (c *call) bind(first int) {
	for i, name := range c.proto.Output {
		v := c.out[i]
		if name == "" || v == nil {
			continue
		}
		if int(v.id) >= first {
			c.graph.Value(v.id).Name = c.prefix + name
		}
		if v.name == "" {
			v.name = name
		}
		c.env[name] = v
	}
}

// ---- Results.

// set makes a value of the graph the node's result.
func (c *call) set(id ir.ValueID) { c.setN(0, id) }

func (c *call) setN(i int, id ir.ValueID) {
	if c.err == nil && i < len(c.out) {
		c.out[i] = &value{id: id}
	}
}

// setConst makes a constant computed at import the node's result.
func (c *call) setConst(t *ir.Tensor) { c.pass(c.made(t)) }

// pass makes an operand the node's result.
func (c *call) pass(v *value) {
	if c.err == nil {
		c.out[0] = v
	}
}

// add appends an operator.
func (c *call) add(kind ir.OpKind, attr ir.Attr, in ...ir.ValueID) ir.ValueID {
	if kind.Is(ir.FloatOnly) && !c.typ(in[0]).DType.IsFloat() {
		c.unsupportedf("%s of %s", kind, c.typ(in[0]).DType)
	}
	if c.err != nil {
		return ir.NoValue
	}
	if a, ok := attr.(*ir.AxisAttr); ok && kind == ir.Gather {
		in[1] = c.indices(in[1], c.typ(in[0]).Shape, a.Axis)
	}
	id, err := c.graph.Add(kind, c.name(), attr, in...)
	if err != nil {
		c.err = err
	}
	return id
}

// indices returns the indices of a Gather along an axis of shape. Constants are
// checked, and those that count from the end are resolved.
func (c *call) indices(id ir.ValueID, shape []int, axis int) ir.ValueID {
	if !c.graph.IsConst(id) {
		return id
	}
	t := c.graph.Value(id).Const
	if !holdsInts(t.DType) || axis < 0 || axis >= len(shape) {
		return id
	}
	n := int64(shape[axis])
	list, negative := int64s(t), false
	for _, i := range list {
		if i < -n || i >= n {
			c.failf("index %d is outside dimension %d of %v", i, axis, shape)
			return id
		}
		negative = negative || i < 0
	}
	if !negative {
		return id
	}
	list = slices.Clone(list)
	for k, i := range list {
		if i < 0 {
			list[k] = i + n
		}
	}
	return c.constant("", ir.NewTensor(ir.I64, t.Shape, list), nil)
}

// addTyped appends an operator with a stated result type.
func (c *call) addTyped(kind ir.OpKind, attr ir.Attr, t ir.Type, in ...ir.ValueID) ir.ValueID {
	if c.err != nil {
		return ir.NoValue
	}
	id, err := c.graph.AddTyped(kind, c.name(), attr, t, in...)
	if err != nil {
		c.err = err
	}
	return id
}

// name is what the operators made from this node are called.
func (c *call) name() string {
	if c.proto.Name != "" {
		return c.prefix + c.proto.Name
	}
	return c.prefix + c.proto.Output[0]
}

// constant adds a constant; without a name it is called after the node.
func (c *call) constant(name string, t *ir.Tensor, q *ir.Quant) ir.ValueID {
	if c.err != nil {
		return ir.NoValue
	}
	if err := ir.ValidType(t.Type().WithQuant(q)); err != nil {
		c.err = err
		return ir.NoValue
	}
	if name == "" {
		name = c.name()
	}
	return c.graph.AddConst(name, t, q)
}

// scalar adds a floating-point constant of the given type that broadcasts.
func (c *call) scalar(d ir.DType, v float64) ir.ValueID {
	if !holdsFloats(d) && !d.IsInt() {
		c.unsupportedf("arithmetic on %s", d)
		return ir.NoValue
	}
	return c.constant("", fromFloats(d, nil, []float64{v}), nil)
}

// ---- Operands.

// operand returns operand i, nil when it is absent.
func (c *call) operand(i int) *value {
	if i >= len(c.in) {
		return nil
	}
	return c.in[i]
}

// id returns operand i as a value of the graph, NoValue when it is absent.
func (c *call) id(i int) ir.ValueID {
	if c.err != nil || c.operand(i) == nil {
		return ir.NoValue
	}
	id, err := c.materialise(c.in[i])
	if err != nil {
		c.err = err
	}
	return id
}

// plain is id for operators that compute with the integers themselves: codes
// lose the meaning a quantisation gave them.
func (c *call) plain(i int) ir.ValueID { return c.unquantised(c.id(i)) }

func (c *call) unquantised(id ir.ValueID) ir.ValueID {
	if t := c.typ(id); t.Quant != nil {
		return c.addTyped(ir.Reinterpret, nil, t.WithQuant(nil), id)
	}
	return id
}

// typ returns the type of a value of the graph.
func (c *call) typ(id ir.ValueID) ir.Type {
	if c.err != nil || id == ir.NoValue {
		return ir.TypeOf(ir.F32)
	}
	return c.graph.Type(id)
}

// typeOf returns the type of an operand without adding it to the graph.
func (c *call) typeOf(v *value) ir.Type {
	switch {
	case v.id != ir.NoValue:
		return c.graph.Type(v.id)
	case v.quant != nil:
		return ir.TypeOf(ir.F32, v.tensor.Shape...)
	}
	return v.tensor.Type()
}

// tensor returns operand i, which must be a constant; what names it in errors.
func (c *call) tensor(i int, what string) *ir.Tensor {
	if c.err != nil {
		return nil
	}
	v := c.operand(i)
	if v == nil {
		c.failf("the operand %s is missing", what)
		return nil
	}
	if !v.isConst() {
		c.dataf("%s must be a constant", what)
		return nil
	}
	return v.tensor
}

// intsOperand returns the elements of a constant integer operand; ok is false
// when it is absent.
func (c *call) intsOperand(i int, what string) (v []int64, ok bool) {
	if c.err != nil || c.operand(i) == nil {
		return nil, false
	}
	t := c.tensor(i, what)
	if c.err != nil {
		return nil, false
	}
	if len(t.Shape) > 1 || !holdsInts(t.DType) {
		c.failf("%s is %s %v, want a list of integers", what, t.DType, t.Shape)
		return nil, false
	}
	return int64s(t), true
}

// floatsOperand returns the elements of a constant floating-point operand.
func (c *call) floatsOperand(i int, what string) []float64 {
	t := c.tensor(i, what)
	if c.err != nil {
		return nil
	}
	if !holdsFloats(t.DType) {
		c.unsupportedf("%s of type %s", what, t.DType)
		return nil
	}
	return float64s(t)
}

// axis resolves a possibly negative axis of a value of the given rank.
func (c *call) axis(a int64, rank int) int {
	if a < -int64(rank) || a >= int64(rank) {
		c.failf("axis %d is outside the %d dimensions", a, rank)
		return 0
	}
	if a < 0 {
		a += int64(rank)
	}
	return int(a)
}

// axes resolves a list of axes to ascending order, refusing repetitions.
func (c *call) axes(list []int64, rank int) []int {
	out := make([]int, 0, len(list))
	for _, a := range list {
		x := c.axis(a, rank)
		if c.err == nil && slices.Contains(out, x) {
			c.failf("axis %d appears twice", a)
		}
		out = append(out, x)
	}
	slices.Sort(out)
	return out
}

// ---- Attributes. Each is looked up once; unread complains about the others.

func (c *call) attr(name string, want onnxpb.AttributeProto_AttributeType) *onnxpb.AttributeProto {
	c.read[name] = true
	for _, a := range c.proto.Attribute {
		if a.Name != name {
			continue
		}
		if a.RefAttrName != "" {
			c.unsupportedf("attribute %s refers to a function's attribute", name)
			return nil
		}
		if a.Type != want {
			c.failf("attribute %s is of type %v, want %v", name, a.Type, want)
			return nil
		}
		return a
	}
	return nil
}

func (c *call) int(name string, def int64) int64 {
	if a := c.attr(name, onnxpb.AttributeProto_INT); a != nil {
		return a.I
	}
	return def
}

func (c *call) bool(name string, def bool) bool {
	d := int64(0)
	if def {
		d = 1
	}
	return c.int(name, d) != 0
}

// ints returns a list attribute; ok is false when it is absent.
func (c *call) ints(name string) (v []int64, ok bool) {
	if a := c.attr(name, onnxpb.AttributeProto_INTS); a != nil {
		return a.Ints, true
	}
	return nil, false
}

func (c *call) float(name string, def float32) float32 {
	if a := c.attr(name, onnxpb.AttributeProto_FLOAT); a != nil {
		return a.F
	}
	return def
}

// floats returns a list attribute, nil when it is absent.
func (c *call) floats(name string) []float32 {
	if a := c.attr(name, onnxpb.AttributeProto_FLOATS); a != nil {
		return a.Floats
	}
	return nil
}

// strings returns a list attribute, nil when it is absent.
func (c *call) strings(name string) []string {
	var list []string
	if a := c.attr(name, onnxpb.AttributeProto_STRINGS); a != nil {
		for _, s := range a.Strings {
			list = append(list, string(s))
		}
	}
	return list
}

func (c *call) str(name, def string) string {
	if a := c.attr(name, onnxpb.AttributeProto_STRING); a != nil {
		return string(a.S)
	}
	return def
}

// ignore marks attributes that have no effect on the result.
func (c *call) ignore(names ...string) {
	for _, n := range names {
		c.read[n] = true
	}
}

// unread reports attributes that the translation knows nothing about, for they
// might change the meaning.
func (c *call) unread() error {
	var names []string
	given := make(map[string]bool, len(c.proto.Attribute))
	for _, a := range c.proto.Attribute {
		if given[a.Name] {
			return fmt.Errorf("attribute %s is given twice", a.Name)
		}
		given[a.Name] = true
		if !c.read[a.Name] {
			names = append(names, a.Name)
		}
	}
	if names == nil {
		return nil
	}
	slices.Sort(names)
	if len(names) > maxReported {
		names = append(names[:maxReported], fmt.Sprintf("and %d more", len(names)-maxReported))
	}
	return &unsupportedError{"unknown attribute " + strings.Join(names, ", ")}
}

// smallInt converts an attribute that counts something to an int.
func (c *call) smallInt(what string, v int64) int {
	if v < math.MinInt32 || v > math.MaxInt32 {
		c.failf("%s %d is out of range", what, v)
		return 0
	}
	return int(v)
}

// ---- Common steps.

func (c *call) reshape(id ir.ValueID, shape ...int) ir.ValueID {
	if slices.Equal(c.typ(id).Shape, shape) {
		return id
	}
	return c.add(ir.Reshape, &ir.ShapeAttr{Shape: shape}, id)
}

func (c *call) transpose(id ir.ValueID, perm ...int) ir.ValueID {
	return c.add(ir.Transpose, &ir.PermAttr{Perm: perm}, id)
}

// part returns size entries of a dimension, from one on.
func (c *call) part(id ir.ValueID, axis, from, size int) ir.ValueID {
	s := c.typ(id).Shape
	if c.err == nil && (axis >= len(s) || from < 0 || size < 0 || from > s[axis]-size) {
		c.failf("%d entries from %d on of dimension %d of %v", size, from, axis, s)
	}
	if c.err != nil || size == s[axis] {
		return id
	}
	a := &ir.SliceAttr{Starts: make([]int, len(s)), Steps: slices.Repeat([]int{1}, len(s)), Sizes: slices.Clone(s)}
	a.Starts[axis], a.Sizes[axis] = from, size
	return c.add(ir.Slice, a, id)
}

// permuted returns a value with its dimensions permuted; constants, quantised
// ones too, are permuted at once.
func (c *call) permuted(v *value, perm ...int) *value {
	if c.err != nil {
		return v
	}
	if v.tensor == nil {
		return &value{id: c.transpose(v.id, perm...)}
	}
	if v.quant != nil && v.quant.Block > 0 { // whose order is not any
		return &value{id: c.transpose(c.use(v), perm...)}
	}
	out := *v
	out.id = ir.NoValue
	out.tensor = c.permutedTensor(v, perm)
	if q := v.quant; q != nil && !q.IsPerTensor() {
		out.quant = &ir.Quant{Scale: q.Scale, Zero: q.Zero, Axis: slices.Index(perm, q.Axis)}
	}
	return &out
}

// permutedTensor permutes a constant once, however many nodes want it.
func (c *call) permutedTensor(v *value, perm []int) *ir.Tensor {
	key := permutation{v.tensor, fmt.Sprint(perm)}
	t := c.permutations[key]
	if t == nil {
		t = permute(v.tensor, perm, v.uniform)
		c.permutations[key] = t
	}
	return t
}

// use returns a value made on the way as a value of the graph.
func (c *call) use(v *value) ir.ValueID {
	if c.err != nil {
		return ir.NoValue
	}
	id, err := c.materialise(v)
	if err != nil {
		c.err = err
	}
	return id
}

// toNHWC brings an image or a sequence to [N,H,W,C]; sequences have H = 1.
// fromNHWC is its inverse.
func (c *call) toNHWC(id ir.ValueID) ir.ValueID {
	s := c.typ(id).Shape
	switch len(s) {
	case 3:
		id = c.reshape(id, s[0], s[1], 1, s[2])
	case 4:
	default:
		c.unsupportedf("operand of shape %v: only 1-D and 2-D windows over [N,C,W] and [N,C,H,W] are supported", s)
	}
	return c.transpose(id, 0, 2, 3, 1)
}

func (c *call) fromNHWC(id ir.ValueID, rank int) ir.ValueID {
	id = c.transpose(id, 0, 3, 1, 2)
	if s := c.typ(id).Shape; c.err == nil && rank == 3 {
		id = c.reshape(id, s[0], s[1], s[3])
	}
	return id
}
