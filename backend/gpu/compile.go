package gpu

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"situ/arch"
	gen "situ/backend/gpu/kernel"
	"situ/ir"
)

// Compile lowers a fixed-point graph to kernels and launches. The error lists
// every operator without a kernel. The program's PTX is empty: see Assemble.
func Compile(g *ir.Graph, a *arch.GPU) (*Program, error) {
	if id := g.Described(); id != ir.NoValue {
		return nil, fmt.Errorf("constant %q is described, not stored: kernels need its values", g.Value(id).Name)
	}
	return compile(g, a, tensorTile, gen.MaxFewRows)
}

// Outline is Compile for a graph whose constants may be described, not stored. What the
// kernels of its program do can be counted, as counts do not depend on values, but there
// is nothing to compute with: described constants have places in the constants buffer
// behind what Constants holds.
func Outline(g *ir.Graph, a *arch.GPU) (*Program, error) {
	return compile(g, a, tensorTile, gen.MaxFewRows)
}

// chooser says whether a product is to run on the tensor cores, and its tile.
type chooser func(gen.ConvTensor, *arch.GPU) (gen.Tile, bool)

// leastCapability is the compute capability ×10 that has every instruction the
// kernels use: cp.async, and mma.sync of bytes with k = 32.
const leastCapability = 80

// Runs reports why a GPU cannot run kernels whose PTX is made for a compute
// capability (×10), nil when it can.
func Runs(a *arch.GPU, sm int) error {
	have := a.Capability.Value
	switch {
	case have < leastCapability:
		return fmt.Errorf("%s has compute capability %.1f: the kernels copy with cp.async and multiply with mma.sync.m16n8k32, which need %.1f",
			a.Name, have/10, leastCapability/10.0)
	case have < float64(sm):
		return fmt.Errorf("%s has compute capability %.1f: PTX for sm_%d does not run on it", a.Name, have/10, sm)
	}
	return nil
}

func compile(g *ir.Graph, a *arch.GPU, choose chooser, fewRows int) (*Program, error) {
	if err := Runs(a, leastCapability); err != nil {
		return nil, err
	}
	l := &lowering{
		g: g, gpu: a, choose: choose, fewRows: fewRows, mod: gen.NewModule(g.Name),
		home: make([]ir.ValueID, len(g.Values)), views: map[ir.ValueID]view{}, inPlace: map[ir.ValueID]bool{},
		uses: g.Uses(), user: lastUsers(g), spans: map[ir.ValueID]*span{}, known: map[[sha256.Size]byte]int64{},
		outlines: map[outline]int64{}, prog: &Program{Model: g.Name, Target: a.Name},
	}
	for i := range l.home {
		l.home[i] = ir.ValueID(i)
	}
	for _, id := range g.Inputs {
		l.spans[id] = &span{bytes: storedBytes(g.Type(id)), first: -1, last: -1}
	}
	var missing []string
	var refused []int
	shapes := newPlan(g, 1) // for the sizes of products
	chains := fuseChains(g)
	for i := range g.Ops {
		if chains.inner[i] {
			continue // is part of the kernel of an operator to come
		}
		op, first := &g.Ops[i], i
		l.op, l.chain, l.out = op, nil, op.Out
		if c, ok := chains.ends[i]; ok {
			first = c[0]
			l.op, l.chain = &g.Ops[c[0]], c[1:]
		}
		err := errNothing
		if !l.emptyOperand() {
			if err = l.lower(l.op); err == nil {
				err = l.failed
			}
			if err == nil && l.op.Kind.Is(ir.Product) {
				l.prog.Launches[len(l.prog.Launches)-1].MACs = count(shapes.dims(l.op).macs())
			}
		}
		if err != nil {
			op := l.op
			missing = append(missing, fmt.Sprintf("%s %q: %v", op.Kind, op.Name, err))
			refused = append(refused, first)
			l.failed = nil
		}
	}
	for _, id := range g.Outputs {
		l.value(id) // lies dense
	}
	if l.failed != nil {
		return nil, fmt.Errorf("graph %s: %w", g.Name, l.failed)
	}
	if missing != nil {
		return nil, &RefusedError{refused, fmt.Errorf("graph %s: no GPU kernel for %d of %d operators:\n  %s", g.Name, len(missing), len(g.Ops), strings.Join(missing, "\n  "))}
	}
	return l.finish()
}

// RefusedError says that there are no kernels for operators of a graph.
type RefusedError struct {
	Ops []int // indices in the graph
	err error
}

// Error lists the operators, each with its reason.
func (e *RefusedError) Error() string { return e.err.Error() }

var errNothing = errors.New("its operands or its result have no elements, so there is nothing to launch")

// emptyOperand reports whether the operator at hand reads or writes nothing.
func (l *lowering) emptyOperand() bool {
	return slices.ContainsFunc(append(slices.Clone(l.op.In), l.op.Out, l.out), func(id ir.ValueID) bool {
		return id != ir.NoValue && l.g.Type(id).Numel() == 0
	})
}

// arg is a launch's pointer before memory is assigned.
type arg struct {
	value   ir.ValueID // or NoValue
	scratch *span      // or nil
	table   Place
}

// lowering is a compilation in progress.
type lowering struct {
	g      *ir.Graph
	gpu    *arch.GPU
	choose chooser
	// fewRows is the most rows of a product of activations for which MatMulFew is taken.
	fewRows int
	mod     *gen.Module
	op      *ir.Op     // being lowered
	chain   []int      // operators computed on its result in the same kernel
	out     ir.ValueID // result of the last of them
	prog    *Program
	args    [][]arg
	home    []ir.ValueID        // the value whose memory a value shares
	views   map[ir.ValueID]view // of values that do not lie dense
	// inPlace are values written where the operator that reads them wants them.
	inPlace   map[ir.ValueID]bool
	uses      []int                // of each value
	user      []int                // the last operator that uses it
	failed    error                // of a copy that a kernel needed
	spans     map[ir.ValueID]*span // by root
	scratches []*span
	known     map[[sha256.Size]byte]int64
	data      bytes.Buffer // constants
	// Where described constants lie, from the end of data on, and how long they are.
	outlines map[outline]int64
	outlined int64
}

// An outline is a described constant as some kernels want it.
type outline struct {
	id    ir.ValueID
	bytes int64
}

// maxTensor bounds a tensor, whose offsets in kernels have 32 bits.
const maxTensor = math.MaxInt32

// launch adds a launch of the kernel that s describes.
func (l *lowering) launch(s gen.Spec, args ...arg) error {
	shape := s.Launch()
	if shared := l.gpu.Shared.Bytes.Int(); int64(shape.Shared) > shared {
		return fmt.Errorf("kernel %s needs %d bytes of shared memory, %s has %d for a thread block", s.Family(), shape.Shared, l.gpu.Name, shared)
	}
	if total := shape.Threads() * shape.Grid[0]; total > maxTensor {
		return fmt.Errorf("kernel %s needs %d threads, a launch has at most 2^31−1: use a smaller batch", s.Family(), total)
	}
	out := Launch{Kernel: l.mod.Add(s), Op: l.op.Kind.String(), Node: l.op.Name, Grid: shape.Grid, Block: shape.Block, Shared: shape.Shared}
	for _, i := range l.chain {
		out.Fused = append(out.Fused, fmt.Sprintf("%s %s", l.g.Ops[i].Kind, l.g.Ops[i].Name))
	}
	now := len(l.prog.Launches)
	for i, name := range s.Params() {
		out.Args = append(out.Args, Arg{Param: name})
		if v := args[i].value; v != ir.NoValue && !l.g.IsConst(v) {
			s := l.spans[v]
			if s == nil {
				s = &span{bytes: storedBytes(l.g.Type(v)), first: now}
				l.spans[v] = s
			}
			s.last = now
		}
		if s := args[i].scratch; s != nil {
			s.last = now
		}
	}
	l.prog.Launches = append(l.prog.Launches, out)
	l.args = append(l.args, args)
	return nil
}

// scratch is an argument for memory that holds no value, from the next launch to the last
// that names it.
func (l *lowering) scratch(bytes int) arg {
	s := &span{bytes: int64(bytes), first: len(l.prog.Launches)}
	l.scratches = append(l.scratches, s)
	return arg{value: ir.NoValue, scratch: s}
}

// result is the argument for the result of the operator being lowered and its
// chain.
func (l *lowering) result() arg { return l.value(l.out) }

// constant is the argument for bytes in the constants buffer; equal bytes are
// stored once.
func (l *lowering) constant(b []byte) arg {
	key := sha256.Sum256(b)
	at, ok := l.known[key]
	if !ok {
		at = int64(l.data.Len())
		l.known[key] = at
		l.data.Write(b)
		l.data.Write(make([]byte, alignUp(int64(len(b)))-int64(len(b))))
	}
	return arg{value: ir.NoValue, table: Place{Buffer: Constants, Offset: at, Bytes: int64(len(b))}}
}

// described names the places of described constants until it is known where those of
// others end.
const described = "described"

// describe is the argument for n bytes of a described constant.
func (l *lowering) describe(id ir.ValueID, n int64) arg {
	key := outline{id, n}
	at, ok := l.outlines[key]
	if !ok {
		at = l.outlined
		l.outlines[key] = at
		l.outlined += alignUp(n)
	}
	return arg{value: ir.NoValue, table: Place{Buffer: described, Offset: at, Bytes: n}}
}

// words is the argument for a table of 32-bit words.
func (l *lowering) words(ws []int32) arg {
	b := make([]byte, 0, 4*len(ws))
	for _, w := range ws {
		b = binary.LittleEndian.AppendUint32(b, uint32(w))
	}
	return l.constant(b)
}

// unused is the argument for a parameter that a kernel does not read.
func (l *lowering) unused() arg { return arg{value: ir.NoValue, table: Place{Buffer: Constants}} }

// finish assigns memory and resolves the arguments.
func (l *lowering) finish() (*Program, error) {
	p := l.prog
	for _, id := range l.g.Outputs {
		if s := l.spans[l.home[id]]; s != nil {
			s.last = len(p.Launches)
		}
	}
	var spans []*span
	for id := range l.g.Values { // in a fixed order
		if s := l.spans[ir.ValueID(id)]; s != nil {
			spans = append(spans, s)
		}
	}
	arena := pack(append(spans, l.scratches...))
	where := func(id ir.ValueID) Place {
		root := l.home[id]
		n := storedBytes(l.g.Type(id))
		if s := l.spans[root]; s != nil {
			return Place{Buffer: Arena, Offset: s.offset, Bytes: n}
		}
		if l.g.IsDescribed(root) {
			return l.describe(root, n).table
		}
		return l.constant(tensorBytes(l.g.Value(root).Const)).table
	}
	for i := range p.Launches {
		for j, a := range l.args[i] {
			switch {
			case a.scratch != nil:
				p.Launches[i].Args[j].Place = Place{Buffer: Arena, Offset: a.scratch.offset, Bytes: a.scratch.bytes}
			case a.value == ir.NoValue:
				p.Launches[i].Args[j].Place = a.table
			default:
				p.Launches[i].Args[j].Place = where(a.value)
			}
		}
	}
	port := func(id ir.ValueID) Port {
		v := l.g.Value(id)
		return Port{Name: v.Name, DType: v.Type.DType.String(), Shape: v.Type.Shape, Place: where(id)}
	}
	for _, id := range l.g.Inputs {
		p.Inputs = append(p.Inputs, port(id))
	}
	for _, id := range l.g.Outputs {
		p.Outputs = append(p.Outputs, port(id))
	}
	stored := int64(l.data.Len())
	for i := range p.Launches {
		for j := range p.Launches[i].Args {
			if at := &p.Launches[i].Args[j].Place; at.Buffer == described {
				at.Buffer, at.Offset = Constants, at.Offset+stored
			}
		}
	}
	if have := l.gpu.DRAM.Bytes.Int(); arena+stored+l.outlined > have {
		return nil, fmt.Errorf("graph %s needs %d bytes of device memory, %s has %d: use a smaller batch", p.Model, arena+stored+l.outlined, l.gpu.Name, have)
	}
	p.Constants = l.data.Bytes()
	p.Buffers = []Buffer{
		{Name: Arena, Bytes: arena},
		{Name: Constants, Bytes: stored + l.outlined, File: ConstantsFile},
	}
	p.LLVM = l.mod.String()
	return p, nil
}

// tensorBytes returns a tensor as it lies in a buffer.
func tensorBytes(t *ir.Tensor) []byte {
	var b bytes.Buffer
	if err := binary.Write(&b, binary.LittleEndian, t.Any()); err != nil {
		panic("gpu: " + err.Error()) // a tensor is a slice of numbers
	}
	return b.Bytes()
}

// lower adds the launches of one operator.
func (l *lowering) lower(op *ir.Op) error {
	for _, id := range append([]ir.ValueID{op.Out}, op.In...) {
		if id != ir.NoValue && storedBytes(l.g.Type(id)) > maxTensor {
			return fmt.Errorf("a tensor of %d bytes is above 2^31−1: use a smaller batch", storedBytes(l.g.Type(id)))
		}
	}
	switch op.Kind {
	case ir.Reshape, ir.Reinterpret:
		return l.alias()
	case ir.Transpose, ir.Slice, ir.Expand:
		return l.selection()
	case ir.Concat:
		return l.concat()
	case ir.Pad:
		return l.pad()
	case ir.Gather:
		return l.gather()
	case ir.Quantize:
		return l.quantize()
	case ir.Dequantize:
		return l.dequantize()
	case ir.Requantize:
		return l.requantize()
	case ir.Cast:
		return l.cast()
	case ir.Where:
		return l.where()
	case ir.GatherElements:
		return l.gatherElements()
	case ir.ScatterElements:
		return l.scatterElements()
	case ir.TopK:
		return l.topK()
	}
	if !l.g.Type(op.In[0]).IsQuantised() {
		if l.g.Type(op.In[0]).DType.IsFloat() {
			return l.float()
		}
		return l.integer()
	}
	switch op.Kind {
	case ir.Conv2D:
		return l.conv()
	case ir.MatMul:
		return l.matmul()
	case ir.MaxPool, ir.AvgPool:
		return l.pool()
	case ir.ReduceMean, ir.ReduceSum, ir.ReduceMax, ir.ReduceMin:
		return l.reduce()
	case ir.Softmax:
		return l.softmax()
	case ir.LayerNorm:
		return l.layerNorm()
	case ir.MulAdd:
		return l.mulAdd()
	case ir.Add, ir.Sub, ir.Mul:
		return l.binary()
	case ir.LUT:
		return l.lut()
	}
	return errors.New("has no kernel on codes")
}
