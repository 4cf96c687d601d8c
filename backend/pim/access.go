package pim

// access says where the elements of a matrix product's operand or result lie
// among the dimensions of a tensor. The index of a product is (i0, i1, row,
// column): two leading dimensions, then those of a matrix. Index j moves along
// dimension axis[j] by mult[j] elements; 0 repeats the operand. Heads that lie
// side by side in the channels are so: i1 moves by the channels of a head, the
// column by one.
type access struct {
	axis, mult [4]int
}

// plain returns the access of an operand of dimensions d whose leading dimensions
// of 1 are repeated.
func plainAccess(d dims) access {
	a := access{axis: [4]int{0, 1, 2, 3}, mult: [4]int{1, 1, 1, 1}}
	for i := range 2 {
		if d[i] == 1 {
			a.mult[i] = 0
		}
	}
	return a
}

// point returns the element at an index.
func (a *access) point(idx dims) dims {
	var p dims
	for j, i := range idx {
		p[a.axis[j]] += a.mult[j] * i
	}
	return p
}

// step returns the bytes from one element to the next along index j.
func (a *access) step(v view, j int) int64 { return v.st[a.axis[j]] * int64(a.mult[j]) }

// box returns the smallest box that holds all elements at indices r.
func (a *access) box(r box) box {
	if r.empty() {
		return box{}
	}
	last := dims{r.hi[0] - 1, r.hi[1] - 1, r.hi[2] - 1, r.hi[3] - 1}
	b := box{lo: a.point(r.lo), hi: a.point(last)}
	for i := range b.hi {
		b.hi[i]++
	}
	return b
}

// indices returns the indices, of a result of the given extents, whose elements
// are box b. Where two indices share a dimension, b holds all of the faster one.
func (a *access) indices(b box, size dims) box {
	r := whole(size)
	if b.empty() {
		return box{}
	}
	for j, axis := range a.axis {
		switch {
		case a.mult[j] == 0:
		case a.mult[j] > 1:
			r.lo[j], r.hi[j] = b.lo[axis]/a.mult[j], (b.hi[axis]-1)/a.mult[j]+1
		case !a.shared(j):
			r.lo[j], r.hi[j] = b.lo[axis], b.hi[axis]
		}
	}
	return r
}

// shared reports whether another index moves along the dimension of index j.
func (a *access) shared(j int) bool {
	for i, axis := range a.axis {
		if i != j && axis == a.axis[j] && a.mult[i] > 0 {
			return true
		}
	}
	return false
}
