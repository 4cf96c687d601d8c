package pim

import (
	"fmt"
	"math"
	"runtime/debug"
	"slices"

	"situ/arch"
	"situ/backend/pim/isa"
	"situ/ir"
	"situ/passes"
)

// Planner plans programs of one graph for many chips. It lowers the graph once,
// or once for chips that keep tables of gathers in their scratchpads and once for
// those that do not, and packs no weights. A Planner is not safe for concurrent use.
type Planner struct {
	g       *ir.Graph
	states  []ir.State
	lowered []*lowering
	l       *lowering        // the one in use
	cut     map[int]*Planner // of the graph for fewer entries of its batch; nil where that is not possible
}

// NewPlanner lowers g, whose programs keep states. The error names every operator
// that the back end does not take; c may be any chip.
func NewPlanner(g *ir.Graph, c *arch.Chip, states ...ir.State) (*Planner, error) {
	e := &Planner{g: g, states: states}
	return e, e.on(c)
}

// on makes c the chip that is planned for.
func (e *Planner) on(c *arch.Chip) error {
	if i := slices.IndexFunc(e.lowered, func(l *lowering) bool { return l.alike(c) }); i >= 0 {
		e.l = e.lowered[i]
		e.l.on(c)
		return nil
	}
	l, err := lower(e.g, c, e.states...)
	if err != nil {
		return err
	}
	e.l, e.lowered = l, append(e.lowered, l)
	return nil
}

// Program returns the program that Compile writes for a chip, but that its
// constants are described, not stored, it says nothing of mappings and of operators
// that fall back, and has no fingerprint of the chip. It takes the same time and
// moves the same bytes, as neither depends on data. It is valid until the Planner is
// asked for another, which is written in the same memory, and must not be changed.
func (e *Planner) Program(c *arch.Chip, opt Options) (p *isa.Program, err error) {
	defer func() {
		if r := recover(); r != nil {
			p, err = nil, fmt.Errorf("internal error: planning %q for %s: %v\n%s", e.l.g.Name, c.Name, r, debug.Stack())
		}
	}()
	if err := e.on(c); err != nil {
		return nil, err
	}
	if err := e.l.held(); err != nil {
		return nil, err
	}
	best, err := e.choose(opt)
	if err != nil {
		return nil, err
	}
	m := best.layOut()
	if p, err = best.skeleton(opt, &m); err != nil {
		return nil, err
	}
	p.DescribedBytes = m.bytes
	return p, nil
}

// choose returns the plan that serves an objective best. A batch of which something
// does not fit the scratchpads is cut into rounds, one after the other, which share the
// weights: into the fewest in which everything fits, or as many as are best.
func (e *Planner) choose(opt Options) (*plan, error) {
	whole, err := e.l.options(opt)
	if err != nil {
		return nil, err
	}
	batch := e.batch()
	whole.spillable = batch > 1
	few, fits := 0, 0 // rounds in which something spills, and in which nothing does
	var best *plan
	try := func(rounds int, o *options) (better bool) {
		limit := math.Inf(1)
		if best != nil {
			limit = best.score / float64(rounds)
		}
		var p *plan
		if o != nil {
			p = o.best(limit)
		}
		if p != nil && rounds > 1 {
			e.inRounds(p)
		}
		if p == nil || p.spills() {
			few = max(few, rounds)
		} else {
			fits = rounds
		}
		if better = p != nil && p.score < limit*float64(rounds); better {
			best = p
		}
		return better
	}
	// What cannot but spill waits until there is something to compare it with.
	waiting := map[int]*options{}
	for n, o, worse := 1, whole, 0; fits == 0 && worse < 2; o = e.rounds(opt, n) {
		switch more := 2*n <= batch; {
		case more && o != nil && o.spill():
			waiting[n], few = o, n
		default:
			if worse++; try(n, o) {
				worse = 0
			}
		}
		if n *= 2; n > batch {
			break
		}
	}
	for n := batch; n > 0; n-- {
		if o := waiting[n]; o != nil {
			try(n, o)
		}
	}
	for fits > 0 && fits-few > 1 {
		n := (few + fits) / 2
		try(n, e.rounds(opt, n))
	}
	if best == nil {
		return nil, whole.err
	}
	return best, nil
}

// batch returns how many entries the batch of the graph has that may be cut into
// rounds, as far as its inputs say; 1 when it may not be.
func (e *Planner) batch() int {
	n := 0
	for _, id := range e.g.Inputs {
		s := e.g.Type(id).Shape
		if len(s) == 0 || n > 0 && s[0] != n {
			return 1
		}
		n = s[0]
	}
	if len(e.states) > 0 {
		return 1 // what a state holds of one round, the next would take the place of
	}
	return max(n, 1)
}

// rounds returns the options of a batch that is cut into some rounds at most, nil where
// there are none. All rounds are alike: where entries are left over, the last runs some
// that the one before ran, too.
func (e *Planner) rounds(opt Options, rounds int) *options {
	all := e.batch()
	n := (all + rounds - 1) / rounds
	part, ok := e.cut[n]
	if !ok {
		if g, err := passes.Rebatch(e.g, all, n); err == nil {
			part, _ = NewPlanner(g, e.l.chip)
		}
		if e.cut == nil {
			e.cut = map[int]*Planner{}
		}
		e.cut[n] = part
	}
	if part == nil || part.on(e.l.chip) != nil {
		return nil
	}
	o, err := part.l.options(opt)
	if err != nil {
		return nil
	}
	o.spillable = true
	return o
}

// inRounds makes a plan for fewer entries one for the batch, in as few rounds as it takes.
func (e *Planner) inRounds(p *plan) {
	p.batch, p.rounds = e.batch(), p.rounds[:0]
	_, n := p.entries()
	for at := 0; at < p.batch; at += n {
		p.rounds = append(p.rounds, min(at, p.batch-n))
	}
	p.score *= float64(len(p.rounds))
}

// spills reports whether DRAM holds something while a plan runs that the chip computes
// and needs again.
func (p *plan) spills() bool {
	return slices.ContainsFunc(p.stores, func(st *store) bool {
		return st.spilled && !st.inner && !st.constant() && !st.kept && !st.input && !st.output
	})
}
