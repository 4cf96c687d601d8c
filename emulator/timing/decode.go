package timing

import (
	"errors"

	"situ/backend/pim/isa"
	"situ/emulator/effect"
	"situ/emulator/sequence"
)

// decoded is what an instruction touches and asks for, at whatever time.
type decoded struct {
	args   *int64 // its operands in the program; nil when it is not kept
	eff    effect.Effect
	mvm    mvmCost
	vector vectorCost
	ps     int64 // of the vector unit
}

// instructions remembers what was decoded, by where its operands are in the
// program: clusters that do the same share them.
type instructions struct {
	kept [256]decoded
	last decoded // one that is not kept
}

// forget makes room for the instructions of another program, which may be in the
// same memory.
func (t *instructions) forget() {
	for i := range t.kept {
		t.kept[i].args = nil
	}
}

// at returns where an instruction is kept.
func (t *instructions) at(st *sequence.Step) *decoded {
	if !st.Plain || len(st.Args) == 0 {
		return &t.last
	}
	h := uint64(0)
	for _, a := range st.Args[:min(3, len(st.Args))] {
		h = (h ^ uint64(a)) * 0x9e3779b97f4a7c15
	}
	return &t.kept[h>>56]
}

// moves reports whether a unit brings bytes from one memory to another.
func moves(u isa.Unit) bool { return u == isa.UnitDMA || u == isa.UnitNoC }

// decode returns what an instruction asks for; the error is that of one that leaves
// its memories or is not consistent. It is valid until the next is decoded.
func (m *model) decode(st *sequence.Step) (*decoded, error) {
	d := &m.instructions.last
	if !moves(st.Op.Info().Unit) { // sends are each cluster's own
		d = m.instructions.at(st)
		if d.args != nil && d.args == &st.Args[0] {
			return d, nil
		}
	}
	d.args = nil
	d.eff.Of(st.Op, st.Args, &m.shape)
	if err := d.eff.Check(m.limits); err != nil {
		return nil, err
	}
	switch {
	case st.Op == isa.OpMVM:
		d.mvm = m.mvmCostOf(st.Args)
	case !moves(st.Op.Info().Unit):
		var ok bool
		if d.vector, ok = m.vectorCostOf(st.Op, st.Args); !ok {
			return nil, errors.New("the timing model has no cost for it")
		}
		d.ps = m.ps(d.vector.cycles(&m.rates))
	}
	if d != &m.instructions.last {
		d.args = &st.Args[0]
	}
	return d, nil
}
