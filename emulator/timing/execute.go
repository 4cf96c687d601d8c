package timing

import (
	"situ/backend/pim/isa"
	"situ/emulator/effect"
	"situ/emulator/sequence"
)

// execute books one instruction other than control.
func (m *model) execute(id int, st *sequence.Step) error {
	k, l := &m.clusters[id], m.layer(st.Layer)
	d, err := m.decode(st)
	if err != nil {
		return err
	}
	l.Counters.Instructions++
	unit := st.Op.Info().Unit
	regions := d.eff.Regions()
	var start, end int64
	switch {
	case st.Op == isa.OpMVM:
		start, end = m.mvm(k, d, st.Args, &l.Counters)
		end += m.ps(m.pipeline)
	case moves(unit):
		ready := max(k.issue, k.free[unit])
		for i := range regions {
			ready = m.ready(k, st.Args, st.Op, &regions[i], ready)
		}
		start, end = m.move(id, st, regions, ready, &l.Counters)
	default:
		v := &d.vector
		v.count(&l.Counters)
		start = max(k.issue, k.free[unit])
		for i := range regions {
			start = m.ready(k, st.Args, st.Op, &regions[i], start)
		}
		end = m.contend(k, unit, start, start+d.ps, v.spRead, v.spWrite)
		k.free[unit] = end
		for i := range regions {
			k.set(&regions[i], end)
		}
	}
	k.done = max(k.done, end)
	busy := max(k.free[unit]-start, 0)
	l.Busy[unit] += busy
	if k.input == 0 {
		l.Start, l.End = min(l.Start, start), max(l.End, end)
	}
	if m.observe != nil {
		input := k.input
		if m.name == "init" {
			input = -1
		}
		m.observe(Event{Cluster: id, Unit: unit, Op: st.Op, Layer: st.Layer, Input: input, Start: start, End: max(start, k.free[unit])})
	}
	return nil
}

// ready returns when a region may be touched. Regions of receivers are looked
// up in each.
func (m *model) ready(k *cluster, a []int64, op isa.Op, r *effect.Region, from int64) int64 {
	switch r.Mem {
	case effect.SP:
		return k.sp.ready(r, from)
	case effect.Acc:
		return k.acc.ready(r, from)
	case effect.WS:
		return k.ws.ready(r, from)
	case effect.DRAM:
		if !r.Write && r.Hi > m.prog.ConstBytes() {
			return max(from, k.stored)
		}
	case effect.RemoteSP, effect.RemoteWS:
		first, count := clustersOf(op, a)
		for i := first; i < first+count; i++ {
			if r.Mem == effect.RemoteSP {
				from = m.clusters[i].sp.readyRemote(r, from)
			} else {
				from = m.clusters[i].ws.ready(r, from)
			}
		}
	}
	return from
}

// set notes when a region of the cluster's own memories is done with.
func (k *cluster) set(r *effect.Region, end int64) {
	switch r.Mem {
	case effect.SP:
		k.sp.set(r, end)
	case effect.Acc:
		k.acc.set(r, end)
	case effect.WS:
		k.ws.set(r, end)
	}
}

// clustersOf returns the receivers of a send or loadw.
func clustersOf(op isa.Op, a []int64) (first, count int) {
	if op == isa.OpSend {
		return int(a[isa.SendFirst]), int(a[isa.SendCount])
	}
	return int(a[isa.LoadWFirst]), int(a[isa.LoadWCount])
}

// mvm books a product; its regions are source, weights, accumulators.
func (m *model) mvm(k *cluster, d *decoded, a []int64, c *Counters) (start, end int64) {
	regions, v := d.eff.Regions(), &d.mvm
	v.count(c, a[isa.MVMAccumulate] != 0, k.arrays.reuses(v))
	weights := k.ws.ready(&regions[1], k.issue)
	operands := k.acc.ready(&regions[2], k.sp.ready(&regions[0], k.issue))
	start, end = k.arrays.run(v, &m.rates, weights, operands)
	end = m.contend(k, isa.UnitArray, start, end, v.reads, 0)
	k.arrays.last = end
	k.free[isa.UnitArray] = end
	k.sp.set(&regions[0], end)
	k.ws.set(&regions[1], k.arrays.loaded)
	k.acc.set(&regions[2], end+m.ps(m.pipeline))
	return start, end
}

// contend returns when work on the scratchpad ends that would end at end
// without the other units of the cluster. What they move at the same time takes
// its share of the ports.
func (m *model) contend(k *cluster, unit isa.Unit, start, end, read, write int64) int64 {
	r, w := float64(read), float64(write)
	for u := range k.busy {
		o := &k.busy[u]
		if common := min(end, o.end) - max(start, o.start); common > 0 && isa.Unit(u) != unit {
			f := float64(common) / float64(o.end-o.start)
			r += f * float64(o.read)
			w += f * float64(o.write)
		}
	}
	cycles := float64(end-start) / m.periodPS
	over := max(r/float64(m.spRead), w/float64(m.spWrite)) - cycles
	if over > 0 && read+write > 0 {
		end += int64(over * m.periodPS)
	}
	k.busy[unit] = interval{start, end, read, write}
	return end
}

// dieOf returns the die whose DRAM holds an address.
func (m *model) dieOf(addr int64) int {
	regions := m.prog.Regions // in order
	lo, hi := 0, len(regions)
	for lo < hi {
		if mid := (lo + hi) / 2; regions[mid].End <= addr {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if lo < len(regions) && regions[lo].Start <= addr {
		return min(regions[lo].Die, m.dies-1)
	}
	return 0
}

// moved returns the bytes of a load, store, loadw or send and the cycles their
// runs take at the narrower of a mesh link and the scratchpad's port.
func (m *model) moved(op isa.Op, a []int64) (bytes, cycles int64) {
	if op == isa.OpLoadW {
		bytes = a[isa.LoadWKtiles] * a[isa.LoadWNtiles] * m.shape.TileBytes(a[isa.LoadWWbits], a[isa.LoadWShifts])
		return bytes, ceilDiv(bytes, m.linkWidth)
	}
	n2, n1, size := a[isa.LoadN2], a[isa.LoadN1], a[isa.LoadLen]
	bytes = n2 * n1 * size
	cycles = ceilDiv(bytes, m.linkWidth)
	if op != isa.OpLoad {
		cycles = max(cycles, runCycles(n2, a[isa.LoadSrcS2], n1, a[isa.LoadSrcS1], size, m.spRead))
	}
	if op != isa.OpStore {
		cycles = max(cycles, runCycles(n2, a[isa.LoadDstS2], n1, a[isa.LoadDstS1], size, m.spWrite))
	}
	return bytes, cycles
}

// move books a load, store, loadw, storew, loada or send that may start at ready.
func (m *model) move(id int, st *sequence.Step, regions []effect.Region, ready int64, c *Counters) (start, end int64) {
	k, a := &m.clusters[id], st.Args
	unit := st.Op.Info().Unit
	switch st.Op {
	case isa.OpStoreW, isa.OpLoadA:
		return m.storeW(id, st, regions, ready, c)
	case isa.OpGatherD:
		return m.gather(id, st, regions, ready, c)
	}
	bytes, cycles := m.moved(st.Op, a)
	switch st.Op {
	case isa.OpLoad:
		m.to.first, m.to.count, m.to.skip, m.latest = id, 1, -1, 0
		k.free[unit] = m.net.fromDRAM(bytes, cycles, m.dieOf(a[isa.LoadSrc]), ready, &m.to, c)
		c.SPWrite += bytes
		c.SPReceived += bytes
		k.sp.set(&regions[1], m.latest)
		k.busy[unit] = interval{ready, m.latest, 0, bytes}
		return ready, m.latest
	case isa.OpStore:
		end = m.net.toDRAM(bytes, cycles, id, m.dieOf(a[isa.StoreDst]), ready, c)
		c.SPRead += bytes
		c.SPSent += bytes
		left := ready + m.ps(cycles)
		k.sp.depart(&regions[0], left)
		k.free[unit] = left
		k.stored = max(k.stored, end)
		k.busy[unit] = interval{ready, left, bytes, 0}
		return ready, end
	case isa.OpLoadW:
		tile := m.shape.TileBytes(a[isa.LoadWWbits], a[isa.LoadWShifts])
		m.to.first, m.to.count = clustersOf(st.Op, a)
		m.to.skip, m.latest = -1, 0
		k.free[unit] = m.net.fromDRAM(bytes, cycles, m.dieOf(a[isa.LoadWSrc]), ready, &m.to, c)
		copies := bytes * int64(m.to.count)
		c.WeightCopies += copies * (a[isa.LoadWRsplit] - 1)
		c.WeightWrite += copies * a[isa.LoadWRsplit]
		for i := m.to.first; i < m.to.first+m.to.count; i++ {
			o := &m.clusters[i]
			o.ws.set(&regions[1], m.latest)
			o.arrays.overwrite(regions[1].Lo, regions[1].Hi, tile)
			o.done = max(o.done, m.latest)
		}
		k.sent = max(k.sent, m.latest)
		return ready, m.latest
	}
	m.to.first, m.to.count = clustersOf(st.Op, a)
	m.to.skip, m.latest = id, ready
	receivers := int64(m.to.count)
	if id >= m.to.first && id < m.to.first+m.to.count {
		receivers--
	}
	if receivers == 0 {
		return ready, ready
	}
	left := m.net.send(bytes, cycles, id, ready, &m.to, c)
	c.SPRead += bytes
	c.SPSent += bytes
	c.SPWrite += bytes * receivers
	c.SPReceived += bytes * receivers
	k.sp.depart(&regions[0], left)
	k.free[unit] = left
	k.sent = max(k.sent, m.latest)
	k.busy[unit] = interval{ready, left, bytes, 0}
	return ready, m.latest
}
