package kernel

import (
	"fmt"

	"github.com/llir/llvm/ir/types"
)

// The instructions that LLVM 14 has no intrinsic for, or one that it does not
// lower (llvm.nvvm.idp4a becomes a call of an undefined function), are inline
// assembly.

// dp4a returns acc plus the products of the four bytes of x, signed or not, and
// the four signed bytes of w.
func (k *fn) dp4a(signed bool, x, w, acc val) val {
	return k.asm(fmt.Sprintf("dp4a.%s32.s32 $0, $1, $2, $3;", sign(signed)), "=r,r,r,r", false, types.I32, x, w, acc)
}

// permute returns the bytes of x (0 to 3) and y (4 to 7) that the hexadecimal
// digits of selector name, the last digit for the lowest byte.
func (k *fn) permute(x, y val, selector int) val {
	return k.asm(fmt.Sprintf("prmt.b32 $0, $1, $2, 0x%04x;", selector), "=r,r,r", false, types.I32, x, y)
}

// transposeBytes transposes a 4×4 matrix of bytes, a word a row.
func (k *fn) transposeBytes(w []val) []val {
	a, b := k.permute(w[0], w[1], 0x5140), k.permute(w[2], w[3], 0x5140)
	c, d := k.permute(w[0], w[1], 0x7362), k.permute(w[2], w[3], 0x7362)
	return []val{k.permute(a, b, 0x5410), k.permute(a, b, 0x7632), k.permute(c, d, 0x5410), k.permute(c, d, 0x7632)}
}

// productHigh returns the upper word of x·m + c, for i32 x and m and an i64 c.
func (k *fn) productHigh(x, m, c val) val {
	return k.asm("{.reg .b64 t; .reg .b32 l; mad.wide.s32 t, $1, $2, $3; mov.b64 {l, $0}, t;}", "=r,r,r,l", false, types.I32, x, m, c)
}

// packSaturated makes bytes, signed or not, of four i32 and a word of them, the first
// lowest.
func (k *fn) packSaturated(signed bool, v []val) val {
	text := fmt.Sprintf("{.reg .b32 t; cvt.pack.sat.%[1]s8.s32.b32 t, $4, $3, 0; cvt.pack.sat.%[1]s8.s32.b32 $0, $2, $1, t;}", sign(signed))
	return k.asm(text, "=r,r,r,r,r", false, types.I32, v[0], v[1], v[2], v[3])
}

// nearest rounds a float32 half to even to an i32, saturated; NaN gives 0. LLVM's
// own conversion leaves open what becomes of values out of range.
func (k *fn) nearest(x val) val { return k.asm("cvt.rni.s32.f32 $0, $1;", "=r,f", false, types.I32, x) }

func sign(signed bool) string {
	if signed {
		return "s"
	}
	return "u"
}

// mma multiplies a 16×32 tile of bytes by a 32×8 tile of bytes, each signed or
// not, on the tensor cores, and adds the 16×8 tile of sums c. Operands are the
// warp's fragments.
func (k *fn) mma(signedA, signedB bool, a [4]val, b [2]val, c []val) []val {
	text := fmt.Sprintf("mma.sync.aligned.m16n8k32.row.col.s32.%s8.%s8.s32 {$0,$1,$2,$3}, {$4,$5,$6,$7}, {$8,$9}, {$10,$11,$12,$13};", sign(signedA), sign(signedB))
	r := k.unpack(k.asm(text, "=r,=r,=r,=r,r,r,r,r,r,r,r,r,r,r", true, fourWords, a[0], a[1], a[2], a[3], b[0], b[1], c[0], c[1], c[2], c[3]))
	return r[:]
}

var fourWords = types.NewStruct(types.I32, types.I32, types.I32, types.I32)

func (k *fn) unpack(r val) (out [4]val) {
	for i := range out {
		out[i] = k.b.NewExtractValue(r, uint64(i))
	}
	return out
}

// ldmatrix loads four matrices of eight rows of 16 bytes from shared memory: lane
// l gives the address of row l%8 of matrix l/8, off bytes before it, and receives word
// l%4 of row l/4 of each.
func (k *fn) ldmatrix(at val, off int) [4]val {
	r := k.asm(fmt.Sprintf("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {$0,$1,$2,$3}, [$4+%d];", off), "=r,=r,=r,=r,r,~{memory}", true, fourWords, at)
	return k.unpack(r)
}

// copyAsync begins to copy 4, 8 or 16 bytes from global memory, fromOff bytes behind
// from, to shared memory, atOff bytes behind at. Where again holds they are likely to
// be read again soon and pass through L1, as fewer than 16 must.
func (k *fn) copyAsync(at val, atOff int, from val, fromOff, bytes int, again bool) {
	cache := "cg"
	if bytes != 16 || again {
		cache = "ca"
	}
	k.asm(fmt.Sprintf("cp.async.%s.shared.global [$0+%d], [$1+%d], %d;", cache, atOff, fromOff, bytes), "r,l,~{memory}", true, types.Void, at, from)
}

// commitCopies makes a group of the copies begun since the last.
func (k *fn) commitCopies() { k.asm("cp.async.commit_group;", "~{memory}", true, types.Void) }

// awaitCopies waits until at most n groups of the thread's copies are under way.
func (k *fn) awaitCopies(n int) {
	k.asm(fmt.Sprintf("cp.async.wait_group %d;", n), "~{memory}", true, types.Void)
}
