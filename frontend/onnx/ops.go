package onnx

import (
	"cmp"
	"slices"

	"situ/ir"
)

// A row says how one ONNX operator is translated.
type row struct {
	name      string
	since     int64 // first opset of its domain that has it
	until     int64 // last one, 0 when it still exists
	inputs    int   // inputs that must be present
	translate func(*call)
}

// table holds the operators of the ai.onnx domain. Where a newer opset moved an
// attribute to an input, one function reads both.
var table = []row{
	// Products.
	{"Conv", 1, 0, 2, conv},
	{"ConvTranspose", 1, 0, 2, convTranspose},
	{"Col2Im", 18, 0, 3, col2Im},
	{"Gemm", 1, 0, 2, gemm},
	{"MatMul", 1, 0, 2, matMul},
	{"Einsum", 12, 0, 1, einsum},
	{"Attention", 23, 0, 3, attention},
	{"RotaryEmbedding", 23, 0, 3, rotaryEmbedding},

	// Windows, reductions, normalisations.
	{"MaxPool", 1, 0, 1, maxPool},
	{"AveragePool", 1, 0, 1, averagePool},
	{"GlobalAveragePool", 1, 0, 1, globalPool(ir.ReduceMean)},
	{"LpPool", 2, 0, 1, lpPool},
	{"GridSample", 16, 0, 2, gridSample},
	{"AffineGrid", 20, 0, 2, affineGrid},
	{"DeformConv", 19, 0, 3, deformConv},
	{"RoiAlign", 10, 0, 3, roiAlign},
	{"NonMaxSuppression", 10, 0, 2, nonMaxSuppression},
	{"MaxUnpool", 9, 0, 2, maxUnpool},
	{"GlobalLpPool", 2, 0, 1, globalLpPool},
	{"GlobalMaxPool", 1, 0, 1, globalPool(ir.ReduceMax)},
	{"ReduceSum", 1, 0, 1, onShapes(13, fold[ir.Add].ints, native(ir.ReduceSum))},
	{"ReduceMean", 1, 0, 1, reduce(18, native(ir.ReduceMean))},
	{"ReduceMax", 1, 0, 1, onShapes(18, fold[ir.Max].ints, extreme(ir.ReduceMax))},
	{"ReduceMin", 1, 0, 1, onShapes(18, fold[ir.Min].ints, extreme(ir.ReduceMin))},
	{"ReduceProd", 1, 0, 1, onShapes(18, fold[ir.Mul].ints, native(ir.ReduceProd))},
	{"ReduceL1", 1, 0, 1, reduce(18, sumOfAbs)},
	{"ReduceL2", 1, 0, 1, reduce(18, norm2)},
	{"ReduceSumSquare", 1, 0, 1, reduce(18, sumOfSquares)},
	{"ReduceLogSum", 1, 0, 1, reduce(18, logOfSum)},
	{"ReduceLogSumExp", 1, 0, 1, reduce(18, logOfSumOfExp)},
	{"LpNormalization", 1, 0, 1, lpNormalization},
	{"BatchNormalization", 6, 0, 5, batchNormalization},
	{"LayerNormalization", 1, 0, 2, layerNormalization},         // from 17 on; optimisers write it in older models, too
	{"SimplifiedLayerNormalization", 1, 0, 2, rmsNormalization}, // RMSNormalization, as ONNX Runtime calls it
	{"InstanceNormalization", 6, 0, 3, instanceNormalization},
	{"RMSNormalization", 23, 0, 2, rmsNormalization},
	{"NegativeLogLikelihoodLoss", 12, 0, 2, negativeLogLikelihoodLoss},
	{"SoftmaxCrossEntropyLoss", 12, 0, 2, softmaxCrossEntropyLoss},
	{"GroupNormalization", 18, 0, 3, groupNormalization},
	{"MeanVarianceNormalization", 9, 0, 1, meanVarianceNormalization},
	{"LRN", 1, 0, 1, lrn},
	{"Softmax", 1, 0, 1, softmax(ir.Softmax)},
	{"LogSoftmax", 1, 0, 1, softmax(ir.LogSoftmax)},

	// Element-wise arithmetic.
	{"Add", 1, 0, 2, elementwise(ir.Add)},
	{"Sub", 1, 0, 2, elementwise(ir.Sub)},
	{"Mul", 1, 0, 2, elementwise(ir.Mul)},
	{"Div", 1, 0, 2, elementwise(ir.Div)},
	{"Mod", 10, 0, 2, mod},
	{"Pow", 1, 0, 2, pow},
	{"Sum", 6, 0, 1, variadic(ir.Add)},
	{"Min", 6, 0, 1, variadic(ir.Min)},
	{"Max", 6, 0, 1, variadic(ir.Max)},
	{"Mean", 6, 0, 1, mean},

	// Element-wise functions.
	{"Relu", 6, 0, 1, relu},
	{"LeakyRelu", 6, 0, 1, alphaBeta(ir.LeakyRelu, 0.01)},
	{"PRelu", 6, 0, 2, pRelu},
	{"Elu", 6, 0, 1, alphaBeta(ir.Elu, 1)},
	{"Celu", 12, 0, 1, function(celu)},
	{"Selu", 6, 0, 1, function(selu)},
	{"Clip", 6, 0, 1, clip},
	{"Sigmoid", 6, 0, 1, unary(ir.Sigmoid)},
	{"HardSigmoid", 6, 0, 1, hardSigmoid},
	{"HardSwish", 14, 0, 1, unary(ir.HardSwish)},
	{"Mish", 18, 0, 1, function(mish)},
	{"Gelu", 20, 0, 1, function(gelu)},
	{"Softplus", 1, 0, 1, unary(ir.Softplus)},
	{"Swish", 24, 0, 1, function(swish)},
	{"ThresholdedRelu", 10, 0, 1, function(thresholdedRelu)},
	{"Shrink", 9, 0, 1, shrink},
	{"Softsign", 1, 0, 1, function(softsign)},
	{"Tanh", 6, 0, 1, unary(ir.Tanh)},
	{"Exp", 6, 0, 1, unary(ir.Exp)},
	{"Log", 6, 0, 1, unary(ir.Log)},
	{"Sqrt", 6, 0, 1, unary(ir.Sqrt)},
	{"Reciprocal", 6, 0, 1, unary(ir.Reciprocal)},
	{"Neg", 6, 0, 1, neg},
	{"Abs", 6, 0, 1, abs},
	{"Erf", 9, 0, 1, unary(ir.Erf)},
	{"Floor", 6, 0, 1, unary(ir.Floor)},
	{"Ceil", 6, 0, 1, unary(ir.Ceil)},
	{"Round", 11, 0, 1, unary(ir.Round)},
	{"Sin", 7, 0, 1, unary(ir.Sin)},
	{"Cos", 7, 0, 1, unary(ir.Cos)},
	{"Tan", 7, 0, 1, unary(ir.Tan)},
	{"Asin", 7, 0, 1, unary(ir.Asin)},
	{"Acos", 7, 0, 1, unary(ir.Acos)},
	{"Atan", 7, 0, 1, unary(ir.Atan)},
	{"Sinh", 9, 0, 1, unary(ir.Sinh)},
	{"Cosh", 9, 0, 1, unary(ir.Cosh)},
	{"Asinh", 9, 0, 1, unary(ir.Asinh)},
	{"Acosh", 9, 0, 1, unary(ir.Acosh)},
	{"Atanh", 9, 0, 1, unary(ir.Atanh)},
	{"Sign", 9, 0, 1, sign},
	{"IsNaN", 9, 0, 1, isNaN},
	{"IsInf", 10, 0, 1, isInf},
	{"BitwiseAnd", 18, 0, 2, bits(ir.BitAnd)},
	{"BitwiseOr", 18, 0, 2, bits(ir.BitOr)},
	{"BitwiseXor", 18, 0, 2, bits(ir.BitXor)},
	{"BitwiseNot", 18, 0, 1, bitwiseNot},
	{"BitShift", 11, 0, 2, bitShift},
	{"BitCast", 26, 0, 1, bitCast},

	// Shape and data movement.
	{"Identity", 1, 0, 1, identity},
	{"Dropout", 1, 0, 1, dropout},
	{"Reshape", 5, 0, 2, reshape},
	{"Flatten", 1, 0, 1, flatten},
	{"Squeeze", 1, 0, 1, squeeze},
	{"Unsqueeze", 1, 0, 1, unsqueeze},
	{"Transpose", 1, 0, 1, transpose},
	{"Concat", 4, 0, 1, concat},
	{"Split", 2, 0, 1, split},
	{"Slice", 1, 0, 1, slice},
	{"Pad", 2, 0, 1, pad},
	{"Expand", 8, 0, 2, expand},
	{"Tile", 6, 0, 2, tile},
	{"Gather", 1, 0, 2, gather},
	{"GatherElements", 11, 0, 2, gatherElements},
	{"GatherND", 11, 0, 2, gatherND},
	{"Scatter", 9, 10, 3, scatterElements},
	{"ScatterElements", 11, 0, 3, scatterElements},
	{"ScatterND", 11, 0, 3, scatterND},
	{"TensorScatter", 24, 0, 2, tensorScatter},
	{"TopK", 1, 0, 1, topK},
	{"ArgMax", 1, 0, 1, argExtreme(false)},
	{"ArgMin", 1, 0, 1, argExtreme(true)},
	{"Hardmax", 1, 0, 1, hardmax},
	{"OneHot", 9, 0, 3, oneHot},
	{"Compress", 9, 0, 2, compress},
	{"NonZero", 9, 0, 1, nonZero},
	{"Unique", 11, 0, 1, unique},
	{"ReverseSequence", 10, 0, 2, reverseSequence},
	{"Trilu", 14, 0, 1, trilu},
	{"CenterCropPad", 18, 0, 2, centerCropPad},
	{"CumSum", 11, 0, 2, cumulative(ir.CumSum, 0)},
	{"CumProd", 26, 0, 2, cumulative(ir.CumProd, 1)},
	{"Det", 11, 0, 1, det},
	{"DFT", 17, 0, 1, dft},
	{"STFT", 17, 0, 2, stft},
	{"TfIdfVectorizer", 9, 0, 1, tfIdfVectorizer},
	{"Resize", 10, 0, 1, resize},
	{"Upsample", 7, 9, 1, resize},
	{"DepthToSpace", 1, 0, 1, depthToSpace},
	{"SpaceToDepth", 1, 0, 1, spaceToDepth},
	{"Cast", 6, 0, 1, cast},
	{"CastLike", 15, 0, 2, castLike},

	// Constants and what is evaluated at import.
	{"Constant", 1, 0, 0, constant},
	{"ConstantOfShape", 9, 0, 1, constantOfShape},
	{"Shape", 1, 0, 1, shape},
	{"Size", 1, 0, 1, size},
	{"Range", 11, 0, 3, rangeOp},
	{"EyeLike", 9, 0, 1, eyeLike},
	{"MelWeightMatrix", 17, 0, 5, melWeightMatrix},
	{"OptionalHasElement", 15, 0, 0, optionalHasElement},
	{"OptionalGetElement", 15, 0, 1, identity},
	{"HannWindow", 17, 0, 1, cosineWindow(0.5, 0.5, 0)},
	{"HammingWindow", 17, 0, 1, cosineWindow(25.0/46, 21.0/46, 0)},
	{"BlackmanWindow", 17, 0, 1, cosineWindow(0.42, 0.5, 0.08)},
	{"Equal", 1, 0, 2, compare(ir.Equals)},
	{"Less", 1, 0, 2, compare(ir.Less)},
	{"LessOrEqual", 12, 0, 2, compare(ir.LessEqual)},
	{"Greater", 1, 0, 2, compareSwapped(ir.Less)},
	{"GreaterOrEqual", 12, 0, 2, compareSwapped(ir.LessEqual)},
	{"And", 1, 0, 2, logic(ir.BitAnd)},
	{"Or", 1, 0, 2, logic(ir.BitOr)},
	{"Xor", 1, 0, 2, logic(ir.BitXor)},
	{"Not", 1, 0, 1, not},
	{"Where", 9, 0, 3, where},

	// Recurrent layers.
	{"RNN", 7, 0, 3, rnn},
	{"GRU", 7, 0, 3, gru},
	{"LSTM", 7, 0, 3, lstm},

	// Control flow.
	{"If", 1, 0, 1, ifOp},
	{"Loop", 1, 0, 0, loop},
	{"Scan", 9, 0, 1, scan},

	// Quantisation.
	{"QuantizeLinear", 10, 0, 2, quantizeLinear},
	{"DequantizeLinear", 10, 0, 2, dequantizeLinear},
	{"DynamicQuantizeLinear", 11, 0, 1, dynamicQuantizeLinear},
	{"QLinearConv", 10, 0, 8, qLinearConv},
	{"QLinearMatMul", 10, 0, 8, qLinearMatMul},
	{"ConvInteger", 10, 0, 2, convInteger},
	{"MatMulInteger", 10, 0, 2, matMulInteger},
}

// rows is table by name. It is filled by init, for translations of control flow
// look operators up themselves.
var rows = map[string]*row{}

func init() {
	for i := range table {
		rows[table[i].name] = &table[i]
	}
}

// lookup returns the row of an operator in an opset of its domain, nil when
// there is none.
func lookup(domain, op string, opset int64) *row {
	var r *row
	switch domain {
	case "":
		r = rows[op]
	case mlDomain:
		r = named(mlTable, op)
	case contribDomain:
		r = named(contribTable, op)
		opset = cmp.Or(opset, 1) // many models do not say that they use it
	}
	if r == nil || opset < r.since || r.until != 0 && opset > r.until {
		return nil
	}
	return r
}

func named(table []row, op string) *row {
	if i := slices.IndexFunc(table, func(r row) bool { return r.name == op }); i >= 0 {
		return &table[i]
	}
	return nil
}

// Operator is an operator that Import takes.
type Operator struct {
	Domain, Name string
	Since, Until int64 // first and last version of the domain's operator set; no last one is 0
}

// Operators returns the supported operators of all domains in the order of the
// tables.
func Operators() []Operator {
	var list []Operator
	for _, r := range table {
		list = append(list, Operator{"ai.onnx", r.name, r.since, cmp.Or(r.until, maxOpset)})
	}
	for _, r := range mlTable {
		list = append(list, Operator{mlDomain, r.name, r.since, r.until})
	}
	for _, r := range contribTable {
		list = append(list, Operator{contribDomain, r.name, r.since, r.until})
	}
	return list
}
