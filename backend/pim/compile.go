package pim

import (
	"cmp"
	"fmt"
	"math"
	"runtime/debug"
	"slices"

	"situ/arch"
	"situ/backend/pim/isa"
	"situ/ir"
	"situ/passes"
)

// Objective is what a program is compiled for.
type Objective uint8

// Objectives.
const (
	Latency    Objective = iota // the least time of one inference
	Throughput                  // the most inferences a second, several copies side by side
)

// Options are choices of the user.
type Options struct {
	Clusters  int // that one copy of the program uses; 0 lets the compiler choose
	Objective Objective
	Quant     string     // for people: how the model was quantised; derived when empty
	States    []ir.State // of the graph, which the program keeps from run to run; a Planner has its own
}

// Compile places the fixed-point graph g on a chip and returns its program. The
// error names every operator that the chip cannot run, or the operator whose
// buffers do not fit.
func Compile(g *ir.Graph, c *arch.Chip, opt Options) (p *isa.Program, err error) {
	defer func() {
		if r := recover(); r != nil {
			p, err = nil, fmt.Errorf("internal error: compiling %q for %s: %v\n%s", g.Name, c.Name, r, debug.Stack())
		}
	}()
	best, err := choose(g, c, opt)
	if err != nil {
		return nil, err
	}
	if err := best.check(); err != nil {
		return nil, fmt.Errorf("internal error: placement of %q on %s: %w", g.Name, c.Name, err)
	}
	return best.program(opt)
}

// Takes reports why a chip cannot run g, as Compile does, without placing it: the
// error is a RefusedError where it is for operators. It is nil for a graph that Compile
// may still find too large.
func Takes(g *ir.Graph, c *arch.Chip) error {
	_, err := lower(g, c)
	return err
}

// choose lowers g and plans its program.
func choose(g *ir.Graph, c *arch.Chip, opt Options) (*plan, error) {
	e, err := NewPlanner(g, c, opt.States...)
	if err != nil {
		return nil, err
	}
	return e.choose(opt)
}

// options returns the options of a lowered graph.
func (l *lowering) options(opt Options) (*options, error) {
	if total := l.chip.NumClusters(); opt.Clusters < 0 || opt.Clusters > total {
		return nil, fmt.Errorf("%d clusters asked for, %s has %d", opt.Clusters, l.chip.Name, total)
	}
	return &options{lowering: l, objective: opt.Objective, queue: l.counts(opt)}, nil
}

// best returns the best plan whose score is less than a limit, nil where there is none.
func (o *options) best(limit float64) *plan {
	for {
		at, ok := o.next(limit)
		switch {
		case !ok:
			return nil
		case at.known == estimated:
			o.place(at)
		case o.last.clusters != at.clusters || o.last.effort != efforts[at.how] || o.stale:
			o.place(at) // the steps are another's
			return o.last
		default:
			return o.last
		}
	}
}

// spill reports whether the option that is best by what is known cannot but spill.
func (o *options) spill() bool {
	at, ok := o.next(math.Inf(1))
	if ok {
		o.queue = append(o.queue, at)
	}
	return ok && at.spilled > 0
}

// mostPlaced bounds how many options are placed, of which the best is taken: places are
// what takes long where much is spilled.
const mostPlaced = 4

// next takes the best option out of the queue when all of it is estimated, and false when
// none has a score less than a limit.
func (o *options) next(limit float64) (option, bool) {
	for {
		if len(o.queue) == 0 && o.last == nil {
			o.queue, o.streams = o.streams, nil
		}
		if len(o.queue) == 0 {
			return option{}, false
		}
		i := 0
		for k := range o.queue {
			if compareOptions(&o.queue[k], &o.queue[i]) < 0 {
				i = k
			}
		}
		at := o.queue[i]
		if at.score >= limit {
			return option{}, false
		}
		o.queue = slices.Delete(o.queue, i, i+1)
		if at.known > bounded {
			return at, true
		}
		o.split(at)
	}
}

// option is a number of clusters that one copy of a program may use, and an effort.
type option struct {
	clusters, how        int
	known                knowledge
	least, cycles, score float64 // a bound and an estimate, and what counts: the less the better
	splits               []int32 // of each step, when they are known
	spilled              int64   // bytes of DRAM that it moves at the least, see leastSpilled
}

// knowledge says what the score of an option is.
type knowledge uint8

const (
	bounded   knowledge = iota // no program takes fewer cycles
	estimated                  // what the steps take, and some of what spilling and streaming cost
	placed                     // all that
)

// compareOptions puts the best first, and of equal ones that of which least is known.
func compareOptions(a, b *option) int {
	return cmp.Or(cmp.Compare(a.score, b.score), cmp.Compare(a.known, b.known), cmp.Compare(a.how, b.how), cmp.Compare(a.clusters, b.clusters))
}

// counts lists numbers of clusters.
func (l *lowering) counts(opt Options) []option {
	if opt.Clusters > 0 {
		return []option{{clusters: opt.Clusters}}
	}
	var counts []option
	total := l.chip.NumClusters()
	for n := 1; n < total; n *= 2 {
		counts = append(counts, option{clusters: n})
	}
	counts = append(counts, option{clusters: total})
	for i := range counts {
		o := &counts[i]
		for _, s := range l.steps {
			if k, ok := s.kernel.(*product); ok {
				o.score += float64(l.maps.least(k.problem(whole(s.out.dims)), int64(o.clusters)))
			}
		}
		o.least, o.score = o.score, opt.Objective.score(l.chip, o.score, 0, o.clusters)
	}
	return counts
}

// score is what the cycles are worth of a program on some clusters, of which as many
// copies as there is room for run side by side, when it moves some bytes of DRAM: one
// copy has the channels of its dies, all copies share those of the chip.
func (o Objective) score(c *arch.Chip, cycles float64, bytes int64, clusters int) float64 {
	dies := ceilDiv(int64(clusters), c.ClustersPerDie.Int())
	cycles += float64(dramCycles(c, bytes)) / float64(dies)
	if o == Throughput {
		return max(cycles/float64(c.NumClusters()/clusters), float64(dramCycles(c, bytes))/c.Dies.Value)
	}
	return cycles
}

// options goes through the numbers of clusters and efforts, the best first. It splits
// the steps, and finds places, for those only that may be the best of the rest.
type options struct {
	*lowering
	objective Objective
	spillable bool // what spilling costs at the least is worth to know early
	queue     []option
	streams   []option // that stream weights, which is for where nothing else fits
	last      *plan    // that was placed
	stale     bool     // the steps have been split since
	places    int

	err   error // that says most
	errOf option
}

// fail notes why an option is not possible: of the first effort, and there of the
// weights of the least number of clusters before buffers.
func (o *options) fail(at option, err error) {
	if o.err == nil || cmp.Or(cmp.Compare(at.how, o.errOf.how), cmp.Compare(at.known, o.errOf.known)) < 0 ||
		at.how == o.errOf.how && at.known == bounded && at.clusters < o.errOf.clusters {
		o.err, o.errOf = err, at
	}
}

// harder goes on with the next effort.
func (o *options) harder(at option) {
	if at.how++; at.how == len(efforts) {
		return
	}
	streamed := int64(0)
	if efforts[at.how].stream {
		streamed = max(0, o.leastWeights()-o.weightRoom(at.clusters))
	}
	at.known, at.splits, at.score = bounded, nil, o.objective.score(o.chip, at.least, streamed, at.clusters)
	if efforts[at.how].stream {
		o.streams = append(o.streams, at)
		return
	}
	o.queue = append(o.queue, at)
}

// constantCycles returns how long steps wait, apart from the bytes, for constants that do
// not stay in the scratchpads: nobody asks for them before the step before has used its
// own. They lie on die 0.
func (p *plan) constantCycles() float64 {
	if p.resident {
		return 0
	}
	ns := p.chip.DRAM.LatencyNS.Value
	if int64(p.clusters) > p.chip.ClustersPerDie.Int() {
		ns += 2 * p.chip.DieLink.LatencyNS.Value
	}
	loads := 0
	for _, s := range p.steps[p.mainFrom:] {
		if len(s.blobs) > 0 {
			loads++
		}
	}
	return float64(loads) * ns * p.chip.ClockMHz.Value / 1e3
}

// leastSpilled returns bytes of DRAM that a plan whose steps are split moves at the least:
// where the operands and the result of a step do not fit the scratchpad together, one of
// them is spilled. On a single cluster strips of it may do.
func (p *plan) leastSpilled() int64 {
	room := p.chip.Scratchpad.Bytes.Int()
	all := max(0, p.keeping.all-int64(p.clusters)*room) // of states, each is read in every run
	if p.clusters == 1 {
		return all
	}
	counted := map[*store]bool{}
	var stores []*store
	for _, s := range p.steps[p.mainFrom:] {
		if s.isTransfer() || s.out == nil {
			continue
		}
		stores = stores[:0]
		for _, t := range s.in {
			stores = append(stores, t.store)
		}
		switch s.kernel.(type) {
		case *addMul, *mulAdd, *lookup: // may take the place of an operand
		default:
			stores = append(stores, s.out.store)
		}
		size, least := int64(0), int64(math.MaxInt64)
		for i, st := range stores {
			if st.constant() || st.kept || slices.Contains(stores[:i], st) {
				continue
			}
			n := st.dims.numel() * int64(st.elem)
			if !st.input && !st.output {
				n *= 2 // written and read
			}
			if counted[st] {
				n = 0
			}
			size, least = size+st.size, min(least, n)
		}
		if size <= room || least == 0 {
			continue
		}
		all += least
		for _, st := range stores {
			counted[st] = true
		}
	}
	return all
}

// weightRoom returns the bytes of weight SRAM of some clusters.
func (l *lowering) weightRoom(clusters int) int64 {
	return int64(clusters) * l.chip.CoresPerCluster.Int() * l.chip.WeightSRAM.Bytes.Int()
}

// plan returns the plan of an option, which says nothing yet.
func (o *options) plan(at option) *plan {
	return &plan{lowering: o.lowering, clusters: at.clusters, effort: efforts[at.how], rounds: []int{0}}
}

// split splits the steps of an option.
func (o *options) split(at option) {
	o.stale = true
	p := o.plan(at)
	if !p.stream && o.leastWeights() > o.weightRoom(at.clusters) {
		o.harder(at)
		return
	}
	p.split()
	fits, err := p.placeWeights()
	if err != nil {
		o.fail(at, err)
	}
	if err != nil || !fits {
		o.harder(at)
		return
	}
	at.splits, at.known = p.splitNumbers(), estimated
	if o.spillable || len(o.states) > 0 {
		p.spread()
		at.spilled = p.leastSpilled()
	}
	at.cycles = float64(p.cycles - p.keeps)
	at.score = o.objective.score(o.chip, at.cycles, at.spilled, at.clusters)
	o.queue = append(o.queue, at)
}

// place places an option and goes on with it, or where it does not fit with the next effort.
func (o *options) place(at option) {
	p := o.plan(at)
	o.stale = false
	p.resplit(at.splits)
	if err := p.place(); err != nil {
		o.fail(at, err)
		o.harder(at)
		return
	}
	at.known = placed
	at.score = o.objective.score(o.chip, at.cycles+p.constantCycles(), p.moved, at.clusters)
	p.score, o.last = at.score, p
	o.queue = append(o.queue, at)
	if o.places++; o.places == mostPlaced {
		o.queue = slices.DeleteFunc(o.queue, func(at option) bool { return at.known < placed })
	}
}

// leastWeights returns the bytes that the weights of all products take at least
// of weight SRAMs, without what is lost in tiles that are not full.
func (l *lowering) leastWeights() int64 {
	n := int64(0)
	for _, s := range l.steps {
		if k, ok := s.kernel.(*product); ok {
			n += k.weightBytes()
		}
	}
	return n
}

// shares of the weight SRAM that are tried for weights that stay.
var shares = []float64{0.875, 0.5, 0}

// place maps and places a plan that is split and whose weights are known to fit
// or to be streamed. When they are streamed, it takes the share of the weight SRAM for
// those that stay which leads to the least DRAM traffic.
func (p *plan) place() error {
	p.spread()
	best, bestShare := int64(-1), shares[0]
	var firstErr error
	try := func(share float64) error {
		p.share = share
		if _, err := p.placeWeights(); err != nil {
			return err
		}
		return p.placeBuffers()
	}
	for i, share := range shares {
		err := try(share)
		if err != nil {
			firstErr = cmp.Or(firstErr, err)
			continue
		}
		if p.ringBase == p.ringEnd {
			return nil // nothing is streamed
		}
		if best < 0 || p.moved < best {
			best, bestShare = p.moved, share
		}
		if i == len(shares)-1 && bestShare == share {
			return nil
		}
	}
	if best < 0 {
		return firstErr
	}
	return try(bestShare)
}

// program writes the finished program.
func (p *plan) program(opt Options) (*isa.Program, error) {
	for _, s := range p.steps {
		p.layers[s.layer].Mapping = p.describe(s)
		if k, ok := s.kernel.(*pair); ok && s.fromDRAM(s.group) {
			p.layers[k.writes].Op = isa.OpLoadA.String()
		}
	}
	m := p.layOut()
	prog, err := p.skeleton(opt, &m)
	if err != nil {
		return nil, err
	}
	prog.Fingerprint, prog.Consts = p.chip.Fingerprint(), p.image(&m)
	for _, f := range passes.Fallbacks(p.g) {
		prog.Fallbacks = append(prog.Fallbacks, isa.Fallback{Node: f.Node, Op: f.Op, Share: f.Share})
	}
	return prog, nil
}

// skeleton writes the program but for its constants, the fingerprint of the chip and
// what it says to people of layers and operators.
func (p *plan) skeleton(opt Options, m *layout) (*isa.Program, error) {
	end, regions := m.bytes, m.regions
	home := func(st *store, entries, of int) { // as many times its size as it has of the batch
		end = roundUp(end, 64)
		st.dram = end
		end += st.dims.numel() * int64(st.elem) / int64(of) * int64(entries)
	}
	whole, of := p.entries() // of the batch, and of a round
	prog := &isa.Program{
		Model: p.g.Name, Arch: p.chip.Name, Quant: opt.Quant,
		DescribedBytes: m.bytes - m.stored, ScratchpadBytes: p.high, WeightSRAMBytes: max(p.ringEnd, p.writtenEnd),
		AccumulatorBytes: p.accumulatorBytes(), WeightBytes: p.weightBytes(), Replicas: p.chip.NumClusters() / p.clusters,
	}
	for i, t := range p.inputs {
		home(t.store, whole, of)
		regions = append(regions, p.regionsOf(t.store, p.homes(t.store))...)
		prog.Inputs = append(prog.Inputs, p.ioOf(p.g.Value(p.g.Inputs[i]), t))
	}
	for i, t := range p.outputs {
		home(t.store, whole, of)
		regions = append(regions, p.regionsOf(t.store, p.storer(t).parts)...)
		prog.Outputs = append(prog.Outputs, p.ioOf(p.g.Value(p.outputIDs[i]), t))
	}
	prog.States = p.describedStates()
	for _, st := range p.stores {
		if st.spilled && !st.inner && !st.input && !st.output && !st.constant() {
			home(st, 1, 1)
			regions = append(regions, p.regionsOf(st, p.homes(st))...)
		}
	}
	prog.DRAMBytes = end
	have := p.chip.DRAM.Bytes.Int()
	if end > have {
		return nil, fmt.Errorf("model %q with its inputs, outputs and spilled tensors takes %d bytes of DRAM, %s has %d", p.g.Name, end, p.chip.Name, have)
	}
	if own := end - m.bytes; own > 0 { // of each copy; constants are read by all
		prog.Replicas = int(min(int64(prog.Replicas), (have-m.bytes)/own))
	}
	if prog.Quant == "" {
		prog.Quant = p.quant()
	}
	prog.Regions = regions
	var err error
	if prog.Init, prog.Main, err = p.generate(); err != nil {
		return nil, err
	}
	if len(p.rounds) > 1 {
		prog.Rounds = len(p.rounds)
	}
	prog.Layers = p.usedLayers(prog.Init, prog.Main)
	return prog, nil
}

// usedLayers returns inputs, outputs and the layers that instructions belong to or
// that compute something, those of each round, and renumbers the instructions'. What a
// fold made superfluous goes.
func (p *plan) usedLayers(streams ...[]isa.Stream) []isa.Layer {
	var out []isa.Layer
	used, n := p.emitter.used, len(p.layers)
	_, entries := p.entries()
	to := make([]int32, len(used))
	for i := range used {
		to[i] = int32(len(out))
		l := p.layers[i%n]
		l.MACs = l.MACs / int64(entries) * int64(p.fresh(i/n))
		inRound := false
		for k := i % n; k < len(used); k += n {
			inRound = inRound || used[k]
		}
		if inRound || l.MACs > 0 || l.Op == "input" || l.Op == "output" {
			out = append(out, l)
		}
	}
	if len(out) == len(used) {
		return out
	}
	for _, phase := range streams {
		for _, s := range phase {
			for i, l := range s.Layer {
				if l >= 0 {
					s.Layer[i] = to[l]
				}
			}
		}
	}
	return out
}

// quant says for people what numbers the products work on.
func (p *plan) quant() string {
	for _, s := range p.steps {
		k, ok := s.kernel.(*product)
		switch {
		case ok && k.w.blocks != nil:
			return fmt.Sprintf("int8 activations, mxint%d weights", k.w.codeBits)
		case ok && k.w.form.Bits == 4:
			return "int8 activations, int4 weights"
		}
	}
	return "int8"
}

// storer returns the step that takes an output.
func (p *plan) storer(t *tensor) *step {
	for _, s := range p.steps {
		if _, ok := s.kernel.(*storer); ok && s.in[0] == t {
			return s
		}
	}
	panic("pim: an output that nobody stores")
}

// entries returns how many entries a batch has, and how many of them a round runs; 1
// and 1 of a graph that is not cut.
func (p *plan) entries() (all, round int) {
	if p.batch == 0 {
		return 1, 1
	}
	return p.batch, p.g.Type(p.g.Inputs[0]).Shape[0]
}

// fresh returns how many entries a round runs that none has run before: rounds are
// alike, so that the last may run some again.
func (p *plan) fresh(round int) int {
	all, n := p.entries()
	if round+1 < len(p.rounds) {
		return p.rounds[round+1] - p.rounds[round]
	}
	return min(n, all-p.rounds[round])
}

// maxRegions bounds how finely an input or output is spread over dies.
const maxRegions = 4096

// regionsOf spreads an input or output over the dies whose clusters load or store
// parts of it, so that all dies' DRAM channels take part; evenly where the parts lie in
// too many pieces. What belongs to die 0 needs no region.
func (p *plan) regionsOf(st *store, parts []box) []isa.Region {
	perDie := int(p.chip.ClustersPerDie.Int())
	home := dense(st.dram, whole(st.dims), st.elem)
	var runs []isa.Region // contiguous bytes of parts
	for j, b := range parts {
		if b.empty() {
			continue
		}
		axis := 3 // dimensions behind it are whole
		for axis > 0 && b.ext(axis) == st.dims[axis] {
			axis--
		}
		size := int64(b.ext(axis)) * home.st[axis]
		if b.numel()*int64(st.elem)/size > maxRegions {
			return p.evenRegions(st)
		}
		for at := range positions(b, axis) {
			runs = append(runs, isa.Region{Start: home.at(at), End: home.at(at) + size, Die: j / perDie})
		}
	}
	slices.SortFunc(runs, func(a, b isa.Region) int { return cmp.Compare(a.Start, b.Start) })
	var regions []isa.Region
	for _, r := range runs {
		switch k := len(regions) - 1; {
		case k >= 0 && regions[k].Die == r.Die && regions[k].End == r.Start:
			regions[k].End = r.End
		default:
			regions = append(regions, r)
		}
	}
	regions = slices.DeleteFunc(regions, func(r isa.Region) bool { return r.Die == 0 })
	if len(regions)*len(p.rounds) > maxRegions {
		return p.evenRegions(st)
	}
	return p.inRounds(regions, st)
}

// inRounds repeats the regions of the first round's part of an input or output for
// the parts of the others.
func (p *plan) inRounds(regions []isa.Region, st *store) []isa.Region {
	if !st.input && !st.output {
		return regions
	}
	first := regions
	for _, entry := range p.rounds[1:] {
		for _, r := range first {
			by := p.entryBytes(st) * int64(entry)
			r.Start, r.End = r.Start+by, r.End+by
			if k := len(regions) - 1; k >= 0 { // of what two rounds run
				r.Start = max(r.Start, regions[k].End)
			}
			if r.Start < r.End {
				regions = append(regions, r)
			}
		}
	}
	return regions
}

// entryBytes returns the bytes that one entry of the batch has of an input or output.
func (p *plan) entryBytes(st *store) int64 {
	_, n := p.entries()
	return st.dims.numel() / int64(n) * int64(st.elem)
}

// evenRegions gives each die that the program runs on as much of a store.
func (p *plan) evenRegions(st *store) []isa.Region {
	perDie := int(p.chip.ClustersPerDie.Int())
	dies := (p.clusters + perDie - 1) / perDie
	var regions []isa.Region
	for i, b := range whole(dims{1, 1, 1, int(st.dims.numel())}).pieces(3, dies, 64) {
		if at := st.dram + int64(b.lo[3])*int64(st.elem); i > 0 {
			regions = append(regions, isa.Region{Start: at, End: at + int64(b.ext(3))*int64(st.elem), Die: i})
		}
	}
	return p.inRounds(regions, st)
}

// homes returns the parts of an input or state by the clusters whose dies keep them.
// What stays in DRAM and would load some die more than others, because the needs of
// clusters overlap, is spread over the dies, along the outermost dimension that is long
// enough: the channels of one die would be all that the cache of a language model is
// read from.
func (p *plan) homes(st *store) []box {
	first, all := st.writers[0], whole(st.dims)
	parts := make([]box, p.clusters)
	for j, b := range first.parts {
		parts[j] = first.out.inStore(b)
		for axis := range all.hi { // what lies beside a state lies where that does
			if !b.empty() && b.ext(axis) == first.out.dims[axis] {
				parts[j] = parts[j].along(axis, 0, all.hi[axis])
			}
		}
	}
	perDie := int(p.chip.ClustersPerDie.Int())
	dies := (p.clusters + perDie - 1) / perDie
	each := make([]int64, dies)
	for j, b := range parts {
		each[j/perDie] += b.numel()
	}
	const uneven = 5. / 4
	if !st.spilled || dies == 1 || float64(slices.Max(each)) <= uneven*float64(all.numel())/float64(dies) {
		return parts
	}
	axis := 0
	for a := range st.dims {
		if st.dims[axis] < dies && st.dims[a] > st.dims[axis] {
			axis = a
		}
	}
	spread := make([]box, p.clusters)
	for i, b := range all.pieces(axis, dies, 1) {
		spread[i*perDie] = b
	}
	return spread
}

// ioOf describes an input or output.
func (p *plan) ioOf(v *ir.Value, t *tensor) isa.IO {
	io := isa.IO{Name: v.Name, Shape: v.Type.Shape, Addr: t.store.dram}
	if p.batch > 0 {
		io.Shape = slices.Clone(io.Shape)
		io.Shape[0] = p.batch
	}
	io.DType = numberTypes[v.Type.DType]
	if q := v.Type.Quant; q != nil && q.IsPerTensor() {
		io.Scale, io.Zero = q.Scale[0], q.Zero[0]
	}
	return io
}

// accumulatorBytes returns the accumulators that the products use.
func (p *plan) accumulatorBytes() int64 {
	for _, s := range p.steps {
		switch s.kernel.(type) {
		case *product, *pair:
			return accumulators(p.chip)
		}
	}
	return 0
}

// weightBytes returns the size of the constants of the model, each once: weights,
// biases, tables.
func (p *plan) weightBytes() int64 {
	n := int64(0)
	seen := make([]bool, len(p.g.Values))
	for i := range p.g.Ops {
		for _, id := range p.g.Ops[i].In {
			if id >= 0 && p.g.IsConst(id) && !seen[id] {
				seen[id] = true
				n += p.g.Type(id).Bytes()
			}
		}
	}
	return n
}

// describe says for people where a step runs.
func (p *plan) describe(s *step) string {
	switch k := s.kernel.(type) {
	case *product:
		return k.describe(s, p)
	case *pair:
		return k.describe(s, p)
	case *loader, *storer:
		return "DRAM"
	}
	n := 0
	for _, b := range s.parts {
		if !b.empty() {
			n++
		}
	}
	return fmt.Sprintf("vector unit, %d of %d clusters", n, p.clusters)
}
