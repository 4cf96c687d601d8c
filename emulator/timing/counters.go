package timing

// Counters are exact amounts, of bytes unless their name says otherwise.
type Counters struct {
	Instructions int64 `json:"instructions"`

	MACs        int64 `json:"macs"`         // useful multiply-accumulates in the arrays, 8-bit weights
	MACsInt4    int64 `json:"macs_int4"`    // the same with 4-bit weights
	ArraySlots  int64 `json:"array_slots"`  // multiply-accumulates the used arrays could have done for the same inputs
	BlockShifts int64 `json:"block_shifts"` // sums of blocks of weights that the arrays shifted
	VectorMACs  int64 `json:"vector_macs"`  // of depthwise convolutions and dot products
	VectorOps   int64 `json:"vector_ops"`   // integer lane operations
	FloatOps    int64 `json:"float_ops"`    // float32 lane operations
	ArrayLoads  int64 `json:"array_loads"`  // passes that loaded the arrays
	ArrayReuse  int64 `json:"array_reuses"` // products that found their weights in the arrays

	ArrayWrite int64 `json:"array_write"` // weights written into arrays
	InputLatch int64 `json:"input_latch"` // activations written into the input latches of arrays
	AccRead    int64 `json:"accumulator_read"`
	AccWrite   int64 `json:"accumulator_write"`

	WeightRead  int64 `json:"weight_sram_read"`
	WeightWrite int64 `json:"weight_sram_write"`
	SPRead      int64 `json:"scratchpad_read"`
	SPWrite     int64 `json:"scratchpad_write"`

	SPSent       int64 `json:"scratchpad_sent"`     // part of SPRead: into the network
	SPReceived   int64 `json:"scratchpad_received"` // part of SPWrite: from the network
	WeightCopies int64 `json:"weight_copies"`       // part of WeightWrite: second and further replicas within a cluster
	WeightStored int64 `json:"weight_stored"`       // part of WeightWrite: tiles of activations

	WeightFetched int64 `json:"weight_fetched"` // activations from the network, from which some of those tiles were made

	NoCIn       int64 `json:"noc_in"`        // put into the network, by clusters and DRAM
	NoCOut      int64 `json:"noc_out"`       // delivered, to clusters and DRAM
	NoCCopied   int64 `json:"noc_copied"`    // made by multicast
	NoCByteHops int64 `json:"noc_byte_hops"` // bytes × links
	Link        int64 `json:"link"`          // across die-to-die links

	DRAMRead  int64 `json:"dram_read"`
	DRAMWrite int64 `json:"dram_write"`
}

// fields lists all counters, for sums.
func (c *Counters) fields() [30]*int64 {
	return [...]*int64{
		&c.Instructions, &c.MACs, &c.MACsInt4, &c.ArraySlots, &c.BlockShifts, &c.VectorMACs, &c.VectorOps, &c.FloatOps, &c.ArrayLoads, &c.ArrayReuse,
		&c.ArrayWrite, &c.InputLatch, &c.AccRead, &c.AccWrite, &c.WeightRead, &c.WeightWrite, &c.SPRead, &c.SPWrite,
		&c.SPSent, &c.SPReceived, &c.WeightCopies, &c.WeightStored, &c.WeightFetched, &c.NoCIn, &c.NoCOut, &c.NoCCopied, &c.NoCByteHops, &c.Link,
		&c.DRAMRead, &c.DRAMWrite,
	}
}

// Add adds o to c.
func (c *Counters) Add(o *Counters) {
	from := o.fields()
	for i, x := range c.fields() {
		*x += *from[i]
	}
}

// Div divides every counter by n.
func (c *Counters) Div(n int64) {
	for _, x := range c.fields() {
		*x /= n
	}
}

// Bytes are the bytes that passed each level of the memory hierarchy, inward
// and outward together.
type Bytes struct {
	Register int64 `json:"register"` // arrays, their input latches and accumulators
	SRAM     int64 `json:"sram"`     // scratchpads and weight SRAMs
	NoC      int64 `json:"noc"`      // bytes × hops
	DRAM     int64 `json:"dram"`
	Link     int64 `json:"link"`    // die to die
	Network  int64 `json:"network"` // card to card: none on one card
}

// Bytes sums the counters by level.
func (c *Counters) Bytes() Bytes {
	return Bytes{
		Register: c.ArrayWrite + c.InputLatch + c.AccRead + c.AccWrite,
		SRAM:     c.WeightRead + c.WeightWrite + c.SPRead + c.SPWrite,
		NoC:      c.NoCByteHops,
		DRAM:     c.DRAMRead + c.DRAMWrite,
		Link:     c.Link,
	}
}
