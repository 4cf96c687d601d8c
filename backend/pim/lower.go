package pim

import (
	"encoding/binary"
	"errors"
	"fmt"

	"situ/arch"
	"situ/backend/pim/isa"
	"situ/ir"
)

// lowering turns the operators of a graph into steps. An operator that the back
// end cannot take is noted and the rest goes on, so that one error names all.
type lowering struct {
	g       *ir.Graph
	chip    *arch.Chip
	vals    []*tensor // of each value; nil until made
	stores  []*store
	steps   []*step
	layers  []isa.Layer
	faults  []error
	refused []int // operators with faults

	op     *ir.Op // at hand
	opened bool   // its layer exists
	users  [][]int32
	raw    map[ir.ValueID]bool // products whose int32 sums exist as plain integers

	inputs, outputs []*tensor
	outputIDs       []ir.ValueID // of the outputs that are not states
	states          []*state
	once, dropped   []bool // by operator: runs once, and has no result that anything wants
	mainFrom        int    // first step that does not run once

	tables    []table // of gathers
	blocks    bool    // some weights are in blocks
	shiftRows int64   // of the chip it was lowered for
	least     []box   // see leastParts
	maps      mapper
	fetches   fetches
	cuttings  cuttings
	splits    splits
	emitter   emitter
	net       int32 // number of the chip's links, see splits
	tops      []int64
	placing   placing
}

// RefusedError says that a chip cannot run operators of a graph.
type RefusedError struct {
	Ops []int // indices in the graph; those that read what one of them makes were not looked at
	err error
}

// Error lists the operators, each with its reason.
func (e *RefusedError) Error() string { return e.err.Error() }

// lower returns the steps of g, which keeps states, or an error that lists every
// operator the back end cannot take.
func lower(g *ir.Graph, c *arch.Chip, states ...ir.State) (*lowering, error) {
	l := &lowering{g: g, chip: c, blocks: ir.HasBlocks(g), shiftRows: c.ShiftRows(), vals: make([]*tensor, len(g.Values)), users: make([][]int32, len(g.Values)), raw: map[ir.ValueID]bool{}}
	for i := range g.Ops {
		for _, id := range g.Ops[i].In {
			if id >= 0 {
				l.users[id] = append(l.users[id], int32(i))
			}
		}
	}
	if err := l.findStates(states); err != nil {
		return nil, err
	}
	for i, id := range g.Inputs {
		t, err := l.fresh(id)
		if err != nil {
			l.faults = append(l.faults, fmt.Errorf("input %q: %w", g.Value(id).Name, err))
			for _, i := range l.users[id] {
				l.refused = append(l.refused, int(i))
			}
			continue
		}
		t.store.input = true
		l.vals[id] = t
		l.inputs = append(l.inputs, t)
		l.layers = append(l.layers, isa.Layer{Name: t.name, Op: "input"})
		l.steps = append(l.steps, &step{kernel: &loader{}, layer: int32(len(l.layers) - 1), out: t})
		for _, st := range l.states {
			if st.In == i {
				l.beginState(st, t)
			}
		}
	}
	for i := range g.Ops {
		if l.dropped[i] {
			continue
		}
		l.op, l.opened = &g.Ops[i], false
		n := len(l.steps)
		if err := l.operator(); err != nil {
			l.faults = append(l.faults, fmt.Errorf("%s %q: %w", l.op.Kind, l.op.Name, err))
			l.refused = append(l.refused, i)
			continue
		}
		for _, s := range l.steps[n:] {
			if s.once = l.once[i]; s.once {
				s.out.store.kept = true
			}
		}
	}
	if err := errors.Join(l.faults...); err != nil {
		return nil, &RefusedError{l.refused, fmt.Errorf("the PIM back end does not take these operators:\n%w", err)}
	}
	for i, id := range g.Outputs {
		if l.isState(i) {
			continue
		}
		if err := l.output(id); err != nil {
			return nil, err
		}
		l.outputIDs = append(l.outputIDs, id)
	}
	if err := l.updateStates(); err != nil {
		return nil, err
	}
	l.onceFirst()
	for _, st := range l.stores {
		if st.absent > 0 && !st.remote {
			return nil, fmt.Errorf("constant %q is described, not stored: only weights of products and tables that rows are looked up in may be", st.name)
		}
	}
	l.foldTransposes()
	l.advanceUpdates()
	for i, s := range l.steps {
		s.index = i
		if s.out != nil {
			s.out.store.writers = append(s.out.store.writers, s)
		}
		for _, t := range s.in {
			t.store.readers = append(t.store.readers, s)
		}
	}
	for i, st := range l.stores {
		st.index = i
	}
	for _, s := range l.steps {
		s.near = near(s)
	}
	l.leastParts()
	l.on(c)
	return l, nil
}

// on makes c the chip of the steps.
func (l *lowering) on(c *arch.Chip) {
	l.chip = c
	l.maps.on(c)
	l.net = l.splits.on(c)
	for _, s := range l.steps {
		switch k := s.kernel.(type) {
		case *product:
			k.fit(c)
			k.maps = &l.maps
		case *pair:
			k.maps = &l.maps
		}
	}
}

// errGiven marks values whose operator has been reported.
var errGiven = errors.New("its operand was not made")

// operator lowers the operator at hand.
func (l *lowering) operator() error {
	rule := rules[l.op.Kind]
	if rule == nil {
		return errors.New("has no form on a PIM chip")
	}
	err := rule(l)
	if errors.Is(err, errGiven) {
		return nil
	}
	return err
}

// dimsOf returns a shape as four dimensions.
func dimsOf(shape []int) dims {
	d := dims{1, 1, 1, 1}
	for i, n := range shape {
		d[max(4-len(shape)+i, 0)] *= n
	}
	return d
}

var errNibbles = errors.New("values of 4 bits do not exist on a PIM chip: only weights have 4 bits")

// fresh makes a tensor with a store of its own for a value that is not constant.
func (l *lowering) fresh(id ir.ValueID) (*tensor, error) {
	v := l.g.Value(id)
	if v.Type.Numel() == 0 {
		return nil, fmt.Errorf("a tensor of shape %v has no elements; a PIM chip has no instructions for nothing", v.Type.Shape)
	}
	t := &tensor{name: v.Name, dims: dimsOf(v.Type.Shape)}
	switch d := v.Type.DType; {
	case d == ir.I4 || d == ir.U4:
		if v.Const == nil {
			return nil, errNibbles
		}
		t.elem = 1
	default:
		n, ok := numberTypes[d]
		if !ok {
			return nil, fmt.Errorf("%s values do not exist on a PIM chip", d)
		}
		t.elem = int(n.Size())
	}
	if v.Type.DType == ir.I8 || v.Type.DType == ir.I4 {
		t.zero = 128
	}
	if err := l.holds(t.dims, t.elem); err != nil {
		return nil, err
	}
	if q := v.Type.Quant; q != nil && t.elem == 1 {
		if !q.IsPerTensor() {
			return nil, errors.New("activations need a single scale")
		}
		t.zero += int(q.Zero[0])
	}
	l.ownStore(t)
	return t, nil
}

// holds is an error when the chip's DRAM does not hold a tensor.
func (l *lowering) holds(d dims, elem int) error {
	if n, have := d.numel(), l.chip.DRAM.Bytes.Int(); n > have/int64(elem) {
		return fmt.Errorf("a value of %d elements is more than the %d bytes of DRAM of %s", n, have, l.chip.Name)
	}
	return nil
}

// held is an error when the chip's DRAM does not hold one of the tensors.
func (l *lowering) held() error {
	for _, st := range l.stores {
		if err := l.holds(st.dims, st.elem); err != nil {
			return fmt.Errorf("%q: %w", st.name, err)
		}
	}
	return nil
}

// ownStore gives t a new store of its own.
func (l *lowering) ownStore(t *tensor) {
	s := &store{name: t.name, dims: t.dims, elem: t.elem, dram: -1, tens: []*tensor{t}}
	t.store = s
	l.stores = append(l.stores, s)
}

// in returns operand i of the operator at hand.
func (l *lowering) in(i int) (*tensor, error) { return l.value(l.op.In[i]) }

// value returns a value of the graph that has been made or is constant.
func (l *lowering) value(id ir.ValueID) (*tensor, error) {
	if t := l.vals[id]; t != nil {
		return t, nil
	}
	if !l.g.IsConst(id) {
		return nil, errGiven
	}
	t, err := l.fresh(id)
	if err != nil {
		return nil, err
	}
	if l.g.IsDescribed(id) {
		t.store.absent = t.dims.numel() * int64(t.elem)
		l.vals[id] = t
		return t, nil
	}
	if t.store.data, err = bytesOf(l.g.Value(id).Const); err != nil {
		return nil, err
	}
	l.vals[id] = t
	return t, nil
}

// bytesOf returns the elements of a constant as the machine holds them.
func bytesOf(t *ir.Tensor) ([]byte, error) {
	switch data := t.Any().(type) {
	case []int8:
		b := make([]byte, len(data))
		for i, v := range data {
			b[i] = byte(v) ^ 0x80
		}
		return b, nil
	case []uint8:
		return data, nil
	}
	if _, ok := numberTypes[t.DType]; !ok {
		return nil, fmt.Errorf("%s constants do not exist on a PIM chip", t.DType)
	}
	return binary.Append(nil, binary.LittleEndian, t.Any())
}

// layer returns the layer of the operator at hand.
func (l *lowering) layer() int32 {
	if !l.opened {
		l.opened = true
		l.layers = append(l.layers, isa.Layer{Name: l.op.Name, Op: l.op.Kind.String()})
	}
	return int32(len(l.layers) - 1)
}

// add appends a step of the operator at hand.
func (l *lowering) add(k kernel, out *tensor, in ...*tensor) {
	l.steps = append(l.steps, &step{kernel: k, layer: l.layer(), in: in, out: out})
}

// result makes the tensor of the result and appends the step that computes it.
func (l *lowering) result(k kernel, in ...*tensor) error {
	t, err := l.fresh(l.op.Out)
	if err != nil {
		return err
	}
	l.vals[l.op.Out] = t
	l.add(k, t, in...)
	return nil
}

// alias makes the result a window on t's store.
func (l *lowering) alias(t *tensor, d, off dims, reshaped bool) error {
	r, err := l.fresh(l.op.Out)
	if err != nil {
		return err
	}
	l.stores = l.stores[:len(l.stores)-1]
	r.dims, r.store, r.off, r.reshaped = d, t.store, off, reshaped
	t.store.tens = append(t.store.tens, r)
	t.store.whole = t.store.whole || reshaped
	l.vals[l.op.Out] = r
	return nil
}

// copied returns a copy of t in a store of its own.
func (l *lowering) copied(t *tensor) *tensor {
	c := &tensor{name: t.name, dims: t.dims, elem: t.elem, zero: t.zero}
	l.ownStore(c)
	l.add(&move{in: []dims{t.dims}, elem: t.elem, pieces: []piece{straight(0, whole(t.dims), dims{})}}, c, t)
	return c
}

// densely returns t, or a copy of it, such that its store can be shown under
// other dimensions.
func (l *lowering) densely(t *tensor) *tensor {
	if !t.isWhole() || t.store.bordered {
		t = l.copied(t)
	}
	t.store.whole = true
	return t
}

// view4 returns t under other dimensions, through a copy when needed.
func (l *lowering) view4(t *tensor, d dims) *tensor {
	if t.dims == d {
		return t
	}
	t = l.densely(t)
	r := &tensor{name: t.name, dims: d, elem: t.elem, zero: t.zero, store: t.store, reshaped: d != t.store.dims}
	t.store.tens = append(t.store.tens, r)
	return r
}

// withBorder returns t, or a copy of it, such that it can be read beyond its
// rows and columns.
func (l *lowering) withBorder(t *tensor, w *window, out dims) *tensor {
	need := w.over(whole(out))
	if need.lo[1] >= 0 && need.lo[2] >= 0 && need.hi[1] <= t.dims[1] && need.hi[2] <= t.dims[2] {
		return t
	}
	s := t.store
	if s.whole || t.reshaped || s.constant() || t.dims[1] != s.dims[1] || t.dims[2] != s.dims[2] || s.bordered && s.fill != t.zero {
		t = l.copied(t)
		s = t.store
	}
	s.bordered, s.fill = true, t.zero
	return t
}

// output makes a value leave the machine.
func (l *lowering) output(id ir.ValueID) error {
	v := l.g.Value(id)
	if v.Type.DType.Bits() == 4 {
		return fmt.Errorf("output %q: %w", v.Name, errNibbles)
	}
	t := l.vals[id]
	if t == nil && v.Const != nil {
		l.op = &ir.Op{In: []ir.ValueID{id}, Name: v.Name}
		var err error
		if t, err = l.in(0); err != nil {
			return fmt.Errorf("output %q: %w", v.Name, err)
		}
	}
	if t == nil {
		return fmt.Errorf("output %q was not made", v.Name)
	}
	l.layers = append(l.layers, isa.Layer{Name: v.Name, Op: "output"})
	l.opened = true
	if s := t.store; !t.isWhole() || s.constant() || s.input || s.output || s.kept {
		t = l.copied(t)
	}
	t.store.output = true
	l.outputs = append(l.outputs, t)
	l.steps = append(l.steps, &step{kernel: &storer{}, layer: int32(len(l.layers) - 1), in: []*tensor{t}})
	return nil
}

// loader and storer are the steps that bring inputs and take outputs.
type loader struct{ pointwise }

func (*loader) cycles(*arch.Chip, box) int64     { return 0 }
func (*loader) emit(*emitter, box, view, []view) {}
func (*loader) need(int, box) box                { return box{} }

type storer struct{ pointwise }

func (*storer) cycles(*arch.Chip, box) int64     { return 0 }
func (*storer) emit(*emitter, box, view, []view) {}
