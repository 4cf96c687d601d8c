package ptx

// lanes is the threads of a warp.
const lanes = 32

// full is the mask of a whole warp.
const full = ^uint32(0)

// l32 and l64 are one register of a warp: a value for each lane.
type (
	l32 = *[lanes]uint32
	l64 = *[lanes]uint64
)

// A kind says how the warp loop treats an instruction.
type kind uint8

const (
	kindF32     kind = iota // f32 writes a 32-bit register, lane by lane
	kindF64                 // f64 writes a 64-bit register, lane by lane
	kindExec32              // exec writes w.out32
	kindExec64              // exec writes w.out64
	kindExec                // exec heeds w.mask itself
	kindBranch              // to target, reconverging at rpc
	kindExit                // the thread ends
	kindBarrier             // waits for the block
)

// unused is the register of an operand that is not there: constant zero, or
// the predicate that is always false.
const unused = int32(-1)

// An instr is a compiled instruction. Operands are indices of registers in the
// bank of their class; negative ones, inverted, index the constants. Nothing
// else of the text is left but the line.
type instr struct {
	kind     kind
	class    Class
	space    space
	size     uint8 // bytes of one element of a memory access
	signed   bool  // loads extend the sign
	bypass   bool  // the access does not look in L1
	base32   bool  // the address is in a 32-bit register
	to64     bool  // loaded or stored registers are 64 bits wide
	neg      uint8 // predicate operands to invert: 1 for b, 2 for c
	guardNeg uint32
	guard    int32
	d, d2    int32
	a, b, c  int32
	target   int32
	rpc      int32
	line     int32
	site     int32 // of an access whose shape is kept, else -1
	imm      int64
	xs       []int32 // further registers: vectors, fragments
	f32      func(d, a, b, c l32)
	f64      func(d, a, b, c l64)
	exec     func(w *warp, in *instr)

	chain         int32 // at the first of a basic block: instructions of it that wait one for the other
	reads, writes int32 // registers read and written, in units of 32 bits
	name          string
}

// noReconverge is the rpc of a branch whose sides meet only at the end.
const noReconverge = int32(1<<31 - 1)

// Special registers, in the order of their index.
var specials = []string{
	"%tid.x", "%tid.y", "%tid.z", "%ntid.x", "%ntid.y", "%ntid.z",
	"%ctaid.x", "%ctaid.y", "%ctaid.z", "%nctaid.x", "%nctaid.y", "%nctaid.z",
	"%laneid", "%warpid", "%nwarpid",
	"%lanemask_eq", "%lanemask_le", "%lanemask_lt", "%lanemask_ge", "%lanemask_gt",
	"%dynamic_smem_size", "%total_smem_size", "WARP_SZ",
}

func specialIndex(name string) int {
	for i, s := range specials {
		if s == name {
			return i
		}
	}
	return -1
}

// specialValue is the value of a special register in one lane. Those of the
// block (%ctaid) are filled in when the block starts.
func (l *launch) specialValue(special int, warp, lane int) uint32 {
	b := l.cfg.Block
	thread := warp*lanes + lane
	bit := uint32(1) << lane
	switch specials[special] {
	case "%tid.x":
		return uint32(thread % b[0])
	case "%tid.y":
		return uint32(thread / b[0] % b[1])
	case "%tid.z":
		return uint32(thread / (b[0] * b[1]))
	case "%ntid.x", "%ntid.y", "%ntid.z":
		return uint32(b[special-3])
	case "%nctaid.x", "%nctaid.y", "%nctaid.z":
		return uint32(l.cfg.Grid[special-9])
	case "%laneid":
		return uint32(lane)
	case "%warpid":
		return uint32(warp)
	case "%nwarpid":
		return uint32(l.warps)
	case "%lanemask_eq":
		return bit
	case "%lanemask_le":
		return bit | (bit - 1)
	case "%lanemask_lt":
		return bit - 1
	case "%lanemask_ge":
		return ^(bit - 1)
	case "%lanemask_gt":
		return ^(bit | (bit - 1))
	case "%dynamic_smem_size":
		return uint32(l.cfg.SharedBytes)
	case "%total_smem_size":
		return uint32(l.sharedBytes)
	case "WARP_SZ":
		return lanes
	}
	return 0
}

// A Class groups instructions by the unit that executes them.
type Class uint8

const (
	Move        Class = iota // mov, selp, prmt
	Integer                  // integer arithmetic, logic, shifts
	Float                    // floating-point arithmetic
	Special                  // reciprocal, square root, exponential, division: approximations
	Convert                  // cvt
	Compare                  // setp and operations on predicates
	Dot                      // dp4a
	Tensor                   // mma
	Matrix                   // ldmatrix
	GlobalLoad               // ld.global, and generic loads
	GlobalStore              // st.global, and generic stores
	SharedLoad               // ld.shared
	SharedStore              // st.shared
	ConstLoad                // ld.const
	ParamLoad                // ld.param
	LocalAccess              // ld.local, st.local
	AsyncCopy                // cp.async and its groups
	Atomic                   // atom, red
	Shuffle                  // shfl, vote, activemask
	Barrier                  // bar, membar, fence
	Control                  // bra, ret, exit
	classes                  // how many
)

var classNames = [classes]string{
	"move", "integer", "float", "special", "convert", "compare", "dot", "tensor", "matrix",
	"global load", "global store", "shared load", "shared store", "const load", "param load",
	"local", "async copy", "atomic", "shuffle", "barrier", "control",
}

func (c Class) String() string { return classNames[c] }
