package onnx

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"situ/frontend/onnx/onnxpb"
	"situ/ir"
)

// A windowCase is a drawn window over [N,C,spatial…] and its attributes.
type windowCase struct {
	in, kernel, strides, dilations, begin, end []int
	attrs                                      []*onnxpb.AttributeProto
}

// drawInts draws one small number for each dimension.
func drawInts(t *rapid.T, what string, n, lo, hi int) []int {
	return rapid.SliceOfN(rapid.IntRange(lo, hi), n, n).Draw(t, what)
}

// drawWindow draws spatial dimensions and a window that fits them; pads are stated
// or left to auto_pad.
func drawWindow(t *rapid.T, dilated bool) *windowCase {
	n := rapid.IntRange(1, 3).Draw(t, "spatial dimensions")
	w := &windowCase{in: drawInts(t, "in", n, 1, 5), kernel: drawInts(t, "kernel", n, 1, 3), strides: drawInts(t, "strides", n, 1, 3),
		dilations: slices.Repeat([]int{1}, n)}
	if dilated {
		w.dilations = drawInts(t, "dilations", n, 1, 2)
	}
	w.begin, w.end = make([]int, n), make([]int, n)
	span := func(d int) int { return (w.kernel[d]-1)*w.dilations[d] + 1 }
	mode := rapid.SampledFrom([]string{"NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"}).Draw(t, "auto_pad")
	for d := range n {
		switch mode {
		case "NOTSET":
			w.begin[d] = rapid.IntRange(0, span(d)-1).Draw(t, "begin")
			w.end[d] = rapid.IntRange(0, span(d)-1).Draw(t, "end")
		case "SAME_UPPER", "SAME_LOWER":
			positions := int(math.Ceil(float64(w.in[d]) / float64(w.strides[d])))
			total := max(0, (positions-1)*w.strides[d]+span(d)-w.in[d])
			w.begin[d], w.end[d] = total/2, total-total/2
			if mode == "SAME_LOWER" {
				w.begin[d], w.end[d] = w.end[d], w.begin[d]
			}
		}
		if w.in[d]+w.begin[d]+w.end[d] < span(d) {
			t.Skip("the window does not fit")
		}
	}
	w.attrs = []*onnxpb.AttributeProto{intsAttr("kernel_shape", int64List(w.kernel)...), intsAttr("strides", int64List(w.strides)...)}
	if dilated {
		w.attrs = append(w.attrs, intsAttr("dilations", int64List(w.dilations)...))
	}
	if mode != "NOTSET" {
		w.attrs = append(w.attrs, strAttr("auto_pad", mode))
	} else {
		w.attrs = append(w.attrs, intsAttr("pads", int64List(slices.Concat(w.begin, w.end))...))
	}
	return w
}

// out returns how often the window fits; ceil counts a last partial one that
// begins before the end of the operand.
func (w *windowCase) out(ceil bool) []int {
	out := make([]int, len(w.in))
	for d := range out {
		free := w.in[d] + w.begin[d] + w.end[d] - (w.kernel[d]-1)*w.dilations[d] - 1
		out[d] = free/w.strides[d] + 1
		if ceil && free%w.strides[d] != 0 && out[d]*w.strides[d] < w.in[d]+w.begin[d] {
			out[d]++
		}
	}
	return out
}

// taps calls f for each tap of the window at a place: the tap's number, the
// position in the operand, whether that is inside, and whether inside the padded
// operand.
func (w *windowCase) taps(place []int, f func(tap int, at []int, inside, padded bool)) {
	n := 0
	each(w.kernel, func(k []int) {
		at, inside, padded := make([]int, len(k)), true, true
		for d := range k {
			at[d] = place[d]*w.strides[d] - w.begin[d] + k[d]*w.dilations[d]
			inside = inside && at[d] >= 0 && at[d] < w.in[d]
			padded = padded && at[d] < w.in[d]+w.end[d]
		}
		f(n, at, inside, padded)
		n++
	})
}

func TestConvProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWindow(t, true)
		batch, groups := rapid.IntRange(1, 2).Draw(t, "batch"), rapid.IntRange(1, 3).Draw(t, "groups")
		cg, og := rapid.IntRange(1, 2).Draw(t, "in/group"), rapid.IntRange(1, 2).Draw(t, "out/group")
		x := drawTensor(t, "x", ir.F32, slices.Concat([]int{batch, groups * cg}, w.in))
		k := drawTensor(t, "w", ir.F32, slices.Concat([]int{groups * og, cg}, w.kernel))
		in := []*ir.Tensor{x, k}
		bias := make([]float64, groups*og)
		if rapid.Bool().Draw(t, "bias given") {
			b := drawTensor(t, "bias", ir.F32, []int{groups * og})
			bias, in = float64s(b), append(in, b)
		}
		shape := slices.Concat([]int{batch, groups * og}, w.out(false))
		var want []float64
		xs, ks := float64s(x), float64s(k)
		each(shape, func(at []int) {
			sum := bias[at[1]]
			for c := range cg {
				w.taps(at[2:], func(tap int, p []int, inside, _ bool) {
					if inside {
						sum += xs[offsetOfDense(x.Shape, slices.Concat([]int{at[0], at[1]/og*cg + c}, p))] *
							ks[(at[1]*cg+c)*ir.Numel(w.kernel)+tap]
					}
				})
			}
			want = append(want, sum)
		})
		attrs := append(w.attrs, intAttr("group", int64(groups)))
		out := nodeTest{op: "Conv", opset: 13, attrs: attrs, in: in, fixed: drawFixed(t, len(in))}.must(t)
		same(t, fmt.Sprint(attrs), out[0], ir.F32, shape, want, 0)
	})
}

// TestConvTransposeProperty scatters each element times the kernel.
func TestConvTransposeProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 3).Draw(t, "spatial dimensions")
		in, kernel := drawInts(t, "in", n, 1, 3), drawInts(t, "kernel", n, 1, 3)
		strides, dilations := drawInts(t, "strides", n, 1, 3), drawInts(t, "dilations", n, 1, 2)
		batch, groups := rapid.IntRange(1, 2).Draw(t, "batch"), rapid.IntRange(1, 2).Draw(t, "groups")
		cg, og := rapid.IntRange(1, 2).Draw(t, "in/group"), rapid.IntRange(1, 2).Draw(t, "out/group")
		begin, out, full := make([]int, n), make([]int, n), make([]int, n)
		attrs := []*onnxpb.AttributeProto{intsAttr("strides", int64List(strides)...), intsAttr("dilations", int64List(dilations)...), intAttr("group", int64(groups))}
		extra := make([]int, n)
		for d := range n {
			extra[d] = rapid.IntRange(0, strides[d]-1).Draw(t, "output_padding")
			full[d] = strides[d]*(in[d]-1) + (kernel[d]-1)*dilations[d] + 1
		}
		attrs = append(attrs, intsAttr("output_padding", int64List(extra)...))
		switch mode := rapid.SampledFrom([]string{"pads", "output_shape", "VALID", "SAME_UPPER", "SAME_LOWER"}).Draw(t, "mode"); mode {
		case "pads":
			end := make([]int, n)
			for d := range n {
				total := rapid.IntRange(0, full[d]+extra[d]-1).Draw(t, "pads")
				begin[d] = rapid.IntRange(0, total).Draw(t, "begin")
				end[d], out[d] = total-begin[d], full[d]+extra[d]-total
			}
			attrs = append(attrs, intsAttr("pads", int64List(slices.Concat(begin, end))...))
		case "VALID":
			for d := range n {
				out[d] = full[d] + extra[d]
			}
			attrs = append(attrs, strAttr("auto_pad", mode))
		default:
			for d := range n {
				out[d] = in[d] * strides[d]
				if mode == "output_shape" {
					out[d] = rapid.IntRange(1, full[d]+2).Draw(t, "output_shape")
				}
				total := max(0, full[d]+extra[d]-out[d])
				begin[d] = total - total/2
				if mode == "SAME_UPPER" {
					begin[d] = total / 2
				}
			}
			if mode == "output_shape" {
				attrs = append(attrs, intsAttr("output_shape", int64List(out)...))
			} else {
				attrs = append(attrs, strAttr("auto_pad", mode))
			}
		}
		x := drawTensor(t, "x", ir.F32, slices.Concat([]int{batch, groups * cg}, in))
		w := drawTensor(t, "w", ir.F32, slices.Concat([]int{groups * cg, og}, kernel))
		ops := []*ir.Tensor{x, w}
		shape := slices.Concat([]int{batch, groups * og}, out)
		want := make([]float64, ir.Numel(shape))
		if rapid.Bool().Draw(t, "bias given") {
			b := drawTensor(t, "bias", ir.F32, []int{groups * og})
			ops = append(ops, b)
			i := 0
			each(shape, func(at []int) { want[i] = float64s(b)[at[1]]; i++ })
		}
		xs, ws := float64s(x), float64s(w)
		i := 0
		each(x.Shape, func(at []int) {
			for o := range og {
				k := 0
				each(kernel, func(tap []int) {
					to, inside := []int{at[0], at[1]/cg*og + o}, true
					for d := range n {
						p := at[2+d]*strides[d] + tap[d]*dilations[d] - begin[d]
						inside = inside && p >= 0 && p < out[d]
						to = append(to, p)
					}
					if inside {
						want[offsetOfDense(shape, to)] += xs[i] * ws[(at[1]*og+o)*ir.Numel(kernel)+k]
					}
					k++
				})
			}
			i++
		})
		got := nodeTest{op: "ConvTranspose", opset: 11, attrs: attrs, in: ops, fixed: drawFixed(t, len(ops))}.must(t)
		same(t, fmt.Sprint(attrs), got[0], ir.F32, shape, want, 0)
	})
}

func TestPoolProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		op := rapid.SampledFrom([]string{"MaxPool", "MaxPool indices", "AveragePool", "LpPool"}).Draw(t, "op")
		w := drawWindow(t, true)
		ceil := op != "LpPool" && rapid.Bool().Draw(t, "ceil")
		for _, a := range w.attrs {
			ceil = ceil && a.Name != "auto_pad"
		}
		attrs, opset := w.attrs, int64(19)
		if ceil {
			attrs = append(attrs, intAttr("ceil_mode", 1))
		}
		countPad, columns := rapid.Bool().Draw(t, "flag"), false
		p := 1 + rapid.IntRange(0, 2).Draw(t, "p")
		switch op {
		case "AveragePool":
			if countPad {
				attrs = append(attrs, intAttr("count_include_pad", 1))
			}
		case "LpPool":
			attrs = append(attrs, intAttr("p", int64(p)))
		case "MaxPool indices":
			if columns = countPad; columns {
				attrs = append(attrs, intAttr("storage_order", 1))
			}
		}
		x := drawTensor(t, "x", ir.F32, slices.Concat([]int{rapid.IntRange(1, 2).Draw(t, "batch"), rapid.IntRange(1, 2).Draw(t, "channels")}, w.in))
		xs, size := float64s(x), ir.Numel(w.in)
		out := w.out(ceil)
		shape := slices.Concat(x.Shape[:2], out)
		var want, where []float64
		each(shape, func(at []int) {
			base := (at[0]*x.Shape[1] + at[1]) * size
			sum, powers, count, best, index, seen := 0.0, 0.0, 0, math.Inf(-1), -1, 0
			w.taps(at[2:], func(_ int, q []int, inside, padded bool) {
				if inside || countPad && padded {
					count++
				}
				if !inside {
					return
				}
				seen++
				v := xs[base+offsetOfDense(w.in, q)]
				sum += v
				powers += math.Pow(math.Abs(v), float64(p))
				if v > best {
					best, index = v, base+offsetOfDense(w.in, q)
					if columns {
						index = base
						for d, step := 0, 1; d < len(q); d++ {
							index += q[d] * step
							step *= w.in[d]
						}
					}
				}
			})
			if seen == 0 {
				t.Skip("a window lies wholly in the padding")
			}
			switch op {
			case "AveragePool":
				want = append(want, sum/float64(count))
			case "LpPool":
				want = append(want, math.Pow(powers, 1/float64(p)))
			default:
				want, where = append(want, best), append(where, float64(index))
			}
		})
		test := nodeTest{op: op, opset: opset, attrs: attrs, in: []*ir.Tensor{x}}
		tolerance := 1e-6
		switch op {
		case "LpPool":
			test.opset = 18
		case "MaxPool indices":
			test.op, test.results = "MaxPool", 2
			fallthrough
		case "MaxPool":
			tolerance = 0
		}
		got := test.must(t)
		same(t, fmt.Sprint(op, attrs), got[0], ir.F32, shape, want, tolerance)
		if op == "MaxPool indices" {
			same(t, fmt.Sprint(op, attrs), got[1], ir.I64, shape, where, 0)
		}
	})
}

// TestCol2ImProperty adds columns up one by one.
func TestCol2ImProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWindow(t, true)
		for _, a := range w.attrs {
			if a.Name == "auto_pad" {
				t.Skip("has no auto_pad")
			}
		}
		out, taps := w.out(false), ir.Numel(w.kernel)
		channels := rapid.IntRange(1, 2).Draw(t, "channels")
		x := drawTensor(t, "x", ir.F32, []int{2, channels * taps, ir.Numel(out)})
		shape := slices.Concat([]int{2, channels}, w.in)
		want := make([]float64, ir.Numel(shape))
		touched := false
		for n := range 2 {
			for c := range channels {
				l := 0
				each(out, func(place []int) {
					w.taps(place, func(tap int, at []int, inside, _ bool) {
						if inside {
							touched = true
							want[offsetOfDense(shape, slices.Concat([]int{n, c}, at))] += float64s(x)[((n*channels+c)*taps+tap)*ir.Numel(out)+l]
						}
					})
					l++
				})
			}
		}
		if !touched {
			t.Skip("all lies in the padding")
		}
		ints := func(v []int) *ir.Tensor { return i64([]int{len(v)}, int64List(v)) }
		attrs := w.attrs[1:] // all but kernel_shape
		got := nodeTest{op: "Col2Im", opset: 18, attrs: attrs, in: []*ir.Tensor{x, ints(w.in), ints(w.kernel)}, fixed: []bool{false, true, true}}.must(t)
		same(t, fmt.Sprint(attrs), got[0], ir.F32, shape, want, 0)
	})
}
