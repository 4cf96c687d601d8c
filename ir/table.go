package ir

import (
	"fmt"
	"strings"
)

// OpFlags classify operators.
type OpFlags uint8

// Classes of operators.
const (
	// Elementwise operators compute each result element from the operand
	// elements at the same (broadcast) index.
	Elementwise OpFlags = 1 << iota
	// MovesCodes operators copy or select elements without computing new ones,
	// so element type and quantisation pass from operands to the result.
	MovesCodes
	// Product operators sum products over a shared dimension.
	Product
	// FloatOnly operators take floating-point operands only.
	FloatOnly
	// FixedPoint operators have a meaning on quantised operands.
	FixedPoint
	// Stated operators need their result type stated: use Graph.AddTyped.
	Stated
)

var flagNames = []string{"element-wise", "moves codes", "product", "float only", "fixed point", "stated type"}

// String lists the classes, separated by commas.
func (f OpFlags) String() string {
	var s []string
	for i, n := range flagNames {
		if f&(1<<i) != 0 {
			s = append(s, n)
		}
	}
	return strings.Join(s, ", ")
}

// OpInfo is one operator's row of the table.
type OpInfo struct {
	Name     string   // mnemonic of the textual form
	Operands []string // names of the operands; "?" marks an optional one, "…" any number of them
	Attr     Attr     // attribute struct holding the defaults; nil when the operator has none
	Flags    OpFlags
	Doc      string // meaning, one line

	optAttr bool // Add and AddTyped accept nil for the defaults
	shape   shapeRule
}

// MinIn returns the smallest number of operands.
func (o *OpInfo) MinIn() int {
	n := 0
	for _, s := range o.Operands {
		if !strings.HasSuffix(s, "?") {
			n++
		}
	}
	return n
}

// MaxIn returns the largest number of operands, −1 when there is no limit.
func (o *OpInfo) MaxIn() int {
	if n := len(o.Operands); n == 0 || !strings.HasSuffix(o.Operands[n-1], "…") {
		return n
	}
	return -1
}

// Is reports whether all of the given flags are set.
func (o *OpInfo) Is(f OpFlags) bool { return o.Flags&f == f }

// opTable is indexed by OpKind.
var opTable = [numOpKinds]OpInfo{
	OpInvalid: {Name: "invalid"},

	Conv2D: {Name: "conv2d", Operands: []string{"x", "w", "bias?"}, Flags: Product | FixedPoint,
		Attr:  &ConvAttr{Strides: [2]int{1, 1}, Dilations: [2]int{1, 1}, Groups: 1},
		shape: convShape, Doc: "2-D convolution of x [N,H,W,C] with w [O,kh,kw,C/groups], plus bias [O]"},
	MatMul: {Name: "matmul", Operands: []string{"a", "b", "bias?"}, Flags: Product | FixedPoint,
		Attr: &MatMulAttr{}, optAttr: true,
		shape: matmulShape, Doc: "product of a […,M,K] and b […,K,N], plus bias [N]; leading dimensions broadcast"},

	MaxPool: {Name: "maxpool", Operands: []string{"x"}, Flags: MovesCodes | FixedPoint,
		Attr:  &PoolAttr{Strides: [2]int{1, 1}, Dilations: [2]int{1, 1}},
		shape: poolShape, Doc: "maximum over windows of x [N,H,W,C]; padding never wins"},
	AvgPool: {Name: "avgpool", Operands: []string{"x"}, Flags: FixedPoint,
		Attr:  &PoolAttr{Strides: [2]int{1, 1}, Dilations: [2]int{1, 1}},
		shape: poolShape, Doc: "mean over windows of x [N,H,W,C]; padding counts with count_pad only"},
	ReduceSum: {Name: "reducesum", Operands: []string{"x"}, Flags: FixedPoint, Attr: &ReduceAttr{},
		shape: reduceShape, Doc: "sum over axes"},
	ReduceMean: {Name: "reducemean", Operands: []string{"x"}, Flags: FixedPoint, Attr: &ReduceAttr{},
		shape: reduceShape, Doc: "mean over axes"},
	ReduceMax: {Name: "reducemax", Operands: []string{"x"}, Flags: MovesCodes | FixedPoint, Attr: &ReduceAttr{},
		shape: reduceShape, Doc: "maximum over axes"},
	ReduceMin: {Name: "reducemin", Operands: []string{"x"}, Flags: MovesCodes | FixedPoint, Attr: &ReduceAttr{},
		shape: reduceShape, Doc: "minimum over axes"},
	Softmax: {Name: "softmax", Operands: []string{"x"}, Flags: FixedPoint, Attr: &AxisAttr{},
		shape: axisShape, Doc: "exp(x) / Σ exp(x) along axis, computed after subtracting the maximum"},
	LogSoftmax: {Name: "logsoftmax", Operands: []string{"x"}, Flags: FloatOnly, Attr: &AxisAttr{},
		shape: axisShape, Doc: "natural logarithm of softmax"},
	LRN: {Name: "lrn", Operands: []string{"x"}, Flags: FloatOnly, Attr: &LRNAttr{},
		shape: lrnShape, Doc: "x / (bias + alpha/size · Σ x²)^beta, the sum over size neighbours along axis"},
	ReduceProd: {Name: "reduceprod", Operands: []string{"x"}, Attr: &ReduceAttr{},
		shape: reduceShape, Doc: "product over axes"},
	CumSum: {Name: "cumsum", Operands: []string{"x"}, Attr: &AxisAttr{},
		shape: axisShape, Doc: "sum of the elements up to and with each one, along axis"},
	CumProd: {Name: "cumprod", Operands: []string{"x"}, Attr: &AxisAttr{},
		shape: axisShape, Doc: "product of the elements up to and with each one, along axis"},
	TopK: {Name: "topk", Operands: []string{"x"}, Attr: &TopKAttr{},
		shape: topKShape, Doc: "indices (i64) of the k largest or smallest elements along axis, in order; of equals the first comes first; NaN is larger than all numbers"},
	Det: {Name: "det", Operands: []string{"x"}, Flags: FloatOnly,
		shape: detShape, Doc: "determinants of the matrices x […,N,N]"},
	Sample: {Name: "sample", Operands: []string{"x", "at"}, Flags: FloatOnly, Attr: &SampleAttr{}, optAttr: true,
		shape: sampleShape, Doc: "elements of x [N,spatial…,C] between its own: at [N,…,n] holds a coordinate for each of the n spatial dimensions, the first element's centre being 0"},
	LayerNorm: {Name: "layernorm", Operands: []string{"x", "gamma?", "beta?"}, Flags: FixedPoint, Attr: &NormAttr{},
		shape: normShape, Doc: "(x − mean) / √(variance + epsilon) · gamma + beta along the last axis, or with rms x / √(mean of squares + epsilon) · gamma + beta; gamma and beta [N] stay float32 in fixed point"},

	Add: {Name: "add", Operands: []string{"a", "b"}, Flags: Elementwise | FixedPoint, Attr: &BinaryAttr{}, optAttr: true,
		shape: binaryShape, Doc: "a + b"},
	Sub: {Name: "sub", Operands: []string{"a", "b"}, Flags: Elementwise | FixedPoint, Attr: &BinaryAttr{}, optAttr: true,
		shape: binaryShape, Doc: "a − b"},
	Mul: {Name: "mul", Operands: []string{"a", "b"}, Flags: Elementwise | FixedPoint, Attr: &BinaryAttr{}, optAttr: true,
		shape: binaryShape, Doc: "a · b"},
	Div: {Name: "div", Operands: []string{"a", "b"}, Flags: Elementwise,
		shape: binaryShape, Doc: "a / b; integers truncate towards zero"},
	Min: {Name: "min", Operands: []string{"a", "b"}, Flags: Elementwise,
		shape: binaryShape, Doc: "the smaller of a and b"},
	Max: {Name: "max", Operands: []string{"a", "b"}, Flags: Elementwise,
		shape: binaryShape, Doc: "the larger of a and b"},
	Pow: {Name: "pow", Operands: []string{"a", "b"}, Flags: Elementwise,
		shape: binaryShape, Doc: "a raised to b; of integers, truncated towards zero and wrapped"},
	Mod: {Name: "mod", Operands: []string{"a", "b"}, Flags: Elementwise, Attr: &ModAttr{}, optAttr: true,
		shape: binaryShape, Doc: "remainder of a / b, of b's sign, or of a's with truncated"},
	BitAnd: {Name: "bitand", Operands: []string{"a", "b"}, Flags: Elementwise,
		shape: binaryShape, Doc: "bitwise and of integers, logical and of bools"},
	BitOr: {Name: "bitor", Operands: []string{"a", "b"}, Flags: Elementwise,
		shape: binaryShape, Doc: "bitwise or of integers, logical or of bools"},
	BitXor: {Name: "bitxor", Operands: []string{"a", "b"}, Flags: Elementwise,
		shape: binaryShape, Doc: "bitwise exclusive or of integers, inequality of bools"},
	ShiftLeft: {Name: "shiftleft", Operands: []string{"a", "b"}, Flags: Elementwise,
		shape: binaryShape, Doc: "unsigned a · 2^b, high bits lost"},
	ShiftRight: {Name: "shiftright", Operands: []string{"a", "b"}, Flags: Elementwise,
		shape: binaryShape, Doc: "unsigned a / 2^b, rounded down"},
	Equals: {Name: "equal", Operands: []string{"a", "b"}, Flags: Elementwise,
		shape: binaryShape, Doc: "whether a = b (bool)"},
	Less: {Name: "less", Operands: []string{"a", "b"}, Flags: Elementwise,
		shape: binaryShape, Doc: "whether a < b (bool)"},
	LessEqual: {Name: "lessequal", Operands: []string{"a", "b"}, Flags: Elementwise,
		shape: binaryShape, Doc: "whether a ≤ b (bool)"},

	Relu: {Name: "relu", Operands: []string{"x"}, Flags: Elementwise | FloatOnly,
		shape: sameShape, Doc: "max(x, 0)"},
	LeakyRelu: {Name: "leakyrelu", Operands: []string{"x"}, Flags: Elementwise | FloatOnly, Attr: &AlphaBetaAttr{},
		shape: alphaBetaShape, Doc: "x where x ≥ 0, else alpha · x"},
	Clip: {Name: "clip", Operands: []string{"x"}, Flags: Elementwise | FloatOnly, Attr: &ClipAttr{},
		shape: clipShape, Doc: "min(max(x, lo), hi)"},
	Sigmoid: {Name: "sigmoid", Operands: []string{"x"}, Flags: Elementwise | FloatOnly,
		shape: sameShape, Doc: "1 / (1 + exp(−x))"},
	HardSigmoid: {Name: "hardsigmoid", Operands: []string{"x"}, Flags: Elementwise | FloatOnly, Attr: &AlphaBetaAttr{},
		shape: alphaBetaShape, Doc: "max(0, min(1, alpha · x + beta))"},
	HardSwish: {Name: "hardswish", Operands: []string{"x"}, Flags: Elementwise | FloatOnly,
		shape: sameShape, Doc: "x · max(0, min(1, x/6 + 1/2))"},
	Tanh: {Name: "tanh", Operands: []string{"x"}, Flags: Elementwise | FloatOnly,
		shape: sameShape, Doc: "hyperbolic tangent"},
	Exp: {Name: "exp", Operands: []string{"x"}, Flags: Elementwise | FloatOnly,
		shape: sameShape, Doc: "e raised to x"},
	Log: {Name: "log", Operands: []string{"x"}, Flags: Elementwise | FloatOnly,
		shape: sameShape, Doc: "natural logarithm"},
	Sqrt: {Name: "sqrt", Operands: []string{"x"}, Flags: Elementwise | FloatOnly,
		shape: sameShape, Doc: "square root"},
	Reciprocal: {Name: "reciprocal", Operands: []string{"x"}, Flags: Elementwise | FloatOnly,
		shape: sameShape, Doc: "1 / x"},
	Neg: {Name: "neg", Operands: []string{"x"}, Flags: Elementwise | FloatOnly,
		shape: sameShape, Doc: "−x"},
	Abs: {Name: "abs", Operands: []string{"x"}, Flags: Elementwise | FloatOnly,
		shape: sameShape, Doc: "absolute value"},
	Erf: {Name: "erf", Operands: []string{"x"}, Flags: Elementwise | FloatOnly,
		shape: sameShape, Doc: "Gauss error function"},
	Floor: {Name: "floor", Operands: []string{"x"}, Flags: Elementwise | FloatOnly,
		shape: sameShape, Doc: "largest integer not above x"},
	Ceil: {Name: "ceil", Operands: []string{"x"}, Flags: Elementwise | FloatOnly,
		shape: sameShape, Doc: "smallest integer not below x"},
	Round: {Name: "round", Operands: []string{"x"}, Flags: Elementwise | FloatOnly,
		shape: sameShape, Doc: "nearest integer, halves to even"},
	Softplus: {Name: "softplus", Operands: []string{"x"}, Flags: Elementwise | FloatOnly,
		shape: sameShape, Doc: "log(1 + exp(x))"},
	Elu: {Name: "elu", Operands: []string{"x"}, Flags: Elementwise | FloatOnly, Attr: &AlphaBetaAttr{},
		shape: alphaBetaShape, Doc: "x where x ≥ 0, else alpha · (exp(x) − 1)"},
	LUT: {Name: "lut", Operands: []string{"x", "table"}, Flags: Elementwise | FixedPoint | Stated,
		shape: lutShape, Doc: "table[code of x − smallest code]: any function of 8-bit codes"},
	Sin: {Name: "sin", Operands: []string{"x"}, Flags: Elementwise | FloatOnly,
		shape: sameShape, Doc: "sine"},
	Cos: {Name: "cos", Operands: []string{"x"}, Flags: Elementwise | FloatOnly,
		shape: sameShape, Doc: "cosine"},
	Tan: {Name: "tan", Operands: []string{"x"}, Flags: Elementwise | FloatOnly,
		shape: sameShape, Doc: "tangent"},
	Asin: {Name: "asin", Operands: []string{"x"}, Flags: Elementwise | FloatOnly,
		shape: sameShape, Doc: "inverse sine"},
	Acos: {Name: "acos", Operands: []string{"x"}, Flags: Elementwise | FloatOnly,
		shape: sameShape, Doc: "inverse cosine"},
	Atan: {Name: "atan", Operands: []string{"x"}, Flags: Elementwise | FloatOnly,
		shape: sameShape, Doc: "inverse tangent"},
	Sinh: {Name: "sinh", Operands: []string{"x"}, Flags: Elementwise | FloatOnly,
		shape: sameShape, Doc: "hyperbolic sine"},
	Cosh: {Name: "cosh", Operands: []string{"x"}, Flags: Elementwise | FloatOnly,
		shape: sameShape, Doc: "hyperbolic cosine"},
	Asinh: {Name: "asinh", Operands: []string{"x"}, Flags: Elementwise | FloatOnly,
		shape: sameShape, Doc: "inverse hyperbolic sine"},
	Acosh: {Name: "acosh", Operands: []string{"x"}, Flags: Elementwise | FloatOnly,
		shape: sameShape, Doc: "inverse hyperbolic cosine"},
	Atanh: {Name: "atanh", Operands: []string{"x"}, Flags: Elementwise | FloatOnly,
		shape: sameShape, Doc: "inverse hyperbolic tangent"},

	Where: {Name: "where", Operands: []string{"cond", "a", "b"}, Flags: Elementwise | FixedPoint,
		shape: whereShape, Doc: "a where cond (bool) holds, else b; of codes those of one quantisation"},
	MulAdd: {Name: "muladd", Operands: []string{"a", "b", "c", "d"}, Flags: Elementwise | FixedPoint, Attr: &MulAddAttr{}, optAttr: true,
		shape: mulAddShape, Doc: "a · b + c · d, or with subtract a · b − c · d; in fixed point rounded once"},

	Reshape: {Name: "reshape", Operands: []string{"x"}, Flags: MovesCodes | FixedPoint, Attr: &ShapeAttr{},
		shape: reshapeShape, Doc: "the same elements in the same order under another shape"},
	Transpose: {Name: "transpose", Operands: []string{"x"}, Flags: MovesCodes | FixedPoint, Attr: &PermAttr{},
		shape: transposeShape, Doc: "permutes dimensions: result dimension i is dimension perm[i] of x"},
	Concat: {Name: "concat", Operands: []string{"x…"}, Flags: MovesCodes | FixedPoint, Attr: &AxisAttr{},
		shape: concatShape, Doc: "joins operands along axis"},
	Slice: {Name: "slice", Operands: []string{"x"}, Flags: MovesCodes | FixedPoint, Attr: &SliceAttr{},
		shape: sliceShape, Doc: "takes sizes[d] elements from starts[d] on, every steps[d], in each dimension d"},
	Pad: {Name: "pad", Operands: []string{"x"}, Flags: MovesCodes | FixedPoint, Attr: &PadAttr{},
		shape: padShape, Doc: "adds begin and end elements to each dimension; negative counts crop"},
	Expand: {Name: "expand", Operands: []string{"x"}, Flags: MovesCodes | FixedPoint, Attr: &ShapeAttr{},
		shape: expandShape, Doc: "broadcasts x to shape"},
	Gather: {Name: "gather", Operands: []string{"x", "indices"}, Flags: MovesCodes | FixedPoint, Attr: &AxisAttr{},
		shape: gatherShape, Doc: "replaces dimension axis of x by the entries that indices select; negative ones, which constants do not have, count from the end"},
	GatherElements: {Name: "gatherelements", Operands: []string{"x", "indices"}, Attr: &AxisAttr{},
		shape: gatherElementsShape, Doc: "for each index the element of x at its place, but at that index along axis; negative ones count from the end"},
	ScatterElements: {Name: "scatterelements", Operands: []string{"x", "indices", "updates"}, Attr: &ScatterAttr{},
		shape: scatterElementsShape, Doc: "x with updates put, added, … at their places, but at the given indices along axis, in order; negative ones count from the end"},

	Cast: {Name: "cast", Operands: []string{"x"}, Flags: Elementwise | Stated,
		shape: sameShape, Doc: "converts the element type; floats truncate towards zero"},
	Quantize: {Name: "quantize", Operands: []string{"x"}, Flags: Elementwise | FixedPoint | Stated,
		shape: sameShape, Doc: "saturate(round(x / scale) + zero) in float32, halves to even"},
	Dequantize: {Name: "dequantize", Operands: []string{"x"}, Flags: Elementwise | FixedPoint,
		shape: sameShape, Doc: "(x − zero) · scale in float32"},
	Requantize: {Name: "requantize", Operands: []string{"x"}, Flags: Elementwise | FixedPoint | Stated,
		shape: sameShape, Doc: "the codes of the same real numbers under the result's quantisation"},
	Reinterpret: {Name: "reinterpret", Operands: []string{"x"}, Flags: Elementwise | FixedPoint | Stated,
		shape: sameShape, Doc: "the same codes under another quantisation"},
	BitCast: {Name: "bitcast", Operands: []string{"x"}, Flags: Elementwise | Stated,
		shape: sameShape, Doc: "the same bits as elements of another type of the same width"},
}

// Info returns the table row of an operator; for an unknown kind, the row named
// "invalid".
func Info(k OpKind) *OpInfo {
	if k >= numOpKinds {
		k = OpInvalid
	}
	return &opTable[k]
}

// Kinds returns all operators in the order of their constants.
func Kinds() []OpKind {
	ks := make([]OpKind, 0, numOpKinds-1)
	for k := OpInvalid + 1; k < numOpKinds; k++ {
		ks = append(ks, k)
	}
	return ks
}

// String returns the operator's mnemonic.
func (k OpKind) String() string {
	if k < numOpKinds {
		return opTable[k].Name
	}
	return fmt.Sprintf("op(%d)", uint8(k))
}

// Is reports whether all of the given flags are set for the operator.
func (k OpKind) Is(f OpFlags) bool { return Info(k).Is(f) }

// ParseOpKind is the inverse of OpKind.String.
func ParseOpKind(s string) (OpKind, bool) {
	for k := OpInvalid + 1; k < numOpKinds; k++ {
		if opTable[k].Name == s {
			return k, true
		}
	}
	return OpInvalid, false
}
