package passes

import (
	"bytes"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"situ/ir"
	"situ/ir/irtest"
)

// TestSplit cuts random graphs at random operators: the parts one after the other
// must compute what the whole does, and none of the operators may be left.
func TestSplit(t *testing.T) {
	sides := [3]int{}
	rapid.Check(t, func(t *rapid.T) {
		g, in := irtest.Numbers(t)
		var refused []int
		for i := range g.Ops {
			if rapid.IntRange(0, 4).Draw(t, "refused") == 0 {
				refused = append(refused, i)
			}
		}
		p := Split(g, refused)
		known := map[ir.ValueID]*ir.Tensor{}
		for i, id := range g.Inputs {
			known[id] = in[i]
		}
		count := 0
		for k, part := range []Part{p.Before, p.Chip, p.After} {
			count += len(part.Ops)
			if part.Graph == nil {
				continue
			}
			sides[k]++
			if err := ir.Verify(part.Graph); err != nil {
				t.Fatalf("part %d: %v", k, err)
			}
			var operands []*ir.Tensor
			for _, id := range part.In {
				if known[id] == nil {
					t.Fatalf("part %d reads value %d, which nothing before it makes", k, id)
				}
				operands = append(operands, known[id])
			}
			for i, x := range runGraph(t, part.Graph, operands) {
				known[part.Out[i]] = x
			}
		}
		if count != len(g.Ops) {
			t.Fatalf("%d operators in the parts, %d in the graph", count, len(g.Ops))
		}
		for _, i := range refused {
			if slices.Contains(p.Chip.Ops, i) || !slices.Contains(p.Host, i) {
				t.Fatalf("operator %d is left", i)
			}
		}
		if (p.HostShare > 0) != (len(p.Host) > 0) || p.HostShare > 1 {
			t.Fatalf("share %g of %d operators", p.HostShare, len(p.Host))
		}
		for i, want := range runGraph(t, g, in) {
			if got := known[g.Outputs[i]]; !bytes.Equal(bits(t, got), bits(t, want)) {
				t.Fatalf("output %d differs\n%v", i, g)
			}
		}
	})
	if slices.Contains(sides[:], 0) {
		t.Errorf("graphs with parts before, on and after the target: %v", sides)
	}
}

// TestSplitSides puts what is refused on the side that takes less along.
func TestSplitSides(t *testing.T) {
	g, err := ir.Parse(`graph "g" {
		%0 = input "mask" : i64[1,8]
		%1 = cumsum %0 {axis=1} : i64[1,8] @ "positions"
		%2 = const "table" : f32[9,4] {1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3, 4, 5, 6, 7, 8, 9}
		%3 = gather %2, %1 {axis=0} : f32[1,8,4] @ "embed"
		%4 = const "w" : f32[4,4] {1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3, 4, 5, 6, 7}
		%5 = matmul %3, %4 : f32[1,8,4] @ "layer"
		%6 = sin %5 : f32[1,8,4] @ "wave"
		output %6
	}`, nil)
	if err != nil {
		t.Fatal(err)
	}
	p := Split(g, []int{0, 3})
	if !slices.Equal(p.Before.Ops, []int{0}) || !slices.Equal(p.Chip.Ops, []int{1, 2}) || !slices.Equal(p.After.Ops, []int{3}) {
		t.Errorf("before %v, on the target %v, after %v", p.Before.Ops, p.Chip.Ops, p.After.Ops)
	}
}
