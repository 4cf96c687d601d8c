package pim

import (
	"strings"
	"testing"

	"situ/arch"
	"situ/ir"
)

func parse(t *testing.T, text string) *ir.Graph {
	t.Helper()
	g, err := ir.Parse(text, nil)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// refused holds graphs and chips that the back end does not take, and what its
// error must say.
var refused = []struct {
	name, graph string
	chip        func(*arch.Chip)
	opt         Options
	want        []string
}{
	{
		name: "all unsupported operators are named",
		graph: `graph "g" {
			%0 = input "x" : f32[1,4]
			%1 = sin %0 : f32[1,4] @ "wave"
			%2 = cast %0 : f64[1,4] @ "widen"
			%3 = cumsum %0 {axis=1} : f32[1,4] @ "total"
			output %1, %2, %3
		}`,
		want: []string{`sin "wave"`, `cast "widen"`, `cumsum "total"`},
	},
	{
		name: "product of two activations whose leading dimensions are too many",
		graph: `graph "g" {
			%0 = input "a" : i8[2,3,4,5,6] scale=1 zero=0
			%1 = input "b" : i8[2,1,4,6,5] scale=1 zero=0
			%2 = matmul %0, %1 : i8[2,3,4,5,5] scale=1 zero=0 @ "attention"
			output %2
		}`,
		want: []string{`matmul "attention"`, "broadcasts over more than four dimensions"},
	},
	{
		name: "product of two activations with very many columns",
		graph: `graph "g" {
			%0 = input "a" : i8[1,2] scale=1 zero=0
			%1 = input "b" : i8[2,5000000] scale=1 zero=0
			%2 = matmul %0, %1 : i8[1,5000000] scale=1 zero=0 @ "attention"
			output %2
		}`,
		want: []string{`matmul "attention"`, "5000000 columns"},
	},
	{
		name: "dynamic weights of a convolution",
		graph: `graph "g" {
			%0 = input "x" : i8[1,4,4,1] scale=1 zero=0
			%1 = input "w" : i8[1,2,2,1] scale=1 zero=0
			%2 = conv2d %0, %1 {} : i8[1,3,3,1] scale=1 zero=0 @ "dynamic"
			output %2
		}`,
		want: []string{`conv2d "dynamic"`, "not constant"},
	},
	{
		name: "float64 input",
		graph: `graph "g" {
			%0 = input "x" : f64[1,4]
			%1 = reshape %0 {shape=[4]} : f64[4]
			output %1
		}`,
		want: []string{`input "x"`, "f64"},
	},
	{
		name: "activations of 4 bits",
		graph: `graph "g" {
			%0 = input "x" : f32[1,4]
			%1 = quantize %0 : i4[1,4] scale=1 zero=0 @ "q"
			%2 = dequantize %1 : f32[1,4] @ "dq"
			output %2
		}`,
		want: []string{`quantize "q"`, "only weights have 4 bits"},
	},
	{
		name: "input of 4 bits",
		graph: `graph "g" {
			%0 = input "x" : i4[4]
			%1 = reshape %0 {shape=[1,4]} : i4[1,4]
			output %1
		}`,
		want: []string{`input "x"`, "only weights have 4 bits"},
	},
	{
		name: "constant output of 4 bits",
		graph: `graph "g" {
			%0 = input "x" : i8[1]
			%1 = const "c" : i4[2] {1, 2}
			output %0, %1
		}`,
		want: []string{`output "c"`, "only weights have 4 bits"},
	},
	{
		name: "tensor without elements",
		graph: `graph "g" {
			%0 = input "x" : i8[2,0,4] scale=1 zero=0
			%1 = reducesum %0 {axes=[1], keepdims=true} : i8[2,1,4] scale=1 zero=0 @ "sum"
			output %1
		}`,
		want: []string{`input "x"`, "[2 0 4] has no elements"},
	},
	{
		name: "accumulators too small",
		graph: `graph "g" {
			%0 = input "x" : i8[1,4] scale=1 zero=0
			%1 = const "w" : i8[4,2] scale=1 zero=0 {1, 2, 3, 4, 5, 6, 7, 8}
			%2 = matmul %0, %1 : i8[1,2] scale=1 zero=0 @ "fc"
			output %2
		}`,
		chip: func(c *arch.Chip) { c.Accumulator.Bytes, c.CoresPerCluster = fig(4), fig(1) },
		want: []string{`"fc"`, "accumulators"},
	},
	{
		name: "scratchpad too small for one row",
		graph: `graph "g" {
			%0 = input "x" : i8[1,100000] scale=1 zero=0
			%1 = softmax %0 {axis=1} : i8[1,100000] scale=0.00390625 zero=-128 @ "probabilities"
			output %1
		}`,
		want: []string{`"probabilities"`, "scratchpad"},
	},
	{
		name: "more elements than DRAM",
		graph: `graph "g" {
			%0 = input "x" : i8[1024,1024,1024,2] scale=1 zero=0
			%1 = maxpool %0 {kernel=[1,1]} : i8[1024,1024,1024,2] scale=1 zero=0 @ "pool"
			output %1
		}`,
		want: []string{`input "x"`, "DRAM"},
	},
	{
		name: "absurdly many input vectors",
		graph: `graph "g" {
			%0 = input "x" : i8[1,16384,16384,1] scale=1 zero=0
			%1 = const "w" : i8[64,1,1,1] scale=1 zero=0 {` + strings.Repeat("1, ", 63) + `1}
			%2 = conv2d %0, %1 {} : i8[1,16384,16384,64] scale=1 zero=0 @ "wide"
			output %2
		}`,
		chip: func(c *arch.Chip) { c.DRAM.Bytes = fig(1 << 40) },
		want: []string{`"wide"`, "more than a program can hold"},
	},
	{
		name: "more clusters than there are",
		graph: `graph "g" {
			%0 = input "x" : i8[4] scale=1 zero=0
			output %0
		}`,
		opt:  Options{Clusters: 99},
		want: []string{"99 clusters", "has 1"},
	},
}

func TestRefused(t *testing.T) {
	for _, r := range refused {
		t.Run(r.name, func(t *testing.T) {
			c := tinyChip()
			if r.chip != nil {
				r.chip(c)
			}
			_, err := Compile(parse(t, r.graph), c, r.opt)
			if err == nil {
				t.Fatal("no error")
			}
			for _, w := range r.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("error does not say %q:\n%v", w, err)
				}
			}
		})
	}
}

// TestCheckFindsFaults damages placements and expects the checker to notice.
func TestCheckFindsFaults(t *testing.T) {
	g := parse(t, `graph "g" {
		%0 = input "x" : i8[1,6,6,4] scale=1 zero=0
		%1 = const "w" : i8[4,3,3,4] scale=1 zero=0 {`+strings.Repeat("1, ", 143)+`1}
		%2 = conv2d %0, %1 {pads=[1,1,1,1]} : i8[1,6,6,4] scale=1 zero=0 @ "c1"
		%3 = conv2d %2, %1 {pads=[1,1,1,1]} : i8[1,6,6,4] scale=1 zero=0 @ "c2"
		%4 = add %3, %2 : i8[1,6,6,4] scale=1 zero=0 @ "sum"
		output %4
	}`)
	find := func(p *plan, name string) *store {
		for _, st := range p.stores {
			if st.name == name {
				return st
			}
		}
		t.Fatalf("no store %q", name)
		return nil
	}
	faults := []struct {
		name   string
		damage func(p *plan)
		want   string
	}{
		{"overlap", func(p *plan) { find(p, "c2").addr = find(p, "c1").addr }, "overlaps"},
		{"outside", func(p *plan) { find(p, "c2").addr = p.chip.Scratchpad.Bytes.Int() - 64 }, "outside the scratchpad"},
		{"died early", func(p *plan) {
			for i := range p.items {
				if p.items[i].store == find(p, "c1") {
					p.items[i].last--
				}
			}
		}, "not alive"},
		{"box too small", func(p *plan) { find(p, "c1").boxes[0].hi[1]-- }, "holds"},
		{"weights overlap", func(p *plan) {
			for _, s := range p.steps {
				if k, ok := s.kernel.(*product); ok {
					k.parts[0].chunks[0].units[0].ws = 0
				}
			}
		}, "overlap"},
	}
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			p, err := choose(g, manyChip(), Options{Clusters: 1})
			if err != nil {
				t.Fatal(err)
			}
			if err := p.check(); err != nil {
				t.Fatalf("before the damage: %v", err)
			}
			f.damage(p)
			if err := p.check(); err == nil || !strings.Contains(err.Error(), f.want) {
				t.Errorf("got %v, want an error that says %q", err, f.want)
			}
		})
	}
}
