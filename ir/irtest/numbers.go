package irtest

import (
	"math/rand/v2"
	"slices"

	"pgregory.net/rapid"

	"situ/ir"
)

// numberTypes are the element types of the graphs that Numbers draws.
var numberTypes = []ir.DType{ir.I8, ir.U8, ir.I16, ir.U16, ir.I32, ir.U32, ir.I64, ir.U64, ir.Bool, ir.F32}

// Numbers returns a random graph of plain numbers as models have them around
// their quantised part: integer and bool inputs, casts, arithmetic, comparisons,
// masks, movements, look-ups by computed indices in range, and float32 products.
// Every value that nothing uses is an output. The inputs are random.
func Numbers(t *rapid.T) (*ir.Graph, []*ir.Tensor) {
	n := &numbers{t: t, g: &ir.Graph{Name: "numbers"}, rng: rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 2))}
	var in []*ir.Tensor
	for range n.upTo("inputs", 3) {
		x := n.tensor(n.dtype(), n.shape()...)
		in = append(in, x)
		n.values = append(n.values, n.g.AddInput("x", ir.TypeOf(x.DType, x.Shape...)))
	}
	for range n.upTo("operators", 10) {
		n.step()
	}
	for id, uses := range n.g.Uses() {
		if uses == 0 && n.g.Value(ir.ValueID(id)).Const == nil {
			n.g.Outputs = append(n.g.Outputs, ir.ValueID(id))
		}
	}
	return n.g, in
}

type numbers struct {
	t      *rapid.T
	g      *ir.Graph
	rng    *rand.Rand // contents of tensors
	values []ir.ValueID
}

func (n *numbers) upTo(label string, most int) int { return rapid.IntRange(1, most).Draw(n.t, label) }

func (n *numbers) dtype() ir.DType { return rapid.SampledFrom(numberTypes).Draw(n.t, "type") }

func (n *numbers) shape() []int { return []int{n.upTo("dim", 5), n.upTo("dim", 5), n.upTo("dim", 12)} }

// tensor returns random elements, half of them small.
func (n *numbers) tensor(d ir.DType, shape ...int) *ir.Tensor {
	out := ir.Zeros(d, shape...)
	any64 := func() int64 {
		if n.rng.IntN(2) == 0 {
			return n.rng.Int64N(9) - 4
		}
		return int64(n.rng.Uint64()) >> n.rng.IntN(64)
	}
	switch y := out.Any().(type) {
	case []float32:
		for i := range y {
			y[i] = float32(n.rng.NormFloat64() * 100)
		}
	case []int8:
		fillWith(y, any64)
	case []uint8:
		fillWith(y, any64)
		if d == ir.Bool {
			for i := range y {
				y[i] &= 1
			}
		}
	case []int16:
		fillWith(y, any64)
	case []uint16:
		fillWith(y, any64)
	case []int32:
		fillWith(y, any64)
	case []uint32:
		fillWith(y, any64)
	case []int64:
		fillWith(y, any64)
	case []uint64:
		fillWith(y, any64)
	}
	return out
}

func fillWith[T int8 | uint8 | int16 | uint16 | int32 | uint32 | int64 | uint64](y []T, f func() int64) {
	for i := range y {
		y[i] = T(f())
	}
}

func (n *numbers) pick() ir.ValueID { return rapid.SampledFrom(n.values).Draw(n.t, "value") }

// add adds an operator; what the generator writes is valid by construction.
func (n *numbers) add(kind ir.OpKind, attr ir.Attr, in ...ir.ValueID) ir.ValueID {
	id, err := n.g.Add(kind, kind.String(), attr, in...)
	if err != nil {
		n.t.Fatalf("%v", err)
	}
	return id
}

// as returns a value with its elements cast. Floats are not cast to u64, for
// which machines have no instruction.
func (n *numbers) as(x ir.ValueID, d ir.DType) ir.ValueID {
	from := n.g.Type(x)
	if from.DType == d {
		return x
	}
	if from.DType == ir.F32 && d == ir.U64 {
		x = n.as(x, ir.I64)
		from = n.g.Type(x)
	}
	id, err := n.g.AddTyped(ir.Cast, "cast", nil, ir.TypeOf(d, from.Shape...), x)
	if err != nil {
		n.t.Fatalf("%v", err)
	}
	return id
}

// partner returns an operand for x of its type: a value of its shape, or a
// constant that broadcasts.
func (n *numbers) partner(x ir.ValueID) ir.ValueID {
	xt := n.g.Type(x)
	var same []ir.ValueID
	for _, id := range n.values {
		if slices.Equal(n.g.Type(id).Shape, xt.Shape) {
			same = append(same, id)
		}
	}
	if rapid.Bool().Draw(n.t, "constant") {
		shape := slices.Clone(xt.Shape)
		for i := range shape {
			if rapid.Bool().Draw(n.t, "repeat") {
				shape[i] = 1
			}
		}
		return n.g.AddConst("c", n.tensor(xt.DType, shape...), nil)
	}
	return n.as(rapid.SampledFrom(same).Draw(n.t, "other"), xt.DType)
}

// step adds an operator on a value.
func (n *numbers) step() {
	x := n.pick()
	t := n.g.Type(x)
	axis := rapid.IntRange(0, 2).Draw(n.t, "axis")
	var y ir.ValueID
	switch rapid.SampledFrom([]string{"cast", "binary", "binary", "compare", "where", "where", "gather", "gather", "slice", "transpose", "concat", "reduce", "matmul", "expand", "codes", "product", "elements", "put", "topk"}).Draw(n.t, "step") {
	case "cast":
		y = n.as(x, n.dtype())
	case "binary":
		kinds := []ir.OpKind{ir.Add, ir.Sub, ir.Mul, ir.Min, ir.Max, ir.BitAnd, ir.BitOr, ir.BitXor}
		kind := rapid.SampledFrom(kinds).Draw(n.t, "operator")
		if bits := kind >= ir.BitAnd; t.DType == ir.F32 && bits || t.DType == ir.Bool && !bits {
			x = n.as(x, ir.I32)
		}
		var attr ir.Attr
		if kind <= ir.Mul {
			attr = &ir.BinaryAttr{}
		}
		y = n.add(kind, attr, x, n.partner(x))
	case "compare":
		kind := rapid.SampledFrom([]ir.OpKind{ir.Equals, ir.Less, ir.LessEqual}).Draw(n.t, "operator")
		if t.DType == ir.Bool {
			x = n.as(x, ir.U8)
		}
		y = n.add(kind, nil, x, n.partner(x))
	case "where":
		y = n.add(ir.Where, nil, n.as(n.partner(x), ir.Bool), x, n.partner(x))
		if !slices.Equal(n.g.Type(y).Shape, t.Shape) {
			n.t.Fatalf("where changes the shape")
		}
	case "gather":
		y = n.gather(x, axis)
	case "slice":
		a := &ir.SliceAttr{Starts: make([]int, 3), Steps: []int{1, 1, 1}, Sizes: slices.Clone(t.Shape)}
		a.Starts[axis] = rapid.IntRange(0, t.Shape[axis]-1).Draw(n.t, "start")
		a.Sizes[axis] -= a.Starts[axis]
		y = n.add(ir.Slice, a, x)
	case "transpose":
		y = n.add(ir.Transpose, &ir.PermAttr{Perm: rapid.Permutation([]int{0, 1, 2}).Draw(n.t, "perm")}, x)
	case "concat":
		if 2*t.Shape[axis] > 64 {
			return
		}
		y = n.add(ir.Concat, &ir.AxisAttr{Axis: axis}, x, n.as(x, t.DType))
	case "expand":
		s := slices.Clone(t.Shape)
		if s[axis] == 1 {
			s[axis] = n.upTo("times", 5)
		}
		y = n.add(ir.Expand, &ir.ShapeAttr{Shape: s}, x)
	case "reduce":
		if t.DType == ir.Bool || t.DType == ir.F32 {
			x = n.as(x, ir.I32)
		}
		kind := rapid.SampledFrom([]ir.OpKind{ir.ReduceSum, ir.ReduceMax, ir.ReduceMin}).Draw(n.t, "operator")
		y = n.add(kind, &ir.ReduceAttr{Axes: []int{axis}, KeepDims: true}, x)
	case "codes":
		y = n.codes(x)
	case "product":
		y = n.product(x)
	case "elements":
		y = n.add(ir.GatherElements, &ir.AxisAttr{Axis: axis}, x, n.places(x, axis))
	case "put":
		modes := []ir.ScatterMode{ir.ScatterSet, ir.ScatterAdd, ir.ScatterMul, ir.ScatterMin, ir.ScatterMax}
		switch t.DType {
		case ir.Bool:
			modes = modes[:1]
		case ir.F32:
			modes = modes[:3]
		}
		i := n.places(x, axis)
		a := &ir.SliceAttr{Starts: make([]int, 3), Steps: []int{1, 1, 1}, Sizes: n.g.Type(i).Shape}
		mode := rapid.SampledFrom(modes).Draw(n.t, "mode")
		y = n.add(ir.ScatterElements, &ir.ScatterAttr{Axis: axis, Mode: mode}, x, i, n.add(ir.Slice, a, n.as(x, t.DType)))
	case "topk":
		if t.DType == ir.Bool {
			x = n.as(x, ir.U8)
		}
		y = n.add(ir.TopK, &ir.TopKAttr{Axis: axis, K: n.upTo("k", t.Shape[axis]), Smallest: rapid.Bool().Draw(n.t, "smallest")}, x)
	case "matmul":
		x = n.as(n.as(x, ir.I8), ir.F32)
		w := n.g.AddConst("w", Tensor(n.rng, 2, t.Shape[2], n.upTo("columns", 8)), nil)
		if rapid.Bool().Draw(n.t, "activations") {
			w = n.add(ir.Transpose, &ir.PermAttr{Perm: []int{0, 2, 1}}, x)
		}
		y = n.add(ir.MatMul, &ir.MatMulAttr{}, x, w)
	}
	n.values = append(n.values, y)
}

// product multiplies x by a matrix as MatMulInteger does: codes of scale 1, constant
// or not, and int32 sums.
func (n *numbers) product(x ir.ValueID) ir.ValueID {
	coded := func(v ir.ValueID) ir.ValueID {
		d := rapid.SampledFrom([]ir.DType{ir.I8, ir.U8}).Draw(n.t, "bytes")
		lo, hi := d.IntRange()
		t := ir.Type{DType: d, Quant: ir.PerTensor(1, int32(rapid.Int64Range(lo, hi).Draw(n.t, "zero")))}
		v = n.as(v, d)
		t.Shape = n.g.Type(v).Shape
		id, err := n.g.AddTyped(ir.Reinterpret, "reinterpret", nil, t, v)
		if err != nil {
			n.t.Fatalf("%v", err)
		}
		return id
	}
	shape := n.g.Type(x).Shape
	w, cols := ir.NoValue, shape[1]
	if rapid.Bool().Draw(n.t, "constant") {
		cols = n.upTo("columns", 8)
		w = n.g.AddConst("w", n.tensor(ir.I8, shape[2], cols), ir.PerTensor(1, 0))
	} else {
		w = coded(n.add(ir.Transpose, &ir.PermAttr{Perm: []int{0, 2, 1}}, x))
	}
	y, err := n.g.AddTyped(ir.MatMul, "matmul", &ir.MatMulAttr{}, ir.TypeOf(ir.I32, shape[0], shape[1], cols), coded(x), w)
	if err != nil {
		n.t.Fatalf("%v", err)
	}
	return y
}

// codes takes x through codes of 8 or 16 bits, chosen from by a mask when they
// have 8.
func (n *numbers) codes(x ir.ValueID) ir.ValueID {
	d := rapid.SampledFrom([]ir.DType{ir.I8, ir.U8, ir.I16, ir.U16}).Draw(n.t, "codes")
	t := ir.Type{DType: d, Shape: n.g.Type(x).Shape, Quant: ir.PerTensor(0.75, int32(rapid.IntRange(0, 100).Draw(n.t, "zero")))}
	q, err := n.g.AddTyped(ir.Quantize, "quantize", nil, t, n.as(x, ir.F32))
	if err != nil {
		n.t.Fatalf("%v", err)
	}
	if d.Bits() == 8 {
		other := n.g.AddConst("code", n.tensor(d, 1, 1, 1), t.Quant)
		q = n.add(ir.Where, nil, n.as(n.partner(x), ir.Bool), q, other)
	}
	return n.add(ir.Dequantize, nil, q)
}

// gather looks x up along an axis by indices that another value gives, half of
// them counted from the end.
func (n *numbers) gather(x ir.ValueID, axis int) ir.ValueID {
	t := n.g.Type(x)
	if rapid.Bool().Draw(n.t, "constant table") {
		t = ir.TypeOf(t.DType, n.upTo("entries", 40), n.upTo("inner", 9))
		x, axis = n.g.AddConst("table", n.tensor(t.DType, t.Shape...), nil), 0
	}
	from := n.pick()
	d := rapid.SampledFrom([]ir.DType{ir.I32, ir.I64}).Draw(n.t, "index type")
	i := n.as(from, d)
	count := min(n.g.Type(i).Numel(), 12)
	i = n.add(ir.Reshape, &ir.ShapeAttr{Shape: []int{n.g.Type(i).Numel()}}, i)
	i = n.add(ir.Slice, &ir.SliceAttr{Starts: []int{0}, Steps: []int{1}, Sizes: []int{count}}, i)
	i = n.within(i, t.Shape[axis])
	y := n.add(ir.Gather, &ir.AxisAttr{Axis: axis}, x, i)
	if s := n.g.Type(y).Shape; len(s) != 3 {
		y = n.add(ir.Reshape, &ir.ShapeAttr{Shape: append([]int{1}, s...)}, y)
	}
	return y
}

// places returns indices into x along an axis, of the shape of a part of x, half of
// them counted from the end.
func (n *numbers) places(x ir.ValueID, axis int) ir.ValueID {
	t := n.g.Type(x)
	i := n.as(x, rapid.SampledFrom([]ir.DType{ir.I32, ir.I64}).Draw(n.t, "index type"))
	a := &ir.SliceAttr{Starts: make([]int, 3), Steps: []int{1, 1, 1}, Sizes: slices.Clone(t.Shape)}
	a.Sizes[axis] = n.upTo("indices", t.Shape[axis])
	return n.within(n.add(ir.Slice, a, i), t.Shape[axis])
}

// within bounds indices to those of a number of entries.
func (n *numbers) within(i ir.ValueID, entries int) ir.ValueID {
	bound := func(v int) ir.ValueID {
		c := ir.NewTensor(ir.I64, []int{1}, []int64{int64(v)})
		if n.g.Type(i).DType == ir.I32 {
			c = ir.NewTensor(ir.I32, []int{1}, []int32{int32(v)})
		}
		return n.g.AddConst("bound", c, nil)
	}
	return n.add(ir.Min, nil, n.add(ir.Max, nil, i, bound(-entries)), bound(entries-1))
}
