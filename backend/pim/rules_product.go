package pim

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"situ/internal/fixed"
	"situ/internal/par"
	"situ/ir"
)

// conv2d lowers a convolution: in the arrays, or on the vector unit when each
// channel has a filter of its own.
func (l *lowering) conv2d() error {
	switch {
	case l.outType().DType == ir.I32:
		return l.sums()
	case !l.outType().IsQuantised():
		return l.floatProduct()
	}
	return l.makeProduct(l.op, l.outType(), nil)
}

func (l *lowering) matmul() error { return l.conv2d() }

// sums lowers a product with an int32 result. As a rule its users take the sums
// from the accumulators; when sums are moved before they are dequantized, they are
// dequantized first and moved as float32. Users of any other kind, wherever the sums
// have been moved, get them as plain integers.
func (l *lowering) sums() error {
	moved := slices.ContainsFunc(l.users[l.op.Out], func(i int32) bool { return movesSums(&l.g.Ops[i]) })
	q := l.outType().Quant
	switch {
	case l.asIntegers(l.op.Out) || moved && q == nil:
		l.raw[l.op.Out] = true
		return l.makeProduct(l.op, l.outType(), nil)
	case moved:
		return l.makeProduct(l.op, ir.TypeOf(ir.F32, l.outType().Shape...), q)
	}
	if l.isPair(l.op) {
		return nil
	}
	_, err := l.weightsOf(l.op)
	return err
}

// movesSums reports whether an operator moves sums, of which dequantized ones do as well.
func movesSums(op *ir.Op) bool {
	switch op.Kind {
	case ir.Reshape, ir.Transpose, ir.Slice, ir.Gather, ir.Expand, ir.Concat:
		return true
	}
	return false
}

// asIntegers reports whether the sums of a product are needed as integers: where they
// are moved to, or what is moved there together with them, is an output, is no sums, or
// has users of another kind than dequantize. All products among these agree on it.
func (l *lowering) asIntegers(id ir.ValueID) bool {
	seen := map[ir.ValueID]bool{id: true}
	for todo := []ir.ValueID{id}; len(todo) > 0; {
		id, todo = todo[0], todo[1:]
		also := func(id ir.ValueID) {
			if !seen[id] {
				seen[id] = true
				todo = append(todo, id)
			}
		}
		op := l.g.DefOp(id)
		switch {
		case slices.Contains(l.g.Outputs, id) || op == nil:
			return true
		case op.Kind == ir.Concat:
			for _, in := range op.In {
				also(in)
			}
		case movesSums(op):
			also(op.In[0])
		case op.Kind != ir.Conv2D && op.Kind != ir.MatMul:
			return true
		}
		for _, i := range l.users[id] {
			switch u := &l.g.Ops[i]; {
			case movesSums(u):
				also(u.Out)
			case u.Kind != ir.Dequantize && u.Kind != ir.Requantize:
				return true
			}
		}
	}
	return false
}

// isSums reports whether a value is the sums of a product that a dequantize takes
// from the accumulators, or finds as float32 already: see sums.
func (l *lowering) isSums(id ir.ValueID) bool {
	op := l.g.DefOp(id)
	moved := false
	for op != nil && op.Kind.Is(ir.MovesCodes) {
		op, moved = l.g.DefOp(op.In[0]), true
	}
	return op != nil && (op.Kind == ir.Conv2D || op.Kind == ir.MatMul) && !(moved && l.raw[op.Out])
}

// productResult lowers a dequantize or requantize together with the product
// whose sums it takes.
func (l *lowering) productResult() error {
	if x := l.vals[l.op.In[0]]; x != nil && l.op.Kind == ir.Dequantize && !l.raw[l.op.In[0]] {
		return l.alias(x, x.dims, x.off, x.reshaped) // as float32 already, see sums
	}
	op := l.g.DefOp(l.op.In[0])
	if op == nil || op.Kind != ir.Conv2D && op.Kind != ir.MatMul {
		return errors.New("its int32 operand is not the sums of a product")
	}
	return l.makeProduct(op, l.outType(), l.inType(0).Quant)
}

// weightsOf returns the weights of a product and the geometry that follows.
func (l *lowering) weightsOf(op *ir.Op) (*product, error) {
	w := l.g.Value(op.In[1])
	if w.Const == nil {
		return nil, errors.New("its weights are not constant")
	}
	if l.g.IsConst(op.In[0]) {
		return nil, errors.New("its first operand is constant, the second should be")
	}
	q := w.Type.Quant
	if q == nil || !l.g.Type(op.In[0]).IsQuantised() {
		return nil, errors.New("computes in floating point, which the arrays do not; quantise it")
	}
	k := &product{}
	s := w.Const.Shape
	if op.Kind == ir.Conv2D {
		a := op.Attr.(*ir.ConvAttr)
		k.window = window{kernel: [2]int{s[1], s[2]}, stride: a.Strides, dilation: a.Dilations, pad: [2]int{a.Pads[0], a.Pads[1]}}
		k.groups, k.cout, k.cin = a.Groups, s[0], s[3]
		k.w = weights{so: s[1] * s[2] * s[3], st: s[3], sc: 1}
	} else {
		n := len(s)
		if x := l.g.Type(op.In[0]).Shape; len(x) < 2 {
			return nil, errors.New("multiplies a vector; reshape it to a matrix")
		}
		k.window = window{kernel: [2]int{1, 1}, stride: [2]int{1, 1}, dilation: [2]int{1, 1}}
		k.groups, k.cout, k.cin = 1, s[n-1], s[n-2]
		k.w = weights{so: 1, sc: s[n-1]}
	}
	k.w.zero, k.w.codeBits = q.Zero, w.Type.DType.Bits()
	if q.Block > 0 {
		k.w.blocks, k.w.perChannel = q, k.kernel[0]*k.kernel[1]*k.cin
	}
	if l.g.IsDescribed(op.In[1]) {
		k.w.described = w.Type.DType
		return k, nil
	}
	switch data := w.Const.Any().(type) {
	case []int8:
		k.w.s8 = data
	case []uint8:
		k.w.u8 = data
	default:
		return nil, fmt.Errorf("weights of type %s", w.Const.DType)
	}
	return k, nil
}

// makeProduct appends the product op with result type t for the operator at
// hand. sumQuant is the quantisation of the sums when op itself gives int32.
func (l *lowering) makeProduct(op *ir.Op, t ir.Type, sumQuant *ir.Quant) error {
	if l.isPair(op) {
		return l.makePair(op, t, sumQuant)
	}
	k, err := l.weightsOf(op)
	if err != nil {
		return err
	}
	x := l.vals[op.In[0]]
	if x == nil {
		return errGiven
	}
	xt := l.g.Type(op.In[0])
	cx, err := code8Of(xt, nil)
	if err != nil {
		return err
	}
	if len(op.In) > 2 && op.In[2] >= 0 && !l.g.IsConst(op.In[2]) {
		return errors.New("its bias is not constant")
	}
	least, most, sums := k.scanWeights(l.g.Value(op.In[1]).Type.DType)
	k.rq.bias = make([]int32, k.cout)
	var bias []int32
	if len(op.In) > 2 && op.In[2] >= 0 {
		bias = ir.Data[int32](l.g.Value(op.In[2]).Const)
	}
	for c := range k.rq.bias {
		if bias != nil {
			k.rq.bias[c] = bias[c%len(bias)]
		}
		k.rq.bias[c] -= cx.zero * sums[c]
	}
	if err := l.scaleProduct(k, op, t, sumQuant); err != nil {
		return err
	}
	k.in = x.dims
	out := dimsOf(t.Shape)
	x = l.withBorder(x, &k.window, out)
	if w := l.g.Value(op.In[1]); k.depthwiseFits(least, most) && k.scales == nil && !k.raw {
		d := &depthwise{window: k.window, rq: k.rq, zero: k.zero, lo: k.lo, hi: k.hi}
		taps := k.kernel[0] * k.kernel[1]
		d.w = make([]byte, taps*k.cout)
		for tap := range taps {
			for o := range k.cout {
				d.w[tap*k.cout+o] = byte(k.w.at(o, tap, 0))
			}
		}
		err = l.result(d, x)
	} else {
		if err = k.w.hold(l.chip, w.Type, least, most); err == nil {
			err = l.result(k, x)
		}
	}
	if err != nil {
		return err
	}
	l.layers[len(l.layers)-1].MACs = k.macs(out)
	l.layers[len(l.layers)-1].Op = op.Kind.String()
	return nil
}

func (k *product) depthwiseFits(least, most int32) bool {
	return k.groups > 1 && k.cin == 1 && k.cout == k.groups && least >= -128 && most <= 127
}

// planesFor returns how many int8 numbers it takes to sum to any from least to most.
func planesFor(least, most int32) int {
	n := 1
	for int32(n)*127 < most || int32(n)*-128 > least {
		n++
	}
	return n
}

// scaleProduct computes how sums become results: codes of t, or float32 numbers
// of the scales sumQuant.
func (l *lowering) scaleProduct(k *product, op *ir.Op, t ir.Type, sumQuant *ir.Quant) error {
	at := func(s []float32, c int) float64 {
		if len(s) == 1 {
			return float64(s[0])
		}
		return float64(s[c])
	}
	if isSumType(t) {
		k.raw = true
		return nil
	}
	if isF32(t) {
		k.scales = make([]float32, k.cout)
		for c := range k.scales {
			k.scales[c] = float32(at(sumQuant.Scale, c))
		}
		return nil
	}
	cy, err := code8Of(t, productAct(op.Attr))
	if err != nil {
		return err
	}
	k.zero, k.lo, k.hi = int64(cy.zero), int64(cy.lo), int64(cy.hi)
	sx, sw := float64(l.g.Type(op.In[0]).Quant.Scale[0]), l.g.Type(op.In[1]).Quant.Scale
	k.rq.mult, k.rq.shift = make([]int32, k.cout), make([]uint8, k.cout)
	for c := range k.rq.mult {
		real := sx * at(sw, c) / cy.scale
		if sumQuant != nil {
			real = at(sumQuant.Scale, c) / cy.scale
		}
		m, err := fixed.NewMultiplier(real)
		if err != nil {
			return fmt.Errorf("channel %d: %w", c, err)
		}
		k.rq.mult[c], k.rq.shift[c] = m.M, m.Shift
	}
	return nil
}

func isSumType(t ir.Type) bool { return t.DType == ir.I32 }

func productAct(a ir.Attr) *ir.Act {
	switch a := a.(type) {
	case *ir.ConvAttr:
		return a.Act
	case *ir.MatMulAttr:
		return a.Act
	}
	return nil
}

// scanWeights returns the range of the weights less their zero points, and
// their sum for each channel of the result. The range may be that of their type
// where the arrays multiply all of it. Of described weights it is that; their sums
// are the channels' numbers, since constants of real weights differ from cluster to
// cluster, too.
func (k *product) scanWeights(t ir.DType) (least, most int32, sums []int32) {
	sums = make([]int32, k.cout)
	if k.w.described != ir.Invalid {
		for c := range sums {
			sums[c] = int32(c)
		}
		lo, hi := k.w.described.IntRange()
		if k.w.blocks != nil {
			s := slices.Max(k.w.blocks.Shift)
			lo, hi = lo<<s, hi<<s
		}
		return int32(lo), int32(hi), sums
	}
	switch {
	case k.w.blocks != nil:
		least, most = k.scanBlocks(sums)
	case t == ir.I8 && k.w.s8 != nil && !slices.ContainsFunc(k.w.zero, func(z int32) bool { return z != 0 }):
		least, most = math.MinInt8, math.MaxInt8
		k.sumWeights(sums)
	case k.w.s8 != nil:
		least, most = scan(k.w.s8, k, sums)
	default:
		least, most = scan(k.w.u8, k, sums)
	}
	return least, most, sums
}

// sumWeights sums the weights of each channel of the result, whose zero points are 0.
func (k *product) sumWeights(sums []int32) {
	if k.w.so == 1 { // [k][o]
		for row := range slices.Chunk(k.w.s8, k.cout) {
			for o, v := range row {
				sums[o] += int32(v)
			}
		}
		return
	}
	for o := range sums {
		row := k.w.s8[o*k.w.so : (o+1)*k.w.so]
		var a, b, c, d int32
		for ; len(row) >= 4; row = row[4:] {
			a += int32(row[0])
			b += int32(row[1])
			c += int32(row[2])
			d += int32(row[3])
		}
		for _, v := range row {
			a += int32(v)
		}
		sums[o] = a + b + c + d
	}
}

// scanBlocks is scan for weights in blocks, each with the shift of its own.
func (k *product) scanBlocks(sums []int32) (least, most int32) {
	taps := k.kernel[0] * k.kernel[1]
	for o := range sums {
		for tap := range taps {
			for c := range k.cin {
				v := k.w.at(o, tap, c)
				sums[o] += v
				least, most = min(least, v), max(most, v)
			}
		}
	}
	return least, most
}

func scan[T int8 | uint8](data []T, k *product, sums []int32) (least, most int32) {
	zero := func(o int) int32 {
		if len(k.w.zero) == 1 {
			return k.w.zero[0]
		}
		return k.w.zero[o]
	}
	first := true
	see := func(o int, lo, hi int32) {
		z := zero(o)
		if first {
			least, most, first = lo-z, hi-z, false
		}
		least, most = min(least, lo-z), max(most, hi-z)
	}
	if k.w.so == 1 { // [k][o]
		lo, hi := make([]int32, k.cout), make([]int32, k.cout)
		for i := 0; i < len(data); i += k.cout {
			for o, v := range data[i : i+k.cout] {
				x := int32(v)
				sums[o] += x
				lo[o], hi[o] = min(lo[o], x), max(hi[o], x)
			}
		}
		n := int32(len(data) / k.cout)
		for o := range sums {
			sums[o] -= n * zero(o)
			see(o, lo[o], hi[o])
		}
		return least, most
	}
	lo, hi := make([]int32, k.cout), make([]int32, k.cout)
	par.Ranges(k.cout, k.w.so, func(from, to int) {
		for o := from; o < to; o++ {
			row := data[o*k.w.so : (o+1)*k.w.so]
			sum, l, h := int32(0), int32(row[0]), int32(row[0])
			for _, v := range row {
				x := int32(v)
				sum += x
				l, h = min(l, x), max(h, x)
			}
			sums[o], lo[o], hi[o] = sum-int32(len(row))*zero(o), l, h
		}
	})
	for o := range sums {
		see(o, lo[o], hi[o])
	}
	return least, most
}
