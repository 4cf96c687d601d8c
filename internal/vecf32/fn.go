package vecf32

import (
	"fmt"
	"math"
)

// Fn is an element-wise function of one operand.
type Fn uint8

// Element-wise functions; P is the parameter pair they take.
const (
	Relu        Fn = iota // max(x, 0)
	LeakyRelu             // x < 0 ? P.A·x : x
	Clip                  // min(max(x, P.A), P.B)
	Sigmoid               // 1 / (1 + e^−x)
	HardSigmoid           // min(max(P.A·x + P.B, 0), 1)
	HardSwish             // x · min(max(x/6 + 1/2, 0), 1)
	Tanh                  //
	Exp                   //
	Log                   //
	Sqrt                  //
	Reciprocal            // 1/x
	Neg                   //
	Abs                   //
	Erf                   //
	Floor                 //
	Ceil                  //
	Round                 // to the nearest integer, halves to even
	Softplus              // ln(1 + e^x)
	Elu                   // x < 0 ? P.A·(e^x − 1) : x
	Sin                   // of radians, as Cos and Tan
	Cos                   //
	Tan                   //
	Asin                  //
	Acos                  //
	Atan                  //
	Sinh                  //
	Cosh                  //
	Asinh                 //
	Acosh                 //
	Atanh                 //
	NumFns
)

// Params are the parameters of a Fn; see the constants for which uses which.
type Params struct{ A, B float32 }

// fns holds each function's name and its definition on a float64 argument.
var fns = [NumFns]struct {
	name string
	eval func(p Params, x float64) float64
}{
	Relu:        {"relu", func(_ Params, x float64) float64 { return clip(x, 0, math.Inf(1)) }},
	LeakyRelu:   {"leakyrelu", leakyRelu},
	Clip:        {"clip", func(p Params, x float64) float64 { return clip(x, float64(p.A), float64(p.B)) }},
	Sigmoid:     {"sigmoid", func(_ Params, x float64) float64 { return 1 / (1 + math.Exp(-x)) }},
	HardSigmoid: {"hardsigmoid", hardSigmoid},
	HardSwish:   {"hardswish", func(_ Params, x float64) float64 { return x * clip(x/6+0.5, 0, 1) }},
	Tanh:        {"tanh", func(_ Params, x float64) float64 { return math.Tanh(x) }},
	Exp:         {"exp", func(_ Params, x float64) float64 { return math.Exp(x) }},
	Log:         {"log", func(_ Params, x float64) float64 { return math.Log(x) }},
	Sqrt:        {"sqrt", func(_ Params, x float64) float64 { return math.Sqrt(x) }},
	Reciprocal:  {"reciprocal", func(_ Params, x float64) float64 { return 1 / x }},
	Neg:         {"neg", func(_ Params, x float64) float64 { return -x }},
	Abs:         {"abs", func(_ Params, x float64) float64 { return math.Abs(x) }},
	Erf:         {"erf", func(_ Params, x float64) float64 { return math.Erf(x) }},
	Floor:       {"floor", func(_ Params, x float64) float64 { return math.Floor(x) }},
	Ceil:        {"ceil", func(_ Params, x float64) float64 { return math.Ceil(x) }},
	Round:       {"round", func(_ Params, x float64) float64 { return math.RoundToEven(x) }},
	Softplus:    {"softplus", softplus},
	Elu:         {"elu", elu},
	Sin:         {"sin", func(_ Params, x float64) float64 { return math.Sin(x) }},
	Cos:         {"cos", func(_ Params, x float64) float64 { return math.Cos(x) }},
	Tan:         {"tan", func(_ Params, x float64) float64 { return math.Tan(x) }},
	Asin:        {"asin", func(_ Params, x float64) float64 { return math.Asin(x) }},
	Acos:        {"acos", func(_ Params, x float64) float64 { return math.Acos(x) }},
	Atan:        {"atan", func(_ Params, x float64) float64 { return math.Atan(x) }},
	Sinh:        {"sinh", func(_ Params, x float64) float64 { return math.Sinh(x) }},
	Cosh:        {"cosh", func(_ Params, x float64) float64 { return math.Cosh(x) }},
	Asinh:       {"asinh", func(_ Params, x float64) float64 { return math.Asinh(x) }},
	Acosh:       {"acosh", func(_ Params, x float64) float64 { return math.Acosh(x) }},
	Atanh:       {"atanh", func(_ Params, x float64) float64 { return math.Atanh(x) }},
}

// String returns the function's name, such as "sigmoid".
func (f Fn) String() string {
	if f < NumFns {
		return fns[f].name
	}
	return fmt.Sprintf("fn(%d)", uint8(f))
}

// Eval returns f of one element.
func Eval(f Fn, p Params, x float32) float32 {
	return float32(fns[f].eval(p, float64(x)))
}

// Eval64 returns f of one element in float64.
func Eval64(f Fn, p Params, x float64) float64 { return fns[f].eval(p, x) }

// Apply sets dst[i] = f(x[i]). dst and x have the same length and may be the
// same slice.
func Apply(f Fn, p Params, dst, x []float32) {
	dst = dst[:len(x)]
	switch f {
	case Relu:
		Clamp(dst, x, 0, float32(math.Inf(1)))
	case Clip:
		Clamp(dst, x, p.A, p.B)
	default:
		eval := fns[f].eval
		for i, v := range x {
			dst[i] = float32(eval(p, float64(v)))
		}
	}
}

// Clamp sets dst[i] = min(max(x[i], lo), hi); NaN stays NaN.
func Clamp(dst, x []float32, lo, hi float32) {
	dst = dst[:len(x)]
	for i, v := range x {
		if v < lo {
			v = lo
		}
		if v > hi {
			v = hi
		}
		dst[i] = v
	}
}

func clip(x, lo, hi float64) float64 {
	if x < lo {
		x = lo
	}
	if x > hi {
		x = hi
	}
	return x
}

func leakyRelu(p Params, x float64) float64 {
	if x < 0 {
		return float64(p.A) * x
	}
	return x
}

func hardSigmoid(p Params, x float64) float64 {
	// The product of two float32 values is exact in float64, so a fused
	// multiply-add gives the same bits.
	return clip(float64(p.A)*x+float64(p.B), 0, 1)
}

func softplus(_ Params, x float64) float64 {
	if x > 0 {
		return x + math.Log1p(math.Exp(-x))
	}
	return math.Log1p(math.Exp(x))
}

func elu(p Params, x float64) float64 {
	if x < 0 {
		return float64(p.A) * math.Expm1(x)
	}
	return x
}
