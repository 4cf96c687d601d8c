package passes

import (
	"slices"

	"situ/ir"
)

// reshape writes a reshape so that the data stays as it lies where that is
// possible.
//
// Old and new shape fall into groups of neighbouring dimensions with equal
// products. Splitting one dimension is always possible. Merging several needs
// them to lie side by side in their old order; where they do not, a merged last
// dimension becomes a flattened view, and anything else costs the smallest
// transpose that brings them together.
func (l *layouter) reshape(op *ir.Op) (view, error) {
	v := l.view(op.In[0])
	from, to := l.old.Type(op.In[0]).Shape, l.old.Type(op.Out).Shape
	q := l.old.Type(op.Out).Quant
	if v.flat != nil {
		// A block that stays whole keeps its order: only dimensions of 1 come
		// and go before it.
		if n := len(to); n > 0 && len(from) > 0 && to[n-1] == from[len(from)-1] && (q == nil || q.IsPerTensor()) {
			return l.emit(op, op.Attr, l.old.Type(op.Out), []ir.ValueID{v.id}, v)
		}
		return l.copyPlain(op)
	}
	if v.perm == nil || q != nil && !q.IsPerTensor() {
		return l.copyPlain(op)
	}
	groups := groupDims(from, to)
	var scattered []group
	for _, g := range groups {
		if !sideBySide(from, v.perm, g) {
			scattered = append(scattered, g)
		}
	}
	if len(scattered) == 1 && scattered[0].to[1] == len(to) && scattered[0].to[1]-scattered[0].to[0] == 1 {
		if out, ok, err := l.flatten(op, v, from, to, groups, scattered[0]); ok || err != nil {
			return out, err
		}
	}
	for _, g := range scattered {
		var err error
		if v, err = l.gatherDims(v, from, g); err != nil {
			return view{}, err
		}
	}
	// New dimensions in the order in which their groups lie.
	order := placeGroups(from, v.perm, groups)
	shape := permuted(to, order)
	t := l.old.Type(op.Out)
	t.Shape = shape
	return l.emit(op, &ir.ShapeAttr{Shape: shape}, t, []ir.ValueID{v.id}, view{perm: inverse(order)})
}

// A group relates from[from[0]:from[1]] to to[to[0]:to[1]], equal in product.
type group struct{ from, to [2]int }

// groupDims splits two shapes of the same number of elements into the smallest
// groups of equal product. Dimensions of 1 at the end join the last group.
func groupDims(from, to []int) []group {
	var groups []group
	for i, j := 0, 0; i < len(from) || j < len(to); {
		g := group{[2]int{i, i}, [2]int{j, j}}
		a, b := 1, 1
		if i < len(from) {
			a *= from[i]
			i++
		}
		if j < len(to) {
			b *= to[j]
			j++
		}
		for a != b {
			if a < b {
				a *= from[i]
				i++
			} else {
				b *= to[j]
				j++
			}
		}
		g.from[1], g.to[1] = i, j
		groups = append(groups, g)
	}
	return groups
}

// dimsOf returns the dimensions of a group that are not 1.
func dimsOf(from []int, g group) []int {
	var dims []int
	for i := g.from[0]; i < g.from[1]; i++ {
		if from[i] != 1 {
			dims = append(dims, i)
		}
	}
	return dims
}

// sideBySide reports whether the dimensions of a group lie next to each other,
// in their old order, with nothing but dimensions of 1 between.
func sideBySide(from, perm []int, g group) bool {
	dims := dimsOf(from, g)
	inv := inverse(perm)
	for n := 1; n < len(dims); n++ {
		a, b := perm[dims[n-1]], perm[dims[n]]
		if a > b {
			return false
		}
		for p := a + 1; p < b; p++ {
			if from[inv[p]] != 1 {
				return false
			}
		}
	}
	return true
}

// placeGroups returns the dimensions of the new shape in the order in which they
// lie. Groups of nothing but dimensions of 1 go to the front or, after the first
// other group, to the back.
func placeGroups(from, perm []int, groups []group) []int {
	type placed struct{ at, index int }
	var list []placed
	seen := false
	for i, g := range groups {
		at := -1
		if dims := dimsOf(from, g); len(dims) > 0 {
			at, seen = perm[dims[0]], true
		} else if seen {
			at = len(perm)
		}
		list = append(list, placed{at, i})
	}
	slices.SortStableFunc(list, func(a, b placed) int { return a.at - b.at })
	var order []int
	for _, p := range list {
		for d := groups[p.index].to[0]; d < groups[p.index].to[1]; d++ {
			order = append(order, d)
		}
	}
	return order
}

// flatten makes a flattened view when the groups before the last lie in order
// before it.
func (l *layouter) flatten(op *ir.Op, v view, from, to []int, groups []group, last group) (view, bool, error) {
	dims := dimsOf(from, last)
	lowest := len(from)
	for _, d := range dims {
		lowest = min(lowest, v.perm[d])
	}
	before := -1
	for _, g := range groups {
		if g == last {
			continue
		}
		for _, d := range dimsOf(from, g) {
			p := v.perm[d]
			if p < before || p > lowest {
				return view{}, false, nil
			}
			before = p
		}
	}
	lie := slices.SortedFunc(slices.Values(dims), func(a, b int) int { return v.perm[a] - v.perm[b] })
	f := &flattened{}
	for _, d := range lie {
		f.dims = append(f.dims, from[d])
	}
	for _, d := range dims {
		f.perm = append(f.perm, slices.Index(lie, d))
	}
	out, err := l.emit(op, op.Attr, l.old.Type(op.Out), []ir.ValueID{v.id}, view{flat: f})
	return out, true, err
}

// gatherDims transposes so that the dimensions of a group lie side by side in
// their old order, at the place of the last of them.
func (l *layouter) gatherDims(v view, from []int, g group) (view, error) {
	dims := dimsOf(from, g)
	last := 0
	for _, d := range dims {
		last = max(last, v.perm[d])
	}
	inv := inverse(v.perm)
	var order []int // positions of the value as it lies, in their new order
	for p := range v.perm {
		if p == last {
			for _, d := range dims {
				order = append(order, v.perm[d])
			}
		} else if !slices.Contains(dims, inv[p]) {
			order = append(order, p)
		}
	}
	id, err := l.ordered(v.id, order)
	if err != nil {
		return view{}, err
	}
	to := inverse(order)
	perm := make([]int, len(v.perm))
	for i, p := range v.perm {
		perm[i] = to[p]
	}
	return view{id: id, perm: perm}, nil
}
