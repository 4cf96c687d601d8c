package gpu

import "situ/ir"

// Program is a graph compiled for a GPU: kernels and the launches that run it, in
// order. Each launch may read what earlier ones wrote; launches of one program
// must not overlap.
type Program struct {
	Model     string
	Target    string // architecture it was compiled for
	SM        int    // compute capability ×10 that the PTX asks for
	Buffers   []Buffer
	Inputs    []Port
	Outputs   []Port
	Launches  []Launch
	Constants []byte // contents of the buffer of that name; of an outline, of its beginning
	LLVM      string // LLVM IR of all kernels
	PTX       string // empty until Assemble
}

// Names of the two buffers of a program in device memory.
const (
	Arena     = "arena"     // inputs, outputs and everything between
	Constants = "constants" // weights and tables, never written
)

// Buffer is one allocation in device memory, aligned to 256 bytes.
type Buffer struct {
	Name  string `json:"name"`
	Bytes int64  `json:"bytes"`
	File  string `json:"file,omitempty"` // what it holds before the first launch
}

// Place is a piece of a buffer.
type Place struct {
	Buffer string `json:"buffer"`
	Offset int64  `json:"offset"`
	Bytes  int64  `json:"bytes"`
}

// Port is an input or output of the graph. Elements lie row-major and little
// endian; 4-bit codes take a byte each.
type Port struct {
	Name  string `json:"name"`
	DType string `json:"dtype"`
	Shape []int  `json:"shape"`
	Place
}

// Arg is a pointer passed to a kernel.
type Arg struct {
	Param string `json:"param"` // its name in the kernel
	Place
}

// Launch is one kernel launch.
type Launch struct {
	Kernel string   `json:"kernel"`
	Op     string   `json:"op"`              // mnemonic of the operator
	Node   string   `json:"node"`            // where it comes from in the model
	Fused  []string `json:"fused,omitempty"` // operators computed on its result, mnemonic and node
	Grid   [3]int   `json:"grid"`
	Block  [3]int   `json:"block"`
	Shared int      `json:"shared_bytes"` // dynamic shared memory
	Args   []Arg    `json:"args"`
	MACs   int64    `json:"-"` // useful multiply-accumulates
}

// storedBytes returns what a tensor takes in a buffer.
func storedBytes(t ir.Type) int64 { return int64(t.Numel()) * int64(elemBytes(t.DType)) }

// elemBytes returns the bytes of an element: 4-bit codes take a whole one.
func elemBytes(d ir.DType) int { return max(d.Bits(), 8) / 8 }
