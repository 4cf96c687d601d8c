package onnx

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"situ/frontend/onnx/onnxpb"
	"situ/ir"
)

func tensorAttr(name string, t *ir.Tensor) *onnxpb.AttributeProto {
	return &onnxpb.AttributeProto{Name: name, Type: onnxpb.AttributeProto_TENSOR, T: EncodeTensor(name, t)}
}

// TestTreeProperty walks random trees for each row: every mode of node, NaN,
// every way to aggregate.
func TestTreeProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := rapid.SampledFrom([]ir.DType{ir.F32, ir.F64}).Draw(t, "type")
		features, targets := rapid.IntRange(1, 3).Draw(t, "features"), rapid.IntRange(1, 3).Draw(t, "targets")
		f := &forest{}
		var leafOf func(depth int) (id int64, leaf int64)
		var grow func(depth int) int64
		leafOf = func(depth int) (int64, int64) {
			if depth < 3 && rapid.Bool().Draw(t, "node") {
				return grow(depth + 1), 0
			}
			f.targets = append(f.targets, int64(rapid.IntRange(0, targets-1).Draw(t, "target")))
			f.weights = append(f.weights, float64(rapid.IntRange(-5, 5).Draw(t, "weight"))/2)
			return int64(len(f.weights) - 1), 1
		}
		sets := map[int64][]float64{}
		grow = func(depth int) int64 {
			i := int64(len(f.features))
			f.features = append(f.features, int64(rapid.IntRange(0, features-1).Draw(t, "feature")))
			f.modes = append(f.modes, int64(rapid.IntRange(0, numBranches-1).Draw(t, "mode")))
			f.splits = append(f.splits, float64(rapid.IntRange(-3, 3).Draw(t, "split"))/2)
			f.missingTrue = append(f.missingTrue, int64(rapid.IntRange(0, 1).Draw(t, "missing")))
			f.trueIDs, f.falseID = append(f.trueIDs, 0), append(f.falseID, 0)
			f.trueLeaf, f.falseLeaf = append(f.trueLeaf, 0), append(f.falseLeaf, 0)
			a, al := leafOf(depth)
			b, bl := leafOf(depth)
			f.trueIDs[i], f.trueLeaf[i], f.falseID[i], f.falseLeaf[i] = a, al, b, bl
			return i
		}
		for range rapid.IntRange(1, 3).Draw(t, "trees") {
			f.roots = append(f.roots, grow(0))
		}
		for i, m := range f.modes {
			if m == branchMember {
				for range rapid.IntRange(0, 3).Draw(t, "members") {
					sets[int64(i)] = append(sets[int64(i)], float64(rapid.IntRange(-4, 4).Draw(t, "member"))/2)
				}
				f.members = append(append(f.members, sets[int64(i)]...), math.NaN())
			}
		}
		rows := rapid.IntRange(1, 4).Draw(t, "rows")
		v := numbers(drawTensor(t, "x", d, []int{rows, features}))
		for i := range v {
			if v[i] == 3 {
				v[i] = math.NaN()
			}
		}
		x := fromFloats(d, []int{rows, features}, v)
		how := rapid.IntRange(0, 3).Draw(t, "aggregate")
		list := func(v []float64) *ir.Tensor { return fromFloats(d, []int{len(v)}, v) }
		modes := fromInts(ir.U8, []int{len(f.modes)}, f.modes)
		attrs := []*onnxpb.AttributeProto{
			intsAttr("nodes_featureids", f.features...), tensorAttr("nodes_modes", modes), tensorAttr("nodes_splits", list(f.splits)),
			intsAttr("nodes_truenodeids", f.trueIDs...), intsAttr("nodes_falsenodeids", f.falseID...),
			intsAttr("nodes_trueleafs", f.trueLeaf...), intsAttr("nodes_falseleafs", f.falseLeaf...),
			intsAttr("nodes_missing_value_tracks_true", f.missingTrue...), intsAttr("tree_roots", f.roots...),
			intsAttr("leaf_targetids", f.targets...), tensorAttr("leaf_weights", list(f.weights)),
			intAttr("n_targets", int64(targets)), intAttr("aggregate_function", int64(how)),
		}
		if f.members != nil {
			attrs = append(attrs, tensorAttr("membership_values", list(f.members)))
		}
		y := nodeTest{op: "TreeEnsemble", domain: mlDomain, opset: 5, in: []*ir.Tensor{x}, attrs: attrs}.must(t)[0]
		var want []float64
		for r := range rows {
			got := make([][]float64, targets)
			for _, i := range f.roots {
				for leaf := int64(0); leaf == 0; {
					e, s := v[r*features+int(f.features[i])], f.splits[i]
					holds := []bool{e <= s, e < s, e >= s, e > s, e == s, e != s, slices.Contains(sets[i], e)}[f.modes[i]]
					if e != e && f.missingTrue[i] == 1 {
						holds = true
					}
					if holds {
						i, leaf = f.trueIDs[i], f.trueLeaf[i]
					} else {
						i, leaf = f.falseID[i], f.falseLeaf[i]
					}
					if leaf == 1 {
						got[f.targets[i]] = append(got[f.targets[i]], f.weights[i])
					}
				}
			}
			for _, w := range got {
				y := 0.0
				switch {
				case len(w) == 0:
				case how == 2:
					y = slices.Min(w)
				case how == 3:
					y = slices.Max(w)
				default:
					for _, e := range w {
						y += e
					}
					if how == 0 {
						y /= float64(len(f.roots))
					}
				}
				want = append(want, y)
			}
		}
		same(t, "TreeEnsemble", y, d, []int{rows, targets}, want, 1e-6)
	})
}
