package pim

import (
	"fmt"
	"slices"

	"situ/arch"
	"situ/ir"
)

// Estimator predicts what programs of one graph cost on many chips, by the cost
// model with which Compile chooses, without writing programs. It lowers the
// graph once. An Estimator is not safe for concurrent use.
type Estimator struct{ l *lowering }

// Work is what one inference asks of a chip. Amounts are of bytes unless their
// name says otherwise, summed over clusters.
type Work struct {
	Clusters int     // that one copy of the program uses; 0 in a bound
	Cycles   float64 // from the input's first byte to the output's last
	Interval float64 // cycles between inputs at steady state, when copies of the program fill the chip
	Streamed bool    // weights are read from DRAM in every inference

	MACs, MACsInt4, VectorMACs, VectorOps, FloatOps int64

	ArrayWrite, InputLatch, AccRead, AccWrite    int64
	WeightRead, WeightWrite, SPRead, SPWrite     int64
	NoCByteHops, Link, DRAMRead, DRAMWrite       int64
	WeightBytes, InputBytes, OutputBytes, Layers int64 // of the model
}

// NewEstimator lowers g. The error names every operator that the back end does
// not take; c may be any chip.
func NewEstimator(g *ir.Graph, c *arch.Chip) (*Estimator, error) {
	l, err := lower(g, c)
	if err != nil {
		return nil, err
	}
	return &Estimator{l}, nil
}

// on makes c the chip of the steps.
func (e *Estimator) on(c *arch.Chip) {
	e.l.chip = c
	for _, s := range e.l.steps {
		if k, ok := s.kernel.(*product); ok {
			k.fit(c)
		}
	}
}

// Estimate predicts the program that Compile would choose, but for what spilling
// activations to DRAM costs. It is an error when a layer does not fit the chip.
func (e *Estimator) Estimate(c *arch.Chip, opt Options) (Work, error) {
	if total := c.NumClusters(); opt.Clusters < 0 || opt.Clusters > total {
		return Work{}, fmt.Errorf("%d clusters asked for, %s has %d", opt.Clusters, c.Name, total)
	}
	e.on(c)
	var firstErr error
	for _, how := range efforts {
		options, err := e.l.options(opt, how)
		if len(options) > 0 {
			p := &plan{lowering: e.l, clusters: options[0].clusters, effort: how, share: shares[0]}
			p.split()
			if _, err := p.placeWeights(); err != nil {
				return Work{}, err
			}
			return p.work(), nil
		}
		if firstErr == nil {
			firstErr = err
		}
	}
	return Work{}, firstErr
}

// transfers adds inputs and outputs, and what the model is.
func (l *lowering) transfers(w *Work) {
	for _, s := range l.steps {
		switch k := s.kernel.(type) {
		case *loader:
			w.InputBytes += s.out.dims.numel() * int64(s.out.elem)
		case *storer:
			w.OutputBytes += s.in[0].dims.numel() * int64(s.in[0].elem)
		case *product:
			w.WeightBytes += int64(k.kTotal()) * int64(k.cout) * int64(k.w.bits) / 8
			w.Layers++
		}
	}
}

// work sums what the steps of a split plan do.
func (p *plan) work() Work {
	w := Work{Clusters: p.clusters}
	p.transfers(&w)
	w.DRAMRead, w.DRAMWrite = w.InputBytes, w.OutputBytes
	w.SPWrite, w.SPRead = w.InputBytes, w.OutputBytes
	array, vector := make([]int64, p.clusters), make([]int64, p.clusters)
	for _, s := range p.steps {
		for j, part := range s.parts {
			if part.empty() {
				continue
			}
			switch k := s.kernel.(type) {
			case *loader, *storer:
			case *product:
				a, v := k.work(p.chip, k.parts[j], part, j, &w)
				array[j] += a
				vector[j] += v
			case *pair:
				a, v := k.work(p.chip, part, &w)
				array[j] += a
				vector[j] += v
			default:
				vectorWork(p.chip, s.kernel, part, &w)
				vector[j] += s.kernel.cycles(p.chip, part)
			}
		}
		moved := p.fetched(s)
		w.SPRead += moved
		w.SPWrite += moved
		w.NoCByteHops += 2 * moved
	}
	c := p.chip
	dies := ceilDiv(int64(p.clusters), c.ClustersPerDie.Int())
	transfer := float64(dramCycles(c, w.DRAMRead+w.DRAMWrite)) / float64(dies)
	w.NoCByteHops += w.DRAMRead + w.DRAMWrite
	ends := float64(dramCycles(c, w.InputBytes)+dramCycles(c, w.OutputBytes)) + 2*c.DRAM.LatencyNS.Value*c.ClockMHz.Value/1e3
	w.Cycles = max(float64(p.cycles), transfer) + ends
	copies := c.NumClusters() / p.clusters
	w.Interval = max(float64(max(slices.Max(array), slices.Max(vector)))/float64(copies), transfer*float64(dies)/c.Dies.Value, 1)
	return w
}

// fetched returns the bytes that clusters get from others before a step.
func (p *plan) fetched(s *step) int64 {
	n := int64(0)
	if p.clusters == 1 {
		return 0
	}
	for i, t := range s.in {
		st := t.store
		if st.data != nil || len(st.writers) == 0 {
			continue
		}
		for j, part := range s.parts {
			need := s.needs(i, part).and(whole(st.dims))
			have := int64(0)
			for _, w := range st.writers {
				if j < len(w.parts) && w != s {
					have += w.out.inStore(w.parts[j]).and(need).numel()
				}
			}
			n += max(need.numel()-have, 0) * int64(st.elem)
		}
	}
	return n
}

// work adds what part q of a product does on one cluster for the part out of
// the result, and returns how long arrays and vector unit are busy.
func (k *product) work(c *arch.Chip, q *part, out box, cluster int, w *Work) (array, vector int64) {
	pr := k.problem(out)
	m, tile := q.m, c.TileBytes(k.w.bits)
	k.count(pr, w)
	ktiles := ceilDiv(pr.K, int64(k.rows))
	passes := ceilDiv(ktiles, m.KSplit)
	w.AccWrite += 4 * pr.M * pr.N * (passes - 1)
	w.AccRead += 4 * pr.M * pr.N * (passes - 1)
	groups := int64(1)
	if k.groups > 1 {
		groups = 0 // each group's input is read by its own chunk
	}
	strips := max(m.Strips, 1)
	rows := ceilDiv(pr.M, strips)
	for i := range q.chunks {
		ch := &q.chunks[i]
		w.SPRead += pr.M * pr.K * groups
		times := strips
		if passes == 1 && m.Units == 1 {
			times = 1 // the arrays keep the weights
		}
		weights := ktiles * int64(ch.tiles) * m.RSplit * tile
		w.ArrayWrite += times * weights
		w.WeightRead += times * weights
		load := tileCycles(c, k.w.bits)
		one := m.Units*MVMCycles(c, rows, m.RSplit, ceilDiv(passes, m.Units), rows*ceilDiv(pr.K, passes), k.w.bits) - c.Array.PipelineCycles.Int()
		array += strips*one - (strips-times)*load
		vector += strips * RequantCycles(c, rows, int64(ch.n))
		w.SPRead += 12 * int64(ch.n) * (strips - 1)
		if q.streamed && cluster == q.first {
			w.Streamed = true
			w.DRAMRead += ch.dramBytes(tile)
			w.WeightWrite += ch.dramBytes(tile) * m.RSplit * int64(q.count)
		}
	}
	if groups == 1 {
		w.SPRead -= pr.M * pr.K // count has one of them
	}
	return array, vector
}

// count adds what no mapping of a product can avoid, weights apart.
func (k *product) count(pr Problem, w *Work) {
	sums := pr.M * pr.N
	if macs := sums * pr.K; k.w.bits == 4 {
		w.MACsInt4 += macs
	} else {
		w.MACs += macs
	}
	w.InputLatch += pr.M * pr.K * k.columnTiles(pr)
	w.SPRead += pr.M * pr.K * pr.Groups
	w.AccWrite += 4 * sums
	w.AccRead += 4 * sums
	w.SPRead += int64(k.paramBytes()) * pr.N
	countResults(sums, k.raw, k.scales != nil, w)
}

// countResults adds what the instructions behind sums do: those that store them
// as they are, as float32, or as codes.
func countResults(sums int64, raw, float bool, w *Work) {
	switch {
	case raw:
		w.VectorOps += sums
		w.SPWrite += 4 * sums
	case float:
		w.FloatOps += 2 * sums
		w.SPWrite += 4 * sums
	default:
		w.VectorOps += opsRequant * sums
		w.SPWrite += sums
	}
}

// columnTiles returns the tiles side by side along the columns of a product.
func (k *product) columnTiles(pr Problem) int64 {
	if pr.Groups <= 1 {
		return ceilDiv(pr.N, int64(k.cols))
	}
	return pr.Groups * ceilDiv(pr.N/pr.Groups, int64(k.cols))
}

// vectorWork adds what a step of the vector unit does at the least for a part of
// its result.
func vectorWork(c *arch.Chip, k kernel, out box, w *Work) {
	n := out.numel()
	switch k := k.(type) {
	case *addMul:
		ops := int64(opsMul)
		if k.n == 6 {
			ops = opsAdd
		}
		w.VectorOps += ops * n
		w.SPRead += n
		w.SPWrite += n
	case *mulAdd:
		w.VectorOps += opsMulAdd * n
		w.SPRead += n
		w.SPWrite += n
	case *lookup:
		w.VectorOps += opsLUT * n
		w.SPRead += n
		w.SPWrite += n
	case *softmax:
		w.VectorOps += opsSoftmax * n
		w.SPRead += 2 * n
		w.SPWrite += n
	case *norm:
		w.VectorOps += k.ops(out)
		w.SPRead += 2 * n
		w.SPWrite += n
	case *pool:
		taps := n * int64(k.kernel[0]*k.kernel[1])
		w.VectorOps += taps
		if k.mean {
			w.VectorOps += opsMean * n
		}
		w.SPRead += taps
		w.SPWrite += n
	case *depthwise:
		taps := n * int64(k.kernel[0]*k.kernel[1])
		w.VectorMACs += taps
		w.VectorOps += opsRequant * n
		w.SPRead += taps
		w.SPWrite += n
	case *convert:
		w.FloatOps += 2 * n
		w.SPRead += n
		w.SPWrite += n
	case *unaryF:
		w.FloatOps += 2 * n
		w.SPRead += 4 * n
		w.SPWrite += 4 * n
	case *binaryF:
		w.FloatOps += n
		w.SPRead += 4 * n
		w.SPWrite += 4 * n
	case *alongF:
		w.FloatOps += 2 * n
		w.SPRead += 4 * n
		w.SPWrite += 4 * n
	case *reduceF:
		w.FloatOps += k.in.numel()
		w.SPWrite += 4 * n
	case *move:
		w.SPWrite += n * int64(k.elem)
	}
}

// Bound returns work of which no program for c does less: neither fewer cycles,
// nor less of any amount. It takes every cluster as busy all the time with useful
// work, keeps all weights that fit on the chip, and lets layers overlap except
// where one needs a result of the other.
func (e *Estimator) Bound(c *arch.Chip) Work {
	e.on(c)
	var w Work
	e.l.transfers(&w)
	w.DRAMWrite, w.SPRead = w.OutputBytes, w.OutputBytes
	cores := float64(c.CoresPerCluster.Int() * int64(c.NumClusters()))
	var array, loads float64 // cycles of all cores
	for _, s := range e.l.steps {
		switch k := s.kernel.(type) {
		case *loader, *storer:
		case *product:
			pr := k.problem(whole(s.out.dims))
			k.count(pr, &w)
			tiles := ceilDiv(pr.K, int64(k.rows)) * k.columnTiles(pr)
			array += float64(pr.M * tiles * c.InputCycles())
			loads += float64(tiles * tileCycles(c, k.w.bits))
			w.ArrayWrite += tiles * c.TileBytes(k.w.bits)
			w.WeightRead += tiles * c.TileBytes(k.w.bits)
		case *pair: // in arrays or on the vector unit, neither of which can be left out of a bound
			k.count(int64(k.size[0]*k.size[1]*k.size[2]), &w)
		default:
			vectorWork(c, s.kernel, whole(s.out.dims), &w)
		}
	}
	if kept := c.Derived().WeightSRAMBytes; w.WeightBytes > kept {
		w.Streamed = true
		w.DRAMRead = w.WeightBytes - kept
		w.WeightWrite = w.DRAMRead
	}
	clusters := float64(c.NumClusters())
	vector := (float64(w.VectorOps)/c.Vector.Lanes.Value + float64(w.FloatOps)/c.Vector.F32Lanes.Value +
		float64(w.VectorMACs)/(c.Vector.Lanes.Value*c.Vector.MACsPerLane.Value)) / clusters
	dram := float64(w.DRAMRead+w.DRAMWrite) / (c.DRAM.GBs.Value * 1e9) * c.ClockMHz.Value * 1e6
	w.Interval = max(array/cores, vector, dram)
	if c.Array.WeightSets.Int() < 2 {
		array += loads
	}
	w.Cycles = max(array/cores, vector, dram, e.l.chain())
	return w
}

// chain returns the cycles that the longest chain of steps takes, each of which
// needs a result of the one before, when each takes a single instruction of a
// single vector.
func (l *lowering) chain() float64 {
	c := l.chip
	done := map[*store]float64{}
	longest := 0.0
	for _, s := range l.steps {
		if s.out == nil {
			continue
		}
		at := 0.0
		if depends(s.kernel, s.out.dims) {
			for _, t := range s.in {
				at = max(at, done[t.store])
			}
		}
		switch s.kernel.(type) {
		case *loader:
			at = c.DRAM.LatencyNS.Value * c.ClockMHz.Value / 1e3
		case *product:
			at += float64(c.InputCycles()+c.Array.PipelineCycles.Int()) + c.Vector.StartCycles.Value
		default:
			at += c.Vector.StartCycles.Value
		}
		// A store with several writers is ready for some readers after the first.
		if before, ok := done[s.out.store]; ok {
			at = min(at, before)
		}
		done[s.out.store] = at
		longest = max(longest, at)
	}
	return longest
}

// depends reports whether every element of a kernel's result needs elements of
// its operands: windows do not lie in the border as a whole, and nothing is only
// moved or filled.
func depends(k kernel, out dims) bool {
	inside := func(w *window) bool {
		for axis := range 2 {
			last := (out[1+axis]-1)*w.stride[axis] - w.pad[axis]
			if w.pad[axis] > w.dilation[axis]*(w.kernel[axis]-1) || last >= w.in[1+axis] {
				return false
			}
		}
		return true
	}
	switch k := k.(type) {
	case *product:
		return inside(&k.window)
	case *depthwise:
		return inside(&k.window)
	case *pool:
		return inside(&k.window)
	case *addMul, *lookup, *softmax, *pair, *norm, *mulAdd, *convert, *unaryF, *binaryF, *reduceF:
		return true
	}
	return false
}
