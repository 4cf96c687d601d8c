package runtime

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math"
	"slices"

	"github.com/x448/float16"

	"situ/ir"
)

// difference holds how far a tensor is from a reference.
type difference struct {
	maxAbs  float64 // greatest |got − want|
	maxRel  float64 // the same over the greatest |want|
	signal  float64 // Σ want²
	noise   float64 // Σ (got − want)²
	beyond  int     // elements further than step from want
	n       int
	exact   bool
	nanDiff bool    // one is NaN where the other is not
	raised  int     // layers of the model that have higher precision
	host    float64 // share of the element operations that the host ran
}

// sqnr returns the signal-to-quantisation-noise ratio in dB, +Inf when equal.
func (d *difference) sqnr() float64 {
	if d.noise == 0 {
		return math.Inf(1)
	}
	return 10 * math.Log10(d.signal/d.noise)
}

// add joins the figures of another tensor.
func (d *difference) add(e difference) {
	d.maxAbs = max(d.maxAbs, e.maxAbs)
	d.maxRel = max(d.maxRel, e.maxRel)
	d.signal += e.signal
	d.noise += e.noise
	d.beyond += e.beyond
	d.n += e.n
	d.exact = d.exact && e.exact
	d.nanDiff = d.nanDiff || e.nanDiff
	d.raised = max(d.raised, e.raised)
	d.host = max(d.host, e.host)
}

// compare measures got against want, which have the same number of elements;
// beyond counts elements more than step apart.
func compare(got, want *ir.Tensor, step float64) difference {
	g, w := reals(got), reals(want)
	d := difference{n: len(w), exact: true}
	var magnitude float64
	for _, v := range w {
		if !math.IsInf(v, 0) && !math.IsNaN(v) {
			magnitude = max(magnitude, math.Abs(v))
		}
	}
	for i := range w {
		if g[i] == w[i] || math.IsNaN(g[i]) && math.IsNaN(w[i]) {
			d.signal += finite(w[i] * w[i])
			continue
		}
		d.exact = false
		e := math.Abs(g[i] - w[i])
		if math.IsNaN(e) || math.IsInf(e, 0) {
			d.nanDiff = true
			e = math.MaxFloat64
		}
		d.maxAbs = max(d.maxAbs, e)
		d.signal += finite(w[i] * w[i])
		d.noise += e * e
		// A step's own rounding in float32 must not count as going beyond it.
		if e > step*(1+1e-4) {
			d.beyond++
		}
	}
	if magnitude > 0 {
		d.maxRel = d.maxAbs / magnitude
	} else {
		d.maxRel = d.maxAbs
	}
	return d
}

func finite(v float64) float64 {
	if math.IsInf(v, 0) || math.IsNaN(v) {
		return 0
	}
	return v
}

// reals returns the elements as float64.
func reals(t *ir.Tensor) []float64 {
	switch d := t.Any().(type) {
	case []float64:
		return d
	case []float32:
		return widen(d)
	case []int8:
		return widen(d)
	case []uint8:
		return widen(d)
	case []int16:
		return widen(d)
	case []uint16:
		if t.DType == ir.U16 {
			return widen(d)
		}
		out := make([]float64, len(d))
		for i, v := range d {
			if t.DType == ir.BF16 {
				out[i] = float64(math.Float32frombits(uint32(v) << 16))
			} else {
				out[i] = float64(float16.Frombits(v).Float32())
			}
		}
		return out
	case []int32:
		return widen(d)
	case []uint32:
		return widen(d)
	case []int64:
		return widen(d)
	case []uint64:
		return widen(d)
	}
	return nil
}

func widen[T float32 | int8 | uint8 | int16 | uint16 | int32 | uint32 | int64 | uint64](d []T) []float64 {
	out := make([]float64, len(d))
	for i, v := range d {
		out[i] = float64(v)
	}
	return out
}

// sameBits reports whether two tensors have the same type, shape and bytes.
func sameBits(a, b *ir.Tensor) bool {
	return a.DType == b.DType && slices.Equal(a.Shape, b.Shape) && hash(a) == hash(b)
}

// hash returns the SHA-256 of a tensor's elements, little-endian, row-major.
func hash(t *ir.Tensor) string {
	h := sha256.New()
	// binary.Write of a slice of fixed-size values writes it whole and cannot
	// fail on a hash.
	_ = binary.Write(h, binary.LittleEndian, t.Any())
	return hex.EncodeToString(h.Sum(nil))
}

// describe identifies outputs for a Result.
func describe(g []string, ts []*ir.Tensor) []Output {
	var out []Output
	for i, t := range ts {
		out = append(out, Output{Name: g[i], Type: t.DType.String(), Shape: t.Shape, SHA256: hash(t)})
	}
	return out
}

// argmax returns the index of the greatest element.
func argmax(v []float64) int {
	best := 0
	for i := range v {
		if v[i] > v[best] {
			best = i
		}
	}
	return best
}
