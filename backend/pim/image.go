package pim

import (
	"bytes"
	"slices"
	"sync"

	"situ/arch"
	"situ/backend/pim/isa"
	"situ/ir"
)

// blobAlign is the alignment of constants in DRAM and scratchpad.
const blobAlign = 16

// makeBlobs collects the constants of every step: what its kernel wants, then
// its constant operands. They lie one after the other from address 0 of the
// DRAM image.
func (p *plan) makeBlobs() {
	at := int64(0)
	for _, s := range p.steps {
		s.blobs, s.blobOf = nil, make([]int, p.clusters)
		for j, part := range s.parts {
			if part.empty() {
				continue
			}
			if j > 0 && s.sameParams(j, j-1) {
				s.blobOf[j] = s.blobOf[j-1]
				continue
			}
			b := blob{data: slices.Clip(s.kernel.params(part))}
			for _, t := range s.in {
				if !t.store.constant() || t.store.spilled {
					b.consts = append(b.consts, -1)
					continue
				}
				b.consts = append(b.consts, roundUp(int64(len(b.data)), blobAlign))
				b.data = append(b.data, make([]byte, roundUp(int64(len(b.data)), blobAlign)-int64(len(b.data)))...)
				b.data = append(b.data, t.store.data...)
			}
			if len(b.data) == 0 {
				continue
			}
			k := slices.IndexFunc(s.blobs, func(o blob) bool { return bytes.Equal(o.data, b.data) })
			if k < 0 {
				k = len(s.blobs)
				b.at = at
				at = roundUp(at+int64(len(b.data)), blobAlign)
				s.blobs = append(s.blobs, b)
			}
			s.blobOf[j] = k
		}
	}
	p.constBytes = at
}

// sameParams reports whether two clusters are known to need the same constants:
// those of a product follow from its channels.
func (s *step) sameParams(i, j int) bool {
	k, ok := s.kernel.(*product)
	return ok && k.parts[i] != nil && k.parts[i] == k.parts[j]
}

// blob returns the constants of step s on cluster j, nil when there are none.
func (s *step) blob(j int) *blob {
	if len(s.blobs) == 0 {
		return nil
	}
	return &s.blobs[s.blobOf[j]]
}

// layout says where constants lie in DRAM.
type layout struct {
	bytes   int64 // of all constants
	stored  int64 // of them those that the image holds, the first; the rest are described
	regions []isa.Region
	units   []placedUnit
}

// placedUnit is a unit of a product's weights, which knows its address.
type placedUnit struct {
	k  *product
	ch *chunk
	u  *unit
}

func (w *placedUnit) bytes(c *arch.Chip) int64 { return w.u.bytes(w.ch.tiles, c.TileBytes(w.k.w.form)) }

// layOut gives constants their addresses in DRAM and says which die holds what:
// weights lie on the die of the first cluster that uses them, all else on die 0.
// First come the constants of steps, then those operands that stay in DRAM, then
// weights. Where some weights are described the image ends before the weights.
func (p *plan) layOut() layout {
	perDie := int(p.chip.ClustersPerDie.Int())
	onDie := make([][]placedUnit, (p.clusters+perDie-1)/perDie)
	for _, s := range p.steps {
		k, ok := s.kernel.(*product)
		if !ok {
			continue
		}
		for _, q := range k.different {
			for i := range q.chunks {
				for j := range q.chunks[i].units {
					d := q.first / perDie
					onDie[d] = append(onDie[d], placedUnit{k, &q.chunks[i], &q.chunks[i].units[j]})
				}
			}
		}
	}
	const align = 64
	at := roundUp(p.constBytes, align)
	home := func(st *store) {
		st.dram = at
		at = roundUp(at+st.constBytes(), align)
	}
	for _, st := range p.stores {
		if st.data != nil && st.spilled {
			home(st)
		}
	}
	m := layout{stored: at}
	for _, st := range p.stores {
		if st.absent > 0 {
			home(st)
		}
	}
	for d := range onDie {
		start := at
		if d == 0 {
			start = 0
		}
		for _, w := range onDie[d] {
			w.u.dram = at
			at = roundUp(at+w.bytes(p.chip), align)
		}
		if at > start {
			m.regions = append(m.regions, isa.Region{Start: start, End: at, Die: d})
		}
	}
	m.bytes = at
	if p.g.Described() == ir.NoValue {
		m.stored, m.units = at, slices.Concat(onDie...)
	}
	return m
}

// image returns the DRAM image of a layout.
func (p *plan) image(m *layout) []byte {
	image := make([]byte, m.stored)
	for _, s := range p.steps {
		for _, b := range s.blobs {
			copy(image[b.at:], b.data)
		}
	}
	for _, st := range p.stores {
		if st.data != nil && st.spilled {
			copy(image[st.dram:], st.data)
		}
	}
	const workers = 2
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := w; i < len(m.units); i += workers {
				j := &m.units[i]
				j.k.pack(image[j.u.dram:j.u.dram+j.bytes(p.chip)], j.ch, j.u)
			}
		})
	}
	wg.Wait()
	return image
}

// pack writes the tiles of a unit: [tiles][ktiles][rows][cols], two 4-bit
// weights to a byte, the even column in the low half; behind the weights of a tile
// the shifts of its blocks, if they have any.
func (k *product) pack(dst []byte, ch *chunk, u *unit) {
	line := k.cols * k.w.form.Bits / 8 // bytes of a row of a tile
	tile := len(dst) / (ch.tiles * u.ktiles)
	per := k.cols // live columns of a tile
	if k.grouped {
		per = k.cout / k.groups
	}
	n := u.k1 - u.k0
	values := make([]int8, n)
	for t := range ch.tiles {
		for col := range min(per, ch.n-t*per) {
			o := ch.c0 + t*per + col
			row := u.lead
			for p := u.p0; p < u.p1; p++ {
				for tap := range (u.y1 - u.y0) * (u.x1 - u.x0) {
					y, x := u.y0+tap/(u.x1-u.x0), u.x0+tap%(u.x1-u.x0)
					k.w.read(values, o, y*k.kernel[1]+x, u.k0, p)
					for rest := values; len(rest) > 0; { // tile by tile
						base := (t*u.ktiles+row/k.rows)*tile + row%k.rows*line
						part := rest[:min(len(rest), k.rows-row%k.rows)]
						if k.w.form.Bits == 8 {
							for i, v := range part {
								dst[base+i*line+col] = byte(v)
							}
						} else {
							for i, v := range part {
								dst[base+i*line+col/2] |= byte(v&15) << (4 * (col & 1))
							}
						}
						row += len(part)
						rest = rest[len(part):]
					}
				}
			}
			if k.w.form.Blocks {
				k.packShifts(dst, u, t, col, o, line, tile)
			}
		}
	}
}

// read gets the weights of result channel o at one tap from operand channel c
// on, of one plane.
func (w *weights) read(dst []int8, o, tap, c, p int) {
	z := w.zero[0]
	if len(w.zero) > 1 {
		z = w.zero[o]
	}
	i := o*w.so + tap*w.st + c*w.sc
	if w.s8 != nil && z == 0 && w.planes == 1 && (w.blocks == nil || w.form.Blocks) {
		if w.sc == 1 {
			copy(dst, w.s8[i:])
			return
		}
		for j := range dst {
			dst[j] = w.s8[i]
			i += w.sc
		}
		return
	}
	for j := range dst {
		dst[j] = w.plane(w.at(o, tap, c+j), p)
	}
}
