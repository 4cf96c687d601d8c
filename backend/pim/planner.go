package pim

import (
	"fmt"
	"runtime/debug"
	"slices"

	"situ/arch"
	"situ/backend/pim/isa"
	"situ/ir"
)

// Planner plans programs of one graph for many chips. It lowers the graph once,
// or once for chips that keep tables of gathers in their scratchpads and once for
// those that do not, and packs no weights. A Planner is not safe for concurrent use.
type Planner struct {
	g       *ir.Graph
	states  []ir.State
	lowered []*lowering
	l       *lowering // the one in use
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
	best, err := e.l.choose(opt)
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
