package onnx

import (
	"math"
	"slices"

	"situ/frontend/onnx/onnxpb"
	"situ/ir"
)

// mlDomain is the standard's second set of operators.
const mlDomain = "ai.onnx.ml"

// mlTable holds the operators of mlDomain.
var mlTable = []row{
	{"ArrayFeatureExtractor", 1, 0, 2, arrayFeatureExtractor},
	{"TreeEnsemble", 5, 0, 1, treeEnsemble},
}

// arrayFeatureExtractor selects from the last dimension.
func arrayFeatureExtractor(c *call) {
	x, at := c.plain(0), c.indexOperand(1)
	s := slices.Clone(c.typ(x).Shape)
	n := c.typ(at).Numel()
	if c.err != nil {
		return
	}
	if len(s) == 0 {
		c.failf("operand of no dimensions")
		return
	}
	if len(s) == 1 {
		x = c.reshape(x, 1, s[0])
		s = []int{1, s[0]}
	}
	c.set(c.add(ir.Gather, &ir.AxisAttr{Axis: len(s) - 1}, x, c.reshape(at, n)))
}

// Modes of nodes, in the standard's order.
const (
	branchLessEqual = iota
	branchLess
	branchGreaterEqual
	branchGreater
	branchEqual
	branchNotEqual
	branchMember
	numBranches
)

// forest is a TreeEnsemble as the node describes it. Children are indices of
// nodes, or of leaves where the list beside them says so.
type forest struct {
	features         []int64
	modes            []int64
	splits           []float64
	trueIDs, falseID []int64
	trueLeaf         []int64
	falseLeaf        []int64
	missingTrue      []int64 // whether NaN takes the true branch, may be empty
	members          []float64
	targets          []int64
	weights          []float64
	roots            []int64
}

// A condition is one decision on the way to a leaf.
type condition struct {
	node  int
	holds bool
}

// leafPath is a leaf and what has to hold for a row to reach it.
type leafPath struct {
	leaf  int
	steps []condition
}

// tensorAttr reads a tensor attribute as numbers, nil when it is absent.
func (c *call) tensorAttr(name string) []float64 {
	a := c.attr(name, onnxpb.AttributeProto_TENSOR)
	if a == nil || a.T == nil || c.err != nil {
		return nil
	}
	t, err := c.files.decode(a.T)
	switch {
	case err != nil:
		c.failf("%s: %w", name, err)
	case holdsFloats(t.DType):
		return float64s(t)
	default:
		return convert[float64](int64s(t))
	}
	return nil
}

// forest reads the attributes and checks that lists fit each other.
func (c *call) forest(features int) *forest {
	f := &forest{splits: c.tensorAttr("nodes_splits"), members: c.tensorAttr("membership_values"), weights: c.tensorAttr("leaf_weights")}
	for _, m := range c.tensorAttr("nodes_modes") {
		f.modes = append(f.modes, int64(m))
	}
	c.ignore("nodes_hitrates")
	for _, a := range []struct {
		name string
		list *[]int64
	}{
		{"nodes_featureids", &f.features}, {"nodes_truenodeids", &f.trueIDs}, {"nodes_falsenodeids", &f.falseID},
		{"nodes_trueleafs", &f.trueLeaf}, {"nodes_falseleafs", &f.falseLeaf}, {"leaf_targetids", &f.targets}, {"tree_roots", &f.roots},
		{"nodes_missing_value_tracks_true", &f.missingTrue},
	} {
		*a.list, _ = c.ints(a.name)
	}
	n := len(f.features)
	for _, l := range []int{len(f.modes), len(f.splits), len(f.trueIDs), len(f.falseID), len(f.trueLeaf), len(f.falseLeaf)} {
		if l != n {
			c.failf("the lists of nodes have %d and %d entries", n, l)
		}
	}
	if k := len(f.missingTrue); k != 0 && k != n {
		c.failf("nodes_missing_value_tracks_true has %d entries for %d nodes", k, n)
	}
	if n == 0 || len(f.roots) == 0 || len(f.targets) != len(f.weights) {
		c.failf("%d nodes, %d roots, %d targets and %d weights of leaves", n, len(f.roots), len(f.targets), len(f.weights))
	}
	for i, x := range f.features {
		if x < 0 || x >= int64(features) {
			c.failf("node %d asks for feature %d of %d", i, x, features)
		}
	}
	for i, m := range f.modes {
		if m < 0 || m >= numBranches {
			c.failf("node %d has mode %d", i, m)
		}
	}
	return f
}

// paths lists every way to a leaf. Each node may be reached once.
func (c *call) paths(f *forest) []leafPath {
	var out []leafPath
	seen := make([]bool, len(f.features))
	type visit struct {
		node  int64
		steps []condition
	}
	work := 0
	var todo []visit
	for _, r := range f.roots {
		todo = append(todo, visit{node: r})
	}
	for len(todo) > 0 {
		v := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if v.node < 0 || v.node >= int64(len(seen)) || seen[v.node] {
			c.failf("node %d does not exist or is reached twice", v.node)
			return nil
		}
		seen[v.node] = true
		for _, holds := range []bool{true, false} {
			next, leaf := f.falseID[v.node], f.falseLeaf[v.node]
			if holds {
				next, leaf = f.trueIDs[v.node], f.trueLeaf[v.node]
			}
			steps := append(slices.Clone(v.steps), condition{int(v.node), holds})
			if work += len(steps); work > maxFold {
				c.unsupportedf("trees as deep as these")
				return nil
			}
			if leaf == 0 {
				todo = append(todo, visit{next, steps})
				continue
			}
			if next < 0 || next >= int64(len(f.weights)) {
				c.failf("leaf %d does not exist", next)
				return nil
			}
			out = append(out, leafPath{int(next), steps})
		}
	}
	return out
}

// treeEnsemble decides all nodes at once, then finds the leaves whose
// conditions all hold: the product of the decisions with a matrix counts them.
func treeEnsemble(c *call) {
	x := c.id(0)
	t := c.typ(x)
	if c.err == nil && (len(t.Shape) != 2 || !t.DType.IsFloat()) {
		c.failf("operand is %s %v, want rows of floats", t.DType, t.Shape)
	}
	targets := c.smallInt("n_targets", c.int("n_targets", 0))
	if c.err != nil {
		return
	}
	f := c.forest(t.Shape[1])
	for i, k := range f.targets {
		if k < 0 || k >= int64(targets) {
			c.failf("leaf %d has target %d of %d", i, k, targets)
		}
	}
	if c.err != nil {
		return
	}
	paths := c.paths(f)
	nodes, leaves := len(f.features), len(paths)
	if c.err == nil && (float64(nodes)*float64(leaves) > maxProducts || float64(leaves)*float64(targets) > maxProducts) {
		c.unsupportedf("%d nodes, %d leaves and %d targets", nodes, leaves, targets)
	}
	c.charge(nodes*leaves + leaves*targets)
	decided, column := c.decisions(f, x)
	if c.err != nil {
		return
	}
	// A condition that must not hold counts 1 − decision.
	must := make([]float64, nodes*leaves)
	wanted := make([]float64, leaves) // what the sum of a path's decisions has to be
	for l, p := range paths {
		for _, s := range p.steps {
			if s.holds {
				must[column[s.node]*leaves+l] = 1
				wanted[l]++
			} else {
				must[column[s.node]*leaves+l] = -1
			}
		}
	}
	sum := c.add(ir.MatMul, nil, c.castID(decided, ir.F32), c.constant("", fromFloats(ir.F32, []int{nodes, leaves}, must), nil))
	reached := c.add(ir.Equals, nil, sum, c.constant("", fromFloats(ir.F32, []int{leaves}, wanted), nil))
	y := c.aggregated(f, paths, reached, t, targets)
	switch post := c.int("post_transform", 0); post {
	case 0:
	case 1:
		y = c.add(ir.Softmax, &ir.AxisAttr{Axis: 1}, y)
	case 2:
		y = c.add(ir.Sigmoid, nil, y)
	default:
		c.unsupportedf("post_transform %d", post)
	}
	c.set(y)
}

// decisions compares the features that nodes ask for: bools [rows, nodes], and
// the column of each node.
func (c *call) decisions(f *forest, x ir.ValueID) (ir.ValueID, []int) {
	t := c.typ(x)
	sets := memberSets(f.members)
	column := make([]int, len(f.features))
	var parts []ir.ValueID
	at := 0
	for mode := int64(0); mode < numBranches && c.err == nil; mode++ {
		var features []int64
		var splits, tracks []float64
		var members [][]float64
		for i, m := range f.modes {
			if m == branchMember && mode == branchMember {
				if len(sets) == 0 {
					c.failf("membership_values has too few sets")
					return x, nil
				}
				members, sets = append(members, sets[0]), sets[1:]
			}
			if m != mode {
				continue
			}
			column[i] = at
			at++
			features, splits = append(features, f.features[i]), append(splits, f.splits[i])
			track := 0.0
			if len(f.missingTrue) > 0 && f.missingTrue[i] != 0 {
				track = 1
			}
			tracks = append(tracks, track)
		}
		if features == nil {
			continue
		}
		n := len(features)
		v := c.add(ir.Gather, &ir.AxisAttr{Axis: 1}, x, c.ids([]int{n}, features))
		split := c.constant("", fromFloats(t.DType, []int{n}, splits), nil)
		var y ir.ValueID
		switch mode {
		case branchLessEqual:
			y = c.add(ir.LessEqual, nil, v, split)
		case branchLess:
			y = c.add(ir.Less, nil, v, split)
		case branchGreaterEqual:
			y = c.add(ir.LessEqual, nil, split, v)
		case branchGreater:
			y = c.add(ir.Less, nil, split, v)
		case branchEqual:
			y = c.add(ir.Equals, nil, v, split)
		case branchNotEqual:
			y = c.not(c.add(ir.Equals, nil, v, split))
		case branchMember:
			y = c.isMember(v, members)
		}
		if slices.Contains(tracks, 1) {
			isNaN := c.not(c.add(ir.Equals, nil, v, v))
			y = c.add(ir.BitOr, nil, y, c.add(ir.BitAnd, nil, isNaN, c.constant("", fromFloats(ir.Bool, []int{n}, tracks), nil)))
		}
		parts = append(parts, y)
	}
	if c.err != nil {
		return x, nil
	}
	if len(parts) == 1 {
		return parts[0], column
	}
	return c.add(ir.Concat, &ir.AxisAttr{Axis: 1}, parts...), column
}

// memberSets splits the sets of values, each of which ends with NaN.
func memberSets(values []float64) [][]float64 {
	var sets [][]float64
	start := 0
	for i, v := range values {
		if v != v {
			sets = append(sets, values[start:i])
			start = i + 1
		}
	}
	return sets
}

// isMember says which columns of v are in their set.
func (c *call) isMember(v ir.ValueID, sets [][]float64) ir.ValueID {
	t := c.typ(v)
	width := 1
	for _, s := range sets {
		width = max(width, len(s))
	}
	if float64(width)*float64(t.Numel()) > maxProducts {
		c.unsupportedf("sets of %d members", width)
	}
	if c.err != nil {
		return v
	}
	all := slices.Repeat([]float64{math.NaN()}, width*len(sets)) // which equals nothing
	for i, s := range sets {
		copy(all[i*width:], s)
	}
	e := c.add(ir.Equals, nil, c.reshape(v, t.Shape[0], t.Shape[1], 1), c.constant("", fromFloats(t.DType, []int{len(sets), width}, all), nil))
	return c.castID(c.add(ir.ReduceMax, &ir.ReduceAttr{Axes: []int{2}}, c.castID(e, ir.U8)), ir.Bool)
}

// aggregated joins the weights of the leaves that were reached, one a tree.
func (c *call) aggregated(f *forest, paths []leafPath, reached ir.ValueID, t ir.Type, targets int) ir.ValueID {
	leaves := len(paths)
	how := c.int("aggregate_function", 1)
	if how < 2 { // average and sum
		w := make([]float64, leaves*targets)
		for l, p := range paths {
			w[l*targets+int(f.targets[p.leaf])] = f.weights[p.leaf]
		}
		y := c.add(ir.MatMul, nil, c.castID(reached, t.DType), c.constant("", fromFloats(t.DType, []int{leaves, targets}, w), nil))
		if how == 0 {
			y = c.add(ir.Div, nil, y, c.scalar(t.DType, float64(len(f.roots))))
		}
		return y
	}
	kind, start := ir.ReduceMin, math.Inf(1)
	switch how {
	case 2:
	case 3:
		kind, start = ir.ReduceMax, math.Inf(-1)
	default:
		c.failf("aggregate_function %d", how)
	}
	if float64(t.Shape[0])*float64(leaves)*float64(targets) > maxProducts {
		c.unsupportedf("%d leaves and %d targets", leaves, targets)
	}
	if c.err != nil {
		return reached
	}
	own, w := make([]float64, leaves*targets), make([]float64, leaves)
	for l, p := range paths {
		own[l*targets+int(f.targets[p.leaf])] = 1
		w[l] = f.weights[p.leaf]
	}
	counts := c.add(ir.BitAnd, nil, c.reshape(reached, t.Shape[0], leaves, 1), c.constant("", fromFloats(ir.Bool, []int{leaves, targets}, own), nil))
	v := c.where(counts, c.constant("", fromFloats(t.DType, []int{leaves, 1}, w), nil), c.scalar(t.DType, start))
	over := &ir.ReduceAttr{Axes: []int{1}}
	some := c.castID(c.add(ir.ReduceMax, over, c.castID(counts, ir.U8)), ir.Bool)
	return c.where(some, c.add(kind, over, v), c.scalar(t.DType, 0))
}
