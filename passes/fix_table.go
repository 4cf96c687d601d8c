package passes

import (
	"context"

	"situ/ir"
	"situ/ir/eval"
)

// table writes a value that is a function of codes as a lookup, NoValue when it
// is none.
func (f *fixer) table(old ir.ValueID, t ir.Type) (ir.ValueID, error) {
	from := f.origin[old]
	if from == old || from == ir.NoValue {
		return ir.NoValue, nil
	}
	x, err := f.codes(from)
	if err != nil || x == ir.NoValue {
		return ir.NoValue, err
	}
	xt := f.g.Type(x)
	codes, err := f.tabulate(old, from, xt, t)
	if err != nil {
		return ir.NoValue, err
	}
	op := f.old.DefOp(old)
	return f.g.AddTyped(ir.LUT, op.Name, nil, t, x, f.g.AddConst(op.Name+"/table", codes, t.Quant))
}

// tabulate evaluates the expression from variable to value for each code.
func (f *fixer) tabulate(old, from ir.ValueID, xt, t ir.Type) (*ir.Tensor, error) {
	b := newTableBuilder(f.old)
	x, err := b.g.Add(ir.Dequantize, "", nil, b.g.AddConst("", allCodes(xt.DType), xt.Quant))
	if err != nil {
		return nil, err
	}
	b.ids[from] = x
	y, err := b.expression(old)
	if err != nil {
		return nil, err
	}
	t.Shape = []int{256}
	if y, err = b.g.AddTyped(ir.Quantize, "", nil, t, y); err != nil {
		return nil, err
	}
	b.g.Outputs = []ir.ValueID{y}
	out, err := evaluate(f.state.ctx, b.g)
	if err != nil {
		return nil, err
	}
	return out[0], nil
}

// allCodes returns the 256 codes of an 8-bit type, ascending.
func allCodes(d ir.DType) *ir.Tensor {
	if d == ir.U8 {
		codes := make([]uint8, 256)
		for i := range codes {
			codes[i] = uint8(i)
		}
		return ir.NewTensor(d, []int{256}, codes)
	}
	codes := make([]int8, 256)
	for i := range codes {
		codes[i] = int8(i - 128)
	}
	return ir.NewTensor(d, []int{256}, codes)
}

// evaluate computes the outputs of a graph without inputs.
func evaluate(ctx context.Context, g *ir.Graph) ([]*ir.Tensor, error) {
	e, err := eval.New(g)
	if err != nil {
		return nil, err
	}
	return e.Run(ctx, nil, eval.Options{})
}

// tableBuilder copies an expression on a vector, whose id its user sets.
type tableBuilder struct {
	old, g *ir.Graph
	ids    map[ir.ValueID]ir.ValueID // old id → id in g
}

func newTableBuilder(old *ir.Graph) *tableBuilder {
	return &tableBuilder{old, &ir.Graph{Name: "table"}, map[ir.ValueID]ir.ValueID{}}
}

func (b *tableBuilder) expression(old ir.ValueID) (ir.ValueID, error) {
	if id, ok := b.ids[old]; ok {
		return id, nil
	}
	if c, ok := scalarOf(b.old, old); ok {
		return vector(b.g, "", []float32{c}), nil
	}
	op := b.old.DefOp(old)
	in := make([]ir.ValueID, len(op.In))
	for i, id := range op.In {
		var err error
		if in[i], err = b.expression(id); err != nil {
			return ir.NoValue, err
		}
	}
	id, err := b.g.Add(op.Kind, op.Name, op.Attr, in...)
	b.ids[old] = id
	return id, err
}
