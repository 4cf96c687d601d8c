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
	if p.DescribedBytes < 0 || p.DRAMBytes < p.ConstBytes() || p.DRAMBytes >= 1<<addrRegShift {
		v.faultf("DRAM of %d bytes does not hold the %d bytes of constants", p.DRAMBytes, p.ConstBytes())
	}
	if p.ScratchpadBytes < 0 || p.AccumulatorBytes < 0 || p.WeightSRAMBytes < 0 || p.WeightBytes < 0 || p.Replicas < 0 {
		v.faultf("a size is negative")
	}
	if n := p.NumRounds(); p.Rounds < 0 || len(p.Layers)%n != 0 {
		v.faultf("has %d layers for %d rounds", len(p.Layers), p.Rounds)
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
	inputs := map[int]bool{}
	for i, s := range p.States {
		v.where = fmt.Sprintf("state %d", i)
		switch {
		case s.Input < 0 || s.Input >= len(p.Inputs) || inputs[s.Input]:
			v.faultf("is of input %d: want one of the %d inputs, each once", s.Input, len(p.Inputs))
		case s.Bytes < 0 || s.New < 0 || s.New > s.Bytes || s.Bytes >= 1<<addrRegShift:
			v.faultf("replaces %d of %d bytes", s.New, s.Bytes)
		}
		inputs[s.Input] = true
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
	case io.Addr < v.p.ConstBytes() || io.Addr+n > v.p.DRAMBytes:
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
	row := table[in.Op].Operands
	if len(in.Args) != len(row) {
		v.faultf("has %d operands, its table row %d", len(in.Args), len(row))
		return false
	}
	ok := true
	for i, x := range in.Args {
		l := &limits[in.Op][i]
		switch {
		case x < l.lo || x > l.hi:
			v.faultf("%s = %d is not a valid %s, which is %d..%d", row[i].Name, x, row[i].Kind, l.lo, l.hi)
			ok = false
		case l.two && x != l.lo && x != l.hi:
			v.faultf("%s = %d, must be %d or %d", row[i].Name, x, l.lo, l.hi)
			ok = false
		}
	}
	if i := firstCluster[in.Op]; i >= 0 {
		first, count, n := in.Args[i], in.Args[i+1], int64(len(v.p.Main))
		if first < 0 || first >= n || count > n-first {
			v.faultf("clusters %d..%d, the program has %d", first, first+count-1, n)
			ok = false
		}
	}
	return ok
}

// limit is the range of an operand; two says that only its ends are valid.
type limit struct {
	lo, hi int64
	two    bool
}

// kindLimits are the ranges of the kinds.
var kindLimits = [...]limit{
	KImm: {lo: -1 << addrRegShift, hi: 1 << addrRegShift}, KStep: {lo: -1 << addrRegShift, hi: 1 << addrRegShift},
	KCount: {lo: 1, hi: maxCount}, KReg: {lo: 1, hi: NumRegs - 1}, KFloat: {hi: math.MaxUint32},
	KSP: {hi: maxAddr}, KAcc: {hi: maxAddr}, KWS: {hi: maxAddr}, KDRAM: {hi: maxAddr},
}

// maxAddr is the greatest address with the greatest register.
const maxAddr = NumRegs<<addrRegShift - 1

// nameLimits are the ranges of operands that are narrower than their kind's,
// by name, wherever they occur, or by mnemonic and name.
var nameLimits = map[string]limit{
	"wbits": {4, 8, true}, "planes": {lo: 1, hi: 3}, "accumulate": {0, 1, true}, "b_step": {0, 1, true}, "log": {0, 1, true}, "shifts": {0, 1, true}, "row0": {hi: 65535}, "by": {lo: 1, hi: 31}, "per_count": {0, 1, true},
	"lo": {hi: 255}, "hi": {hi: 255}, "zero": {hi: 255}, "value": {hi: 255}, "za": {hi: 255}, "zb": {hi: 255},
	"zx": {hi: 255}, "zy": {hi: 255}, "fn": {hi: 255}, "shift": {lo: 1, hi: 62},
	"m": {lo: math.MinInt32, hi: math.MaxInt32}, "ma": {lo: math.MinInt32, hi: math.MaxInt32}, "mb": {lo: math.MinInt32, hi: math.MaxInt32},
	"pad_t": {hi: 1 << 24}, "pad_l": {hi: 1 << 24}, "pad_b": {hi: 1 << 24}, "pad_r": {hi: 1 << 24},
	"y0": {lo: -1 << 24, hi: 1 << 24}, "x0": {lo: -1 << 24, hi: 1 << 24},
	"type": {hi: int64(NumDTypes) - 1}, "to": {hi: int64(NumDTypes) - 1}, "from": {hi: int64(NumDTypes) - 1}, "itype": {hi: int64(NumDTypes) - 1},
	"select size": {lo: 1, hi: 8}, "pick size": {lo: 1, hi: 8}, "smallest": {0, 1, true},
	"offset": {lo: math.MinInt16, hi: math.MaxUint16},
}

// narrowed returns the range of an operand that is narrower than its kind's.
func narrowed(op Op, name string) (limit, bool) {
	l, ok := nameLimits[table[op].Mnemonic+" "+name]
	if !ok {
		l, ok = nameLimits[name]
	}
	return l, ok
}

// limits holds the range of every operand of the table, and firstCluster the
// position of "first", behind which "count" stands, or −1.
var (
	limits       [numOps][]limit
	firstCluster [numOps]int
)

func init() {
	for op := range table {
		firstCluster[op] = -1
		for i, o := range table[op].Operands {
			l, ok := narrowed(Op(op), o.Name)
			if !ok {
				l = kindLimits[o.Kind]
			}
			limits[op] = append(limits[op], l)
			if o.Name == "first" {
				firstCluster[op] = i
			}
		}
	}
}
