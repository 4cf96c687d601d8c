package passes

import (
	"math"
	"slices"

	"situ/ir"
)

// Attention masks are numbers so far below all others that softmax gives them 0:
// −∞, the least float32, −10000. A range that held them would leave nothing for
// the scores, so they do not enter ranges; they saturate to the smallest code.
//
// Whether a value is a mask is not guessed from its size. What matters is where it
// goes: a value that nothing but a softmax can see, be it through sums and
// movements, need not be told from another that weighs as little.
//
//   - An operand of softmax counts as no less than softmaxReach below the greatest
//     of its row.
//   - A row of it that lies 255 times as far below another does not count: with a
//     range that held both, a step would be more than softmax can see, so that all
//     rows were lost. Such a row is masked as a whole, as that of padding is; its
//     elements saturate, all to the same share.
//   - An operand of a sum that only a softmax can see counts as no less than its
//     floor: with the greatest possible other operand the sum is then at the bottom
//     of its own range.
//
// Only such values may be −∞.

// softmaxReach is how far below the greatest of a row of n elements a softmax
// needs to tell elements apart: n elements further down weigh less than half a step
// of 1/256 together.
func softmaxReach(n int) float64 { return math.Log(512 * float64(n)) }

// masks says of every value of a graph whether softmaxes alone can see it.
type masks struct {
	g     *ir.Graph
	axis  []int  // by value: axis of the softmaxes that read it, −1 for none
	alone []bool // by value: nothing but softmaxes can see it
}

func findMasks(g *ir.Graph) *masks {
	m := &masks{g: g, axis: make([]int, len(g.Values)), alone: make([]bool, len(g.Values))}
	used := make([]bool, len(g.Values))
	for i := range m.axis {
		m.axis[i], m.alone[i] = -1, true
	}
	for _, out := range g.Outputs {
		m.alone[out] = false
	}
	for i := len(g.Ops) - 1; i >= 0; i-- {
		op := &g.Ops[i]
		m.alone[op.Out] = m.alone[op.Out] && used[op.Out]
		for k, in := range op.In {
			if in == ir.NoValue {
				continue
			}
			used[in] = true
			if op.Kind == ir.Softmax {
				if a := op.Attr.(*ir.AxisAttr).Axis; m.axis[in] < 0 || m.axis[in] == a {
					m.axis[in] = a
					continue
				}
			}
			m.alone[in] = m.alone[in] && m.passesOn(op, k) && m.alone[op.Out]
		}
	}
	return m
}

// passesOn reports whether op hands operand k on so that a floor of its result is
// one of the operand.
func (m *masks) passesOn(op *ir.Op, k int) bool {
	switch op.Kind {
	case ir.Add:
		return actOf(op.Attr) == nil
	case ir.Sub:
		return k == 0 && actOf(op.Attr) == nil
	case ir.Where:
		return k > 0
	case ir.Reshape, ir.Transpose, ir.Slice, ir.Expand, ir.Concat:
		return true
	}
	return false
}

// reachable returns elements of a value as calibration counts them.
func (m *masks) reachable(id ir.ValueID, t *ir.Tensor) []float32 {
	data := ir.Data[float32](t)
	if !m.alone[id] || m.axis[id] < 0 {
		return data
	}
	if len(data) == 0 {
		return data
	}
	n, inner := t.Shape[m.axis[id]], ir.Numel(t.Shape[m.axis[id]+1:])
	tops := make([]float32, len(data)/n)
	for row := range tops {
		at := row/inner*inner*n + row%inner
		tops[row] = data[at]
		for k := range n {
			tops[row] = max(tops[row], data[at+k*inner])
		}
	}
	out := make([]float32, 0, len(data))
	reach := float32(softmaxReach(n))
	far := slices.Max(tops) - 255*reach
	for row, top := range tops {
		if top < far {
			continue
		}
		at := row/inner*inner*n + row%inner
		for k := range n {
			out = append(out, max(data[at+k*inner], top-reach))
		}
	}
	return out
}

// floors narrows the ranges of values that hold less than their floor, and returns
// the floors of all values; −∞ where there is none. fell says which values were −∞
// somewhere.
func (m *masks) floors(ranges []Range, fell []bool) []float64 {
	floor := make([]float64, len(m.g.Values))
	for i := range floor {
		floor[i] = math.Inf(1)
		if m.axis[i] >= 0 {
			floor[i] = ranges[i].Lo
		}
	}
	for i := len(m.g.Ops) - 1; i >= 0; i-- {
		op := &m.g.Ops[i]
		if !m.alone[op.Out] {
			continue
		}
		for k, in := range op.In {
			if in == ir.NoValue || !m.alone[in] || !m.passesOn(op, k) {
				continue
			}
			f := floor[op.Out]
			if op.Kind == ir.Add || op.Kind == ir.Sub {
				f -= m.greatest(op, 1-k, ranges)
			}
			floor[in] = min(floor[in], f, 0)
		}
	}
	for i := range floor {
		if !m.alone[i] || math.IsInf(floor[i], 1) {
			floor[i] = math.Inf(-1)
		} else if fell[i] || ranges[i].Lo < floor[i] {
			ranges[i].Lo = floor[i]
		}
	}
	return floor
}

// greatest returns the most that operand k adds to a sum.
func (m *masks) greatest(op *ir.Op, k int, ranges []Range) float64 {
	r := ranges[op.In[k]]
	for _, x := range floats(m.g, op.In[k]) {
		r = Range{min(r.Lo, float64(x)), max(r.Hi, float64(x))}
	}
	if op.Kind == ir.Sub {
		return -r.Lo
	}
	return r.Hi
}
