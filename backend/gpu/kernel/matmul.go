package kernel

import "github.com/llir/llvm/ir/enum"

// MatMul is the product of two activations, for every matrix of a batch, one
// result a thread. Parameters: a, b, table, those of the chain, y.
//
// The operands and the result lie wherever their strides say, so that transposes and
// slices before a product, and one after it, need no kernel: heads that are split or
// merged, keys that are turned, what is joined with the results of another product.
type MatMul struct {
	Batch   Nest // elements before the matrix of y, a and b
	M, K, N int
	A, B    Codes
	ZA, ZB  int32
	Out     Epilogue // the table has one row for each column

	// Elements from a row of a, b and y to the next; columns are neighbours. Of b
	// Turned, which lies by columns, from a column to the next.
	PitchA, PitchB, PitchY int
	Turned                 bool
	BytesA, BytesB         int // of the tensors that a and b are parts of
}

// Family implements Spec.
func (s MatMul) Family() string { return "matmul" }

// Params implements Spec.
func (s MatMul) Params() []string { return s.Out.Then.with("a", "b", "table") }

// Launch implements Spec.
func (s MatMul) Launch() Launch { return linear(s.Batch.Size() * s.M * s.N) }

// stepsB are the elements of b from one of the summed dimension to the next, and
// from one column to the next.
func (s MatMul) stepsB() (k, n int) {
	if s.Turned {
		return 1, s.PitchB
	}
	return s.PitchB, 1
}

// aligned returns the largest of 16, 8, 4 and 1 bytes of which every row of operand p
// of the batch begins at a multiple.
func (s MatMul) aligned(p, pitch int) int {
	for _, b := range []int{16, 8, 4} {
		if s.Batch.multiples(p, b) && pitch%b == 0 {
			return b
		}
	}
	return 1
}

// pieceA and pieceB are how many bytes of an operand are read at once: each piece with
// an element of the operand lies in its tensor, which begins at a multiple of 16.
func (s MatMul) pieceA() int { return piece(s.aligned(1, s.PitchA), s.BytesA) }
func (s MatMul) pieceB() int { return piece(s.aligned(2, s.PitchB), s.BytesB) }

func piece(aligned, bytes int) int {
	for _, b := range []int{16, 4} {
		if aligned >= b && bytes%b == 0 {
			return b
		}
	}
	return 1
}

func (s MatMul) emit(k *fn) {
	k.each(s.Batch.Size()*s.M*s.N, func(i val) {
		c := k.split(i, s.Batch.Size(), s.M, s.N)
		at := k.offsets(s.Batch, c[0])
		stepK, stepN := s.stepsB()
		a := k.add(at[1], k.mul(c[1], s.PitchA))
		b := k.add(at[2], k.mul(c[2], stepN))
		sum := k.repeat(s.K, []val{k.i32(0)}, func(j val, acc []val) []val {
			x := k.sub(k.loadCode(s.A, k.params["a"], k.add(a, j)), int(s.ZA))
			w := k.sub(k.loadCode(s.B, k.params["b"], k.add(b, k.mul(j, stepK))), int(s.ZB))
			return []val{k.add(acc[0], k.mul(x, w))}
		})[0]
		y := k.add(k.add(at[0], k.mul(c[1], s.PitchY)), c[2])
		s.Out.store(k, y, s.Out.finish(k, sum, s.Out.load(k, c[2])))
	})
}

// MaxFewRows is the greatest number of rows of a MatMulFew.
const MaxFewRows = 64

// MatMulFew is MatMul for few rows, such as the new tokens of a decoder and the heads
// that share a key, on the tensor cores, straight from memory: every byte of b is read
// once, by 16 where it lies so. Parameters as of MatMul.
//
// Which place of an instruction's summed dimension an element takes is free, as long
// as it is the same for both operands, and so is which column. A lane takes sixteen
// neighbours of the summed dimension, two steps of an instruction, of the rows of a
// and, where b is turned, of its columns: the bytes are the fragment as they lie. Of b
// by rows it takes as many rows, whose bytes it transposes in registers, four by four.
//
// Turned, a warp takes 32 columns at a time. By rows, the warps of a block share the
// summed dimension, and their sums are added in shared memory. Zero points are taken
// out as by MatMulTensor; where rows of a tile are free, one of ones gives the sums of
// the columns of b.
type MatMulFew struct {
	MatMul
	Warps  int // of a block
	Groups int // turned: how many times a warp takes 32 columns
	Wide   int // by rows: neighbouring columns of a lane, 4 or 16
}

// Family implements Spec.
func (s MatMulFew) Family() string { return "matmul_few" }

// fewChunk is the elements of the summed dimension that four lanes take at once.
const fewChunk = 64

// fewColumns is the columns that a warp takes at once where b is turned.
const fewColumns = 32

func (s MatMulFew) columns() int {
	if s.Turned {
		return fewColumns * s.Warps * s.Groups
	}
	return 8 * s.Wide
}

func (s MatMulFew) tiles() int  { return (s.N + s.columns() - 1) / s.columns() }
func (s MatMulFew) chunks() int { return (s.K + fewChunk - 1) / fewChunk }
func (s MatMulFew) m16() int    { return (s.M + 15) / 16 }

// sumPitch is the words between rows of sums in shared memory.
func (s MatMulFew) sumPitch() int { return s.columns() + 4 }

// Launch implements Spec.
func (s MatMulFew) Launch() Launch {
	l := Launch{Grid: [3]int{s.Batch.Size() * s.tiles(), 1, 1}, Block: [3]int{32 * s.Warps, 1, 1}}
	if !s.Turned {
		l.Shared = 4 * s.Warps * s.M * s.sumPitch()
	}
	return l
}

// Fit chooses how the work is divided among the SMs of a GPU.
func (s MatMulFew) Fit(sms int) MatMulFew {
	if s.Turned {
		s.Warps = 4
		for s.Groups = 4; s.Groups > 1 && s.Launch().Grid[0] < 4*sms; s.Groups /= 2 {
		}
		return s
	}
	s.Warps, s.Wide = 1, 16
	if s.m16() > 1 || s.N%16 != 0 || s.pieceB() < 16 || s.Launch().Grid[0] < 2*sms {
		s.Wide = 4
	}
	const warpsOfSM = 16
	wanted := (warpsOfSM*sms + s.Launch().Grid[0] - 1) / s.Launch().Grid[0]
	s.Warps = min(max(wanted, 4), 16, s.chunks())
	return s
}

// fewEmitter is the state of one emission.
type fewEmitter struct {
	MatMulFew
	k         *fn
	tid, warp val
	g, q      val // the lane's row and column of four by eight lanes
	y, a, b   val // where the matrices begin
	pastEnd   bool
	rowSums   int // the first of the sums of rows among accumulators
	colSums   int // the first of those of columns, where they are not a row of the product
}

func (s MatMulFew) emit(k *fn) {
	e := &fewEmitter{MatMulFew: s, k: k, tid: k.special("tid.x")}
	lane := k.and(e.tid, 31)
	e.warp, e.g, e.q = k.lshr(e.tid, 5), k.lshr(lane, 2), k.and(lane, 3)
	at := k.split(k.special("ctaid.x"), s.Batch.Size(), s.tiles())
	base := k.offsets(s.Batch, at[0])
	e.y, e.a, e.b = base[0], base[1], base[2]
	if s.Turned {
		e.turned(at[1])
	} else {
		e.byRows(at[1])
	}
}

// start returns accumulators of zeros for tiles of eight columns.
func (e *fewEmitter) start(tiles int) []val {
	n := 4 * tiles * e.m16()
	e.rowSums = n
	if e.ZB != 0 {
		n += 4 * e.m16()
	}
	e.colSums = n
	if e.ZA != 0 && !e.freeRow() {
		n += 4 * tiles
	}
	acc := make([]val, n)
	for i := range acc {
		acc[i] = e.k.i32(0)
	}
	return acc
}

// freeRow reports whether the last tile of rows has a row, M, that is not one of a.
func (e *fewEmitter) freeRow() bool { return e.M%16 != 0 }

// of returns the four sums of a tile of columns and one of rows.
func (e *fewEmitter) of(acc []val, tile, m int) []val { return acc[4*(tile*e.m16()+m):][:4] }

// fewRows are the lane's elements of a in one chunk, as fragments for two steps, and
// ones where the summed dimension has elements.
type fewRows struct {
	a    [][2][4]val // by tile of 16 rows
	ones [2][4]val
}

// rows loads a chunk of the rows of a; what lies past the summed dimension is 0.
func (e *fewEmitter) rows(chunk val) fewRows {
	k := e.k
	pos := k.add(k.mul(chunk, fewChunk), k.mul(e.q, 16))
	var masks [4]val
	r := fewRows{a: make([][2][4]val, e.m16())}
	for w := range 4 {
		one := k.i32(ones)
		if e.pastEnd {
			masks[w] = k.lowBytes(k.sub(k.i32(e.K), k.add(pos, 4*w)))
			one = k.and(masks[w], ones)
		}
		for h := range 2 { // of either half of the rows
			r.ones[w/2][2*(w%2)+h] = one
		}
	}
	for m := range e.m16() {
		for h := range 2 {
			first := 16*m + 8*h
			words := [4]val{k.i32(0), k.i32(0), k.i32(0), k.i32(0)}
			if e.ZA != 0 && first == e.M {
				for w := range words {
					words[w] = k.sel(k.cmp(enum.IPredEQ, e.g, 0), r.ones[w/2][2*(w%2)], words[w])
				}
			}
			if first < e.M {
				row := k.add(e.g, first)
				if first+8 > e.M { // rows beyond the last repeat it, and are not stored
					row = k.min(row, e.M-1)
				}
				words = e.words("a", k.add(e.a, k.mul(row, e.PitchA)), pos, e.pieceA())
			}
			for w, v := range words {
				if e.pastEnd && first < e.M {
					v = k.and(v, masks[w])
				}
				if e.ZA != 0 && first < e.M && e.M < first+8 {
					v = k.sel(k.cmp(enum.IPredEQ, e.g, e.M-first), r.ones[w/2][2*(w%2)], v)
				}
				r.a[m][w/2][2*(w%2)+h] = v
			}
		}
	}
	return r
}

// lowBytes is a mask of the n lowest bytes of a word, all from 4 on, none below 1.
func (k *fn) lowBytes(n val) val {
	some := k.sub(k.b.NewShl(k.i32(1), k.shl(n, 3)), 1)
	return k.sel(k.cmp(enum.IPredSGE, n, 4), k.i32(-1), k.sel(k.cmp(enum.IPredSLE, n, 0), k.i32(0), some))
}

// words loads sixteen neighbours of the summed dimension from pos on, piece at a time.
// Pieces past its end are those at its beginning.
func (e *fewEmitter) words(param string, at, pos val, piece int) (out [4]val) {
	k := e.k
	bytes := make([]val, 0, 16)
	for o := 0; o < 16; o += piece {
		p := k.add(pos, o)
		if e.pastEnd {
			p = k.sel(k.cmp(enum.IPredULT, p, e.K), p, k.i32(0))
		}
		v := k.load(word(piece), k.params[param], k.add(at, p))
		switch piece {
		case 16:
			for i := range out {
				out[i] = k.b.NewExtractElement(v, k.i32(i))
			}
		case 4:
			out[o/4] = v
		default:
			bytes = append(bytes, k.zext(v, word(4)))
		}
	}
	for i := range len(bytes) / 4 {
		out[i] = k.packBytes(bytes[4*i:][:4])
	}
	return out
}

// multiply adds the products of one step's fragments of rows by one of columns.
func (e *fewEmitter) multiply(r fewRows, step int, b [2]val, tile int, acc []val) {
	k := e.k
	for m := range e.m16() {
		c := e.of(acc, tile, m)
		copy(c, k.mma(e.A.Signed, e.B.Signed, r.a[m][step], b, c))
	}
	if e.ZA != 0 && !e.freeRow() {
		c := acc[e.colSums+4*tile:][:4]
		copy(c, k.mma(true, e.B.Signed, r.ones[step], b, c))
	}
}

// addRows adds a chunk to the sums of rows.
func (e *fewEmitter) addRows(r fewRows, acc []val) {
	if e.ZB == 0 {
		return
	}
	k, one := e.k, [2]val{e.k.i32(ones), e.k.i32(ones)}
	for m := range e.m16() {
		for step := range 2 {
			c := acc[e.rowSums+4*m:][:4]
			copy(c, k.mma(e.A.Signed, true, r.a[m][step], one, c))
		}
	}
}

// shiftColumns returns for each tile and either of a lane's columns what the zero point
// of a adds to every sum of the column; nil without one. All lanes of a warp take part.
func (e *fewEmitter) shiftColumns(acc []val, tiles int) (out [][2]val) {
	if e.ZA == 0 {
		return nil
	}
	k := e.k
	for t := range tiles {
		var s [2]val
		for i := range s {
			if e.freeRow() {
				m, r := e.M/16, e.M%16
				s[i] = k.shuffleFrom(e.of(acc, t, m)[2*(r/8)+i], k.add(e.q, 4*(r%8)))
			} else {
				s[i] = acc[e.colSums+4*t+i]
			}
			s[i] = k.mul(s[i], int(e.ZA))
		}
		out = append(out, s)
	}
	return out
}

// sum is sum i of a tile with the zero points taken out, but for K times both.
func (e *fewEmitter) sum(acc []val, columns [][2]val, tile, m, i int) val {
	k, v := e.k, e.of(acc, tile, m)[i]
	if e.ZB != 0 {
		v = k.sub(v, k.mul(acc[e.rowSums+4*m+i], int(e.ZB)))
	}
	if columns != nil {
		v = k.sub(v, columns[tile][i%2])
	}
	return v
}

// both is K times both zero points.
func (e *fewEmitter) both() int { return int(int32(e.K) * e.ZA * e.ZB) }

// turned computes the block's columns where each lies together.
func (e *fewEmitter) turned(tile val) {
	k := e.k
	perTurn := min(e.chunks(), 2)
	turns := (e.chunks() + perTurn - 1) / perTurn
	e.pastEnd = turns*perTurn*fewChunk > e.K
	const tiles = fewColumns / 8
	chunk := func(t val, i int) val { return k.add(k.mul(t, perTurn), i) }
	var all []fewRows // of the only turn
	if turns == 1 {
		for i := range perTurn {
			all = append(all, e.rows(k.i32(i)))
		}
	}
	k.loop(e.Groups, nil, func(i val, none []val) []val {
		n0 := k.mul(k.add(k.mul(k.add(k.mul(tile, e.Groups), i), e.Warps), e.warp), fewColumns)
		body := func() {
			acc := k.loop(turns, e.start(tiles), func(t val, c []val) []val {
				acc := append([]val{}, c...)
				var b [2][tiles][4]val
				for i := range perTurn {
					for j := range tiles {
						// Column c of tile j is 8·(c/2) + 2·j + c%2 of the 32, so that a lane's
						// results are neighbours.
						n := k.add(n0, k.add(k.add(k.mul(k.lshr(e.g, 1), 8), 2*j), k.and(e.g, 1)))
						if e.N%fewColumns != 0 {
							n = k.min(n, e.N-1)
						}
						pos := k.add(k.mul(chunk(t, i), fewChunk), k.mul(e.q, 16))
						b[i][j] = e.words("b", k.add(e.b, k.mul(n, e.PitchB)), pos, e.pieceB())
					}
				}
				rows := all
				if rows == nil {
					for i := range perTurn {
						rows = append(rows, e.rows(chunk(t, i)))
					}
				}
				for i := range perTurn {
					for step := range 2 {
						for j := range tiles {
							e.multiply(rows[i], step, [2]val{b[i][j][2*step], b[i][j][2*step+1]}, j, acc)
						}
					}
					e.addRows(rows[i], acc)
				}
				return acc
			})
			columns := e.shiftColumns(acc, tiles)
			for m := range e.m16() {
				for h := range 2 {
					e.storeTurned(acc, columns, m, h, k.add(n0, k.mul(e.q, 8)))
				}
			}
		}
		if e.tiles()*e.columns()-e.N < fewColumns {
			body()
		} else {
			k.when(k.cmp(enum.IPredULT, n0, e.N), body)
		}
		return none
	})
}

// storeTurned finishes and stores eight neighbours, from column n on, of a lane's row
// in half h of a tile of rows.
func (e *fewEmitter) storeTurned(acc []val, columns [][2]val, m, h int, n val) {
	k := e.k
	first := 16*m + 8*h
	if first >= e.M {
		return
	}
	row := k.add(e.g, first)
	var in val
	if first+8 > e.M {
		in = k.cmp(enum.IPredULT, row, e.M)
	}
	if e.N%fewColumns != 0 {
		in = k.both(in, k.cmp(enum.IPredULT, n, e.N))
	}
	k.when(in, func() {
		out := make([]val, 8)
		for i := range out {
			channel := k.add(n, i)
			if e.N%8 != 0 {
				channel = k.min(channel, e.N-1)
			}
			v := k.add(e.sum(acc, columns, i/2, m, 2*h+i%2), e.both())
			out[i] = e.Out.finish(k, v, e.Out.load(k, channel))
		}
		e.store(row, n, out)
	})
}

// store writes neighbours of a row, from column n on, a multiple of their number; those
// past the last column are left out.
func (e *fewEmitter) store(row, n val, vs []val) {
	k := e.k
	at := k.add(e.y, k.add(k.mul(row, e.PitchY), n))
	whole := func() {
		size := min(e.aligned(0, e.PitchY), len(vs))
		if e.Out.Sums {
			size = min(size, 4)
		}
		for i := 0; i < len(vs); i += size {
			e.Out.store(k, k.add(at, i), vs[i:i+size]...)
		}
	}
	if e.N%len(vs) == 0 {
		whole()
		return
	}
	k.when(k.cmp(enum.IPredSLE, n, e.N-len(vs)), whole)
	k.when(k.cmp(enum.IPredSGT, n, e.N-len(vs)), func() {
		for i, v := range vs {
			k.when(k.cmp(enum.IPredULT, k.add(n, i), e.N), func() { e.Out.store(k, k.add(at, i), v) })
		}
	})
}

// byRows computes the block's columns where rows of b lie together.
func (e *fewEmitter) byRows(tile val) {
	k := e.k
	turns := (e.chunks() + e.Warps - 1) / e.Warps
	e.pastEnd = turns*e.Warps*fewChunk > e.K
	n0 := k.mul(tile, e.columns())
	col := k.add(n0, k.mul(e.g, e.Wide))
	acc := k.loop(turns, e.start(e.Wide), func(t val, c []val) []val {
		acc := append([]val{}, c...)
		chunk := k.add(k.mul(t, e.Warps), e.warp)
		first := k.mul(k.add(k.mul(chunk, fewChunk), k.mul(e.q, 16)), e.PitchB)
		var b [16][]val // words of each row
		for i := range b {
			off := k.add(first, i*e.PitchB)
			if e.pastEnd {
				off = k.min(off, (e.K-1)*e.PitchB)
			}
			b[i] = e.columnsOf(k.add(e.b, off), col)
		}
		rows := e.rows(chunk)
		for step := range 2 {
			for w := range e.Wide / 4 {
				var f [2][]val // fragments of four columns
				for half := range f {
					var square []val
					for i := range 4 {
						square = append(square, b[8*step+4*half+i][w])
					}
					f[half] = k.transposeBytes(square)
				}
				for j := range 4 {
					e.multiply(rows, step, [2]val{f[0][j], f[1][j]}, 4*w+j, acc)
				}
			}
		}
		e.addRows(rows, acc)
		return acc
	})
	e.share(acc)
	k.barrier()
	e.finish(n0)
}

// columnsOf loads the lane's columns of a row, as words. Those past the last are others.
func (e *fewEmitter) columnsOf(at, col val) (out []val) {
	k := e.k
	piece := min(e.pieceB(), e.Wide)
	var bytes []val
	for o := 0; o < e.Wide; o += piece {
		c := k.add(col, o)
		if e.N%e.columns() != 0 {
			c = k.sel(k.cmp(enum.IPredULT, c, e.N), c, k.i32(0))
		}
		v := k.load(word(piece), k.params["b"], k.add(at, c))
		switch piece {
		case 16:
			for i := range 4 {
				out = append(out, k.b.NewExtractElement(v, k.i32(i)))
			}
		case 4:
			out = append(out, v)
		default:
			bytes = append(bytes, k.zext(v, word(4)))
		}
	}
	for i := range len(bytes) / 4 {
		out = append(out, k.packBytes(bytes[4*i:][:4]))
	}
	return out
}

// share puts the warp's sums into shared memory: [warp][row][column].
func (e *fewEmitter) share(acc []val) {
	k := e.k
	base, columns := k.shared(), e.shiftColumns(acc, e.Wide)
	for m := range e.m16() {
		for h := range 2 {
			first := 16*m + 8*h
			if first >= e.M {
				continue
			}
			row := k.add(e.g, first)
			var in val
			if first+8 > e.M {
				in = k.cmp(enum.IPredULT, row, e.M)
			}
			k.when(in, func() {
				at := k.mul(k.add(k.mul(e.warp, e.M), row), e.sumPitch())
				for j := range e.Wide {
					for i := range 2 { // column 2·q+i of the instruction is that of lanes with this g
						c := k.add(k.mul(k.add(k.mul(e.q, 2), i), e.Wide), j)
						k.store(e.sum(acc, columns, j, m, 2*h+i), base, k.mul(k.add(at, c), 4))
					}
				}
			})
		}
	}
}

// finish adds the sums of all warps and stores results, four neighbours a thread.
func (e *fewEmitter) finish(n0 val) {
	k := e.k
	perRow := e.columns() / 4
	quads, threads := e.M*perRow, 32*e.Warps
	k.repeat((quads+threads-1)/threads, nil, func(t val, none []val) []val {
		id := k.add(k.mul(t, threads), e.tid)
		var in val
		if quads%threads != 0 {
			in = k.cmp(enum.IPredULT, id, quads)
		}
		c := k.split(id, e.M, perRow)
		n := k.add(n0, k.mul(c[1], 4))
		if e.N%e.columns() != 0 {
			in = k.both(in, k.cmp(enum.IPredULT, n, e.N))
		}
		k.when(in, func() {
			both := k.i32(e.both())
			at := k.mul(k.add(k.mul(c[0], e.sumPitch()), k.mul(c[1], 4)), 4)
			sums := k.repeat(e.Warps, []val{both, both, both, both}, func(w val, sums []val) []val {
				v := k.load(word(16), k.shared(), k.add(at, k.mul(w, 4*e.M*e.sumPitch())))
				out := make([]val, 4)
				for i := range out {
					out[i] = k.add(sums[i], k.b.NewExtractElement(v, k.i32(i)))
				}
				return out
			})
			out := make([]val, 4)
			for i := range out {
				channel := k.add(n, i)
				if e.N%4 != 0 {
					channel = k.min(channel, e.N-1)
				}
				out[i] = e.Out.finish(k, sums[i], e.Out.load(k, channel))
			}
			e.store(c[0], n, out)
		})
		return none
	})
}
