package passes

import (
	"context"
	"slices"

	"situ/ir"
)

// What a sigmoid, a GELU or an exponential is given may reach far to where the
// function is flat: codes spent there are lost. saturate narrows the range of a value
// that nothing but functions see to where they still tell its elements apart: what
// lies beyond gives the same results, to within an eighth of a step of theirs, as the
// end of the range. (Half a step would do for each element, but many saturated ones
// all err the same way.)
func saturate(ctx context.Context, g *ir.Graph, ranges []Range) error {
	origin := origins(g)
	users := usersOf(g)
	for id := ir.ValueID(len(g.Values) - 1); id >= 0; id-- { // users come before what they use
		v := g.Value(id)
		if v.Const != nil || v.Type.DType != ir.F32 || ranges[id].Hi <= ranges[id].Lo || len(users[id]) == 0 || slices.Contains(g.Outputs, id) {
			continue
		}
		need, all, function := Range{}, true, false
		for _, u := range users[id] {
			switch u.Kind {
			case ir.Reshape, ir.Transpose, ir.Slice, ir.Expand:
				r := ranges[u.Out]
				need = Range{min(need.Lo, r.Lo), max(need.Hi, r.Hi)}
			default:
				function = true
				all = all && origin[u.Out] == id
			}
		}
		if !all {
			continue
		}
		if function {
			r, err := flatEnds(ctx, g, id, ends(g, origin, users, id), ranges)
			if err != nil {
				return err
			}
			need = Range{min(need.Lo, r.Lo), max(need.Hi, r.Hi)}
		}
		ranges[id] = Range{max(ranges[id].Lo, need.Lo), min(ranges[id].Hi, need.Hi)}
	}
	return nil
}

// usersOf lists the operators that use each value.
func usersOf(g *ir.Graph) [][]*ir.Op {
	users := make([][]*ir.Op, len(g.Values))
	for i := range g.Ops {
		for _, id := range g.Ops[i].In {
			if id != ir.NoValue {
				users[id] = append(users[id], &g.Ops[i])
			}
		}
	}
	return users
}

// ends lists the functions of a value that are used by anything but longer ones.
func ends(g *ir.Graph, origin []ir.ValueID, users [][]*ir.Op, of ir.ValueID) []ir.ValueID {
	var list []ir.ValueID
	for i := range g.Ops {
		id := g.Ops[i].Out
		if origin[id] == of && id != of && (slices.Contains(g.Outputs, id) ||
			slices.ContainsFunc(users[id], func(u *ir.Op) bool { return origin[u.Out] != of })) {
			list = append(list, id)
		}
	}
	return list
}

// flatGrid is how many steps the range of a variable is looked at in.
const flatGrid = 1024

// flatEnds returns the range of a variable outside which its functions change by
// more than half a step of their results; it holds 0.
func flatEnds(ctx context.Context, g *ir.Graph, of ir.ValueID, functions []ir.ValueID, ranges []Range) (Range, error) {
	full := ranges[of]
	x := make([]float32, flatGrid+1)
	for i := range x {
		x[i] = float32(full.Lo + (full.Hi-full.Lo)*float64(i)/flatGrid)
	}
	b := newTableBuilder(g)
	b.ids[of] = b.g.AddConst("", ir.NewTensor(ir.F32, []int{len(x)}, x), nil)
	for _, id := range functions {
		y, err := b.expression(id)
		if err != nil {
			return full, err
		}
		b.g.Outputs = append(b.g.Outputs, y)
	}
	out, err := evaluate(ctx, b.g)
	if err != nil {
		return full, err
	}
	low, high := flatGrid, 0
	for i, id := range functions {
		y := ir.Data[float32](out[i])
		tolerance := float32((ranges[id].Hi - ranges[id].Lo) / 255 / 8)
		low = min(low, flatFor(y, tolerance))
		slices.Reverse(y)
		high = max(high, flatGrid-flatFor(y, tolerance))
	}
	// An end where a function is steep would be cut by a code or two.
	const worth = flatGrid / 16
	if low < worth {
		low = 0
	}
	if high > flatGrid-worth {
		high = flatGrid
	}
	if low >= high {
		return full, nil // constant functions
	}
	return Range{min(float64(x[low]), 0), max(float64(x[high]), 0)}, nil
}

// flatFor returns the last place up to which all elements stay within a tolerance
// of the element there.
func flatFor(y []float32, tolerance float32) int {
	lo, hi := y[0], y[0]
	for i, v := range y {
		lo, hi = min(lo, v), max(hi, v)
		if !(hi-v <= tolerance && v-lo <= tolerance) {
			return max(i-1, 0)
		}
	}
	return len(y) - 1
}
