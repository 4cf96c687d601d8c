package isa

// Op is an instruction's opcode. Values are part of the file format: append only.
type Op uint8

// Opcodes, by the unit that executes them.
const (
	OpInvalid Op = iota

	// Control.
	OpHalt
	OpLoop
	OpNext
	OpSet
	OpAddi
	OpBarrier

	// Data movement.
	OpLoad
	OpStore
	OpLoadW
	OpSend

	// Arrays.
	OpMVM

	// Vector unit, 8-bit codes and 32-bit accumulators.
	OpRequant
	OpFill
	OpCopy
	OpAdd
	OpMul
	OpLUT
	OpMaxPool
	OpAvgPool
	OpDepthwise
	OpSoftmax

	// Vector unit, float32.
	OpQuant
	OpDequant
	OpDequantAcc
	OpUnaryF
	OpBinaryF
	OpSoftmaxF
	OpLRNF
	OpReduceF

	// Products of two activations.
	OpStoreW
	OpBiasAcc
	OpDot

	// Plain integers, and float32 products.
	OpConvert
	OpBinaryI
	OpSelect
	OpReduceI
	OpGather
	OpGatherD
	OpStoreAcc
	OpQuantW
	OpDequantW
	OpMatMulF

	// Vector unit, 8-bit codes again.
	OpNorm
	OpMulAdd

	// Products of two activations, the second in DRAM.
	OpLoadA

	// Control again.
	OpWrap

	// Elements by index.
	OpPick
	OpPut
	OpTopK

	// Vector unit, sums of weights in two parts.
	OpShlAcc

	numOps
)

// Unit is what executes an instruction; each unit of a cluster works in order.
type Unit uint8

// Units of a cluster.
const (
	UnitCtrl   Unit = iota // fetch, loops, registers, barriers
	UnitDMA                // DRAM to and from scratchpad and weight SRAM
	UnitNoC                // scratchpad to other clusters' scratchpads
	UnitArray              // the compute-in-memory arrays of all cores, together
	UnitVector             // vector unit
	NumUnits
)

// Inst is one instruction: an opcode and one integer per operand of its table
// row. Address operands hold Addr values.
type Inst struct {
	Op   Op
	Args []int64
}

// Operand kinds.
type OperandKind uint8

const (
	KImm   OperandKind = iota // plain integer
	KCount                    // positive count
	KStep                     // signed byte stride
	KSP                       // address in the cluster's scratchpad
	KAcc                      // address in the cluster's accumulators (bytes)
	KWS                       // address in each core's weight SRAM
	KDRAM                     // address in DRAM
	KReg                      // address register r1..r15
	KFloat                    // float32 bits
)

// Addr packs an address operand: an immediate plus an address register, r0
// being always zero.
func Addr(imm int64, reg int) int64 { return imm | int64(reg)<<addrRegShift }

const addrRegShift = 48

// SplitAddr is the inverse of Addr.
func SplitAddr(a int64) (imm int64, reg int) {
	return a & (1<<addrRegShift - 1), int(a >> addrRegShift)
}

// Operand is one operand of a table row.
type Operand struct {
	Name string
	Kind OperandKind
	Doc  string
}

// Info is one row of the instruction table.
type Info struct {
	Mnemonic string
	Unit     Unit
	Operands []Operand
	Reads    string
	Writes   string
	Doc      string
}
