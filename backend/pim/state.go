package pim

import (
	"errors"
	"fmt"
	"slices"

	"situ/backend/pim/isa"
	"situ/ir"
)

// state is a tensor that a program keeps from run to run: init steps (step.once) take
// it from an input, and others, updates, replace what is new when all have read it. It
// is kept in codes where the graph reads it by one quantize and the output that becomes
// it is the dequantize of codes of the same quantisation.
type state struct {
	ir.State
	name       string     // of the output
	held, next ir.ValueID // what is kept, and what becomes it
	axis       int        // of the four dimensions, along which it goes round; −1 when it is replaced as a whole
	t          *tensor    // that holds it
	after      *tensor    // that becomes it
}

// findStates says in what form the states of the graph are kept.
func (l *lowering) findStates(states []ir.State) error {
	l.once, l.dropped = make([]bool, len(l.g.Ops)), make([]bool, len(l.g.Ops))
	for _, s := range states {
		in, out := l.g.Inputs[s.In], l.g.Outputs[s.Out]
		st := &state{State: s, name: l.g.Value(out).Name, held: in, next: out, axis: -1}
		if rank := len(l.g.Type(in).Shape); s.Axis >= 0 {
			if st.axis = s.Axis + 4 - rank; st.axis < 0 || rank > 4 && st.axis == 0 {
				return fmt.Errorf("state %q grows along dimension %d of %d; only the last four of a tensor are apart on a PIM chip: without --state for it, or with --state none, it is given to each run", st.name, s.Axis, rank)
			}
		}
		l.states = append(l.states, st)
		l.keepCodes(st)
		if tx, ty := l.g.Type(st.held), l.g.Type(st.next); tx.DType != ty.DType || !tx.Quant.Equal(ty.Quant) {
			return fmt.Errorf("state %q is %s and becomes %s", st.name, tx, ty)
		}
	}
	return nil
}

// keepCodes keeps a state in codes where that is possible.
func (l *lowering) keepCodes(st *state) {
	in, last := l.g.Inputs[st.In], l.g.DefOp(st.next)
	if last == nil || last.Kind != ir.Dequantize {
		return
	}
	held := in
	if l.g.Type(in).Quant == nil { // it is not given as codes
		users := l.users[in]
		if len(users) != 1 || slices.Contains(l.g.Outputs, in) || l.g.Ops[users[0]].Kind != ir.Quantize {
			return
		}
		held = l.g.Ops[users[0]].Out
	}
	if tx, ty := l.g.Type(held), l.g.Type(last.In[0]); tx.DType != ty.DType || !tx.Quant.Equal(ty.Quant) {
		return
	}
	if held != in {
		l.once[l.g.Value(held).Def] = true
	}
	n := 0
	for _, id := range l.g.Outputs {
		if id == st.next {
			n++
		}
	}
	l.dropped[l.g.Value(st.next).Def] = n == 1 && len(l.users[st.next]) == 0
	st.held, st.next = held, last.In[0]
}

// beginState makes the tensor of a state that is kept as it is given: its input's, or
// where the output repeats it a copy, which may become a part of that.
func (l *lowering) beginState(st *state, t *tensor) {
	if st.held != l.g.Inputs[st.In] {
		return
	}
	if st.From > 0 {
		l.opened = true // the input's layer
		t = l.copied(t)
		l.steps[len(l.steps)-1].once = true
		l.vals[st.held] = t
	}
	t.store.kept = true
}

// isState reports whether an output is kept and not given to the user.
func (l *lowering) isState(out int) bool {
	return slices.ContainsFunc(l.states, func(s *state) bool { return s.Out == out })
}

// updateStates appends the steps that make states what the next run finds. What one
// state takes from another is copied before any changes.
func (l *lowering) updateStates() error {
	for _, st := range l.states {
		l.layers = append(l.layers, isa.Layer{Name: st.name, Op: "state"})
		l.op, l.opened = &ir.Op{In: []ir.ValueID{st.next}, Name: st.name}, true
		var err error
		if st.after, err = l.in(0); err != nil {
			return fmt.Errorf("state %q: %w", st.name, err)
		}
		if st.t = l.vals[st.held]; st.t == nil || st.t.reshaped || st.after.dims.rest(st.axis) != st.t.dims.rest(st.axis) {
			return fmt.Errorf("state %q: %w", st.name, errors.New("its tensor was not made"))
		}
		if s := st.after.store; s.kept && (s != st.t.store || st.From == 0) || s.constant() {
			st.after = l.copied(st.after)
		}
	}
	for i, st := range l.states {
		out := *st.t
		k := &updater{move: &move{in: []dims{st.after.dims}, elem: out.elem}, axis: st.axis, rows: st.Rows, fresh: st.New}
		var from dims
		if st.axis >= 0 {
			out.dims[st.axis], from[st.axis] = st.New, st.From
		}
		k.pieces = []piece{straight(0, whole(out.dims), from)}
		out.store.tens = append(out.store.tens, &out)
		l.steps = append(l.steps, &step{kernel: k, layer: int32(len(l.layers) - len(l.states) + i), in: []*tensor{st.after}, out: &out})
	}
	return nil
}

// advanceUpdates moves each update to behind the last step that reads the state or
// makes what it becomes, so that this need not be held until the end of a run.
func (l *lowering) advanceUpdates() {
	first := len(l.steps) - len(l.states) // as updateStates left them
	updates := slices.Clone(l.steps[first:])
	l.steps = l.steps[:first]
	for _, u := range updates {
		at := len(l.steps)
		for ; at > 0; at-- {
			s := l.steps[at-1]
			if s.out != nil && (s.out.store == u.in[0].store || s.out.store == u.out.store) ||
				slices.ContainsFunc(s.in, func(t *tensor) bool { return t.store == u.out.store }) {
				break
			}
		}
		l.steps = slices.Insert(l.steps, at, u)
	}
}

// rest returns d without what it is along an axis, which may be −1.
func (d dims) rest(axis int) dims {
	if axis >= 0 {
		d[axis] = 1
	}
	return d
}

// onceFirst puts the steps that run once before the others, those of a state together.
func (l *lowering) onceFirst() {
	var first []*step
	for _, s := range l.steps {
		if _, ok := s.kernel.(*loader); ok && slices.ContainsFunc(l.states, func(st *state) bool { return l.inputs[st.In] == s.out }) {
			s.once = true
			first = append(first, s)
			for _, o := range l.steps {
				if o.once && len(o.in) == 1 && o.in[0] == s.out {
					first = append(first, o)
				}
			}
		}
	}
	l.mainFrom = len(first)
	for _, s := range l.steps {
		if !s.once {
			first = append(first, s)
		}
	}
	l.steps = first
}

// updater puts what is new of a state into its place. Its result is the part of the
// state that the first run replaces; where the state goes round, an address register
// moves it on from run to run.
type updater struct {
	*move
	axis        int // along which it goes round, −1 for none
	rows, fresh int
}

// goesRound reports whether runs replace different parts.
func (k *updater) goesRound() bool { return k.axis >= 0 && k.rows != k.fresh }

// turned returns v, a view of a buffer that holds box b of the store of the result of
// s, at the part that the run at hand replaces, if s is an update. Buffers that what
// is new only passes through, on the way to others, hold just that.
func (p *plan) turned(e *emitter, s *step, v view, b box) view {
	k, ok := s.kernel.(*updater)
	if !ok || !k.goesRound() || b.ext(k.axis) < k.rows {
		return v
	}
	v.addr = isa.Addr(v.addr, e.register(int64(k.fresh)*v.st[k.axis], int64(k.rows)*v.st[k.axis]))
	return v
}

// turn is an address register that goes round: how far in a run, and the whole.
type turn struct{ step, size int64 }

// tooManyTurns is what register panics with; generate turns it into an error.
type tooManyTurns struct{}

// register returns the register of the cluster at hand that goes round.
func (e *emitter) register(step, size int64) int {
	t := &e.turns[e.cluster]
	k := slices.Index(*t, turn{step, size})
	if k < 0 {
		if k = len(*t); k == isa.NumRegs-1 {
			panic(tooManyTurns{})
		}
		*t = append(*t, turn{step, size})
	}
	return k + 1
}

// updateParts returns the parts of an update: each cluster that keeps part of the
// state takes what is new of it, of several that keep the same the first. It returns
// nil when those are not parts of the result.
func (p *plan) updateParts(s *step, k *updater) []box {
	full := whole(s.out.dims)
	parts := make([]box, p.clusters)
	for j, b := range p.needsOf(s.out) {
		if b.empty() {
			continue
		}
		if k.axis >= 0 {
			b = b.along(k.axis, 0, full.hi[k.axis])
		}
		b = b.and(full)
		if !slices.Contains(parts[:j], b) {
			parts[j] = b
		}
	}
	if !partition(parts, full) {
		return nil
	}
	return parts
}

// needsOf returns what each cluster reads of the store of t but to update it, in t's
// coordinates, which may reach outside.
func (p *plan) needsOf(t *tensor) []box {
	needs := make([]box, p.clusters)
	for _, r := range t.store.readers {
		if _, ok := r.kernel.(*updater); ok && t.store.kept && r.out.store == t.store {
			continue
		}
		for i, in := range r.in {
			if in.store != t.store {
				continue
			}
			for j := range needs {
				if j < len(r.parts) {
					needs[j] = needs[j].hull(r.needs(i, r.parts[j]).and(whole(t.store.dims)))
				}
			}
		}
	}
	for j := range needs {
		if !needs[j].empty() {
			needs[j] = needs[j].shift(negate(t.off))
		}
	}
	return needs
}

// keepWhole widens what clusters get of a state that goes round: of what they read
// all places, as each is replaced in its turn.
func (p *plan) keepWhole(st *store, got []box) {
	for _, w := range st.writers {
		k, ok := w.kernel.(*updater)
		if !ok || !k.goesRound() {
			continue
		}
		all := whole(w.out.dims).along(k.axis, 0, k.rows).shift(w.out.off)
		for j := range got {
			if got[j].meets(&all) {
				got[j] = got[j].hull(got[j].along(k.axis, all.lo[k.axis], all.hi[k.axis]))
			}
		}
	}
}

// describedStates returns the program's states.
func (p *plan) describedStates() []isa.State {
	var out []isa.State
	for _, st := range p.states {
		bytes := st.t.dims.numel() * int64(st.t.elem)
		s := isa.State{Input: st.In, Output: st.name, Bytes: bytes, New: bytes, Spilled: st.t.store.spilled}
		if st.axis >= 0 {
			s.New = bytes / int64(st.Rows) * int64(st.New)
		}
		out = append(out, s)
	}
	return out
}
