package runtime

// Result is what one model costs on one target. Every number is one that the
// emulator or the GPU model counted; field names are the JSON of --json. Times
// are of a run of Batch inputs, everything else is of one inference.
type Result struct {
	Model  string `json:"model"`
	Target string `json:"target"`
	Quant  string `json:"quant"`
	Batch  int    `json:"batch"`  // inputs of one run
	Method string `json:"method"` // where the figures come from: emulated, counted, sampled or analytic

	LatencyS      float64 `json:"latency_s"`        // of one run, weights resident where the target keeps them
	ThroughputS   float64 `json:"throughput_per_s"` // inferences a second at steady state
	Cycles        int64   `json:"cycles"`           // of the latency
	MACs          int64   `json:"macs"`             // useful multiply-accumulates of one inference
	Utilisation   float64 `json:"utilisation"`      // MACs over what the target could do in the latency
	UtilisationTP float64 `json:"utilisation_throughput"`
	Mapping       string  `json:"mapping,omitempty"` // how the chip is used, and why it is not used better

	Energy Energy `json:"energy_j"`        // of one inference alone on the target
	Steady Energy `json:"energy_steady_j"` // of one inference at the steady throughput
	// SteadyAlone says that the steady figures are those of one input after the other,
	// as no larger batch could be run.
	SteadyAlone   bool `json:"steady_alone,omitempty"`
	steadyLimited bool // by the power that the chip may draw

	Bytes      Bytes `json:"bytes"` // of one inference
	Compulsory int64 `json:"compulsory_bytes"`

	// Load is the one-time cost of making weights resident; nil where each
	// inference fetches them.
	Load *Load `json:"load,omitempty"`

	// State is what the program keeps from run to run; nil where it keeps nothing.
	// What it took from the first run's inputs is part of Load.
	State *KeptState `json:"state,omitempty"`

	// Sequence is what steps with a cache that grows take together, the first of which may
	// be of several tokens; the other figures are those of a later step. Nil for others.
	Sequence *Sequence `json:"sequence,omitempty"`

	Fallback    []Fallback `json:"fallback"`
	Host        *Host      `json:"host,omitempty"`   // nil when the host has nothing to do
	Raised      []Raised   `json:"raised,omitempty"` // layers in higher precision than the rest
	Outputs     []Output   `json:"outputs"`
	Agreement   *Agreement `json:"agreement"`      // nil where no outputs were computed
	HostSPerRun float64    `json:"host_s_per_run"` // what the emulation of one inference took here

	Layers []LayerCost `json:"layers,omitempty"`
	Peak   Peak        `json:"peak"`
	Notes  []string    `json:"notes,omitempty"`
}

// Energy is joules by level, from the inside out.
type Energy struct {
	Total    float64 `json:"total"`
	Compute  float64 `json:"compute"`
	Register float64 `json:"register"` // arrays, latches, accumulators, register files
	SRAM     float64 `json:"sram"`
	NoC      float64 `json:"noc"`
	DRAM     float64 `json:"dram"`
	Link     float64 `json:"link"`    // die to die, chip to chip
	Network  float64 `json:"network"` // between nodes and racks
	Static   float64 `json:"static"`
}

// Bytes is traffic by level; NoC counts a byte once for each hop.
type Bytes struct {
	Register int64 `json:"register"`
	SRAM     int64 `json:"sram"`
	NoC      int64 `json:"noc"`
	DRAM     int64 `json:"dram"`
	Link     int64 `json:"link"`
	Network  int64 `json:"network"`
}

// KeptState says where a program keeps the tensors that go from run to run.
type KeptState struct {
	Tensors       int   `json:"tensors"`
	ResidentBytes int64 `json:"resident_bytes"` // in the chip
	SpilledBytes  int64 `json:"spilled_bytes"`  // in DRAM
	NewBytes      int64 `json:"new_bytes"`      // of these what a run replaces
}

// Sequence is a number of steps in which a decoder's cache grows. The sums include
// loading the second program, which takes the place of the first.
type Sequence struct {
	Steps     int        `json:"steps"`
	Past      int        `json:"past"` // entries of the cache before the first step
	Runs      []StepCost `json:"runs"` // one for each program
	TimeS     float64    `json:"time_s"`
	EnergyJ   float64    `json:"energy_j"`
	DRAMBytes int64      `json:"dram_bytes"`
}

// StepCost is what each of a number of steps costs that one program runs.
type StepCost struct {
	Steps     int        `json:"steps"`
	Tokens    int        `json:"tokens"` // new ones of a step
	Cache     int        `json:"cache"`  // entries that a step reads
	TimeS     float64    `json:"time_s"`
	EnergyJ   float64    `json:"energy_j"`
	DRAMBytes int64      `json:"dram_bytes"`
	State     *KeptState `json:"state,omitempty"` // nil where the cache is read from and written to DRAM
	Load      *Load      `json:"load,omitempty"`
}

// Load is the one-time cost of loading resident weights and state.
type Load struct {
	TimeS     float64 `json:"time_s"`
	EnergyJ   float64 `json:"energy_j"`
	DRAMBytes int64   `json:"dram_bytes"`
}

// Fallback is an operator that runs in float32, or on the host, with its share of the
// model's element operations.
type Fallback struct {
	Node  string  `json:"node"`
	Op    string  `json:"op"`
	Share float64 `json:"share"`
	On    string  `json:"on,omitempty"` // OnHost, or "" for the target
}

// Output identifies an output tensor by the hash of its row-major elements.
type Output struct {
	Name   string `json:"name"`
	Type   string `json:"type"`
	Shape  []int  `json:"shape"`
	SHA256 string `json:"sha256"`
}

// Agreement says how the outputs compare: BitExact with the reference evaluator
// on the same fixed-point graph, the errors with the model before quantisation.
type Agreement struct {
	BitExact    bool     `json:"bit_exact"`
	MaxAbsError float64  `json:"max_abs_error"`
	SQNRdB      *float64 `json:"sqnr_db"` // nil when equal, or without a signal
}

// LayerCost is one layer's share.
type LayerCost struct {
	Name    string  `json:"name"`
	Op      string  `json:"op"`
	MACs    int64   `json:"macs"`
	TimeS   float64 `json:"time_s"`
	Energy  Energy  `json:"energy_j"`
	Bytes   Bytes   `json:"bytes"`
	Mapping string  `json:"mapping,omitempty"`
	Bound   string  `json:"bound,omitempty"` // the resource a GPU's kernel waits for
}

// Peak is what the target could do, for the roofline.
type Peak struct {
	MACsPerS      float64 `json:"macs_per_s"`
	DRAMBytesPerS float64 `json:"dram_bytes_per_s"`
	SRAMBytesPerS float64 `json:"sram_bytes_per_s"`
}
