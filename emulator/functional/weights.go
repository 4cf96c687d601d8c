package functional

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"unsafe"

	"situ/backend/pim/isa"
	"situ/emulator/effect"
	"situ/emulator/sequence"
	"situ/internal/gemm"
)

// block is what one loadw or storew left in a cluster's weight SRAMs.
type block struct {
	ws, end        int64    // in each core's SRAM
	src            int64    // in DRAM
	written        *written // the weights of a storew, nil for those in DRAM
	ktiles, ntiles int64
	ksplit, rsplit int64
	wbits, shifts  int64
}

// residentWeights lists a cluster's blocks by address. Multicasts come from
// other clusters' workers.
type residentWeights struct {
	mu     sync.RWMutex
	blocks []block
	free   []*written // of blocks that have been overwritten
}

// put adds a block in place of those it overwrites.
func (r *residentWeights) put(b block) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.blocks = slices.DeleteFunc(r.blocks, func(o block) bool {
		gone := o.ws < b.end && b.ws < o.end
		if gone && o.written != nil {
			r.free = append(r.free, o.written)
		}
		return gone
	})
	i, _ := slices.BinarySearchFunc(r.blocks, b.ws, byAddress)
	r.blocks = slices.Insert(r.blocks, i, b)
}

func byAddress(b block, ws int64) int { return int(b.ws - ws) }

// find returns the block that holds an address.
func (r *residentWeights) find(ws int64) (block, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	i, exact := slices.BinarySearchFunc(r.blocks, ws, byAddress)
	if !exact {
		i--
	}
	if i < 0 || ws >= r.blocks[i].end {
		return block{}, false
	}
	return r.blocks[i], true
}

func (c *cluster) loadW(a []int64) error {
	regions := c.eff.Regions()
	if consts := int64(len(c.m.prog.Consts)); regions[0].Hi > consts {
		return fmt.Errorf("weights at DRAM bytes %d to %d are not all constants, of which there are %d bytes", regions[0].Lo, regions[0].Hi, consts)
	}
	b := blockOf(a, regions[1])
	for i := a[isa.LoadWFirst]; i < a[isa.LoadWFirst]+a[isa.LoadWCount]; i++ {
		c.m.clusters[i].resident.put(b)
	}
	return nil
}

func blockOf(a []int64, ws effect.Region) block {
	return block{
		ws: ws.Lo, end: ws.Hi, src: a[isa.LoadWSrc], ktiles: a[isa.LoadWKtiles], ntiles: a[isa.LoadWNtiles],
		ksplit: a[isa.LoadWKsplit], rsplit: a[isa.LoadWRsplit], wbits: a[isa.LoadWWbits], shifts: a[isa.LoadWShifts],
	}
}

// product is the part of an mvm that its weights depend on, segments merged.
type product struct {
	nseg, segLen  int64
	n, ntiles     int64
	grouped       bool
	ksplit, wbits int64
	rsplit        int64
	row0, shifts  int64
}

// productOf returns the product of an mvm and, in segs order z, y, x, the steps
// of its segments after merging those that lie one behind the other.
func productOf(a []int64) (p product, nz, sz, ny, sy, nx, sx int64) {
	nz, sz = a[isa.MVMSegNz], a[isa.MVMSegSz]
	ny, sy = a[isa.MVMSegNy], a[isa.MVMSegSy]
	nx, sx = a[isa.MVMSegNx], a[isa.MVMSegSx]
	size := a[isa.MVMSegLen]
	if nx == 1 || sx == size {
		size, nx = size*nx, 1
		if ny == 1 || sy == size {
			size, ny = size*ny, 1
			if nz == 1 || sz == size {
				size, nz = size*nz, 1
			}
		}
	}
	return product{
		nseg: nz * ny * nx, segLen: size, n: a[isa.MVMN], ntiles: a[isa.MVMNtiles],
		grouped: a[isa.MVMNSstep] != 0 && a[isa.MVMNtiles] > 1,
		ksplit:  a[isa.MVMKsplit], wbits: a[isa.MVMWbits], rsplit: a[isa.MVMRsplit],
		row0: a[isa.MVMRow0], shifts: a[isa.MVMShifts],
	}, nz, sz, ny, sy, nx, sx
}

// panels are the weights of a product in the layout of internal/gemm: for each
// group of columns, panels of 64 columns by padded K. Shifted weights that do not
// all fit 8 bits are data + 2^highBits·high.
type panels struct {
	data     []int8
	high     []int8
	size     int64 // of a panel
	perGroup int64 // panels of a group
}

// packKey identifies panels: where the tiles lie in the constants and how a
// product reads them.
type packKey struct {
	src, ktiles          int64
	nseg, segLen, n, per int64 // per: columns of a tile that are live
	wbits, shifts, row0  int64
	grouped              bool
}

// weights are all panels of a program.
type weights struct {
	consts []byte
	shape  *effect.Shape
	mu     sync.RWMutex
	packed map[packKey]*lazyPanels
}

type lazyPanels struct {
	once   sync.Once
	panels panels
}

func (w *weights) init(consts []byte, shape *effect.Shape) {
	w.consts, w.shape, w.packed = consts, shape, map[packKey]*lazyPanels{}
}

// key finds the tiles at address ws of a cluster that a product uses; src counts
// from the start of what was written when that is not nil.
func (w *weights) key(r *residentWeights, ws int64, p *product) (packKey, *written, error) {
	b, ok := r.find(ws)
	tile := w.shape.TileBytes(p.wbits, p.shifts)
	ktiles := (p.row0 + p.nseg*p.segLen + w.shape.Rows - 1) / w.shape.Rows
	skip := (ws - b.ws) / tile * p.ksplit // tiles along K behind the start of the block
	switch {
	case !ok:
		return packKey{}, nil, fmt.Errorf("no weights have been loaded at %d of the weight SRAM", ws)
	case (ws-b.ws)%tile != 0 || b.ksplit != p.ksplit || b.wbits != p.wbits || b.shifts != p.shifts || p.ntiles > b.ntiles || p.rsplit > b.rsplit ||
		p.rsplit > 1 && p.ntiles != b.ntiles || skip+ktiles > b.ktiles:
		return packKey{}, nil, fmt.Errorf("the weights at %d of the weight SRAM were loaded as %d×%d tiles of %d bit, shifts %d, over %d K and %d row parts; the product wants %d×%d from tile %d on, %d bit, shifts %d, %d, %d",
			b.ws, b.ktiles, b.ntiles, b.wbits, b.shifts, b.ksplit, b.rsplit, ktiles, p.ntiles, skip, p.wbits, p.shifts, p.ksplit, p.rsplit)
	}
	per := w.shape.ArrayCols(p.wbits)
	if p.grouped {
		per = p.n / p.ntiles
	}
	return packKey{src: b.src + skip*tile, ktiles: b.ktiles, nseg: p.nseg, segLen: p.segLen, n: p.n, per: per, wbits: p.wbits, shifts: p.shifts, row0: p.row0, grouped: p.grouped}, b.written, nil
}

// get returns the panels of a key, unpacking them on first use.
func (w *weights) get(k packKey) *panels {
	w.mu.RLock()
	l := w.packed[k]
	w.mu.RUnlock()
	if l == nil {
		w.mu.Lock()
		if l = w.packed[k]; l == nil {
			l = &lazyPanels{}
			w.packed[k] = l
		}
		w.mu.Unlock()
	}
	l.once.Do(func() { l.panels = w.pack(&k, w.consts, nil) })
	return &l.panels
}

// pack unpacks tiles of some memory into panels, in buf when it is large enough.
func (w *weights) pack(k *packKey, tiles []byte, buf []int8) panels {
	groups, cols := int64(1), k.n
	if k.grouped {
		groups, cols = k.n/k.per, k.per
	}
	padded := (k.segLen + 3) &^ 3
	out := panels{size: int64(gemm.PanelBytes(int(k.nseg * padded))), perGroup: (cols + gemm.PanelCols - 1) / gemm.PanelCols}
	fill := func(part weightPart) (data []int8, fits bool) {
		data, fits = grow(&buf, groups*out.perGroup*out.size), true
		if len(data) == 0 {
			return data, true
		}
		for g := range groups {
			for p := range out.perGroup {
				first := p * gemm.PanelCols
				panel := data[(g*out.perGroup+p)*out.size:][:out.size]
				words := unsafe.Slice((*uint32)(unsafe.Pointer(&panel[0])), len(panel)/4)
				fits = w.unpack(words, k, tiles, g*cols+first, min(cols-first, gemm.PanelCols), part) && fits
				gemm.FinishPanel(panel, int(k.nseg*padded))
			}
		}
		return data, fits
	}
	var fits bool
	if out.data, fits = fill(wholeWeight); !fits {
		out.data, _ = fill(lowPart)
		buf = nil
		out.high, _ = fill(highPart)
	}
	return out
}

// weightPart is what of a shifted weight a panel holds.
type weightPart uint8

const (
	wholeWeight weightPart = iota
	lowPart                // the lowest highBits bits, not negative
	highPart               // the rest over 2^highBits
)

// highBits cuts shifted weights, of up to 8 + 7 bits, into parts that fit 8.
const highBits = 7

// shiftMask takes from the byte of a block what it shifts by.
const shiftMask = 7

// of returns a part of a weight, and whether it fits 8 bits.
func (p weightPart) of(w int8, shift byte) (part byte, fits bool) {
	v := int32(w) << (shift & shiftMask)
	switch p {
	case lowPart:
		v &= 1<<highBits - 1
	case highPart:
		v >>= highBits
	}
	return byte(v), int32(int8(v)) == v
}

// unpack writes columns first..first+n-1 of the weight matrix, or a part of each
// weight, to a panel: 64 words for each four rows of a segment, a word holding the four
// weights of one column, the first in the lowest byte. It reports whether all
// weights fit.
func (w *weights) unpack(panel []uint32, k *packKey, tiles []byte, first, n int64, part weightPart) bool {
	rows, tile := w.shape.Rows, w.shape.TileBytes(k.wbits, k.shifts)
	tileCols := w.shape.ArrayCols(k.wbits)
	rowBytes, all := tileCols*k.wbits/8, true
	var unpacked [4][gemm.PanelCols]byte
	for s := range k.nseg {
		for x := int64(0); x < k.segLen; x += 4 {
			for c := int64(0); c < n; {
				nt, col := (first+c)/k.per, (first+c)%k.per
				run := min(n-c, k.per-col) // columns within one tile
				var four [4][]byte
				for r := range four {
					if x+int64(r) >= k.segLen {
						four[r] = noWeights[:run]
						continue
					}
					i := k.row0 + s*k.segLen + x + int64(r)
					base := k.src + (nt*k.ktiles+i/rows)*tile
					at := base + i%rows*rowBytes
					row := tiles[at : at+rowBytes]
					if k.wbits == 8 {
						four[r] = row[col : col+run]
					} else {
						four[r] = nibbles(unpacked[r][:run], row, col)
					}
					if k.shifts != 0 {
						to := unpacked[r][:run]
						for j, s := range tiles[base+rows*rowBytes+i%rows/w.shape.ShiftRows*tileCols+col:][:run] {
							v, fits := part.of(int8(four[r][j]), s)
							to[j], all = v, all && fits
						}
						four[r] = to
					}
				}
				interleave(panel[c:c+run], four)
				c += run
			}
			clear(panel[n:gemm.PanelCols])
			panel = panel[gemm.PanelCols:]
		}
	}
	return all
}

var noWeights [gemm.PanelCols]byte

// nibbles sign-extends len(dst) 4-bit weights of a row from column col on.
func nibbles(dst, row []byte, col int64) []byte {
	for j := range dst {
		x := row[(col+int64(j))/2]
		if (col+int64(j))%2 == 0 {
			x <<= 4
		}
		dst[j] = byte(int8(x) >> 4)
	}
	return dst
}

// interleave makes words of four rows of bytes.
func interleave(dst []uint32, rows [4][]byte) {
	r0, r1, r2, r3 := rows[0][:len(dst)], rows[1][:len(dst)], rows[2][:len(dst)], rows[3][:len(dst)]
	for j := range dst {
		dst[j] = uint32(r0[j]) | uint32(r1[j])<<8 | uint32(r2[j])<<16 | uint32(r3[j])<<24
	}
}

// prepackSteps bounds how far prepack looks into a stream.
const prepackSteps = 1 << 20

// prepack unpacks the weights of all products before the first run. It follows
// each cluster's loadw, storew, loada and mvm; what it misses, because of a fault or because a
// stream is very long, get unpacks later.
func (m *Machine) prepack() {
	resident := make([]residentWeights, len(m.clusters))
	var keys []packKey
	seen := map[packKey]bool{}
	var cur sequence.Cursor
	var eff effect.Effect
	for _, streams := range [][]isa.Stream{m.prog.Init, m.prog.Main} {
		for id := range streams {
			cur.Start(&streams[id])
			var st sequence.Step
			for range prepackSteps {
				ok, err := cur.Next(&st)
				if !ok || err != nil {
					break
				}
				if st.Op != isa.OpLoadW && st.Op != isa.OpStoreW && st.Op != isa.OpLoadA && st.Op != isa.OpMVM {
					continue
				}
				eff.Of(st.Op, st.Args, &m.shape)
				if eff.Check(&m.limits) != nil || st.Op == isa.OpLoadW && eff.Regions()[0].Hi > int64(len(m.prog.Consts)) {
					break
				}
				if st.Op == isa.OpLoadW {
					b := blockOf(st.Args, eff.Regions()[1])
					for i := st.Args[isa.LoadWFirst]; i < st.Args[isa.LoadWFirst]+st.Args[isa.LoadWCount]; i++ {
						resident[i].put(b)
					}
					continue
				}
				if st.Op == isa.OpStoreW || st.Op == isa.OpLoadA { // not known yet
					resident[id].put(storedBlock(st.Args, &m.shape, eff.Regions()[1]))
					continue
				}
				p, _, _, _, _, _, _ := productOf(st.Args)
				if k, dyn, err := m.weights.key(&resident[id], st.Args[isa.MVMWs], &p); err == nil && dyn == nil && !seen[k] {
					seen[k] = true
					keys = append(keys, k)
				}
			}
		}
	}
	var wg sync.WaitGroup
	next := make(chan packKey)
	for range runtime.GOMAXPROCS(0) {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for k := range next {
				m.weights.get(k)
			}
		}()
	}
	for _, k := range keys {
		next <- k
	}
	close(next)
	wg.Wait()
}
