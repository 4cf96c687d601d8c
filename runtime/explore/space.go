package explore

import (
	"fmt"
	"math"
	"math/bits"
	"os"
	"slices"
	"strings"
	"time"

	"situ/arch"
)

// Space is what is to be explored: which designs, for which models, under which
// limits, and for what.
type Space struct {
	Name        string
	File        string
	Text        []byte // of the file
	Description string
	Models      []ModelRef
	Base        *arch.Chip

	Params      []Param // free ones: the coordinates of a point
	Derived     []Param // those given by expressions, each after what it needs
	Constraints []Constraint
	Objectives  []Objective
	Search      Search
	Budget      Budget
	Funnel      Funnel
	Seed        uint64

	figures []string // paths that some point sets
}

// ModelRef names a model of the space.
type ModelRef struct {
	Name  string           // that ships, or a file
	Batch string           // symbolic dimension that the parameter batch binds, "" if none
	Dims  map[string]int64 // other symbolic dimensions

	data  []byte // of the file, where Name is that of a file on another machine
	title string // and what the model is called there
}

// Param is one parameter. A free one takes each of Values; of a choice, the
// values are names and Settings say what each sets.
type Param struct {
	Name     string
	Values   []Value
	Settings []map[string]float64 // of each value of a choice, by figure path
	expr     *expr                // of a derived one
}

// Value is a value of a free parameter: a number, or a name.
type Value struct {
	Num  float64
	Name string
}

func (v Value) String() string {
	if v.Name != "" {
		return v.Name
	}
	return formatNumber(v.Num)
}

func formatNumber(v float64) string {
	if v == math.Trunc(v) && math.Abs(v) < 1e15 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.6g", v)
}

// Constraint is a condition that every design must meet.
type Constraint struct {
	Text string
	expr *expr
	line int
	col  int
}

// Search says how points are proposed.
type Search struct {
	Method     string // a key of searchMethods
	Population int    // of nsga2
	Keep       float64
}

// Budget bounds an exploration; zero means no bound.
type Budget struct {
	Points int
	Time   time.Duration
}

// Funnel says how points are discarded before emulation.
type Funnel struct {
	Margin  float64 // a design is dropped by its estimate when another is better by this share on both sides; estimates are exact, so 0 loses nothing
	Emulate int     // designs emulated at most
	// Designs of the front on which all labelled inputs are emulated at most: it
	// takes as long as hundreds of runs of the timing model.
	Finalists int
}

// Defaults of a space file.
const (
	defaultFinalists  = 4
	defaultEmulate    = 2000
	defaultPopulation = 48
	defaultKeep       = 0.33
	defaultPoints     = 10000 // of searches that could go on for ever
)

// searchMethods are the ways of proposing points.
var searchMethods = map[string]string{
	"exhaustive": "every point, in order",
	"random":     "points drawn at random, none twice",
	"lhs":        "a Latin hypercube: each value of each parameter equally often",
	"nsga2":      "a genetic algorithm on the estimates: nondominated sorting and crowding",
	"halving":    "successive halving: random points, of which each stage keeps a share",
}

// Objective is a quantity to be made small, or large.
type Objective uint8

// Objectives. Their values are made such that less is better: see cost.
const (
	Latency Objective = iota
	Throughput
	Energy
	EnergySteady
	EnergyDelay
	Area
	Power
	Accuracy
	numObjectives
)

var objectives = [numObjectives]struct {
	name, metric, unit, meaning string
	larger                      bool
}{
	Latency:      {"latency", "latency_s", "s", "time of one inference", false},
	Throughput:   {"throughput", "throughput_per_s", "/s", "inferences a second at steady state, the whole chip", true},
	Energy:       {"energy", "energy_j", "J", "energy of one inference alone", false},
	EnergySteady: {"energy_steady", "energy_steady_j", "J", "energy of one inference at steady state", false},
	EnergyDelay:  {"edp", "edp_js", "J·s", "energy × latency", false},
	Area:         {"area", "area_mm2", "mm²", "silicon, the middle of its band", false},
	Power:        {"power", "peak_power_w", "W", "peak power", false},
	Accuracy:     {"accuracy", "accuracy", "", "top-1 on the labelled images of a model that ships", true},
}

func (o Objective) String() string { return objectives[o].name }

// Unit returns the unit of the objective's metric.
func (o Objective) Unit() string { return objectives[o].unit }

// Larger reports whether more of the objective is better.
func (o Objective) Larger() bool { return objectives[o].larger }

// otherMetrics are quantities of a design, besides those of objectives, that
// constraints may name.
var otherMetrics = map[string]string{
	"average_power_w":   "energy over latency",
	"area_low_mm2":      "lower end of the area's band",
	"area_high_mm2":     "upper end of the area's band",
	"weight_sram_total": "bytes of weight SRAM of the card",
	"scratchpad_total":  "bytes of scratchpads of the card",
	"cores":             "of the card",
	"weights_bytes":     "weights of the largest model at the point's precision",
	"streamed":          "1 when weights must be read from DRAM in every inference, else 0",
}

func isMetric(name string) bool {
	_, ok := otherMetrics[name]
	return ok || slices.ContainsFunc(objectives[:], func(o struct {
		name, metric, unit, meaning string
		larger                      bool
	}) bool {
		return o.metric == name
	})
}

// Size returns the number of points of the space; ok is false when it does not
// fit 63 bits.
func (s *Space) Size() (n uint64, ok bool) {
	n = 1
	for i := range s.Params {
		hi, lo := bits.Mul64(n, uint64(len(s.Params[i].Values)))
		if hi != 0 || lo > math.MaxInt64 {
			return math.MaxInt64, false
		}
		n = lo
	}
	return n, true
}

// Point is one design of a space: the index of the value of each free parameter.
type Point []uint16

// String returns the point's name within its space, such as "0.3.1".
func (p Point) String() string {
	var b strings.Builder
	for i, v := range p {
		if i > 0 {
			b.WriteByte('.')
		}
		fmt.Fprintf(&b, "%d", v)
	}
	return b.String()
}

// PointAt returns point i in the order in which the last parameter changes
// fastest.
func (s *Space) PointAt(i uint64) Point {
	p := make(Point, len(s.Params))
	for k := len(p) - 1; k >= 0; k-- {
		n := uint64(len(s.Params[k].Values))
		p[k] = uint16(i % n)
		i /= n
	}
	return p
}

// Load reads a space file, and reports all that is wrong with it, each with line
// and column. Files it names are relative to it.
func Load(path string) (*Space, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("space: %w", err)
	}
	if !info.Mode().IsRegular() || info.Size() > maxSpaceBytes {
		return nil, fmt.Errorf("space: %s is not a regular file of at most %d bytes", path, maxSpaceBytes)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("space: %w", err)
	}
	return Parse(path, text)
}

// ObjectiveNamed returns the objective of a name such as "latency".
func ObjectiveNamed(name string) (Objective, bool) {
	for o := range numObjectives {
		if objectives[o].name == name {
			return o, true
		}
	}
	return 0, false
}
