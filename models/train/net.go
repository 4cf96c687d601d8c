package main

import (
	"math"
	"math/rand/v2"

	"situ/internal/gemm"
)

// param is a trainable array with its gradient and Adam's two moments.
type param struct {
	w, g, m, v []float32
}

func newParam(n int, scale float64, rng *rand.Rand) *param {
	p := &param{w: make([]float32, n), g: make([]float32, n), m: make([]float32, n), v: make([]float32, n)}
	for i := range p.w {
		p.w[i] = float32(rng.NormFloat64() * scale)
	}
	return p
}

// adam makes one step of Adam (Kingma and Ba, 2015) on the gradient in p.g.
func (p *param) adam(step int, rate float64) {
	const b1, b2, eps = 0.9, 0.999, 1e-8
	c1, c2 := 1-math.Pow(b1, float64(step)), 1-math.Pow(b2, float64(step))
	for i, g := range p.g {
		p.m[i] = b1*p.m[i] + (1-b1)*g
		p.v[i] = b2*p.v[i] + (1-b2)*g*g
		p.w[i] -= float32(rate * (float64(p.m[i]) / c1) / (math.Sqrt(float64(p.v[i])/c2) + eps))
		p.g[i] = 0
	}
}

// conv is a 3×3 convolution with padding 1, a bias and a ReLU, on NHWC images of
// h×h pixels, optionally followed by a 2×2 maximum.
type conv struct {
	h, in, out int
	pool       bool
	w, b       *param // w: [9·in, out]
}

// act is what one image leaves behind in one layer for the backward pass.
type act struct {
	cols, y, pooled, dy, dcols, dx []float32
	from                           []int32 // index in y of each pooled maximum
}

func (c *conv) outH() int {
	if c.pool {
		return c.h / 2
	}
	return c.h
}

func (c *conv) newAct() *act {
	n, k := c.h*c.h, 9*c.in
	return &act{
		cols: make([]float32, n*k), y: make([]float32, n*c.out),
		pooled: make([]float32, c.outH()*c.outH()*c.out), from: make([]int32, c.outH()*c.outH()*c.out),
		dy: make([]float32, n*c.out), dcols: make([]float32, n*k), dx: make([]float32, n*c.in),
	}
}

func (c *conv) forward(a *act, x []float32) []float32 {
	k := 9 * c.in
	c.patches(func(col, pix int) { copy(a.cols[col:col+c.in], x[pix:pix+c.in]) })
	gemm.F32(a.y, c.out, a.cols, k, c.h*c.h, k, c.out, c.w.w, c.out)
	for i := range a.y {
		a.y[i] = max(a.y[i]+c.b.w[i%c.out], 0)
	}
	if !c.pool {
		return a.y
	}
	oh := c.outH()
	for i := range oh {
		for j := range oh {
			for ch := range c.out {
				o := (i*oh+j)*c.out + ch
				a.pooled[o] = -1
				for d := range 4 {
					s := ((2*i+d/2)*c.h+2*j+d%2)*c.out + ch
					if a.y[s] > a.pooled[o] {
						a.pooled[o], a.from[o] = a.y[s], int32(s)
					}
				}
			}
		}
	}
	return a.pooled
}

// backward takes the gradient of the layer's result, adds to the gradients gw
// and gb of its parameters and returns the gradient of its input.
func (c *conv) backward(a *act, d, gw, gb []float32, first bool) []float32 {
	if c.pool {
		clear(a.dy)
		for o, s := range a.from {
			a.dy[s] += d[o]
		}
	} else {
		copy(a.dy, d)
	}
	for i := range a.dy {
		if a.y[i] <= 0 {
			a.dy[i] = 0
		}
		gb[i%c.out] += a.dy[i]
	}
	k, n := 9*c.in, c.h*c.h
	dw := make([]float32, k*c.out)
	gemm.F32(dw, c.out, transpose(a.cols, n, k), n, k, n, c.out, a.dy, c.out)
	for i, v := range dw {
		gw[i] += v
	}
	if first {
		return nil
	}
	gemm.F32(a.dcols, k, a.dy, c.out, n, c.out, k, transpose(c.w.w, k, c.out), k)
	clear(a.dx)
	c.patches(func(col, pix int) {
		for i := range c.in {
			a.dx[pix+i] += a.dcols[col+i]
		}
	})
	return a.dx
}

// patches calls f with the offset in the patch matrix and in the image of every
// tap that lies inside the image.
func (c *conv) patches(f func(col, pix int)) {
	for y := range c.h {
		for x := range c.h {
			for t := range 9 {
				sy, sx := y+t/3-1, x+t%3-1
				if sy >= 0 && sy < c.h && sx >= 0 && sx < c.h {
					f(((y*c.h+x)*9+t)*c.in, (sy*c.h+sx)*c.in)
				}
			}
		}
	}
}

func transpose(x []float32, rows, cols int) []float32 {
	y := make([]float32, len(x))
	for i := range rows {
		for j := range cols {
			y[j*rows+i] = x[i*cols+j]
		}
	}
	return y
}

// net is three convolutions and a fully connected layer.
type net struct {
	convs  []*conv
	fw, fb *param // [features, 10], [10]
}

func newNet(rng *rand.Rand) *net {
	n := &net{}
	for _, l := range []conv{{h: 28, in: 1, out: 16, pool: true}, {h: 14, in: 16, out: 32, pool: true}, {h: 7, in: 32, out: 32}} {
		l.w = newParam(9*l.in*l.out, math.Sqrt(2/float64(9*l.in)), rng)
		l.b = newParam(l.out, 0, rng)
		n.convs = append(n.convs, &l)
	}
	n.fw = newParam(7*7*32*10, math.Sqrt(1.0/(7*7*32)), rng)
	n.fb = newParam(10, 0, rng)
	return n
}

func (n *net) params() []*param {
	p := []*param{n.fw, n.fb}
	for _, c := range n.convs {
		p = append(p, c.w, c.b)
	}
	return p
}

// worker holds the activations of one image and the gradients it has summed.
type worker struct {
	net   *net
	acts  []*act
	grads [][]float32 // in the order of net.params
}

func newWorker(n *net) *worker {
	w := &worker{net: n}
	for _, c := range n.convs {
		w.acts = append(w.acts, c.newAct())
	}
	for _, p := range n.params() {
		w.grads = append(w.grads, make([]float32, len(p.w)))
	}
	return w
}

// logits runs the network on 784 pixels in 0..1.
func (w *worker) logits(x []float32) (features []float32, out [10]float32) {
	for i, c := range w.net.convs {
		x = c.forward(w.acts[i], x)
	}
	copy(out[:], w.net.fb.w)
	for i, v := range x {
		for j := range out {
			out[j] += v * w.net.fw.w[i*10+j]
		}
	}
	return x, out
}

// train adds the gradient of the cross-entropy of one image to w.grads and
// returns the loss.
func (w *worker) train(x []float32, label int) float64 {
	feat, z := w.logits(x)
	var sum float64
	top := z[0]
	for _, v := range z {
		top = max(top, v)
	}
	var p [10]float64
	for j, v := range z {
		p[j] = math.Exp(float64(v - top))
		sum += p[j]
	}
	d := make([]float32, len(feat))
	for j := range p {
		g := float32(p[j] / sum)
		if j == label {
			g--
		}
		w.grads[1][j] += g
		for i, v := range feat {
			w.grads[0][i*10+j] += g * v
			d[i] += g * w.net.fw.w[i*10+j]
		}
	}
	for i := len(w.net.convs) - 1; i >= 0; i-- {
		d = w.net.convs[i].backward(w.acts[i], d, w.grads[2+2*i], w.grads[3+2*i], i == 0)
	}
	return math.Log(sum) - float64(z[label]-top)
}
