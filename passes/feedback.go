package passes

import (
	"math"

	"gonum.org/v1/gonum/mat"

	"situ/ir"
	"situ/ir/eval"
)

// With 4 bits, rounding each weight to the nearest code costs too much. What
// counts is the error of the sums, and there the rounding of one weight can make
// up for that of another whose input moves with it. Given H = Σ x·xᵀ over
// operands x seen in calibration, weights are rounded one input after another and
// each error is spread over the inputs still to come in the way that changes the
// sums least (Frantar et al., "GPTQ", 2023, equations 2 and 3, with the Cholesky
// form of section 3.3).

// maxFeedback bounds the number of inputs of a product that H is made for, and
// feedbackRows the operands it is made of.
const (
	maxFeedback  = 1152
	feedbackRows = 4096
)

// feedback rounds the weights of a product anew, in place. It leaves codes as
// they are where H says nothing or would be too large.
func (c *corrector) feedback(op *ir.Op, w []float32, step func(channel, k int) float64, most float64, codes []int8) error {
	t := c.q.old.Type(op.In[1])
	f := rounding{step: step, most: most}
	groups := 1
	if a, ok := op.Attr.(*ir.ConvAttr); ok {
		groups = a.Groups
		f.k = ir.Numel(t.Shape[1:])
		f.n = t.Shape[0] / groups
		f.strideN, f.strideK = f.k, 1
	} else {
		if len(t.Shape) != 2 {
			return nil
		}
		f.k, f.n = t.Shape[0], t.Shape[1]
		f.strideN, f.strideK = 1, f.n
	}
	if f.k > maxFeedback {
		return nil
	}
	for g := range groups {
		h, err := c.moments(op, g, f.k)
		if err != nil {
			return err
		}
		if spread := spreading(h); spread != nil {
			f.round(w, codes, g, spread)
		}
	}
	return nil
}

// moments returns Σ x·xᵀ over operands of one group of a product.
func (c *corrector) moments(op *ir.Op, group, k int) (*mat.SymDense, error) {
	var rows []float32
	for i := range c.samples {
		x := c.samples[i].quantised.operand(c.q, op, 0)
		rows = appendRows(rows, c.q.old, op, x, group, feedbackRows/len(c.samples))
	}
	x := ir.NewTensor(ir.F32, []int{len(rows) / k, k}, rows)
	// The product is left to the evaluator's fast kernel.
	g := &ir.Graph{}
	a := g.AddConst("x", x, nil)
	b := g.AddConst("xT", transposed(x, []int{1, 0}), nil)
	if _, err := g.Add(ir.MatMul, "moments", nil, b, a); err != nil {
		return nil, err
	}
	h, err := eval.EvalOp(g, &g.Ops[0], []*ir.Tensor{g.Value(b).Const, x})
	if err != nil {
		return nil, err
	}
	data := ir.Data[float32](h)
	sym := mat.NewSymDense(k, nil)
	for i := range k {
		for j := i; j < k; j++ {
			sym.SetSym(i, j, float64(data[i*k+j]))
		}
	}
	return sym, nil
}

// appendRows appends at most limit operands of a product, evenly spread over the
// positions of its result.
func appendRows(rows []float32, g *ir.Graph, op *ir.Op, x *ir.Tensor, group, limit int) []float32 {
	data := ir.Data[float32](x)
	out := g.Type(op.Out).Shape
	positions := ir.Numel(out[:len(out)-1])
	step := max(1, (positions+limit-1)/limit)
	a, ok := op.Attr.(*ir.ConvAttr)
	if !ok {
		k := x.Shape[len(x.Shape)-1]
		for p := 0; (p+1)*k <= len(data); p += step {
			rows = append(rows, data[p*k:(p+1)*k]...)
		}
		return rows
	}
	kernel := g.Type(op.In[1]).Shape
	height, width, channels := x.Shape[1], x.Shape[2], x.Shape[3]
	per := kernel[3]
	zero := make([]float32, per)
	for p := 0; p < positions; p += step {
		image, oy, ox := p/(out[1]*out[2]), p/out[2]%out[1], p%out[2]
		for ky := range kernel[1] {
			y := oy*a.Strides[0] - a.Pads[0] + ky*a.Dilations[0]
			for kx := range kernel[2] {
				xx := ox*a.Strides[1] - a.Pads[1] + kx*a.Dilations[1]
				if y < 0 || y >= height || xx < 0 || xx >= width {
					rows = append(rows, zero...)
					continue
				}
				at := ((image*height+y)*width+xx)*channels + group*per
				rows = append(rows, data[at:at+per]...)
			}
		}
	}
	return rows
}

// spreading returns the upper Cholesky factor of H⁻¹, H damped by a hundredth of
// its mean diagonal; nil when H is zero or not invertible.
func spreading(h *mat.SymDense) *mat.TriDense {
	k := h.SymmetricDim()
	damp := mat.Trace(h) / float64(k) / 100
	if !(damp > 0) || math.IsInf(damp, 0) {
		return nil
	}
	for i := range k {
		h.SetSym(i, i, h.At(i, i)+damp)
	}
	var chol mat.Cholesky
	if !chol.Factorize(h) {
		return nil
	}
	var inv mat.SymDense
	if chol.InverseTo(&inv) != nil || !chol.Factorize(&inv) {
		return nil
	}
	var u mat.TriDense
	chol.UTo(&u)
	return &u
}

// rounding is the shape of one group's weights: n outputs of k inputs each.
type rounding struct {
	k, n             int
	strideN, strideK int
	step             func(channel, k int) float64
	most             float64
}

func (f *rounding) round(w []float32, codes []int8, group int, spread *mat.TriDense) {
	base := group * f.n
	rest := make([]float64, f.k*f.n) // weights not rounded yet, errors spread; row k
	for k := range f.k {
		for n := range f.n {
			rest[k*f.n+n] = float64(w[(base+n)*f.strideN+k*f.strideK])
		}
	}
	errs := make([]float64, f.n)
	for k := range f.k {
		d := spread.At(k, k)
		for n := range f.n {
			s := f.step(base+n, k)
			v := rest[k*f.n+n]
			code := min(max(math.RoundToEven(v/s), -f.most), f.most)
			codes[(base+n)*f.strideN+k*f.strideK] = int8(code)
			errs[n] = (v - code*s) / d
		}
		for j := k + 1; j < f.k; j++ {
			factor := spread.At(k, j)
			row := rest[j*f.n : (j+1)*f.n]
			for n, e := range errs {
				row[n] -= factor * e
			}
		}
	}
}
