package pim

import (
	"fmt"
	"runtime/debug"

	"situ/arch"
	"situ/backend/pim/isa"
	"situ/ir"
)

// Planner plans programs of one graph for many chips. It lowers the graph once
// and packs no weights. A Planner is not safe for concurrent use.
type Planner struct {
	l     *lowering
	zeros []byte
}

// NewPlanner lowers g. The error names every operator that the back end does
// not take; c may be any chip.
func NewPlanner(g *ir.Graph, c *arch.Chip) (*Planner, error) {
	l, err := lower(g, c)
	if err != nil {
		return nil, err
	}
	return &Planner{l: l}, nil
}

// Program returns the program that Compile writes for a chip, but that its
// constants are zeros and its layers say nothing of their mapping. It takes the
// same time and moves the same bytes, as neither depends on data. The constants
// are shared by all programs of the Planner and must not be written.
func (e *Planner) Program(c *arch.Chip, opt Options) (p *isa.Program, err error) {
	defer func() {
		if r := recover(); r != nil {
			p, err = nil, fmt.Errorf("internal error: planning %q for %s: %v\n%s", e.l.g.Name, c.Name, r, debug.Stack())
		}
	}()
	e.l.on(c)
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
	if int64(len(e.zeros)) < m.bytes {
		e.zeros = make([]byte, m.bytes+m.bytes/4)
	}
	p.Consts = e.zeros[:m.bytes:m.bytes]
	return p, nil
}
