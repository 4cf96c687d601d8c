package kernel

import (
	"fmt"

	"github.com/llir/llvm/ir"
	"github.com/llir/llvm/ir/constant"
	"github.com/llir/llvm/ir/enum"
	"github.com/llir/llvm/ir/metadata"
	"github.com/llir/llvm/ir/types"
)

// Spec describes one kernel completely: equal Specs are the same kernel. It is a
// struct without pointers.
type Spec interface {
	// Family is the first part of the kernel's name, such as "conv_mma".
	Family() string

	// Params lists the pointers that a launch passes, in order. The name of one
	// that is written begins with "y".
	Params() []string

	// Launch is the shape of a launch.
	Launch() Launch

	emit(k *fn)
}

// Launch is the shape of a launch: thread blocks, threads of a block, and bytes
// of dynamic shared memory.
type Launch struct {
	Grid, Block [3]int
	Shared      int
}

// Threads returns the threads of a block.
func (l Launch) Threads() int { return l.Block[0] * l.Block[1] * l.Block[2] }

// Module collects kernels.
type Module struct {
	m      *ir.Module
	names  map[string]string // name by what a Spec prints as
	count  map[string]int    // kernels of a family
	decls  map[string]*ir.Func
	shared *ir.Global
}

// NewModule returns an empty module for 64-bit NVPTX.
func NewModule(name string) *Module {
	m := ir.NewModule()
	m.SourceFilename = name
	m.TargetTriple = "nvptx64-nvidia-cuda"
	m.DataLayout = "e-i64:64-i128:128-v16:16-v32:32-n16:32:64"
	return &Module{m: m, names: map[string]string{}, count: map[string]int{}, decls: map[string]*ir.Func{}}
}

// String returns the module as LLVM IR text.
func (m *Module) String() string { return m.m.String() }

// Add returns the name of the kernel that s describes, generating it when it is
// new.
func (m *Module) Add(s Spec) string {
	key := fmt.Sprintf("%T%+v", s, s)
	if name, ok := m.names[key]; ok {
		return name
	}
	name := fmt.Sprintf("%s_%d", s.Family(), m.count[s.Family()])
	m.count[s.Family()]++
	m.names[key] = name
	k := newFn(m, name, s)
	s.emit(k)
	k.b.NewRet(nil)
	m.annotate(k.f, s.Launch())
	return name
}

// annotate marks f as a kernel and bounds its block, which lets the assembler use
// as many registers as that allows.
func (m *Module) annotate(f *ir.Func, l Launch) {
	note := func(what string, n int) {
		t := &metadata.Tuple{
			MetadataID: metadata.MetadataID(len(m.m.MetadataDefs)),
			Fields:     []metadata.Field{f, &metadata.String{Value: what}, constant.NewInt(types.I32, int64(n))},
		}
		m.m.MetadataDefs = append(m.m.MetadataDefs, t)
		d := m.m.NamedMetadataDefs["nvvm.annotations"]
		if d == nil {
			d = &metadata.NamedDef{Name: "nvvm.annotations"}
			m.m.NamedMetadataDefs[d.Name] = d
		}
		d.Nodes = append(d.Nodes, t)
	}
	note("kernel", 1)
	note("maxntidx", l.Block[0])
}

// intrinsic declares an LLVM intrinsic.
func (m *Module) intrinsic(name string, result types.Type, params ...types.Type) *ir.Func {
	if f, ok := m.decls[name]; ok {
		return f
	}
	var ps []*ir.Param
	for _, t := range params {
		ps = append(ps, ir.NewParam("", t))
	}
	f := m.m.NewFunc(name, result, ps...)
	m.decls[name] = f
	return f
}

// sharedMemory declares the block's dynamic shared memory.
func (m *Module) sharedMemory() *ir.Global {
	if m.shared == nil {
		g := ir.NewGlobal("shared", types.NewArray(0, types.I8))
		g.AddrSpace = spaceShared
		g.Linkage = enum.LinkageExternal
		g.Align = 128 // that of a row of all banks
		g.Typ = types.NewPointer(g.ContentType)
		g.Typ.AddrSpace = spaceShared
		m.m.Globals = append(m.m.Globals, g)
		m.shared = g
	}
	return m.shared
}
