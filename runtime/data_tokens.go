package runtime

import (
	"fmt"
	"math"
	"slices"

	"situ/frontend/onnx"
	"situ/ir"
)

// takesTokens reports whether a model's one input is integers.
func takesTokens(g *ir.Graph) bool {
	if len(g.Inputs) != 1 {
		return false
	}
	d := g.Type(g.Inputs[0]).DType
	return d == ir.I64 || d == ir.I32
}

// tokenData reads sequences x [N,L] and labels y [N,L], one a position: what a
// language model is to say next.
func tokenData(g *ir.Graph, xPath, yPath string, limit int) (*data, error) {
	_, x, err := onnx.ReadTensorFile(xPath)
	if err != nil {
		return nil, err
	}
	_, y, err := onnx.ReadTensorFile(yPath)
	if err != nil {
		return nil, err
	}
	t := g.Type(g.Inputs[0])
	if len(x.Shape) != 2 || !slices.Equal(x.Shape, y.Shape) || x.Numel() == 0 {
		return nil, fmt.Errorf("%s has shape %v and %s %v; want N sequences and a label for each of their positions", xPath, x.Shape, yPath, y.Shape)
	}
	if !x.DType.IsInt() || !y.DType.IsInt() {
		return nil, fmt.Errorf("%s is %s and %s is %s; want integers", xPath, x.DType, yPath, y.DType)
	}
	n, length := x.Shape[0], x.Shape[1]
	if length != t.Numel() {
		return nil, fmt.Errorf("%s holds sequences of %d; the model's input %v takes %d (--dim binds its dimensions)", xPath, length, t.Shape, t.Numel())
	}
	if limit > 0 {
		n = min(n, limit)
	}
	d := &data{what: xPath, positions: length}
	tokens, labels := reals(x), reals(y)
	for i := range n {
		d.inputs = append(d.inputs, []*ir.Tensor{integerTensor(t, tokens[i*length:(i+1)*length])})
		for k, l := range labels[i*length : (i+1)*length] {
			if l < 0 || l > math.MaxInt32 {
				return nil, fmt.Errorf("%s: label %v of sequence %d, position %d is no class", yPath, l, i, k)
			}
			d.labels = append(d.labels, int(l))
		}
	}
	return d, nil
}

// integerTensor returns whole numbers as a tensor of type t.
func integerTensor(t ir.Type, v []float64) *ir.Tensor {
	if t.DType == ir.I32 {
		return ir.NewTensor(t.DType, t.Shape, whole[int32](v))
	}
	return ir.NewTensor(t.DType, t.Shape, whole[int64](v))
}

func whole[T int32 | int64](v []float64) []T {
	out := make([]T, len(v))
	for i, x := range v {
		out[i] = T(x)
	}
	return out
}

// crossEntropy returns −ln of the probability that softmax gives the label among
// logits.
func crossEntropy(logits []float64, label int) float64 {
	top := slices.Max(logits)
	sum := 0.0
	for _, v := range logits {
		sum += math.Exp(v - top)
	}
	return math.Log(sum) + top - logits[label]
}
