package kernel

import (
	"github.com/llir/llvm/ir/enum"
	"github.com/llir/llvm/ir/types"
)

// Tile is how a thread block of ConvTensor divides its work: WarpsM × WarpsN
// warps, each computing M16 tiles of 16 rows by N8 (an even number) of 8 columns,
// with Stages buffers of shared memory filled ahead.
type Tile struct {
	WarpsM, WarpsN int
	M16, N8        int
	Stages         int
}

// Rows returns the rows (output positions) of a thread block.
func (t Tile) Rows() int { return t.WarpsM * t.M16 * 16 }

// Cols returns the columns (output channels) of a thread block.
func (t Tile) Cols() int { return t.WarpsN * t.N8 * 8 }

// Threads returns the threads of a block.
func (t Tile) Threads() int { return 32 * t.WarpsM * t.WarpsN }

const (
	// TileK is the bytes of the summed dimension in one buffer: the length of a
	// row in shared memory, four pieces of 16 bytes. Piece c of row r stands at
	// place c xor (r/2 xor r/8)%4, so that neither the eight pieces that are copied
	// together (of two rows) nor the eight that a matrix is loaded from (one of
	// eight rows) meet in a bank, and words of every fourth row seldom.
	TileK = 64

	// MaxGroups bounds the groups of a ConvTensor and the matrices of a
	// MatMulTensor: the second dimension of a grid.
	MaxGroups = 65535

	instK = 32 // bytes of the summed dimension of one instruction
)

// inBuffer returns where byte col of row r lies in a buffer.
func (k *fn) inBuffer(r, col val) val {
	twist := k.shl(k.and(k.xor(k.lshr(r, 1), k.lshr(r, 3)), 3), 4)
	return k.add(k.mul(r, TileK), k.xor(col, twist))
}

// ConvTensor is a convolution, or a matrix product with constant weights as one of
// 1×1, on the tensor cores: an implicit matrix product of output positions by
// output channels, summed over taps and input channels. Tiles of both operands
// pass through shared memory, copied asynchronously some turns ahead.
// Parameters: x, w, pad (16 bytes of x's zero point), table, those of the chain, y.
//
// Weights lie as [group][output channel][tap, input channel], with channels filled
// up to whole tiles and the summed dimension to a multiple of TileK with zeros; those
// of 4 bits as packNibbles packs them. Where input channels are several TileK, and
// windows overlap, the taps of one TileK of channels come before those of the next
// (tapsInside), so that what neighbouring taps share is still in L1.
type ConvTensor struct {
	Window Window
	Lie    Lie // of x
	O      int
	Groups int
	X      Codes
	Out    Epilogue
	Form   Form
	Tile   Tile
}

// Lie is how the positions of an image lie in memory, in bytes from one to the next; 0
// stands for dense. Positions may overlap: then channels of a position are those of its
// neighbours as well.
type Lie struct{ Image, Row, Position int }

// lie returns the distances of the images, rows and positions of x.
func (s ConvTensor) lie() Lie {
	if s.Lie != (Lie{}) {
		return s.Lie
	}
	w := s.Window
	return Lie{w.H * w.W * w.C, w.W * w.C, w.C}
}

// Family implements Spec.
func (s ConvTensor) Family() string { return "conv_mma" }

// Params implements Spec.
func (s ConvTensor) Params() []string {
	return s.Out.Then.with(append(s.Form.weightParams(), "pad", "table")...)
}

// M returns the rows of the matrix product.
func (s ConvTensor) M() int { return s.Window.N * s.Window.OH * s.Window.OW }

// K returns the summed dimension.
func (s ConvTensor) K() int { return s.Window.Kernel[0] * s.Window.Kernel[1] * s.Window.C / s.Groups }

func (s ConvTensor) paddedK() int { return (s.K() + TileK - 1) / TileK * TileK }

func (s ConvTensor) tiles() (rows, cols int) {
	og := s.O / s.Groups
	return (s.M() + s.Tile.Rows() - 1) / s.Tile.Rows(), (og + s.Tile.Cols() - 1) / s.Tile.Cols()
}

// Launch implements Spec.
func (s ConvTensor) Launch() Launch {
	rows, cols := s.tiles()
	return Launch{Grid: [3]int{rows * cols, s.Groups, 1}, Block: [3]int{s.Tile.Threads(), 1, 1}, Shared: s.Shared()}
}

// PackWeights lays weights [O, KH, KW, C/Groups] out as the kernel reads them.
func (s ConvTensor) PackWeights(w []int8) []byte {
	og, k, pk := s.O/s.Groups, s.K(), s.paddedK()/TileK*s.colBytes()
	rows := s.paddedCols()
	out := make([]byte, s.PackedBytes())
	for o := range s.O {
		to := out[((o/og)*rows+o%og)*pk:]
		column := w[o*k : (o+1)*k]
		if s.tapsInside() {
			column = s.inTurns(column)
		}
		if s.Form.Nibbles {
			packNibbles(to, column)
			continue
		}
		for i, v := range column {
			to[i] = byte(v)
		}
	}
	return out
}

// steady reports whether each tile of the summed dimension is of one tap, and of how
// many TileK of channels a tap has.
func (s ConvTensor) steady() (turns int, ok bool) {
	ig := s.Window.C / s.Groups
	return ig / TileK, ig%TileK == 0 && s.chunk() == 16
}

// columnOfTaps reports whether each tile is of as many taps, one below the other and all
// inside; what Pixels is for.
func (s ConvTensor) columnOfTaps() bool {
	w := s.Window
	return s.chunk() > 1 && s.Groups == 1 && w.Kernel[0] > 1 && TileK%w.C == 0 && w.C%s.chunk() == 0 && w.Kernel[1] == 1 && s.K()%TileK == 0 && !w.checked(0) && !w.checked(1)
}

// tapsInside reports whether the taps of TileK channels come before the next channels.
func (s ConvTensor) tapsInside() bool {
	turns, ok := s.steady()
	return ok && turns > 1 && s.Overlaps() && !s.Form.Blocks
}

// steadyX is steady for x as it lies.
func (e *tensorEmitter) steadyX() (turns int, ok bool) {
	turns, ok = e.steady()
	return turns, ok && e.copied == 16
}

// inTurns orders a column of weights [tap, input channel] as tapsInside says.
func (s ConvTensor) inTurns(column []int8) []int8 {
	turns, _ := s.steady()
	taps := s.Window.Kernel[0] * s.Window.Kernel[1]
	out := make([]int8, 0, len(column))
	for turn := range turns {
		for tap := range taps {
			out = append(out, column[(tap*turns+turn)*TileK:][:TileK]...)
		}
	}
	return out
}

// PackedBytes is the size of what PackWeights returns.
func (s ConvTensor) PackedBytes() int {
	return s.Groups * s.paddedCols() * s.paddedK() / TileK * s.colBytes()
}

// paddedCols returns the output channels of a group, filled up to whole tiles.
func (s ConvTensor) paddedCols() int {
	_, cols := s.tiles()
	return cols * s.Tile.Cols()
}

// chunk is how many bytes of x are copied at once: as many as are sure to lie
// together and aligned. 1 means that words are gathered byte by byte.
func (s ConvTensor) chunk() int {
	at := s.lie()
	for _, b := range []int{16, 8, 4} {
		if at.Image%b == 0 && at.Row%b == 0 && at.Position%b == 0 && s.Window.C/s.Groups%b == 0 {
			return b
		}
	}
	return 1
}

// tensorEmitter is the state of one emission. Of a ConvTensor, or of a
// MatMulTensor seen as one.
type tensorEmitter struct {
	ConvTensor
	k          *fn
	right      *rightTile // of a MatMulTensor
	tid        val
	lane, warp val
	m0, n0     val           // first row and column of the block
	x, pad     val           // x, and what stands for it outside
	strided                  // how x and y lie
	xAt, yAt   val           // where x and y of the group, or matrix, begin
	channel    func(val) val // the channel of a column
	base       val           // shared memory
	rows       []tensorRow
	col        val // first byte of the thread's pieces of x within TileK
	pieces     int // of weights that the thread copies, wStep columns apart
	wStep      int
	from       val // the first of them in the first tile
	to         val // where it goes in the first buffer
	packed     packedTile
}

// strided says how the operands of a tensorEmitter lie.
type strided struct {
	yPitch   int  // elements from a row of y to the next; x lies as ConvTensor.Lie says
	copied   int  // bytes of x that are copied at once, see ConvTensor.chunk
	stored   int  // results that are stored at once, see ConvTensor.piece
	pairs    bool // two neighbouring results are
	directly bool // see ConvTensor.direct
}

// tensorRow is a row whose pieces of x a thread copies.
type tensorRow struct {
	y0, x0 val // coordinates of tap 0
	base   val // offset of tap 0, channel 0 of the group
	to     val // address in the first buffer, less toOff
	toOff  int

	// Of a steady convolution, or one with a column of taps:
	from val // where the thread's piece of the first tile lies
	taps val // a bit for each tap, of those inside; nil when all are
}

func (s ConvTensor) emit(k *fn) {
	e := newTensorEmitter(k, s)
	group := k.i32(0)
	if s.Groups > 1 {
		group = k.special("ctaid.y")
	}
	og := s.O / s.Groups
	e.xAt, e.yAt = k.mul(group, s.Window.C/s.Groups), k.mul(group, og)
	e.x, e.pad = k.params["x"], k.params["pad"]
	e.channel = func(col val) val { return k.add(k.mul(group, og), col) }
	e.prepareX()
	e.prepareW(group)
	e.preparePacked(group)
	e.finish(e.sums())
}

func newTensorEmitter(k *fn, s ConvTensor) *tensorEmitter {
	e := &tensorEmitter{ConvTensor: s, k: k, tid: k.special("tid.x")}
	e.strided = strided{s.O, s.chunk(), s.piece(), s.O/s.Groups%2 == 0, s.direct()}
	e.lane, e.warp = k.and(e.tid, 31), k.lshr(e.tid, 5)
	e.place()
	e.base = k.address(k.shared())
	return e
}

// swizzle is how many tile rows are walked together, so that blocks that run side
// by side share tiles in L2.
const swizzle = 8

// place finds the block's tile.
func (e *tensorEmitter) place() {
	k, id := e.k, e.k.special("ctaid.x")
	rows, cols := e.tiles()
	var r, c val
	if rows%swizzle == 0 && cols > 1 {
		p := k.split(id, rows/swizzle, cols, swizzle)
		r, c = k.add(k.mul(p[0], swizzle), p[2]), p[1]
	} else {
		p := k.split(id, rows, cols)
		r, c = p[0], p[1]
	}
	e.m0, e.n0 = k.mul(r, e.Tile.Rows()), k.mul(c, e.Tile.Cols())
}

// prepareX finds the rows whose pieces of x the thread copies: each thread copies
// the same columns of several rows.
func (e *tensorEmitter) prepareX() {
	k, w := e.k, e.Window
	piece := max(e.copied, 4)
	perRow := TileK / piece
	e.col = k.mul(k.rem(e.tid, perRow), piece)
	step := e.Tile.Threads() / perRow
	for j := range e.Tile.Rows() / step {
		r := k.add(k.div(e.tid, perRow), j*step)
		m := k.add(e.m0, r)
		if e.M()%e.Tile.Rows() != 0 { // rows beyond the last repeat it, and are not stored
			m = k.min(m, e.M()-1)
		}
		p := k.split(m, w.N, w.OH, w.OW)
		row := tensorRow{y0: k.first(w, 0, p[1]), x0: k.first(w, 1, p[2])}
		lie := e.lie()
		row.base = k.add(k.mul(p[0], lie.Image), e.xAt)
		row.base = k.add(row.base, k.add(k.mul(row.y0, lie.Row), k.mul(row.x0, lie.Position)))
		if like := j % (max(twistPeriod, step) / step); j > like {
			row.to, row.toOff = e.rows[like].to, (j-like)*step*TileK
		} else {
			row.to = k.add(e.base, k.inBuffer(r, e.col))
		}
		if _, ok := e.steadyX(); ok {
			row.from = k.at(e.x, k.add(row.base, e.col))
			row.taps = e.tapsOf(row)
		} else if e.columnOfTaps() {
			_, _, off, _ := e.tapOf(e.col)
			row.from = k.at(e.x, k.add(row.base, off))
		}
		e.rows = append(e.rows, row)
	}
}

// twistPeriod is a number of rows after which the places of pieces in a buffer repeat.
const twistPeriod = 32

// maxTapBits bounds the taps of which a word has a bit each.
const maxTapBits = 32

// tapsOf returns a bit for each tap of a row's window that is inside, nil when all are or
// there are too many.
func (e *tensorEmitter) tapsOf(r tensorRow) val {
	k, w := e.k, e.Window
	if !w.checked(0) && !w.checked(1) || w.Kernel[0]*w.Kernel[1] > maxTapBits {
		return nil
	}
	inside := func(axis int, first val, tap int) val {
		if !w.checked(axis) {
			return k.i32(1)
		}
		return k.zext(k.inside(k.add(first, tap*w.Dilation[axis]), w.size(axis)), types.I32)
	}
	cols, taps := k.i32(0), k.i32(0)
	for x := range w.Kernel[1] {
		cols = k.or(cols, k.shl(inside(1, r.x0, x), x))
	}
	for y := range w.Kernel[0] {
		taps = k.or(taps, k.shl(k.mul(cols, inside(0, r.y0, y)), y*w.Kernel[1]))
	}
	return taps
}

// prepareW finds the thread's pieces of weights.
func (e *tensorEmitter) prepareW(group val) {
	k := e.k
	const perRow = TileK / 16
	piece := e.colBytes() / perRow
	step := e.Tile.Threads() / perRow
	e.pieces, e.wStep = e.Tile.Cols()/step, step
	n := k.div(e.tid, perRow)
	col := k.mul(k.rem(e.tid, perRow), piece)
	row := k.add(k.add(k.mul(group, e.paddedCols()), e.n0), n)
	e.from = k.at(k.params["w"], k.add(k.mul(row, e.paddedK()/TileK*e.colBytes()), col))
	if e.Form.Nibbles { // read by eight bytes, which meet in no bank as they lie
		e.to = k.add(e.base, k.add(k.add(k.mul(n, e.colBytes()), col), e.Tile.Rows()*TileK))
		return
	}
	e.to = k.add(e.base, k.inBuffer(k.add(n, e.Tile.Rows()), col))
}

// tapOf takes a position of the summed dimension apart: the tap's coordinates
// relative to tap 0, its offset in x, and whether it exists (nil when it must).
func (e *tensorEmitter) tapOf(at val) (dy, dx, off, exists val) {
	k, w := e.k, e.Window
	p := k.split(at, w.Kernel[0], w.Kernel[1], w.C/e.Groups)
	if e.tapsInside() {
		p = k.split(at, w.C/e.Groups/TileK, w.Kernel[0], w.Kernel[1], TileK)
		p = []val{p[1], p[2], k.add(k.mul(p[0], TileK), p[3])}
	}
	dy, dx = k.mul(p[0], w.Dilation[0]), k.mul(p[1], w.Dilation[1])
	lie := e.lie()
	off = k.add(k.add(k.mul(dy, lie.Row), k.mul(dx, lie.Position)), p[2])
	if e.K()%TileK != 0 {
		exists = k.cmp(enum.IPredULT, at, e.K())
	}
	return dy, dx, off, exists
}

// source returns where the byte of x at a tap lies for a row: in x, or in pad.
func (e *tensorEmitter) source(r tensorRow, dy, dx, off, exists val) val {
	k, w, in := e.k, e.Window, exists
	if w.checked(0) {
		in = k.both(in, k.inside(k.add(r.y0, dy), w.H))
	}
	if w.checked(1) {
		in = k.both(in, k.inside(k.add(r.x0, dx), w.W))
	}
	from := k.at(e.x, k.add(r.base, off))
	if in == nil {
		return from
	}
	return k.sel(in, from, e.pad)
}

// fill begins to copy tile t of the summed dimension into the buffer at offset
// stage.
func (e *tensorEmitter) fill(t, stage val) {
	k := e.k
	at := k.mul(t, TileK)
	if e.right != nil {
		e.right.fill(e, at, stage)
	}
	if e.pieces > 0 {
		to, from := k.add(e.to, stage), k.bits(k.at(e.from, k.mul(t, e.colBytes())))
		for j := range e.pieces {
			k.copyAsync(to, j*e.wStep*e.colBytes(), from, j*e.wStep*e.paddedK()/TileK*e.colBytes(), e.colBytes()/4, false)
		}
	}
	e.fillFactors(t, stage)
	if turns, ok := e.steadyX(); ok && (e.rows[0].taps != nil || !e.Window.checked(0) && !e.Window.checked(1)) {
		e.fillSteady(t, stage, turns)
		return
	}
	if e.columnOfTaps() {
		w := e.Window
		off := k.sext(k.mul(t, TileK/w.C*w.Dilation[0]*e.lie().Row), types.I64)
		for _, r := range e.rows {
			k.copyAsync(k.add(r.to, stage), r.toOff, k.bits(k.at(r.from, off)), 0, e.copied, true)
		}
		return
	}
	at = k.add(at, e.col)
	if piece := e.copied; piece > 1 {
		dy, dx, off, exists := e.tapOf(at)
		for _, r := range e.rows {
			k.copyAsync(k.add(r.to, stage), r.toOff, k.bits(e.source(r, dy, dx, off, exists)), 0, piece, e.Overlaps())
		}
		return
	}
	words := make([]val, len(e.rows))
	for i := range words {
		words[i] = k.i32(0)
	}
	for b := range 4 {
		dy, dx, off, exists := e.tapOf(k.add(at, b))
		for i, r := range e.rows {
			v := k.zext(k.load(types.I8, e.source(r, dy, dx, off, exists), 0), types.I32)
			words[i] = k.or(words[i], k.shl(v, 8*b))
		}
	}
	for i, r := range e.rows {
		p := k.b.NewIntToPtr(k.add(k.add(r.to, r.toOff), stage), pointer(types.I32, spaceShared))
		k.store(words[i], p, 0)
	}
}

// fillSteady copies the thread's pieces of x of tile t, which are all of one tap, of
// which each has so many turns.
func (e *tensorEmitter) fillSteady(t, stage val, turns int) {
	k, w, lie := e.k, e.Window, e.lie()
	taps := w.Kernel[0] * w.Kernel[1]
	tap, channel := k.div(t, turns), k.rem(t, turns)
	if e.tapsInside() {
		channel, tap = k.div(t, taps), k.rem(t, taps)
	}
	y, x := k.div(tap, w.Kernel[1]), k.rem(tap, w.Kernel[1])
	off := k.add(k.mul(y, w.Dilation[0]*lie.Row), k.add(k.mul(x, w.Dilation[1]*lie.Position), k.mul(channel, TileK)))
	off = k.sext(off, types.I64)
	bit := k.shl(k.i32(1), tap)
	for _, r := range e.rows {
		from := k.at(r.from, off)
		if r.taps != nil {
			from = k.sel(k.cmp(enum.IPredNE, k.and(r.taps, bit), 0), from, e.pad)
		}
		k.copyAsync(k.add(r.to, stage), r.toOff, k.bits(from), 0, 16, e.Overlaps())
	}
}

// sums computes the block's sums: of each warp's tiles, by row of tiles, column
// of tiles, and the four of a thread.
func (e *tensorEmitter) sums() []val {
	k, t := e.k, e.Tile
	size := e.bufferBytes()
	turns := e.paddedK() / TileK
	ahead := t.Stages - 1
	for i := range ahead {
		if i < turns {
			e.fill(k.i32(i), k.i32(i*size))
		}
		k.commitCopies()
	}
	warpM, warpN := k.div(e.warp, t.WarpsN), k.rem(e.warp, t.WarpsN)
	// Where the lane's rows for ldmatrix begin in the first buffer, for each of the
	// two steps in a buffer.
	row := k.add(k.mul(warpM, 16*t.M16), k.and(e.lane, 15))
	col := k.mul(warpN, 8*t.N8)
	if e.beside() == 2 {
		col = k.add(col, k.add(k.and(e.lane, 7), k.mul(k.lshr(e.lane, 4), 8)))
	} else {
		within := k.add(k.mul(k.and(k.lshr(e.lane, 1), 3), e.beside()), k.and(e.lane, 1))
		col = k.add(col, k.add(within, k.mul(k.lshr(e.lane, 4), 2)))
	}
	var aFrom, bFrom [TileK / instK]val
	for step := range aFrom {
		aFrom[step] = k.add(e.base, k.inBuffer(row, k.add(k.mul(k.lshr(e.lane, 4), 16), step*instK)))
		bFrom[step] = k.add(e.base, k.inBuffer(k.add(col, t.Rows()), k.add(k.mul(k.and(k.lshr(e.lane, 3), 1), 16), step*instK)))
	}

	init := make([]val, 4*t.M16*t.N8+e.right.extra(t))
	for i := range init {
		init[i] = k.i32(0)
	}
	sums := len(init)
	init = append(init, k.i32(0), k.i32(ahead*size)) // buffers to read and to fill
	return k.loop(turns, init, func(i val, c []val) []val {
		acc, read, write := c[:sums], c[sums], c[sums+1]
		k.awaitCopies(ahead - 1)
		k.barrier()
		if turns > ahead {
			next := k.add(i, ahead)
			k.when(k.cmp(enum.IPredULT, next, turns), func() { e.fill(next, write) })
		}
		k.commitCopies()
		acc = append([]val{}, acc...)
		var a, b [TileK / instK]val
		for step := range a {
			a[step], b[step] = k.add(aFrom[step], read), k.add(bFrom[step], read)
		}
		words := e.nibbleWords(read)
		for step := range a {
			e.multiply(a, b, words, step, read, acc)
		}
		wrap := func(at val) val {
			at = k.add(at, size)
			return k.sel(k.cmp(enum.IPredEQ, at, t.Stages*size), k.i32(0), at)
		}
		return append(acc, wrap(read), read) // what was read now is filled next
	})[:sums]
}

// beside is how many neighbouring columns a lane has results of. The columns of a warp's
// tiles are dealt out so: the first two columns of a lane are of one tile, the next two
// of the next.
func (s ConvTensor) beside() int {
	switch {
	case s.Form.Nibbles: // which are read as columns lie
		return 2
	case s.Tile.N8%4 == 0:
		return 8
	}
	return 4
}

// tileColumn is the column of the warp that is column 0 of its tile n. The others of the
// tile follow as lanes have them: two, and the next two beside() further.
func (s ConvTensor) tileColumn(n int) int {
	tiles := s.beside() / 2
	return 8*tiles*(n/tiles) + 2*(n%tiles)
}

// multiply adds the products of one step to acc. Sixteen rows on, the other
// step's address is right: the twist differs there by two pieces. So it does from the
// columns of a pair of tiles to those of the next, sixteen or four on.
func (e *tensorEmitter) multiply(aFrom, bFrom [TileK / instK]val, words [][TileK / instK]val, step int, read val, acc []val) {
	k, t := e.k, e.Tile
	signedB := e.right == nil || e.right.Codes.Signed
	var a [][4]val
	for m := range t.M16 {
		a = append(a, k.ldmatrix(aFrom[step^m&1], m*16*TileK))
	}
	for n := 0; n < t.N8; n += 2 {
		var b [4]val
		if words == nil {
			b = k.ldmatrix(bFrom[step^n/2&1], e.tileColumn(n)*TileK)
		}
		for h := range 2 {
			right := [2]val{b[2*h], b[2*h+1]}
			if words != nil {
				right = k.fragment(words[n+h][step])
			}
			var factors [2]val
			if e.Form.Blocks {
				factors = e.blockFactors(step, n+h, read)
			}
			for m := range t.M16 {
				e.addProduct(signedB, a[m], right, factors, acc[4*(m*t.N8+n+h):][:4])
			}
			e.right.addColumn(e, right, n+h, acc)
		}
	}
	for m := range t.M16 {
		e.right.addRow(e, a[m], m, acc)
	}
}

// piece is how many results a thread stores at once after they have passed
// through shared memory; 0 means that each thread stores its own pairs.
func (s ConvTensor) piece() int {
	for _, p := range []int{16, 4} {
		if !s.Out.Sums && s.O/s.Groups%p == 0 {
			return p
		}
	}
	return 0
}

// resultPitch is the distance of rows of results in shared memory: the four bytes
// of four lanes of eight rows fall into different banks.
func (t Tile) resultPitch() int { return t.Cols() + 16 }

// finish turns sums into results and stores them: a thread has two neighbouring
// columns of rows lane/4 and lane/4+8 of each tile.
func (e *tensorEmitter) finish(acc []val) {
	k, t := e.k, e.Tile
	og := e.O / e.Groups
	warpM, warpN := k.div(e.warp, t.WarpsN), k.rem(e.warp, t.WarpsN)
	row := k.add(k.mul(warpM, 16*t.M16), k.lshr(e.lane, 2))
	col := k.add(k.mul(warpN, 8*t.N8), k.mul(k.and(e.lane, 3), e.beside()))
	if e.directly {
		e.finishDirect(acc, row, col)
		return
	}
	piece := e.stored
	if piece > 0 { // the last buffers are read before results take their place
		k.barrier()
	}
	for n := range t.N8 {
		c := k.add(col, e.tileColumn(n))
		var exists, second val
		if og%t.Cols() != 0 {
			exists = k.cmp(enum.IPredULT, k.add(e.n0, c), og)
			second = k.cmp(enum.IPredULT, k.add(k.add(e.n0, c), 1), og)
		}
		k.when(exists, func() {
			channel := e.channel(k.add(e.n0, c))
			next := k.add(channel, 1)
			if og%2 != 0 { // the table ends with the last channel
				next = k.min(next, e.O-1)
			}
			p0, p1 := e.Out.load(k, channel), e.Out.load(k, next)
			for m := range t.M16 {
				for h := range 2 {
					s := acc[4*(m*t.N8+n)+2*h:]
					r := k.add(row, 16*m+8*h)
					if piece > 0 {
						e.stage(k.add(k.mul(r, t.resultPitch()), c), e.Out.finish(k, s[0], p0), e.Out.finish(k, s[1], p1))
						continue
					}
					r = k.add(e.m0, r)
					k.when(e.inRows(r), func() {
						v0, v1 := e.Out.finish(k, s[0], p0), e.Out.finish(k, s[1], p1)
						at := k.add(k.mul(r, e.yPitch), k.add(e.yAt, k.add(e.n0, c)))
						if e.pairs {
							e.Out.store(k, at, v0, v1)
							return
						}
						e.Out.store(k, at, v0)
						k.when(second, func() { e.Out.store(k, k.add(at, 1), v1) })
					})
				}
			}
		})
	}
	if piece > 0 {
		k.barrier()
		e.flush(piece)
	}
}

// direct reports whether lanes store neighbouring results as they have them.
func (s ConvTensor) direct() bool {
	n := s.beside()
	return n > 2 && !s.Out.Sums && s.O%n == 0 && s.O/s.Groups%n == 0
}

// finishDirect is finish where lanes store beside() results of a row at once, of which
// four lanes fill a sector or half of one.
func (e *tensorEmitter) finishDirect(acc []val, row, col val) {
	k, t := e.k, e.Tile
	og, wide := e.O/e.Groups, e.beside()
	tiles := wide / 2
	first := k.add(e.m0, row)
	start := k.add(k.mul(first, e.yPitch), k.add(e.yAt, k.add(e.n0, col)))
	for n := 0; n < t.N8; n += tiles {
		c := k.add(k.add(e.n0, col), e.tileColumn(n))
		var exists val
		if og%t.Cols() != 0 {
			exists = k.cmp(enum.IPredULT, c, og)
		}
		k.when(exists, func() {
			channel := e.channel(c)
			ps := make([]channelParams, wide)
			for i := range ps {
				ps[i] = e.Out.load(k, k.add(channel, i))
			}
			for m := range t.M16 {
				for h := range 2 {
					k.when(e.inRows(k.add(first, 16*m+8*h)), func() {
						var sums []val
						for i := range tiles {
							sums = append(sums, acc[4*(m*t.N8+n+i)+2*h:][:2]...)
						}
						at := k.add(start, (16*m+8*h)*e.yPitch+e.tileColumn(n))
						k.store(k.vectorOf(e.Out.words(k, sums, ps, at)), k.params["y"], at)
					})
				}
			}
		})
	}
}

// Overlaps reports whether the windows of neighbouring positions share taps.
func (s ConvTensor) Overlaps() bool {
	w := s.Window
	return w.Kernel[0] > w.Stride[0] || w.Kernel[1] > w.Stride[1] || s.lie().Position < w.C
}

// inRows reports whether row r of the product exists (nil when it must).
func (e *tensorEmitter) inRows(r val) val {
	if e.M()%e.Tile.Rows() == 0 {
		return nil
	}
	return e.k.cmp(enum.IPredULT, r, e.M())
}

// stage puts two neighbouring results into shared memory.
func (e *tensorEmitter) stage(at, v0, v1 val) {
	k := e.k
	p := k.b.NewIntToPtr(k.add(e.base, at), pointer(types.I16, spaceShared))
	k.store(k.trunc(k.packBytes([]val{v0, v1}), types.I16), p, 0)
}

// flush takes the block's results from shared memory through the chain to where
// they belong, piece neighbouring ones at a time.
func (e *tensorEmitter) flush(piece int) {
	k, t := e.k, e.Tile
	og, perRow := e.O/e.Groups, t.Cols()/piece
	pieces := t.Rows() * perRow
	k.repeat((pieces+t.Threads()-1)/t.Threads(), nil, func(j val, c []val) []val {
		id := k.add(k.mul(j, t.Threads()), e.tid)
		var in val
		if pieces%t.Threads() != 0 {
			in = k.cmp(enum.IPredULT, id, pieces)
		}
		p := k.split(id, t.Rows(), perRow)
		r, col := k.add(e.m0, p[0]), k.mul(p[1], piece)
		in = k.both(in, e.inRows(r))
		if og%t.Cols() != 0 {
			in = k.both(in, k.cmp(enum.IPredULT, k.add(e.n0, col), og))
		}
		k.when(in, func() {
			from := k.add(e.base, k.add(k.mul(p[0], t.resultPitch()), col))
			word := word(piece)
			v := k.load(word, k.b.NewIntToPtr(from, pointer(word, spaceShared)), 0)
			at := k.add(k.mul(r, e.yPitch), k.add(e.yAt, k.add(e.n0, col)))
			if e.Out.Then != nil {
				codes := k.codesOf(v, piece, e.Out.Range.Lo < 0)
				v = k.wordOf(e.Out.Then.apply(k, codes, at))
			}
			k.store(v, k.params["y"], at)
		})
		return c
	})
}
