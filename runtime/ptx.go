package runtime

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"situ/arch"
	"situ/backend/gpu"
	"situ/emulator/ptx"
	"situ/ir"
)

// maxDeviceBytes bounds the device memory of the PTX emulator.
const maxDeviceBytes = 8 << 30

// emulation is a program for a GPU on the PTX emulator.
type emulation struct {
	program *gpu.Program
	card    *arch.GPU
	module  *ptx.Module
	memory  *ptx.Memory
	base    map[string]uint64 // of each buffer
	zeros   []byte            // what described constants are in samples, the longest of them
}

// newEmulation reads the PTX of a program.
func newEmulation(p *gpu.Program, card *arch.GPU) (*emulation, error) {
	m, err := ptx.Parse(p.PTX, gpu.PTXFile)
	return &emulation{program: p, card: card, module: m}, err
}

// config is the launch of l with its arguments in the program's buffers.
func (d *emulation) config(l *gpu.Launch) (ptx.LaunchConfig, error) {
	caches, err := d.caches(l)
	cfg := ptx.LaunchConfig{Grid: l.Grid, Block: l.Block, SharedBytes: l.Shared, Memory: d.memory, Caches: caches}
	for _, a := range l.Args {
		cfg.Args = append(cfg.Args, ptx.U64(d.base[a.Buffer]+uint64(a.Offset)))
	}
	return cfg, err
}

// caches are those of the card as blocks of a launch find them.
func (d *emulation) caches(l *gpu.Launch) (ptx.Caches, error) {
	k, err := d.module.Kernel(l.Kernel)
	if err != nil {
		return ptx.Caches{}, err
	}
	shared := k.SharedBytes + l.Shared
	n, err := gpu.Resident(d.card, l.Block[0]*l.Block[1]*l.Block[2], k.LiveRegisters, shared)
	if err != nil {
		return ptx.Caches{}, fmt.Errorf("kernel %s of %s %q: %w", l.Kernel, l.Op, l.Node, err)
	}
	return ptx.Caches{L1Bytes: gpu.L1Share(d.card, n, shared), L2Bytes: gpu.L2Usable(d.card), Resident: n * int(d.card.SMs.Int())}, nil
}

// run runs every kernel in whole on memory of its own. counted, unless nil, is
// handed what each launch did.
func (d *emulation) run(ctx context.Context, inputs []*ir.Tensor, counted func(i int, c *ptx.Counters)) error {
	d.memory = ptx.NewMemory(maxDeviceBytes)
	var err error
	if d.base, err = fill(d.memory, d.program, inputs); err != nil {
		return err
	}
	for i := range d.program.Launches {
		l := &d.program.Launches[i]
		cfg, err := d.config(l)
		if err != nil {
			return err
		}
		c, err := d.module.Launch(ctx, l.Kernel, cfg)
		if err != nil {
			return fmt.Errorf("%s %q: %w", l.Op, l.Node, err)
		}
		if counted != nil {
			counted(i, c)
		}
	}
	return nil
}

// outputs reads what the last run left for g, the graph that the program was
// compiled from.
func (d *emulation) outputs(g *ir.Graph) ([]*ir.Tensor, error) {
	return fetch(d.memory, d.program, g, d.base)
}

// emulateKernels compiles a prepared model to GPU kernels and returns the outputs
// that their PTX computes on the PTX emulator.
func emulateKernels(ctx context.Context, p *Prepared, t *Target, inputs []*ir.Tensor) ([]*ir.Tensor, error) {
	prog, err := p.kernels(ctx, t)
	if err != nil && !errors.Is(err, errAllHost) {
		return nil, err
	}
	outs, err := p.through(ctx, [][]*ir.Tensor{inputs}, func(in []*ir.Tensor) ([]*ir.Tensor, error) {
		d, err := newEmulation(prog, t.GPU)
		if err != nil {
			return nil, err
		}
		if err := d.run(ctx, in, nil); err != nil {
			return nil, err
		}
		return d.outputs(p.Chip)
	})
	if err != nil {
		return nil, err
	}
	return outs[0], nil
}

// kernels compiles a prepared model for a GPU, but for what the host has to do.
func (p *Prepared) kernels(ctx context.Context, t *Target) (prog *gpu.Program, err error) {
	err = p.trying(func(g *ir.Graph) (err error) {
		prog, err = kernelsOf(ctx, g, t.GPU)
		return err
	})
	return prog, err
}

// kernelsOf compiles a fixed-point graph for a GPU, down to PTX.
func kernelsOf(ctx context.Context, g *ir.Graph, card *arch.GPU) (*gpu.Program, error) {
	prog, err := gpu.Compile(g, card)
	if err != nil {
		return nil, err
	}
	return prog, assemble(ctx, prog)
}

// assemble gives a program its PTX: what comes with situ where there is any, else by
// llc.
func assemble(ctx context.Context, prog *gpu.Program) error {
	if prog.UsePrebuilt(gpu.DefaultSM) {
		return nil
	}
	llc, err := gpu.FindLLC(ctx, gpu.DefaultSM)
	if err != nil {
		return err
	}
	return prog.Assemble(ctx, llc, gpu.DefaultSM)
}

// ShippedKernels returns the programs, without PTX, that comparing the model that
// ships on the default targets takes.
func ShippedKernels(ctx context.Context) ([]*gpu.Program, error) {
	m, err := OpenModel("digits", ModelOptions{})
	if err != nil {
		return nil, err
	}
	p, err := Prepare(ctx, m, QuantOptions{})
	if err != nil {
		return nil, err
	}
	t, err := OpenTarget("h100")
	if err != nil {
		return nil, err
	}
	var out []*gpu.Program
	for _, n := range []int{1, throughputBatch} {
		b, err := p.batch(n)
		if err != nil {
			return nil, err
		}
		prog, err := gpu.Compile(b.Chip, t.GPU)
		if err != nil {
			return nil, err
		}
		out = append(out, prog)
	}
	return out, nil
}

// A deviceMemory is the memory that kernels run on, emulated or of a card.
type deviceMemory interface {
	Alloc(name string, bytes int) (uint64, error)
	Write(addr uint64, b []byte) error
	Read(addr uint64, b []byte) error
}

// fill allocates the buffers of a program, writes constants and inputs, and
// returns the buffers' addresses by name.
func fill(mem deviceMemory, prog *gpu.Program, inputs []*ir.Tensor) (map[string]uint64, error) {
	base := map[string]uint64{}
	for _, b := range prog.Buffers {
		var err error
		if base[b.Name], err = mem.Alloc(b.Name, int(max(b.Bytes, 1))); err != nil {
			return nil, err
		}
	}
	if err := mem.Write(base[gpu.Constants], prog.Constants); err != nil {
		return nil, err
	}
	for i, port := range prog.Inputs {
		b, err := binary.Append(nil, binary.LittleEndian, inputs[i].Any())
		if err != nil {
			return nil, err
		}
		if err := mem.Write(base[port.Buffer]+uint64(port.Offset), b); err != nil {
			return nil, err
		}
	}
	return base, nil
}

// fetch reads the outputs of a program for graph g.
func fetch(mem deviceMemory, prog *gpu.Program, g *ir.Graph, base map[string]uint64) ([]*ir.Tensor, error) {
	var outputs []*ir.Tensor
	for i, port := range prog.Outputs {
		b := make([]byte, port.Bytes)
		if err := mem.Read(base[port.Buffer]+uint64(port.Offset), b); err != nil {
			return nil, err
		}
		ty := g.Type(g.Outputs[i])
		t := ir.Zeros(ty.DType, ty.Shape...)
		if err := binary.Read(bytes.NewReader(b), binary.LittleEndian, t.Any()); err != nil {
			return nil, fmt.Errorf("output %q: %w", g.Value(g.Outputs[i]).Name, err)
		}
		outputs = append(outputs, t)
	}
	return outputs, nil
}
