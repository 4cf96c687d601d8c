package pim

import (
	"fmt"

	"situ/arch"
	"situ/backend/pim/isa"
	"situ/ir"
)

// product is a convolution or matrix product in the arrays. A matrix product is
// a convolution with a kernel of one.
type product struct {
	window
	groups     int
	cin, cout  int // channels of one group's input, and of the result
	w          weights
	rq         requants
	scales     []float32 // of a float32 result, per channel; nil for codes
	raw        bool      // the result is the sums as they are, int32
	zero       int64
	lo, hi     int64
	parts      []*part // of each cluster; nil where it takes no part
	different  []*part // those, each once
	spare      []*part // memory of parts, those that are in use first
	grouped    bool    // the groups' tiles run side by side: a group fits a tile's columns
	cols, rows int     // of a tile
	maps       *mapper // of the chip
}

// weights are the codes of a product's weights less their zero points. As that
// difference may not fit the arrays' numbers, it is the sum of planes, or of weights
// in blocks the sum of two parts, see hold.
type weights struct {
	form   arch.Weights // as they lie in the arrays
	planes int
	part   int // bits of the low one of two parts, 0 without parts
	rows   int // of a column that share a shifter, of weights with shifts

	blocks     *ir.Quant // of weights in blocks, nil for others
	perChannel int       // weights of a channel
	codeBits   int       // of their codes
	s8         []int8
	u8         []uint8
	zero       []int32
	// described is the type of weights that have no values, ir.Invalid for others.
	described ir.DType
	// Element (o, y, x, c) lies at o·so + (y·kw + x)·st + c·sc.
	so, st, sc int
}

// at returns a code less its zero point, times the power of two of its block
// unless the arrays' shifters see to that.
func (w *weights) at(o, tap, c int) int32 {
	i := o*w.so + tap*w.st + c*w.sc
	z := w.zero[0]
	if len(w.zero) > 1 {
		z = w.zero[o]
	}
	v := int32(0)
	if w.s8 != nil {
		v = int32(w.s8[i]) - z
	} else {
		v = int32(w.u8[i]) - z
	}
	if !w.form.Blocks {
		v <<= w.shift(o, tap, c)
	}
	return v
}

// plane returns the part of v that plane p holds.
func (w *weights) plane(v int32, p int) int8 {
	if w.part > 0 {
		return w.slice(v, p)
	}
	for ; p > 0; p-- {
		v -= min(max(v, -128), 127)
	}
	return int8(min(max(v, -128), 127))
}

// part is what one cluster, or several that share weights, compute of a product:
// channels [c0, c1).
type part struct {
	c0, c1       int
	first, count int // clusters
	m            Mapping
	chunks       []chunk
	streamed     bool
}

// chunk is the columns of one mvm.
type chunk struct {
	c0, n  int // channels of the result
	tiles  int
	source int   // first channel of the operand
	params int64 // offset of the requantisation in the part's constants
	units  []unit
}

// unit is a range of K, with its weights as they lie in DRAM. Ranges are such
// that the K segments stay regular: only the innermost that is cut may be
// partial, and all outside it then hold a single index.
type unit struct {
	p0, p1, y0, y1, x0, x1, k0, k1 int // planes, kernel rows, kernel columns, channels
	lead                           int // rows of the first tile that stay free
	ktiles                         int
	dram, ws                       int64
}

func (u *unit) k() int { return (u.p1 - u.p0) * (u.y1 - u.y0) * (u.x1 - u.x0) * (u.k1 - u.k0) }

func (u *unit) bytes(tiles int, tile int64) int64 { return int64(tiles*u.ktiles) * tile }

func (k *product) need(_ int, out box) box {
	b := k.over(out)
	if out.empty() {
		return b
	}
	if k.groups == 1 {
		return b.along(3, 0, k.cin)
	}
	per := k.cout / k.groups
	return b.along(3, out.lo[3]/per*k.cin, ((out.hi[3]-1)/per+1)*k.cin)
}

// paramBytes returns what the instruction behind the sums reads for a channel.
func (k *product) paramBytes() int {
	switch {
	case k.raw:
		return 4
	case k.scales != nil:
		return 8
	}
	return 12
}

func (k *product) cuts() [4]bool { return [4]bool{true, true, true, false} }

func (k *product) grain() int {
	if k.groups > 1 {
		return k.cout / k.groups
	}
	return k.cols
}

// fit takes the shape of tiles from a chip.
func (k *product) fit(c *arch.Chip) {
	k.rows, k.cols = int(c.Array.Rows.Int()), int(c.Cols(k.w.form.Bits))
	k.grouped = k.groups > 1 && k.cout/k.groups <= k.cols
}

// kTotal returns the length of K of one group.
func (k *product) kTotal() int { return k.w.planes * k.kernel[0] * k.kernel[1] * k.cin }

func (k *product) problem(out box) Problem {
	m := int64(out.ext(0)) * int64(out.ext(1)) * int64(out.ext(2))
	g := int64(1)
	if k.groups > 1 {
		g = max(int64(out.ext(3)/(k.cout/k.groups)), 1)
	}
	slices := int64(k.w.slices())
	return Problem{M: m, K: int64(k.kTotal()) / slices, N: int64(out.ext(3)), Groups: g, Weights: k.w.form, Slices: slices}
}

// noMapping is more cycles than any part of a product takes for which there is a mapping.
const noMapping = 1 << 48

func (k *product) cycles(_ *arch.Chip, out box) int64 {
	m, ok := k.maps.best(k.problem(out))
	if !ok {
		return noMapping
	}
	return m.Cycles
}

// macs returns the useful multiply-accumulates of the whole product.
func (k *product) macs(out dims) int64 {
	return out.numel() * int64(k.kernel[0]*k.kernel[1]*k.cin)
}

// makePart makes a part of which it cuts the channels [out.lo, out.hi) into chunks
// and K into units. unitTiles limits the tiles a core holds of one unit; 0 means no
// limit.
func (k *product) makePart(out box, m Mapping, unitTiles int64) *part {
	n := len(k.different)
	if n == len(k.spare) {
		k.spare = append(k.spare, &part{})
	}
	p := k.spare[n]
	k.different = k.spare[:n+1]
	*p = part{c0: out.lo[3], c1: out.hi[3], m: m, chunks: p.chunks[:0]}
	per := k.cout
	if k.groups > 1 {
		per = k.cout / k.groups
	}
	var params int64
	add := func(c0, n, tiles, source int) {
		var memory []unit
		if i := len(p.chunks); i < cap(p.chunks) {
			memory = p.chunks[:i+1][i].units[:0]
		}
		p.chunks = append(p.chunks, chunk{c0: c0, n: n, tiles: tiles, source: source, params: params, units: k.units(memory, m, unitTiles)})
		params += int64(k.paramBytes() * n)
	}
	nt := int(m.NTiles)
	if k.grouped {
		for g := p.c0 / per; g < p.c1/per; g += nt {
			n := min(nt, p.c1/per-g)
			add(g*per, n*per, n, g*k.cin)
		}
		return p
	}
	for g := p.c0 / per; g*per < p.c1; g++ {
		lo, hi := max(g*per, p.c0), min((g+1)*per, p.c1)
		tiles := (hi - lo + k.cols - 1) / k.cols
		chunks := (tiles + nt - 1) / nt
		each := (tiles + chunks - 1) / chunks // tiles of a chunk, evenly
		for c := lo; c < hi; c += each * k.cols {
			n := min(each*k.cols, hi-c)
			add(c, n, (n+k.cols-1)/k.cols, g*k.cin)
		}
	}
	return p
}

// units appends the units into which K is cut so that a core holds at most
// unitTiles tiles of each.
func (k *product) units(out []unit, m Mapping, unitTiles int64) []unit {
	all := unit{p1: k.w.planes, y1: k.kernel[0], x1: k.kernel[1], k1: k.cin, ws: -1}
	budget := int(unitTiles*m.KSplit) * k.rows
	if k.w.part > 0 { // the parts are products of their own
		for all.p0, all.p1 = 0, 1; all.p0 < k.w.planes; all.p0, all.p1 = all.p1, all.p1+1 {
			out = k.cutUnits(out, all, budget)
		}
		return out
	}
	return k.cutUnits(out, all, budget)
}

// cutUnits appends all, cut so that no unit takes more than budget rows of K, 0 for
// any number.
func (k *product) cutUnits(out []unit, all unit, budget int) []unit {
	if budget == 0 || budget >= all.k() {
		k.setTiles(&all)
		return append(out, all)
	}
	if k.w.form.Blocks && k.cin%k.w.rows != 0 { // leads take rows, too
		budget -= k.w.rows - 1
	}
	// Cut the outermost index such that what is inside fits.
	cut := func(u unit, from, to, inner int, set func(*unit, int, int)) {
		step := max(budget/inner, 1)
		for i := from; i < to; i += step {
			set(&u, i, min(i+step, to))
			k.setTiles(&u)
			out = append(out, u)
		}
	}
	kh, kw, c := k.kernel[0], k.kernel[1], k.cin
	if budget >= kh*kw*c {
		cut(all, all.p0, all.p1, kh*kw*c, func(u *unit, i, j int) { u.p0, u.p1 = i, j })
		return out
	}
	for p := all.p0; p < all.p1; p++ {
		u := all
		u.p0, u.p1 = p, p+1
		if budget >= kw*c {
			cut(u, 0, kh, kw*c, func(u *unit, i, j int) { u.y0, u.y1 = i, j })
			continue
		}
		for y := range kh {
			u.y0, u.y1 = y, y+1
			if budget >= c {
				cut(u, 0, kw, c, func(u *unit, i, j int) { u.x0, u.x1 = i, j })
				continue
			}
			for x := range kw {
				u.x0, u.x1 = x, x+1
				step := budget / k.rows * k.rows
				if step == 0 {
					step = budget
				}
				for i := 0; i < c; i += step {
					u.k0, u.k1 = i, min(i+step, c)
					k.setTiles(&u)
					out = append(out, u)
				}
			}
		}
	}
	return out
}

// coreBytes returns what a chunk takes of each core's weight SRAM.
func (ch *chunk) coreBytes(m *Mapping, tile int64) int64 {
	n := int64(0)
	for i := range ch.units {
		n += ceilDiv(int64(ch.units[i].ktiles), m.KSplit) * tile
	}
	return n
}

// dramBytes returns a chunk's weights as they lie in DRAM.
func (ch *chunk) dramBytes(tile int64) int64 {
	n := int64(0)
	for i := range ch.units {
		n += ch.units[i].bytes(ch.tiles, tile)
	}
	return n
}

// coreBytes returns what a part takes of each core's weight SRAM when resident.
func (p *part) coreBytes(tile int64) int64 {
	n := int64(0)
	for i := range p.chunks {
		n += p.chunks[i].coreBytes(&p.m, tile)
	}
	return n
}

// partOf returns the part that covers a box's channels.
func (k *product) partOf(out box) *part {
	for _, p := range k.parts {
		if p != nil && p.c0 == out.lo[3] && p.c1 == out.hi[3] {
			return p
		}
	}
	panic(fmt.Sprintf("pim: no part for channels %d..%d", out.lo[3], out.hi[3]))
}

// params is the requantisation of the part's chunks, one after the other.
func (k *product) params(out box) []byte {
	var b []byte
	chunks := k.partOf(out).chunks
	for _, ch := range chunks {
		if k.scales == nil && !k.raw {
			if len(chunks) == 1 {
				return k.rq.bytes(ch.c0, ch.c0+ch.n)
			}
			b = append(b, k.rq.bytes(ch.c0, ch.c0+ch.n)...)
			continue
		}
		b = int32s(b, k.rq.bias[ch.c0:ch.c0+ch.n]...)
		if k.raw {
			continue
		}
		for _, s := range k.scales[ch.c0 : ch.c0+ch.n] {
			b = int32s(b, int32(uint32(f32bits(s))))
		}
	}
	return b
}

func (k *product) emit(e *emitter, out box, dst view, src []view) {
	p := k.partOf(out)
	for i := range p.chunks {
		if e.chunk >= 0 && e.chunk != i {
			continue
		}
		ch := &p.chunks[i]
		for _, strip := range k.strips(e.chip, p, ch, out) {
			k.emitStrip(e, p, ch, strip, dst, src[0])
		}
	}
}

// strips cuts the input vectors so that the sums of a strip fit half of the
// accumulators, or all of them when half is too little.
func (k *product) strips(c *arch.Chip, p *part, ch *chunk, out box) []box {
	acc := accumulators(c)
	limit := int(acc / 2 / int64(4*ch.n))
	if limit < 1 {
		limit = int(acc / int64(4*ch.n))
	}
	limit = max(min(limit, int(p.m.Rows)), 1)
	var bs []box
	for _, b := range out.pieces(0, out.ext(0), 1) {
		w := out.ext(2)
		if w > limit {
			for _, row := range b.pieces(1, b.ext(1), 1) {
				bs = append(bs, row.pieces(2, (w+limit-1)/limit, 1)...)
			}
			continue
		}
		rows := limit / w
		bs = append(bs, b.pieces(1, (b.ext(1)+rows-1)/rows, 1)...)
	}
	return bs
}

// emitStrip computes the sums of one strip for one chunk, and their results.
func (k *product) emitStrip(e *emitter, p *part, ch *chunk, out box, dst, s view) {
	bytes := int64(4*ch.n) * int64(out.ext(1)*out.ext(2))
	acc := e.accumulator(bytes)
	origin := k.over(out).lo
	origin[3] = ch.source
	step := int64(0)
	if k.grouped && ch.tiles > 1 {
		step = int64(k.cin) * s.st[3]
	}
	for i := range ch.units {
		u := &ch.units[i]
		at := origin
		at[1] += u.y0 * k.dilation[0]
		at[2] += u.x0 * k.dilation[1]
		at[3] += u.k0
		nx, length := int64(u.x1-u.x0), int64(u.k1-u.k0)
		if k.dilation[1] == 1 && s.st[2] == length {
			nx, length = 1, nx*length
		}
		accumulate := int64(0)
		if i > 0 {
			accumulate = 1
			if k.w.part > 0 && u.p0 != ch.units[i-1].p0 {
				k.shiftSums(e, acc, int64(ch.n*out.ext(1)*out.ext(2)))
			}
		}
		e.emit(isa.OpMVM, acc, e.weights(p, ch, u, k.w.form), s.at(at),
			int64(out.ext(1)), int64(k.stride[0])*s.st[1], int64(out.ext(2)), int64(k.stride[1])*s.st[2],
			int64(u.p1-u.p0), 0, int64(u.y1-u.y0), int64(k.dilation[0])*s.st[1], nx, int64(k.dilation[1])*s.st[2], length,
			int64(ch.tiles), p.m.KSplit, p.m.RSplit, step, int64(ch.n), int64(k.w.form.Bits), accumulate, int64(u.lead), one(k.w.form.Blocks))
	}
	to := out.lo
	to[3] = ch.c0
	args := append(make([]int64, 0, 12), dst.at(to), acc, e.params+ch.params, int64(out.ext(1)), dst.st[1], int64(out.ext(2)), dst.st[2], int64(ch.n), int64(4*ch.n))
	if k.raw {
		e.emit(isa.OpStoreAcc, args...)
		return
	}
	if k.scales != nil {
		e.emit(isa.OpDequantAcc, args...)
		return
	}
	e.emit(isa.OpRequant, append(args, k.zero, k.lo, k.hi)...)
}

// accumulator returns where the sums of the next strip go: the half that the
// strip before did not use.
func (e *emitter) accumulator(bytes int64) int64 {
	all := accumulators(e.chip)
	half := all / 2 / 4 * 4
	if bytes > half {
		e.half[e.cluster] = 0
		return 0
	}
	at := e.half[e.cluster]
	e.half[e.cluster] = half - at
	return at
}

// describe says for people how the product is mapped.
func (k *product) describe(s *step, pl *plan) string {
	parts := k.different
	clusters := 0
	for _, q := range k.parts {
		if q != nil {
			clusters++
		}
	}
	p := parts[0]
	how := "resident"
	if p.streamed {
		how = "streamed"
	}
	if g := s.group; g != nil {
		how += fmt.Sprintf(", activations in %d strips of %d operators", g.pieces(&pl.steps[g.last].parts[p.first]), g.last-g.first+1)
	}
	return fmt.Sprintf("%d of %d clusters, %d by channels and %d by rows; cores %d columns × %d K × %d rows; %d products of %d passes; weights %s%s",
		clusters, pl.clusters, len(parts), clusters/len(parts), p.m.NTiles, p.m.KSplit, p.m.RSplit,
		len(p.chunks), ceilDiv(int64(k.kTotal()), int64(k.rows)*p.m.KSplit), how, k.w.holding())
}
