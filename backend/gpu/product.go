package gpu

import (
	"fmt"
	"math"

	gen "situ/backend/gpu/kernel"
	"situ/ir"
)

// tensorKind is which tensor-core rate a product runs at.
type tensorKind uint8

const (
	lanesOnly tensorKind = iota // no tensor cores
	tensorInt8
	tensorHalf // bf16 and fp16
	tensorTF32 // float32 operands with shortened mantissas
)

// dims is a product as count independent matrix products [m,k] × [k,n].
type dims struct {
	kind         tensorKind
	count        float64
	m, n, k      float64
	kPadded      float64 // k with channels padded to whole words
	aBits, bBits float64 // of an element as it is stored and moved
	blocks       bool    // weights in blocks
}

func (d dims) macs() float64 { return d.count * d.m * d.n * d.k }

// elemBytes is the size of an operand element as the tensor cores take it.
func (d dims) elemBytes() float64 {
	switch d.kind {
	case tensorHalf:
		return 2
	case tensorTF32:
		return 4
	}
	return 1
}

// dims gives the matrix product that op stands for.
func (p *plan) dims(op *ir.Op) dims {
	a, b := p.g.Type(op.In[0]), p.g.Type(op.In[1])
	d := dims{count: 1, aBits: float64(a.DType.Bits()), bBits: float64(b.DType.Bits())}
	switch {
	case a.DType.IsInt() && a.DType.Bits() <= 8 && b.DType.IsInt() && b.DType.Bits() <= 8:
		d.kind = tensorInt8
	case a.DType == ir.F16 || a.DType == ir.BF16:
		d.kind = tensorHalf
	case a.DType == ir.F32:
		d.kind = tensorTF32
	}
	if q := b.Quant; q != nil && q.Block > 0 {
		d.blocks = true
		d.bBits += 8 / float64(q.Block)
	}
	batchA, batchB := 1.0, 1.0
	if p.live[op.In[0]] {
		batchA = p.batch
	}
	if p.live[op.In[1]] {
		batchB = p.batch
	}
	if attr, ok := op.Attr.(*ir.ConvAttr); ok {
		o := p.g.Type(op.Out).Shape
		groups := float64(attr.Groups)
		d.count = groups
		d.m = float64(o[0]) * float64(o[1]) * float64(o[2])
		if batchB > 1 { // weights differ from input to input
			d.count *= batchB
		} else {
			d.m *= batchA
		}
		d.n = float64(o[3]) / groups
		window := float64(b.Shape[1]) * float64(b.Shape[2])
		d.k = window * float64(b.Shape[3])
		word := 4 / d.elemBytes()
		d.kPadded = window * roundUp(float64(b.Shape[3]), word)
		if attr.Groups > 1 && (b.Shape[3] < 16 || d.n < 16) {
			d.kind = lanesOnly // depthwise and narrow groups leave tensor cores empty
		}
		return d
	}
	ra, rb := len(a.Shape), len(b.Shape)
	d.m, d.k, d.n = float64(a.Shape[ra-2]), float64(a.Shape[ra-1]), float64(b.Shape[rb-1])
	d.kPadded = d.k
	leadA, leadB := float64(ir.Numel(a.Shape[:ra-2])), float64(ir.Numel(b.Shape[:rb-2]))
	lead := float64(ir.Numel(p.g.Type(op.Out).Shape)) / (d.m * d.n)
	switch {
	case leadB == 1 && batchB == 1: // one b for all rows
		d.m *= leadA * batchA
	default:
		d.count = lead * max(batchA, batchB)
	}
	return d
}

// tile is how a product is cut: thread blocks of m×n results, the inner dimension
// split among splitK blocks.
type tile struct{ m, n, splitK float64 }

func (t tile) String() string {
	if t.splitK > 1 {
		return fmt.Sprintf("tiles %g×%g, inner dimension split by %g", t.m, t.n, t.splitK)
	}
	return fmt.Sprintf("tiles %g×%g", t.m, t.n)
}

const (
	stages          = 3         // shared-memory buffers a thread block keeps in flight
	stageBytes      = 128       // bytes of the inner dimension in one buffer
	maxAccBytes     = 128 << 10 // accumulators of one thread block: half a register file
	warpGroupInst   = 1 << 15   // instructions of more multiply-accumulates belong to a warp group
	splitLatencyS   = 1e-6      // meeting of the blocks that share a result
	operandFragment = 1.0/8 + 1.0/16
	unpackOps       = 7.0 / 8 // lane operations to make a byte of a weight of 4 bits: seven make eight
)

// product returns the cost of the cheapest tile.
func (m *machine) product(p *plan, k *kernel, d dims, dram float64) cost {
	var best cost
	for _, tm := range []float64{16, 32, 64, 128, 256} {
		for _, tn := range []float64{16, 32, 64, 128, 256} {
			if max(tm, tn) < 64 || 4*tm*tn > maxAccBytes || stages*(tm+tn)*stageBytes > m.Shared.Bytes.Value {
				continue
			}
			for split := 1.0; split <= 32; split *= 2 {
				if split > 1 && d.kPadded*d.elemBytes() < split*2*stageBytes {
					break
				}
				c := m.tiled(p, k, d, tile{tm, tn, split}, dram)
				if best.mapping == "" || c.seconds() < best.seconds() {
					best = c
				}
			}
		}
	}
	return best
}

// tiled returns the cost of a product under one tile.
func (m *machine) tiled(p *plan, k *kernel, d dims, t tile, dram float64) cost {
	size := d.elemBytes()
	rate, macFJ, depth := m.Tensor.Int8MACs.Value, m.Tensor.Int8EnergyFJ.Value, m.Tensor.InstDepth.Value
	instMACs := m.Tensor.InstMACs.Value
	if d.kind != tensorInt8 {
		rate, macFJ = m.Tensor.BF16MACs.Value, m.Tensor.BF16EnergyFJ.Value
		if d.kind == tensorTF32 {
			rate, macFJ = rate/2, 2*macFJ
		}
		depth, instMACs = depth/size, instMACs/size
	}
	rowsOfTiles, colsOfTiles := math.Ceil(d.m/t.m), math.Ceil(d.n/t.n)
	blocks := d.count * rowsOfTiles * colsOfTiles * t.splitK
	depthOfBlock := roundUp(d.kPadded/t.splitK, depth)
	perSM := math.Ceil(blocks / m.sms) // thread blocks of the busiest SM
	busy := min(blocks, m.sms)

	c := cost{macs: d.macs(), macFJ: macFJ, peakRate: rate, issued: blocks * t.m * t.n * depthOfBlock, mapping: t.String()}
	c.insts = c.issued / instMACs

	// Shared memory: a warp (or warp group) reads its rows of a and its columns of
	// b for each step of the inner dimension.
	rows, cols := max(t.m, t.n), min(t.m, t.n) // the operand with more rows takes the instruction's long side
	var readPerStep float64
	if instMACs >= warpGroupInst/size {
		readPerStep = rows + math.Ceil(rows/64)*cols
	} else {
		wr, wc := min(64, max(16, rows/2)), min(64, max(16, cols/2))
		readPerStep = math.Ceil(rows/wr) * math.Ceil(cols/wc) * (wr + wc)
	}
	c.sharedRead = blocks * readPerStep * depthOfBlock * size
	c.sharedFill = blocks * (t.m + t.n) * depthOfBlock * size

	// Registers: accumulators are read and written once an instruction, operand
	// fragments are written when they come from shared memory and read by the
	// instruction; warp-group instructions take operands from shared memory.
	c.register = c.issued / depth * 8
	if instMACs < warpGroupInst/size {
		c.register += c.sharedRead + c.issued*operandFragment*size
	}
	c.ops = p.laneOps(&p.g.Ops[k.lead]) + p.fusedOps(k)
	if d.blocks { // the sums of each block are multiplied and added
		c.ops += c.issued / gen.BlockK
	}
	if d.bBits < 8 { // each warp makes bytes of its columns
		c.ops += unpackOps * blocks * math.Ceil(t.m/64) * t.n * depthOfBlock
	}
	c.register += 12 * c.ops

	// L2: each block column reads a, each block row reads b; the rest once.
	a, b := d.count*d.m*d.k*d.aBits/8, d.count*d.n*d.k*d.bBits/8
	c.l2 = m.fetched(a*colsOfTiles, b*rowsOfTiles, rowsOfTiles, colsOfTiles) + p.epilogueBytes(k)
	if t.splitK > 1 {
		c.l2 += 2 * t.splitK * 4 * d.count * d.m * d.n
	}
	lead := &p.g.Ops[k.lead]
	c.dram = dram + m.refetched(d, t, p.bytes(lead.In[0]), p.bytes(lead.In[1]))

	perBlock := t.m * t.n * depthOfBlock
	c.tensorS = perSM * perBlock / (rate * m.hz * m.Ceiling.Tensor.Value)
	c.sharedS = perSM * (c.sharedRead + c.sharedFill) / blocks / m.shared
	m.spread(&c, busy)
	waves := math.Ceil(perSM / m.resident(t))
	c.fixedS = m.launch + m.ramp + (waves-1)*m.wave
	if t.splitK > 1 {
		c.fixedS += splitLatencyS
	}
	return c
}

// fetched is what the SMs fetch from L2 for the tiles of both operands, a and b
// bytes in all, when neighbouring thread blocks share the fetches of one of them.
func (m *machine) fetched(a, b, rowsOfTiles, colsOfTiles float64) float64 {
	alongRow, alongCol := min(m.L2.Multicast.Value, colsOfTiles), min(m.L2.Multicast.Value, rowsOfTiles)
	return min(a/alongRow+b, a+b/alongCol)
}

// resident is how many thread blocks of a tile fit on one SM.
func (m *machine) resident(t tile) float64 {
	byShared := m.Shared.Bytes.Value / (stages * (t.m + t.n) * stageBytes)
	byRegisters := m.Register.Bytes.Value / (4*t.m*t.n*1.5 + 16<<10) // accumulators, fragments and addresses
	return max(1, math.Floor(min(byShared, byRegisters)))
}

// epilogueBytes is what a product's kernel moves besides its two operands: bias,
// operands of the operators fused behind it, and the result.
func (p *plan) epilogueBytes(k *kernel) float64 {
	total := p.bytes(k.out)
	for _, v := range p.g.Ops[k.lead].In[2:] {
		if v >= 0 {
			total += p.bytes(v)
		}
	}
	for _, i := range k.fused {
		for _, v := range p.g.Ops[i].In {
			if v < 0 {
				continue
			}
			for _, root := range p.roots(v, nil) {
				if !k.computes(int(p.g.Values[root].Def)) {
					total += p.bytes(root)
				}
			}
		}
	}
	return total
}

// refetched is the DRAM traffic beyond reading each operand (a and b bytes in
// memory) once, for operands that do not stay in L2: thread blocks that run
// together form a nearly square patch of the result and share its rows of a and
// columns of b; a is read again for each column of patches, b for each row.
func (m *machine) refetched(d dims, t tile, a, b float64) float64 {
	capacity := m.L2.Bytes.Value * m.L2.UsableFraction.Value
	together := m.sms * m.resident(t)
	patchRows := min(math.Ceil(d.m/t.m), max(1, math.Round(math.Sqrt(together*t.n/t.m))))
	patchCols := min(math.Ceil(d.n/t.n), max(1, math.Floor(together/patchRows)))
	timesA := math.Ceil(d.n / (patchCols * t.n))
	timesB := math.Ceil(d.m / (patchRows * t.m))
	return (1-hit(a, capacity))*a*(timesA-1) + (1-hit(b, capacity))*b*(timesB-1)
}

func roundUp(x, to float64) float64 { return math.Ceil(x/to) * to }
