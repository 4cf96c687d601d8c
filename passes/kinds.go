package passes

import "situ/ir"

// isUnary reports whether k is an element-wise function of one operand in float.
func isUnary(k ir.OpKind) bool { return k >= ir.Relu && k <= ir.Elu }

// isBinary reports whether k is element-wise with two operands that broadcast.
func isBinary(k ir.OpKind) bool { return k >= ir.Add && k <= ir.Pow }

// isReduction reports whether k has a ReduceAttr.
func isReduction(k ir.OpKind) bool { return k >= ir.ReduceSum && k <= ir.ReduceMin }

// isNumber reports whether k changes how numbers are written, element by element.
func isNumber(k ir.OpKind) bool { return k >= ir.Cast && k <= ir.Reinterpret }

// scalarOf returns the value of a constant float32 with one element.
func scalarOf(g *ir.Graph, id ir.ValueID) (float32, bool) {
	c := floats(g, id)
	if len(c) != 1 {
		return 0, false
	}
	return c[0], true
}

// floats returns the elements of a float32 constant, nil for anything else and for
// one that is described.
func floats(g *ir.Graph, id ir.ValueID) []float32 {
	if !g.IsConst(id) || g.IsDescribed(id) || g.Value(id).Const.DType != ir.F32 {
		return nil
	}
	return ir.Data[float32](g.Value(id).Const)
}

// perChannel returns a float32 constant spread to n channels when, broadcast
// against a tensor of the given rank, it varies along the last axis alone.
func perChannel(g *ir.Graph, id ir.ValueID, rank, n int) ([]float32, bool) {
	data := floats(g, id)
	if data == nil {
		return nil, false
	}
	shape := g.Type(id).Shape
	if len(shape) > rank {
		return nil, false
	}
	if len(data) == 1 {
		out := make([]float32, n)
		for i := range out {
			out[i] = data[0]
		}
		return out, true
	}
	if len(data) != n || shape[len(shape)-1] != n {
		return nil, false
	}
	return data, true
}

// vector adds a float32 constant of one dimension.
func vector(g *ir.Graph, name string, data []float32) ir.ValueID {
	return g.AddConst(name, ir.NewTensor(ir.F32, []int{len(data)}, data), nil)
}

// inverse returns the inverse of a permutation.
func inverse(perm []int) []int {
	inv := make([]int, len(perm))
	for i, p := range perm {
		inv[p] = i
	}
	return inv
}

// compose returns the permutation of a transpose by p followed by one by q.
func compose(p, q []int) []int {
	out := make([]int, len(q))
	for i := range q {
		out[i] = p[q[i]]
	}
	return out
}

func isIdentity(perm []int) bool {
	for i, p := range perm {
		if i != p {
			return false
		}
	}
	return true
}

func permuted(s, perm []int) []int {
	out := make([]int, len(perm))
	for i, p := range perm {
		out[i] = s[p]
	}
	return out
}

// movesData reports whether a transpose of the shape changes the order of
// elements in memory: moving dimensions of size 1 does not.
func movesData(shape, perm []int) bool {
	last := -1
	for _, p := range perm {
		if shape[p] == 1 {
			continue
		}
		if p < last {
			return true
		}
		last = p
	}
	return false
}

// transposed returns the constant with its dimensions permuted.
func transposed(t *ir.Tensor, perm []int) *ir.Tensor {
	shape := permuted(t.Shape, perm)
	if !movesData(t.Shape, perm) {
		return t.Reshaped(shape...)
	}
	if std, ok := t.Described(); ok {
		return ir.Describe(t.DType, std, shape...)
	}
	switch data := t.Any().(type) {
	case []float32:
		return ir.NewTensor(t.DType, shape, transposeData(data, t.Shape, perm))
	case []float64:
		return ir.NewTensor(t.DType, shape, transposeData(data, t.Shape, perm))
	case []uint16:
		return ir.NewTensor(t.DType, shape, transposeData(data, t.Shape, perm))
	case []int8:
		return ir.NewTensor(t.DType, shape, transposeData(data, t.Shape, perm))
	case []uint8:
		return ir.NewTensor(t.DType, shape, transposeData(data, t.Shape, perm))
	case []int16:
		return ir.NewTensor(t.DType, shape, transposeData(data, t.Shape, perm))
	case []int32:
		return ir.NewTensor(t.DType, shape, transposeData(data, t.Shape, perm))
	case []uint32:
		return ir.NewTensor(t.DType, shape, transposeData(data, t.Shape, perm))
	case []int64:
		return ir.NewTensor(t.DType, shape, transposeData(data, t.Shape, perm))
	case []uint64:
		return ir.NewTensor(t.DType, shape, transposeData(data, t.Shape, perm))
	}
	panic("passes: no transpose for " + t.DType.String())
}

func transposeData[T ir.Elem](src []T, shape, perm []int) []T {
	dst := make([]T, len(src))
	if len(src) == 0 {
		return dst
	}
	n := len(perm)
	strides := make([]int, len(shape))
	s := 1
	for i := len(shape) - 1; i >= 0; i-- {
		strides[i] = s
		s *= shape[i]
	}
	dims, step := permuted(shape, perm), permuted(strides, perm)
	index := make([]int, n)
	at, inner, innerStep := 0, dims[n-1], step[n-1]
	for out := 0; ; {
		for i, p := 0, at; i < inner; i, p = i+1, p+innerStep {
			dst[out] = src[p]
			out++
		}
		d := n - 2
		for ; d >= 0; d-- {
			index[d]++
			at += step[d]
			if index[d] < dims[d] {
				break
			}
			at -= step[d] * dims[d]
			index[d] = 0
		}
		if d < 0 {
			return dst
		}
	}
}

// actOf returns the activation of an attribute struct, nil when it has none.
func actOf(a ir.Attr) *ir.Act {
	switch a := a.(type) {
	case *ir.ConvAttr:
		return a.Act
	case *ir.MatMulAttr:
		return a.Act
	case *ir.BinaryAttr:
		return a.Act
	}
	return nil
}

// withAct returns a copy of an attribute struct with another activation. It
// panics for structs that hold none.
func withAct(a ir.Attr, act *ir.Act) ir.Attr {
	switch a := a.(type) {
	case *ir.ConvAttr:
		c := *a
		c.Act = act
		return &c
	case *ir.MatMulAttr:
		return &ir.MatMulAttr{Act: act}
	case *ir.BinaryAttr:
		return &ir.BinaryAttr{Act: act}
	}
	panic("passes: attributes without an activation")
}
