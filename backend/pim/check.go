package pim

import (
	"errors"
	"fmt"
	"slices"
)

// check proves that a plan's placement is sound: no two buffers that live at the
// same time overlap, and nothing reaches beyond its memory.
func (p *plan) check() error {
	var errs []error
	size := p.chip.Scratchpad.Bytes.Int()
	base := int64(0)
	if p.resident {
		base = p.constBytes
	}
	for i := range p.items {
		a := &p.items[i]
		if *a.addr < base || *a.addr+a.size > size {
			errs = append(errs, fmt.Errorf("%s at %d, %d bytes, is outside the scratchpad of %d bytes", a.what, *a.addr, a.size, size))
		}
		for j := range i {
			b := &p.items[j]
			if a.first <= b.last && b.first <= a.last && !a.apart(b) && *a.addr < *b.addr+b.size && *b.addr < *a.addr+a.size {
				errs = append(errs, fmt.Errorf("%s at %d, %d bytes, overlaps %s at %d, %d bytes, in steps %d..%d",
					a.what, *a.addr, a.size, b.what, *b.addr, b.size, max(a.first, b.first), min(a.last, b.last)))
			}
		}
	}
	errs = append(errs, p.checkStores()...)
	errs = append(errs, p.checkHeirs()...)
	errs = append(errs, p.checkWeights()...)
	return errors.Join(errs...)
}

// checkHeirs proves that a store whose place another takes over is not used
// afterwards.
func (p *plan) checkHeirs() []error {
	var errs []error
	for _, st := range p.stores {
		if st.over == nil || st.spilled {
			continue
		}
		for _, use := range append(slices.Clone(st.over.readers), st.over.writers...) {
			if use.index > st.firstWriter() {
				errs = append(errs, fmt.Errorf("%s is used in step %d, after %s has taken its place", st.over.name, use.index, st.name))
			}
		}
	}
	return errs
}

// checkStores proves that each cluster's box holds all that is read and written
// there, and that every store is alive while it is used.
func (p *plan) checkStores() []error {
	var errs []error
	live := map[*store]*item{}
	for i := range p.items {
		if st := p.items[i].store; st != nil {
			live[st] = &p.items[i]
		}
		for _, st := range p.items[i].heirs {
			live[st] = &p.items[i]
			if st.addr != *p.items[i].addr || st.size > p.items[i].size {
				errs = append(errs, fmt.Errorf("%s does not lie where %s did", st.name, p.items[i].what))
			}
		}
	}
	for st, it := range live {
		if st.kept && (it.first != 0 || it.last != len(p.steps)-1) {
			errs = append(errs, fmt.Errorf("%s is a state and lives in steps %d..%d only", st.name, it.first, it.last))
		}
	}
	for _, s := range p.steps {
		for j, part := range s.parts {
			if part.empty() {
				continue
			}
			use := func(t *tensor, b box) {
				st := t.store
				if st.spilled || st.constant() {
					return
				}
				it := live[st]
				if it == nil || s.index < it.first || s.index > it.last {
					errs = append(errs, fmt.Errorf("%s is used in step %d but not alive", st.name, s.index))
				}
				if !st.boxes[j].holds(b) || st.boxes[j].numel()*int64(st.elem) > st.size {
					errs = append(errs, fmt.Errorf("%s: cluster %d holds %v, step %d uses %v", st.name, j, st.boxes[j], s.index, b))
				}
			}
			if s.out != nil {
				use(s.out, s.out.inStore(part))
			}
			for i, t := range s.in {
				use(t, s.needs(i, part))
			}
		}
	}
	return errs
}

// checkWeights proves that resident weights do not overlap and leave the ring
// of streamed ones alone.
func (p *plan) checkWeights() []error {
	var errs []error
	if size := p.chip.WeightSRAM.Bytes.Int(); p.ringEnd > size {
		errs = append(errs, fmt.Errorf("%d bytes of weights in the %d of a core's weight SRAM", p.ringEnd, size))
	}
	if size := p.chip.WeightSRAM.Bytes.Int(); p.writtenEnd > size || p.writtenAt < p.ringEnd {
		errs = append(errs, fmt.Errorf("activations at [%d, %d) of a core's weight SRAM of %d bytes, of which %d are weights", p.writtenAt, p.writtenEnd, size, p.ringEnd))
	}
	type span struct{ lo, hi int64 }
	for j := range p.clusters {
		var spans []span
		for _, s := range p.steps {
			k, ok := s.kernel.(*product)
			if !ok || k.parts[j] == nil {
				continue
			}
			q, tile := k.parts[j], p.chip.TileBytes(k.w.form)
			for c := range q.chunks {
				for u := range q.chunks[c].units {
					n := ceilDiv(int64(q.chunks[c].units[u].ktiles), q.m.KSplit) * tile
					if q.streamed {
						if n > p.ringEnd-p.ringBase {
							errs = append(errs, fmt.Errorf("a unit of %d bytes of streamed weights exceeds its ring of %d", n, p.ringEnd-p.ringBase))
						}
						continue
					}
					spans = append(spans, span{q.chunks[c].units[u].ws, q.chunks[c].units[u].ws + n})
				}
			}
		}
		for a := range spans {
			if spans[a].lo < 0 || spans[a].hi > p.ringBase {
				errs = append(errs, fmt.Errorf("resident weights [%d, %d) of cluster %d are outside [0, %d)", spans[a].lo, spans[a].hi, j, p.ringBase))
			}
			for b := range a {
				if spans[a].lo < spans[b].hi && spans[b].lo < spans[a].hi {
					errs = append(errs, fmt.Errorf("resident weights [%d, %d) and [%d, %d) of cluster %d overlap", spans[a].lo, spans[a].hi, spans[b].lo, spans[b].hi, j))
				}
			}
		}
	}
	return errs
}
