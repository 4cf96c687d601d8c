package arch

// GPU describes a graphics processor as far as an analytic model of tensor-core
// kernels needs it.
type GPU struct {
	Name        string `yaml:"name"`
	Kind        string `yaml:"kind"` // "gpu"
	BasedOn     string `yaml:"based_on"`
	Description string `yaml:"description"`

	ClockMHz Figure `yaml:"clock_mhz" unit:"MHz" max:"100000"` // the clock that the published tensor peaks are stated at
	SMs      Figure `yaml:"sms" check:"count" max:"65536"`     // streaming multiprocessors
	// Compute capability ×10: which instructions there are.
	Capability Figure `yaml:"compute_capability" check:"count" max:"1000"`

	Tensor   Tensor   `yaml:"tensor"`
	Cores    Cores    `yaml:"cores"`
	Register Register `yaml:"register"`
	Shared   Shared   `yaml:"shared"`
	L2       L2       `yaml:"l2"`
	DRAM     GPUDRAM  `yaml:"dram"`
	Launch   Launch   `yaml:"launch"`
	Ceiling  Ceiling  `yaml:"ceiling"`
	Power    GPUPower `yaml:"power"`

	where positions
}

// Tensor is the tensor cores of one SM, dense rates without sparsity.
type Tensor struct {
	Int8MACs     Figure `yaml:"int8_macs_per_cycle" unit:"MAC/cycle" check:"count" max:"1e6"`
	BF16MACs     Figure `yaml:"bf16_macs_per_cycle" unit:"MAC/cycle" check:"count" max:"1e6"` // fp16 alike
	Int8EnergyFJ Figure `yaml:"int8_mac_energy_fj" unit:"fJ" max:"1e9" energy:"yes"`
	BF16EnergyFJ Figure `yaml:"bf16_mac_energy_fj" unit:"fJ" max:"1e9" energy:"yes"`
	InstMACs     Figure `yaml:"int8_macs_per_instruction" unit:"MAC" check:"count" max:"1e9"` // one warp-level instruction
	InstDepth    Figure `yaml:"int8_instruction_k" check:"count" max:"4096"`                  // products summed per accumulator and instruction
}

// Cores is everything of an SM that executes ordinary instructions.
type Cores struct {
	Lanes        Figure `yaml:"lanes" check:"count" max:"65536"`         // 32-bit operations a cycle and SM
	IntLanes     Figure `yaml:"integer_lanes" check:"count" max:"65536"` // 32-bit integer operations a cycle and SM
	Schedulers   Figure `yaml:"schedulers" check:"count" max:"64"`       // warp instructions issued a cycle and SM
	Latency      Figure `yaml:"latency_cycles" unit:"cycles" max:"1000"` // of dependent arithmetic instructions
	MaxWarps     Figure `yaml:"max_warps" check:"count" max:"1024"`      // resident on an SM
	MaxBlocks    Figure `yaml:"max_blocks" check:"count" max:"1024"`     // resident on an SM
	OpEnergyFJ   Figure `yaml:"op_energy_fj" unit:"fJ" max:"1e9" energy:"yes"`
	InstEnergyFJ Figure `yaml:"instruction_energy_fj" unit:"fJ" max:"1e9" energy:"yes"` // fetch, decode and issue of one warp instruction
}

// Register is the register file of one SM.
type Register struct {
	Bytes       Figure `yaml:"bytes" unit:"B" check:"count" max:"1e9"`
	EnergyFJBit Figure `yaml:"energy_fj_per_bit" unit:"fJ/bit" max:"1e9" energy:"yes"`
}

// Shared is the shared memory (with L1) of one SM; its energy is that of the
// path to the registers.
type Shared struct {
	Bytes         Figure `yaml:"bytes" unit:"B" check:"count" max:"1e9"` // usable by one thread block
	L1Bytes       Figure `yaml:"l1_bytes" unit:"B" check:"count" max:"1e9"`
	BytesPerCycle Figure `yaml:"bytes_per_cycle" unit:"B/cycle" check:"count" max:"65536"`
	EnergyFJBit   Figure `yaml:"energy_fj_per_bit" unit:"fJ/bit" max:"1e9" energy:"yes"`
}

// L2 is the cache that all SMs share.
type L2 struct {
	Bytes           Figure `yaml:"bytes" unit:"B" check:"count" max:"1e12"`
	UsableFraction  Figure `yaml:"usable_fraction" check:"fraction"`                              // of the capacity, for data meant to stay between kernels
	BytesPerCycle   Figure `yaml:"bytes_per_cycle" unit:"B/cycle" check:"count" max:"1e6"`        // of all slices
	PortBytes       Figure `yaml:"port_bytes_per_cycle" unit:"B/cycle" check:"count" max:"65536"` // one SM can take
	Multicast       Figure `yaml:"multicast" check:"count" max:"16"`                              // SMs that share one fetch of an operand tile
	EnergyFJBit     Figure `yaml:"energy_fj_per_bit" unit:"fJ/bit" max:"1e9" energy:"yes"`        // the SRAM itself
	PathEnergyFJBit Figure `yaml:"path_energy_fj_per_bit" unit:"fJ/bit" max:"1e9" energy:"yes"`   // between L2 and L1
}

// GPUDRAM is the device memory. Device and path energies are different things
// and add up: the device figure ends at its pins.
type GPUDRAM struct {
	Kind              Text   `yaml:"kind"`
	Bytes             Figure `yaml:"bytes" unit:"B" check:"count" max:"1e15"`
	GBs               Figure `yaml:"gigabytes_per_s" unit:"GB/s" max:"1e9"`
	LatencyNS         Figure `yaml:"latency_ns" unit:"ns" max:"1e9"`                                // load to use, unloaded
	DeviceEnergyFJBit Figure `yaml:"device_energy_fj_per_bit" unit:"fJ/bit" max:"1e9" energy:"yes"` // the DRAM stack or chip with its I/O
	PathEnergyFJBit   Figure `yaml:"path_energy_fj_per_bit" unit:"fJ/bit" max:"1e9" energy:"yes"`   // PHY, controller and wires to L2
}

// Launch is the fixed cost of kernels.
type Launch struct {
	GraphUS  Figure `yaml:"graph_us" unit:"µs" max:"1e6"`  // between dependent kernels of a captured graph
	StreamUS Figure `yaml:"stream_us" unit:"µs" max:"1e6"` // between kernels launched one by one
	RampUS   Figure `yaml:"ramp_us" unit:"µs" max:"1e6"`   // filling and draining the pipeline of one kernel
}

// Ceiling is the share of each peak that good kernels have been measured to reach.
type Ceiling struct {
	Tensor Figure `yaml:"tensor" check:"fraction"`
	// MMASync is what mma.sync alone reaches, where newer instructions are faster.
	MMASync Figure `yaml:"mma_sync" check:"fraction"`
	DRAM    Figure `yaml:"dram" check:"fraction"`
	L2      Figure `yaml:"l2" check:"fraction"`
}

// GPUPower is what the board draws besides the switching that is counted per byte
// and operation.
type GPUPower struct {
	IdleW   Figure `yaml:"idle_w" unit:"W" max:"1e6" energy:"yes"`   // no kernel running
	ActiveW Figure `yaml:"active_w" unit:"W" max:"1e6" energy:"yes"` // constant and static power with all SMs in use
	TDPW    Figure `yaml:"tdp_w" unit:"W" max:"1e6" energy:"yes"`
}
