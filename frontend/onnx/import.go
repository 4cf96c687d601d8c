package onnx

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"situ/frontend/onnx/onnxpb"
	"situ/ir"
)

// ImportOptions binds what a model leaves open.
type ImportOptions struct {
	// Dims gives values to symbolic dimensions by name; an input of which one is 0 is no
	// input of the imported graph. A dimension without a
	// name is called after its place: "x.0" is the first dimension of input x.
	Dims map[string]int64
	// InputShapes gives whole shapes of inputs; they bind symbols too.
	InputShapes map[string][]int
	// DefaultDim, when positive, is given to symbols that stand first in an
	// input's shape (the batch, as a rule) and are bound by nothing else.
	DefaultDim int64
	// Values gives inputs that are the same in every run, such as a sample rate
	// that selects a branch. They become constants and are no inputs of the
	// imported graph.
	Values map[string]*ir.Tensor
}

// Import translates a model to an ir graph. Everything is static afterwards:
// symbolic dimensions are bound by opt and shape arithmetic is evaluated.
//
// The error lists every node that is not supported, not only the first; it then
// contains an *UnsupportedError.
func Import(m *Model, opt ImportOptions) (*ir.Graph, error) { return importWith(m, opt, nil) }

// importWith is Import; nodes that depend on data go to host unless that is nil.
func importWith(m *Model, opt ImportOptions, host *Host) (*ir.Graph, error) {
	im := newImporter(m)
	im.host = host
	g, err := im.run(opt)
	if err != nil && m.Path != "" {
		return nil, fmt.Errorf("%s: %w", m.Path, err)
	}
	return g, err
}

func newImporter(m *Model) *importer {
	return &importer{
		model: m,
		graph: &ir.Graph{Name: m.Proto.Graph.Name},
		env:   map[string]*value{},
		infos: map[string]*onnxpb.ValueInfoProto{},
		files: dataFiles{dir: m.Dir},

		mostWork:     maxWork,
		mostUnrolled: maxUnrolled,

		permutations: map[permutation]*ir.Tensor{},
		fills:        map[fill][]float32{},
		nested:       map[*onnxpb.TensorProto]*value{},
		weights:      map[packedWeights]*value{},
	}
}

// Unsupported is a node that cannot be translated.
type Unsupported struct {
	Node   string // name, or first output
	Op     string
	Domain string // "ai.onnx" for the standard operators
	Opset  int64  // imported version of the domain, 0 when it is not imported
	Reason string // "" when the operator is not known at all
}

// String formats the node for a list, such as `"rnn" LSTM (ai.onnx 14)`.
func (u Unsupported) String() string {
	s := fmt.Sprintf("%q %s (%s %d)", u.Node, u.Op, u.Domain, u.Opset)
	if u.Reason != "" {
		s += ": " + u.Reason
	}
	return s
}

// UnsupportedError lists all nodes of a model that cannot be translated, sorted
// by name.
type UnsupportedError struct{ Nodes []Unsupported }

// Error lists the nodes, one a line.
func (e *UnsupportedError) Error() string {
	var b strings.Builder
	if len(e.Nodes) == 1 {
		b.WriteString("1 node is not supported:")
	} else {
		fmt.Fprintf(&b, "%d nodes are not supported:", len(e.Nodes))
	}
	for _, n := range e.Nodes {
		b.WriteString("\n\t" + n.String())
	}
	return b.String()
}

// value is what an ONNX name stands for: a value of the graph, a constant, or a
// quantised constant that is dequantised where it is used. Constants enter the
// graph only when an operator needs them there.
type value struct {
	name    string
	id      ir.ValueID // NoValue until the value is in the graph
	tensor  *ir.Tensor // constants
	quant   *ir.Quant  // of the codes in tensor: the value is what they stand for
	uniform bool       // all elements of tensor are the same
	onHost  bool       // the Host makes it
}

// isConst reports whether v is a plain constant.
func (v *value) isConst() bool { return v.tensor != nil && v.quant == nil }

type importer struct {
	model *Model
	graph *ir.Graph
	env   map[string]*value
	infos map[string]*onnxpb.ValueInfoProto // stated types of inner values
	used  map[string]bool                   // names that a node reads or the graph returns

	unsupported []Unsupported
	faults      faults

	files        dataFiles
	permutations map[permutation]*ir.Tensor
	fills        map[fill][]float32
	filled       int64                    // bytes of the constants ConstantOfShape made
	weights      map[packedWeights]*value // what MatMulNBits nodes unpacked

	unpackedWeights int64 // how many elements these are

	work     int // elements that evaluation at import read and made
	mostWork int

	prefix   string                         // of operator names: the nested graph that is being translated
	nested   map[*onnxpb.TensorProto]*value // constants of nested graphs
	unrolled int                            // nodes of nested graphs, counted each time, and steps of recurrent layers

	mostUnrolled int

	host  *Host      // where nodes go that depend on data; nil when they are refused
	late  *dataError // of a node in a nested graph
	eager *eager     // nil unless nodes are executed
}

// permutation is a constant and an order of its dimensions.
type permutation struct {
	tensor *ir.Tensor
	perm   string
}

func (im *importer) run(opt ImportOptions) (*ir.Graph, error) {
	if err := im.constants(); err != nil {
		return nil, err
	}
	if err := im.inputs(opt); err != nil {
		return nil, err
	}
	g := im.model.Proto.Graph
	for _, v := range slices.Concat(g.ValueInfo, g.Output) {
		im.infos[v.Name] = v
	}
	im.used = map[string]bool{}
	im.markUsed(g)
	for _, n := range g.Node {
		im.node(n)
	}
	if err := im.err(); err != nil {
		return nil, err
	}
	if err := im.outputs(); err != nil {
		return nil, err
	}
	out := ir.DCE(im.graph)
	if len(out.Outputs) == 0 { // all is left to the Host
		return out, nil
	}
	if err := ir.Verify(out); err != nil {
		return nil, fmt.Errorf("the imported graph is inconsistent: %w", err)
	}
	return out, nil
}

func (im *importer) err() error {
	var unsupported error
	if len(im.unsupported) > 0 {
		slices.SortStableFunc(im.unsupported, func(a, b Unsupported) int {
			return strings.Compare(a.Node+"\x00"+a.Op, b.Node+"\x00"+b.Op)
		})
		unsupported = &UnsupportedError{im.unsupported}
	}
	return errors.Join(unsupported, im.faults.err())
}

// constants puts the initialisers into the environment.
func (im *importer) constants() error {
	var f faults
	for _, p := range im.model.Proto.Graph.Initializer {
		t := im.model.given[p.Name]
		if t == nil {
			var err error
			if t, err = im.files.decode(p); err != nil {
				f.addf("initializer %q: %v", p.Name, err)
				continue
			}
		}
		im.env[p.Name] = &value{name: p.Name, id: ir.NoValue, tensor: t}
	}
	return f.err()
}

// inputs adds the graph's inputs; those with an initialiser are constants, as are those
// that may be empty and are.
func (im *importer) inputs(opt ImportOptions) error {
	shapes := maps.Clone(opt.InputShapes)
	if shapes == nil {
		shapes = map[string][]int{}
	}
	for name, t := range opt.Values {
		shapes[name] = t.Shape
	}
	opt.InputShapes = shapes
	types, err := im.model.inputTypes(opt)
	if err != nil {
		return err
	}
	for _, in := range im.model.Inputs() {
		if t := opt.Values[in.Name]; t != nil {
			if want := types[in.Name].DType; t.DType != want {
				return fmt.Errorf("input %q: the given value is %s, want %s", in.Name, t.DType, want)
			}
			im.env[in.Name] = &value{name: in.Name, id: ir.NoValue, tensor: t}
			continue
		}
		if slices.Contains(types[in.Name].Shape, 0) && im.model.mayBeEmpty(in.Name) {
			im.env[in.Name] = &value{name: in.Name, id: ir.NoValue, tensor: ir.Zeros(types[in.Name].DType, types[in.Name].Shape...)}
			continue
		}
		id := im.graph.AddInput(in.Name, types[in.Name])
		im.env[in.Name] = &value{name: in.Name, id: id}
	}
	return nil
}

// outputs lists the results. Each is a value of its own, so that outputs keep
// their names where a model returns an input, a constant or one value twice. What
// the Host reads comes after them.
func (im *importer) outputs() error {
	taken := map[ir.ValueID]int{}
	for _, o := range im.model.Proto.Graph.Output {
		v := im.env[o.Name]
		if im.host != nil {
			r := operand{o.Name, -1, len(im.graph.Outputs)}
			if v.onHost {
				r.output = -1
			}
			if im.host.results = append(im.host.results, r); v.onHost {
				continue
			}
		}
		id, err := im.materialise(v)
		if err != nil {
			return fmt.Errorf("output %q: %w", o.Name, err)
		}
		if _, twice := taken[id]; twice || im.graph.DefOp(id) == nil {
			shape := &ir.ShapeAttr{Shape: im.graph.Type(id).Shape}
			if id, err = im.graph.Add(ir.Reshape, o.Name, shape, id); err != nil {
				return fmt.Errorf("output %q: %w", o.Name, err)
			}
		}
		taken[id] = len(im.graph.Outputs)
		im.graph.Value(id).Name = o.Name
		im.graph.Outputs = append(im.graph.Outputs, id)
	}
	if im.host != nil {
		im.handOver(taken)
	}
	return nil
}

// materialise returns v as a value of the graph, adding its constant first if
// need be.
func (im *importer) materialise(v *value) (ir.ValueID, error) {
	if v.id != ir.NoValue {
		return v.id, nil
	}
	if err := ir.ValidType(v.tensor.Type().WithQuant(v.quant)); err != nil {
		return ir.NoValue, fmt.Errorf("constant %q: %w", v.name, err)
	}
	if im.eager != nil {
		im.eager.placed = append(im.eager.placed, v)
	}
	id := im.graph.AddConst(v.name, v.tensor, v.quant)
	if v.quant != nil {
		var err error
		if id, err = im.graph.Add(ir.Dequantize, v.name, nil, id); err != nil {
			return ir.NoValue, err
		}
	}
	v.id = id
	return id, nil
}

// node translates one node, or notes why it cannot be.
func (im *importer) node(n *onnxpb.NodeProto) {
	domain := canonicalDomain(n.Domain)
	opset := im.model.Opsets[domain]
	row := lookup(domain, n.OpType, opset)
	if row == nil {
		im.refuse(n, "")
		return
	}
	if len(n.Output) == 0 {
		im.faults.addf("node %s has no results", nodeName(n))
		return
	}
	if im.eager != nil && im.eager.ctx.Err() != nil {
		im.faults.addf("node %s: %v", nodeName(n), im.eager.ctx.Err())
		return
	}
	nested := im.prefix != ""
	if im.host != nil && !nested && im.readsHost(n) {
		im.leave(n, "")
		return
	}
	c := &call{importer: im, proto: n, opset: opset, read: map[string]bool{}, out: make([]*value, len(n.Output))}
	for i, name := range n.Input {
		var v *value
		if name != "" {
			if v = im.env[name]; v == nil {
				im.assume(n) // its producer has been reported
				return
			}
		}
		if v == nil && i < row.inputs {
			im.faults.addf("node %s: input %d is missing", nodeName(n), i)
			im.assume(n)
			return
		}
		c.in = append(c.in, v)
	}
	if len(n.Input) < row.inputs {
		im.faults.addf("node %s: takes at least %d inputs, has %d", nodeName(n), row.inputs, len(n.Input))
		im.assume(n)
		return
	}
	if domain == contribDomain {
		c.opset = maxOpset // what it shares with the standard is as in the newest version
	}
	first := len(im.graph.Values)
	row.translate(c)
	c.complete()
	var u *unsupportedError
	var d *dataError
	switch {
	case errors.As(c.err, &d) && im.host != nil && nested:
		im.late = d
	case errors.As(c.err, &d) && im.host != nil:
		im.leave(n, d.reason)
	case errors.As(c.err, &d):
		im.refuse(n, d.reason)
	case errors.As(c.err, &u):
		im.refuse(n, u.reason)
	case errors.Is(c.err, errNested):
		im.assume(n)
	case c.err != nil:
		im.faults.addf("node %s: %v", nodeName(n), c.err)
		im.assume(n)
	default:
		c.bind(first)
		if im.eager == nil {
			return
		}
		err := im.settle(c.out)
		if err == nil {
			err = im.hold(n)
		}
		if err != nil {
			im.faults.addf("node %s: %v", nodeName(n), err)
			for _, name := range n.Output {
				delete(im.env, name) // so that those that read it say nothing
			}
		}
	}
}

// refuse notes an unsupported node and goes on with its stated result types.
func (im *importer) refuse(n *onnxpb.NodeProto, reason string) {
	name := n.Name
	if name == "" && len(n.Output) > 0 {
		name = n.Output[0]
	}
	name = im.prefix + name
	domain := canonicalDomain(n.Domain)
	im.unsupported = append(im.unsupported, Unsupported{
		Node: name, Op: n.OpType, Domain: domainName(domain), Opset: im.model.Opsets[domain], Reason: reason})
	im.assume(n)
}

// assume gives the results of a node that could not be translated the types the
// file states, if any, so that later nodes can still be checked. The graph is
// thrown away in the end, unless it is a nested one that is left to the Host: of that
// nothing is assumed.
func (im *importer) assume(n *onnxpb.NodeProto) {
	if im.late != nil {
		return
	}
	for _, name := range n.Output {
		info := im.infos[name]
		if name == "" || info == nil {
			continue
		}
		tt := info.GetType().GetTensorType()
		d, err := dtypeOf(tt.GetElemType())
		if err != nil || tt.Shape == nil {
			continue
		}
		t := ir.TypeOf(d)
		for _, dim := range tt.Shape.Dim {
			t.Shape = append(t.Shape, int(min(dim.GetDimValue(), maxElements)))
		}
		if ir.ValidType(t) == nil {
			im.env[name] = &value{name: name, id: im.graph.AddInput(name, t)}
		}
	}
}
