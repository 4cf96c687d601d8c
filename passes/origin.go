package passes

import (
	"slices"

	"situ/ir"
)

// origins finds, for every value, the value it is a function of. A float32 value
// is a function of another when each of its elements follows from the element of
// the other at the same place, by element-wise operators and scalar constants
// alone. On codes such a function is a table of 256 results, however long the
// expression: x·clip(x+3, 0, 6)/6 is one lookup.
//
// A value that is no function of another is its own origin; scalar constants
// have none (NoValue).
func origins(g *ir.Graph) []ir.ValueID {
	origin := make([]ir.ValueID, len(g.Values))
	for i := range origin {
		origin[i] = ir.ValueID(i)
		if _, ok := scalarOf(g, ir.ValueID(i)); ok {
			origin[i] = ir.NoValue
		}
	}
	for i := range g.Ops {
		op := &g.Ops[i]
		t := g.Type(op.Out)
		if t.DType != ir.F32 || !isUnary(op.Kind) && !isBinary(op.Kind) {
			continue
		}
		of, single := ir.NoValue, true
		for _, in := range op.In {
			o := origin[in]
			if o == ir.NoValue {
				continue
			}
			if of == ir.NoValue {
				of = o
			}
			single = single && o == of && slices.Equal(g.Type(in).Shape, t.Shape)
		}
		if single && of != ir.NoValue {
			origin[op.Out] = of
		}
	}
	return origin
}
