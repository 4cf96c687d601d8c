package isa

import "fmt"

// NumOps is one more than the greatest opcode.
const NumOps = int(numOps)

// MaxLoopDepth is how deep loops may nest.
const MaxLoopDepth = 4

// NumRegs is the number of address registers of a cluster, r0 included.
const NumRegs = 16

// Known reports whether the opcode has a row in the table.
func (op Op) Known() bool { return op > OpInvalid && op < numOps }

// Info returns the opcode's row of the table. It panics when the opcode is not
// Known.
func (op Op) Info() *Info {
	if !op.Known() {
		panic(fmt.Sprintf("isa: no opcode %d", uint8(op)))
	}
	return &table[op]
}

// String returns the mnemonic.
func (op Op) String() string {
	if !op.Known() {
		return fmt.Sprintf("op(%d)", uint8(op))
	}
	return table[op].Mnemonic
}

// byMnemonic is the table's index by name.
var byMnemonic = func() map[string]Op {
	m := make(map[string]Op, numOps)
	for op := OpInvalid + 1; op < numOps; op++ {
		m[table[op].Mnemonic] = op
	}
	return m
}()

// Lookup returns the opcode of a mnemonic.
func Lookup(mnemonic string) (op Op, ok bool) {
	op, ok = byMnemonic[mnemonic]
	return op, ok
}

var unitNames = [NumUnits]string{"control", "dma", "noc", "array", "vector"}

// String returns the unit's name, such as "array".
func (u Unit) String() string {
	if u < NumUnits {
		return unitNames[u]
	}
	return fmt.Sprintf("unit(%d)", uint8(u))
}

var kindNames = [...]string{
	KImm: "integer", KCount: "count", KStep: "step", KSP: "scratchpad address", KAcc: "accumulator address",
	KWS: "weight SRAM address", KDRAM: "DRAM address", KReg: "register", KFloat: "float32",
}

// String says what an operand of the kind holds.
func (k OperandKind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}

// isAddr reports whether operands of the kind hold Addr values.
func (k OperandKind) isAddr() bool { return k >= KSP && k <= KDRAM }

var dtypeNames = [...]string{F32: "f32", I8: "i8", U8: "u8", I32: "i32", I64: "i64", Bool: "bool", I16: "i16", U16: "u16", U32: "u32", U64: "u64"}
var dtypeSizes = [...]int64{F32: 4, I8: 1, U8: 1, I32: 4, I64: 8, Bool: 1, I16: 2, U16: 2, U32: 4, U64: 8}

// String returns the type's name, such as "f32".
func (t DType) String() string {
	if int(t) < len(dtypeNames) {
		return dtypeNames[t]
	}
	return fmt.Sprintf("dtype(%d)", uint8(t))
}

// Size returns the bytes of one element.
func (t DType) Size() int64 { return dtypeSizes[t] }

// Bytes returns the size of the tensor in DRAM, or an error when its type is
// unknown, a dimension is negative, or the size exceeds 2^40.
func (io *IO) Bytes() (int64, error) {
	if int(io.DType) >= len(dtypeSizes) {
		return 0, fmt.Errorf("tensor %q has unknown type %d", io.Name, io.DType)
	}
	n := io.DType.Size()
	for _, d := range io.Shape {
		if d < 0 || d > 1<<40 || n*int64(min(d, 1<<20)) > 1<<40 || int64(d) > 1<<40/max(n, 1) {
			return 0, fmt.Errorf("tensor %q has shape %v, which is negative or too large", io.Name, io.Shape)
		}
		n *= int64(d)
	}
	return n, nil
}
