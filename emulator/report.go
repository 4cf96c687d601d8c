package emulator

import (
	"math"
	"time"

	"situ/arch"
	"situ/backend/pim/isa"
	"situ/emulator/energy"
	"situ/emulator/timing"
)

// Report is what a run measured. Amounts are of one inference unless they say
// otherwise; those of the init streams, which run once, are apart.
type Report struct {
	Model string `json:"model"`
	Arch  string `json:"arch"`
	Quant string `json:"quant"`
	Mode  string `json:"mode"`

	Inputs     int     `json:"inputs"`      // how many were run back to back
	LatencyPS  int64   `json:"latency_ps"`  // of the first input
	IntervalPS int64   `json:"interval_ps"` // between inputs in the steady state; the latency when only one was run
	TotalPS    int64   `json:"total_ps"`    // of all inputs
	Cycles     int64   `json:"cycles"`      // clock cycles of the latency
	Throughput float64 `json:"throughput_per_s"`

	MACs        int64   `json:"macs"`        // useful multiply-accumulates, arrays and vector unit
	Utilisation float64 `json:"utilisation"` // useful multiply-accumulates of the arrays over their peak, at the interval

	Counters   timing.Counters `json:"counters"`
	Bytes      timing.Bytes    `json:"bytes"`
	Compulsory int64           `json:"compulsory_bytes"` // each weight, input, output and state once, and what is new of the state
	Energy     energy.Joules   `json:"energy_j"`         // static power over the interval

	Init  Phase   `json:"init"`
	Units []Unit  `json:"units"`
	Layer []Layer `json:"layers"`

	// Host is what the emulation itself took; it is the only figure that differs
	// from run to run and is no part of the JSON form.
	Host time.Duration `json:"-"`
}

// Phase is what the init streams did.
type Phase struct {
	PS       int64           `json:"ps"`
	Counters timing.Counters `json:"counters"`
	Bytes    timing.Bytes    `json:"bytes"`
	Energy   energy.Joules   `json:"energy_j"`
}

// Unit is how busy a kind of unit was.
type Unit struct {
	Name   string  `json:"name"`
	BusyPS int64   `json:"busy_ps"` // summed over clusters
	Share  float64 `json:"share"`   // of clusters × interval
}

// Layer is what one layer took. Times overlap those of other layers.
type Layer struct {
	Name       string        `json:"name"`
	Op         string        `json:"op"`
	Mapping    string        `json:"mapping"`
	MACs       int64         `json:"macs"`
	StartPS    int64         `json:"start_ps"` // of the first input
	EndPS      int64         `json:"end_ps"`
	SpanPS     int64         `json:"span_ps"`       // from start to end; of a batch in rounds the sum of those of each
	ArrayPS    int64         `json:"array_busy_ps"` // summed over clusters
	VectorPS   int64         `json:"vector_busy_ps"`
	Bytes      timing.Bytes  `json:"bytes"`
	Energy     energy.Joules `json:"energy_j"` // without static power
	ArraySlots int64         `json:"array_slots"`
}

// fill computes the report's figures from a timing result.
func (r *Report) fill(p *isa.Program, c *arch.Chip, res *timing.Result) {
	n := int64(len(res.Finish))
	r.Inputs = int(n)
	r.LatencyPS, r.TotalPS = res.Finish[0], res.Main.PS
	r.IntervalPS = r.LatencyPS
	if n > 1 {
		r.IntervalPS = max((res.Finish[n-1]-res.Finish[0]+(n-1)/2)/(n-1), busiest(res, int64(len(p.Main)), n))
	}
	r.Cycles = int64(math.Round(float64(r.LatencyPS) / c.PeriodPS()))
	if r.IntervalPS > 0 {
		r.Throughput = 1e12 / float64(r.IntervalPS)
	}

	r.Counters = res.Main.Total()
	r.Counters.Div(n)
	r.Bytes = r.Counters.Bytes()
	r.Energy = energy.Of(&r.Counters, r.IntervalPS, c)
	r.MACs = r.Counters.MACs + r.Counters.MACsInt4 + r.Counters.VectorMACs
	r.Compulsory = compulsory(p)
	if cycles := float64(r.IntervalPS) / c.PeriodPS(); cycles > 0 {
		r.Utilisation = float64(r.Counters.MACs)/(peakPerCycle(c, 8)*cycles) + float64(r.Counters.MACsInt4)/(peakPerCycle(c, 4)*cycles)
	}

	init := res.Init.Total()
	r.Init = Phase{PS: res.Init.PS, Counters: init, Bytes: init.Bytes(), Energy: energy.Of(&init, res.Init.PS, c)}

	for u := isa.UnitCtrl + 1; u < isa.NumUnits; u++ {
		busy := res.Main.Units[u] / n
		unit := Unit{Name: u.String(), BusyPS: busy}
		if r.IntervalPS > 0 {
			unit.Share = float64(busy) / (float64(len(p.Main)) * float64(r.IntervalPS))
		}
		r.Units = append(r.Units, unit)
	}
	perRound := len(p.Layers) / p.NumRounds()
	for i, l := range p.Layers[:perRound] {
		t := res.Main.Layers[i]
		span := t.End - t.Start
		for k := i + perRound; k < len(p.Layers); k += perRound {
			o := &res.Main.Layers[k]
			l.MACs += p.Layers[k].MACs
			span += o.End - o.Start
			t.Start, t.End = min(t.Start, o.Start), max(t.End, o.End)
			t.Counters.Add(&o.Counters)
			for u := range t.Busy {
				t.Busy[u] += o.Busy[u]
			}
		}
		t.Counters.Div(n)
		r.Layer = append(r.Layer, Layer{
			Name: l.Name, Op: l.Op, Mapping: l.Mapping, MACs: l.MACs, StartPS: t.Start, EndPS: t.End, SpanPS: span,
			ArrayPS: t.Busy[isa.UnitArray] / n, VectorPS: t.Busy[isa.UnitVector] / n,
			Bytes: t.Counters.Bytes(), Energy: energy.Of(&t.Counters, 0, c), ArraySlots: t.Counters.ArraySlots,
		})
	}
}

// busiest is how long the busier of arrays and vector units are at work for one of
// n inputs, the mean of the clusters. Inputs cannot follow each other faster for
// long, as these units do one thing at a time, while a few inputs may seem to: when
// the first ends, units may have done part of the others.
func busiest(res *timing.Result, clusters, n int64) int64 {
	busy := max(res.Main.Units[isa.UnitArray], res.Main.Units[isa.UnitVector])
	return (busy + clusters*n - 1) / (clusters * n)
}

// peakPerCycle is how many multiply-accumulates the chip's arrays can do in a
// cycle with weights of a width.
func peakPerCycle(c *arch.Chip, wbits int) float64 {
	return float64(c.NumClusters()) * c.CoresPerCluster.Value * c.Array.Rows.Value * float64(c.Cols(wbits)) / float64(c.InputCycles())
}

// compulsory is the traffic that no schedule avoids which keeps nothing on the chip.
func compulsory(p *isa.Program) int64 {
	total := p.WeightBytes
	for _, list := range [][]isa.IO{p.Inputs, p.Outputs} {
		for i := range list {
			n, _ := list[i].Bytes() // valid: Load has checked it
			total += n
		}
	}
	for _, s := range p.States { // of runs behind the first
		n, _ := p.Inputs[s.Input].Bytes()
		total += s.Bytes + s.New - n
	}
	return total
}
