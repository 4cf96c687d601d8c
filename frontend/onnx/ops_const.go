package onnx

import (
	"math"
	"slices"

	"situ/frontend/onnx/onnxpb"
	"situ/ir"
)

// maxFilled bounds the bytes of all constants that a model asks for without
// holding their elements.
const maxFilled = 1 << 30

func constant(c *call) {
	attrs := c.proto.Attribute
	if len(attrs) != 1 {
		c.failf("has %d attributes, want exactly one value", len(attrs))
		return
	}
	a := attrs[0]
	c.ignore(a.Name)
	if a.RefAttrName != "" {
		c.unsupportedf("attribute %s refers to a function's attribute", a.Name)
		return
	}
	var t *ir.Tensor
	var err error
	switch a.Name {
	case "value":
		if a.T == nil {
			c.failf("the attribute value holds no tensor")
			return
		}
		if t, err = c.files.decode(a.T); err != nil {
			c.failf("value: %w", err)
			return
		}
	case "value_int":
		t = ir.NewTensor(ir.I64, nil, []int64{a.I})
	case "value_ints":
		t = ir.NewTensor(ir.I64, []int{len(a.Ints)}, a.Ints)
	case "value_float":
		t = ir.NewTensor(ir.F32, nil, []float32{a.F})
	case "value_floats":
		t = ir.NewTensor(ir.F32, []int{len(a.Floats)}, a.Floats)
	default:
		c.unsupportedf("attribute %s", a.Name)
	}
	c.pass(&value{id: ir.NoValue, tensor: t})
}

func constantOfShape(c *call) {
	list, _ := c.intsOperand(0, "shape")
	shape := c.sizes(list)
	one := ir.NewTensor(ir.F32, []int{1}, []float32{0})
	if a := c.attr("value", onnxpb.AttributeProto_TENSOR); a != nil && a.T != nil {
		var err error
		if one, err = c.files.decode(a.T); err != nil {
			c.failf("value: %w", err)
		} else if one.Numel() != 1 {
			c.failf("value has %d elements, want 1", one.Numel())
		}
	}
	if c.err != nil {
		return
	}
	if t := c.filledTensor(one, shape); t != nil {
		c.pass(&value{id: ir.NoValue, tensor: t, uniform: true})
	}
}

// fill is the bits of a number that float32 constants are filled with.
type fill uint32

// filledTensor repeats the single element of one. Float32 constants of the same
// number share their elements.
func (c *call) filledTensor(one *ir.Tensor, shape []int) *ir.Tensor {
	n := ir.Numel(shape)
	var key fill
	d, isF32 := one.Any().([]float32)
	if isF32 {
		key = fill(math.Float32bits(d[0]))
		if b := c.fills[key]; n <= len(b) {
			return ir.NewTensor(ir.F32, shape, b[:n:n])
		}
	}
	c.filled += int64(n) * int64((one.DType.Bits()+7)/8)
	if c.filled > maxFilled {
		c.failf("constants filled with one value take more than %d bytes", maxFilled)
		return nil
	}
	if !isF32 {
		return take(one, shape, make([]int, n))
	}
	b := slices.Repeat(d, n)
	c.fills[key] = b
	return ir.NewTensor(ir.F32, shape, b)
}

// shape is known at import, as all shapes are.
func shape(c *call) {
	s := c.typeOf(c.in[0]).Shape
	n := int64(len(s))
	clamp := func(v int64) int64 {
		if v < 0 {
			v += n
		}
		return min(max(v, 0), n)
	}
	start, end := clamp(c.int("start", 0)), clamp(c.int("end", n))
	out := []int64{}
	for i := start; i < end; i++ {
		out = append(out, int64(s[i]))
	}
	c.setConst(ir.NewTensor(ir.I64, []int{len(out)}, out))
}

func size(c *call) {
	n := ir.Numel(c.typeOf(c.in[0]).Shape)
	c.setConst(ir.NewTensor(ir.I64, nil, []int64{int64(n)}))
}

func rangeOp(c *call) {
	var t [3]*ir.Tensor // start, limit, step
	for i, what := range []string{"start", "limit", "delta"} {
		if t[i] = c.tensor(i, what); c.err != nil {
			return
		}
		if t[i].Numel() != 1 || t[i].DType != t[0].DType || !holdsInts(t[i].DType) && !holdsFloats(t[i].DType) {
			c.failf("%s is %s %v, want a number of the type of start", what, t[i].DType, t[i].Shape)
			return
		}
	}
	number := func(i int) float64 {
		if holdsInts(t[i].DType) {
			return float64(int64s(t[i])[0])
		}
		return float64s(t[i])[0]
	}
	start, limit, step := number(0), number(1), number(2)
	count := math.Ceil((limit - start) / step)
	if !(count <= maxFold) {
		c.failf("from %v to %v by %v: more than %d elements", start, limit, step, maxFold)
		return
	}
	v := make([]float64, max(0, int(count)))
	for i := range v {
		v[i] = start + float64(i)*step
	}
	c.setConst(fromFloats(t[0].DType, []int{len(v)}, v))
}
