package onnx

import (
	"math"
	"slices"

	"situ/frontend/onnx/onnxpb"
	"situ/ir"
)

// numberOperand reads a constant operand of one number.
func (c *call) numberOperand(i int, what string) float64 {
	t := c.tensor(i, what)
	if c.err == nil && (t.Numel() != 1 || !holdsInts(t.DType) && !holdsFloats(t.DType)) {
		c.failf("%s is %s %v, want a number", what, t.DType, t.Shape)
	}
	switch {
	case c.err != nil:
		return 0
	case holdsInts(t.DType):
		return float64(int64s(t)[0])
	}
	return float64s(t)[0]
}

// melWeightMatrix is known at import: triangles over the bins of a spectrum,
// equally wide on the mel scale m = 2595·log10(1 + f/700).
func melWeightMatrix(c *call) {
	mels := c.smallInt("num_mel_bins", int64(c.numberOperand(0, "num_mel_bins")))
	length := c.smallInt("dft_length", int64(c.numberOperand(1, "dft_length")))
	rate := c.numberOperand(2, "sample_rate")
	low, high := c.numberOperand(3, "lower_edge_hertz"), c.numberOperand(4, "upper_edge_hertz")
	d, err := dtypeOf(int32(c.int("output_datatype", int64(onnxpb.TensorProto_FLOAT))))
	if err != nil {
		c.unsupportedf("%v", err)
	}
	bins := length/2 + 1
	if c.err == nil && (mels < 1 || length < 1 || !(rate > 0) || float64(bins)*float64(mels) > maxFold || !(low >= 0) || !(high >= low) || !(high <= rate/2)) {
		c.failf("%d bins of a spectrum of length %d at %v Hz, from %v to %v Hz", mels, length, rate, low, high)
	}
	if c.err != nil {
		return
	}
	mel := func(f float64) float64 { return 2595 * math.Log10(1+f/700) }
	step := (mel(high) - mel(low)) / float64(mels+2)
	edge := make([]int, mels+2)
	for i := range edge {
		f := 700 * (math.Pow(10, (mel(low)+float64(i)*step)/2595) - 1)
		edge[i] = min(int(math.Floor(float64(length+1)*f/rate)), bins-1)
	}
	w := make([]float64, bins*mels)
	for m := range mels {
		from, centre, to := edge[m], edge[m+1], edge[m+2]
		if from == centre {
			w[centre*mels+m] = 1
		}
		for j := from; j <= centre && from < centre; j++ {
			w[j*mels+m] = float64(j-from) / float64(centre-from)
		}
		for j := centre; j < to; j++ {
			w[j*mels+m] = float64(to-j) / float64(to-centre)
		}
	}
	c.setConst(fromFloats(d, []int{bins, mels}, w))
}

// maxFourier bounds the elements of the matrix of a Fourier transform.
const maxFourier = 1 << 24

// fourier multiplies [rows, n, parts], real or complex, by the matrix of the
// transform of length n, which gives bins complex numbers: [rows, bins, 2].
func (c *call) fourier(x ir.ValueID, bins int, inverse bool) ir.ValueID {
	if c.err != nil {
		return x
	}
	t := c.typ(x)
	rows, n, parts := t.Shape[0], t.Shape[1], t.Shape[2]
	if float64(n)*float64(parts)*float64(bins)*2 > maxFourier {
		c.unsupportedf("a Fourier transform of length %d", n)
		return x
	}
	c.charge(n * parts * bins * 2)
	if c.err != nil {
		return x
	}
	sign, scale := -1.0, 1.0
	if inverse {
		sign, scale = 1, 1/float64(n)
	}
	m := make([]float64, n*parts*bins*2)
	for j := range n {
		for k := range bins {
			sin, cos := math.Sincos(2 * math.Pi * float64(j*k%n) / float64(n))
			re, im := scale*cos, scale*sign*sin
			at := (j*parts*bins + k) * 2
			m[at], m[at+1] = re, im
			if parts == 2 { // i times the same
				m[at+bins*2], m[at+bins*2+1] = -im, re
			}
		}
	}
	w := c.constant("", fromFloats(t.DType, []int{n * parts, bins * 2}, m), nil)
	return c.reshape(c.add(ir.MatMul, nil, c.reshape(x, rows, n*parts), w), rows, bins, 2)
}

// realFourier multiplies rows of half a spectrum, n/2+1 complex numbers, by the
// matrix that gives the n real numbers it belongs to: what is left out is the
// conjugate of what is there.
func (c *call) realFourier(x ir.ValueID, n int) ir.ValueID {
	bins := n/2 + 1
	if float64(n)*float64(bins)*2 > maxFourier {
		c.unsupportedf("a Fourier transform of length %d", n)
	}
	c.charge(n * bins * 2)
	if c.err != nil {
		return x
	}
	m := make([]float64, bins*2*n)
	for k := range bins {
		scale := 2 / float64(n)
		if k == 0 || 2*k == n {
			scale = 1 / float64(n)
		}
		for j := range n {
			sin, cos := math.Sincos(2 * math.Pi * float64(j*k%n) / float64(n))
			m[2*k*n+j], m[(2*k+1)*n+j] = scale*cos, -scale*sin
		}
	}
	return c.add(ir.MatMul, nil, x, c.constant("", fromFloats(c.typ(x).DType, []int{bins * 2, n}, m), nil))
}

// dft is the discrete Fourier transform along an axis; the last dimension holds
// real and imaginary parts, or real ones alone.
func dft(c *call) {
	x := c.id(0)
	s := c.typ(x).Shape
	inverse, half := c.bool("inverse", false), c.bool("onesided", false)
	axis := int64(-2)
	if c.opset < 20 {
		axis = c.int("axis", 1)
	} else if c.operand(2) != nil {
		axis = int64(c.numberOperand(2, "axis"))
	}
	a := c.axis(axis, len(s))
	if c.err == nil && (len(s) < 2 || a == len(s)-1 || s[len(s)-1] != 1 && s[len(s)-1] != 2) {
		c.failf("axis %d of an operand of shape %v", axis, s)
	}
	if c.err == nil && half && inverse != (s[len(s)-1] == 2) {
		c.failf("onesided transforms real numbers, or half a spectrum back, not shape %v with inverse %v", s, inverse)
	}
	if c.err != nil {
		return
	}
	n := s[a]
	real := half && inverse // the operand is half a spectrum, the result real
	if real {
		n = 2 * (n - 1)
	}
	if c.operand(1) != nil {
		n = c.smallInt("dft_length", int64(c.numberOperand(1, "dft_length")))
	}
	if c.err == nil && n < 1 {
		c.failf("dft_length %d", n)
	}
	if c.err != nil {
		return
	}
	taken := n // elements of the operand
	if real {
		taken = n/2 + 1
	}
	if taken != s[a] {
		p := &ir.PadAttr{Begin: make([]int, len(s)), End: make([]int, len(s))}
		p.End[a] = taken - s[a]
		x = c.add(ir.Pad, p, x)
	}
	// The axis goes before the parts.
	var perm, back []int
	for d := range s[:len(s)-1] {
		if d != a {
			perm = append(perm, d)
		}
	}
	perm = append(perm, a, len(s)-1)
	back = make([]int, len(perm))
	for i, d := range perm {
		back[d] = i
	}
	x = c.transpose(x, perm...)
	if c.err != nil {
		return
	}
	ts := slices.Clone(c.typ(x).Shape)
	rows := ir.Numel(ts[:len(ts)-2])
	if real {
		y := c.realFourier(c.reshape(x, rows, taken*2), n)
		ts[len(ts)-2], ts[len(ts)-1] = n, 1
		c.set(c.transpose(c.reshape(y, ts...), back...))
		return
	}
	bins := n
	if half {
		bins = n/2 + 1
	}
	y := c.fourier(c.reshape(x, rows, n, ts[len(ts)-1]), bins, inverse)
	ts[len(ts)-2], ts[len(ts)-1] = bins, 2
	c.set(c.transpose(c.reshape(y, ts...), back...))
}

// stft transforms windows of a signal [batch, length, parts] that begin
// frame_step apart: [batch, frames, bins, 2].
func stft(c *call) {
	x := c.id(0)
	s, d := c.typ(x).Shape, c.typ(x).DType
	step := c.smallInt("frame_step", int64(c.numberOperand(1, "frame_step")))
	half := c.bool("onesided", true)
	n := 0
	if w := c.operand(2); w != nil {
		if ws := c.typeOf(w).Shape; len(ws) == 1 {
			n = ws[0]
		}
	}
	if c.operand(3) != nil {
		n = c.smallInt("frame_length", int64(c.numberOperand(3, "frame_length")))
	}
	if c.err == nil && len(s) == 2 {
		x = c.reshape(x, s[0], s[1], 1)
		s = []int{s[0], s[1], 1}
	}
	if c.err == nil && (len(s) != 3 || s[2] != 1 && s[2] != 2 || step < 1 || n < 1 || n > s[1]) {
		c.failf("frames of %d, %d apart, of a signal of shape %v", n, step, s)
	}
	if c.err == nil && half && s[2] == 2 {
		c.unsupportedf("onesided for complex numbers")
	}
	if c.err != nil {
		return
	}
	frames := (s[1]-n)/step + 1
	c.charge(frames * n)
	if c.err != nil {
		return
	}
	at := make([]int64, 0, frames*n)
	for f := range frames {
		for i := range n {
			at = append(at, int64(f*step+i))
		}
	}
	y := c.add(ir.Gather, &ir.AxisAttr{Axis: 1}, x, c.ids([]int{frames, n}, at))
	if c.operand(2) != nil {
		if c.typ(c.id(2)).DType != d {
			c.failf("window and signal are of different types")
		}
		y = c.add(ir.Mul, nil, y, c.reshape(c.id(2), n, 1))
	}
	bins := n
	if half {
		bins = n/2 + 1
	}
	y = c.fourier(c.reshape(y, s[0]*frames, n, s[2]), bins, false)
	c.set(c.reshape(y, s[0], frames, bins, 2))
}
