package kernel

import (
	"github.com/llir/llvm/ir/constant"
	"github.com/llir/llvm/ir/enum"
	"github.com/llir/llvm/ir/types"
)

// Form says how the constant weights of a product lie in memory.
type Form struct {
	Nibbles bool // two codes of 4 bits to a byte, not one of 8
	Blocks  bool // a parameter factors, behind w, holds a power of two for each BlockK of K and channel
}

// BlockK is the length along K of a block of weights, whose sum counts as often as
// its factor says. It is that of one instruction of the tensor cores.
const BlockK = instK

// weightParams are the parameters of x and weights.
func (f Form) weightParams() []string {
	if f.Blocks {
		return []string{"x", "w", "factors"}
	}
	return []string{"x", "w"}
}

// blocks returns the blocks of k weights.
func blocks(k int) int { return (k + BlockK - 1) / BlockK }

// signedBytes makes signed bytes of the low halves of a word's bytes: 0x78 + v
// carries into the sign from 8 on.
func (k *fn) signedBytes(w val) val {
	const bias = 0x78787878
	return k.xor(k.add(k.and(w, 0x0f0f0f0f), bias), bias)
}

// quarter packs four codes of 4 bits so that signedBytes(x | x<<12) restores them.
func quarter(c [4]int8) uint16 {
	n := func(i int) uint16 { return uint16(c[i]) & 15 }
	return n(0) | n(2)<<4 | n(1)<<8 | n(3)<<12
}

// packWords appends the weights of one tap, a channel of the result after the other
// for each four of the operand's: n channels of the latter, those past the end zero.
func (f Form) packWords(out []byte, og, n int, at func(o, c int) int8) []byte {
	for c := 0; c < n; c += 4 {
		for o := range og {
			var four [4]int8
			for i := range min(4, n-c) {
				four[i] = at(o, c+i)
			}
			if f.Nibbles {
				q := quarter(four)
				out = append(out, byte(q), byte(q>>8))
				continue
			}
			for _, v := range four {
				out = append(out, byte(v))
			}
		}
	}
	return out
}

// word loads the i-th four weights as bytes.
func (f Form) word(k *fn, i val) val {
	if !f.Nibbles {
		return k.load(types.I32, k.params["w"], k.mul(i, 4))
	}
	w := k.zext(k.load(types.I16, k.params["w"], k.mul(i, 2)), types.I32)
	return k.signedBytes(k.or(w, k.shl(w, 12)))
}

// factor loads the i-th factor.
func (k *fn) factor(i val) val { return k.zext(k.load(types.I8, k.params["factors"], i), types.I32) }

// dotBlocks adds the products of a word of x and of weights to acc, times the factor
// of their block or blocks: K runs from at on, and factors of the channel's blocks
// lie step apart from first. Words are aligned to blocks when whole holds.
func (s Conv) dotBlocks(k *fn, x, w, at, first val, step int, whole bool, acc val) val {
	block := k.lshr(at, 5)
	factor := func(b val) val { return k.factor(k.add(first, k.mul(b, step))) }
	zero := k.i32(0)
	if whole {
		return k.add(acc, k.mul(k.dp4a(s.X.Signed, x, w, zero), factor(block)))
	}
	// Elements from BlockK − at%BlockK on are of the next block.
	left := k.sub(k.i32(BlockK), k.and(at, BlockK-1))
	mask := k.sel(k.cmp(enum.IPredULT, left, 4), k.sub(k.shl(k.i32(1), k.shl(k.and(left, 3), 3)), 1), k.i32(-1))
	last := blocks(s.Window.Kernel[0]*s.Window.Kernel[1]*s.Window.C/s.Groups) - 1
	acc = k.add(acc, k.mul(k.dp4a(s.X.Signed, x, k.and(w, mask), zero), factor(block)))
	return k.add(acc, k.mul(k.dp4a(s.X.Signed, x, k.and(w, k.xor(mask, -1)), zero), factor(k.min(k.add(block, 1), last))))
}

// tapBlocks adds the products of one tap to acc, block by block: K runs from at on,
// and the channel's factors begin at first.
func (s Conv) tapBlocks(k *fn, operands func(word val, bytes int) (x, w val), at, first, acc val) val {
	ig, og := s.Window.C/s.Groups, s.O/s.Groups
	done := 0 // words
	if s.Window.Kernel == [2]int{1, 1} || ig%BlockK == 0 {
		const words = BlockK / 4
		acc = k.repeat(ig/BlockK, []val{acc}, func(b val, c []val) []val {
			part := k.loop(words, []val{k.i32(0)}, func(j val, sum []val) []val {
				x, w := operands(k.add(k.mul(b, words), j), 4)
				return []val{k.dp4a(s.X.Signed, x, w, sum[0])}
			})[0]
			f := k.factor(k.add(first, k.mul(k.add(k.lshr(at, 5), b), og)))
			return []val{k.add(c[0], k.mul(part, f))}
		})[0]
		done = ig / BlockK * words
	}
	dot := func(word val, acc val, bytes int) val {
		x, w := operands(word, bytes)
		return s.dotBlocks(k, x, w, k.add(at, k.mul(word, 4)), first, og, ig%4 == 0 || s.Window.Kernel == [2]int{1, 1}, acc)
	}
	if full := ig/4 - done; full > 0 {
		acc = k.repeat(full, []val{acc}, func(j val, c []val) []val { return []val{dot(k.add(j, done), c[0], 4)} })[0]
	}
	if ig%4 > 0 {
		acc = dot(k.i32(ig/4), acc, ig%4)
	}
	return acc
}

// PackFactors lays factors [O, blocks of K] out as the kernel reads them:
// [group][block][channel of the group].
func (s Conv) PackFactors(f []uint8) []byte {
	return packFactors(f, s.O, s.Groups, s.O/s.Groups, len(f)/s.O)
}

// PackFactors lays factors [C, blocks of taps] out as the kernel reads them.
func (s Depthwise) PackFactors(f []uint8) []byte {
	return packFactors(f, s.Window.C, 1, s.Window.C, len(f)/s.Window.C)
}

// PackFactors lays factors [O, blocks of K] out as the kernel reads them: as those
// of a Conv, with channels and blocks filled up as the weights are.
func (s ConvTensor) PackFactors(f []uint8) []byte {
	return packFactors(f, s.O, s.Groups, s.paddedCols(), s.paddedK()/BlockK)
}

// FactorBytes is the size of what PackFactors returns.
func (s Conv) FactorBytes() int {
	return s.O * blocks(s.Window.Kernel[0]*s.Window.Kernel[1]*s.Window.C/s.Groups)
}

// FactorBytes is the size of what PackFactors returns.
func (s Depthwise) FactorBytes() int {
	return s.Window.C * blocks(s.Window.Kernel[0]*s.Window.Kernel[1])
}

// FactorBytes is the size of what PackFactors returns.
func (s ConvTensor) FactorBytes() int { return s.Groups * s.paddedCols() * s.paddedK() / BlockK }

// packFactors gives each group so many columns and blocks, those beyond its own 0.
func packFactors(f []uint8, o, groups, cols, rows int) []byte {
	out := make([]byte, groups*rows*cols)
	og, n := o/groups, len(f)/o
	for c := range o {
		for b := range n {
			out[(c/og*rows+b)*cols+c%og] = f[c*n+b]
		}
	}
	return out
}

// colBytes returns the bytes of a column of weights in one buffer.
func (s ConvTensor) colBytes() int {
	if s.Form.Nibbles {
		return TileK / 2
	}
	return TileK
}

// bufferBytes returns the bytes of one buffer: rows of x, columns of weights, factors.
func (s ConvTensor) bufferBytes() int {
	n := s.Tile.Rows()*TileK + s.Tile.Cols()*s.colBytes()
	if s.Form.Blocks {
		n += TileK / BlockK * s.Tile.Cols()
	}
	return n
}

// Shared returns the shared memory of a block in bytes.
func (s ConvTensor) Shared() int { return s.Tile.Stages * s.bufferBytes() }

// packNibbles packs a column of codes of 4 bits: of each TileK, four times eight
// bytes for the lanes of a column, of which each holds the two fragments of one step
// in its halves, the first step's before the second's.
func packNibbles(to []byte, codes []int8) {
	for i, v := range codes {
		turn, in := i/TileK, i%TileK
		step, half, lane, b := in/instK, in%instK/16, in%16/4, in%4
		to[turn*TileK/2+lane*8+step*4+b] |= byte(v&15) << (4 * half)
	}
}

// packedTile is what a ConvTensor of another form than bytes does in its own way.
type packedTile struct {
	factorFrom, factorTo val // the thread's 16 factors, if it has any
	has                  val
	nibbles, factors     val // where the lane's begin in the first buffer
}

// preparePacked finds what a thread copies and what a lane reads.
func (e *tensorEmitter) preparePacked(group val) {
	if e.Form == (Form{}) {
		return
	}
	k, t, p := e.k, e.Tile, &e.packed
	cols := k.mul(k.rem(e.warp, t.WarpsN), 8*t.N8)
	if e.Form.Nibbles {
		col := k.add(cols, k.lshr(e.lane, 2))
		at := k.add(k.mul(col, e.colBytes()), k.mul(k.and(e.lane, 3), 8))
		p.nibbles = k.add(e.base, k.add(at, t.Rows()*TileK))
	}
	if e.Form.Blocks {
		region := t.Rows()*TileK + t.Cols()*e.colBytes()
		p.factors = k.add(e.base, k.add(k.add(cols, k.mul(k.and(e.lane, 3), e.beside())), region))
		perStep := t.Cols() / 16
		step, col := k.div(e.tid, perStep), k.mul(k.rem(e.tid, perStep), 16)
		p.factorFrom = k.add(k.mul(group, e.paddedK()/BlockK*e.paddedCols()), k.add(k.mul(step, e.paddedCols()), k.add(e.n0, col)))
		p.factorTo = k.add(e.base, k.add(k.mul(e.tid, 16), region))
		if n := TileK / BlockK * perStep; n < t.Threads() {
			p.has = k.cmp(enum.IPredULT, e.tid, n)
		}
	}
}

// fillFactors begins to copy the factors of tile t into the buffer at offset stage.
func (e *tensorEmitter) fillFactors(t, stage val) {
	k, p := e.k, &e.packed
	if !e.Form.Blocks {
		return
	}
	k.when(p.has, func() {
		from := k.add(p.factorFrom, k.mul(t, TileK/BlockK*e.paddedCols()))
		k.copyAsync(k.add(p.factorTo, stage), 0, k.bits(k.at(k.params["factors"], from)), 0, 16, false)
	})
}

// loadShared reads a value at an address of shared memory.
func (k *fn) loadShared(t types.Type, at val) val {
	return k.load(t, k.b.NewIntToPtr(at, pointer(t, spaceShared)), 0)
}

// nibbleWords returns, for each column of tiles and step, the lane's word of weights
// in the buffer at offset read; nil for weights of bytes.
func (e *tensorEmitter) nibbleWords(read val) (words [][TileK / instK]val) {
	if !e.Form.Nibbles {
		return nil
	}
	k := e.k
	for n := range e.Tile.N8 {
		both := k.loadShared(word(8), k.add(k.add(e.packed.nibbles, read), n*8*e.colBytes()))
		words = append(words, [TileK / instK]val{k.b.NewExtractElement(both, k.i32(0)), k.b.NewExtractElement(both, k.i32(1))})
	}
	return words
}

// fragment makes the two fragments of a step from a word of nibbles.
func (k *fn) fragment(w val) [2]val { return [2]val{k.signedBytes(w), k.signedBytes(k.lshr(w, 4))} }

// blockFactors returns the factors of a lane's two columns of tile column n in a
// step, in the buffer at offset read.
func (e *tensorEmitter) blockFactors(step, n int, read val) [2]val {
	k := e.k
	both := k.zext(k.loadShared(types.I16, k.add(k.add(e.packed.factors, read), step*e.Tile.Cols()+e.tileColumn(n))), types.I32)
	return [2]val{k.and(both, 255), k.lshr(both, 8)}
}

var fourZeros = []val{constant.NewInt(types.I32, 0), constant.NewInt(types.I32, 0), constant.NewInt(types.I32, 0), constant.NewInt(types.I32, 0)}

// addProduct adds the product of fragments to the sums c, times its columns' factors
// when the weights have blocks.
func (e *tensorEmitter) addProduct(signedB bool, a [4]val, b, factors [2]val, c []val) {
	k := e.k
	if !e.Form.Blocks {
		copy(c, k.mma(e.X.Signed, signedB, a, b, c))
		return
	}
	for i, v := range k.mma(e.X.Signed, signedB, a, b, fourZeros) {
		c[i] = k.add(c[i], k.mul(v, factors[i%2]))
	}
}
