package ptx

import (
	"fmt"
	"slices"
)

// Limits of what Parse accepts, so that hostile text cannot take the machine
// down. They are far above what a compiler writes.
const (
	maxText         = 64 << 20 // bytes of PTX
	maxVariable     = 64 << 20 // bytes of one variable
	maxRegisters    = 1 << 18  // registers of one kernel
	maxInstructions = 1 << 20  // instructions of one kernel
	maxDepth        = 64       // nested { }
)

// A Module is a parsed PTX text whose kernels are ready to run. It is not
// changed by launches, and any number may run at once.
type Module struct {
	Name    string // as given to Parse; errors begin with it
	Version string // of .version, such as "7.0"
	Target  string // of .target, such as "sm_80"

	vars    []*variable
	kernels []*kernel
}

// Kernels returns the names of the entry points in the order of the text.
func (m *Module) Kernels() []string {
	names := make([]string, len(m.kernels))
	for i, k := range m.kernels {
		names[i] = k.name
	}
	return names
}

// A KernelInfo describes one entry point.
type KernelInfo struct {
	Name         string
	Params       []ParamInfo
	Instructions int // static count
	SharedBytes  int // declared with a size; what a launch adds comes on top
	LocalBytes   int // of each thread
	MaxThreads   int // of a block, from .maxntid or .reqntid; 0 if not stated

	// LiveRegisters is the most 32-bit registers that hold a value at one
	// point of the program. A register allocator needs at least these, and
	// usually a few more.
	LiveRegisters int
}

// A ParamInfo is one parameter of an entry point.
type ParamInfo struct {
	Name  string
	Bytes int
}

// Kernel describes the named entry point.
func (m *Module) Kernel(name string) (KernelInfo, error) {
	k, err := m.find(name)
	if err != nil {
		return KernelInfo{}, err
	}
	info := KernelInfo{
		Name: k.name, Instructions: len(k.code), SharedBytes: k.shared,
		LocalBytes: k.local, MaxThreads: k.maxThreads, LiveRegisters: k.liveRegs,
	}
	for _, p := range k.params {
		info.Params = append(info.Params, ParamInfo{p.name, p.size})
	}
	return info, nil
}

func (m *Module) find(name string) (*kernel, error) {
	i := slices.IndexFunc(m.kernels, func(k *kernel) bool { return k.name == name })
	if i < 0 {
		return nil, fmt.Errorf("%s: no kernel %q; there are %q", m.Name, name, m.Kernels())
	}
	return m.kernels[i], nil
}

// A space is a state space of PTX.
type space uint8

const (
	spaceGeneric space = iota
	spaceGlobal
	spaceShared
	spaceConst
	spaceLocal
	spaceParam
)

var spaceNames = map[string]space{
	"global": spaceGlobal, "shared": spaceShared, "const": spaceConst,
	"local": spaceLocal, "param": spaceParam,
}

// A variable is a named piece of memory.
type variable struct {
	name   string
	space  space
	size   int
	align  int
	offset int    // in its space, for shared, local and param
	init   []byte // nil: zero
	extern bool   // dynamic shared memory
	line   int32
}

// A class is the kind of a register: which bank it lives in.
type class uint8

const (
	classPred class = iota
	class32         // 8, 16 and 32 bits, kept zero-extended to 32
	class64
)

// A register is a declared register of a kernel, before allocation.
type register struct {
	class class
	bits  int
}

// A typ is a fundamental type of PTX.
type typ struct {
	kind byte // 'u', 's', 'b', 'f', or 'p' for predicates
	bits int
}

var types = map[string]typ{
	"pred": {'p', 1},
	"u8":   {'u', 8}, "u16": {'u', 16}, "u32": {'u', 32}, "u64": {'u', 64},
	"s8": {'s', 8}, "s16": {'s', 16}, "s32": {'s', 32}, "s64": {'s', 64},
	"b8": {'b', 8}, "b16": {'b', 16}, "b32": {'b', 32}, "b64": {'b', 64},
	"f16": {'f', 16}, "f32": {'f', 32}, "f64": {'f', 64}, "f16x2": {'b', 32},
}

func (t typ) class() class {
	switch {
	case t.kind == 'p':
		return classPred
	case t.bits == 64:
		return class64
	}
	return class32
}

func (t typ) String() string {
	if t.kind == 'p' {
		return "pred"
	}
	return fmt.Sprintf("%c%d", t.kind, t.bits)
}

// An operandKind says what an operand of the text is.
type operandKind uint8

const (
	opReg     operandKind = iota
	opImm                 // value
	opSpecial             // value: index into specials
	opSym                 // variable + value
	opVec                 // list
	opAddr                // list[0] + value
	opLabel               // name; target after resolution
)

// An operand of an instruction of the text.
type operand struct {
	kind  operandKind
	neg   bool // !%p
	float int  // of an immediate: bits of a 0f or 0d literal
	reg   int  // index into kernelText.regs
	value int64
	sym   *variable
	name  string
	list  []operand
}

// A statement is one instruction of the text.
type statement struct {
	line     int32
	guard    int // register, -1 if none
	guardNeg bool
	op       string
	args     []operand
	scope    *scope
}

// A scope is one { }: names of registers, variables and labels.
type scope struct {
	outer  *scope
	regs   map[string]int
	ranges []registerRange
	vars   map[string]*variable
	labels map[string]int
	depth  int
}

// A registerRange is a declaration of prefix0 to prefix(n-1). Only those that
// are used become registers.
type registerRange struct {
	prefix string
	n      int64
	t      typ
}

// kernelText is one entry point as parsed.
type kernelText struct {
	name       string
	line       int32
	params     []*variable
	regs       []register
	vars       []*variable // shared and local
	stmts      []statement
	maxThreads int
}
