package pim

import (
	"fmt"

	"situ/arch"
	"situ/backend/pim/isa"
)

// pair is the product of two activations, a matrix a [M, K] by a matrix b [K, N]
// for each of two leading indices. In the arrays, b is written into the weight
// SRAMs first and a streams; with few rows of a the vector unit is faster, which
// reads both from the scratchpad.
//
// The arrays multiply codes of a by numbers of eight bits, as which b's codes less
// their zero point are written, in planes where they do not fit. What the zero
// point of a adds to the sums of a column is found by the arrays as well, as the
// product of a vector of zero points, and taken off by biasacc.
type pair struct {
	size      dims // extents of the indices of the result: two leading ones, M, N
	k         int
	a, b, out access

	za, zb int64
	planes int
	bias   []int32   // of each column
	mult   []int32   // of each column, for codes
	shift  []uint8   //
	scales []float32 // of a float32 result, for each column; nil for codes
	raw    bool      // the result is the sums as they are, int32
	zero   int64
	lo, hi int64

	writes int32       // layer of writing b
	maps   *mapper     // of the chip
	m      pairMapping // on the chip of the plan
	at     int64       // in each core's weight SRAM: where b goes
	half   int64       // and behind how many bytes the next, 0 for the same place
	once   bool        // each matrix is written once for all rows of a part
}

// ref reports whether the zero point of a has to be taken out.
func (k *pair) ref() bool { return k.za != 0 && !k.m.vector }

func (k *pair) need(i int, out box) box {
	r := k.out.indices(out, k.size)
	if r.empty() {
		return box{}
	}
	if i == 0 {
		return k.a.box(r.along(3, 0, k.k))
	}
	return k.b.box(r.along(2, 0, k.k))
}

// cuts: columns are not cut, and dimensions that two indices share only where it
// is the channels, see grain.
func (k *pair) cuts() [4]bool {
	cut := [4]bool{true, true, true, k.out.shared(3)}
	for j, axis := range k.out.axis {
		if axis != 3 && (j == 3 || k.out.mult[j] > 1) {
			cut[axis] = false
		}
	}
	return cut
}

// cutOrder lists the dimensions of the result, those of the leading indices first.
func (k *pair) cutOrder() [4]int {
	order := [4]int{k.out.axis[0], k.out.axis[1]}
	n := 2
	if order[0] == order[1] {
		n = 1
	}
	for axis := range 4 {
		if axis != order[0] && axis != order[1] && n < 4 {
			order[n] = axis
			n++
		}
	}
	return order
}

// grain implements channelled: channels that hold several heads are cut between
// them.
func (k *pair) grain() int { return k.size[3] }

// stacked reports whether the second leading index is a row index as well: b is
// the same for all of it.
func (k *pair) stacked() bool { return k.b.mult[1] == 0 }

// problem returns the products at indices r: how many, and the rows of each.
func (k *pair) problem(r box) (count, rows int64) {
	count, rows = int64(r.ext(0))*int64(r.ext(1)), int64(r.ext(2))
	if k.stacked() {
		count, rows = int64(r.ext(0)), rows*int64(r.ext(1))
	}
	return count, rows
}

func (k *pair) cycles(c *arch.Chip, out box) int64 {
	count, rows := k.problem(k.out.indices(out, k.size))
	m := k.mapping(c, rows)
	return m.first + count*m.cycles
}

func (k *pair) macs() int64 { return k.size.numel() * int64(k.k) }

// params holds a block for each chunk of columns as requant or dequantacc want
// it, whose biases are written again and again when a has a zero point; then all
// biases, and the vector of zero points.
func (k *pair) params(box) []byte {
	var b []byte
	for _, ch := range k.m.chunks(k.size[3]) {
		b = int32s(b, k.bias[ch[0]:ch[1]]...)
		if k.raw {
			continue
		}
		if k.scales != nil {
			for _, s := range k.scales[ch[0]:ch[1]] {
				b = int32s(b, int32(uint32(f32bits(s))))
			}
			continue
		}
		b = int32s(b, k.mult[ch[0]:ch[1]]...)
		for _, s := range k.shift[ch[0]:ch[1]] {
			b = int32s(b, int32(s))
		}
	}
	if k.ref() {
		b = int32s(b, k.bias...)
		for range k.m.unitK {
			b = append(b, byte(k.za))
		}
	}
	return b
}

// block returns the size of a column's parameters.
func (k *pair) block() int64 {
	if k.raw {
		return 4
	}
	if k.scales != nil {
		return 8
	}
	return 12
}

func (k *pair) emit(e *emitter, out box, dst view, src []view) {
	r := k.out.indices(out, k.size)
	if r.empty() {
		return
	}
	x := &pairEmitter{pair: k, e: e, dst: dst, a: src[0], b: src[1], r: r}
	rows := r
	each := func(i0, i1 int) {
		rows = rows.along(0, i0, i0+1)
		if !k.stacked() {
			rows = rows.along(1, i1, i1+1)
		}
		for _, ch := range k.m.chunks(k.size[3]) {
			x.chunk(rows.along(3, ch[0], ch[1]))
		}
	}
	for i0 := r.lo[0]; i0 < r.hi[0]; i0++ {
		if k.stacked() {
			each(i0, r.lo[1])
			continue
		}
		for i1 := r.lo[1]; i1 < r.hi[1]; i1++ {
			each(i0, i1)
		}
	}
}

// pairEmitter writes the instructions of one part of a pair.
type pairEmitter struct {
	*pair
	e         *emitter
	dst, a, b view
	r         box

	stored bool  // b is in the arrays' memory
	from   int64 // from there
	place  int64 // here
}

// chunk computes the columns and rows r of the matrices at one leading index.
func (x *pairEmitter) chunk(r box) {
	n := int64(r.ext(3))
	params := x.e.params + int64(r.lo[3])*x.block()
	for i, s := range x.strips(r) {
		rowsY, rowsX := int64(s.ext(1)), int64(s.ext(2))
		rows := rowsY * rowsX
		bytes := 4 * n * rows
		if x.ref() {
			bytes += 4 * n
		}
		acc := x.e.accumulator(bytes)
		if x.m.vector {
			x.dot(s, acc)
		} else {
			x.arrays(s, acc, i == 0, params)
		}
		to := x.dst.at(x.out.point(s.lo))
		args := []int64{to, acc, params, rowsY, x.out.step(x.dst, 1), rowsX, x.out.step(x.dst, 2), n, 4 * n}
		switch {
		case x.raw:
			x.e.emit(isa.OpStoreAcc, args...)
		case x.scales != nil:
			x.e.emit(isa.OpDequantAcc, args...)
		default:
			x.e.emit(isa.OpRequant, append(args, x.zero, x.lo, x.hi)...)
		}
	}
}

// strips cuts the rows r so that the sums of a strip fit.
func (x *pairEmitter) strips(r box) []box {
	var out []box
	if w := r.ext(2); w <= x.m.rows {
		per := x.m.rows / w
		return r.pieces(1, (r.ext(1)+per-1)/per, 1)
	}
	for _, s := range r.pieces(1, r.ext(1), 1) {
		out = append(out, s.pieces(2, (r.ext(2)+x.m.rows-1)/x.m.rows, 1)...)
	}
	return out
}

// dot computes the sums of a strip on the vector unit.
func (x *pairEmitter) dot(s box, acc int64) {
	from := dims{s.lo[0], s.lo[1], 0, s.lo[3]}
	x.e.emit(isa.OpDot, acc, x.a.at(x.pair.a.point(dims{s.lo[0], s.lo[1], s.lo[2], 0})), int64(s.ext(1)), x.pair.a.step(x.a, 1), int64(s.ext(2)), x.pair.a.step(x.a, 2),
		int64(x.k), x.b.at(x.pair.b.point(from)), x.pair.b.step(x.b, 2), int64(s.ext(3)), x.pair.b.step(x.b, 3), x.za, x.zb)
}

// arrays computes the sums of a strip in the arrays, and before the first one's
// or when b is not there as a whole the biases.
func (x *pairEmitter) arrays(s box, acc int64, first bool, params int64) {
	n := int64(s.ext(3))
	rowsY, rowsX := int64(s.ext(1)), int64(s.ext(2))
	ref := acc + 4*n*rowsY*rowsX
	tiles := ceilDiv(n, x.m.tileCols)
	zeros := x.e.params + int64(x.size[3])*(x.block()+4)
	mvm := func(acc, src, rowsY, stepY, rowsX, stepX, length, accumulate int64) {
		x.e.emit(isa.OpMVM, acc, x.place, src, rowsY, stepY, rowsX, stepX,
			int64(x.planes), 0, 1, 0, 1, 0, length, tiles, x.m.KSplit, x.m.RSplit, 0, n, 8, accumulate, 0, 0)
	}
	again := first || x.m.unitK < x.k
	for k := 0; k < x.k; k += x.m.unitK {
		length := int64(min(x.m.unitK, x.k-k))
		if again {
			x.store(dims{s.lo[0], s.lo[1], k, s.lo[3]}, length, n)
		}
		accumulate := int64(0)
		if k > 0 {
			accumulate = 1
		}
		if x.ref() && again {
			mvm(ref, zeros, 1, 0, 1, 0, length, accumulate)
		}
		mvm(acc, x.a.at(x.pair.a.point(dims{s.lo[0], s.lo[1], s.lo[2], k})), rowsY, x.pair.a.step(x.a, 1), rowsX, x.pair.a.step(x.a, 2), length, accumulate)
	}
	if x.ref() && again {
		x.e.emit(isa.OpBiasAcc, params, ref, x.e.params+int64(x.size[3])*x.block()+int64(4*s.lo[3]), n)
	}
}

// store writes part of b into the weight SRAMs, unless it is there.
func (x *pairEmitter) store(idx dims, length, n int64) {
	from := x.b.at(x.pair.b.point(idx))
	if x.stored && x.from == from && x.m.unitK >= x.k && n == int64(x.size[3]) {
		return
	}
	slot := &x.e.written[x.e.cluster]
	x.stored, x.from, x.place = true, from, x.at+*slot*x.half
	*slot ^= 1
	layer := x.e.layer
	x.e.layer = x.writes
	op := isa.OpStoreW
	if x.e.direct {
		op = isa.OpLoadA
	}
	x.e.emit(op, x.place, from, length, x.pair.b.step(x.b, 2), n, x.pair.b.step(x.b, 3), int64(x.planes), x.zb, x.m.KSplit, x.m.RSplit)
	x.e.layer = layer
}

// describe says for people how the product is mapped.
func (k *pair) describe(s *step, pl *plan) string {
	clusters := 0
	for _, b := range s.parts {
		if !b.empty() {
			clusters++
		}
	}
	if k.m.vector {
		return fmt.Sprintf("two activations on the vector unit, %d of %d clusters", clusters, pl.clusters)
	}
	return fmt.Sprintf("two activations, %d of %d clusters; cores %d columns × %d K × %d rows; the second written into the arrays' memory as %d × %d matrices in %d parts",
		clusters, pl.clusters, k.m.NTiles, k.m.KSplit, k.m.RSplit, k.k, k.size[3], len(k.m.chunks(k.size[3]))*((k.k+k.m.unitK-1)/k.m.unitK))
}
