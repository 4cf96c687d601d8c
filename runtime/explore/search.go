package explore

import (
	"cmp"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat/samplemv"
)

// scored is a point with its estimated costs, nil when it was dropped before it
// was estimated.
type scored struct {
	point Point
	costs []float64
}

// proposer proposes points to be looked at. It is told what became of all it
// proposed before it is asked again, so that a run is reproducible.
type proposer interface {
	next(n int) []Point // up to n more; none at the end
	tell([]scored)
}

// newProposer returns the search of a space, and how many points it will propose.
func newProposer(s *Space) (proposer, uint64) {
	size, _ := s.Size()
	want := size
	if s.Budget.Points > 0 {
		want = min(want, uint64(s.Budget.Points))
	}
	rng := rand.New(rand.NewPCG(s.Seed, 0x51754))
	switch s.Search.Method {
	case "random", "halving":
		if want < size {
			return &drawn{s: s, rng: rng, left: want, seen: map[string]bool{}}, want
		}
	case "lhs":
		return newHypercube(s, rng, int(want)), want
	case "nsga2":
		g := &genetic{drawn: drawn{s: s, rng: rng, left: want, seen: map[string]bool{}}}
		return g, want
	}
	return &enumeration{s: s, end: want}, want
}

// enumeration proposes all points in order.
type enumeration struct {
	s       *Space
	at, end uint64
}

func (e *enumeration) next(n int) []Point {
	var out []Point
	for ; e.at < e.end && len(out) < n; e.at++ {
		out = append(out, e.s.PointAt(e.at))
	}
	return out
}

func (e *enumeration) tell([]scored) {}

// drawn proposes points drawn at random, none twice.
type drawn struct {
	s    *Space
	rng  *rand.Rand
	left uint64
	seen map[string]bool
}

// mostTries bounds the draws for one new point; a space that is nearly used up
// ends the search.
const mostTries = 1000

func (d *drawn) next(n int) []Point {
	var out []Point
	for len(out) < n && d.left > 0 {
		p := d.fresh(d.draw)
		if p == nil {
			d.left = 0
			break
		}
		out = append(out, p)
	}
	return out
}

func (d *drawn) tell([]scored) {}

func (d *drawn) draw() Point {
	p := make(Point, len(d.s.Params))
	for k := range p {
		p[k] = uint16(d.rng.IntN(len(d.s.Params[k].Values)))
	}
	return p
}

// fresh makes points until one is new, and nil when there seems to be none.
func (d *drawn) fresh(make func() Point) Point {
	for range mostTries {
		p := make()
		if id := p.String(); !d.seen[id] {
			d.seen[id] = true
			d.left--
			return p
		}
	}
	return nil
}

// hypercube proposes a Latin hypercube: of n points, each n-th of each
// parameter's values is taken once (McKay et al., 1979).
type hypercube struct {
	points []Point
	at     int
}

func newHypercube(s *Space, rng *rand.Rand, n int) *hypercube {
	h := &hypercube{}
	if len(s.Params) == 0 {
		h.points = []Point{{}}
		return h
	}
	batch := mat.NewDense(n, len(s.Params), nil)
	samplemv.LatinHypercube{Q: unitCube(len(s.Params)), Src: rng}.Sample(batch)
	seen := map[string]bool{}
	for i := range n {
		p := make(Point, len(s.Params))
		for k := range p {
			m := len(s.Params[k].Values)
			p[k] = uint16(min(int(batch.At(i, k)*float64(m)), m-1))
		}
		// Coordinates are fewer than strata, so points may meet.
		if id := p.String(); !seen[id] {
			seen[id] = true
			h.points = append(h.points, p)
		}
	}
	return h
}

// unitCube is the uniform distribution on [0, 1] in some dimensions.
type unitCube int

func (u unitCube) Quantile(x, p []float64) []float64 {
	if x == nil {
		x = make([]float64, len(p))
	}
	copy(x, p)
	return x
}

func (h *hypercube) next(n int) []Point {
	out := h.points[h.at:min(h.at+n, len(h.points))]
	h.at += len(out)
	return out
}

func (h *hypercube) tell([]scored) {}

// genetic is NSGA-II (Deb et al., IEEE TEC 2002) on the indices of values: binary
// tournaments by rank and crowding, uniform crossover, and mutation that goes a
// step aside or anywhere.
type genetic struct {
	drawn
	population []scored
}

func (g *genetic) next(int) []Point {
	n := g.s.Search.Population
	if n == 0 {
		n = defaultPopulation
	}
	if len(g.population) < 4 {
		return g.drawn.next(n)
	}
	costs := make([][]float64, len(g.population))
	for i := range costs {
		costs[i] = g.population[i].costs
	}
	rank := ranks(costs)
	crowd := crowding(costs, rank)
	pick := func() Point {
		a, b := g.rng.IntN(len(rank)), g.rng.IntN(len(rank))
		if rank[b] < rank[a] || rank[b] == rank[a] && crowd[b] > crowd[a] {
			a = b
		}
		return g.population[a].point
	}
	var out []Point
	for len(out) < n && g.left > 0 {
		p := g.fresh(func() Point { return g.child(pick(), pick()) })
		if p == nil { // the surroundings are known; look elsewhere
			if p = g.fresh(g.draw); p == nil {
				g.left = 0
				break
			}
		}
		out = append(out, p)
	}
	return out
}

// child crosses and mutates.
func (g *genetic) child(a, b Point) Point {
	c := make(Point, len(a))
	for k := range c {
		c[k] = a[k]
		if g.rng.IntN(2) == 0 {
			c[k] = b[k]
		}
		m := len(g.s.Params[k].Values)
		if g.rng.Float64() >= 1.5/float64(len(c)) {
			continue
		}
		if g.rng.IntN(4) == 0 {
			c[k] = uint16(g.rng.IntN(m))
			continue
		}
		step := 1 - 2*g.rng.IntN(2)
		c[k] = uint16(min(max(int(c[k])+step, 0), m-1))
	}
	return c
}

// tell keeps the best of parents and children.
func (g *genetic) tell(children []scored) {
	for _, c := range children {
		if c.costs != nil {
			g.population = append(g.population, c)
		}
	}
	costs := make([][]float64, len(g.population))
	for i := range costs {
		costs[i] = g.population[i].costs
	}
	order := bestFirst(costs)
	n := min(max(g.s.Search.Population, 4), len(order))
	next := make([]scored, n)
	for i := range next {
		next[i] = g.population[order[i]]
	}
	g.population = next
}

// bestFirst orders costs by rank, and within a rank the less crowded first.
func bestFirst(costs [][]float64) []int {
	order := make([]int, len(costs))
	for i := range order {
		order[i] = i
	}
	if len(costs) == 0 {
		return order
	}
	rank := ranks(costs)
	crowd := crowding(costs, rank)
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Or(cmp.Compare(rank[a], rank[b]), cmp.Compare(crowd[b], crowd[a])) })
	return order
}
