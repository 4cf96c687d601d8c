package kernel

import (
	"github.com/llir/llvm/ir/enum"
	"github.com/llir/llvm/ir/types"
)

// MatMulTensor is MatMul on the tensor cores, for every matrix of a batch.
// Parameters: a, b, padA and padB (16 bytes of the zero point of each), table,
// those of the chain, y.
//
// The tensor cores want b by columns. Where it lies so, it is copied as a is; by rows
// its tiles are turned in registers, four by four bytes, on their way to shared
// memory. Zero
// points are taken out with the sums of the rows of a and of the columns of b,
// which are products with ones: Σ(a−p)(b−q) = Σab − q·Σa − p·Σb + K·p·q.
type MatMulTensor struct {
	MatMul
	Tile Tile
}

// Family implements Spec.
func (s MatMulTensor) Family() string { return "matmul_mma" }

// Params implements Spec.
func (s MatMulTensor) Params() []string { return s.Out.Then.with("a", "b", "padA", "padB", "table") }

// Launch implements Spec.
func (s MatMulTensor) Launch() Launch {
	l := s.conv().Launch()
	l.Grid[1] = s.Batch.Size()
	return l
}

// AsConv is the whole batch as a grouped convolution of the same cost.
func (s MatMulTensor) AsConv() ConvTensor {
	c := s.conv()
	c.Groups = s.Batch.Size()
	c.O *= c.Groups
	c.Window.C *= c.Groups
	return c
}

// conv is one product as the 1×1 convolution that ConvTensor computes.
func (s MatMulTensor) conv() ConvTensor {
	one := [2]int{1, 1}
	return ConvTensor{
		Window: Window{N: 1, H: 1, W: s.M, C: s.K, OH: 1, OW: s.M, Kernel: one, Stride: one, Dilation: one},
		O:      s.N, Groups: 1, X: s.A, Out: s.Out, Tile: s.Tile,
	}
}

// whole limits a piece to a divisor of n, so that none is part of an operand and part
// of what stands for it outside.
func whole(piece, n int) int {
	for _, b := range []int{16, 4} {
		if piece >= b && n%b == 0 {
			return b
		}
	}
	return 1
}

// strided is how the operands lie.
func (s MatMulTensor) strided() strided {
	y := s.aligned(0, s.PitchY)
	c := s.conv()
	d := strided{yPitch: s.PitchY, copied: whole(s.pieceA(), s.K), pairs: s.N%2 == 0 && y >= 4, directly: c.direct() && y >= c.beside()}
	if p := whole(y, s.N); p > 1 && !s.Out.Sums {
		d.stored = p
	}
	return d
}

func (s MatMulTensor) emit(k *fn) {
	c := s.conv()
	c.Lie.Position = s.PitchA
	e := newTensorEmitter(k, c)
	matrix := k.i32(0)
	if s.Batch.Size() > 1 {
		matrix = k.special("ctaid.y")
	}
	at := k.offsets(s.Batch, matrix)
	e.xAt, e.yAt = at[1], at[0]
	e.x, e.pad = k.params["a"], k.params["padA"]
	e.channel = func(col val) val { return col }
	e.right = &rightTile{MatMulTensor: s, Codes: s.B, at: at[2]}
	e.strided = s.strided()
	e.prepareX()
	e.right.prepare(e)
	acc := e.sums()
	e.right.correct(e, acc)
	e.finish(acc)
}

// rightTile is the right operand of a MatMulTensor. A nil one is that of a
// ConvTensor, which needs nothing of what follows.
type rightTile struct {
	MatMulTensor
	Codes Codes
	at    val // where b begins
	parts []rightPart
	rows  []val // where the thread's columns begin, where b lies by columns
	to    []val // where their pieces go in the first buffer
}

// rightPart is four by four bytes of a tile that a thread turns.
type rightPart struct {
	k   val    // first row of b within TileK
	col val    // first column of b
	to  [4]val // where its columns go in the first buffer
}

// prepare finds the thread's parts: of 32 neighbours, eight lie side by side, a
// whole sector, and four below each other.
func (r *rightTile) prepare(e *tensorEmitter) {
	if r.Turned {
		r.prepareColumns(e)
		return
	}
	k, t := e.k, e.Tile
	const below = 4
	for j := range t.Cols() * TileK / 16 / t.Threads() {
		id := k.add(e.tid, j*t.Threads())
		c := k.split(id, TileK/4/below, t.Cols()/4/8, below, 8)
		row := k.mul(k.add(k.mul(c[0], below), c[2]), 4)
		col := k.mul(k.add(k.mul(c[1], 8), c[3]), 4)
		p := rightPart{k: row, col: k.add(e.n0, col)}
		for i := range p.to {
			p.to[i] = k.add(e.base, k.inBuffer(k.add(col, t.Rows()+i), row))
		}
		r.parts = append(r.parts, p)
	}
}

// fill copies the tile of b that begins at row at into the buffer at stage.
func (r *rightTile) fill(e *tensorEmitter, at, stage val) {
	if r.Turned {
		r.fillColumns(e, at, stage)
		return
	}
	k := e.k
	for _, p := range r.parts {
		var words []val
		for i := range 4 {
			row := k.add(k.add(at, p.k), i)
			var in val
			if r.K%TileK != 0 {
				in = k.cmp(enum.IPredULT, row, r.K)
			}
			words = append(words, r.word(e, row, p.col, in))
		}
		for i, w := range k.transposeBytes(words) {
			k.store(w, k.b.NewIntToPtr(k.add(p.to[i], stage), pointer(types.I32, spaceShared)), 0)
		}
	}
}

// piece is how many bytes of a column are copied at once.
func (r *rightTile) piece() int { return whole(r.pieceB(), r.K) }

// prepareColumns finds the columns whose pieces the thread copies: the same rows of
// several columns. Columns beyond the last repeat it, and are not stored.
func (r *rightTile) prepareColumns(e *tensorEmitter) {
	k, t := e.k, e.Tile
	size := max(r.piece(), 4)
	perColumn := TileK / size
	row := k.mul(k.rem(e.tid, perColumn), size)
	step := t.Threads() / perColumn
	for j := range t.Cols() / step {
		c := k.add(k.div(e.tid, perColumn), j*step)
		n := k.add(e.n0, c)
		if r.N%t.Cols() != 0 {
			n = k.min(n, r.N-1)
		}
		r.rows = append(r.rows, k.add(r.at, k.mul(n, r.PitchB)))
		r.to = append(r.to, k.add(e.base, k.inBuffer(k.add(c, t.Rows()), row)))
	}
}

// fillColumns is fill where b lies by columns.
func (r *rightTile) fillColumns(e *tensorEmitter, at, stage val) {
	k, b := e.k, e.k.params["b"]
	size := r.piece()
	at = k.add(at, k.mul(k.rem(e.tid, TileK/max(size, 4)), max(size, 4)))
	source := func(j, i int) val {
		pos := k.add(at, i)
		p := k.at(b, k.add(r.rows[j], pos))
		if r.K%TileK != 0 {
			p = k.sel(k.cmp(enum.IPredULT, pos, r.K), p, k.params["padB"])
		}
		return p
	}
	for j, to := range r.to {
		if size > 1 {
			k.copyAsync(k.add(to, stage), 0, k.bits(source(j, 0)), 0, size, false)
			continue
		}
		var codes []val
		for i := range 4 {
			codes = append(codes, k.zext(k.load(types.I8, source(j, i), 0), types.I32))
		}
		k.store(k.packBytes(codes), k.b.NewIntToPtr(k.add(to, stage), pointer(types.I32, spaceShared)), 0)
	}
}

// word returns four neighbours of a row of b, or of its zero point.
func (r *rightTile) word(e *tensorEmitter, row, col, in val) val {
	k := e.k
	from := k.add(r.at, k.add(k.mul(row, r.PitchB), col))
	load := func(t types.Type, i int) val {
		in := in
		if r.N%r.Tile.Cols() != 0 {
			in = k.both(in, k.cmp(enum.IPredULT, k.add(col, i), r.N))
		}
		p := k.at(k.params["b"], k.add(from, i))
		if in != nil {
			p = k.sel(in, p, k.params["padB"])
		}
		return k.load(t, p, 0)
	}
	if r.N%4 == 0 && r.aligned(2, r.PitchB) >= 4 {
		return load(types.I32, 0)
	}
	w := k.i32(0)
	for i := range 4 {
		w = k.or(w, k.shl(k.zext(load(types.I8, i), types.I32), 8*i))
	}
	return w
}

// extra is how many sums a thread keeps beside those of the product.
func (r *rightTile) extra(t Tile) int {
	if r == nil {
		return 0
	}
	n := 0
	if r.ZB != 0 {
		n += 4 * t.M16
	}
	if r.ZA != 0 {
		n += 4 * t.N8
	}
	return n
}

// rowSums and colSums are the places of those in acc.
func (r *rightTile) rowSums(m int, acc []val) []val {
	return acc[4*(r.Tile.M16*r.Tile.N8+m):][:4]
}

func (r *rightTile) colSums(n int, acc []val) []val {
	if r.ZB != 0 {
		n += r.Tile.M16
	}
	return acc[4*(r.Tile.M16*r.Tile.N8+n):][:4]
}

const ones = 0x01010101

// addRow adds a fragment of a to the sums of its rows, in every column.
func (r *rightTile) addRow(e *tensorEmitter, a [4]val, m int, acc []val) {
	if r == nil || r.ZB == 0 {
		return
	}
	k, c := e.k, r.rowSums(m, acc)
	copy(c, k.mma(r.A.Signed, true, a, [2]val{k.i32(ones), k.i32(ones)}, c))
}

// addColumn adds a fragment of b to the sums of its columns, in every row.
func (r *rightTile) addColumn(e *tensorEmitter, b [2]val, n int, acc []val) {
	if r == nil || r.ZA == 0 {
		return
	}
	k, c, one := e.k, r.colSums(n, acc), e.k.i32(ones)
	copy(c, k.mma(true, r.B.Signed, [4]val{one, one, one, one}, b, c))
}

// correct takes the zero points out of the product's sums. What fills the last
// tile up are zero points too, so that K is that of whole tiles.
func (r *rightTile) correct(e *tensorEmitter, acc []val) {
	k, t := e.k, e.Tile
	both := int(int32(e.paddedK()) * r.ZA * r.ZB)
	for m := range t.M16 {
		for n := range t.N8 {
			for i, v := range acc[4*(m*t.N8+n):][:4] {
				if r.ZB != 0 {
					v = k.sub(v, k.mul(r.rowSums(m, acc)[i], int(r.ZB)))
				}
				if r.ZA != 0 {
					v = k.sub(v, k.mul(r.colSums(n, acc)[i], int(r.ZA)))
				}
				acc[4*(m*t.N8+n)+i] = k.add(v, both)
			}
		}
	}
}
