package arch

import (
	"fmt"
	"math"
	"reflect"
	"sync"
)

// FigurePaths lists the keys of all figures of a Chip, such as "array.rows", in
// the order of a description.
func FigurePaths() []string {
	var paths []string
	for _, l := range leaves(reflect.ValueOf(&Chip{}).Elem()) {
		if l.figure != nil {
			paths = append(paths, l.path)
		}
	}
	return paths
}

// FigureAt returns the figure of the chip at a key such as "array.rows", nil when
// there is none.
func (c *Chip) FigureAt(path string) *Figure {
	index, ok := chipFigures()[path]
	if !ok {
		return nil
	}
	return reflect.ValueOf(c).Elem().FieldByIndex(index).Addr().Interface().(*Figure)
}

// chipFigures returns where the figures of a Chip are, by key.
var chipFigures = sync.OnceValue(func() map[string][]int {
	m := map[string][]int{}
	for _, l := range leaves(reflect.ValueOf(&Chip{}).Elem()) {
		if l.figure != nil {
			m[l.path] = l.index
		}
	}
	return m
})

// Band is an amount that is known to lie between two others.
type Band struct{ Low, Mid, High float64 }

func (b Band) add(o Band) Band { return Band{b.Low + o.Low, b.Mid + o.Mid, b.High + o.High} }

func (b Band) times(n float64) Band { return Band{b.Low * n, b.Mid * n, b.High * n} }

// AreaPart is the area of one kind of unit of the whole card.
type AreaPart struct {
	Name   string
	MM2    Band
	Source string // of the area of one unit
}

// AreaReport is the area of a card by kind of unit.
type AreaReport []AreaPart

// Total sums the parts.
func (r AreaReport) Total() Band {
	var sum Band
	for _, p := range r {
		sum = sum.add(p.MM2)
	}
	return sum
}

// unitArea is published silicon: µm² of one unit at some node.
type unitArea struct {
	node   float64 // nm
	um2    Band
	shrink float64 // exponent of the logic area ratio with which it shrinks at the least; 1 for logic
	source string
}

// The units whose areas add up to a chip. The band of a unit holds what silicon
// of different authors takes at its node; scaling widens it further.
var (
	areaCell = unitArea{28, Band{17.8, 34, 76.6}, 1,
		"µm² of one 8-bit weight with its multiplier: 0.146 mm² for 8192 (ISSCC 2023 7.2), 0.269 for 4096 (ISSCC 2023 16.3), 0.941 for 12288 (ISSCC 2022 15.5), all 28 nm, via zigzag-imc"}
	areaSRAM = unitArea{7, Band{0.104, 0.12, 0.38}, 0.3,
		"µm² of one bit: 112 mm² for 128 MB and 51 mm² for 16 MB at 7 nm, TPUv4i in accelforge; SRAM shrinks less than logic"}
	areaLane = unitArea{40, Band{5400, 7200, 9600}, 1,
		"µm² of a 32-bit lane: multiplier 6350, adder 278 and three registers of 32 × 5.98 at 40 nm, Aladdin in accelergy; ± a third for operand routing"}
	areaFloatLane = unitArea{40, Band{7200, 14000, 22000}, 1,
		"µm² of a float32 lane: one to three times an integer lane, assumed"}
	areaRouter = unitArea{32, Band{4700, 9000, 17500}, 1,
		"µm² of a router for a byte a cycle: 0.15 mm² for 32 (ISAAC, ISCA 2016), 0.14 mm² for 8 (PIMCOMP, DAC 2023), both 32 nm"}
	areaPHY = unitArea{7, Band{30000, 60000, 120000}, 0.25,
		"µm² of DRAM interface for 1 GB/s: 0.8 to 3 mm² for a 32-bit LPDDR5 channel of 25.6 GB/s, assumed; analogue hardly shrinks"}
	areaShifter = unitArea{32, Band{20, 60, 120}, 1,
		"µm² of a shifter of three bits behind a block's sum: 60 for a 16-bit shift and add (ISAAC, ISCA 2016, 32 nm), a third without the adder, twice for wider sums, assumed"}
	areaLink = unitArea{7, Band{1000, 3000, 10000}, 0.25,
		"µm² of die-to-die interface for 1 GB/s: 0.1 to 1 TB/s a mm² of chiplet interfaces, assumed"}
)

// logicArea is the area of logic at a node against 45 nm: Stillmaker and Baas,
// Integration 58 (2017), as tabled in accelergy's scaling.
var logicArea = []struct{ node, ratio float64 }{{45, 1}, {32, 0.46}, {20, 0.21}, {16, 0.19}, {14, 0.17}, {10, 0.10}, {7, 0.059}}

// logicRatio interpolates logicArea between nodes in the logarithm of both.
// Above 45 nm area goes as the square of the node, below 7 nm as the node (IRDS).
func logicRatio(node float64) float64 {
	first, last := logicArea[0], logicArea[len(logicArea)-1]
	switch {
	case node >= first.node:
		return math.Pow(node/first.node, 2)
	case node <= last.node:
		return last.ratio * node / last.node
	}
	for i := range logicArea {
		a, b := logicArea[i], logicArea[i+1]
		if node < b.node {
			continue
		}
		f := math.Log(node/b.node) / math.Log(a.node/b.node)
		return b.ratio * math.Pow(a.ratio/b.ratio, f)
	}
	return last.ratio
}

// at returns the µm² of a unit at a node. One end of the band shrinks as logic,
// the other as little as the unit may; the middle lies between, geometrically.
func (u *unitArea) at(node float64) Band {
	logic := logicRatio(node) / logicRatio(u.node)
	least := math.Pow(logic, u.shrink)
	if u.shrink == 1 { // published chips fall short of the table by up to this
		least = math.Pow(logic, 0.8)
	}
	return Band{u.um2.Low * min(logic, least), u.um2.Mid * math.Sqrt(logic*least), u.um2.High * max(logic, least)}
}

// Area estimates the silicon of the card's dies by adding up its units; the DRAM
// devices are not part of it. It is an error when the description states no
// node_nm.
func (c *Chip) Area() (AreaReport, error) {
	node := c.NodeNM.Value
	if node <= 0 {
		return nil, fmt.Errorf("%s states no node_nm, without which areas cannot be scaled", c.Name)
	}
	dies := c.Dies.Value
	clusters := dies * c.ClustersPerDie.Value
	cores := clusters * c.CoresPerCluster.Value
	cells := cores * c.Array.Rows.Value * c.Array.Cols.Value
	sets := c.Array.WeightSets.Value - 1 // further sets are cells without multipliers
	var r AreaReport
	add := func(name string, u *unitArea, n float64) {
		r = append(r, AreaPart{name, u.at(node).times(n / 1e6), u.source})
	}
	add("arrays", &areaCell, cells)
	if rows := c.ShiftRows(); rows > 0 {
		add("block shifters", &areaShifter, cores*c.Array.Rows.Value/float64(rows)*max(c.Array.Cols.Value, c.Array.ColsInt4.Value))
	}
	add("weight SRAM", &areaSRAM, 8*cores*c.WeightSRAM.Bytes.Value+8*cells*sets)
	add("accumulators", &areaSRAM, 8*cores*c.Accumulator.Bytes.Value)
	add("scratchpads", &areaSRAM, 8*clusters*c.Scratchpad.Bytes.Value)
	add("vector units, integer", &areaLane, clusters*c.Vector.Lanes.Value)
	add("vector units, float32", &areaFloatLane, clusters*c.Vector.F32Lanes.Value)
	add("network", &areaRouter, clusters*c.NoC.LinkBytes.Value)
	add("DRAM interface", &areaPHY, c.DRAM.GBs.Value)
	if dies > 1 {
		add("die-to-die links", &areaLink, dies*c.DieLink.GBs.Value)
	}
	return r, nil
}

// PeakPowerW is what the card would draw with every array, memory port, vector
// lane and the DRAM busy in every cycle, static power included. No program
// reaches it; a power limit below it means that the clock must fall under load.
func (c *Chip) PeakPowerW() float64 {
	hz := c.ClockMHz.Value * 1e6
	clusters := c.Dies.Value * c.ClustersPerDie.Value
	cores := clusters * c.CoresPerCluster.Value
	a := &c.Array
	vectors := hz / float64(c.InputCycles()) // input vectors a second of one array
	macs := max(a.Cols.Value*a.MACEnergyFJ.Value, a.ColsInt4.Value*a.MACInt4EnergyFJ.Value) * a.Rows.Value * vectors
	if rows := c.ShiftRows(); rows > 0 {
		macs += a.Rows.Value / float64(rows) * max(a.Cols.Value, a.ColsInt4.Value) * a.ShiftEnergyFJ.Value * vectors
	}
	latch := 8 * a.Rows.Value * a.InputEnergyFJBit.Value * vectors
	sums := 2 * 32 * max(a.Cols.Value, a.ColsInt4.Value) * c.Accumulator.EnergyFJBit.Value * vectors
	stream := 8 * c.WeightSRAM.PortBytes.Value * (c.WeightSRAM.ReadEnergyFJBit.Value + a.LoadEnergyFJBit.Value) * hz
	if a.WeightSets.Value < 2 { // an array is loaded or computes
		stream = 0
	}
	pad := 8 * (c.Scratchpad.ReadBytes.Value*c.Scratchpad.ReadEnergyFJBit.Value + c.Scratchpad.WriteBytes.Value*c.Scratchpad.WriteEnergyFJBit.Value) * hz
	lanes := (c.Vector.Lanes.Value*c.Vector.OpEnergyFJ.Value + c.Vector.F32Lanes.Value*c.Vector.F32OpEnergyFJ.Value) * hz
	noc := 8 * c.NoC.LinkBytes.Value * c.NoC.EnergyFJBitHop.Value * hz
	dram := 8 * c.DRAM.GBs.Value * 1e9 * c.DRAM.EnergyFJBit.Value
	return c.Power.StaticW.Value + 1e-15*(cores*(macs+latch+sums+stream)+clusters*(pad+lanes+noc)+dram)
}
