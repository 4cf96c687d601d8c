package gpu

import (
	"bytes"
	"errors"
	"math"
	"math/bits"
	"slices"

	gen "situ/backend/gpu/kernel"
	"situ/internal/fixed"
	"situ/ir"
)

// codes says how a tensor's codes lie in memory.
func codes(t ir.Type) gen.Codes {
	lo, _ := t.DType.IntRange()
	return gen.Codes{Bytes: elemBytes(t.DType), Signed: lo < 0}
}

// codeRange is the zero point of a type with one scale and the codes that an
// activation, which may be nil, allows.
func codeRange(t ir.Type, act *ir.Act) gen.Range {
	lo, hi := t.DType.IntRange()
	if act != nil {
		lo, hi = codeOf(float64(act.Lo), t), codeOf(float64(act.Hi), t)
	}
	return gen.Range{Zero: t.Quant.Zero[0], Lo: int32(lo), Hi: int32(hi)}
}

// codeOf returns the code of a real number under a quantisation with one scale,
// computed in float64 and saturated; NaN gives the zero point.
func codeOf(v float64, t ir.Type) int64 {
	q := t.Quant
	lo, hi := t.DType.IntRange()
	r := math.RoundToEven(v/float64(q.Scale[0])) + float64(q.Zero[0])
	switch {
	case r != r:
		return int64(q.Zero[0])
	case r <= float64(lo):
		return lo
	case r >= float64(hi):
		return hi
	}
	return int64(r)
}

// channel indexes a list with one entry for all channels or one a channel.
func channel[T any](s []T, c int) T {
	if len(s) == 1 {
		return s[0]
	}
	return s[c]
}

func scale(m fixed.Multiplier) gen.Scale { return gen.Scale{M: m.M, Shift: int(m.Shift)} }

// weights are the constant right operand of a product.
type weights struct {
	n       int // how many
	codes   []int8
	zeros   []int32 // of each output channel; nil when they have been taken off
	nibbles bool    // codes fit 4 bits
	blocks  bool    // in blocks
	factors []uint8 // [output channel][block of gen.BlockK along K]
	// described is the constant that has no values, of an outline; else NoValue.
	described ir.ValueID
}

// form is how a kernel is to hold them.
func (w *weights) form() gen.Form { return gen.Form{Nibbles: w.nibbles, Blocks: w.blocks} }

// weightsOf returns the weights that are constant id, n channels of which that of
// element i is i / inner % n, as constantWeights does.
func (l *lowering) weightsOf(id ir.ValueID, inner, n int) (weights, error) {
	v := l.g.Value(id)
	q := v.Type.Quant
	w := weights{described: ir.NoValue}
	w.blocks = q.Block > 0 && q.Block%gen.BlockK == 0
	if l.g.IsDescribed(id) {
		if lo, _ := v.Type.DType.IntRange(); lo >= 0 || slices.ContainsFunc(q.Zero, func(z int32) bool { return z != 0 }) {
			return w, errors.New("its weights are described, not stored, and have zero points")
		}
		w.n, w.described, w.nibbles = v.Type.Numel(), id, v.Type.DType.Bits() == 4
		return w, nil
	}
	if q.Block > 0 && !w.blocks {
		var err error
		if v, err = ir.Unblocked(v); err != nil {
			return w, err
		}
	}
	plain := constantWeights(v.Const, q.Zero, inner, n)
	w.n, w.codes, w.zeros = len(plain.codes), plain.codes, plain.zeros
	w.nibbles = w.zeros == nil && v.Type.DType.Bits() == 4 && !slices.ContainsFunc(w.codes, func(c int8) bool { return c < -8 || c > 7 })
	if w.blocks {
		k := w.n / n
		for c := range n {
			for at := 0; at < k; at += gen.BlockK {
				w.factors = append(w.factors, 1<<q.ShiftOf(c, at, k))
			}
		}
	}
	return w, nil
}

// packed is the argument for weights as a kernel wants them, and behind it that for
// the factors of their blocks.
func (l *lowering) packed(w weights, s interface {
	PackWeights([]int8) []byte
	PackedBytes() int
	PackFactors([]uint8) []byte
	FactorBytes() int
}) []arg {
	var args []arg
	if w.described != ir.NoValue {
		args = append(args, l.describe(w.described, int64(s.PackedBytes())))
		if w.blocks {
			args = append(args, l.describe(w.described, int64(s.FactorBytes())))
		}
		return args
	}
	args = append(args, l.constant(s.PackWeights(w.codes)))
	if w.blocks {
		args = append(args, l.constant(s.PackFactors(w.factors)))
	}
	return args
}

// constantWeights returns the codes of constant weights less their zero points, as
// int8, or where one does not fit the codes shifted into int8 and zero points. The
// channel of element i is i / inner % channels.
func constantWeights(t *ir.Tensor, zeros []int32, inner, channels int) weights {
	cs := integers(t)
	out := make([]int8, len(cs))
	zero := func(i int) int32 { return channel(zeros, i/inner%channels) }
	for i, c := range cs {
		v := c - zero(i)
		if v < math.MinInt8 || v > math.MaxInt8 {
			return shiftedWeights(t.DType, cs, zeros, channels)
		}
		out[i] = int8(v)
	}
	return weights{codes: out}
}

// shiftedWeights returns codes of at most 8 bits as int8, with zero points that
// are as far away.
func shiftedWeights(d ir.DType, cs, zeros []int32, channels int) weights {
	less := int32(0)
	if _, hi := d.IntRange(); hi > math.MaxInt8 {
		less = 128
	}
	w := weights{codes: make([]int8, len(cs)), zeros: make([]int32, channels)}
	for i, c := range cs {
		w.codes[i] = int8(c - less)
	}
	for c := range w.zeros {
		w.zeros[c] = channel(zeros, c) - less
	}
	return w
}

// integers returns the elements of a tensor of codes of at most 8 bits.
func integers(t *ir.Tensor) []int32 {
	out := make([]int32, t.Numel())
	switch d := t.Any().(type) {
	case []int8:
		for i, c := range d {
			out[i] = int32(c)
		}
	case []uint8:
		for i, c := range d {
			out[i] = int32(c)
		}
	}
	return out
}

// epilogue returns a product's epilogue and its table. sums holds for each
// channel the sum of its weights, by which the zero point of x is taken out; nil
// when the kernel does that.
func (l *lowering) epilogue(sums []int32, channels int) (gen.Epilogue, arg, error) {
	g, op := l.g, l.op
	x, w, y := g.Type(op.In[0]), g.Type(op.In[1]), g.Type(op.Out)
	bias := make([]int32, channels)
	if len(op.In) > 2 && op.In[2] != ir.NoValue {
		b := g.Value(op.In[2]).Const
		if b == nil {
			return gen.Epilogue{}, arg{}, errors.New("its bias is not a constant")
		}
		copy(bias, ir.Data[int32](b))
	}
	most := l.mostOf(bias)
	for c, s := range sums {
		bias[c] -= x.Quant.Zero[0] * s
	}
	if y.DType == ir.I32 {
		e, table := gen.NewSums(bias)
		return e, l.words(table), nil
	}
	scales := make([]gen.Scale, channels)
	var err error
	for c := range scales {
		m, err := fixed.NewMultiplier(float64(x.Quant.Scale[0]) * float64(channel(w.Quant.Scale, c)) / float64(y.Quant.Scale[0]))
		if err != nil {
			return gen.Epilogue{}, arg{}, err
		}
		scales[c] = scale(m)
	}
	e, table := gen.NewEpilogue(bias, scales, codeRange(y, actOf(op.Attr)), most)
	if e.Then, err = l.steps(); err != nil {
		return e, arg{}, err
	}
	return e, l.words(table), nil
}

// mostOf is how far from 0 a sum of the product being lowered can be, with its bias or
// without.
func (l *lowering) mostOf(bias []int32) int64 {
	a, w := l.g.Type(l.op.In[0]), l.g.Type(l.op.In[1])
	depth := a.Shape[len(a.Shape)-1]
	if l.op.Kind == ir.Conv2D {
		depth = ir.Numel(w.Shape[1:])
	}
	lo, hi := a.DType.IntRange()
	wlo, whi := w.DType.IntRange()
	weight := max(-wlo, whi)
	if slices.ContainsFunc(w.Quant.Zero, func(z int32) bool { return z != 0 }) {
		weight = whi - wlo
	}
	most := int64(depth) * (hi - lo) * weight << slices.Max(append([]uint8{0}, w.Quant.Shift...))
	add := int64(0)
	for _, b := range bias {
		add = max(add, max(int64(b), -int64(b)))
	}
	return most + add
}

// actOf returns the activation of an attribute struct, nil when it has none.
func actOf(a ir.Attr) *ir.Act {
	switch a := a.(type) {
	case *ir.ConvAttr:
		return a.Act
	case *ir.MatMulAttr:
		return a.Act
	case *ir.BinaryAttr:
		return a.Act
	}
	return nil
}

func (l *lowering) conv() error {
	g, op := l.g, l.op
	a := op.Attr.(*ir.ConvAttr)
	x, w, y := g.Type(op.In[0]).Shape, g.Type(op.In[1]).Shape, g.Type(op.Out).Shape
	if !g.IsConst(op.In[1]) {
		return errors.New("its weights are not constant")
	}
	weights, err := l.weightsOf(op.In[1], w[1]*w[2]*w[3], w[0])
	if err != nil {
		return err
	}
	return l.product(gen.Window{
		N: x[0], H: x[1], W: x[2], C: x[3], OH: y[1], OW: y[2],
		Kernel: [2]int{w[1], w[2]}, Stride: a.Strides, Dilation: a.Dilations, Pad: [2]int{a.Pads[0], a.Pads[1]},
	}, w[0], a.Groups, weights)
}

// product launches a convolution with weights [O, KH, KW, I].
func (l *lowering) product(win gen.Window, o, groups int, w weights) error {
	x := l.g.Type(l.op.In[0])
	zx, k := x.Quant.Zero[0], w.n/o
	sums := make([]int32, o)
	for i, v := range w.codes {
		c := int32(v)
		if w.factors != nil {
			c *= int32(w.factors[i/k*(len(w.factors)/o)+i%k/gen.BlockK])
		}
		sums[i/k] += c
	}
	for c, z := range w.zeros {
		sums[c] -= int32(k) * z
	}
	e, table, err := l.epilogue(sums, o)
	if err != nil {
		return err
	}
	in := l.value(l.op.In[0])
	args := func(packed []arg, more ...arg) []arg {
		return append(append(append([]arg{in}, packed...), more...), table)
	}
	if w.zeros != nil {
		s := gen.Conv{Window: win, O: o, Groups: groups, X: codes(x), Zero: zx, Out: e, ZeroPoints: true}
		return l.launchChain(s, args(l.packed(w, s), l.words(w.zeros))...)
	}
	if groups == o && groups == win.C && groups > 1 {
		s := gen.Depthwise{Window: win, X: codes(x), Zero: zx, Out: e, Form: gen.Form{Blocks: w.blocks}}
		return l.launchChain(s, args(l.packed(w, s))...)
	}
	if tensor, image, packed, ok := l.pixels(win, o, groups, e, w); ok {
		at := l.scratch(image.N * image.OutH * image.OutW * gen.PixelBytes)
		chain := l.chain
		l.chain = nil
		if err := l.launch(image, in, at); err != nil {
			return err
		}
		l.chain, in = chain, at
		pad := bytes.Repeat([]byte{byte(zx)}, 16)
		return l.launchChain(tensor, args(l.packed(packed, tensor), l.constant(pad))...)
	}
	tensor := gen.ConvTensor{Window: win, O: o, Groups: groups, X: codes(x), Out: e, Form: w.form()}
	if t, ok := l.choose(tensor, l.gpu); ok && groups <= gen.MaxGroups {
		tensor.Tile = t
		pad := bytes.Repeat([]byte{byte(zx)}, 16)
		return l.launchChain(tensor, args(l.packed(w, tensor), l.constant(pad))...)
	}
	s := gen.Conv{Window: win, O: o, Groups: groups, X: codes(x), Zero: zx, Out: e, Form: w.form()}
	return l.launchChain(s, args(l.packed(w, s))...)
}

// pixels returns the kernels of a convolution over few channels, as a first layer's: the
// image is given words and margins, and the taps of a row become the channels of a
// convolution of one column. ok is false where that is not expected to pay.
//
// The tile of a row of x is gathered byte by byte otherwise, which takes the integer
// lanes some instructions a byte for each tile of columns.
func (l *lowering) pixels(win gen.Window, o, groups int, e gen.Epilogue, w weights) (tensor gen.ConvTensor, image gen.Pixels, packed weights, ok bool) {
	x := l.g.Type(l.op.In[0])
	kh, kw := win.Kernel[0], win.Kernel[1]
	if win.C > gen.PixelBytes || win.C == gen.PixelBytes && kw == 1 || groups != 1 || w.form() != (gen.Form{}) || codes(x).Bytes != 1 || win.Dilation[1] != 1 {
		return tensor, image, w, false
	}
	const (
		gather = 2.5 // instructions of a byte
		other  = 30  // of a pixel here
	)
	// The channels of a position: a power of two up to a whole tile, or whole tiles.
	row := kw * gen.PixelBytes
	switch {
	case row > gen.TileK:
		row = (row + gen.TileK - 1) / gen.TileK * gen.TileK
	default:
		row = 1 << bits.Len(uint(row-1))
	}
	rows := kh
	if row < gen.TileK { // whole tiles of rows of taps, the last ones without weight
		rows = (kh*row + gen.TileK - 1) / gen.TileK * gen.TileK / row
	}
	reach := func(axis, taps int) int { return ([2]int{win.OH, win.OW}[axis]-1)*win.Stride[axis] + taps }
	image = gen.Pixels{
		N: win.N, H: win.H, W: win.W, C: win.C, Top: win.Pad[0], Left: win.Pad[1], Zero: x.Quant.Zero[0],
		OutH: reach(0, (rows-1)*win.Dilation[0]+1), OutW: roundUpTo(reach(1, row/gen.PixelBytes), 4),
	}
	lie := gen.Lie{Row: image.OutW * gen.PixelBytes, Position: win.Stride[1] * gen.PixelBytes}
	lie.Image = image.OutH * lie.Row
	tensor = gen.ConvTensor{
		Window: gen.Window{
			N: win.N, H: image.OutH, W: win.OW, C: row, OH: win.OH, OW: win.OW,
			Kernel: [2]int{rows, 1}, Stride: [2]int{win.Stride[0], 1}, Dilation: [2]int{win.Dilation[0], 1},
		},
		Lie: lie, O: o, Groups: 1, X: codes(x), Out: e,
	}
	t, ok := l.choose(tensor, l.gpu)
	if !ok || image.N*lie.Image > maxTensor {
		return tensor, image, w, false
	}
	tensor.Tile = t
	m, cols := float64(tensor.M()), math.Ceil(float64(o)/float64(t.Cols()))
	saved := gather*m*float64(win.Kernel[0]*win.Kernel[1]*win.C)*cols - other*float64(image.N*image.OutH*image.OutW)
	rate := l.gpu.SMs.Value * l.gpu.Cores.IntLanes.Value * l.gpu.ClockMHz.Value // instructions a microsecond
	if saved/rate < l.gpu.Launch.GraphUS.Value+l.gpu.Launch.RampUS.Value {
		return tensor, image, w, false
	}
	packed = w
	packed.n = o * rows * row
	if w.described == ir.NoValue {
		packed.codes = make([]int8, packed.n)
		for i, c := range w.codes { // [O, KH, KW, C]
			at := i / win.C
			packed.codes[(at/kw/kh*rows+at/kw%kh)*row+at%kw*gen.PixelBytes+i%win.C] = c
		}
	}
	return tensor, image, packed, true
}

// matmul launches a product with one constant matrix as a 1×1 convolution, and
// others matrix by matrix.
func (l *lowering) matmul() error {
	g, op := l.g, l.op
	ta, tb := g.Type(op.In[0]), g.Type(op.In[1])
	a, b := ta.Shape, tb.Shape
	ra, rb := len(a)-2, len(b)-2
	m, k, n := a[ra], a[ra+1], b[rb+1]
	if g.IsConst(op.In[1]) && ir.Numel(b[:rb]) == 1 {
		cw, err := l.weightsOf(op.In[1], 1, n)
		if err != nil {
			return err
		}
		t := make([]int8, len(cw.codes)) // [N, K]
		for i := range len(t) / n {
			for j := range n {
				t[j*k+i] = cw.codes[i*n+j]
			}
		}
		cw.codes = t
		rows, one := m*ir.Numel(a[:ra]), [2]int{1, 1}
		return l.product(gen.Window{N: 1, H: 1, W: rows, C: k, OH: 1, OW: rows, Kernel: one, Stride: one, Dilation: one}, n, 1, cw)
	}
	zb := tb.Quant.Zero
	if slices.ContainsFunc(zb, func(z int32) bool { return z != zb[0] }) {
		return errors.New("its right operand is several matrices with several zero points")
	}
	return l.pairs(m, k, n)
}

// pairs launches the products of a batch of matrices with another. Operands and result
// lie wherever rows, or columns of the right one, are whole.
func (l *lowering) pairs(m, k, n int) error {
	g, op := l.g, l.op
	ta, tb, y := g.Type(op.In[0]), g.Type(op.In[1]), g.Type(op.Out).Shape
	e, table, err := l.pairEpilogue(n)
	if err != nil {
		return err
	}
	// matrix returns where an operand lies, its strides over rows and columns, and over
	// the matrices of the result.
	lead := y[:len(y)-2]
	matrix := func(shape []int, v view) (rows, cols int, each []int) {
		r := len(shape) - 2
		return v.strides[r], v.strides[r+1], broadcast(shape[:r], v.strides[:r], lead)
	}
	a, b, to := l.readView(op.In[0]), l.readView(op.In[1]), l.destination()
	pitchA, step, eachA := matrix(ta.Shape, a)
	if step != 1 && k > 1 {
		l.value(op.In[0])
		a = l.readView(op.In[0])
		pitchA, _, eachA = matrix(ta.Shape, a)
	}
	stepK, stepN, eachB := matrix(tb.Shape, b)
	if stepK != 1 && k > 1 && stepN != 1 && n > 1 {
		l.value(op.In[1])
		b = l.readView(op.In[1])
		stepK, stepN, eachB = matrix(tb.Shape, b)
	}
	pitchY, _, eachY := matrix(y, to)
	s := gen.MatMul{
		M: m, K: k, N: n, A: codes(ta), B: codes(tb), ZA: ta.Quant.Zero[0], ZB: tb.Quant.Zero[0], Out: e,
		PitchA: pitchA, PitchB: stepK, PitchY: pitchY, BytesA: int(storedBytes(g.Type(a.root))), BytesB: int(storedBytes(g.Type(b.root))),
	}
	if (stepK == 1 || k == 1) && (stepN != 1 || n == 1 && k > 1) {
		s.Turned, s.PitchB = true, stepN
	}
	if ir.Numel(tb.Shape[:len(tb.Shape)-2]) == 1 { // one right matrix for all: the left ones are one tall matrix
		rows := gen.NewNest(append(slices.Clone(lead), m), []int{0, 0}, append(slices.Clone(eachY), pitchY), append(slices.Clone(eachA), pitchA))
		if len(rows.Dims) == 1 {
			s.M, s.PitchY, s.PitchA = rows.Dims[0], rows.Stride[0][0], rows.Stride[1][0]
			lead, eachY, eachA, eachB = nil, nil, nil, nil
		}
	}
	if s.M == 1 { // there is no next row
		s.PitchA, s.PitchY = 0, 0
	}
	s.Batch = gen.NewNest(lead, []int{to.base, a.base, b.base}, eachY, eachA, eachB)
	if s.M <= l.fewRows {
		return l.launchChainTo(to.at(), gen.MatMulFew{MatMul: s}.Fit(int(l.gpu.SMs.Value)), a.at(), b.at(), table)
	}
	tensor := gen.MatMulTensor{MatMul: s}
	if t, ok := l.choose(tensor.AsConv(), l.gpu); ok && s.Batch.Size() <= gen.MaxGroups {
		tensor.Tile = t
		pad := func(zero int32) arg { return l.constant(bytes.Repeat([]byte{byte(zero)}, 16)) }
		return l.launchChainTo(to.at(), tensor, a.at(), b.at(), pad(s.ZA), pad(s.ZB), table)
	}
	return l.launchChainTo(to.at(), s, a.at(), b.at(), table)
}

// pairEpilogue is epilogue for a product of two activations, whose columns are all
// alike: they have one scale and hardly ever a bias.
func (l *lowering) pairEpilogue(n int) (e gen.Epilogue, table arg, err error) {
	op := l.op
	x, w, y := l.g.Type(op.In[0]), l.g.Type(op.In[1]), l.g.Type(op.Out)
	if len(op.In) > 2 && op.In[2] != ir.NoValue || !w.Quant.IsPerTensor() {
		return l.epilogue(nil, n)
	}
	e.Same = true
	if y.DType == ir.I32 {
		e.Sums = true
		return e, l.unused(), nil
	}
	m, err := fixed.NewMultiplier(float64(x.Quant.Scale[0]) * float64(w.Quant.Scale[0]) / float64(y.Quant.Scale[0]))
	if err != nil {
		return e, arg{}, err
	}
	e.Scale, e.Range = scale(m), codeRange(y, actOf(op.Attr))
	e.Then, err = l.steps()
	return e, l.unused(), err
}
