package arch

// Chip describes a processing-in-memory card: dies of clusters of cores, each
// core one compute-in-memory macro. Units are in the names of the fields.
type Chip struct {
	Name        string `yaml:"name"`
	Kind        string `yaml:"kind"` // "pim"
	BasedOn     string `yaml:"based_on"`
	Description string `yaml:"description"`

	ClockMHz        Figure `yaml:"clock_mhz"`
	Dies            Figure `yaml:"dies"`
	ClustersPerDie  Figure `yaml:"clusters_per_die"`
	MeshColumns     Figure `yaml:"mesh_columns"` // clusters in a row of a die's mesh
	IssueCycles     Figure `yaml:"issue_cycles"` // sequencer cycles an instruction
	CoresPerCluster Figure `yaml:"cores_per_cluster"`

	Array       Array       `yaml:"array"`
	WeightSRAM  WeightSRAM  `yaml:"weight_sram"`
	Accumulator Accumulator `yaml:"accumulator"`
	Scratchpad  Scratchpad  `yaml:"scratchpad"`
	Vector      Vector      `yaml:"vector"`
	NoC         NoC         `yaml:"noc"`
	DieLink     Link        `yaml:"die_link"`
	DRAM        DRAM        `yaml:"dram"`
	Power       Power       `yaml:"power"`
}

// Array is the compute-in-memory macro of one core.
type Array struct {
	Rows              Figure `yaml:"rows"`
	Cols              Figure `yaml:"cols"`      // columns of 8-bit weights
	ColsInt4          Figure `yaml:"cols_int4"` // columns of 4-bit weights
	InputBitsPerCycle Figure `yaml:"input_bits_per_cycle"`
	WeightSets        Figure `yaml:"weight_sets"`     // 2: the array computes with one set while another is loaded
	PipelineCycles    Figure `yaml:"pipeline_cycles"` // from the last input bit to the accumulators
	MACEnergyFJ       Figure `yaml:"mac_energy_fj"`   // int8 × int8 multiply-accumulate
	MACInt4EnergyFJ   Figure `yaml:"mac_int4_energy_fj"`
	LoadEnergyFJBit   Figure `yaml:"load_energy_fj_per_bit"`  // writing weights into the array
	InputEnergyFJBit  Figure `yaml:"input_energy_fj_per_bit"` // input latches and drivers
}

// WeightSRAM feeds the array of one core.
type WeightSRAM struct {
	Bytes           Figure `yaml:"bytes"`      // per core
	PortBytes       Figure `yaml:"port_bytes"` // per cycle into the array
	ReadEnergyFJBit Figure `yaml:"read_energy_fj_per_bit"`
	WriteEnergyFJ   Figure `yaml:"write_energy_fj_per_bit"`
}

// Accumulator holds int32 partial sums.
type Accumulator struct {
	Bytes       Figure `yaml:"bytes"` // per core
	EnergyFJBit Figure `yaml:"energy_fj_per_bit"`
}

// Scratchpad is the activation memory that the cores of a cluster share.
type Scratchpad struct {
	Bytes            Figure `yaml:"bytes"` // per cluster
	ReadBytes        Figure `yaml:"read_bytes_per_cycle"`
	WriteBytes       Figure `yaml:"write_bytes_per_cycle"`
	ReadEnergyFJBit  Figure `yaml:"read_energy_fj_per_bit"`
	WriteEnergyFJBit Figure `yaml:"write_energy_fj_per_bit"`
}

// Vector is the vector unit of a cluster.
type Vector struct {
	Lanes            Figure `yaml:"lanes"`               // 32-bit integer operations a cycle
	F32Lanes         Figure `yaml:"f32_lanes"`           // float32 operations a cycle
	StartCycles      Figure `yaml:"start_cycles"`        // per instruction
	OpEnergyFJ       Figure `yaml:"op_energy_fj"`        // one integer lane operation
	F32OpEnergyFJ    Figure `yaml:"f32_energy_fj"`       // one float32 lane operation
	MACEnergyFJ      Figure `yaml:"mac_energy_fj"`       // one int8 multiply-accumulate of a depthwise convolution
	MACsPerLane      Figure `yaml:"macs_per_lane"`       // int8 multiply-accumulates a lane and cycle
	F32OpsPerSpecial Figure `yaml:"f32_ops_per_special"` // lane operations of exp, log, division …
}

// NoC is the mesh of one die.
type NoC struct {
	LinkBytes      Figure `yaml:"link_bytes_per_cycle"`
	HopCycles      Figure `yaml:"hop_cycles"`
	EnergyFJBitHop Figure `yaml:"energy_fj_per_bit_hop"`
}

// Link joins dies, cards or nodes.
type Link struct {
	GBs         Figure `yaml:"gigabytes_per_s"`
	LatencyNS   Figure `yaml:"latency_ns"`
	EnergyFJBit Figure `yaml:"energy_fj_per_bit"`
}

// DRAM is the memory of the whole card.
type DRAM struct {
	Kind           Text   `yaml:"kind"`
	Bytes          Figure `yaml:"bytes"`
	ChannelsPerDie Figure `yaml:"channels_per_die"`
	GBs            Figure `yaml:"gigabytes_per_s"` // all channels of the card
	LatencyNS      Figure `yaml:"latency_ns"`
	EnergyFJBit    Figure `yaml:"energy_fj_per_bit"`
}

// Text is a fact that is not a number.
type Text struct {
	Value      string `yaml:"value"`
	Source     string `yaml:"source"`
	Confidence string `yaml:"confidence"`
}

// Power is what a card draws whatever it does.
type Power struct {
	StaticW Figure `yaml:"static_w"`
	TDPW    Figure `yaml:"tdp_w"`
}

// NumClusters returns the number of clusters of the card.
func (c *Chip) NumClusters() int { return int(c.Dies.Int() * c.ClustersPerDie.Int()) }

// PeriodPS returns the clock period in picoseconds (not rounded).
func (c *Chip) PeriodPS() float64 { return 1e6 / c.ClockMHz.Value }

// InputCycles returns the cycles one 8-bit input vector takes in an array.
func (c *Chip) InputCycles() int64 {
	b := c.Array.InputBitsPerCycle.Int()
	return (8 + b - 1) / b
}

// Cols returns the columns of an array for weights of the given width.
func (c *Chip) Cols(weightBits int) int64 {
	if weightBits == 4 {
		return c.Array.ColsInt4.Int()
	}
	return c.Array.Cols.Int()
}

// TileBytes returns the size of the weights of one full array.
func (c *Chip) TileBytes(weightBits int) int64 {
	return c.Array.Rows.Int() * c.Cols(weightBits) * int64(weightBits) / 8
}
