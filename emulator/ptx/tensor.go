package ptx

import (
	"encoding/binary"
	"math"
	"slices"
	"strings"

	"github.com/x448/float16"
)

// selectMatrix handles ldmatrix.sync.aligned.m8n8.xN{.trans}.shared.b16.
func (c *compiler) selectMatrix(mods []string) error {
	in := c.in
	in.class, in.kind, in.space, in.size = Matrix, kindExec, spaceShared, 16
	name := strings.Replace(strings.Join(mods, "."), "shared::cta", "shared", 1)
	name, ok := strings.CutPrefix(name, "sync.aligned.m8n8.x")
	name, ok2 := strings.CutSuffix(name, ".shared.b16")
	name, trans := strings.CutSuffix(name, ".trans")
	n := map[string]int{"1": 1, "2": 2, "4": 4}[name]
	if !ok || !ok2 || n == 0 {
		return c.errorf("this form is not modelled")
	}
	if err := c.count(2, 2); err != nil {
		return err
	}
	if err := c.address(c.st.args[1]); err != nil {
		return err
	}
	if err := c.fragment(c.st.args[0], n, true); err != nil {
		return err
	}
	c.early = true
	c.sites(1)
	in.exec = func(w *warp, in *instr) {
		if trans || !w.loadRows(in) {
			w.loadMatrices(in, trans)
		}
	}
	return nil
}

// fragment appends the n registers of operand o to xs.
func (c *compiler) fragment(o operand, n int, write bool) error {
	list := []operand{o}
	if o.kind == opVec {
		list = o.list
	}
	if len(list) != n {
		return c.errorf("%d registers in a fragment of %d", len(list), n)
	}
	for _, e := range list {
		var r int32
		var err error
		if write {
			r, err = c.dst(e, types["b32"])
		} else {
			r, err = c.src(e, types["b32"])
		}
		if err != nil {
			return err
		}
		c.in.xs = append(c.in.xs, r)
	}
	return nil
}

// loadRows is loadMatrices without transposition where nothing is amiss; else it does
// nothing and returns false.
func (w *warp) loadRows(in *instr) bool {
	if w.mask != full {
		return false
	}
	s, mem, _ := w.shapeOf(in.site, in.place(), rowLanes(in), 16)
	if s == nil {
		return false
	}
	for j, x := range in.xs {
		loadRows(&w.r[x], mem, (*[8]uint32)(s.at[8*j:]))
	}
	w.worker.countShared(s.count, s.waves, s.phases, false)
	return true
}

// rowLanes are the lanes that have the address of a row: eight for each matrix.
func rowLanes(in *instr) uint32 { return uint32(uint64(1)<<(8*len(in.xs)) - 1) }

// loadMatrices loads 8×8 matrices of 16-bit elements: lane 8j+i has the address
// of row i of matrix j; lane 4r+k gets elements 2k and 2k+1 of row r, or of
// column r if transposed.
func (w *warp) loadMatrices(in *instr, trans bool) {
	if !w.fullWarp() {
		return
	}
	w.locate(in.place())
	for j, x := range in.xs {
		var rows [8][]byte
		for i := range rows {
			if rows[i] = w.at(spaceShared, 8*j+i, 16); rows[i] == nil {
				return
			}
		}
		d := &w.r[x]
		for lane := range lanes {
			r, k := lane/4, lane%4
			if trans {
				d[lane] = uint32(binary.LittleEndian.Uint16(rows[2*k][2*r:])) |
					uint32(binary.LittleEndian.Uint16(rows[2*k+1][2*r:]))<<16
			} else {
				d[lane] = binary.LittleEndian.Uint32(rows[r][4*k:])
			}
		}
	}
	w.worker.sharedAccess(&w.addr, rowLanes(in), 16, false)
}

// fullWarp fails unless all 32 lanes are here.
func (w *warp) fullWarp() bool {
	if w.mask != full {
		w.fault(-1, "needs all 32 threads of the warp")
	}
	return w.mask == full
}

// selectMMA handles the forms of mma.sync.aligned for bytes and for halves
// that the table names.
func (c *compiler) selectMMA(mods []string) error {
	in := c.in
	in.class, in.kind = Tensor, kindExec
	var a, b, acc int
	name := strings.Join(mods, ".")
	shape, types4, ok := strings.Cut(strings.TrimPrefix(name, "sync.aligned."), ".row.col.")
	if !ok || !strings.HasPrefix(name, "sync.aligned.") {
		return c.errorf("this form is not modelled")
	}
	switch types4 {
	case "s32.s8.s8.s32", "s32.s8.u8.s32", "s32.u8.s8.s32", "s32.u8.u8.s32":
		f := strings.Split(types4, ".")
		ua, ub := f[1] == "u8", f[2] == "u8"
		m, k := 16, 0
		switch shape {
		case "m16n8k32":
			k, a, b, acc = 32, 4, 2, 4
		case "m16n8k16":
			k, a, b, acc = 16, 2, 1, 4
		case "m8n8k16":
			m, k, a, b, acc = 8, 16, 1, 1, 2
		default:
			return c.errorf("shape %s is not modelled", shape)
		}
		in.exec = func(w *warp, in *instr) { w.mmaBytes(in, m, k, ua, ub) }
		if k == 32 && !ua && !ub && fastMMA {
			defer c.selectFastMMA()
		}
	case "f32.f16.f16.f32", "f32.bf16.bf16.f32":
		half := func(x uint16) float32 { return float16.Frombits(x).Float32() }
		if strings.Contains(types4, "bf16") {
			half = func(x uint16) float32 { return math.Float32frombits(uint32(x) << 16) }
		}
		k := 0
		switch shape {
		case "m16n8k16":
			k, a, b, acc = 16, 4, 2, 4
		case "m16n8k8":
			k, a, b, acc = 8, 2, 1, 4
		default:
			return c.errorf("shape %s is not modelled", shape)
		}
		in.exec = func(w *warp, in *instr) { w.mmaHalves(in, k, half) }
	default:
		return c.errorf("types %s are not modelled", types4)
	}
	if err := c.count(4, 4); err != nil {
		return err
	}
	// xs: D, A, B, C.
	for i, n := range []int{acc, a, b, acc} {
		if err := c.fragment(c.st.args[i], n, i == 0); err != nil {
			return err
		}
	}
	c.early = true
	return nil
}

// mmaTile is the operands of mma.m16n8k32.
type mmaTile struct {
	a, c, d [4]l32
	b       [2]l32
}

// mmaWords is how many words mmaSigned works on: B and half of A.
const mmaWords = 8*32 + 8*32

// selectFastMMA replaces the portable loops, unless the result shares registers with A
// or B, or others than its own with C, which they allow.
func (c *compiler) selectFastMMA() {
	in := c.in
	if len(in.xs) != 14 {
		return // an error has been found
	}
	for i, d := range in.xs[:4] {
		if slices.Contains(in.xs[4:10], d) {
			return
		}
		for j, c := range in.xs[10:] {
			if c == d && i != j {
				return
			}
		}
	}
	in.exec = func(w *warp, in *instr) {
		if !w.fullWarp() {
			return
		}
		var t mmaTile
		x := in.xs
		for i := range 4 {
			t.d[i], t.a[i], t.c[i] = w.r32(x[i]), w.r32(x[4+i]), w.r32(x[10+i])
		}
		t.b[0], t.b[1] = w.r32(x[8]), w.r32(x[9])
		mmaSigned(&t, &w.worker.words)
	}
}

// mmaBytes is D = A·B + C, A of m×k bytes in rows, B of k×8 in columns, sums
// of 32 bits that wrap. Lane 4g+t holds of A, for each block of 16 columns,
// columns 4t to 4t+3 of rows g and g+8; of B rows 4t to 4t+3 of column g; of C
// columns 2t and 2t+1 of rows g and g+8 (PTX ISA, "Matrix Fragments for
// mma.m16n8k32").
func (w *warp) mmaBytes(in *instr, m, k int, ua, ub bool) {
	if !w.fullWarp() {
		return
	}
	halves := m / 8
	na, nb, nc := halves*k/16, k/16, 2*halves
	ra, rb, rc := in.xs[nc:nc+na], in.xs[nc+na:nc+na+nb], in.xs[nc+na+nb:]

	// Three columns of B in one word, 21 bits apart: a product with one
	// element of A makes three at once. A sum of 32 products of signed bytes
	// stays below 2²⁰ in magnitude, one of unsigned bytes by signed too, so
	// that the fields can be told apart; borrows are undone below. Unsigned
	// by unsigned stays below 2²¹ and all fields are positive.
	var cols [3][32]int64
	for j, r := range rb {
		reg := w.r32(r)
		for lane, v := range reg {
			g, t := lane/4, lane%4
			shift := uint(g%3) * 21
			col := &cols[g/3]
			row := 16*j + 4*t
			for e := range 4 {
				x := int64(int8(v >> (8 * e)))
				if ub {
					x = int64(byte(v >> (8 * e)))
				}
				col[(row+e)&31] += x << shift
			}
		}
	}
	var out [4][lanes]uint32
	for half := range halves {
		for g := range 8 {
			var s0, s1, s2 int64
			for j := range nb {
				reg := w.r32(ra[j*halves+half])
				for t := range 4 {
					v := reg[(4*g+t)&31]
					row := 16*j + 4*t
					for e := range 4 {
						x := int64(int8(v >> (8 * e)))
						if ua {
							x = int64(byte(v >> (8 * e)))
						}
						s0 += x * cols[0][(row+e)&31]
						s1 += x * cols[1][(row+e)&31]
						s2 += x * cols[2][(row+e)&31]
					}
				}
			}
			var sums [9]int64
			for i, s := range [3]int64{s0, s1, s2} {
				for f := range 3 {
					field := s << 43 >> 43
					if ua && ub {
						field = s & (1<<21 - 1)
					}
					sums[3*i+f] = field
					s = (s - field) >> 21
				}
			}
			for t := range 4 {
				out[2*half][4*g+t] = uint32(sums[2*t])
				out[2*half+1][4*g+t] = uint32(sums[2*t+1])
			}
		}
	}
	for i := range nc {
		map2(&out[i], &out[i], w.r32(rc[i]), func(x, y uint32) uint32 { return x + y })
	}
	for i := range nc {
		w.r[in.xs[i]] = out[i]
	}
}

// mmaHalves is D = A·B + C for 16-bit floating-point elements, 16×k by k×8.
// Products are exact in single precision; they are added to C one after the
// other by ascending k, each sum rounded to single. A device adds in an order
// of its own, with other roundings.
func (w *warp) mmaHalves(in *instr, k int, half func(uint16) float32) {
	if !w.fullWarp() {
		return
	}
	na, nb := k/4, k/8
	ra, rb, rc := in.xs[4:4+na], in.xs[4+na:4+na+nb], in.xs[4+na+nb:]
	var a [16][16]float32
	var b [8][16]float32
	for j, r := range ra {
		for lane, v := range w.r32(r) {
			row, col := lane/4+j%2*8, lane%4*2+j/2*8
			a[row][col], a[row][col+1] = half(uint16(v)), half(uint16(v>>16))
		}
	}
	for j, r := range rb {
		for lane, v := range w.r32(r) {
			col, row := lane/4, lane%4*2+j*8
			b[col][row], b[col][row+1] = half(uint16(v)), half(uint16(v>>16))
		}
	}
	var out [4][lanes]uint32
	for i := range 4 {
		for lane, v := range w.r32(rc[i]) {
			row, col := lane/4+i/2*8, lane%4*2+i%2
			s := f32(v)
			for e := range k {
				s += float32(a[row][e] * b[col][e])
			}
			out[i][lane] = nan32(s)
		}
	}
	for i := range 4 {
		w.r[in.xs[i]] = out[i]
	}
}
