package onnx

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"situ/frontend/onnx/onnxpb"
	"situ/ir"
)

// Versions of the format and of the ai.onnx operator set that are understood.
const (
	minIRVersion, maxIRVersion = 3, 13
	minOpset, maxOpset         = 1, 26
)

// maxModelBytes bounds the size of a .onnx file; the format itself cannot exceed
// 2 GiB, larger models keep their weights in external files.
const maxModelBytes = 2 << 30

// maxElements bounds the elements of a single tensor, maxRank its dimensions.
const (
	maxElements = 1 << 31
	maxRank     = 64
)

// Model is a decoded and checked ONNX model. The nodes of its main graph are in
// topological order.
type Model struct {
	Proto  *onnxpb.ModelProto
	Path   string           // the file, "" when parsed from memory
	Dir    string           // folder that external data is relative to, "" when there is none
	Opsets map[string]int64 // imported version of each operator domain, "" being ai.onnx

	given map[string]*ir.Tensor // initialisers whose data the protobuf message lacks, see New
}

// New checks a model that was built, not read. Its initialisers have no data of
// their own: tensors has them by name, with the types the message states. They
// may be described (ir.Describe).
func New(p *onnxpb.ModelProto, tensors map[string]*ir.Tensor) (*Model, error) {
	m := &Model{Proto: p, given: tensors}
	if err := m.check(); err != nil {
		return nil, err
	}
	return m, nil
}

// Load reads a model file. Weights are mapped, not copied, those in files beside
// it too, so none must
// be changed while the process runs. Errors name the file.
func Load(path string) (*Model, error) {
	b, err := readFile(path, maxModelBytes)
	if err != nil {
		return nil, err
	}
	m, err := Parse(b, filepath.Dir(path))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	m.Path = path
	return m, nil
}

// readFile returns the contents of a regular file of at most limit bytes.
func readFile(path string, limit int64) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: not a regular file", path)
	}
	if info.Size() > limit {
		return nil, fmt.Errorf("%s: %d bytes; at most %d are read", path, info.Size(), limit)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := contents(f, info.Size())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return b, nil
}

// Parse decodes and checks a model held in memory; dir is the folder that
// external data is relative to, "" refuses external data. The model shares b's
// memory: b must not be changed afterwards.
func Parse(b []byte, dir string) (*Model, error) {
	if len(b) == 0 {
		return nil, errors.New("empty file, not an ONNX model")
	}
	p, err := unmarshalModel(b)
	if err != nil {
		return nil, err
	}
	m := &Model{Proto: p, Dir: dir}
	if err := m.check(); err != nil {
		return nil, err
	}
	return m, nil
}

// maxReported bounds how many faults of one kind an error lists, maxFault how many
// bytes it says of each: a file can hold names and lists of any length.
const (
	maxReported = 20
	maxFault    = 1 << 10
)

// faults collects faults so that one error can report them together.
type faults []string

func (f *faults) addf(format string, args ...any) {
	s := fmt.Sprintf(format, args...)
	if len(s) > maxFault {
		s = strings.ToValidUTF8(s[:maxFault], "") + "…"
	}
	*f = append(*f, s)
}

func (f faults) err() error {
	switch {
	case len(f) == 0:
		return nil
	case len(f) == 1:
		return errors.New(f[0])
	case len(f) > maxReported:
		f = append(f[:maxReported:maxReported], fmt.Sprintf("and %d more", len(f)-maxReported))
	}
	return errors.New(strings.Join(f, "\n\t"))
}

func (m *Model) check() error {
	p := m.Proto
	if p.IrVersion < minIRVersion || p.IrVersion > maxIRVersion {
		return fmt.Errorf("format (IR) version %d; versions %d to %d are read", p.IrVersion, minIRVersion, maxIRVersion)
	}
	if p.Graph == nil {
		return errors.New("the model has no graph")
	}
	if err := m.checkOpsets(); err != nil {
		return err
	}
	if err := checkDepth(p.Graph, 1); err != nil {
		return err
	}
	if err := m.checkTensors(); err != nil {
		return err
	}
	defs, err := definitions(p.Graph)
	if err != nil {
		return err
	}
	if err := checkUses(p.Graph, defs); err != nil {
		return err
	}
	if err := sortNodes(p.Graph, defs); err != nil {
		return err
	}
	return checkNested(p.Graph)
}

// maxNesting bounds how deep graphs may stand in one another.
const maxNesting = 16

// checkDepth refuses deeper nesting; it comes before all that walks nested graphs.
func checkDepth(g *onnxpb.GraphProto, depth int) error {
	for _, n := range g.Node {
		for _, sub := range subgraphs(n) {
			if depth > maxNesting {
				return fmt.Errorf("node %s: graphs are nested more than %d deep", nodeName(n), maxNesting)
			}
			if err := checkDepth(sub, depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkNested checks the graphs inside nodes of g and sorts their nodes.
func checkNested(g *onnxpb.GraphProto) error {
	for _, n := range g.Node {
		for _, sub := range subgraphs(n) {
			defs, err := definitions(sub)
			if err == nil {
				err = sortNodes(sub, defs)
			}
			if err == nil {
				err = checkNested(sub)
			}
			if err != nil {
				return fmt.Errorf("a graph inside node %s: %w", nodeName(n), err)
			}
		}
	}
	return nil
}

// subgraphs lists the graphs that are attributes of a node.
func subgraphs(n *onnxpb.NodeProto) []*onnxpb.GraphProto {
	var gs []*onnxpb.GraphProto
	for _, a := range n.Attribute {
		if a.G != nil {
			gs = append(gs, a.G)
		}
		gs = append(gs, a.Graphs...)
	}
	return gs
}

// checkOpsets records the imported operator sets.
func (m *Model) checkOpsets() error {
	m.Opsets = map[string]int64{}
	for _, o := range m.Proto.OpsetImport {
		domain := canonicalDomain(o.Domain)
		if old, ok := m.Opsets[domain]; ok && old != o.Version {
			return fmt.Errorf("operator set %q is imported as version %d and %d", domainName(domain), old, o.Version)
		}
		m.Opsets[domain] = o.Version
	}
	v, ok := m.Opsets[""]
	if !ok {
		if !slices.ContainsFunc(m.Proto.Graph.Node, func(n *onnxpb.NodeProto) bool { return canonicalDomain(n.Domain) == "" }) {
			return nil // whether the domains of the nodes are known is for Import to say
		}
		return errors.New("the model does not say which version of the ai.onnx operator set it uses")
	}
	if v < minOpset || v > maxOpset {
		return fmt.Errorf("operator set ai.onnx version %d; versions %d to %d are supported", v, minOpset, maxOpset)
	}
	return nil
}

func canonicalDomain(d string) string {
	if d == "ai.onnx" {
		return ""
	}
	return d
}

func domainName(d string) string {
	if d == "" {
		return "ai.onnx"
	}
	return d
}

// checkTensors compares every constant with the data it claims to have, and
// every stated input and output shape with the limits.
func (m *Model) checkTensors() error {
	var f faults
	g := m.Proto.Graph
	for _, t := range g.Initializer {
		if m.given[t.Name] != nil {
			continue
		}
		if err := checkTensor(t); err != nil {
			f.addf("initializer %q: %v", t.Name, err)
		}
	}
	for _, t := range g.SparseInitializer {
		f.addf("initializer %q: sparse tensors are not supported", t.GetValues().GetName())
	}
	for _, n := range g.Node {
		for _, a := range n.Attribute {
			if a.T != nil {
				if err := checkTensor(a.T); err != nil {
					f.addf("node %s: attribute %q: %v", nodeName(n), a.Name, err)
				}
			}
		}
	}
	for _, v := range slices.Concat(g.Input, g.Output) {
		n := int64(1)
		for _, d := range v.GetType().GetTensorType().GetShape().GetDim() {
			size := d.GetDimValue()
			if size < 0 {
				f.addf("value %q: negative dimension %d", v.Name, size)
				break
			}
			if size > 0 && n > maxElements/size {
				f.addf("value %q: more than %d elements", v.Name, int64(maxElements))
				break
			}
			n *= max(size, 1)
		}
	}
	return f.err()
}

// origin says what defines a value of the main graph.
type origin struct {
	node  int // index in GraphProto.node, or −1
	input bool
}

// definitions maps each value name to what defines it; a name may be defined
// once, except that an initialiser may give a graph input its default.
func definitions(g *onnxpb.GraphProto) (map[string]origin, error) {
	defs := make(map[string]origin, len(g.Input)+len(g.Initializer)+len(g.Node))
	var f faults
	for _, v := range g.Input {
		if _, dup := defs[v.Name]; dup || v.Name == "" {
			f.addf("graph input %q is empty or defined twice", v.Name)
		}
		defs[v.Name] = origin{-1, true}
	}
	inits := make(map[string]bool, len(g.Initializer))
	for _, t := range g.Initializer {
		if inits[t.Name] || t.Name == "" {
			f.addf("initializer %q is empty or defined twice", t.Name)
		}
		inits[t.Name] = true
		if _, ok := defs[t.Name]; !ok {
			defs[t.Name] = origin{-1, false}
		}
	}
	for i, n := range g.Node {
		for _, name := range n.Output {
			if name == "" {
				continue
			}
			if prev, dup := defs[name]; dup {
				f.addf("node %s defines %q, which %s defines already", nodeName(n), name, prev.describe(g))
				continue
			}
			defs[name] = origin{i, false}
		}
	}
	return defs, f.err()
}

func (o origin) describe(g *onnxpb.GraphProto) string {
	switch {
	case o.node >= 0:
		return "node " + nodeName(g.Node[o.node])
	case o.input:
		return "a graph input"
	}
	return "an initializer"
}

func checkUses(g *onnxpb.GraphProto, defs map[string]origin) error {
	var f faults
	for _, n := range g.Node {
		for name := range uses(n) {
			if _, ok := defs[name]; !ok {
				f.addf("node %s reads %q, which nothing defines", nodeName(n), name)
			}
		}
	}
	for _, v := range g.Output {
		if _, ok := defs[v.Name]; !ok {
			f.addf("graph output %q is not defined by any node", v.Name)
		}
	}
	if len(g.Output) == 0 {
		f.addf("the graph has no outputs")
	}
	slices.Sort(f) // uses come from a map
	return f.err()
}

// uses returns the names of outer values that a node reads: its inputs and what
// its subgraphs capture.
func uses(n *onnxpb.NodeProto) map[string]bool {
	set := map[string]bool{}
	for _, name := range n.Input {
		if name != "" {
			set[name] = true
		}
	}
	for _, a := range n.Attribute {
		captures(a.G, set)
		for _, g := range a.Graphs {
			captures(g, set)
		}
	}
	return set
}

// captures adds to set the names that g reads and does not define.
func captures(g *onnxpb.GraphProto, set map[string]bool) {
	if g == nil {
		return
	}
	local := map[string]bool{}
	for _, v := range g.Input {
		local[v.Name] = true
	}
	for _, t := range g.Initializer {
		local[t.Name] = true
	}
	for _, t := range g.SparseInitializer {
		local[t.GetValues().GetName()] = true
	}
	for _, n := range g.Node {
		for _, name := range n.Output {
			local[name] = true
		}
	}
	for _, n := range g.Node {
		for name := range uses(n) {
			if !local[name] {
				set[name] = true
			}
		}
	}
	for _, v := range g.Output {
		if !local[v.Name] {
			set[v.Name] = true
		}
	}
}

// sortNodes puts the nodes in topological order, keeping the order of the file
// where it is one, and refuses cycles.
func sortNodes(g *onnxpb.GraphProto, defs map[string]origin) error {
	preds := make([][]int, len(g.Node))
	sorted := true
	for i, n := range g.Node {
		for name := range uses(n) {
			if d, ok := defs[name]; ok && d.node >= 0 { // others come from around a nested graph
				preds[i] = append(preds[i], d.node)
				sorted = sorted && d.node < i
			}
		}
		slices.Sort(preds[i])
	}
	if sorted {
		return nil
	}
	// Depth-first over predecessors with an explicit stack; a node met while it
	// is still on the stack closes a cycle.
	const (
		unseen = iota
		open
		done
	)
	state := make([]uint8, len(g.Node))
	order := make([]*onnxpb.NodeProto, 0, len(g.Node))
	for root := range g.Node {
		if state[root] != unseen {
			continue
		}
		stack := []int{root}
		for len(stack) > 0 {
			i := stack[len(stack)-1]
			state[i] = open
			if len(preds[i]) == 0 {
				state[i] = done
				order = append(order, g.Node[i])
				stack = stack[:len(stack)-1]
				continue
			}
			p := preds[i][0]
			preds[i] = preds[i][1:]
			switch state[p] {
			case unseen:
				stack = append(stack, p)
			case open:
				return cycleError(g, stack[slices.Index(stack, p):])
			}
		}
	}
	g.Node = order
	return nil
}

func cycleError(g *onnxpb.GraphProto, cycle []int) error {
	const shown = 8
	var names []string
	for _, i := range cycle[:min(len(cycle), shown)] {
		names = append(names, nodeName(g.Node[i]))
	}
	if len(cycle) > shown {
		names = append(names, fmt.Sprintf("%d more", len(cycle)-shown))
	}
	names = append(names, names[0])
	return fmt.Errorf("the graph is cyclic: %s (each reads the next one's result)", strings.Join(names, " ← "))
}

// nodeName describes a node for messages: its name or first output, and operator.
func nodeName(n *onnxpb.NodeProto) string {
	name := n.Name
	if name == "" && len(n.Output) > 0 {
		name = n.Output[0]
	}
	return fmt.Sprintf("%q (%s)", name, n.OpType)
}

// shapeOf checks a stated shape and returns it as ints. The product of the
// dimensions is at most maxElements.
func shapeOf(dims []int64) ([]int, error) {
	if len(dims) > maxRank {
		return nil, fmt.Errorf("a shape of %d dimensions; at most %d are read", len(dims), maxRank)
	}
	shape := make([]int, len(dims))
	n := int64(1)
	for i, d := range dims {
		if d < 0 || d > math.MaxInt32 {
			return nil, fmt.Errorf("dimension %d in shape %v", d, dims)
		}
		if d > 0 && n > maxElements/d {
			return nil, fmt.Errorf("shape %v has more than %d elements", dims, int64(maxElements))
		}
		n *= max(d, 1)
		shape[i] = int(d)
	}
	return shape, nil
}
