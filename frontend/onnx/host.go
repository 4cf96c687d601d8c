package onnx

import (
	"context"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"

	"situ/frontend/onnx/onnxpb"
	"situ/ir"
	"situ/ir/eval"
)

// Host is the end of a model that cannot be translated ahead of a run: nodes that
// decide about shapes or iterations by data, and all that read from those. Run
// executes it node by node, as a host processor does beside an accelerator. A Host
// does not change: Run may be called concurrently.
type Host struct {
	Nodes   []HostNode
	Outputs []string // names of all outputs of the model, in order

	model    *Model
	nodes    []*onnxpb.NodeProto
	known    map[string]*value // constants they read
	operands []operand         // other values they read
	results  []operand         // of each output of the model
	used     map[string]bool
}

// HostNode is a node of a Host.
type HostNode struct {
	Node   string // name, or first output
	Op     string
	Reason string // why it cannot be translated; "" when it follows from another
}

// operand says where a value comes from that a Host reads or hands on: an input of
// the model, an output of the graph before it, or (both −1) a node of the Host.
type operand struct {
	name          string
	input, output int
}

// dataError says that a valid node cannot be translated because something about it
// depends on data; with data it can be executed.
type dataError struct{ reason string }

func (e *dataError) Error() string { return e.reason }

// dataf is unsupportedf for what only a run can tell.
func (c *call) dataf(format string, args ...any) {
	if c.err == nil {
		c.err = &dataError{fmt.Sprintf(format, args...)}
	}
}

// ImportHost is Import for models of which an end depends on data: that end is
// returned apart, nil when there is none. The outputs of the graph are then those
// of the model that do not follow from it, and what it reads.
func ImportHost(m *Model, opt ImportOptions) (*ir.Graph, *Host, error) {
	h := &Host{model: m, known: map[string]*value{}}
	for _, o := range m.Proto.Graph.Output {
		h.Outputs = append(h.Outputs, o.Name)
	}
	g, err := importWith(m, opt, h)
	if err != nil || len(h.nodes) == 0 {
		return g, nil, err
	}
	return g, h, nil
}

// Reads returns which outputs of the graph the Host reads.
func (h *Host) Reads() []int {
	var list []int
	for _, o := range h.operands {
		if o.output >= 0 && !slices.Contains(list, o.output) {
			list = append(list, o.output)
		}
	}
	return list
}

// From returns which output of the graph is output i of the model, −1 when the Host
// makes that one.
func (h *Host) From(i int) int { return h.results[i].output }

// readsHost reports whether a node, or a graph in it, reads what the Host makes.
func (im *importer) readsHost(n *onnxpb.NodeProto) bool {
	for name := range uses(n) {
		if v := im.env[name]; v != nil && v.onHost {
			return true
		}
	}
	return false
}

// leave leaves a node of the main graph to the Host.
func (im *importer) leave(n *onnxpb.NodeProto, reason string) {
	im.checkNested(n)
	name := n.Name
	if name == "" {
		name = n.Output[0]
	}
	im.host.nodes = append(im.host.nodes, n)
	im.host.Nodes = append(im.host.Nodes, HostNode{name, n.OpType, reason})
	for _, out := range n.Output {
		if out != "" {
			im.env[out] = &value{name: out, id: ir.NoValue, onHost: true}
		}
	}
}

// checkNested notes operators in nested graphs of a node that do not exist.
func (im *importer) checkNested(n *onnxpb.NodeProto) {
	for _, g := range subgraphs(n) {
		for _, inner := range g.Node {
			domain := canonicalDomain(inner.Domain)
			if lookup(domain, inner.OpType, im.model.Opsets[domain]) == nil {
				im.unsupported = append(im.unsupported, Unsupported{
					Node: nodeName(n) + "/" + inner.Name, Op: inner.OpType, Domain: domainName(domain), Opset: im.model.Opsets[domain]})
			}
			im.checkNested(inner)
		}
	}
}

// handOver adds what the Host reads to the outputs of the graph. at says which
// values are outputs already.
func (im *importer) handOver(at map[ir.ValueID]int) {
	h := im.host
	seen := map[string]bool{}
	for _, n := range h.nodes {
		for _, name := range slices.Sorted(maps.Keys(uses(n))) {
			v := im.env[name]
			switch {
			case seen[name] || v.onHost:
				continue
			case v.tensor != nil:
				constant := *v
				constant.id = ir.NoValue
				h.known[name] = &constant
			case slices.Contains(im.graph.Inputs, v.id):
				h.operands = append(h.operands, operand{name, slices.Index(im.graph.Inputs, v.id), -1})
			default:
				if _, ok := at[v.id]; !ok {
					at[v.id] = len(im.graph.Outputs)
					im.graph.Outputs = append(im.graph.Outputs, v.id)
				}
				h.operands = append(h.operands, operand{name, -1, at[v.id]})
			}
			seen[name] = true
		}
	}
	h.used = im.used
}

// Limits of an execution, so that a small file cannot ask for endless time or
// memory.
const (
	maxHostNodes   = 1 << 22 // executed, those of nested graphs each time
	maxHostWork    = 1 << 36 // elements read and made
	maxIterations  = 1 << 16 // of a Loop whose trip count does not bound it
	plausibleTrips = 1 << 20 // the largest trip count that is taken for a bound
	maxStacked     = 1 << 26 // elements of the results that iterations of a Loop add to
)

// HostOptions adjust Host.Run.
type HostOptions struct {
	MemoryLimit int64                              // in bytes, of the tensors of one node, and of the results that nodes to come read; 0 is no limit
	Work        func(g *ir.Graph, op *ir.Op) int64 // elementary operations of an operator, its result's elements when nil
	Spent       func(node int, work int64)         // unless nil, called with what each of Nodes took
}

// eager is the state of an importer that executes what it translates.
type eager struct {
	ctx    context.Context
	opt    HostOptions
	placed []*value // constants that are in the graph

	held  map[*ir.Tensor]int // by how many names results of nodes are known
	bytes int64              // of these tensors
	last  map[*onnxpb.NodeProto][]string
}

// hold notes that the results of an executed node are known by its names.
func (im *importer) hold(n *onnxpb.NodeProto) error {
	e := im.eager
	for _, name := range n.Output {
		if v := im.env[name]; name != "" && v != nil {
			if e.held[v.tensor]++; e.held[v.tensor] == 1 {
				e.bytes += v.tensor.Type().Bytes()
			}
		}
	}
	if limit := e.opt.MemoryLimit; limit > 0 && e.bytes > limit {
		return fmt.Errorf("it and the results before it that are still read take %d bytes, the limit is %d", e.bytes, limit)
	}
	return nil
}

// forget takes back the name of a result that hold has noted.
func (im *importer) forget(name string) {
	e, v := im.eager, im.env[name]
	if v == nil || e.held[v.tensor] == 0 {
		return
	}
	if e.held[v.tensor]--; e.held[v.tensor] == 0 {
		delete(e.held, v.tensor)
		e.bytes -= v.tensor.Type().Bytes()
	}
	delete(im.env, name)
}

// execute translates and executes the nodes of a graph one by one, and forgets the
// results that no node to come and no output reads. after is called behind each.
func (im *importer) execute(nodes []*onnxpb.NodeProto, outputs map[string]bool, after func(i int, n *onnxpb.NodeProto) error) error {
	e := im.eager
	if len(nodes) > 0 && e.last[nodes[0]] == nil { // else it was executed before
		lastUses(nodes, outputs, e.last)
	}
	for i, n := range nodes {
		im.node(n)
		if err := after(i, n); err != nil {
			return err
		}
		for _, name := range e.last[n] {
			im.forget(name)
		}
	}
	return nil
}

// lastUses enters, for each node, the results of nodes that none behind it reads and
// that are no outputs.
func lastUses(nodes []*onnxpb.NodeProto, outputs map[string]bool, last map[*onnxpb.NodeProto][]string) {
	made := map[string]bool{}
	for _, n := range nodes {
		last[n] = []string{}
		for _, name := range n.Output {
			made[name] = name != "" && !outputs[name]
		}
	}
	for _, n := range slices.Backward(nodes) {
		names := uses(n)
		for _, name := range n.Output {
			names[name] = true
		}
		for name := range names {
			if made[name] {
				made[name] = false
				last[n] = append(last[n], name)
			}
		}
	}
}

// Run executes the Host on the inputs of the model and the outputs of the graph
// before it, and returns the outputs of the model. Errors name the node.
func (h *Host) Run(ctx context.Context, inputs, before []*ir.Tensor, opt HostOptions) (outs []*ir.Tensor, err error) {
	at := "the first node"
	defer func() {
		if r := recover(); r != nil {
			outs, err = nil, fmt.Errorf("internal error: on the host: %s: %v\n%s", at, r, debug.Stack())
		}
	}()
	im := newImporter(h.model)
	im.eager, im.used = &eager{ctx: ctx, opt: opt, held: map[*ir.Tensor]int{}, last: map[*onnxpb.NodeProto][]string{}}, h.used
	im.mostWork, im.mostUnrolled = maxHostWork, maxHostNodes
	from := func(o operand) *ir.Tensor {
		if o.input >= 0 {
			return inputs[o.input]
		}
		return before[o.output]
	}
	for name, v := range h.known {
		constant := *v
		im.env[name] = &constant
	}
	for _, o := range h.operands {
		im.env[o.name] = &value{name: o.name, id: ir.NoValue, tensor: from(o)}
	}
	results := map[string]bool{}
	for _, r := range h.results {
		results[r.name] = true
	}
	spent := 0
	err = im.execute(h.nodes, results, func(i int, n *onnxpb.NodeProto) error {
		if i+1 < len(h.nodes) {
			at = "node " + nodeName(h.nodes[i+1])
		}
		if opt.Spent != nil {
			opt.Spent(i, int64(im.work-spent))
		}
		spent = im.work
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := im.err(); err != nil {
			return fmt.Errorf("on the host: %w", err)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	outs = make([]*ir.Tensor, len(h.results))
	for i, o := range h.results {
		if o.input >= 0 || o.output >= 0 {
			outs[i] = from(o)
			continue
		}
		v := im.env[o.name]
		if v.quant != nil {
			if err := im.dequantised(v); err != nil {
				return nil, fmt.Errorf("on the host: output %q: %w", o.name, err)
			}
		}
		outs[i] = v.tensor
	}
	return outs, nil
}

// dequantised makes a quantised constant a plain one.
func (im *importer) dequantised(v *value) error {
	id, err := im.materialise(v)
	if err != nil {
		return err
	}
	plain := &value{id: id}
	if err := im.settle([]*value{plain}); err != nil {
		return err
	}
	v.tensor, v.quant = plain.tensor, nil
	return nil
}

// settle evaluates values of the graph, which has no inputs, and begins another
// graph, so that only constants remain.
func (im *importer) settle(vs []*value) error {
	var todo []*value
	for _, v := range vs {
		if v != nil && v.tensor == nil && !slices.Contains(todo, v) {
			todo = append(todo, v)
			im.graph.Outputs = append(im.graph.Outputs, v.id)
		}
	}
	if todo != nil {
		g := ir.DCE(im.graph)
		for i := range g.Ops {
			op := &g.Ops[i]
			if count := im.eager.opt.Work; count != nil {
				im.work += int(count(g, op))
			} else {
				im.work += g.Type(op.Out).Numel()
			}
		}
		if im.work > im.mostWork {
			return fmt.Errorf("executing the model's end takes more than %d element operations", im.mostWork)
		}
		e, err := eval.New(g)
		if err != nil {
			return err
		}
		out, err := e.Run(im.eager.ctx, nil, eval.Options{MemoryLimit: im.eager.opt.MemoryLimit})
		if err != nil {
			return err
		}
		for i, v := range todo {
			v.tensor, v.id = out[i], ir.NoValue
		}
	}
	for _, v := range im.eager.placed {
		v.id = ir.NoValue
	}
	im.eager.placed = im.eager.placed[:0]
	im.graph = &ir.Graph{}
	clear(im.permutations)
	clear(im.fills)
	im.filled = 0
	return nil
}
