package pim

import (
	"errors"

	"situ/arch"
	"situ/backend/pim/isa"
	"situ/internal/fixed"
	"situ/ir"
)

// mulAdd lowers the sum of two products of codes. In float32 the pass legalise has
// spelt it out.
func (l *lowering) mulAdd() error {
	if isF32(l.outType()) {
		return errors.New("in float32 is spelt out by the pass legalise, which is disabled")
	}
	k := &mulAdd{}
	var in []*tensor
	var c [4]code8
	out := dimsOf(l.outType().Shape)
	for i := range c {
		x, err := l.in(i)
		if err != nil {
			return err
		}
		for d, n := range out {
			if x.dims[d] != n && x.dims[d] != 1 {
				return errors.New("broadcasts over more than four dimensions")
			}
		}
		if c[i], err = code8Of(l.inType(i), nil); err != nil {
			return err
		}
		in, k.in[i] = append(in, x), x.dims
	}
	y, err := code8Of(l.outType(), nil)
	if err != nil {
		return err
	}
	if l.op.Attr.(*ir.MulAddAttr).Subtract {
		c[2].scale = -c[2].scale
	}
	k.p, err = fixed.NewMulAdd(c[0].scale, c[1].scale, c[2].scale, c[3].scale, y.scale, c[0].zero, c[1].zero, c[2].zero, c[3].zero, y.zero, y.lo, y.hi)
	if err != nil {
		return err
	}
	return l.result(k, in...)
}

// mulAdd is the sum of two products of tensors of codes.
type mulAdd struct {
	noParams
	in [4]dims
	p  fixed.MulAddParams
}

func (k *mulAdd) need(i int, out box) box { return broadcast(k.in[i], out) }
func (k *mulAdd) cuts() [4]bool           { return allCuts }

func (k *mulAdd) cycles(c *arch.Chip, out box) int64 {
	n, ch := places(out)
	run := ceilDiv(ch, c.Scratchpad.ReadBytes.Int())
	return vectorCycles(c, n*ch*opsMulAdd, 4*n*run, n*run)
}

func (k *mulAdd) emit(e *emitter, out box, dst view, src []view) {
	args := []int64{dst.at(out.lo)}
	st := [5][4]int64{dst.st}
	for i, v := range src {
		args = append(args, v.at(k.need(i, out).lo))
		st[1+i] = stepsOf(v, k.in[i])
	}
	// Loops that every operand walks as one are one, so that runs are long.
	type loop struct {
		n  int64
		st [5]int64
	}
	loops := []loop{}
	for d := range 4 {
		if out.ext(d) == 1 {
			continue
		}
		l := loop{n: int64(out.ext(d))}
		one := len(loops) > 0
		for i := range st {
			l.st[i] = st[i][d]
			one = one && loops[len(loops)-1].st[i] == l.st[i]*l.n
		}
		if one {
			l.n *= loops[len(loops)-1].n
			loops[len(loops)-1] = l
		} else {
			loops = append(loops, l)
		}
	}
	for len(loops) < 4 {
		loops = append([]loop{{n: 1}}, loops...)
	}
	for _, l := range loops {
		args = append(append(args, l.n), l.st[:]...)
	}
	p := &k.p
	e.emit(isa.OpMulAdd, append(args, int64(p.ZA), int64(p.ZB), int64(p.ZC), int64(p.ZD), int64(p.ZY),
		int64(p.MAB), int64(p.MCD), int64(p.Shift), int64(p.Lo), int64(p.Hi))...)
}
