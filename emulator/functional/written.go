package functional

import (
	"situ/backend/pim/isa"
	"situ/emulator/effect"
)

// written is the contents of a block that a storew wrote, and what a product
// makes of them. Both are kept for the next storew.
type written struct {
	tiles  []byte // [ntiles][ktiles][rows][cols]
	key    packKey
	packed bool // panels are those of key
	panels panels
}

// storedBlock is blockOf for storew and loada. Its weights have been written but for the
// caller to fill in.
func storedBlock(a []int64, s *effect.Shape, ws effect.Region) block {
	ktiles, ntiles := s.StoreWTiles(a)
	return block{
		ws: ws.Lo, end: ws.Hi, written: &noWritten, ktiles: ktiles, ntiles: ntiles,
		ksplit: a[isa.StoreWKsplit], rsplit: a[isa.StoreWRsplit], wbits: 8,
	}
}

// noWritten marks a block whose contents are not known yet.
var noWritten written

// panelsOf returns the panels of a product. None are those of no storew.
func (d *written) panelsOf(w *weights, k *packKey) *panels {
	if d == nil {
		return nil
	}
	if !d.packed || d.key != *k {
		d.key, d.packed, d.panels = *k, true, w.pack(k, d.tiles, d.panels.data)
	}
	return &d.panels
}

// reuse returns the buffers of an overwritten block, or new ones.
func (r *residentWeights) reuse() *written {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := len(r.free); n > 0 {
		d := r.free[n-1]
		r.free = r.free[:n-1]
		return d
	}
	return &written{}
}

func (c *cluster) storeW(a []int64) error {
	c.putWeights(a, c.sp, a[isa.StoreWSrc])
	return nil
}

func (c *cluster) loadA(a []int64) error {
	region := c.eff.Regions()[0]
	from, err := c.m.dramRange(region)
	if err != nil {
		return err
	}
	c.putWeights(a, from, a[isa.LoadASrc]-region.Lo)
	return nil
}

// putWeights puts activations, which begin at an offset of some memory, into the
// weight SRAMs.
func (c *cluster) putWeights(a []int64, from []byte, at int64) {
	s := &c.m.shape
	b := storedBlock(a, s, c.eff.Regions()[1])
	d := c.resident.reuse()
	d.packed = false
	tile, cols := s.TileBytes(8, 0), s.ArrayCols(8)
	d.tiles = grow(&d.tiles, b.ktiles*b.ntiles*tile)
	clear(d.tiles)
	k, n, zero := a[isa.StoreWK], a[isa.StoreWN], a[isa.StoreWZero]
	kStep, nStep := a[isa.StoreWKStep], a[isa.StoreWNStep]
	// Each code becomes one number a plane.
	var planes [3][256]byte
	for v := range int64(256) {
		rest := v - zero
		for p := range planes {
			part := min(max(rest, -128), 127)
			planes[p][v] = byte(part)
			rest -= part
		}
	}
	for p := range a[isa.StoreWPlanes] {
		of := &planes[p]
		for i := range k {
			row := p*k + i
			src := at + i*kStep
			for t := range b.ntiles {
				line := d.tiles[(t*b.ktiles+row/s.Rows)*tile+row%s.Rows*cols:][:min(cols, n-t*cols)]
				if nStep == 1 {
					for j, v := range from[src:][:len(line)] {
						line[j] = of[v]
					}
					src += cols
					continue
				}
				for j := range line {
					line[j] = of[from[src]]
					src += nStep
				}
			}
		}
	}
	b.written = d
	c.resident.put(b)
}

func (c *cluster) biasAcc(a []int64) error {
	n := a[isa.BiasAccN]
	dst, bias := words[int32](c.sp, a[isa.BiasAccDst], n), words[int32](c.sp, a[isa.BiasAccBias], n)
	for i, v := range c.acc[a[isa.BiasAccAcc]/4:][:n] {
		dst[i] = bias[i] - v
	}
	return nil
}

func (c *cluster) shlAcc(a []int64) error {
	acc, by := c.acc[a[isa.ShlAccAcc]/4:][:a[isa.ShlAccN]], a[isa.ShlAccBy]
	for i := range acc {
		acc[i] <<= by
	}
	return nil
}

func (c *cluster) dot(a []int64) error {
	k, n := a[isa.DotK], a[isa.DotN]
	za, zb := int32(a[isa.DotZa]), int32(a[isa.DotZb])
	kStep, nStep := a[isa.DotKStep], a[isa.DotNStep]
	rowsX := a[isa.DotRowsX]
	for m := range a[isa.DotRowsY] * rowsX {
		at := a[isa.DotA] + m/rowsX*a[isa.DotRowSy] + m%rowsX*a[isa.DotRowSx]
		row, acc := c.sp[at:at+k], c.acc[a[isa.DotAcc]/4+m*n:][:n]
		if kStep == 1 {
			for j := range acc {
				from := a[isa.DotB] + int64(j)*nStep
				acc[j] = dotBytes(row, c.sp[from:from+k], za, zb)
			}
			continue
		}
		clear(acc)
		for i, x := range row {
			from, f := a[isa.DotB]+int64(i)*kStep, int32(x)-za
			if nStep == 1 {
				for j, y := range c.sp[from : from+n][:len(acc)] {
					acc[j] += f * (int32(y) - zb)
				}
				continue
			}
			for j := range acc {
				acc[j] += f * (int32(c.sp[from]) - zb)
				from += nStep
			}
		}
	}
	return nil
}

// dotBytes returns Σ (a−za)(b−zb).
func dotBytes(a, b []byte, za, zb int32) int32 {
	sum := int32(0)
	for i, x := range b[:len(a)] {
		sum += (int32(a[i]) - za) * (int32(x) - zb)
	}
	return sum
}
