package pim

// dims are the four dimensions under which the back end sees every tensor:
// batch, rows, columns, channels. Tensors of lower rank have leading ones, of
// higher rank their leading dimensions merged.
type dims [4]int

func (d dims) numel() int64 { return int64(d[0]) * int64(d[1]) * int64(d[2]) * int64(d[3]) }

// box is the region lo ≤ p < hi of a tensor. It may reach outside the tensor:
// that part is border.
type box struct{ lo, hi dims }

// whole returns the box of a whole tensor.
func whole(d dims) box { return box{hi: d} }

func (b box) ext(axis int) int { return max(b.hi[axis]-b.lo[axis], 0) }

func (b box) dims() dims { return dims{b.ext(0), b.ext(1), b.ext(2), b.ext(3)} }

func (b box) numel() int64 { return b.dims().numel() }

func (b box) empty() bool {
	return b.hi[0] <= b.lo[0] || b.hi[1] <= b.lo[1] || b.hi[2] <= b.lo[2] || b.hi[3] <= b.lo[3]
}

// and returns the intersection of two boxes.
func (b box) and(c box) box {
	for i := range b.lo {
		b.lo[i] = max(b.lo[i], c.lo[i])
		b.hi[i] = max(min(b.hi[i], c.hi[i]), b.lo[i])
	}
	return b
}

// meets reports whether the intersection of two boxes is not empty.
func (b *box) meets(c *box) bool {
	for i := range b.lo {
		if max(b.lo[i], c.lo[i]) >= min(b.hi[i], c.hi[i]) {
			return false
		}
	}
	return true
}

// hull returns the smallest box that holds both; an empty box counts for nothing.
func (b box) hull(c box) box {
	if b.empty() {
		return c
	}
	if c.empty() {
		return b
	}
	for i := range b.lo {
		b.lo[i] = min(b.lo[i], c.lo[i])
		b.hi[i] = max(b.hi[i], c.hi[i])
	}
	return b
}

func (b box) holds(c box) bool { return c.empty() || b.hull(c) == b }

func (b box) shift(by dims) box {
	for i := range by {
		b.lo[i] += by[i]
		b.hi[i] += by[i]
	}
	return b
}

// along returns b cut to [lo, hi) along one axis.
func (b box) along(axis, lo, hi int) box {
	b.lo[axis], b.hi[axis] = lo, hi
	return b
}

// minus returns up to eight boxes without overlap that cover b outside c.
func (b box) minus(c box) []box {
	in := b.and(c)
	if in.empty() {
		return []box{b}
	}
	var out []box
	for axis := range 4 {
		if b.lo[axis] < in.lo[axis] {
			out = append(out, b.along(axis, b.lo[axis], in.lo[axis]))
		}
		if in.hi[axis] < b.hi[axis] {
			out = append(out, b.along(axis, in.hi[axis], b.hi[axis]))
		}
		b = b.along(axis, in.lo[axis], in.hi[axis])
	}
	return out
}

// pieces cuts b into n nearly equal parts along axis, the longer ones first,
// with cuts at multiples of grain from the start.
func (b box) pieces(axis, n, grain int) []box {
	units := (b.ext(axis) + grain - 1) / grain
	n = max(min(n, units), 1)
	out := make([]box, n)
	at := b.lo[axis]
	for i := range out {
		u := units / n
		if i < units%n {
			u++
		}
		end := min(at+u*grain, b.hi[axis])
		out[i] = b.along(axis, at, end)
		at = end
	}
	return out
}

// view says where the elements of a tensor lie in a memory: element p at
// addr + Σ (p − lo)·st, in bytes.
type view struct {
	addr int64
	lo   dims
	st   [4]int64
}

// dense returns the view of a box stored row-major from addr.
func dense(addr int64, b box, elem int) view {
	v := view{addr: addr, lo: b.lo}
	s := int64(elem)
	for i := 3; i >= 0; i-- {
		v.st[i] = s
		s *= int64(b.ext(i))
	}
	return v
}

func (v view) at(p dims) int64 {
	a := v.addr
	for i := range p {
		a += int64(p[i]-v.lo[i]) * v.st[i]
	}
	return a
}

// level is one loop of a strided access: n steps of st[i] bytes in operand i.
type level struct {
	n  int64
	st [3]int64
}

// mostLoops bounds the loops around a run. They are passed by value: a slice of
// them would be on the heap, once for every access.
const mostLoops = 3

// runs breaks a strided access of up to three operands into runs. ext are the
// extents and st the byte steps of the operands along them; step holds the
// element sizes. A run is a stretch of n elements that is contiguous in every
// operand; an operand with repeat set may instead stay where it is. f is called
// with the operands' offsets, the loops around the run, outer first,
// depth of them, at most mostLoops, and n; loops beyond depth are unrolled.
func runs(ext dims, st [3][4]int64, elem [3]int64, operands, depth int, repeat [3]bool, f func(off [3]int64, loops [mostLoops]level, n int64, repeats [3]bool)) {
	// Room for the levels of four dimensions, and before them for those that make
	// up the depth.
	var buf [2 * len(dims{})]level
	first := len(dims{})
	ls := buf[first:first]
	for d := range ext {
		if ext[d] == 1 {
			continue
		}
		l := level{n: int64(ext[d])}
		for i := range operands {
			l.st[i] = st[i][d]
		}
		if k := len(ls) - 1; k >= 0 && mergeable(ls[k], l, operands) {
			ls[k] = level{ls[k].n * l.n, l.st}
			continue
		}
		ls = append(ls, l)
	}
	n := int64(1)
	var still [3]bool
	if k := len(ls) - 1; k >= 0 {
		contiguous := true
		for i := range operands {
			switch {
			case ls[k].st[i] == elem[i]:
			case repeat[i] && ls[k].st[i] == 0:
				still[i] = true
			default:
				contiguous = false
			}
		}
		if contiguous {
			n, ls = ls[k].n, ls[:k]
		} else {
			still = [3]bool{}
		}
	}
	end := first + len(ls)
	for ; end-first < depth; first-- {
		buf[first-1] = level{n: 1}
	}
	outer, inner := buf[first:end-depth], buf[end-depth:end]
	var off [3]int64
	var count [len(dims{})]int64
	var loops [mostLoops]level
	copy(loops[:], inner)
	for {
		f(off, loops, n, still)
		k := len(outer) - 1
		for ; k >= 0; k-- {
			l := &outer[k]
			count[k]++
			more := count[k] < l.n
			if !more {
				count[k] = 0
			}
			for i := range operands {
				off[i] += l.st[i]
				if !more {
					off[i] -= l.n * l.st[i]
				}
			}
			if more {
				break
			}
		}
		if k < 0 {
			return
		}
	}
}

// mergeable reports whether loop a around loop b is one loop.
func mergeable(a, b level, operands int) bool {
	for i := range operands {
		if a.st[i] != b.st[i]*b.n {
			return false
		}
	}
	return true
}

// ceilDiv returns a/b rounded up; hosts divide 32 bits in half the time of 64.
func ceilDiv(a, b int64) int64 {
	if n := a + b - 1; uint64(n|b) < 1<<32 {
		return int64(uint32(n) / uint32(b))
	}
	return (a + b - 1) / b
}

func roundUp(a, b int64) int64 { return ceilDiv(a, b) * b }
