package pim

import (
	"slices"

	"situ/arch"
)

// Work is what one inference asks of a chip at the least. Amounts are of bytes
// unless their name says otherwise, summed over clusters.
type Work struct {
	Cycles   float64 // from the input's first byte to the output's last
	Interval float64 // cycles between inputs at steady state, when copies of the program fill the chip
	Streamed bool    // weights are read from DRAM in every inference

	MACs, MACsInt4, VectorMACs, VectorOps, FloatOps int64
	BlockShifts                                     int64 // of the arrays

	ArrayWrite, InputLatch, AccRead, AccWrite    int64
	WeightRead, WeightWrite, SPRead, SPWrite     int64
	NoCByteHops, Link, DRAMRead, DRAMWrite       int64
	WeightBytes, InputBytes, OutputBytes, Layers int64 // of the model
}

// transfers adds inputs and outputs, and what the model is.
func (l *lowering) transfers(w *Work) {
	for _, s := range l.steps[l.mainFrom:] {
		switch k := s.kernel.(type) {
		case *loader:
			w.InputBytes += s.out.dims.numel() * int64(s.out.elem)
		case *storer:
			w.OutputBytes += s.in[0].dims.numel() * int64(s.in[0].elem)
		case *product:
			w.WeightBytes += k.weightBytes()
			w.Layers++
		}
	}
}

// count adds what no mapping of a product can avoid, weights apart.
func (k *product) count(pr Problem, w *Work) {
	sums := pr.M * pr.N
	if macs := sums * pr.K * pr.Slices; k.w.form.Bits == 4 {
		w.MACsInt4 += macs
	} else {
		w.MACs += macs
	}
	if k.w.form.Blocks {
		w.BlockShifts += sums * ceilDiv(pr.K, int64(k.w.rows))
	}
	w.InputLatch += pr.M * pr.K * pr.Slices * k.columnTiles(pr)
	w.SPRead += pr.M * pr.K * pr.Slices * pr.Groups
	again := pr.Slices - 1 // shifts and further products: each reads and writes the sums
	w.VectorOps += again * opsShl * sums
	w.AccWrite += 4 * sums * (1 + 2*again)
	w.AccRead += 4 * sums * (1 + 2*again)
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
// nor less of any amount, nor in a shorter interval at steady state. It takes
// every cluster as busy all the time with useful work, keeps all weights that fit
// on the chip, and lets layers overlap except where one needs a result of the
// other.
//
// Of a result it counts the part that every program computes (leastParts); below,
// the whole result is that part.
//
// Proof, for a copy of a program on n of the chip's N clusters, of P cores each:
//
// Arrays. A product over m input vectors, t tiles along K and u along N, on k·u·r
// cores, runs ⌈t/k⌉ passes of ⌈m/r⌉ vectors of b cycles each: at least m·t·b/(k·r)
// cycles, which take at least m·t·u·b of the cluster's core cycles. Parts of a
// product, over clusters, chunks, strips or units, have no fewer tiles and vectors
// together than the whole. A cluster's arrays run one product at a time, so its
// array is busy for no less than its core cycles over P, the clusters' mean is no
// less than A/(n·P), where A sums m·t·u·b over all products, and one input takes
// no less than the mean. With one set of weights each tile's load is such a use of
// a core as well; a lone input finds none loaded.
//
// Vector unit. An instruction takes no less than its operations over the lanes of
// their kind, summed over kinds. Hence the mean over clusters of one input's V
// cycles is V/n or more.
//
// Interval. The emulator counts the steady interval of one copy as no less than
// the mean busy time of arrays, A/(n·P), or of vector units, V/n. Of ⌊N/n⌋ copies
// side by side the interval is that over ⌊N/n⌋, at least A/(N·P) and V/N; the rate
// is further bounded by the chip's DRAM bandwidth over the program's own traffic,
// which is no less than that counted here.
//
// Amounts. Each is counted once for every element of a whole result, as the
// emulator counts it for every part; parts overlap or are padded, never less than
// the whole. Weights beyond what all weight SRAMs hold come from DRAM. Per input at
// steady state all hold but reading weights into arrays, which may have kept them
// from the input before: the caller leaves that out. Energies grow with amounts
// and, static power times the interval, with the interval.
func (e *Planner) Bound(c *arch.Chip) Work {
	if e.on(c) != nil {
		e.l.on(c) // Program reports the error; nothing of this chip will run
	}
	var w Work
	e.l.transfers(&w)
	w.DRAMWrite, w.SPRead = w.OutputBytes, w.OutputBytes
	cores := float64(c.CoresPerCluster.Int() * int64(c.NumClusters()))
	var array, loads float64 // cycles of all cores
	for _, s := range e.l.steps[e.l.mainFrom:] {
		switch k := s.kernel.(type) {
		case *loader, *storer:
		case *product:
			if e.l.least[s.index].empty() {
				continue
			}
			pr := k.problem(e.l.least[s.index])
			k.count(pr, &w)
			tiles := ceilDiv(pr.K, int64(k.rows)) * pr.Slices * k.columnTiles(pr)
			array += float64(pr.M * tiles * c.InputCycles())
			loads += float64(tiles * tileCycles(c, k.w.form))
			w.ArrayWrite += tiles * c.TileBytes(k.w.form)
			w.WeightRead += tiles * c.TileBytes(k.w.form)
		case *pair: // in arrays or on the vector unit, neither of which can be left out of a bound
			if e.l.least[s.index] == whole(s.out.dims) {
				k.count(int64(k.size[0]*k.size[1]*k.size[2]), &w)
			}
		default:
			vectorWork(c, s.kernel, e.l.least[s.index], &w)
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
	dram := float64(w.DRAMRead+w.DRAMWrite) / (c.DRAM.Sustained() * 1e9) * c.ClockMHz.Value * 1e6
	w.Interval = max(array/cores, vector, dram)
	if c.Array.WeightSets.Int() < 2 {
		array += loads
	}
	w.Cycles = max(array/cores, vector, dram, e.l.chain())
	return w
}

// leastParts finds for every step a part of its result that every program
// computes. That is the whole result unless all that read it may run strip by strip
// together with it and leave some of it out: they compute what they read only, all
// channels of it.
func (l *lowering) leastParts() {
	l.least = make([]box, len(l.steps))
	for i := len(l.steps) - 1; i >= 0; i-- {
		s := l.steps[i]
		if s.out == nil {
			continue
		}
		st := s.out.store
		l.least[i] = whole(s.out.dims)
		apart := func(r *step) bool { return !r.joins() }
		if !s.joins() || !s.staysInside() || len(st.readers) == 0 || slices.ContainsFunc(st.readers, apart) {
			continue
		}
		var most box
		for _, r := range st.readers {
			for k, t := range r.in {
				if t.store != st || l.least[r.index].empty() {
					continue
				}
				if b := t.inStore(reads(r.kernel, k, l.least[r.index])).and(whole(st.dims)); b.numel() > most.numel() {
					most = b
				}
			}
		}
		if !most.empty() {
			most = most.along(3, 0, st.dims[3])
		}
		l.least[i] = most
	}
}

// reads returns a box of operand i of which a kernel reads every row and column
// when it computes a part strip by strip, empty when none is known.
func reads(k kernel, i int, out box) box {
	gapless := func(w *window) bool {
		return w.stride[0] <= w.dilation[0]*(w.kernel[0]-1)+1 && w.stride[1] <= w.dilation[1]*(w.kernel[1]-1)+1
	}
	switch k := k.(type) {
	case *addMul, *lookup, *softmax, *pair, *convert, *unaryF, *binaryF, *alongF:
		return k.need(i, out)
	case *product:
		if gapless(&k.window) {
			return k.need(i, out)
		}
	case *depthwise:
		if gapless(&k.window) {
			return k.need(i, out)
		}
	case *pool:
		if gapless(&k.window) {
			return k.need(i, out)
		}
	case *move:
		var most box
		for j := range k.pieces {
			c := &k.pieces[j]
			to := c.to.and(out)
			unit := !slices.ContainsFunc(c.step[:], func(n int) bool { return n > 1 || n < -1 })
			if c.operand != i || to.empty() || !unit {
				continue
			}
			one := move{in: k.in, pieces: k.pieces[j : j+1]}
			if b := one.need(i, out); b.numel() > most.numel() {
				most = b
			}
		}
		return most
	}
	return box{}
}

// chain returns the cycles that the longest chain of steps takes, each of which
// needs a result of the one before, when each takes a single instruction of a
// single vector.
func (l *lowering) chain() float64 {
	c := l.chip
	done := map[*store]float64{}
	longest := 0.0
	for _, s := range l.steps[l.mainFrom:] {
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
