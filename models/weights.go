package models

import (
	"hash/fnv"
	"math"
	"math/rand/v2"
	"runtime"
	"sync"

	"situ/ir"
)

// filler is a distribution that weights are drawn from.
type filler struct {
	std  float32 // standard deviation
	draw func(r *rand.Rand) float32
}

// normal draws from a normal distribution around 0.
func normal(std float32) filler {
	return filler{std, func(r *rand.Rand) float32 { return std * float32(r.NormFloat64()) }}
}

// uniform draws evenly from lo to hi.
func uniform(lo, hi float32) filler {
	return filler{(hi - lo) / float32(math.Sqrt(12)), func(r *rand.Rand) float32 { return lo + (hi-lo)*r.Float32() }}
}

// he returns the standard deviation that keeps the variance of activations
// through a product and a ReLU: √(2 / fan-in) (He et al. 2015, eq. 10).
func he(fanIn int) float32 { return float32(math.Sqrt(2 / float64(fanIn))) }

// xavier is the same without a ReLU: √(1 / fan-in).
func xavier(fanIn int) float32 { return float32(math.Sqrt(1 / float64(fanIn))) }

// weightSeed is the seed of all weights; each is drawn from a stream of its own,
// named by the weight, so that none depends on the order of the others.
const weightSeed = 20261

// describedElems is the size up to which a tensor of a described model is stored
// all the same: norms, biases and tables are.
const describedElems = 1 << 20

// tensor makes an initialiser: stored, or, where that is wanted and it is large,
// described.
func (in *initialiser) tensor(described bool) *ir.Tensor {
	switch {
	case in.given != nil:
		return in.given
	case described && in.large:
		return ir.Describe(ir.F32, in.fill.std, in.shape...)
	}
	h := fnv.New64a()
	h.Write([]byte(in.name))
	v := make([]float32, ir.Numel(in.shape))
	r := rand.New(rand.NewPCG(weightSeed, h.Sum64()))
	for i := range v {
		v[i] = in.fill.draw(r)
	}
	return ir.NewTensor(ir.F32, in.shape, v)
}

// tensors makes all initialisers, by name.
func (b *builder) tensors(described bool) map[string]*ir.Tensor {
	made := make([]*ir.Tensor, len(b.inits))
	var wg sync.WaitGroup
	workers := runtime.GOMAXPROCS(0)
	for w := range workers {
		wg.Go(func() {
			for i := w; i < len(made); i += workers {
				made[i] = b.inits[i].tensor(described)
			}
		})
	}
	wg.Wait()
	m := make(map[string]*ir.Tensor, len(made))
	for i, t := range made {
		m[b.inits[i].name] = t
	}
	return m
}
