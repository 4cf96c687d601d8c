package kernel

import (
	"math"

	"github.com/llir/llvm/ir/constant"
)

// FloatMaxPool is the maximum of windows of float32. Parameters: x, y.
type FloatMaxPool struct{ Window Window }

// Family implements Spec.
func (s FloatMaxPool) Family() string { return "float_maxpool" }

// Params implements Spec.
func (s FloatMaxPool) Params() []string { return []string{"x", "y"} }

// Launch implements Spec.
func (s FloatMaxPool) Launch() Launch {
	w := s.Window
	return linear(w.N * w.OH * w.OW * w.C)
}

func (s FloatMaxPool) emit(k *fn) {
	w := s.Window
	k.each(w.N*w.OH*w.OW*w.C, func(i val) {
		c := k.split(i, w.N, w.OH, w.OW, w.C)
		y0, x0 := k.first(w, 0, c[1]), k.first(w, 1, c[2])
		base := k.add(k.mul(c[0], w.H*w.W*w.C), c[3])
		acc := k.repeat(w.Kernel[0], []val{f64(math.Inf(-1))}, func(ky val, acc []val) []val {
			y, inY := k.tap(w, 0, y0, ky)
			row := k.add(base, k.mul(y, w.W*w.C))
			return k.repeat(w.Kernel[1], acc, func(kx val, acc []val) []val {
				x, inX := k.tap(w, 1, x0, kx)
				best := acc[0]
				return []val{k.pick(k.both(inY, inX), best, func() val {
					v := k.loadFloat(k.params["x"], k.add(row, k.mul(x, w.C)))
					better := k.b.NewOr(k.fless(best, v), k.isNaN(v)) // which then stays
					return k.sel(k.b.NewAnd(better, k.b.NewXor(k.isNaN(best), constant.True)), v, best)
				})}
			})
		})
		k.storeFloat(acc[0], k.params["y"], i)
	})
}
