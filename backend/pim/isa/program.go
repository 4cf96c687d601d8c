package isa

// DType is the element type of a program's input or output, and of what
// instructions on plain numbers read and write. Values are part of the file
// format: append only. A bool is a byte, 0 or 1; i8 is stored with 128 added.
type DType uint8

// Element types.
const (
	F32 DType = iota
	I8
	U8
	I32
	I64
	Bool
	I16
	U16
	U32
	U64
	NumDTypes = iota
)

// IO describes an input or output tensor: row-major in DRAM at Addr. Codes of I8
// tensors are stored unsigned (q + 128), as everywhere on chip.
type IO struct {
	Name  string
	DType DType
	Shape []int
	Addr  int64
	Scale float32 // quantisation of I8 and U8 tensors; 0 when there is none
	Zero  int32
}

// Region says which die's DRAM holds a range of addresses.
type Region struct {
	Start, End int64
	Die        int
}

// Layer describes what a group of instructions was made from.
type Layer struct {
	Name    string // node of the source model
	Op      string // operator
	MACs    int64  // useful multiply-accumulates of one inference
	Mapping string // how it was split, for people
}

// Fallback names an operator that runs in float32 on the vector unit.
type Fallback struct {
	Node, Op string
	Share    float64 // of the model's element operations
}

// Stream is the instructions of one cluster. Layer[i] is the index in
// Program.Layers that instruction i belongs to, or −1.
type Stream struct {
	Insts []Inst
	Layer []int32
}

// ConstBytes returns how many bytes of the DRAM, from address 0, hold constants.
func (p *Program) ConstBytes() int64 { return int64(len(p.Consts)) + p.DescribedBytes }

// State is a tensor that a program keeps from one run of Main to the next. Init
// takes it from an input, which is given for the first run only; Main replaces part
// of it, or all.
type State struct {
	Input   int    // index in Program.Inputs
	Output  string // of the model, which it becomes
	Bytes   int64  // as the program keeps it
	New     int64  // of these, what one run replaces
	Spilled bool   // it lies in DRAM
}

// Program is compiled for one architecture. Init runs once and makes weights
// and state resident; Main runs once an inference.
type Program struct {
	Model       string
	Arch        string   // name of the architecture
	Fingerprint [32]byte // of the architecture it was placed for
	Quant       string   // for people: "int8", "int8 activations, int4 weights"

	Init, Main []Stream // one a cluster, the same number

	Consts []byte // DRAM image from address 0
	// DescribedBytes of constants follow Consts: weights whose values the program
	// does not hold. It can be timed and not executed.
	DescribedBytes int64
	Regions        []Region
	DRAMBytes      int64 // constants, inputs, outputs and spilled tensors

	ScratchpadBytes  int64 // high-water mark of one cluster
	AccumulatorBytes int64 // of one cluster
	WeightSRAMBytes  int64 // of one core

	Inputs, Outputs []IO
	States          []State
	Layers          []Layer
	Fallbacks       []Fallback

	WeightBytes int64 // of the model, each weight once, as stored
	Replicas    int   // how many copies of this program the chip can run side by side

	// Rounds is into how many parts Main cuts a batch, one after the other, 0 or 1 for
	// none. Layers then holds the layers of each round behind those of the one before.
	Rounds int
}

// NumRounds returns the rounds of Main, at least 1.
func (p *Program) NumRounds() int { return max(p.Rounds, 1) }

// Streams reports whether the program reads weights from DRAM in every inference.
func (p *Program) Streams() bool {
	for i := range p.Main {
		for j := range p.Main[i].Insts {
			if p.Main[i].Insts[j].Op == OpLoadW {
				return true
			}
		}
	}
	return false
}
