package ir

import "fmt"

// OpKind identifies an operator; its row in the table says all about it.
type OpKind uint8

// Operators. Images are NHWC, convolution weights OHWI ([out, kh, kw, in/groups]).
const (
	OpInvalid OpKind = iota

	// Products.
	Conv2D
	MatMul

	// Windows and reductions.
	MaxPool
	AvgPool
	ReduceSum
	ReduceMean
	ReduceMax
	ReduceMin
	Softmax
	LogSoftmax
	LRN
	ReduceProd
	CumSum
	CumProd
	TopK
	Det
	Sample
	LayerNorm

	// Element-wise with two operands (NumPy broadcasting).
	Add
	Sub
	Mul
	Div
	Min
	Max
	Pow
	Mod
	BitAnd
	BitOr
	BitXor
	ShiftLeft
	ShiftRight
	Equals
	Less
	LessEqual

	// Element-wise with one operand.
	Relu
	LeakyRelu
	Clip
	Sigmoid
	HardSigmoid
	HardSwish
	Tanh
	Exp
	Log
	Sqrt
	Reciprocal
	Neg
	Abs
	Erf
	Floor
	Ceil
	Round
	Softplus
	Elu
	LUT
	Sin
	Cos
	Tan
	Asin
	Acos
	Atan
	Sinh
	Cosh
	Asinh
	Acosh
	Atanh

	// Element-wise with more operands.
	Where
	MulAdd

	// Shape.
	Reshape
	Transpose
	Concat
	Slice
	Pad
	Expand
	Gather
	GatherElements
	ScatterElements

	// Numbers.
	Cast
	Quantize
	Dequantize
	Requantize
	Reinterpret
	BitCast

	numOpKinds
)

// Attr is the attribute struct of an operator: a pointer to one of the types
// below, or nil. Field tags give the names in the textual form; a field marked
// "opt" may be left out there when it has the default that the table states.
type Attr any

// Act is an activation fused into a product or an element-wise operator. In
// fixed point it is a clamp of the result's codes to the codes of Lo and Hi.
type Act struct {
	Lo float32 `ir:"lo"` // −Inf when unbounded
	Hi float32 `ir:"hi"` // +Inf when unbounded
}

// ConvAttr belongs to Conv2D.
type ConvAttr struct {
	Strides   [2]int `ir:"strides,opt"`   // along H, W
	Pads      [4]int `ir:"pads,opt"`      // top, left, bottom, right
	Dilations [2]int `ir:"dilations,opt"` // along H, W
	Groups    int    `ir:"groups,opt"`
	Act       *Act   `ir:"act,opt"`
}

// MatMulAttr belongs to MatMul.
type MatMulAttr struct {
	Act *Act `ir:"act,opt"`
}

// BinaryAttr belongs to Add, Sub and Mul (others have none).
type BinaryAttr struct {
	Act *Act `ir:"act,opt"`
}

// MulAddAttr belongs to MulAdd.
type MulAddAttr struct {
	Subtract bool `ir:"subtract,opt"` // the second product
}

// PoolAttr belongs to MaxPool and AvgPool. The result's spatial shape is that
// of floor((in + pads − dilation·(kernel−1) − 1) / stride) + 1; ceil mode is
// expressed at import as larger bottom and right pads. Padding is never part of
// a maximum, and part of an average only with CountPad.
type PoolAttr struct {
	Kernel    [2]int `ir:"kernel"`
	Strides   [2]int `ir:"strides,opt"`
	Pads      [4]int `ir:"pads,opt"`
	Dilations [2]int `ir:"dilations,opt"`
	CountPad  bool   `ir:"count_pad,opt"`
	// CeilPads is how much of the bottom and right pads came from ceil mode;
	// that part is outside the divisor even with CountPad.
	CeilPads [2]int `ir:"ceil_pads,opt"`
}

// ReduceAttr belongs to the reductions. Axes are non-negative and ascending.
type ReduceAttr struct {
	Axes     []int `ir:"axes"`
	KeepDims bool  `ir:"keepdims,opt"`
}

// AxisAttr belongs to Softmax, LogSoftmax, CumSum, CumProd, Concat, Gather and
// GatherElements.
type AxisAttr struct {
	Axis int `ir:"axis"`
}

// NormAttr belongs to LayerNorm. With RMS the mean is not subtracted.
type NormAttr struct {
	Epsilon float32 `ir:"epsilon"`
	RMS     bool    `ir:"rms,opt"`
}

// LRNAttr belongs to LRN: y = x / (bias + alpha/size · Σ x²)^beta over a window
// of Size along Axis.
type LRNAttr struct {
	Axis  int     `ir:"axis"`
	Size  int     `ir:"size"`
	Alpha float32 `ir:"alpha"`
	Beta  float32 `ir:"beta"`
	Bias  float32 `ir:"bias"`
}

// ClipAttr belongs to Clip.
type ClipAttr struct {
	Lo float32 `ir:"lo"`
	Hi float32 `ir:"hi"`
}

// AlphaBetaAttr belongs to LeakyRelu and Elu (alpha) and HardSigmoid (both).
type AlphaBetaAttr struct {
	Alpha float32 `ir:"alpha"`
	Beta  float32 `ir:"beta,opt"`
}

// ShapeAttr belongs to Reshape and Expand: the result's shape.
type ShapeAttr struct {
	Shape []int `ir:"shape"`
}

// PermAttr belongs to Transpose: result dimension i is operand dimension Perm[i].
type PermAttr struct {
	Perm []int `ir:"perm"`
}

// SliceAttr belongs to Slice, one entry a dimension: begin, step (may be
// negative) and number of elements taken.
type SliceAttr struct {
	Starts []int `ir:"starts"`
	Steps  []int `ir:"steps"`
	Sizes  []int `ir:"sizes"`
}

// PadMode says what Pad writes outside the operand.
type PadMode uint8

// Padding modes.
const (
	PadConstant PadMode = iota
	PadReflect
	PadEdge
	PadWrap
)

var padModeNames = [...]string{"constant", "reflect", "edge", "wrap"}

// String returns the name of the mode in the textual form.
func (m PadMode) String() string {
	if int(m) < len(padModeNames) {
		return padModeNames[m]
	}
	return fmt.Sprintf("mode(%d)", uint8(m))
}

// PadAttr belongs to Pad, one entry a dimension; negative entries crop.
type PadAttr struct {
	Begin []int   `ir:"begin"`
	End   []int   `ir:"end"`
	Mode  PadMode `ir:"mode,opt"`
	Value float64 `ir:"value,opt"` // real value; in fixed point its code is written
}

// ModAttr belongs to Mod. With Truncated the result has the sign of a (C's
// remainder), without it that of b (Python's).
type ModAttr struct {
	Truncated bool `ir:"truncated,opt"`
}

// TopKAttr belongs to TopK.
type TopKAttr struct {
	Axis     int  `ir:"axis"`
	K        int  `ir:"k"`
	Smallest bool `ir:"smallest,opt"`
}

// ScatterMode says what ScatterElements does with the element that is there.
type ScatterMode uint8

// Ways to scatter.
const (
	ScatterSet ScatterMode = iota
	ScatterAdd
	ScatterMul
	ScatterMin
	ScatterMax
)

var scatterModeNames = [...]string{"set", "add", "mul", "min", "max"}

// String returns the name of the mode in the textual form.
func (m ScatterMode) String() string {
	if int(m) < len(scatterModeNames) {
		return scatterModeNames[m]
	}
	return fmt.Sprintf("mode(%d)", uint8(m))
}

// ScatterAttr belongs to ScatterElements.
type ScatterAttr struct {
	Axis int         `ir:"axis"`
	Mode ScatterMode `ir:"mode,opt"`
}

// SampleMode says how Sample makes an element from those around a coordinate.
type SampleMode uint8

// Modes of sampling.
const (
	SampleLinear SampleMode = iota
	SampleNearest
	SampleCubic // cubic convolution with a = −0.75
)

var sampleModeNames = [...]string{"linear", "nearest", "cubic"}

// String returns the name of the mode in the textual form.
func (m SampleMode) String() string {
	if int(m) < len(sampleModeNames) {
		return sampleModeNames[m]
	}
	return fmt.Sprintf("mode(%d)", uint8(m))
}

// SampleEdge says what Sample finds outside x.
type SampleEdge uint8

// What is outside: zeros, the nearest element inside, or the mirror image, either
// about the outer elements' centres or about their outer edges.
const (
	SampleZeros SampleEdge = iota
	SampleBorder
	SampleMirrorCentres
	SampleMirrorEdges
)

var sampleEdgeNames = [...]string{"zeros", "border", "mirror_centres", "mirror_edges"}

// String returns the name of the edge in the textual form.
func (e SampleEdge) String() string {
	if int(e) < len(sampleEdgeNames) {
		return sampleEdgeNames[e]
	}
	return fmt.Sprintf("edge(%d)", uint8(e))
}

// SampleAttr belongs to Sample.
type SampleAttr struct {
	Mode SampleMode `ir:"mode,opt"`
	Edge SampleEdge `ir:"edge,opt"`
}
