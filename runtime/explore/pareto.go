package explore

import (
	"cmp"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"
)

// dominates reports whether costs a are nowhere above b and somewhere below.
func dominates(a, b []float64) bool {
	below := false
	for i := range a {
		if a[i] > b[i] {
			return false
		}
		below = below || a[i] < b[i]
	}
	return below
}

// archive holds costs that do not dominate each other.
type archive struct {
	costs  [][]float64
	owners []string
}

// beats returns the owner of an element that dominates the costs, "" if none.
func (a *archive) beats(c []float64) string {
	for i := range a.costs {
		if dominates(a.costs[i], c) {
			return a.owners[i]
		}
	}
	return ""
}

// add puts costs in unless they are dominated, and drops what they dominate.
func (a *archive) add(c []float64, owner string) bool {
	if a.beats(c) != "" {
		return false
	}
	n := 0
	for i := range a.costs {
		if !dominates(c, a.costs[i]) {
			a.costs[n], a.owners[n] = a.costs[i], a.owners[i]
			n++
		}
	}
	a.costs, a.owners = append(a.costs[:n], c), append(a.owners[:n], owner)
	return true
}

// ranks sorts costs into fronts: rank 0 is dominated by none, rank 1 only by
// those of rank 0, and so on (Deb et al., IEEE TEC 2002).
func ranks(costs [][]float64) []int {
	n := len(costs)
	rank := make([]int, n)
	beaten := make([]int, n) // by how many not yet ranked
	wins := make([][]int32, n)
	for i := range n {
		for j := range i {
			switch {
			case dominates(costs[i], costs[j]):
				wins[i] = append(wins[i], int32(j))
				beaten[j]++
			case dominates(costs[j], costs[i]):
				wins[j] = append(wins[j], int32(i))
				beaten[i]++
			}
		}
	}
	var front []int
	for i, b := range beaten {
		if b == 0 {
			front = append(front, i)
		}
	}
	for r := 0; len(front) > 0; r++ {
		var next []int
		for _, i := range front {
			rank[i] = r
			for _, j := range wins[i] {
				if beaten[j]--; beaten[j] == 0 {
					next = append(next, int(j))
				}
			}
		}
		front = next
	}
	return rank
}

// crowding returns for each of the given elements how far its neighbours of the
// same rank are, the ends infinitely (Deb et al., IEEE TEC 2002).
func crowding(costs [][]float64, rank []int) []float64 {
	far := make([]float64, len(costs))
	groups := map[int][]int{}
	for i, r := range rank {
		groups[r] = append(groups[r], i)
	}
	for _, g := range groups {
		for k := range costs[g[0]] {
			slices.SortStableFunc(g, func(a, b int) int { return cmp.Or(cmp.Compare(costs[a][k], costs[b][k]), cmp.Compare(a, b)) })
			lo, hi := costs[g[0]][k], costs[g[len(g)-1]][k]
			far[g[0]], far[g[len(g)-1]] = math.Inf(1), math.Inf(1)
			if hi <= lo {
				continue
			}
			for i := 1; i+1 < len(g); i++ {
				far[g[i]] += (costs[g[i+1]][k] - costs[g[i-1]][k]) / (hi - lo)
			}
		}
	}
	return far
}

// Hypervolume returns the volume of what the costs dominate up to a reference
// point, by slicing along one objective after the other (Zitzler, 1999). Costs
// beyond the reference count for nothing.
func Hypervolume(costs [][]float64, ref []float64) float64 {
	var in [][]float64
	for _, c := range costs {
		inside := true
		for k := range ref {
			inside = inside && c[k] < ref[k]
		}
		if inside {
			in = append(in, c)
		}
	}
	return slice(in, ref, len(ref))
}

// slice is the volume in the first n objectives.
func slice(costs [][]float64, ref []float64, n int) float64 {
	if len(costs) == 0 {
		return 0
	}
	if n == 1 {
		best := costs[0][0]
		for _, c := range costs[1:] {
			best = min(best, c[0])
		}
		return ref[0] - best
	}
	sorted := slices.Clone(costs)
	slices.SortFunc(sorted, func(a, b []float64) int { return cmp.Compare(a[n-1], b[n-1]) })
	volume := 0.0
	for i := range sorted {
		end := ref[n-1]
		if i+1 < len(sorted) {
			end = sorted[i+1][n-1]
		}
		if thick := end - sorted[i][n-1]; thick > 0 {
			volume += thick * slice(sorted[:i+1], ref, n-1)
		}
	}
	return volume
}

// mostCorrelated bounds the pairs of a rank correlation, which takes quadratic
// time.
const mostCorrelated = 1500

// Kendall returns the rank correlation τ of two series: the share of pairs in the
// same order less that in the opposite order. NaN when there are fewer than three.
func Kendall(x, y []float64) float64 {
	x, y = thin(x), thin(y)
	if len(x) < 3 {
		return math.NaN()
	}
	return stat.Kendall(x, y, nil)
}

// Spearman returns the correlation of the ranks of two series, equal values
// having their mean rank.
func Spearman(x, y []float64) float64 {
	if len(x) < 3 {
		return math.NaN()
	}
	return stat.Correlation(meanRanks(x), meanRanks(y), nil)
}

// thin takes evenly spread elements when there are too many.
func thin(x []float64) []float64 {
	if len(x) <= mostCorrelated {
		return x
	}
	out := make([]float64, mostCorrelated)
	for i := range out {
		out[i] = x[i*len(x)/mostCorrelated]
	}
	return out
}

func meanRanks(x []float64) []float64 {
	order := make([]int, len(x))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(x[a], x[b]) })
	r := make([]float64, len(x))
	for i := 0; i < len(order); {
		j := i
		for j < len(order) && x[order[j]] == x[order[i]] {
			j++
		}
		for k := i; k < j; k++ {
			r[order[k]] = float64(i+j-1) / 2
		}
		i = j
	}
	return r
}
