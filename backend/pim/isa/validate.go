package isa

import (
	"errors"
	"fmt"
	"math"
)

// ErrInvalid is wrapped by every error of Validate.
var ErrInvalid = errors.New("invalid program")

// Limits of a valid program.
const (
	maxCount    = 1 << 40
	maxDynamic  = 1 << 31 // instructions a stream may execute
	maxReported = 20      // faults Validate lists
)

// Validate checks what can be known of a program without an architecture:
// operands within the range of their kind, balanced loops, barriers and
// receivers among the program's clusters, and tensors and regions inside DRAM.
// The error lists up to 20 faults, each with stream, cluster and instruction,
// and wraps ErrInvalid. Whether addresses stay inside the memories is checked
// by the emulator, which knows the registers and the memories' sizes.
func Validate(p *Program) error {
	v := &validator{p: p}
	v.program()
	for i := range p.Init {
		v.stream(fmt.Sprintf("init stream of cluster %d", i), &p.Init[i])
	}
	for i := range p.Main {
		v.stream(fmt.Sprintf("main stream of cluster %d", i), &p.Main[i])
	}
	if len(v.faults) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrInvalid, errors.Join(v.faults...))
}

type validator struct {
	p      *Program
	faults []error
	where  string // position of the stream and instruction at hand
}

func (v *validator) faultf(format string, args ...any) {
	switch {
	case len(v.faults) < maxReported:
		v.faults = append(v.faults, fmt.Errorf("%s: %w", v.where, fmt.Errorf(format, args...)))
	case len(v.faults) == maxReported:
		v.faults = append(v.faults, errors.New("more faults are not listed"))
	}
}

func (v *validator) program() {
	p := v.p
	v.where = "program"
	if len(p.Main) == 0 || len(p.Init) != len(p.Main) {
		v.faultf("has %d init and %d main streams; both need one for each cluster", len(p.Init), len(p.Main))
	}
	if p.DRAMBytes < int64(len(p.Consts)) || p.DRAMBytes >= 1<<addrRegShift {
		v.faultf("DRAM of %d bytes does not hold the %d bytes of constants", p.DRAMBytes, len(p.Consts))
	}
	if p.ScratchpadBytes < 0 || p.AccumulatorBytes < 0 || p.WeightSRAMBytes < 0 || p.WeightBytes < 0 || p.Replicas < 0 {
		v.faultf("a size is negative")
	}
	end := int64(0)
	for i, r := range p.Regions {
		v.where = fmt.Sprintf("region %d", i)
		if r.Start < end || r.End <= r.Start || r.End > p.DRAMBytes || r.Die < 0 {
			v.faultf("[%d, %d) on die %d is out of order or outside the DRAM", r.Start, r.End, r.Die)
		}
		end = max(end, r.End)
	}
	for i := range p.Inputs {
		v.tensor("input", &p.Inputs[i])
	}
	for i := range p.Outputs {
		v.tensor("output", &p.Outputs[i])
	}
	for i, l := range p.Layers {
		if l.MACs < 0 {
			v.where = fmt.Sprintf("layer %d", i)
			v.faultf("has %d multiply-accumulates", l.MACs)
		}
	}
}

func (v *validator) tensor(kind string, io *IO) {
	v.where = kind + " " + io.Name
	n, err := io.Bytes()
	switch {
	case err != nil:
		v.faultf("%w", err)
	case io.Addr < int64(len(v.p.Consts)) || io.Addr+n > v.p.DRAMBytes:
		v.faultf("%d bytes at %d lie in the constants or outside the DRAM", n, io.Addr)
	}
	if s := float64(io.Scale); s < 0 || math.IsNaN(s) || math.IsInf(s, 0) {
		v.faultf("has scale %v", io.Scale)
	}
}

func (v *validator) stream(name string, s *Stream) {
	v.where = name
	if len(s.Layer) != len(s.Insts) {
		v.faultf("has %d instructions and %d layer numbers", len(s.Insts), len(s.Layer))
	}
	for i, l := range s.Layer {
		if l < -1 || int(l) >= len(v.p.Layers) {
			v.faultf("instruction %d belongs to layer %d, the program has %d", i, l, len(v.p.Layers))
			break
		}
	}
	dynamic := float64(0)
	times := []float64{1} // how often the body of each open loop runs
	for i := range s.Insts {
		in := &s.Insts[i]
		v.where = fmt.Sprintf("%s, instruction %d (%s)", name, i, in.Op)
		dynamic += times[len(times)-1]
		if !v.operands(in) {
			continue
		}
		switch in.Op {
		case OpLoop:
			if len(times) > MaxLoopDepth {
				v.faultf("loops nest deeper than %d", MaxLoopDepth)
			}
			times = append(times, times[len(times)-1]*float64(in.Args[LoopCount]))
		case OpNext:
			if len(times) == 1 {
				v.faultf("closes no loop")
				continue
			}
			times = times[:len(times)-1]
		case OpHalt:
			if len(times) > 1 {
				v.faultf("lies inside a loop")
			}
		}
	}
	v.where = name
	if len(times) > 1 {
		v.faultf("%d loops are not closed", len(times)-1)
	}
	if dynamic > maxDynamic {
		v.faultf("executes %.3g instructions, the limit is %d", dynamic, int64(maxDynamic))
	}
}

// operands checks an instruction by its table row and reports whether it can be
// looked at further.
func (v *validator) operands(in *Inst) bool {
	if !in.Op.Known() {
		v.faultf("has no such opcode")
		return false
	}
	row := &table[in.Op]
	if len(in.Args) != len(row.Operands) {
		v.faultf("has %d operands, its table row %d", len(in.Args), len(row.Operands))
		return false
	}
	ok := true
	for i, o := range row.Operands {
		if x := in.Args[i]; !o.valid(x) {
			v.faultf("%s = %d is not a valid %s", o.Name, x, o.Kind)
			ok = false
		}
	}
	return ok && v.extra(in)
}

// valid reports whether x is in the range of the operand's kind.
func (o *Operand) valid(x int64) bool {
	switch o.Kind {
	case KCount:
		return x >= 1 && x <= maxCount
	case KStep, KImm:
		return x >= -1<<addrRegShift && x <= 1<<addrRegShift
	case KReg:
		return x >= 1 && x < NumRegs
	case KFloat:
		return x >= 0 && x <= math.MaxUint32
	}
	_, reg := SplitAddr(x)
	return x >= 0 && reg < NumRegs
}

// oneOf lists the operands that are switches, by name, wherever they occur.
var oneOf = map[string][2]int64{
	"wbits": {4, 8}, "accumulate": {0, 1}, "b_step": {0, 1}, "log": {0, 1}, "per_count": {0, 1},
}

// ranged lists the operands that have a range of their own.
var ranged = map[string][2]int64{
	"lo": {0, 255}, "hi": {0, 255}, "zero": {0, 255}, "value": {0, 255}, "za": {0, 255}, "zb": {0, 255},
	"zx": {0, 255}, "zy": {0, 255}, "shift": {1, 62}, "m": {math.MinInt32, math.MaxInt32},
	"ma": {math.MinInt32, math.MaxInt32}, "mb": {math.MinInt32, math.MaxInt32}, "fn": {0, 255},
	"pad_t": {0, 1 << 24}, "pad_l": {0, 1 << 24}, "pad_b": {0, 1 << 24}, "pad_r": {0, 1 << 24},
	"y0": {-1 << 24, 1 << 24}, "x0": {-1 << 24, 1 << 24},
}

// extra checks the operands whose range is not that of their kind.
func (v *validator) extra(in *Inst) bool {
	first := int64(-1)
	ok := true
	for i, o := range table[in.Op].Operands {
		x := in.Args[i]
		if two, is := oneOf[o.Name]; is && x != two[0] && x != two[1] {
			v.faultf("%s = %d, must be %d or %d", o.Name, x, two[0], two[1])
			ok = false
		}
		if r, is := ranged[o.Name]; is && (x < r[0] || x > r[1]) {
			v.faultf("%s = %d is outside %d..%d", o.Name, x, r[0], r[1])
			ok = false
		}
		switch {
		case o.Name == "first":
			first = x
		case o.Name == "count" && in.Op != OpLoop:
			if n := int64(len(v.p.Main)); first < 0 || first >= n || x > n-first {
				v.faultf("clusters %d..%d, the program has %d", first, first+x-1, n)
				ok = false
			}
		}
	}
	return ok
}
