package ptx

import (
	"fmt"
)

// pcCount is how often an instruction was executed.
type pcCount struct{ warps, threads uint64 }

// A worker runs one block at a time.
type worker struct {
	launch  *launch
	warps   []warp
	shared  []byte
	counts  []pcCount
	traffic Traffic
	l1      *cache
	made    dimensions
	stream  []transaction
	hints   []*region // where each instruction found its last address
	shapes  []shapes  // by site

	block     [3]int
	divergent int64
	err       error // of the block failedAt, in the order of those that run
	failedAt  int

	sectors sectorSet
	rising  bool
	phase   uint64
	banks   [banks]bankState
	words   [mmaWords]int16 // of mmaSigned
}

// slice is how many instructions a warp executes before the next one's turn,
// so that warps that wait for each other in loops make progress.
const slice = 1 << 14

func newWorker(l *launch) *worker {
	k := l.kernel
	w := &worker{
		warps:  make([]warp, l.warps),
		shared: make([]byte, l.sharedBytes),
		counts: make([]pcCount, len(k.code)),
		l1:     newCache(l.cfg.Caches.L1Bytes, 4),
		made:   l.dimensions(),
		hints:  make([]*region, len(k.code)),
		shapes: make([]shapes, k.sites),
		rising: true,
	}
	for i := range w.warps {
		p := &w.warps[i]
		p.worker, p.index, p.code = w, i, k.code
		p.r = make([][lanes]uint32, k.n32)
		p.q = make([][lanes]uint64, k.n64)
		p.p = make([]uint32, k.preds)
		p.local = make([]byte, k.local*lanes)
		for _, s := range k.specials {
			for lane := range lanes {
				p.r[s.slot][lane] = l.specialValue(int(s.special), i, lane)
			}
		}
	}
	w.begin(l)
	return w
}

// dimensions are what a worker is made for.
type dimensions struct {
	grid, block          [3]int
	sharedBytes, l1Bytes int
}

func (l *launch) dimensions() dimensions {
	return dimensions{l.cfg.Grid, l.cfg.Block, l.cfg.SharedBytes, l.cfg.Caches.L1Bytes}
}

// begin readies a worker for a launch.
func (k *worker) begin(l *launch) {
	k.launch, k.err = l, nil
	none := &region{}
	for i := range k.hints {
		k.hints[i] = none
	}
	for i := range k.warps {
		p := &k.warps[i]
		p.c32, p.c64 = l.c32, l.c64
	}
}

// end forgets the launch and what was counted of it.
func (k *worker) end() {
	clear(k.hints)
	clear(k.counts)
	k.launch, k.stream, k.divergent, k.traffic = nil, nil, 0, Traffic{}
	for i := range k.warps {
		k.warps[i].c32, k.warps[i].c64 = nil, nil
	}
}

// blocks runs blocks until none of the total is left or one has failed.
func (k *worker) blocks(total int) {
	l := k.launch
	for !l.failed.Load() {
		i := int(l.next.Add(1)) - 1
		if i >= total {
			return
		}
		b := i
		if l.blocks != nil {
			b = l.blocks[i]
		}
		g := l.cfg.Grid
		k.block = [3]int{b % g[0], b / g[0] % g[1], b / (g[0] * g[1])}
		k.stream = takeStream()
		if k.err = k.runBlock(); k.err != nil {
			k.failedAt = i
			l.failed.Store(true)
			l.order.stop()
			return
		}
		l.order.admit(i, k.stream)
	}
}

// start brings warps and memories to the state in which a block begins.
func (k *worker) start() {
	l, kn := k.launch, k.launch.kernel
	clear(k.shared)
	k.l1.reset()
	for i := range k.warps {
		w := &k.warps[i]
		w.pc, w.rpc = 0, noReconverge
		w.live = full
		if rest := l.threads - i*lanes; rest < lanes {
			w.live = 1<<rest - 1
		}
		w.active = w.live
		w.stack, w.copies, w.groups = w.stack[:0], w.copies[:0], w.groups[:0]
		w.arrived = 0
		w.state, w.err = ready, nil
		clear(w.p)
		clear(w.local)
		for _, r := range kn.zero32 {
			clear(w.r[r][:])
		}
		for _, r := range kn.zero64 {
			clear(w.q[r][:])
		}
		for _, s := range kn.specials {
			if d := s.special - 6; d >= 0 && d < 3 { // %ctaid
				for lane := range lanes {
					w.r[s.slot][lane] = uint32(k.block[d])
				}
			}
		}
	}
}

// runBlock runs the warps in turn until all are done.
func (k *worker) runBlock() error {
	k.start()
	l := k.launch
	steps := int64(0)
	for {
		running, waits := 0, 0
		for i := range k.warps {
			w := &k.warps[i]
			if w.state == ready {
				if err := l.ctx.Err(); err != nil {
					return fmt.Errorf("%s: %s: %w", l.module.Name, l.kernel.name, err)
				}
				steps += int64(w.run(slice))
				if w.err != nil {
					return w.err
				}
				if steps > l.cfg.MaxSteps {
					return fmt.Errorf("%s:%d: %s: block %v has not ended after %d warp instructions", l.module.Name, w.code[w.pc].line, l.kernel.name, k.block, steps)
				}
			}
			switch w.state {
			case ready:
				running++
			case waiting:
				waits++
			}
		}
		switch {
		case running > 0:
		case waits > 0:
			if err := k.release(); err != nil {
				return err
			}
		default:
			return nil
		}
	}
}

// release lets the warps go on when all that have not ended wait at one
// barrier.
func (k *worker) release() error {
	var first *warp
	for i := range k.warps {
		w := &k.warps[i]
		if w.state != waiting {
			continue
		}
		if first == nil {
			first = w
		}
		if w.barrier != first.barrier {
			w.pc--
			w.fault(-1, "one warp waits at barrier %d and another at %d: they never meet", w.barrier, first.barrier)
			return w.err
		}
		w.state = ready
	}
	return nil
}
