package ptx

import (
	"math/bits"
	"strings"
)

// selectShuffle handles shfl.sync.mode.b32 d{|p}, a, b, c, membermask.
func (c *compiler) selectShuffle(mods []string) error {
	in := c.in
	in.class, in.kind = Shuffle, kindExec
	if len(mods) != 3 || mods[0] != "sync" || mods[2] != "b32" {
		return c.errorf("only shfl.sync of .b32 is modelled")
	}
	mode := mods[1]
	switch mode {
	case "up", "down", "bfly", "idx":
	default:
		return c.errorf("mode .%s", mode)
	}
	if err := c.count(5, 5); err != nil {
		return err
	}
	a := c.st.args
	var err error
	t := types["b32"]
	if in.a, err = c.src(a[1], t); err != nil {
		return err
	}
	if in.b, err = c.src(a[2], t); err != nil {
		return err
	}
	if in.c, err = c.src(a[3], t); err != nil {
		return err
	}
	if err := c.members(a[4]); err != nil {
		return err
	}
	d := a[0]
	if d.kind == opVec {
		if in.d2, err = c.discardable(d.list[1]); err != nil {
			return err
		}
		d = d.list[0]
	}
	if in.d, err = c.dst(d, t); err != nil {
		return err
	}
	in.exec = func(w *warp, in *instr) {
		a, b, cl := *w.r32(in.a), w.r32(in.b), w.r32(in.c)
		var out [lanes]uint32
		var valid uint32
		for i := range lanes {
			from, ok := shuffleSource(mode, i, b[i], cl[i])
			if ok {
				valid |= 1 << i
			}
			if ok && w.mask>>from&1 == 0 && w.mask>>i&1 != 0 {
				w.fault(i, "reads from lane %d, which is not here", from)
				return
			}
			out[i] = a[from&(lanes-1)]
		}
		blend32(&w.r[in.d], &out, w.mask)
		w.setPred(in.d2, valid)
	}
	return nil
}

// shuffleSource is the lane that a lane reads from; if it lies outside the
// segment that c describes, the lane reads its own value.
func shuffleSource(mode string, lane int, b, c uint32) (from int, ok bool) {
	l := uint32(lane)
	b &= 31
	segment := c >> 8 & 31
	clamp := c & 31
	low := l & segment
	top := low | clamp&^segment
	var j uint32
	switch mode {
	case "up":
		j = l - b
		ok = int32(j) >= int32(top)
	case "down":
		j = l + b
		ok = j <= top
	case "bfly":
		j = l ^ b
		ok = j <= top
	case "idx":
		j = low | b&^segment
		ok = j <= top
	}
	if !ok {
		return lane, false
	}
	return int(j), true
}

// members checks the mask of participating lanes, the last operand. Which lanes
// are there is known in lock step; the mask only has to be a value.
func (c *compiler) members(o operand) error {
	r, err := c.src(o, types["b32"])
	c.in.xs = append(c.in.xs, r)
	return err
}

// selectVote handles vote.sync.{all,any,uni}.pred and vote.sync.ballot.b32.
func (c *compiler) selectVote(mods []string) error {
	in := c.in
	in.class, in.kind = Shuffle, kindExec
	name := strings.Join(mods, ".")
	switch name {
	case "sync.all.pred", "sync.any.pred", "sync.uni.pred", "sync.ballot.b32":
	default:
		return c.errorf("this vote is not modelled")
	}
	if err := c.count(3, 3); err != nil {
		return err
	}
	a := c.st.args
	var err error
	if in.a, err = c.predicate(a[1], 1); err != nil {
		return err
	}
	if err := c.members(a[2]); err != nil {
		return err
	}
	ballot := mods[1] == "ballot"
	t := types["pred"]
	if ballot {
		t = types["b32"]
	}
	if in.d, err = c.dst(a[0], t); err != nil {
		return err
	}
	in.exec = func(w *warp, in *instr) {
		v := w.pred(in.a)
		if in.neg&1 != 0 {
			v = ^v
		}
		v &= w.mask
		var holds bool
		switch mods[1] {
		case "ballot":
			w.spread(in.d, v)
			return
		case "all":
			holds = v == w.mask
		case "any":
			holds = v != 0
		case "uni":
			holds = v == 0 || v == w.mask
		}
		var out uint32
		if holds {
			out = full
		}
		w.setPred(in.d, out)
	}
	return nil
}

// spread writes one value to the lanes of w.mask.
func (w *warp) spread(d int32, v uint32) {
	for m := w.mask; m != 0; m &= m - 1 {
		w.r[d][bits.TrailingZeros32(m)&(lanes-1)] = v
	}
}

// selectActive handles activemask.b32.
func (c *compiler) selectActive(mods []string) error {
	in := c.in
	in.class, in.kind = Shuffle, kindExec
	if len(mods) != 1 || mods[0] != "b32" {
		return c.errorf("only .b32")
	}
	if err := c.count(1, 1); err != nil {
		return err
	}
	var err error
	in.d, err = c.dst(c.st.args[0], types["b32"])
	in.exec = func(w *warp, in *instr) { w.spread(in.d, w.mask) }
	return err
}
