package gpu

import (
	"slices"

	gen "situ/backend/gpu/kernel"
	"situ/internal/fixed"
	"situ/ir"
)

// chains are the operators that are computed in the kernel of another.
type chains struct {
	ends  map[int][]int // by the last operator: all of the chain, the leading one first
	inner []bool        // belongs to a chain, and is not its last
}

// maxChain bounds the operators after the leading one.
const maxChain = 6

// fuseChains finds for each operator whose kernel can take more the element-wise
// operators that follow it, each the only user of the one before. The kernel runs
// where the last one stands, so that other operands are there.
func fuseChains(g *ir.Graph) chains {
	uses, user := g.Uses(), lastUsers(g)
	c := chains{ends: map[int][]int{}, inner: make([]bool, len(g.Ops))}
	taken := make([]bool, len(g.Ops))
	for i := range g.Ops {
		if taken[i] || !leads(g, &g.Ops[i]) {
			continue
		}
		chain := []int{i}
		for len(chain) <= maxChain {
			last := g.Ops[chain[len(chain)-1]].Out
			next := user[last]
			if uses[last] != 1 || slices.Contains(g.Outputs, last) || taken[next] || !follows(g, &g.Ops[next], last) {
				break
			}
			chain = append(chain, next)
		}
		if len(chain) == 1 {
			continue
		}
		for _, j := range chain {
			taken[j] = true
			c.inner[j] = true
		}
		end := chain[len(chain)-1]
		c.inner[end] = false
		c.ends[end] = chain
	}
	return c
}

// lastUsers returns for each value the last operator that uses it.
func lastUsers(g *ir.Graph) []int {
	user := make([]int, len(g.Values))
	for i := range g.Ops {
		for _, v := range g.Ops[i].In {
			if v != ir.NoValue {
				user[v] = i
			}
		}
	}
	return user
}

// isCode8 reports whether t holds codes of 8 bits with one scale.
func isCode8(t ir.Type) bool {
	return t.IsQuantised() && t.DType.Bits() == 8 && t.Quant.IsPerTensor()
}

// leads reports whether the kernel of op can compute more on its result.
func leads(g *ir.Graph, op *ir.Op) bool {
	switch op.Kind {
	case ir.Conv2D, ir.MatMul, ir.Add, ir.Sub, ir.Mul, ir.LUT:
		return isCode8(g.Type(op.Out)) && g.Type(op.In[0]).IsQuantised()
	}
	return false
}

// follows reports whether op can be a step on the value x, one of its operands.
func follows(g *ir.Graph, op *ir.Op, x ir.ValueID) bool {
	if !isCode8(g.Type(op.Out)) {
		return false
	}
	switch op.Kind {
	case ir.LUT, ir.Requantize:
		return op.In[0] == x
	case ir.Add, ir.Sub, ir.Mul:
		shape := g.Type(op.Out).Shape
		return slices.Equal(g.Type(op.In[0]).Shape, shape) && slices.Equal(g.Type(op.In[1]).Shape, shape)
	}
	return false
}

// steps returns the chain of the operator being lowered as its kernel takes it.
func (l *lowering) steps() (gen.Chain, error) {
	var c gen.Chain
	x := l.op.Out
	for _, i := range l.chain {
		op := &l.g.Ops[i]
		s := gen.Step{In: codes(l.g.Type(x)), Out: codes(l.g.Type(op.Out))}
		switch op.Kind {
		case ir.LUT:
			s.Kind = gen.Lookup
		case ir.Requantize:
			tx, ty := l.g.Type(x), l.g.Type(op.Out)
			m, err := fixed.NewMultiplier(float64(tx.Quant.Scale[0]) / float64(ty.Quant.Scale[0]))
			if err != nil {
				return nil, err
			}
			s = gen.Step{Kind: gen.Rescale, Zero: tx.Quant.Zero[0], Scale: scale(m), Range: codeRange(ty, nil)}
		default:
			arith, err := l.arith(op)
			if err != nil {
				return nil, err
			}
			s = gen.Step{Kind: gen.Combine, Arith: arith, Right: op.In[1] == x}
		}
		c = append(c, s)
		x = op.Out
	}
	return c, nil
}

// launchChain is launch with the arguments of the chain and the result, which lies
// dense, after those given.
func (l *lowering) launchChain(s gen.Spec, args ...arg) error {
	return l.launchChainTo(l.result(), s, args...)
}

// launchChainTo is launchChain with a result that lies elsewhere.
func (l *lowering) launchChainTo(to arg, s gen.Spec, args ...arg) error {
	x := l.op.Out
	for _, i := range l.chain {
		switch op := &l.g.Ops[i]; op.Kind {
		case ir.LUT:
			args = append(args, l.value(op.In[1]))
		case ir.Requantize:
		default:
			other := op.In[1]
			if other == x {
				other = op.In[0]
			}
			args = append(args, l.value(other))
		}
		x = l.g.Ops[i].Out
	}
	return l.launch(s, append(args, to)...)
}
