package ptx

import (
	"fmt"
	"math"
	"strings"
	"sync"
)

// kernel is an entry point ready to run.
type kernel struct {
	name       string
	params     []*variable
	paramBytes int
	shared     int // bytes declared with a size
	dynamic    int // where what a launch adds begins
	local      int // bytes of each thread
	maxThreads int
	liveRegs   int

	code     []instr
	sites    int // accesses whose shape is kept
	n32, n64 int // registers in each bank
	preds    int
	zero32   []int32 // read before written on some path: cleared first
	zero64   []int32
	specials []pinned
	c32      []uint32
	c64      []uint64
	relocs   []reloc
	spare    sync.Pool // of *worker
}

// pinned is a special register and its place in the 32-bit bank.
type pinned struct{ special, slot int32 }

// reloc says that 64-bit constant index is the address of sym plus addend.
type reloc struct {
	index  int
	sym    *variable
	addend int64
}

// compiler turns one kernelText into a kernel.
type compiler struct {
	m       *Module
	t       *kernelText
	k       *kernel
	offsets map[*variable]int // of shared and local variables
	special map[int]int32     // special register → virtual register
	regs    []register        // t.regs and then the special registers

	st   *statement // being selected
	in   *instr
	defs []int32 // virtual registers written by in
	uses []int32
	// early says that in reads operands after it wrote some result, so that
	// no result may share a register with an operand.
	early bool

	index32 map[uint32]int32
	index64 map[uint64]int32
}

func (c *compiler) errorf(format string, args ...any) error {
	return &errLine{c.st.line, fmt.Errorf("%s: %w", c.st.op, fmt.Errorf(format, args...))}
}

func compile(m *Module, t *kernelText) (*kernel, error) {
	c := &compiler{
		m: m, t: t,
		k:       &kernel{name: t.name, params: t.params, maxThreads: t.maxThreads},
		offsets: map[*variable]int{}, special: map[int]int32{},
		regs:    t.regs[:len(t.regs):len(t.regs)],
		index32: map[uint32]int32{}, index64: map[uint64]int32{},
	}
	if err := c.layout(); err != nil {
		return nil, err
	}
	c.const32(0)
	c.const64(0)
	// One instruction more than the text has: running off the end is ret.
	k := c.k
	k.code = make([]instr, len(t.stmts)+1)
	flow := make([]access, len(k.code))
	for i := range t.stmts {
		c.st, c.in = &t.stmts[i], &k.code[i]
		c.defs, c.uses, c.early = nil, nil, false
		*c.in = instr{
			guard: unused, d: unused, d2: unused, a: unused, b: unused, c: unused,
			target: -1, rpc: noReconverge, site: -1, line: c.st.line, name: c.st.op,
		}
		if g := c.st.guard; g >= 0 {
			c.in.guard = int32(g)
			if c.st.guardNeg {
				c.in.guardNeg = full
			}
			c.uses = append(c.uses, int32(g))
		}
		if err := c.sel(); err != nil {
			return nil, err
		}
		flow[i] = access{c.defs, c.uses, c.early, c.in.guard != unused}
		c.in.reads, c.in.writes = c.weigh(c.uses), c.weigh(c.defs)
	}
	last := &k.code[len(t.stmts)]
	*last = instr{kind: kindExit, class: Control, guard: unused, d: unused, d2: unused, a: unused, b: unused, c: unused, name: "ret"}
	if len(t.stmts) > 0 {
		last.line = t.stmts[len(t.stmts)-1].line
	}
	g := newGraph(k.code)
	g.reconverge(k.code)
	k.chains(g, flow, len(c.regs))
	if err := c.allocate(g, flow); err != nil {
		return nil, &errLine{t.line, err}
	}
	return k, nil
}

// Renames reports whether an assembler makes no instruction of an opcode, or at most
// one outside of loops, but operands of others: moves, the loading of parameters, the
// lower of the two registers of 64 bits.
func Renames(opcode string) bool {
	return strings.HasPrefix(opcode, "mov.") || strings.HasPrefix(opcode, "ld.param.") || opcode == "cvt.u32.u64"
}

// chains finds how many instructions of each basic block depend one on the other, the
// longest way, and notes it at the block's first. What stands behind a barrier depends
// on all before it.
func (k *kernel) chains(g *graph, flow []access, regs int) {
	depth := make([]int32, regs)
	for b := range g.blocks() {
		clear(depth)
		var floor, longest int32
		for i := g.start[b]; i < g.start[b+1]; i++ {
			in, at := &k.code[i], floor
			for _, u := range flow[i].uses {
				at = max(at, depth[u])
			}
			if !Renames(in.name) {
				at++
			}
			for _, d := range flow[i].defs {
				depth[d] = at
			}
			longest = max(longest, at)
			if in.class == Barrier {
				floor = longest
			}
		}
		k.code[g.start[b]].chain = longest
	}
}

// weigh counts registers in units of 32 bits; predicates and special
// registers are not in the register file.
func (c *compiler) weigh(regs []int32) int32 {
	n := int32(0)
	for _, r := range regs {
		if int(r) >= len(c.t.regs) {
			continue
		}
		switch c.regs[r].class {
		case class32:
			n++
		case class64:
			n += 2
		}
	}
	return n
}

// layout gives shared and local variables that the kernel names their place,
// and dynamic shared memory its place behind them.
func (c *compiler) layout() error {
	k := c.k
	align := 16
	var dynamic []*variable
	place := func(v *variable) {
		if _, ok := c.offsets[v]; ok {
			return
		}
		switch {
		case v.space == spaceLocal:
			k.local = alignUp(k.local, v.align)
			c.offsets[v] = k.local
			k.local += v.size
		case v.space == spaceShared && v.extern:
			c.offsets[v] = -1
			align = max(align, v.align)
			dynamic = append(dynamic, v)
		case v.space == spaceShared:
			k.shared = alignUp(k.shared, v.align)
			c.offsets[v] = k.shared
			k.shared += v.size
		}
	}
	for _, v := range c.t.vars {
		place(v)
	}
	for _, st := range c.t.stmts {
		for _, a := range st.args {
			if a.kind == opSym {
				place(a.sym)
			}
			for _, o := range a.list {
				if o.kind == opSym {
					place(o.sym)
				}
			}
		}
		if k.shared > maxVariable || k.local > 1<<20 {
			return &errLine{c.t.line, fmt.Errorf("kernel %s needs %d bytes of shared and %d of local memory", k.name, k.shared, k.local)}
		}
	}
	k.dynamic = alignUp(k.shared, align)
	for _, v := range dynamic {
		c.offsets[v] = k.dynamic
	}
	for _, v := range c.t.params {
		k.paramBytes = max(k.paramBytes, v.offset+v.size)
	}
	return nil
}

// const32 returns the operand for a 32-bit constant.
func (c *compiler) const32(v uint32) int32 {
	i, ok := c.index32[v]
	if !ok {
		i = ^int32(len(c.k.c32))
		c.k.c32 = append(c.k.c32, v)
		c.index32[v] = i
	}
	return i
}

func (c *compiler) const64(v uint64) int32 {
	i, ok := c.index64[v]
	if !ok {
		i = ^int32(len(c.k.c64))
		c.k.c64 = append(c.k.c64, v)
		c.index64[v] = i
	}
	return i
}

// symbol returns the operand that holds the address of a variable, in its own
// state space; 64 bits wide unless narrow.
func (c *compiler) symbol(v *variable, addend int64, narrow bool) (int32, error) {
	at := addend
	switch v.space {
	case spaceGlobal, spaceConst:
		if narrow {
			return 0, c.errorf("the address of %s does not fit 32 bits", v.name)
		}
		c.k.relocs = append(c.k.relocs, reloc{len(c.k.c64), v, addend})
		c.k.c64 = append(c.k.c64, 0)
		return ^int32(len(c.k.c64) - 1), nil
	case spaceParam:
		at += int64(v.offset)
	default:
		at += int64(c.offsets[v])
	}
	if narrow {
		return c.const32(uint32(at)), nil
	}
	return c.const64(uint64(at)), nil
}

// src returns operand o read as type t.
func (c *compiler) src(o operand, t typ) (int32, error) {
	want := t.class()
	switch o.kind {
	case opReg:
		r := c.regs[o.reg]
		if r.class != want || want == class32 && r.bits != t.bits {
			return 0, c.errorf("%s has %d bits, the instruction reads %v", o.name, r.bits, t)
		}
		if o.neg && want != classPred {
			return 0, c.errorf("! before %s, which is no predicate", o.name)
		}
		c.uses = append(c.uses, int32(o.reg))
		return int32(o.reg), nil
	case opImm:
		return c.immediate(o, t)
	case opSpecial:
		if t.bits != 32 {
			return 0, c.errorf("%s has 32 bits, the instruction reads %v", o.name, t)
		}
		v, ok := c.special[int(o.value)]
		if !ok {
			v = int32(len(c.regs))
			c.regs = append(c.regs, register{class32, 32})
			c.special[int(o.value)] = v
		}
		c.uses = append(c.uses, v)
		return v, nil
	case opSym:
		if want == classPred || t.bits < 32 {
			return 0, c.errorf("address of %s as %v", o.name, t)
		}
		return c.symbol(o.sym, o.value, want == class32)
	case opLabel:
		return 0, c.errorf("%s is not defined", o.name)
	}
	return 0, c.errorf("a list or an address where %v is read", t)
}

// immediate returns the constant operand for a literal read as type t.
func (c *compiler) immediate(o operand, t typ) (int32, error) {
	bits := uint64(o.value)
	if t.kind == 'f' && o.float == 0 && bits != 0 {
		return 0, c.errorf("integer where %v is read", t)
	}
	switch {
	case o.float == 64 && t.bits == 32:
		bits = uint64(math.Float32bits(float32(math.Float64frombits(bits))))
	case o.float == 32 && t.bits == 64 && t.kind == 'f':
		bits = math.Float64bits(float64(math.Float32frombits(uint32(bits))))
	case o.float != 0 && t.bits < 32:
		return 0, c.errorf("floating-point literal where %v is read", t)
	}
	switch t.class() {
	case classPred:
		if bits != 0 != o.neg {
			return ^int32(1), nil
		}
		return ^int32(0), nil
	case class64:
		return c.const64(bits), nil
	}
	return c.const32(uint32(bits & (1<<t.bits - 1))), nil
}

// dst returns operand o written as type t.
func (c *compiler) dst(o operand, t typ) (int32, error) {
	if o.kind != opReg || o.neg {
		if o.kind == opLabel && o.name == "_" {
			return 0, c.errorf("a discarded result (_) is not supported here")
		}
		return 0, c.errorf("the result must be a register")
	}
	r := c.regs[o.reg]
	if r.class != t.class() || t.class() == class32 && r.bits != t.bits {
		return 0, c.errorf("%s has %d bits, the instruction writes %v", o.name, r.bits, t)
	}
	c.defs = append(c.defs, int32(o.reg))
	return int32(o.reg), nil
}

// sites makes a place for the shapes of n accesses.
func (c *compiler) sites(n int) {
	c.in.site = int32(c.k.sites)
	c.k.sites += n
}

// count checks the number of operands.
func (c *compiler) count(low, high int) error {
	if n := len(c.st.args); n < low || n > high {
		return c.errorf("%d operands, want %d to %d", n, low, high)
	}
	return nil
}
