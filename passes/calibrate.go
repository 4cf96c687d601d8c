package passes

import (
	"fmt"
	"math"
	"slices"

	"situ/ir"
	"situ/ir/eval"
)

// Method says how the range of a value follows from what calibration saw.
type Method uint8

// Methods.
const (
	MinMax     Method = iota // from the smallest to the largest value
	Percentile               // without the outermost values on either side
	MSE                      // the range with the least mean squared error
)

var methodNames = [...]string{"minmax", "percentile", "mse"}

// String returns the name of the method.
func (m Method) String() string {
	if int(m) < len(methodNames) {
		return methodNames[m]
	}
	return fmt.Sprintf("method(%d)", uint8(m))
}

// ParseMethod is the inverse of Method.String.
func ParseMethod(s string) (Method, error) {
	if i := slices.Index(methodNames[:], s); i >= 0 {
		return Method(i), nil
	}
	return 0, fmt.Errorf("no calibration method %q; there are %q", s, methodNames)
}

// Quantisation says how a float model becomes fixed point.
type Quantisation struct {
	// Inputs are sample inputs, each with a tensor for every graph input in
	// order. Models that came quantised need none.
	Inputs [][]*ir.Tensor
	Method Method
	// Percentile is the share of values, in percent, that the method of that
	// name keeps below the upper and above the lower end of a range; 0 means 99.99.
	Percentile float64
	// WeightBits is 8 (or 0) or 4.
	WeightBits int
	// Blocks has weights in blocks along K, each with an exponent: MXINT8 and MXINT4.
	Blocks bool
	// Mixed, if above 0, is the share of the multiply-accumulates, and of the bytes
	// of weights, that may be added for layers in higher precision.
	Mixed float64
	// MinSQNR is the signal-to-noise ratio, in dB, that the outputs are to reach on
	// the calibration inputs: with 8-bit weights and without Mixed, layers are given
	// higher precision until they do. 0 gives none. Models too large for bias
	// correction are not measured.
	MinSQNR float64
	// CodedIO makes inputs and outputs that have codes the codes themselves, int8,
	// instead of float32 to be quantised and dequantised on the way.
	CodedIO bool
}

// MemoryLimit bounds the bytes of intermediate tensors that are alive at once
// while a model is evaluated: for its calibration here, and as the reference that
// programs are compared with. Real models stay far below it; a small file that
// states absurd shapes does not.
const MemoryLimit = 1 << 29

// Range is an interval of real numbers.
type Range struct{ Lo, Hi float64 }

// calibrate runs the sample inputs through a float graph and records the range
// of every float32 value. Memory is bounded: one histogram a value. A model with
// described weights is given nominal ranges.
func calibrate(g *ir.Graph, s *State) (*ir.Graph, error) {
	if !isFloatModel(g) {
		return g, nil
	}
	if g.Described() != ir.NoValue {
		s.ranges = nominalRanges(g)
		m := findMasks(g)
		s.floors = m.floors(s.ranges, m.alone)
		return g, nil
	}
	q := &s.quant
	if len(q.Inputs) == 0 {
		return nil, fmt.Errorf("model %q is in floating point: it needs calibration inputs to become fixed point", g.Name)
	}
	if q.Percentile == 0 {
		q.Percentile = 99.99
	}
	if !(q.Percentile > 50 && q.Percentile <= 100) {
		return nil, fmt.Errorf("percentile %v is not above 50 and at most 100", q.Percentile)
	}
	e, err := eval.New(g)
	if err != nil {
		return nil, err
	}
	m := findMasks(g)
	seen := make([]*histogram, len(g.Values))
	for i := range seen {
		if g.Values[i].Type.DType == ir.F32 && g.Values[i].Const == nil {
			// A histogram that holds a mask's numbers tells nothing else apart.
			mask := m.alone[i] && m.axis[i] < 0
			seen[i] = &histogram{bins: q.Method != MinMax && !mask, masked: m.alone[i]}
		}
	}
	for i, in := range q.Inputs {
		var bad error
		_, err := e.Run(s.ctx, in, eval.Options{MemoryLimit: MemoryLimit, Observe: func(id ir.ValueID, t *ir.Tensor) {
			if h := seen[id]; h != nil && bad == nil && !h.add(m.reachable(id, t)) {
				bad = fmt.Errorf("value %q is NaN or infinite%s", g.Value(id).Name, culprits(g, id))
			}
		}})
		if err == nil {
			err = bad
		}
		if err != nil {
			return nil, fmt.Errorf("calibration input %d: %w", i, err)
		}
	}
	s.ranges = make([]Range, len(g.Values))
	fell := make([]bool, len(g.Values))
	for i, h := range seen {
		if h != nil {
			s.ranges[i], fell[i] = h.find(q.Method, q.Percentile/100), h.fell
		}
	}
	s.floors = m.floors(s.ranges, fell)
	return g, saturate(s.ctx, g, s.ranges)
}

// nominalRange is given to every value of a model whose weights are described:
// there is nothing to observe, and time does not depend on scales.
var nominalRange = Range{-8, 8}

func nominalRanges(g *ir.Graph) []Range {
	r := make([]Range, len(g.Values))
	for i := range r {
		if v := &g.Values[i]; v.Const == nil && v.Type.DType == ir.F32 {
			r[i] = nominalRange
		}
	}
	return r
}

// culprits names a constant behind a value that is NaN or infinite, as the
// end of a message.
func culprits(g *ir.Graph, id ir.ValueID) string {
	def := g.Value(id).Def
	if def < 0 {
		return ""
	}
	for _, in := range g.Ops[def].In {
		for _, x := range floats(g, in) {
			if d := float64(x); math.IsNaN(d) || math.IsInf(d, 0) {
				return fmt.Sprintf(": constant %q holds %v", g.Value(in).Name, x)
			}
		}
	}
	return ""
}

// isFloatModel reports whether a graph states no quantisation of its own.
func isFloatModel(g *ir.Graph) bool {
	return !slices.ContainsFunc(g.Values, func(v ir.Value) bool { return v.Type.Quant != nil })
}

// histBins is the number of bins of a histogram. They cover ±limit evenly.
const histBins = 2048

// histogram counts values in bins of equal width. limit is a power of two that
// doubles, bins merging in pairs, when a larger value comes, so the result does
// not depend on the order of the values beyond the bin a value is in.
type histogram struct {
	bins   bool // otherwise only the ends are kept
	masked bool // −∞ is allowed and not counted
	fell   bool // −∞ has come
	limit  float64
	count  [histBins]int64
	n      int64
	lo, hi float64
}

// add counts values and reports whether all were allowed: finite, or −∞ in a mask.
func (h *histogram) add(values []float32) bool {
	if h.masked {
		values = h.withoutInfinite(values)
	}
	if len(values) == 0 {
		return true
	}
	if notFinite(values) >= 0 {
		return false
	}
	lo, hi := values[0], values[0]
	for _, v := range values {
		if v < lo {
			lo = v
		} else if v > hi {
			hi = v
		}
	}
	if h.n == 0 {
		h.lo, h.hi = float64(lo), float64(hi)
	}
	h.lo, h.hi = min(h.lo, float64(lo)), max(h.hi, float64(hi))
	h.n += int64(len(values))
	if !h.bins {
		return true
	}
	if top := max(-h.lo, h.hi); h.limit == 0 && top > 0 {
		_, exp := math.Frexp(top)
		h.limit = math.Ldexp(1, exp)
		h.count[histBins/2] = h.n - int64(len(values)) // zeros only, so far
	}
	if h.limit == 0 {
		return true
	}
	for h.limit < max(-h.lo, h.hi) {
		h.double()
	}
	scale := float32(histBins / 2 / h.limit)
	if math.IsInf(float64(scale), 0) {
		h.count[histBins/2] += int64(len(values)) // values too small to tell from 0
		return true
	}
	for _, v := range values {
		h.count[min(max(int(v*scale+histBins/2), 0), histBins-1)]++
	}
	return true
}

// withoutInfinite leaves −∞ out.
func (h *histogram) withoutInfinite(values []float32) []float32 {
	fallen := func(v float32) bool { return v == -inf }
	if !slices.ContainsFunc(values, fallen) {
		return values
	}
	h.fell = true
	return slices.DeleteFunc(slices.Clone(values), fallen)
}

func (h *histogram) double() {
	var wide [histBins]int64
	for i, c := range h.count {
		wide[histBins/4+i/2] += c
	}
	h.count, h.limit = wide, 2*h.limit
}

// find returns the range by a method; it always holds 0.
func (h *histogram) find(m Method, share float64) Range {
	r := Range{min(h.lo, 0), max(h.hi, 0)}
	if h.limit == 0 {
		return r
	}
	switch m {
	case Percentile:
		r.Lo, r.Hi = max(r.Lo, min(h.quantile(1-share), 0)), min(r.Hi, max(h.quantile(share), 0))
	case MSE:
		r = h.leastError(r)
	}
	return r
}

// centre returns the middle of a bin.
func (h *histogram) centre(bin int) float64 {
	return (float64(bin) + 0.5 - histBins/2) * h.limit / (histBins / 2)
}

// quantile returns the value below which the given share of all lie, linear
// within bins.
func (h *histogram) quantile(share float64) float64 {
	target := share * float64(h.n)
	below := 0.0
	for i, c := range h.count {
		next := below + float64(c)
		if c > 0 && next >= target {
			return (float64(i) - histBins/2 + (target-below)/float64(c)) * h.limit / (histBins / 2)
		}
		below = next
	}
	return h.hi
}

// leastError narrows the range end by end, in steps of 1/64, to the one with the
// least squared error of 8-bit codes: step²/12 for a value inside, the squared
// distance for one outside.
func (h *histogram) leastError(full Range) Range {
	cost := func(r Range) float64 {
		step := (r.Hi - r.Lo) / 255
		sum := 0.0
		for i, c := range h.count {
			if c == 0 {
				continue
			}
			v := min(max(h.centre(i), full.Lo), full.Hi)
			switch {
			case v < r.Lo:
				sum += float64(c) * (r.Lo - v) * (r.Lo - v)
			case v > r.Hi:
				sum += float64(c) * (v - r.Hi) * (v - r.Hi)
			default:
				sum += float64(c) * step * step / 12
			}
		}
		return sum
	}
	best, least := full, cost(full)
	for range 3 {
		before := least
		for i := 1; i <= 64; i++ {
			share := float64(i) / 64
			for _, r := range []Range{{full.Lo * share, best.Hi}, {best.Lo, full.Hi * share}} {
				if c := cost(r); c < least {
					best, least = r, c
				}
			}
		}
		if least == before {
			break
		}
	}
	return best
}
