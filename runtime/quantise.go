package runtime

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"situ/frontend/onnx"
	"situ/ir"
)

// QuantiseReport is the outcome of Quantise.
type QuantiseReport struct {
	Encoded  []byte // the ONNX file
	Summary  QuantiseSummary
	Warnings []string
}

// QuantiseSummary says what the file holds.
type QuantiseSummary struct {
	Model       string `json:"model"`
	Quant       string `json:"quantisation"`
	Opset       int64  `json:"opset"`
	Activations int    `json:"quantised_activations"` // values with a quantize/dequantize pair
	Weights     int    `json:"quantised_constants"`
	FileBytes   int64  `json:"file_bytes"`
	FloatBytes  int64  `json:"float_file_bytes"` // of the model as given
}

// Quantise turns a float model into a standard QDQ model: float operators between
// QuantizeLinear/DequantizeLinear pairs that carry the scales Prepare would
// compile with. Inputs and outputs keep names, types and layouts.
func Quantise(ctx context.Context, name string, mo ModelOptions, q QuantOptions) (*QuantiseReport, error) {
	m, err := OpenModel(name, mo)
	if err != nil {
		return nil, err
	}
	return quantise(ctx, m, q, nil)
}

// quantise is Quantise with calibration inputs that come first when there are any.
func quantise(ctx context.Context, m *Model, q QuantOptions, calibration [][]*ir.Tensor) (*QuantiseReport, error) {
	if m.Graph != nil && cameQuantised(m.Graph) {
		return nil, fmt.Errorf("model %s is quantised already; give the float model it was made from", m.Name)
	}
	if slices.Contains(q.Disable, "quantise") {
		return nil, errors.New("the pass quantise is disabled, and without it nothing is quantised")
	}
	if err := m.computable(); err != nil {
		return nil, err
	}
	if m.Host != nil {
		return nil, fmt.Errorf("model %s: %s, and such a model cannot be written; end it before that node", m.Name, m.leftToHost())
	}
	q.StopAfter = "quantise"
	p, err := prepare(ctx, m, q, calibration)
	if err != nil {
		return nil, err
	}
	g, err := qdqGraph(p.Fixed, outputNames(m.Graph))
	if err != nil {
		return nil, fmt.Errorf("model %s: %w", m.Name, err)
	}
	r := &QuantiseReport{Warnings: p.Warnings, Summary: QuantiseSummary{Model: m.Name, Quant: p.Quant, FloatBytes: m.Bytes}}
	for i := range g.Ops {
		switch op := &g.Ops[i]; {
		case op.Kind == ir.Quantize:
			r.Summary.Activations++
		case op.Kind == ir.Dequantize && g.IsConst(op.In[0]):
			r.Summary.Weights++
		}
	}
	if r.Summary.Activations == 0 {
		return nil, fmt.Errorf("model %s: no operator of it has a fixed-point form; there is nothing to quantise", m.Name)
	}
	proto, err := onnx.Export(g)
	if err != nil {
		return nil, fmt.Errorf("model %s: %w", m.Name, err)
	}
	if r.Encoded, err = onnx.EncodeModel(proto); err != nil {
		return nil, fmt.Errorf("model %s: %w", m.Name, err)
	}
	r.Summary.Opset, r.Summary.FileBytes = proto.OpsetImport[0].Version, int64(len(r.Encoded))
	return r, nil
}

// qdqGraph makes a quantised graph what other tools expect: activations are
// uint8, biases of convolutions int32 codes in units of operand × weight, and each
// output is a value of its own that bears the name it had.
func qdqGraph(g *ir.Graph, outputs []string) (*ir.Graph, error) {
	r := ir.NewRewriter(g)
	for i := range g.Ops {
		op := &g.Ops[i]
		if op.Kind == ir.Quantize {
			id, err := r.Dst.AddTyped(op.Kind, op.Name, nil, unsigned(g.Type(op.Out)), r.Map(op.In[0]))
			if err != nil {
				return nil, err
			}
			r.Set(op.Out, id)
			continue
		}
		in := r.MapAll(op.In)
		if q, codes := biasCodes(g, op); codes != nil {
			name := g.Value(op.In[2]).Name
			var err error
			c := r.Dst.AddConst(name, ir.NewTensor(ir.I32, []int{len(codes)}, codes), q)
			if in[2], err = r.Dst.Add(ir.Dequantize, name, nil, c); err != nil {
				return nil, err
			}
		}
		id, err := r.Dst.AddTyped(op.Kind, op.Name, op.Attr, g.Type(op.Out), in...)
		if err != nil {
			return nil, err
		}
		r.Set(op.Out, id)
		r.Dst.Value(id).Name = g.Value(op.Out).Name
	}
	h := r.Finish()
	for i, id := range h.Outputs {
		if h.Value(id).Def < 0 || slices.Contains(h.Outputs[:i], id) {
			var err error
			if h.Outputs[i], err = h.AddTyped(ir.Reinterpret, outputs[i], nil, h.Type(id), id); err != nil {
				return nil, err
			}
		}
		h.Value(h.Outputs[i]).Name = outputs[i]
	}
	return h, nil
}

// unsigned returns the uint8 type whose codes stand for the same numbers as those
// of an int8 type.
func unsigned(t ir.Type) ir.Type {
	return ir.Type{DType: ir.U8, Shape: t.Shape, Quant: ir.PerTensor(t.Quant.Scale[0], t.Quant.Zero[0]+128)}
}

// biasCodes returns the float bias of a convolution of codes in units of the
// sums, nil where there is none, or where it does not fit 32 bits.
func biasCodes(g *ir.Graph, op *ir.Op) (*ir.Quant, []int32) {
	if op.Kind != ir.Conv2D || len(op.In) < 3 || !g.IsConst(op.In[2]) || g.Type(op.In[2]).DType != ir.F32 {
		return nil, nil
	}
	x, w := g.DefOp(op.In[0]), g.DefOp(op.In[1])
	for x != nil && x.Kind.Is(ir.MovesCodes) {
		x = g.DefOp(x.In[0])
	}
	if x == nil || w == nil || x.Kind != ir.Dequantize || w.Kind != ir.Dequantize {
		return nil, nil
	}
	xs, ws := g.Type(x.In[0]).Quant.Scale, g.Type(w.In[0]).Quant.Scale
	bias := ir.Data[float32](g.Value(op.In[2]).Const)
	if len(xs) != 1 || len(ws) != len(bias) {
		return nil, nil
	}
	q := &ir.Quant{Scale: make([]float32, len(bias)), Zero: make([]int32, len(bias))}
	codes := make([]int32, len(bias))
	for c, b := range bias {
		q.Scale[c] = xs[0] * ws[c]
		v := math.RoundToEven(float64(b) / float64(q.Scale[c]))
		if !(math.Abs(v) < 1<<31) {
			return nil, nil
		}
		codes[c] = int32(v)
	}
	return q, codes
}
