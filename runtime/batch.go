package runtime

import (
	"encoding/binary"
	"fmt"

	"situ/ir"
	"situ/passes"
)

// maxBatch is the largest batch that is compiled.
const maxBatch = 4096

func checkBatch(n int) error {
	if n < 1 || n > maxBatch {
		return fmt.Errorf("batch %d: want 1 to %d", n, maxBatch)
	}
	return nil
}

// batch returns the prepared model for n inputs at once, with the scales it has.
func (p *Prepared) batch(n int) (*Prepared, error) {
	if err := checkBatch(n); err != nil {
		return nil, err
	}
	if n == 1 {
		return p, nil
	}
	if p.Chip == nil {
		return nil, p.allHost()
	}
	g, err := passes.Batch(p.Chip, n)
	if err != nil {
		return nil, fmt.Errorf("model %s: %w", p.Model.Name, err)
	}
	q := *p
	q.Chip, q.Batch, q.programs = g, n, map[programKey]*compiled{}
	return &q, nil
}

// stack joins sets of inputs along dimension 0.
func stack(sets [][]*ir.Tensor) ([]*ir.Tensor, error) {
	if len(sets) == 1 {
		return sets[0], nil
	}
	var out []*ir.Tensor
	for k, first := range sets[0] {
		shape := append([]int{len(sets)}, first.Shape[1:]...)
		var b []byte
		for _, s := range sets {
			var err error
			if b, err = binary.Append(b, binary.LittleEndian, s[k].Any()); err != nil {
				return nil, err
			}
		}
		t := ir.Zeros(first.DType, shape...)
		if _, err := binary.Decode(b, binary.LittleEndian, t.Any()); err != nil {
			return nil, err
		}
		out = append(out, t)
	}
	return out, nil
}

// unstack is the inverse of stack for n sets.
func unstack(ts []*ir.Tensor, n int) ([][]*ir.Tensor, error) {
	if n == 1 {
		return [][]*ir.Tensor{ts}, nil
	}
	sets := make([][]*ir.Tensor, n)
	for _, t := range ts {
		b, err := binary.Append(nil, binary.LittleEndian, t.Any())
		if err != nil {
			return nil, err
		}
		each := len(b) / n
		for i := range sets {
			e := ir.Zeros(t.DType, append([]int{1}, t.Shape[1:]...)...)
			if _, err := binary.Decode(b[i*each:(i+1)*each], binary.LittleEndian, e.Any()); err != nil {
				return nil, err
			}
			sets[i] = append(sets[i], e)
		}
	}
	return sets, nil
}

// perInference turns energies, bytes and multiply-accumulates of a run of n inputs
// into those of one; times stay.
func (r *Result) perInference(n int) {
	r.Batch = n
	if n == 1 {
		return
	}
	f := 1 / float64(n)
	r.ThroughputS *= float64(n)
	r.MACs /= int64(n)
	r.Compulsory /= int64(n)
	r.Energy, r.Steady, r.Bytes = r.Energy.scaled(f), r.Steady.scaled(f), r.Bytes.scaled(f)
	for i := range r.Layers {
		l := &r.Layers[i]
		l.MACs /= int64(n)
		l.Energy, l.Bytes = l.Energy.scaled(f), l.Bytes.scaled(f)
	}
}

func (e Energy) scaled(f float64) Energy {
	return Energy{e.Total * f, e.Compute * f, e.Register * f, e.SRAM * f, e.NoC * f, e.DRAM * f, e.Link * f, e.Network * f, e.Static * f}
}

func (b Bytes) scaled(f float64) Bytes {
	s := func(n int64) int64 { return int64(float64(n)*f + 0.5) }
	return Bytes{s(b.Register), s(b.SRAM), s(b.NoC), s(b.DRAM), s(b.Link), s(b.Network)}
}
