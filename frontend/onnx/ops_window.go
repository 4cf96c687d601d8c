package onnx

import (
	"slices"

	"situ/ir"
)

// window holds the attributes that convolutions and pools share, one entry for
// each spatial dimension.
type window struct {
	kernel, strides, dilations []int
	begin, end                 []int // pads
	ceil                       []int // how much of end came from ceil mode
}

// window reads the attributes of a window over an operand of shape [N,C,spatial…].
// kernel is the kernel's size where the weights tell it, else nil.
func (c *call) window(in []int, kernel []int, ceil bool) window {
	autoPad := c.str("auto_pad", "NOTSET")
	w := c.rawWindow(in, kernel)
	for d := range w.kernel {
		c.autoPad(&w, d, in[2+d], autoPad)
		if ceil {
			w.ceilMode(d, in[2+d])
		}
	}
	return w
}

// rawWindow is window before auto_pad and ceil_mode.
func (c *call) rawWindow(in []int, kernel []int) window {
	var w window
	ks, haveKernel := c.ints("kernel_shape")
	strides, _ := c.ints("strides")
	dilations, _ := c.ints("dilations")
	pads, _ := c.ints("pads")
	if c.err != nil {
		return w
	}
	n := len(in) - 2
	if n < 1 {
		c.failf("operand of shape %v, want [N,C,spatial…]", in)
		return w
	}
	if !haveKernel && kernel == nil {
		c.failf("the attribute kernel_shape is missing")
		return w
	}
	for i := range kernel {
		if !haveKernel {
			ks = append(ks, int64(kernel[i]))
		} else if len(ks) != len(kernel) || ks[i] != int64(kernel[i]) {
			c.failf("kernel_shape %v does not match the weights' %v", ks, kernel)
			return w
		}
	}
	ones := slices.Repeat([]int64{1}, n)
	if strides == nil {
		strides = ones
	}
	if dilations == nil {
		dilations = ones
	}
	if pads == nil {
		pads = make([]int64, 2*n)
	}
	if len(ks) != n || len(strides) != n || len(dilations) != n || len(pads) != 2*n {
		c.failf("kernel_shape, strides, dilations and pads have %d, %d, %d and %d entries for %d dimensions",
			len(ks), len(strides), len(dilations), len(pads), n)
		return w
	}
	for i := range n {
		const limit = 1 << 20
		for _, v := range []int64{ks[i], strides[i], dilations[i]} {
			if v < 1 || v > limit {
				c.failf("kernel_shape %v, strides %v and dilations %v must be 1 to %d", ks, strides, dilations, limit)
				return w
			}
		}
		if pads[i] < 0 || pads[n+i] < 0 || pads[i] > limit || pads[n+i] > limit {
			c.unsupportedf("pads %v", pads)
			return w
		}
		w.kernel = append(w.kernel, int(ks[i]))
		w.strides = append(w.strides, int(strides[i]))
		w.dilations = append(w.dilations, int(dilations[i]))
		w.begin, w.end, w.ceil = append(w.begin, int(pads[i])), append(w.end, int(pads[n+i])), append(w.ceil, 0)
	}
	return w
}

// autoPad replaces the pads of dimension d as the attribute says. SAME pads so
// that the result has ceil(in / stride) positions.
func (c *call) autoPad(w *window, d, in int, mode string) {
	switch mode {
	case "NOTSET":
	case "VALID":
		w.begin[d], w.end[d] = 0, 0
	case "SAME_UPPER", "SAME_LOWER":
		positions := (in + w.strides[d] - 1) / w.strides[d]
		total := max(0, (positions-1)*w.strides[d]+w.span(d)-in)
		small := total / 2
		w.begin[d], w.end[d] = small, total-small
		if mode == "SAME_LOWER" {
			w.begin[d], w.end[d] = total-small, small
		}
	default:
		c.failf("auto_pad %q", mode)
	}
}

// span is the extent of a dilated kernel.
func (w *window) span(d int) int { return w.dilations[d]*(w.kernel[d]-1) + 1 }

// ceilMode enlarges the end pad so that a last, partial window is kept, unless it
// would begin in the end padding.
func (w *window) ceilMode(d, in int) {
	padded := in + w.begin[d] + w.end[d]
	free := padded - w.span(d)
	if free < 0 || free%w.strides[d] == 0 {
		return
	}
	last := (free/w.strides[d] + 1) * w.strides[d] // where the partial window begins
	if last >= in+w.begin[d] {
		return
	}
	w.ceil[d] = last + w.span(d) - padded
	w.end[d] += w.ceil[d]
}

// plane returns the part of the window for dimension d and the one after it, or
// with d < 0 for a dimension of 1 and the first.
func (w *window) plane(d int) (kernel, strides, dilations [2]int, pads [4]int, ceil [2]int) {
	for i := range 2 {
		kernel[i], strides[i], dilations[i] = 1, 1, 1
		if j := d + i; j >= 0 && j < len(w.kernel) {
			kernel[i], strides[i], dilations[i], ceil[i] = w.kernel[j], w.strides[j], w.dilations[j], w.ceil[j]
			pads[i], pads[2+i] = w.begin[j], w.end[j]
		}
	}
	return
}

// kernelOf returns the spatial dimensions of weights [O,I,spatial…].
func (c *call) kernelOf(shape []int) []int {
	if len(shape) < 3 {
		c.failf("weights of shape %v, want [out, in/groups, kernel…]", shape)
		return nil
	}
	return shape[2:]
}

// convAttr reads the attributes of a convolution of x and w, in ONNX's layout,
// over one or two spatial dimensions.
func (c *call) convAttr(x, w []int) *ir.ConvAttr {
	groups := c.smallInt("group", c.int("group", 1))
	a := c.window(x, c.kernelOf(w), false)
	if c.err == nil && len(a.kernel) > 2 {
		c.unsupportedf("operand of shape %v: integer convolutions have one or two spatial dimensions", x)
	}
	return a.convAttr(groups)
}

// convAttr is the window of a convolution over the last two dimensions.
func (w *window) convAttr(groups int) *ir.ConvAttr {
	attr := &ir.ConvAttr{Groups: groups}
	_, attr.Strides, attr.Dilations, attr.Pads, _ = w.plane(len(w.kernel) - 2)
	return attr
}

// ohwi brings weights from [O,I,kh,kw], or [O,I,kw], to [O,kh,kw,I].
func (c *call) ohwi(v *value) *value {
	if c.err != nil {
		return v
	}
	s := c.typeOf(v).Shape
	if len(s) != 3 {
		return c.permuted(v, 0, 2, 3, 1)
	}
	v = c.permuted(v, 0, 2, 1)
	if v.tensor == nil {
		return &value{id: c.reshape(v.id, s[0], 1, s[2], s[1])}
	}
	u := *v
	u.tensor = v.tensor.Reshaped(s[0], 1, s[2], s[1])
	if q := v.quant; q != nil && q.Axis > 0 {
		u.quant = &ir.Quant{Scale: q.Scale, Zero: q.Zero, Axis: q.Axis + 1}
	}
	return &u
}

func conv(c *call) {
	c.set(c.convolution(c.plain(0)))
}

// convolution convolves x with operand 1; operand 2 is the bias, if any.
func (c *call) convolution(x ir.ValueID) ir.ValueID {
	w := c.in[1]
	groups := c.smallInt("group", c.int("group", 1))
	a := c.window(c.typ(x).Shape, c.kernelOf(c.typeOf(w).Shape), false)
	bias := ir.NoValue
	if c.operand(2) != nil {
		bias = c.id(2)
	}
	return c.convolve(x, w, bias, &a, groups)
}

// convolve adds a convolution in ONNX's layout; bias may be absent.
func (c *call) convolve(x ir.ValueID, w *value, bias ir.ValueID, a *window, groups int) ir.ValueID {
	rank := len(c.typ(x).Shape)
	if rank > 4 {
		return c.convolveND(x, w, bias, a, groups)
	}
	in := []ir.ValueID{c.toNHWC(x), c.use(c.ohwi(w))}
	if bias != ir.NoValue {
		in = append(in, bias)
	}
	return c.fromNHWC(c.add(ir.Conv2D, a.convAttr(groups), in...), rank)
}

// pool adds a pooling in ONNX's layout.
func (c *call) pool(kind ir.OpKind, x ir.ValueID, w *window, countPad bool) ir.ValueID {
	rank := len(c.typ(x).Shape)
	if c.err == nil && rank > 4 {
		return c.poolND(kind, x, w, countPad)
	}
	attr := &ir.PoolAttr{CountPad: countPad}
	attr.Kernel, attr.Strides, attr.Dilations, attr.Pads, attr.CeilPads = w.plane(rank - 4)
	return c.fromNHWC(c.add(kind, attr, c.toNHWC(x)), rank)
}

func maxPool(c *call) {
	x := c.id(0)
	columns := c.int("storage_order", 0) != 0
	w := c.window(c.typ(x).Shape, nil, c.bool("ceil_mode", false))
	if len(c.proto.Output) > 1 && c.proto.Output[1] != "" {
		c.maxPoolIndices(x, &w, columns)
		return
	}
	c.set(c.pool(ir.MaxPool, x, &w, false))
}

func averagePool(c *call) {
	x := c.plain(0)
	w := c.window(c.typ(x).Shape, nil, c.bool("ceil_mode", false))
	c.set(c.pool(ir.AvgPool, x, &w, c.bool("count_include_pad", false)))
}

// globalPool reduces all spatial dimensions.
func globalPool(kind ir.OpKind) func(*call) {
	return func(c *call) { c.set(c.globalPool(kind, c.plain(0))) }
}

func (c *call) globalPool(kind ir.OpKind, x ir.ValueID) ir.ValueID {
	rank := len(c.typ(x).Shape)
	switch {
	case rank == 3 || rank == 4:
		y := c.add(kind, &ir.ReduceAttr{Axes: []int{1, 2}, KeepDims: true}, c.toNHWC(x))
		return c.fromNHWC(y, rank)
	case rank > 4:
		return c.add(kind, &ir.ReduceAttr{Axes: from(2, rank), KeepDims: true}, x)
	}
	c.failf("operand of shape %v, want [N,C,spatial…]", c.typ(x).Shape)
	return x
}

func lrn(c *call) {
	x := c.id(0)
	a := &ir.LRNAttr{Axis: 3, Size: c.smallInt("size", c.int("size", 0)),
		Alpha: c.float("alpha", 1e-4), Beta: c.float("beta", 0.75), Bias: c.float("bias", 1)}
	if rank := len(c.typ(x).Shape); rank == 3 || rank == 4 {
		c.set(c.fromNHWC(c.add(ir.LRN, a, c.toNHWC(x)), rank))
		return
	}
	a.Axis = 1
	c.set(c.add(ir.LRN, a, x))
}
