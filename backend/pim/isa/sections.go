package isa

import (
	"errors"
	"math"
)

func encodeMeta(p *Program) []byte {
	w := &writer{}
	w.string(p.Model)
	w.string(p.Arch)
	w.string(p.Quant)
	for _, x := range p.sizes() {
		w.int(*x)
	}
	w.int(int64(p.Replicas))
	w.int(int64(p.Rounds))
	w.uint(uint64(len(p.Regions)))
	for _, r := range p.Regions {
		w.int(r.Start)
		w.int(r.End)
		w.int(int64(r.Die))
	}
	for _, ios := range [][]IO{p.Inputs, p.Outputs} {
		w.uint(uint64(len(ios)))
		for _, io := range ios {
			w.string(io.Name)
			w.uint(uint64(io.DType))
			w.uint(uint64(len(io.Shape)))
			for _, d := range io.Shape {
				w.int(int64(d))
			}
			w.int(io.Addr)
			w.f32(io.Scale)
			w.int(int64(io.Zero))
		}
	}
	w.uint(uint64(len(p.States)))
	for _, s := range p.States {
		w.int(int64(s.Input))
		w.string(s.Output)
		w.int(s.Bytes)
		w.int(s.New)
		w.bool(s.Spilled)
	}
	w.uint(uint64(len(p.Layers)))
	for _, l := range p.Layers {
		w.string(l.Name)
		w.string(l.Op)
		w.int(l.MACs)
		w.string(l.Mapping)
	}
	w.uint(uint64(len(p.Fallbacks)))
	for _, f := range p.Fallbacks {
		w.string(f.Node)
		w.string(f.Op)
		w.uint(math.Float64bits(f.Share))
	}
	return w.data
}

// sizes lists the program's plain 64-bit fields in file order.
func (p *Program) sizes() []*int64 {
	return []*int64{&p.DRAMBytes, &p.ScratchpadBytes, &p.AccumulatorBytes, &p.WeightSRAMBytes, &p.WeightBytes, &p.DescribedBytes}
}

func decodeMeta(r *reader, p *Program) {
	p.Model = r.string()
	p.Arch = r.string()
	p.Quant = r.string()
	for _, x := range p.sizes() {
		*x = r.int()
	}
	p.Replicas = int(r.int())
	p.Rounds = int(r.int())
	for n := r.count(); n > 0 && r.err == nil; n-- {
		p.Regions = append(p.Regions, Region{Start: r.int(), End: r.int(), Die: int(r.int())})
	}
	for _, ios := range []*[]IO{&p.Inputs, &p.Outputs} {
		for n := r.count(); n > 0 && r.err == nil; n-- {
			io := IO{Name: r.string(), DType: DType(min(r.uint(), 255))}
			for n := r.count(); n > 0 && r.err == nil; n-- {
				io.Shape = append(io.Shape, int(r.int()))
			}
			io.Addr, io.Scale, io.Zero = r.int(), r.f32(), int32(r.int())
			*ios = append(*ios, io)
		}
	}
	for n := r.count(); n > 0 && r.err == nil; n-- {
		p.States = append(p.States, State{Input: int(r.int()), Output: r.string(), Bytes: r.int(), New: r.int(), Spilled: r.bool()})
	}
	for n := r.count(); n > 0 && r.err == nil; n-- {
		p.Layers = append(p.Layers, Layer{Name: r.string(), Op: r.string(), MACs: r.int(), Mapping: r.string()})
	}
	for n := r.count(); n > 0 && r.err == nil; n-- {
		p.Fallbacks = append(p.Fallbacks, Fallback{Node: r.string(), Op: r.string(), Share: math.Float64frombits(r.uint())})
	}
}

func encodeCode(p *Program) []byte {
	w := &writer{}
	for _, streams := range [][]Stream{p.Init, p.Main} {
		w.uint(uint64(len(streams)))
		for i := range streams {
			w.stream(&streams[i])
		}
	}
	return w.data
}

// stream writes the number of instructions, then for each the opcode, the
// difference of its layer from that before, and the operands.
func (w *writer) stream(s *Stream) {
	w.uint(uint64(len(s.Insts)))
	layer := int32(-1)
	for i := range s.Insts {
		in := &s.Insts[i]
		w.data = append(w.data, byte(in.Op))
		w.int(int64(s.Layer[i] - layer))
		layer = s.Layer[i]
		for j, o := range table[in.Op].Operands {
			switch x := in.Args[j]; {
			case o.Kind.isAddr():
				imm, reg := SplitAddr(x)
				w.uint(uint64(imm)<<4 | uint64(reg))
			case o.Kind == KCount || o.Kind == KFloat || o.Kind == KReg:
				w.uint(uint64(x))
			default:
				w.int(x)
			}
		}
	}
}

func decodeCode(r *reader, p *Program) {
	for _, streams := range []*[]Stream{&p.Init, &p.Main} {
		for n := r.count(); n > 0 && r.err == nil; n-- {
			*streams = append(*streams, r.stream())
		}
	}
}

func (r *reader) stream() Stream {
	var s Stream
	var slab []int64
	layer := int32(-1)
	for n := r.count(); n > 0 && r.err == nil; n-- {
		if len(r.data) == 0 {
			r.fail(errors.New("an instruction is missing"))
			break
		}
		op := Op(r.data[0])
		r.data = r.data[1:]
		if !op.Known() {
			r.fail(errors.New("unknown opcode " + op.String()))
			break
		}
		layer += int32(r.int())
		operands := table[op].Operands
		if len(operands) > len(slab) {
			// An operand takes a byte at least, which bounds the slab by the file.
			slab = make([]int64, max(len(operands), min(4096, len(r.data))))
		}
		args := slab[:len(operands):len(operands)]
		slab = slab[len(operands):]
		for j, o := range operands {
			switch {
			case o.Kind.isAddr():
				x := r.uint()
				args[j] = int64(x>>4) | int64(x&15)<<addrRegShift
				if x>>4 >= 1<<addrRegShift {
					r.fail(errors.New("an address is too large"))
				}
			case o.Kind == KCount || o.Kind == KFloat || o.Kind == KReg:
				args[j] = int64(r.uint())
			default:
				args[j] = r.int()
			}
		}
		s.Insts = append(s.Insts, Inst{Op: op, Args: args})
		s.Layer = append(s.Layer, layer)
	}
	return s
}
