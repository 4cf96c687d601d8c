package onnx

import (
	"slices"
	"strings"

	"situ/ir"
)

// A label names a dimension of an einsum term: a letter, or a dimension of the
// ellipsis, counted from its end, as a negative number.
type label rune

// A labelled value is an operand of an einsum and the names of its dimensions.
type labelled struct {
	id     ir.ValueID
	labels []label
}

// einsum multiplies its operands from left to right. Each step sums over what no
// later step needs: a matrix product for what both operands have, a reduction
// for what one has alone.
func einsum(c *call) {
	operands := make([]ir.ValueID, len(c.in))
	for i := range c.in {
		if c.in[i] == nil {
			c.failf("operand %d is missing", i)
			return
		}
		operands[i] = c.plain(i)
	}
	terms, out := c.equation(operands)
	if c.err != nil {
		return
	}
	for i := range terms {
		terms[i] = c.diagonals(terms[i])
	}
	acc := terms[0]
	for i := 1; i <= len(terms); i++ {
		needed := slices.Clone(out)
		for _, t := range terms[i:] {
			needed = append(needed, t.labels...)
		}
		acc = c.sumOut(acc, needed)
		if i < len(terms) {
			rest := slices.Clone(out)
			for _, t := range terms[i+1:] {
				rest = append(rest, t.labels...)
			}
			next := c.sumOut(terms[i], slices.Concat(rest, acc.labels))
			acc = c.contract(acc, next, rest)
		}
	}
	c.set(c.arranged(acc, out))
}

// equation reads the attribute and names the dimensions of operands and result.
func (c *call) equation(operands []ir.ValueID) (terms []labelled, out []label) {
	text := strings.ReplaceAll(c.str("equation", ""), " ", "")
	left, right, explicit := strings.Cut(text, "->")
	list := strings.Split(left, ",")
	if len(list) != len(operands) {
		c.failf("equation %q has %d terms for %d operands", text, len(list), len(operands))
	}
	size := map[label]int{}
	ellipsis := 0 // dimensions of the longest one
	for i := 0; c.err == nil && i < len(list); i++ {
		s := c.typ(operands[i]).Shape
		labels, wide := c.term(text, list[i], len(s))
		if c.err != nil {
			return nil, nil
		}
		ellipsis = max(ellipsis, wide)
		for d, l := range labels {
			switch n, seen := size[l]; {
			case !seen || n == 1:
				size[l] = s[d]
			case s[d] != n && s[d] != 1:
				c.failf("equation %q: a dimension is both %d and %d", text, n, s[d])
			}
		}
		terms = append(terms, labelled{operands[i], labels})
	}
	if c.err != nil {
		return nil, nil
	}
	// Dimensions of 1 are broadcast.
	for i, t := range terms {
		s := slices.Clone(c.typ(t.id).Shape)
		for d, l := range t.labels {
			s[d] = size[l]
		}
		if !slices.Equal(s, c.typ(t.id).Shape) {
			terms[i].id = c.add(ir.Expand, &ir.ShapeAttr{Shape: s}, t.id)
		}
	}
	if explicit {
		dots := 0
		if strings.Contains(right, "...") {
			dots = ellipsis
		}
		out, _ = c.term(text, right, dots+len(strings.ReplaceAll(right, "...", "")))
		for i, l := range out {
			if _, seen := size[l]; !seen || slices.Contains(out[:i], l) {
				c.failf("equation %q: the result repeats a dimension or has one that no operand has", text)
			}
		}
		return terms, out
	}
	// Without a result stated, it has what occurs once, in alphabetical order,
	// after the ellipsis.
	count := map[label]int{}
	for _, t := range terms {
		for _, l := range t.labels {
			count[l]++
		}
	}
	for l, n := range count {
		if l < 0 || n == 1 {
			out = append(out, l)
		}
	}
	slices.Sort(out)
	return terms, out
}

// term names the dimensions of one term, and says how many its ellipsis has.
func (c *call) term(text, term string, rank int) (labels []label, ellipsis int) {
	before, after, dots := strings.Cut(term, "...")
	letters := before + after
	ellipsis = rank - len(letters)
	if ellipsis < 0 || ellipsis > 0 && !dots || strings.ContainsFunc(letters, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z')
	}) {
		c.failf("equation %q: the term %q does not name %d dimensions", text, term, rank)
		return nil, 0
	}
	for _, r := range before {
		labels = append(labels, label(r))
	}
	for i := range ellipsis {
		labels = append(labels, label(i-ellipsis))
	}
	for _, r := range after {
		labels = append(labels, label(r))
	}
	return labels, ellipsis
}

// diagonals merges dimensions of the same name: of adjacent ones of n elements
// each, every (n+1)-th element stays.
func (c *call) diagonals(t labelled) labelled {
	for i := 0; i < len(t.labels) && c.err == nil; i++ {
		j := slices.Index(t.labels[i+1:], t.labels[i])
		if j < 0 {
			continue
		}
		j += i + 1
		s := c.typ(t.id).Shape
		n := s[i]
		// Both dimensions to the end.
		var perm []int
		var rest []label
		var shape []int
		for d := range s {
			if d != i && d != j {
				perm, rest, shape = append(perm, d), append(rest, t.labels[d]), append(shape, s[d])
			}
		}
		x := c.transpose(t.id, append(perm, i, j)...)
		x = c.reshape(x, append(slices.Clone(shape), n*n)...)
		a := &ir.SliceAttr{}
		for _, m := range shape {
			a.Starts, a.Steps, a.Sizes = append(a.Starts, 0), append(a.Steps, 1), append(a.Sizes, m)
		}
		a.Starts, a.Steps, a.Sizes = append(a.Starts, 0), append(a.Steps, n+1), append(a.Sizes, n)
		t = labelled{c.add(ir.Slice, a, x), append(rest, t.labels[i])}
		i = -1
	}
	return t
}

// sumOut sums over the dimensions that nothing needs.
func (c *call) sumOut(t labelled, needed []label) labelled {
	var axes []int
	var kept []label
	for d, l := range t.labels {
		if slices.Contains(needed, l) {
			kept = append(kept, l)
		} else {
			axes = append(axes, d)
		}
	}
	if len(axes) == 0 {
		return t
	}
	return labelled{c.add(ir.ReduceSum, &ir.ReduceAttr{Axes: axes}, t.id), kept}
}

// arranged brings the dimensions into the given order.
func (c *call) arranged(t labelled, order []label) ir.ValueID {
	if slices.Equal(t.labels, order) || c.err != nil {
		return t.id
	}
	perm := make([]int, len(order))
	for i, l := range order {
		perm[i] = slices.Index(t.labels, l)
	}
	return c.transpose(t.id, perm...)
}

// contract multiplies two values and sums over what both have and nothing needs
// any more: a product of matrices [batch, M, K] and [batch, K, N].
func (c *call) contract(a, b labelled, needed []label) labelled {
	if c.err != nil {
		return a
	}
	var batch, sum, left, right []label
	for _, l := range a.labels {
		switch {
		case !slices.Contains(b.labels, l):
			left = append(left, l)
		case slices.Contains(needed, l):
			batch = append(batch, l)
		default:
			sum = append(sum, l)
		}
	}
	for _, l := range b.labels {
		if !slices.Contains(a.labels, l) {
			right = append(right, l)
		}
	}
	x := c.arranged(a, slices.Concat(batch, left, sum))
	y := c.arranged(b, slices.Concat(batch, sum, right))
	if c.err != nil {
		return a
	}
	xs, ys := c.typ(x).Shape, c.typ(y).Shape
	nb, nl := len(batch), len(batch)+len(left)
	bs, ls, rs := ir.Numel(xs[:nb]), ir.Numel(xs[nb:nl]), ir.Numel(ys[nb+len(sum):])
	ks := ir.Numel(xs[nl:])
	z := c.multiplied(c.reshape(x, bs, ls, ks), c.reshape(y, bs, ks, rs))
	shape := slices.Concat(xs[:nl], ys[nb+len(sum):])
	return labelled{c.reshape(z, shape...), slices.Concat(batch, left, right)}
}
