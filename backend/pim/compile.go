package pim

import (
	"cmp"
	"fmt"
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
	l, err := lower(g, c, opt.States...)
	if err != nil {
		return nil, err
	}
	return l.choose(opt)
}

// choose plans the program for several numbers of clusters and returns the plan
// that serves the objective best.
func (l *lowering) choose(opt Options) (*plan, error) {
	if total := l.chip.NumClusters(); opt.Clusters < 0 || opt.Clusters > total {
		return nil, fmt.Errorf("%d clusters asked for, %s has %d", opt.Clusters, l.chip.Name, total)
	}
	var firstErr error
	for _, how := range efforts {
		var noPlace error
		options := options{lowering: l, objective: opt.Objective, how: how, waiting: l.counts(opt)}
		for {
			o, ok := options.next()
			if !ok {
				break
			}
			p := &plan{lowering: l, clusters: o.clusters, effort: how}
			p.resplit(o.splits)
			err := p.place()
			if err == nil {
				return p, nil
			}
			noPlace = cmp.Or(noPlace, err)
		}
		firstErr = cmp.Or(firstErr, options.err, noPlace)
	}
	return nil, firstErr
}

// option is a number of clusters that one copy of a program may use.
type option struct {
	clusters int
	score    float64 // cycles, the less the better, or no more than that
	splits   []int32 // of each step
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
		o.score = opt.Objective.score(o.score, total/o.clusters)
	}
	return counts
}

// score is what the cycles of a program count of which some copies run side by side.
func (o Objective) score(cycles float64, copies int) float64 {
	if o == Throughput {
		return cycles / float64(copies)
	}
	return cycles
}

// options goes through the numbers of clusters for which all weights find a place
// with an effort, the best first. It splits the steps for those only that may be
// the best of the rest.
type options struct {
	*lowering
	objective Objective
	how       effort
	waiting   []option // their scores are bounds
	ready     []option
	err       error // of the least number that cannot be
	errAt     int
}

// next returns the best option that is left.
func (o *options) next() (option, bool) {
	order := func(a, b option) int {
		return cmp.Or(cmp.Compare(a.score, b.score), cmp.Compare(a.clusters, b.clusters))
	}
	for len(o.waiting) > 0 {
		i := 0
		for k := range o.waiting {
			if o.waiting[k].score < o.waiting[i].score {
				i = k
			}
		}
		if len(o.ready) > 0 && slices.MinFunc(o.ready, order).score < o.waiting[i].score {
			break
		}
		n := o.waiting[i].clusters
		o.waiting = slices.Delete(o.waiting, i, i+1)
		o.split(n)
	}
	if len(o.ready) == 0 {
		return option{}, false
	}
	best := slices.MinFunc(o.ready, order)
	o.ready = slices.DeleteFunc(o.ready, func(r option) bool { return r.clusters == best.clusters })
	return best, true
}

// split splits the steps over n clusters.
func (o *options) split(n int) {
	p := &plan{lowering: o.lowering, clusters: n, effort: o.how}
	if !o.how.stream && o.leastWeights() > int64(n)*o.chip.CoresPerCluster.Int()*o.chip.WeightSRAM.Bytes.Int() {
		return
	}
	p.split()
	fits, err := p.placeWeights()
	if err != nil && (o.err == nil || n < o.errAt) {
		o.err, o.errAt = err, n
	}
	if err == nil && fits {
		o.ready = append(o.ready, option{n, o.objective.score(float64(p.cycles), o.chip.NumClusters()/n), p.splitNumbers()})
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
		if n := p.traffic(); best < 0 || n < best {
			best, bestShare = n, share
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
	home := func(st *store) {
		end = roundUp(end, 64)
		st.dram = end
		end += st.dims.numel() * int64(st.elem)
	}
	prog := &isa.Program{
		Model: p.g.Name, Arch: p.chip.Name, Quant: opt.Quant,
		DescribedBytes: m.bytes - m.stored, ScratchpadBytes: p.high, WeightSRAMBytes: max(p.ringEnd, p.writtenEnd),
		AccumulatorBytes: p.accumulatorBytes(), WeightBytes: p.weightBytes(), Replicas: p.chip.NumClusters() / p.clusters,
	}
	for i, t := range p.inputs {
		home(t.store)
		regions = append(regions, p.regionsOf(t.store, p.homes(t.store))...)
		prog.Inputs = append(prog.Inputs, ioOf(p.g.Value(p.g.Inputs[i]), t))
	}
	for i, t := range p.outputs {
		home(t.store)
		regions = append(regions, p.regionsOf(t.store, p.storer(t).parts)...)
		prog.Outputs = append(prog.Outputs, ioOf(p.g.Value(p.outputIDs[i]), t))
	}
	prog.States = p.describedStates()
	for _, st := range p.stores {
		if st.spilled && !st.inner && !st.input && !st.output && !st.constant() {
			home(st)
			if st.kept {
				regions = append(regions, p.regionsOf(st, p.homes(st))...)
			}
		}
	}
	prog.DRAMBytes = end
	if have := p.chip.DRAM.Bytes.Int(); end > have {
		return nil, fmt.Errorf("model %q with its inputs, outputs and spilled tensors takes %d bytes of DRAM, %s has %d", p.g.Name, end, p.chip.Name, have)
	}
	if prog.Quant == "" {
		prog.Quant = p.quant()
	}
	prog.Regions = regions
	var err error
	if prog.Init, prog.Main, err = p.generate(); err != nil {
		return nil, err
	}
	prog.Layers = usedLayers(p.layers, p.emitter.used, prog.Init, prog.Main)
	return prog, nil
}

// usedLayers returns inputs, outputs and the layers that instructions belong to or
// that compute something, and renumbers the instructions'. What a fold made superfluous goes.
func usedLayers(layers []isa.Layer, used []bool, streams ...[]isa.Stream) []isa.Layer {
	var out []isa.Layer
	to := make([]int32, len(layers))
	for i, l := range layers {
		to[i] = int32(len(out))
		if used[i] || l.MACs > 0 || l.Op == "input" || l.Op == "output" {
			out = append(out, l)
		}
	}
	if len(out) == len(layers) {
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

// maxRegions bounds how finely an input or output is spread over dies.
const maxRegions = 256

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
	if len(regions) > maxRegions {
		return p.evenRegions(st)
	}
	return regions
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
	return regions
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
func ioOf(v *ir.Value, t *tensor) isa.IO {
	io := isa.IO{Name: v.Name, Shape: v.Type.Shape, Addr: t.store.dram}
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
