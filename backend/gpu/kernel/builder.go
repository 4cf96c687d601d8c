package kernel

import (
	"fmt"
	"strings"

	"github.com/llir/llvm/ir"
	"github.com/llir/llvm/ir/constant"
	"github.com/llir/llvm/ir/enum"
	"github.com/llir/llvm/ir/types"
	"github.com/llir/llvm/ir/value"
)

// Address spaces of NVPTX.
const (
	spaceGlobal = 1
	spaceShared = 3
)

// val is an LLVM value.
type val = value.Value

// operand is a val, or an int that stands for a constant of the other operand's
// type.
type operand = any

// fn is a kernel under construction. Instructions go to block b; methods that
// branch leave b where control continues. Operations on constants are computed at
// once, and those that change nothing vanish.
type fn struct {
	m      *Module
	f      *ir.Func
	b      *ir.Block
	params map[string]val
	blocks int
}

func newFn(m *Module, name string, s Spec) *fn {
	k := &fn{m: m, params: map[string]val{}}
	var ps []*ir.Param
	for _, name := range s.Params() {
		p := ir.NewParam(name, pointer(types.I8, spaceGlobal))
		p.Attrs = append(p.Attrs, enum.ParamAttrNoAlias, ir.Align(16))
		if !strings.HasPrefix(name, "y") {
			p.Attrs = append(p.Attrs, enum.ParamAttrReadOnly)
		}
		k.params[name] = p
		ps = append(ps, p)
	}
	k.f = m.m.NewFunc(name, types.Void, ps...)
	k.b = k.f.NewBlock("entry")
	return k
}

func pointer(t types.Type, space types.AddrSpace) *types.PointerType {
	p := types.NewPointer(t)
	p.AddrSpace = space
	return p
}

// block starts a basic block that nothing leads to yet.
func (k *fn) block(name string) *ir.Block {
	k.blocks++
	return k.f.NewBlock(fmt.Sprintf("%s%d", name, k.blocks))
}

// i32 returns a constant.
func (k *fn) i32(n int) val { return constant.NewInt(types.I32, int64(n)) }

// i64 returns a constant.
func (k *fn) i64(n int64) val { return constant.NewInt(types.I64, n) }

// lift makes y a value of x's type.
func lift(x val, y operand) val {
	switch y := y.(type) {
	case int:
		return constant.NewInt(x.Type().(*types.IntType), int64(y))
	case val:
		return y
	}
	panic(fmt.Sprintf("kernel: operand of type %T", y))
}

// known returns the value of an integer constant.
func known(v val) (int64, bool) {
	c, ok := v.(*constant.Int)
	if !ok {
		return 0, false
	}
	return c.X.Int64(), true
}

// fold computes f on constants, wrapping to the type's width.
func fold(x, y val, f func(a, b int64) int64) (val, bool) {
	a, ok := known(x)
	b, ok2 := known(y)
	if !ok || !ok2 {
		return nil, false
	}
	t := x.Type().(*types.IntType)
	r := f(a, b)
	if t.BitSize == 32 {
		r = int64(int32(r))
	}
	return constant.NewInt(t, r), true
}

func is(v val, n int64) bool {
	c, ok := known(v)
	return ok && c == n
}

func (k *fn) add(x val, o operand) val {
	y := lift(x, o)
	if c, ok := fold(x, y, func(a, b int64) int64 { return a + b }); ok {
		return c
	}
	switch {
	case is(x, 0):
		return y
	case is(y, 0):
		return x
	}
	return k.b.NewAdd(x, y)
}

func (k *fn) sub(x val, o operand) val {
	y := lift(x, o)
	if c, ok := fold(x, y, func(a, b int64) int64 { return a - b }); ok {
		return c
	}
	if is(y, 0) {
		return x
	}
	return k.b.NewSub(x, y)
}

func (k *fn) mul(x val, o operand) val {
	y := lift(x, o)
	if c, ok := fold(x, y, func(a, b int64) int64 { return a * b }); ok {
		return c
	}
	switch {
	case is(x, 1), is(y, 0):
		return y
	case is(y, 1), is(x, 0):
		return x
	}
	return k.b.NewMul(x, y)
}

// div and rem are unsigned, by a constant above 0.
func (k *fn) div(x val, d int) val {
	if d == 1 {
		return x
	}
	if c, ok := known(x); ok {
		return constant.NewInt(x.Type().(*types.IntType), c/int64(d))
	}
	return k.b.NewUDiv(x, lift(x, d))
}

func (k *fn) rem(x val, d int) val {
	if d == 1 {
		return lift(x, 0)
	}
	if c, ok := known(x); ok {
		return constant.NewInt(x.Type().(*types.IntType), c%int64(d))
	}
	return k.b.NewURem(x, lift(x, d))
}

func (k *fn) and(x val, o operand) val {
	y := lift(x, o)
	if is(y, 0) {
		return y
	}
	return k.b.NewAnd(x, y)
}

func (k *fn) or(x val, o operand) val {
	y := lift(x, o)
	switch {
	case is(x, 0):
		return y
	case is(y, 0):
		return x
	}
	return k.b.NewOr(x, y)
}

func (k *fn) xor(x val, o operand) val { return k.b.NewXor(x, lift(x, o)) }

func (k *fn) shl(x val, o operand) val {
	y := lift(x, o)
	if is(y, 0) {
		return x
	}
	if c, ok := fold(x, y, func(a, b int64) int64 { return a << b }); ok {
		return c
	}
	return k.b.NewShl(x, y)
}

func (k *fn) lshr(x val, o operand) val {
	y := lift(x, o)
	if c, ok := fold(x, y, func(a, b int64) int64 { return int64(uint64(a) >> b) }); ok && x.Type().Equal(types.I64) {
		return c
	}
	if is(y, 0) {
		return x
	}
	return k.b.NewLShr(x, y)
}

func (k *fn) ashr(x val, o operand) val {
	y := lift(x, o)
	if is(y, 0) {
		return x
	}
	return k.b.NewAShr(x, y)
}

// cmp compares integers.
func (k *fn) cmp(p enum.IPred, x val, o operand) val { return k.b.NewICmp(p, x, lift(x, o)) }

func (k *fn) sel(cond, x, y val) val { return k.b.NewSelect(cond, x, y) }

// min and max are signed.
func (k *fn) min(x val, o operand) val {
	y := lift(x, o)
	return k.sel(k.cmp(enum.IPredSLT, x, y), x, y)
}

func (k *fn) max(x val, o operand) val {
	y := lift(x, o)
	return k.sel(k.cmp(enum.IPredSGT, x, y), x, y)
}

// inside reports, as an i1, whether 0 ≤ x < n, for a signed i32.
func (k *fn) inside(x val, n int) val { return k.cmp(enum.IPredULT, x, n) }

// both is the conjunction of two conditions, either of which may be nil (true).
func (k *fn) both(x, y val) val {
	switch {
	case x == nil:
		return y
	case y == nil:
		return x
	}
	return k.b.NewAnd(x, y)
}

func (k *fn) sext(x val, t types.Type) val {
	if c, ok := known(x); ok {
		return constant.NewInt(t.(*types.IntType), c)
	}
	return k.b.NewSExt(x, t)
}

func (k *fn) zext(x val, t types.Type) val { return k.b.NewZExt(x, t) }

func (k *fn) trunc(x val, t types.Type) val { return k.b.NewTrunc(x, t) }

// split takes a linear index apart into row-major coordinates.
func (k *fn) split(i val, dims ...int) []val {
	c := make([]val, len(dims))
	for d := len(dims) - 1; d > 0; d-- {
		if dims[d] == 1 {
			c[d] = lift(i, 0)
			continue
		}
		q := k.div(i, dims[d])
		c[d] = k.sub(i, k.mul(q, dims[d]))
		i = q
	}
	c[0] = i
	return c
}

// at returns p advanced by off bytes.
func (k *fn) at(p val, off operand) val {
	o := lift(k.i32(0), off)
	if is(o, 0) {
		return p
	}
	return k.b.NewGetElementPtr(types.I8, p, o)
}

// cast returns p as a pointer to t.
func (k *fn) cast(p val, t types.Type) val {
	from := p.Type().(*types.PointerType)
	if from.ElemType.Equal(t) {
		return p
	}
	return k.b.NewBitCast(p, pointer(t, from.AddrSpace))
}

// load reads a t at p+off, aligned to its size.
func (k *fn) load(t types.Type, p val, off operand) val {
	l := k.b.NewLoad(t, k.cast(k.at(p, off), t))
	l.Align = ir.Align(size(t))
	return l
}

// store writes v at p+off, aligned to its size.
func (k *fn) store(v, p val, off operand) {
	s := k.b.NewStore(v, k.cast(k.at(p, off), v.Type()))
	s.Align = ir.Align(size(v.Type()))
}

// size returns the bytes of an integer, float or vector type.
func size(t types.Type) int {
	switch t := t.(type) {
	case *types.IntType:
		return int(t.BitSize+7) / 8
	case *types.FloatType:
		if t.Kind == types.FloatKindDouble {
			return 8
		}
		return 4
	case *types.VectorType:
		return int(t.Len) * size(t.ElemType)
	}
	panic("kernel: size of " + t.String())
}

// word returns the integer or vector type of n bytes, a power of two up to 16.
func word(n int) types.Type {
	switch n {
	case 8:
		return types.NewVector(2, types.I32)
	case 16:
		return types.NewVector(4, types.I32)
	}
	return types.NewInt(uint64(8 * n))
}

// shared returns the block's dynamic shared memory.
func (k *fn) shared() val { return k.b.NewBitCast(k.m.sharedMemory(), pointer(types.I8, spaceShared)) }

// address returns a pointer into shared memory as the i32 that instructions take.
func (k *fn) address(p val) val { return k.b.NewPtrToInt(p, types.I32) }

// bits returns a pointer into global memory as the i64 that instructions take.
func (k *fn) bits(p val) val { return k.b.NewPtrToInt(p, types.I64) }

// when runs body where cond holds.
func (k *fn) when(cond val, body func()) {
	if cond == nil {
		body()
		return
	}
	then, after := k.block("then"), k.block("after")
	k.b.NewCondBr(cond, then, after)
	k.b = then
	body()
	k.b.NewBr(after)
	k.b = after
}

// pick is body's value where cond holds, otherwise other.
func (k *fn) pick(cond, other val, body func() val) val {
	if cond == nil {
		return body()
	}
	from, then, after := k.b, k.block("then"), k.block("after")
	k.b.NewCondBr(cond, then, after)
	k.b = then
	v := body()
	end := k.b
	k.b.NewBr(after)
	k.b = after
	return k.b.NewPhi(ir.NewIncoming(v, end), ir.NewIncoming(other, from))
}

// loop runs body for i = 0 … n−1, n ≥ 1, handing the values that body returns to
// its next turn; the last are the result.
func (k *fn) loop(n int, init []val, body func(i val, c []val) []val) []val {
	if n == 1 {
		return body(k.i32(0), init)
	}
	from, head := k.b, k.block("loop")
	k.b.NewBr(head)
	k.b = head
	i := k.b.NewPhi(ir.NewIncoming(k.i32(0), from))
	phis := make([]*ir.InstPhi, len(init))
	c := make([]val, len(init))
	for j, v := range init {
		phis[j] = k.b.NewPhi(ir.NewIncoming(v, from))
		c[j] = phis[j]
	}
	out := body(i, c)
	next := k.b.NewAdd(i, k.i32(1))
	i.Incs = append(i.Incs, ir.NewIncoming(next, k.b))
	for j, v := range out {
		phis[j].Incs = append(phis[j].Incs, ir.NewIncoming(v, k.b))
	}
	after := k.block("done")
	k.b.NewCondBr(k.cmp(enum.IPredSLT, next, n), head, after)
	k.b = after
	return out
}

// repeat is loop, written out when there are few turns.
func (k *fn) repeat(n int, init []val, body func(i val, c []val) []val) []val {
	if n > unrollBelow {
		return k.loop(n, init, body)
	}
	c := init
	for i := range n {
		c = body(k.i32(i), c)
	}
	return c
}

// unrollBelow is the greatest number of turns that repeat writes out.
const unrollBelow = 4

// asm calls inline assembly; results is nil, a type, or a struct of types.
func (k *fn) asm(text, constraints string, sideEffect bool, result types.Type, args ...val) val {
	var params []types.Type
	for _, a := range args {
		params = append(params, a.Type())
	}
	a := ir.NewInlineAsm(types.NewPointer(types.NewFunc(result, params...)), text, constraints)
	a.SideEffect = sideEffect
	c := k.b.NewCall(a, args...)
	if sideEffect { // and the threads of a warp do it together
		c.FuncAttrs = append(c.FuncAttrs, enum.FuncAttrConvergent)
	}
	return c
}

// special reads a special register, such as tid.x.
func (k *fn) special(name string) val {
	return k.b.NewCall(k.m.intrinsic("llvm.nvvm.read.ptx.sreg."+name, types.I32))
}

// barrier waits for all threads of the block.
func (k *fn) barrier() { k.b.NewCall(k.m.intrinsic("llvm.nvvm.barrier0", types.Void)) }

// shuffle returns x of the lane whose number differs in the bits of mask.
func (k *fn) shuffle(x val, mask int) val {
	f := k.m.intrinsic("llvm.nvvm.shfl.sync.bfly.i32", types.I32, types.I32, types.I32, types.I32, types.I32)
	return k.b.NewCall(f, k.i32(-1), x, k.i32(mask), k.i32(31))
}

// shuffleFrom returns x of a lane.
func (k *fn) shuffleFrom(x, lane val) val {
	f := k.m.intrinsic("llvm.nvvm.shfl.sync.idx.i32", types.I32, types.I32, types.I32, types.I32, types.I32)
	return k.b.NewCall(f, k.i32(-1), x, lane, k.i32(31))
}

// blockThreads is the number of threads of a block of the kernels that compute
// one or a few elements a thread.
const blockThreads = 256

// linear is the launch of n threads.
func linear(n int) Launch {
	threads := min(blockThreads, (n+31)/32*32)
	return Launch{Grid: [3]int{(n + threads - 1) / threads, 1, 1}, Block: [3]int{threads, 1, 1}}
}

// each runs body with the number of the thread in threads 0 … n−1 of a launch by
// linear.
func (k *fn) each(n int, body func(i val)) {
	threads := linear(n).Threads()
	i := k.add(k.mul(k.special("ctaid.x"), threads), k.special("tid.x"))
	if n%threads == 0 {
		body(i)
		return
	}
	k.when(k.cmp(enum.IPredULT, i, n), func() { body(i) })
}

// guarded is body's values where cond holds, otherwise c.
func (k *fn) guarded(cond val, c []val, body func() []val) []val {
	from, then, after := k.b, k.block("then"), k.block("after")
	k.b.NewCondBr(cond, then, after)
	k.b = then
	out := body()
	end := k.b
	k.b.NewBr(after)
	k.b = after
	joined := make([]val, len(c))
	for i := range c {
		joined[i] = k.b.NewPhi(ir.NewIncoming(out[i], end), ir.NewIncoming(c[i], from))
	}
	return joined
}
