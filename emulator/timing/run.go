package timing

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"

	"situ/arch"
	"situ/backend/pim/isa"
	"situ/emulator/effect"
	"situ/emulator/sequence"
)

// Event is one executed instruction, for traces and profiles.
type Event struct {
	Cluster    int
	Unit       isa.Unit
	Op         isa.Op
	Layer      int32 // −1 for none
	Input      int   // of a repeated run; −1 in the init streams
	Start, End int64 // ps
}

// Result is what Run measures.
type Result struct {
	Init, Main Phase
	Finish     []int64 // when each input's last instruction ends, from the start of the main streams
}

// Phase is the init streams, or the main streams of all inputs together.
type Phase struct {
	PS     int64 // from the start to the end of the last instruction
	Layers []LayerTime
	Units  [isa.NumUnits]int64 // busy time, summed over clusters
}

// LayerTime is what was spent on a layer, or (the last of Phase.Layers) on
// instructions that belong to none.
type LayerTime struct {
	Counters   Counters
	Start, End int64 // of the first input
	Busy       [isa.NumUnits]int64
}

// Total sums the counters of all layers.
func (p *Phase) Total() Counters {
	var c Counters
	for i := range p.Layers {
		c.Add(&p.Layers[i].Counters)
	}
	return c
}

// Run times a valid program that was placed for the chip: the init streams
// once, then the main streams repeat times back to back, an input's streams
// overlapping the next one's wherever units are free. observe, unless nil, is
// called with every instruction, in the order of the model, not of time. Errors
// name the cluster and instruction at fault.
func Run(ctx context.Context, p *isa.Program, c *arch.Chip, limits *effect.Limits, repeat int, observe func(Event)) (*Result, error) {
	m := models.Get().(*model)
	m.reset(p, c, limits, observe)
	defer m.release()
	res := &Result{}
	if err := m.phase(ctx, &res.Init, "init", p.Init, 1); err != nil {
		return nil, err
	}
	if err := m.phase(ctx, &res.Main, "main", p.Main, repeat); err != nil {
		return nil, err
	}
	res.Finish = m.finish
	return res, nil
}

// model is the state of the chip.
type model struct {
	rates
	prog     *isa.Program
	limits   *effect.Limits
	observe  func(Event)
	net      network
	clusters []cluster

	// The phase at hand.
	name   string
	out    *Phase
	start  int64
	finish []int64
	queue  queue
	gates  map[gateKey]*gate
	instructions
	st     sequence.Step
	to     receivers
	latest int64 // of the transfer at hand
}

type cluster struct {
	cursor  sequence.Cursor
	input   int
	issue   int64 // when the sequencer issues next
	free    [isa.NumUnits]int64
	busy    [isa.NumUnits]interval
	arrays  arrays
	sp      pages
	acc     pages
	ws      pages
	stored  int64 // when stores to DRAM are there
	sent    int64 // when sends are there
	done    int64 // end of the last instruction
	pending sequence.Step
}

// interval is the last work of a unit, for contention at the scratchpad's ports.
type interval struct{ start, end, read, write int64 }

type gateKey struct{ id, first, count int64 }

type gate struct {
	arrived int64
	at      int64
}

// models are idle ones, of which the next run takes the memory.
var models = sync.Pool{New: func() any {
	m := &model{gates: map[gateKey]*gate{}}
	m.to.arrived = func(_ int, end int64) { m.latest = max(m.latest, end) }
	return m
}}

// reset makes m the state of a chip that has done nothing.
func (m *model) reset(p *isa.Program, c *arch.Chip, limits *effect.Limits, observe func(Event)) {
	m.rates, m.prog, m.limits, m.observe = ratesOf(c), p, limits, observe
	m.net.reset(&m.rates, len(p.Main))
	m.clusters = slices.Grow(m.clusters[:0], len(p.Main))[:len(p.Main)]
	for i := range m.clusters {
		k := &m.clusters[i]
		k.sp.reset(limits[effect.SP], 256)
		k.acc.reset(limits[effect.Acc], 256)
		k.ws.reset(limits[effect.WS], 1024)
	}
}

// release gives the memory to the next run, but for what it does not own.
func (m *model) release() {
	m.prog, m.limits, m.observe, m.out, m.finish, m.st = nil, nil, nil, nil, nil, sequence.Step{}
	m.forget()
	for i := range m.clusters {
		k := &m.clusters[i]
		*k = cluster{sp: k.sp, acc: k.acc, ws: k.ws}
	}
	models.Put(m)
}

// phase runs one stream on each cluster, repeat times.
func (m *model) phase(ctx context.Context, out *Phase, name string, streams []isa.Stream, repeat int) error {
	m.name, m.out, m.finish = name, out, make([]int64, repeat)
	out.Layers = make([]LayerTime, len(m.prog.Layers)+1)
	for i := range out.Layers {
		out.Layers[i].Start = math.MaxInt64
	}
	clear(m.gates)
	m.start = 0
	for i := range m.clusters {
		m.start = max(m.start, m.clusters[i].done)
	}
	left := len(streams)
	m.queue = queue{heap: m.queue.heap[:0]}
	for i := range streams {
		k := &m.clusters[i]
		k.issue, k.input, k.done = m.start, 0, m.start
		k.cursor.Start(&streams[i])
		m.queue.push(entry{m.start, i})
		k.pending.Op = isa.OpInvalid
	}
	for n := 0; ; n++ {
		if n&255 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		id, ok := m.queue.take()
		if !ok {
			break
		}
		ended, err := m.advance(ctx, id, streams, repeat)
		if err != nil {
			return err
		}
		if ended {
			left--
		}
	}
	if left > 0 {
		return fmt.Errorf("%s streams wait for each other for ever: %d clusters stand at barriers that the others do not reach", name, left)
	}
	for i := range m.clusters {
		out.PS = max(out.PS, m.clusters[i].done-m.start)
	}
	for i := range out.Layers {
		l := &out.Layers[i]
		if l.Start == math.MaxInt64 {
			l.Start = m.start
			l.End = m.start
		}
		l.Start, l.End = l.Start-m.start, l.End-m.start
		for u := range l.Busy {
			out.Units[u] += l.Busy[u]
		}
	}
	return nil
}

// advance runs a cluster: first the shared instruction it waits to execute,
// then all that concern no other cluster. It leaves the cluster in the queue,
// at a barrier, or ended.
func (m *model) advance(ctx context.Context, id int, streams []isa.Stream, repeat int) (ended bool, err error) {
	k := &m.clusters[id]
	if k.pending.Op != isa.OpInvalid {
		st := k.pending
		k.pending.Op = isa.OpInvalid
		if st.Op == isa.OpBarrier {
			return false, m.barrier(id, &st)
		}
		if err := m.execute(id, &st); err != nil {
			return false, m.fault(id, &st, err)
		}
	}
	st := &m.st
	for n := 1; ; n++ {
		if n&1023 == 0 && ctx.Err() != nil {
			return false, ctx.Err()
		}
		ok, err := k.cursor.Next(st)
		if err != nil {
			return false, m.fault(id, st, err)
		}
		if !ok {
			m.finish[k.input] = max(m.finish[k.input], k.done-m.start)
			if k.input++; k.input == repeat {
				return true, nil
			}
			k.cursor.Start(&streams[id])
			continue
		}
		k.issue += m.issuePS
		switch unit := st.Op.Info().Unit; {
		case unit == isa.UnitDMA || unit == isa.UnitNoC || st.Op == isa.OpBarrier:
			k.pending = *st // its operands stay: the cursor does not move before it is executed
			m.queue.push(entry{max(k.issue, k.free[unit]), id})
			return false, nil
		case unit == isa.UnitCtrl:
			m.layer(st.Layer).Counters.Instructions++
			k.done = max(k.done, k.issue)
		default:
			if err := m.execute(id, st); err != nil {
				return false, m.fault(id, st, err)
			}
		}
	}
}

// layer returns where a layer's amounts are summed; −1 is the last.
func (m *model) layer(l int32) *LayerTime {
	if l < 0 {
		return &m.out.Layers[len(m.out.Layers)-1]
	}
	return &m.out.Layers[l]
}

// barrier counts a cluster at a barrier; the last one releases all.
func (m *model) barrier(id int, st *sequence.Step) error {
	k := &m.clusters[id]
	key := gateKey{st.Args[isa.BarrierId], st.Args[isa.BarrierFirst], st.Args[isa.BarrierCount]}
	if int64(id) < key.first || int64(id) >= key.first+key.count {
		return m.fault(id, st, fmt.Errorf("the cluster is not one of %d..%d that meet", key.first, key.first+key.count-1))
	}
	m.layer(st.Layer).Counters.Instructions++
	g := m.gates[key]
	if g == nil {
		g = &gate{}
		m.gates[key] = g
	}
	g.arrived++
	g.at = max(g.at, k.issue, k.sent, k.stored)
	if g.arrived < key.count {
		return nil
	}
	delete(m.gates, key)
	at := g.at + m.signal(int(key.first), int(key.count))
	for i := key.first; i < key.first+key.count; i++ {
		o := &m.clusters[i]
		o.issue, o.stored = at, max(o.stored, g.at)
		o.done = max(o.done, at)
		m.queue.push(entry{at, int(i)})
	}
	return nil
}

// signal is how long a barrier's message takes: to the farthest member and
// back, across dies if they differ.
func (m *model) signal(first, count int) int64 {
	last := first + count - 1
	if first/m.perDie != last/m.perDie {
		return 2 * (m.linkLatency + int64(m.meshCols+m.meshRows-2)*m.hopPS)
	}
	from, far := &m.net.at[first], 0
	for c := first; c <= last; c++ {
		to := &m.net.at[c]
		far = max(far, abs(to.x-from.x)+abs(to.y-from.y))
	}
	return 2 * int64(far) * m.hopPS
}

func abs(x int) int { return max(x, -x) }

func (m *model) fault(id int, st *sequence.Step, err error) error {
	return sequence.Fault(m.prog, m.name, id, st, err)
}
