package arch

import "fmt"

// Chip describes a processing-in-memory card: dies of clusters of cores, each
// core one compute-in-memory macro. Units are in the names of the keys.
type Chip struct {
	Name        string `yaml:"name"`
	Kind        string `yaml:"kind"` // "pim"
	BasedOn     string `yaml:"based_on"`
	Description string `yaml:"description"`

	NodeNM          Figure `yaml:"node_nm" unit:"nm" max:"1000" optional:"yes" area:"yes"` // technology; only areas follow from it
	ClockMHz        Figure `yaml:"clock_mhz" unit:"MHz" max:"100000"`
	Dies            Figure `yaml:"dies" check:"count" max:"1024"`
	ClustersPerDie  Figure `yaml:"clusters_per_die" check:"count" max:"4096"`
	MeshColumns     Figure `yaml:"mesh_columns" check:"count" max:"4096"`              // clusters in a row of a die's mesh
	IssueCycles     Figure `yaml:"issue_cycles" unit:"cycles" check:"count" max:"1e6"` // sequencer cycles an instruction
	CoresPerCluster Figure `yaml:"cores_per_cluster" check:"count" max:"65536"`
	Array           Array  `yaml:"array"`

	WeightSRAM  WeightSRAM  `yaml:"weight_sram"`
	Accumulator Accumulator `yaml:"accumulator"`
	Scratchpad  Scratchpad  `yaml:"scratchpad"`
	Vector      Vector      `yaml:"vector"`
	NoC         NoC         `yaml:"noc"`
	DieLink     Link        `yaml:"die_link"`
	DRAM        DRAM        `yaml:"dram"`
	Power       Power       `yaml:"power"`

	where positions // where each key was stated; empty for chips built in Go
}

// Variant returns a copy under another name, whose figures are to be changed; its
// problems name no place in a file.
func (c *Chip) Variant(name string) *Chip {
	v := *c
	v.Name, v.where = name, positions{}
	return &v
}

// FollowCols sets the columns of 4-bit weights so that they keep their ratio to
// those of 8-bit weights in base, for a description that changes the latter alone.
func (c *Chip) FollowCols(base *Chip) {
	if cols := c.Array.Cols.Value; cols == base.Array.Cols.Value || !(cols > 0) {
		return
	}
	ratio := base.Array.ColsInt4.Value / base.Array.Cols.Value
	c.Array.ColsInt4 = Figure{c.Array.Cols.Value * ratio, fmt.Sprintf("%g × array.cols, as in %s", ratio, base.Name), "D"}
}

// Array is the compute-in-memory macro of one core.
type Array struct {
	Rows              Figure `yaml:"rows" check:"count" max:"65536"`
	Cols              Figure `yaml:"cols" check:"count" max:"65536"`      // columns of 8-bit weights
	ColsInt4          Figure `yaml:"cols_int4" check:"count" max:"65536"` // columns of 4-bit weights
	InputBitsPerCycle Figure `yaml:"input_bits_per_cycle" unit:"bits" check:"count" max:"8"`
	WeightSets        Figure `yaml:"weight_sets" check:"count" max:"2"`                     // 2: the array computes with one set while another is loaded
	PipelineCycles    Figure `yaml:"pipeline_cycles" unit:"cycles" check:"count" max:"1e6"` // from the last input bit to the accumulators
	MACEnergyFJ       Figure `yaml:"mac_energy_fj" unit:"fJ" max:"1e9" energy:"yes"`        // int8 input × int8 weight, accumulated
	MACInt4EnergyFJ   Figure `yaml:"mac_int4_energy_fj" unit:"fJ" max:"1e9" energy:"yes"`   // int8 input × int4 weight
	LoadEnergyFJBit   Figure `yaml:"load_energy_fj_per_bit" unit:"fJ/bit" max:"1e9" energy:"yes"`
	InputEnergyFJBit  Figure `yaml:"input_energy_fj_per_bit" unit:"fJ/bit" max:"1e9" energy:"yes"` // input latches and drivers
	// Weights in blocks: a shifter behind the sum of so many rows of a column, see
	// Chip.ShiftRows, and what it takes for one input vector. Left out, there are none.
	ShiftRows     Figure `yaml:"shift_rows" check:"count" max:"65536" optional:"yes"`
	ShiftEnergyFJ Figure `yaml:"shift_energy_fj" unit:"fJ" max:"1e9" optional:"yes" energy:"yes"`
}

// WeightSRAM feeds the array of one core.
type WeightSRAM struct {
	Bytes           Figure `yaml:"bytes" unit:"B" check:"count" max:"1e12"`             // per core
	PortBytes       Figure `yaml:"port_bytes" unit:"B/cycle" check:"count" max:"65536"` // into the array
	ReadEnergyFJBit Figure `yaml:"read_energy_fj_per_bit" unit:"fJ/bit" max:"1e9" energy:"yes"`
	WriteEnergyFJ   Figure `yaml:"write_energy_fj_per_bit" unit:"fJ/bit" max:"1e9" energy:"yes"` // per bit
}

// Accumulator holds int32 partial sums.
type Accumulator struct {
	Bytes       Figure `yaml:"bytes" unit:"B" check:"count" max:"1e12"` // per core
	EnergyFJBit Figure `yaml:"energy_fj_per_bit" unit:"fJ/bit" max:"1e9" energy:"yes"`
}

// Scratchpad is the activation memory that the cores of a cluster share.
type Scratchpad struct {
	Bytes            Figure `yaml:"bytes" unit:"B" check:"count" max:"1e12"` // per cluster
	ReadBytes        Figure `yaml:"read_bytes_per_cycle" unit:"B/cycle" check:"count" max:"1e6"`
	WriteBytes       Figure `yaml:"write_bytes_per_cycle" unit:"B/cycle" check:"count" max:"1e6"`
	ReadEnergyFJBit  Figure `yaml:"read_energy_fj_per_bit" unit:"fJ/bit" max:"1e9" energy:"yes"`
	WriteEnergyFJBit Figure `yaml:"write_energy_fj_per_bit" unit:"fJ/bit" max:"1e9" energy:"yes"`
}

// Vector is the vector unit of a cluster.
type Vector struct {
	Lanes            Figure `yaml:"lanes" check:"count" max:"1e6"`     // 32-bit integer operations a cycle
	F32Lanes         Figure `yaml:"f32_lanes" check:"count" max:"1e6"` // float32 operations a cycle
	StartCycles      Figure `yaml:"start_cycles" unit:"cycles" check:"count" max:"1e6"`
	OpEnergyFJ       Figure `yaml:"op_energy_fj" unit:"fJ" max:"1e9" energy:"yes"`  // one integer lane operation
	F32OpEnergyFJ    Figure `yaml:"f32_energy_fj" unit:"fJ" max:"1e9" energy:"yes"` // one float32 lane operation
	MACEnergyFJ      Figure `yaml:"mac_energy_fj" unit:"fJ" max:"1e9" energy:"yes"` // one int8 multiply-accumulate of a depthwise convolution
	MACsPerLane      Figure `yaml:"macs_per_lane" check:"count" max:"64"`           // int8 multiply-accumulates a lane and cycle
	F32OpsPerSpecial Figure `yaml:"f32_ops_per_special" check:"count" max:"1024"`   // lane operations of exp, log, division …
}

// NoC is the mesh of one die.
type NoC struct {
	LinkBytes      Figure `yaml:"link_bytes_per_cycle" unit:"B/cycle" check:"count" max:"65536"`
	HopCycles      Figure `yaml:"hop_cycles" unit:"cycles" check:"count" max:"1e6"`
	EnergyFJBitHop Figure `yaml:"energy_fj_per_bit_hop" unit:"fJ/bit" max:"1e9" energy:"yes"`
}

// Link joins dies, cards or nodes.
type Link struct {
	GBs         Figure `yaml:"gigabytes_per_s" unit:"GB/s" max:"1e9"`
	LatencyNS   Figure `yaml:"latency_ns" unit:"ns" max:"1e9"`
	EnergyFJBit Figure `yaml:"energy_fj_per_bit" unit:"fJ/bit" max:"1e9" energy:"yes"`
}

// DRAM is the memory of the whole card.
type DRAM struct {
	Kind           Text   `yaml:"kind"`
	Bytes          Figure `yaml:"bytes" unit:"B" check:"count" max:"1e15"`
	ChannelsPerDie Figure `yaml:"channels_per_die" check:"count" max:"1024"`
	GBs            Figure `yaml:"gigabytes_per_s" unit:"GB/s" max:"1e9"` // all channels of the card
	Ceiling        Figure `yaml:"ceiling" check:"fraction"`              // of that, what long transfers get
	LatencyNS      Figure `yaml:"latency_ns" unit:"ns" max:"1e9"`
	EnergyFJBit    Figure `yaml:"energy_fj_per_bit" unit:"fJ/bit" max:"1e9" energy:"yes"` // device and PHY
}

// Sustained returns the rate of long transfers with all channels, in GB/s.
func (d *DRAM) Sustained() float64 { return d.GBs.Value * d.Ceiling.Value }

// Power is what a card draws whatever it does, and what it may draw at most.
type Power struct {
	StaticW Figure `yaml:"static_w" unit:"W" max:"1e6" energy:"yes"`
	TDPW    Figure `yaml:"tdp_w" unit:"W" max:"1e6" energy:"yes"`
}

// NumClusters returns the number of clusters of the card.
func (c *Chip) NumClusters() int { return int(c.Dies.Int() * c.ClustersPerDie.Int()) }

// PeriodPS returns the clock period in picoseconds (not rounded).
func (c *Chip) PeriodPS() float64 { return 1e6 / c.ClockMHz.Value }

// InputCycles returns the cycles one 8-bit input vector takes in an array.
func (c *Chip) InputCycles() int64 { return c.inputCycles(8) }

func (c *Chip) inputCycles(bits int64) int64 {
	b := c.Array.InputBitsPerCycle.Int()
	return (bits + b - 1) / b
}

// Cols returns the columns of an array for weights of the given width (4 or 8 bits).
func (c *Chip) Cols(weightBits int) int64 {
	if weightBits == 4 {
		return c.Array.ColsInt4.Int()
	}
	return c.Array.Cols.Int()
}

// Weights is a format of weights: of 4 or 8 bits, in blocks or not.
type Weights struct {
	Bits   int
	Blocks bool
}

// ShiftRows returns the rows of an array that share a shifter in each column, 0
// where there are none: the most of shift_rows that divide the rows evenly.
func (c *Chip) ShiftRows() int64 {
	a, b := c.Array.Rows.Int(), c.Array.ShiftRows.Int()
	if b == 0 {
		return 0
	}
	for b > 0 {
		a, b = b, a%b
	}
	return a
}

// TileBytes returns the size of the weights of one full array: rows of weights,
// then for weights in blocks rows of their shifts, a byte each.
func (c *Chip) TileBytes(w Weights) int64 {
	n := c.Array.Rows.Int() * c.Cols(w.Bits) * int64(w.Bits) / 8
	if w.Blocks {
		n += c.Array.Rows.Int() / c.ShiftRows() * c.Cols(w.Bits)
	}
	return n
}
