package runtime

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"

	"situ/arch"
	"situ/backend/gpu"
	"situ/emulator/ptx"
	"situ/ir"
)

// maxDeviceBytes bounds the device memory of the PTX emulator.
const maxDeviceBytes = 8 << 30

// emulateKernels compiles a prepared model to GPU kernels and returns the outputs
// that their PTX computes on the PTX emulator.
func emulateKernels(ctx context.Context, p *Prepared, t *Target, inputs []*ir.Tensor) ([]*ir.Tensor, error) {
	prog, err := kernelsOf(ctx, p.Fixed, t.GPU)
	if err != nil {
		return nil, err
	}
	mod, err := ptx.Parse(prog.PTX, gpu.PTXFile)
	if err != nil {
		return nil, err
	}
	mem := ptx.NewMemory(maxDeviceBytes)
	base, err := fill(mem, prog, inputs)
	if err != nil {
		return nil, err
	}
	for _, l := range prog.Launches {
		cfg := ptx.LaunchConfig{Grid: l.Grid, Block: l.Block, SharedBytes: l.Shared, Memory: mem}
		for _, a := range l.Args {
			cfg.Args = append(cfg.Args, ptx.U64(base[a.Buffer]+uint64(a.Offset)))
		}
		if _, err := mod.Launch(ctx, l.Kernel, cfg); err != nil {
			return nil, fmt.Errorf("%s %q: %w", l.Op, l.Node, err)
		}
	}
	return fetch(mem, prog, p.Fixed, base)
}

// kernelsOf compiles a fixed-point graph for a GPU, down to PTX.
func kernelsOf(ctx context.Context, g *ir.Graph, card *arch.GPU) (*gpu.Program, error) {
	llc, err := gpu.FindLLC(ctx, gpu.DefaultSM)
	if err != nil {
		return nil, err
	}
	prog, err := gpu.Compile(g, card)
	if err != nil {
		return nil, err
	}
	return prog, prog.Assemble(ctx, llc, gpu.DefaultSM)
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
