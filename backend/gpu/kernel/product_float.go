package kernel

import "github.com/llir/llvm/ir/types"

// Products in float32, a fallback: a thread an element, its sum a chain of fused
// multiply-adds in the order of k from 0, as the reference evaluator defines it.
// Then the bias, if any, and a clamp.

// fmaf is x·y + z in float32 with one rounding.
func (k *fn) fmaf(x, y, z val) val {
	return k.b.NewCall(k.m.intrinsic("llvm.fma.f32", types.Float, types.Float, types.Float, types.Float), x, y, z)
}

// zeroF is 0 in float32.
func (k *fn) zeroF() val { return k.b.NewFPTrunc(f64(0), types.Float) }

func (k *fn) loadF32(p, element val) val { return k.load(types.Float, p, k.mul(element, 4)) }

// finishF adds the bias of a channel, if there is one, clamps, and stores.
func (k *fn) finishF(sum, channel, at val, bias bool, lo, hi float32) {
	if bias {
		sum = k.b.NewFAdd(sum, k.loadF32(k.params["bias"], channel))
	}
	k.storeFloat(k.fclamp(k.b.NewFPExt(sum, types.Double), float64(lo), float64(hi)), k.params["y"], at)
}

// FloatMatMul is y = a·b for matrices [M, K] and [K, N]. Parameters: a, b, bias, y.
type FloatMatMul struct {
	Batch   Nest // y, a, b: where the matrices begin
	M, K, N int
	Bias    bool
	Lo, Hi  float32
}

// Family implements Spec.
func (s FloatMatMul) Family() string { return "float_matmul" }

// Params implements Spec.
func (s FloatMatMul) Params() []string { return []string{"a", "b", "bias", "y"} }

// Launch implements Spec.
func (s FloatMatMul) Launch() Launch { return linear(s.Batch.Size() * s.M * s.N) }

func (s FloatMatMul) emit(k *fn) {
	k.each(s.Batch.Size()*s.M*s.N, func(i val) {
		c := k.split(i, s.Batch.Size(), s.M, s.N)
		at := k.offsets(s.Batch, c[0])
		row, col := k.add(k.mul(c[1], s.K), at[1]), k.add(c[2], at[2])
		sum := k.repeat(s.K, []val{k.zeroF()}, func(j val, acc []val) []val {
			x, w := k.loadF32(k.params["a"], k.add(row, j)), k.loadF32(k.params["b"], k.add(col, k.mul(j, s.N)))
			return []val{k.fmaf(x, w, acc[0])}
		})[0]
		k.finishF(sum, c[2], k.add(at[0], k.add(k.mul(c[1], s.N), c[2])), s.Bias, s.Lo, s.Hi)
	})
}

// FloatConv is a convolution with weights [O, kh, kw, C/groups]. Taps outside x
// add nothing. Narrow says that products are rounded before they are added, as
// the evaluator has it for narrow groups. Parameters: x, w, bias, y.
type FloatConv struct {
	Window
	O, Groups int
	Narrow    bool
	Bias      bool
	Lo, Hi    float32
}

// Family implements Spec.
func (s FloatConv) Family() string { return "float_conv" }

// Params implements Spec.
func (s FloatConv) Params() []string { return []string{"x", "w", "bias", "y"} }

// Launch implements Spec.
func (s FloatConv) Launch() Launch { return linear(s.N * s.OH * s.OW * s.O) }

func (s FloatConv) emit(k *fn) {
	ig, og := s.C/s.Groups, s.O/s.Groups
	k.each(s.N*s.OH*s.OW*s.O, func(i val) {
		c := k.split(i, s.N, s.OH, s.OW, s.O)
		first := k.mul(k.div(c[3], og), ig) // channel of the group
		sum := []val{k.zeroF()}
		sum = k.loop(s.Kernel[0], sum, func(ky val, acc []val) []val {
			y := k.add(k.sub(k.mul(c[1], s.Stride[0]), s.Pad[0]), k.mul(ky, s.Dilation[0]))
			return k.guarded(k.inside(y, s.H), acc, func() []val {
				return k.loop(s.Kernel[1], acc, func(kx val, acc []val) []val {
					x := k.add(k.sub(k.mul(c[2], s.Stride[1]), s.Pad[1]), k.mul(kx, s.Dilation[1]))
					return k.guarded(k.inside(x, s.W), acc, func() []val {
						from := k.add(k.mul(k.add(k.mul(k.add(k.mul(c[0], s.H), y), s.W), x), s.C), first)
						w := k.mul(k.add(k.mul(k.add(k.mul(c[3], s.Kernel[0]), ky), s.Kernel[1]), kx), ig)
						return k.repeat(ig, acc, func(j val, acc []val) []val {
							a, b := k.loadF32(k.params["x"], k.add(from, j)), k.loadF32(k.params["w"], k.add(w, j))
							if s.Narrow {
								return []val{k.b.NewFAdd(acc[0], k.b.NewFMul(a, b))}
							}
							return []val{k.fmaf(a, b, acc[0])}
						})
					})
				})
			})
		})
		k.finishF(sum[0], c[3], i, s.Bias, s.Lo, s.Hi)
	})
}
