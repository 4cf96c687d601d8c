package onnx

import (
	"errors"
	"fmt"
	"slices"

	"situ/frontend/onnx/onnxpb"
	"situ/ir"
)

// Control flow is resolved at import. A branch whose condition is known takes
// the place of its If, of others both branches are computed and one result is
// chosen; loops of known length are unrolled.

// maxUnrolled bounds the nodes that unrolling makes in one model, so that a small
// file cannot ask for an endless graph.
const maxUnrolled = 1 << 17

// errNested says that a node inside a nested graph has been reported.
var errNested = errors.New("a nested node was refused")

// unroll counts n nodes made by unrolling.
func (c *call) unroll(n int) {
	c.unrolled += n
	switch {
	case c.unrolled <= c.mostUnrolled:
	case c.eager != nil:
		c.failf("more than %d nodes in all are executed", c.mostUnrolled)
	default:
		c.unsupportedf("unrolling gives more than %d nodes", c.mostUnrolled)
	}
}

// graphAttr returns a nested graph.
func (c *call) graphAttr(name string) *onnxpb.GraphProto {
	a := c.attr(name, onnxpb.AttributeProto_GRAPH)
	if c.err == nil && (a == nil || a.G == nil) {
		c.failf("the attribute %s is missing", name)
	}
	if c.err != nil {
		return nil
	}
	return a.G
}

// inline translates the nodes of a nested graph with args for its inputs and
// returns its outputs. Names made there are in scope there only; label is put
// before the names of its operators.
func (c *call) inline(g *onnxpb.GraphProto, args []*value, label string) []*value {
	if c.err == nil && len(g.Input) != len(args) {
		c.failf("the nested graph %q has %d inputs, want %d", g.Name, len(g.Input), len(args))
	}
	c.unroll(1 + len(g.Node))
	if c.err != nil {
		return nil
	}
	if c.eager != nil {
		if err := c.settle(args); err != nil {
			c.failf("%w", err)
			return nil
		}
	}
	outer := map[string]*value{} // what names of g stood for outside
	bind := func(name string, v *value) {
		if _, seen := outer[name]; !seen {
			outer[name] = c.env[name]
		}
		if v == nil {
			delete(c.env, name)
		} else {
			c.env[name] = v
		}
	}
	prefix, reported := c.prefix, len(c.unsupported)+len(c.faults)
	defer func() {
		c.prefix = prefix
		for name, v := range outer {
			if v == nil {
				delete(c.env, name)
			} else {
				c.env[name] = v
			}
		}
	}()
	c.prefix += label + "/"
	for i, in := range g.Input {
		bind(in.Name, args[i])
	}
	for _, p := range g.Initializer {
		if !slices.ContainsFunc(g.Input, func(v *onnxpb.ValueInfoProto) bool { return v.Name == p.Name }) {
			v, err := c.initializer(p)
			if err != nil {
				c.failf("%w", err)
				return nil
			}
			bind(p.Name, v)
		}
	}
	for _, n := range g.Node {
		for _, name := range n.Output {
			if name != "" {
				bind(name, nil)
			}
		}
	}
	if c.eager != nil {
		outputs := map[string]bool{}
		for _, o := range g.Output {
			outputs[o.Name] = true
		}
		made := func() {
			for _, n := range g.Node {
				for _, name := range n.Output {
					c.forget(name)
				}
			}
		}
		defer made()
		_ = c.execute(g.Node, outputs, func(int, *onnxpb.NodeProto) error { return nil })
	} else {
		for _, n := range g.Node {
			c.importer.node(n)
		}
	}
	if len(c.unsupported)+len(c.faults) > reported {
		c.err = errNested
		return nil
	}
	if c.late != nil {
		c.err, c.late = c.late, nil
		return nil
	}
	outs := make([]*value, len(g.Output))
	for i, o := range g.Output {
		switch outs[i] = c.env[o.Name]; {
		case outs[i] == nil && reported > 0: // it depends on a node that was refused
			c.err = errNested
		case outs[i] == nil:
			c.failf("output %q of the nested graph %q is not defined", o.Name, g.Name)
		}
	}
	return outs
}

// initializer decodes a constant of a nested graph once, however often the graph
// is repeated.
func (im *importer) initializer(p *onnxpb.TensorProto) (*value, error) {
	if v := im.nested[p]; v != nil {
		return v, nil
	}
	t, err := im.files.decode(p)
	if err != nil {
		return nil, fmt.Errorf("initializer %q: %w", p.Name, err)
	}
	v := &value{name: p.Name, id: ir.NoValue, tensor: t}
	im.nested[p] = v
	return v, nil
}

// markUsed notes the names that nodes of g, and of graphs in them, read, and
// that those graphs return.
func (im *importer) markUsed(g *onnxpb.GraphProto) {
	for _, o := range g.Output {
		im.used[o.Name] = true
	}
	for _, n := range g.Node {
		for _, name := range n.Input {
			im.used[name] = true
		}
		for _, sub := range subgraphs(n) {
			im.markUsed(sub)
		}
	}
}

// truth reads a constant boolean of one element; known is false for others.
func truth(v *value) (holds, known bool) {
	if !v.isConst() || v.tensor.DType != ir.Bool || v.tensor.Numel() != 1 {
		return false, false
	}
	return ir.Data[uint8](v.tensor)[0] != 0, true
}

// condition checks that v is one boolean and returns it as a scalar.
func (c *call) condition(v *value) *value {
	if t := c.typeOf(v); c.err == nil && (t.DType != ir.Bool || t.Numel() != 1) {
		c.failf("the condition is %s %v, want one boolean", t.DType, t.Shape)
	}
	return c.shaped(v, nil)
}

// selected is a where cond (one boolean) holds, else b. Both have been computed,
// which has no effect but the work.
func (c *call) selected(cond, a, b *value) *value {
	if c.err != nil || a == b {
		return a
	}
	x, y := c.unquantised(c.use(a)), c.unquantised(c.use(b))
	if tx, ty := c.typ(x), c.typ(y); c.err == nil && !tx.Equal(ty) {
		c.dataf("a result is %s in one branch and %s in the other, and which is taken is not known at import: give the inputs it depends on as constants", tx, ty)
	}
	return &value{id: c.add(ir.Where, nil, c.use(cond), x, y)}
}

func ifOp(c *call) {
	then, otherwise := c.graphAttr("then_branch"), c.graphAttr("else_branch")
	cond := c.condition(c.in[0])
	if c.err != nil {
		return
	}
	if len(then.Output) != len(c.out) || len(otherwise.Output) != len(c.out) {
		c.failf("has %d results, its branches %d and %d", len(c.out), len(then.Output), len(otherwise.Output))
		return
	}
	if holds, known := truth(cond); known {
		branch := otherwise
		if holds {
			branch = then
		}
		copy(c.out, c.inline(branch, nil, c.name()))
		return
	}
	a, b := c.inline(then, nil, c.name()), c.inline(otherwise, nil, c.name())
	if c.err != nil {
		return
	}
	for i := range a {
		c.out[i] = c.selected(cond, a[i], b[i])
	}
}

// loop has operands trip count, condition and the initial values of what is
// carried. Its body takes iteration number, condition and carried values, and
// returns condition, carried values and one entry of each further result.
func loop(c *call) {
	body := c.graphAttr("body")
	if c.err != nil {
		return
	}
	limit, bounded := int64(0), false
	if v := c.operand(0); v != nil {
		if !v.isConst() || !holdsInts(v.tensor.DType) || v.tensor.Numel() != 1 {
			c.dataf("the trip count must be a constant")
			return
		}
		limit, bounded = int64s(v.tensor)[0], true
	}
	active := &value{id: ir.NoValue, tensor: fromInts(ir.Bool, nil, []int64{1})}
	if v := c.operand(1); v != nil {
		active = c.condition(v)
	}
	carried := slices.Clone(c.in[min(2, len(c.in)):])
	k := len(c.out) - len(carried) // results that grow by an entry an iteration
	if k < 0 || len(body.Output) != 1+len(c.out) {
		c.failf("has %d results for %d carried values, its body %d", len(c.out), len(carried), len(body.Output))
		return
	}
	rows := make([][]*value, k)
	stacked, most := 0, int64(maxIterations)
	if bounded && limit <= plausibleTrips {
		most = limit
	}
	for i := int64(0); !bounded || i < limit; i++ {
		holds, known := truth(active)
		switch {
		case c.err != nil:
			return
		case known && !holds:
			limit, bounded = i, true
			continue
		case !known && !bounded:
			c.dataf("the number of iterations depends on data and no trip count bounds it")
			return
		case !known && k > 0:
			c.dataf("the length of its results depends on data")
			return
		case !known && c.host != nil && limit > int64(c.mostUnrolled/(1+len(body.Node))):
			c.dataf("the number of iterations depends on data and may be %d", limit)
			return
		case c.eager != nil && i == most:
			c.failf("it still runs after %d iterations: its condition does not become false; give it a trip count", most)
			return
		}
		number := &value{id: ir.NoValue, tensor: ir.NewTensor(ir.I64, nil, []int64{i})}
		args := append([]*value{number, active}, carried...)
		outs := c.inline(body, args, fmt.Sprintf("%s[%d]", c.name(), i))
		if c.err != nil {
			return
		}
		next := c.condition(outs[0])
		for j, v := range outs[1 : 1+len(carried)] {
			if !known { // iterations after the end change nothing
				v = c.selected(active, v, carried[j])
			}
			carried[j] = v
		}
		if !known {
			never := &value{id: ir.NoValue, tensor: fromInts(ir.Bool, nil, []int64{0})}
			next = c.selected(active, next, never)
		}
		for j, v := range outs[1+len(carried):] {
			rows[j] = append(rows[j], v)
			stacked += c.typeOf(v).Numel()
		}
		if c.eager != nil && stacked > maxStacked {
			c.failf("its results have more than %d elements after %d iterations", maxStacked, i+1)
			return
		}
		active = next
	}
	if c.err == nil {
		copy(c.out, carried)
		c.stack(c.out[len(carried):], body.Output[1+len(carried):], rows, make([]int, k), make([]bool, k))
	}
}

// stack joins the entries that a loop made of each result along a new axis. infos
// are the results' entries as the body declares them.
func (c *call) stack(outs []*value, infos []*onnxpb.ValueInfoProto, rows [][]*value, axes []int, backwards []bool) {
	for i, list := range rows {
		if len(list) == 0 {
			outs[i] = c.nothing(infos[i], axes[i])
			if c.err != nil {
				return
			}
			continue
		}
		if backwards[i] {
			slices.Reverse(list)
		}
		var parts []ir.ValueID
		for _, v := range list {
			shape := c.typeOf(v).Shape
			axis := c.axis(int64(axes[i]), len(shape)+1)
			parts = append(parts, c.use(c.shaped(v, slices.Insert(slices.Clone(shape), axis, 1))))
		}
		if c.err != nil {
			return
		}
		outs[i] = &value{id: c.join(parts, c.axis(int64(axes[i]), len(c.typ(parts[0]).Shape)))}
	}
}

// nothing is a result of no iterations, whose entries are as info declares them;
// dimensions that it leaves open are 0.
func (c *call) nothing(info *onnxpb.ValueInfoProto, axis int) *value {
	tt := info.GetType().GetTensorType()
	d, err := dtypeOf(tt.GetElemType())
	if err != nil {
		c.unsupportedf("result %q of no iterations: %v", info.Name, err)
		return nil
	}
	dims := make([]int64, 0, len(tt.GetShape().GetDim())+1)
	for _, dim := range tt.GetShape().GetDim() {
		dims = append(dims, dim.GetDimValue())
	}
	dims = slices.Insert(dims, c.axis(int64(axis), len(dims)+1), 0)
	shape, err := shapeOf(dims)
	if err != nil {
		c.failf("result %q of no iterations: %w", info.Name, err)
		return nil
	}
	return c.made(ir.Zeros(d, shape...))
}

// scan runs its body over slices of its last num_scan_inputs operands; those
// before are the initial values of what is carried.
func scan(c *call) {
	body := c.graphAttr("body")
	m := c.smallInt("num_scan_inputs", c.int("num_scan_inputs", 0))
	n := len(c.in) - m
	if c.err == nil && (m < 1 || n < 0 || len(body.Output) != len(c.out) || len(c.out) < n) {
		c.failf("num_scan_inputs is %d for %d operands; it has %d results, its body %d", m, len(c.in), len(c.out), len(body.Output))
	}
	if c.err != nil {
		return
	}
	k := len(c.out) - n
	inAxes, outAxes := c.perScan("scan_input_axes", m), c.perScan("scan_output_axes", k)
	inBack, outBack := c.perScan("scan_input_directions", m), c.perScan("scan_output_directions", k)
	if c.err != nil || slices.Contains(c.in, nil) {
		c.failf("an operand is missing")
		return
	}
	carried, length := slices.Clone(c.in[:n]), -1
	for i, v := range c.in[n:] {
		s := c.typeOf(v).Shape
		inAxes[i] = c.axis(int64(inAxes[i]), len(s))
		if c.err == nil && length >= 0 && s[inAxes[i]] != length {
			c.failf("operands of %d and %d entries", length, s[inAxes[i]])
		}
		if c.err != nil {
			return
		}
		length = s[inAxes[i]]
	}
	rows := make([][]*value, k)
	for t := range length {
		args := slices.Clone(carried)
		for i, v := range c.in[n:] {
			at := t
			if inBack[i] != 0 {
				at = length - 1 - t
			}
			args = append(args, c.entry(v, inAxes[i], at))
		}
		outs := c.inline(body, args, fmt.Sprintf("%s[%d]", c.name(), t))
		if c.err != nil {
			return
		}
		copy(carried, outs[:n])
		for j, v := range outs[n:] {
			rows[j] = append(rows[j], v)
		}
	}
	copy(c.out, carried)
	backwards := make([]bool, k)
	for i := range backwards {
		backwards[i] = outBack[i] != 0
	}
	c.stack(c.out[n:], body.Output[n:], rows, outAxes, backwards)
}

// perScan reads a list attribute of n entries, zeros when it is absent.
func (c *call) perScan(name string, n int) []int {
	out := make([]int, n)
	list, given := c.ints(name)
	if given && len(list) != n {
		c.failf("%s has %d entries, want %d", name, len(list), n)
		return out
	}
	for i, v := range list {
		out[i] = c.smallInt(name, v)
	}
	return out
}

// entry returns the part of v at a position of an axis, without that axis.
func (c *call) entry(v *value, axis, at int) *value {
	if c.err != nil {
		return v
	}
	s := c.typeOf(v).Shape
	starts, steps, sizes := make([]int, len(s)), slices.Repeat([]int{1}, len(s)), slices.Clone(s)
	starts[axis], sizes[axis] = at, 1
	return c.shaped(c.extract(v, starts, steps, sizes), slices.Delete(slices.Clone(s), axis, axis+1))
}

// join concatenates values of the graph.
func (c *call) join(ids []ir.ValueID, axis int) ir.ValueID {
	switch {
	case c.err != nil:
		return ir.NoValue
	case len(ids) == 1:
		return ids[0]
	}
	return c.add(ir.Concat, &ir.AxisAttr{Axis: axis}, ids...)
}
