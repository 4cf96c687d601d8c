package gpu

import (
	"situ/arch"
)

// residency says what part of each kernel's operands and result goes to DRAM
// rather than staying in L2. The model is the reuse distance: the bytes touched
// between a value's last use and this one, against the usable capacity.
type residency struct {
	read  [][]float64 // [kernel][index in reads]: bytes from DRAM
	parms []float64   // [kernel]: bytes of constants from DRAM
	write []float64   // [kernel]: bytes of the result to DRAM
	arena float64     // bytes of activations alive at once, at most
	keeps float64     // share of the constants that stays in L2 from run to run
}

// hit is the share found in a cache of the given capacity at a reuse distance:
// all up to the capacity, none from twice the capacity on. Replacement that is
// not strictly least recently used makes the edge soft.
func hit(distance, capacity float64) float64 {
	return min(1, max(0, 2-distance/capacity))
}

func newResidency(p *plan, gpu *arch.GPU) *residency {
	n := len(p.kernels)
	capacity := gpu.L2.Bytes.Value * gpu.L2.UsableFraction.Value
	r := &residency{read: make([][]float64, n), parms: make([]float64, n), write: make([]float64, n), arena: p.arena()}

	// Prefix sums of constants and activations touched, for distances.
	parms, acts := make([]float64, n+1), make([]float64, n+1)
	foot := make([]float64, n)
	for i := range p.kernels {
		k := &p.kernels[i]
		w, a := p.parmBytes(k), p.sum(k.reads)+p.bytes(k.out)
		foot[i] = w + a
		parms[i+1], acts[i+1] = parms[i]+w, acts[i]+a
	}
	// Elements are touched at the same relative place in both kernels, so on
	// average half of either's bytes lie between. Memory of dead activations is
	// used again, so activations count for no more than the arena.
	distance := func(from, to int) float64 {
		return (foot[from]+foot[to])/2 + parms[to] - parms[from+1] + min(acts[to]-acts[from+1], r.arena)
	}
	r.keeps = hit(parms[n]+r.arena, capacity)

	touched := make([]int, len(p.g.Values)) // kernel of the last use, plus 1
	for i := range p.kernels {
		k := &p.kernels[i]
		r.parms[i] = (1 - r.keeps) * p.parmBytes(k)
		r.read[i] = make([]float64, len(k.reads))
		for j, v := range k.reads {
			b := p.bytes(v)
			r.read[i][j] = b // inputs come from DRAM at first
			if t := touched[v]; t > 0 {
				r.read[i][j] = (1 - hit(distance(t-1, i), capacity)) * b
			}
			// A result that is read from L2 every time is overwritten there when it is
			// dead; what has to be fetched from DRAM had to be written to it.
			if h := p.home[v]; h >= 0 {
				r.write[h] = max(r.write[h], r.read[i][j])
			}
			touched[v] = i + 1
		}
		touched[k.out] = i + 1
	}
	for _, out := range p.g.Outputs {
		for _, v := range p.roots(out, nil) {
			if h := p.home[v]; h >= 0 {
				r.write[h] = p.bytes(v)
			}
		}
	}
	return r
}

// dram returns the bytes that kernel i moves across the DRAM pins.
func (r *residency) dram(i int) float64 {
	total := r.parms[i] + r.write[i]
	for _, b := range r.read[i] {
		total += b
	}
	return total
}

// arena returns the largest number of bytes of activations alive at once.
func (p *plan) arena() float64 {
	last := make([]int, len(p.g.Values))
	for i := range p.kernels {
		for _, v := range p.kernels[i].reads {
			last[v] = i
		}
	}
	for _, out := range p.g.Outputs {
		for _, v := range p.roots(out, nil) {
			last[v] = len(p.kernels)
		}
	}
	var now, peak float64
	for _, v := range p.g.Inputs {
		now += p.bytes(v)
	}
	for i := range p.kernels {
		k := &p.kernels[i]
		now += p.bytes(k.out)
		peak = max(peak, now)
		for _, v := range k.reads {
			if last[v] == i {
				now -= p.bytes(v)
			}
		}
		if last[k.out] == 0 {
			now -= p.bytes(k.out) // nobody reads it
		}
	}
	return max(peak, now)
}

// needsBytes returns the device memory a run occupies.
func (p *plan) needsBytes() float64 {
	total := p.arena()
	seen := make([]bool, len(p.g.Values))
	for i := range p.kernels {
		for _, v := range p.kernels[i].parms {
			if !seen[v] {
				seen[v] = true
				total += p.bytes(v)
			}
		}
	}
	return total
}

// compulsory returns the bytes that must cross the edge of the chip if every
// constant, input and output moves once.
func (p *plan) compulsory() float64 {
	total := p.sum(p.g.Inputs) + p.sum(p.g.Outputs)
	seen := make([]bool, len(p.g.Values))
	for i := range p.kernels {
		for _, v := range p.kernels[i].parms {
			if !seen[v] {
				seen[v] = true
				total += p.bytes(v)
			}
		}
	}
	return total
}
