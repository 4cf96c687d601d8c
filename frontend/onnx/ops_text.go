package onnx

import (
	"slices"

	"situ/frontend/onnx/onnxpb"
	"situ/ir"
)

// tfIdfVectorizer counts how often each sequence of a pool occurs in each row,
// its elements up to max_skip_count apart.
func tfIdfVectorizer(c *call) {
	x := c.plain(0)
	t := c.typ(x)
	rows := t.Shape
	if len(rows) == 1 {
		rows = []int{1, rows[0]}
	}
	shortest, longest := c.smallInt("min_gram_length", c.int("min_gram_length", 0)), c.smallInt("max_gram_length", c.int("max_gram_length", 0))
	skips := c.smallInt("max_skip_count", c.int("max_skip_count", 0))
	counts, _ := c.ints("ngram_counts")
	indexes, _ := c.ints("ngram_indexes")
	pool, given := c.ints("pool_int64s")
	mode := c.str("mode", "")
	weights, weighted := c.floatList("weights")
	if !given {
		c.unsupportedf("a pool of strings")
	}
	if c.err == nil && (len(rows) != 2 || t.DType != ir.I32 && t.DType != ir.I64) {
		c.failf("operand is %s %v, want rows of int32 or int64", t.DType, t.Shape)
	}
	if c.err == nil && (shortest < 1 || longest < shortest || skips < 0 || len(counts) == 0) {
		c.failf("sequences of %d to %d, up to %d apart, in a pool of %d lengths", shortest, longest, skips, len(counts))
	}
	if c.err == nil && weighted && len(weights) != len(indexes) {
		c.failf("%d weights for %d sequences", len(weights), len(indexes))
	}
	if c.err != nil {
		return
	}
	var found []ir.ValueID // [rows, sequences of each length]
	sequences := 0
	for k, from := range counts {
		to := int64(len(pool))
		if k+1 < len(counts) {
			to = counts[k+1]
		}
		length := k + 1
		if from < 0 || to < from || to > int64(len(pool)) || int(to-from)%length != 0 {
			c.failf("ngram_counts %v of a pool of %d", counts, len(pool))
			return
		}
		if to == from {
			continue
		}
		part := pool[from:to]
		sequences += len(part) / length
		found = append(found, c.occurrences(x, rows, part, length, skips, length >= shortest && length <= longest))
	}
	if c.err == nil && (sequences != len(indexes) || sequences == 0) {
		c.failf("%d indexes for %d sequences", len(indexes), sequences)
	}
	if c.err != nil {
		return
	}
	y := found[0]
	if len(found) > 1 {
		y = c.add(ir.Concat, &ir.AxisAttr{Axis: 1}, found...)
	}
	switch mode {
	case "TF":
	case "IDF":
		y = c.castID(c.add(ir.Less, nil, c.scalar(ir.F32, 0), y), ir.F32)
	case "TFIDF":
	default:
		c.failf("mode %q", mode)
	}
	if mode != "TF" && weighted {
		y = c.add(ir.Mul, nil, y, c.constant("", ir.NewTensor(ir.F32, []int{sequences}, weights), nil))
	}
	y = c.placed(y, rows[0], indexes)
	if len(t.Shape) == 1 && c.err == nil {
		y = c.reshape(y, c.typ(y).Shape[1])
	}
	c.set(y)
}

// occurrences counts the sequences of one length in each row: [rows, sequences]
// of f32, 0 where they are not to be counted.
func (c *call) occurrences(x ir.ValueID, rows []int, pool []int64, length, skips int, counted bool) ir.ValueID {
	n := len(pool) / length
	sum := c.add(ir.Expand, &ir.ShapeAttr{Shape: []int{rows[0], n}}, c.scalar(ir.F32, 0))
	if length == 1 {
		skips = 0 // a single element has nothing to be apart from
	}
	for s := 0; s <= skips && counted && c.err == nil; s++ {
		places := rows[1] - (length-1)*(s+1)
		if places < 1 {
			break
		}
		if float64(rows[0])*float64(n)*float64(places) > maxProducts {
			c.unsupportedf("a pool of %d sequences for rows of %d", n, rows[1])
			break
		}
		hit := ir.NoValue
		for i := range length {
			element := make([]int64, n)
			for j := range element {
				element[j] = pool[j*length+i]
			}
			at := c.add(ir.Slice, &ir.SliceAttr{Starts: []int{0, i * (s + 1)}, Steps: []int{1, 1}, Sizes: []int{rows[0], places}}, c.reshape(x, rows...))
			want := c.constant("", fromInts(c.typ(x).DType, []int{n, 1}, element), nil)
			e := c.add(ir.Equals, nil, c.reshape(at, rows[0], 1, places), want)
			if hit == ir.NoValue {
				hit = e
			} else {
				hit = c.add(ir.BitAnd, nil, hit, e)
			}
		}
		sum = c.add(ir.Add, nil, sum, c.add(ir.ReduceSum, &ir.ReduceAttr{Axes: []int{2}}, c.castID(hit, ir.F32)))
	}
	return sum
}

// placed moves column j of y to column indexes[j]; others are 0.
func (c *call) placed(y ir.ValueID, rows int, indexes []int64) ir.ValueID {
	width := slices.Max(indexes) + 1
	if c.err == nil && (slices.Min(indexes) < 0 || width > maxFold) {
		c.failf("ngram_indexes from %d to %d", slices.Min(indexes), width-1)
	}
	if c.err != nil {
		return y
	}
	from := slices.Repeat([]int64{int64(len(indexes))}, int(width)) // a column of zeros behind the others
	for j, i := range indexes {
		if from[i] != int64(len(indexes)) {
			c.unsupportedf("two sequences with the index %d", i)
			return y
		}
		from[i] = int64(j)
	}
	y = c.add(ir.Pad, &ir.PadAttr{Begin: []int{0, 0}, End: []int{0, 1}}, y)
	return c.add(ir.Gather, &ir.AxisAttr{Axis: 1}, y, c.ids([]int{int(width)}, from))
}

// optionalHasElement: what the importer knows are tensors, and operands that are
// absent.
func optionalHasElement(c *call) {
	n := int64(0)
	if c.operand(0) != nil {
		n = 1
	}
	c.setConst(fromInts(ir.Bool, nil, []int64{n}))
}

// floatList reads a list attribute; given is false when it is absent.
func (c *call) floatList(name string) (v []float32, given bool) {
	if a := c.attr(name, onnxpb.AttributeProto_FLOATS); a != nil {
		return a.Floats, true
	}
	return nil, false
}
