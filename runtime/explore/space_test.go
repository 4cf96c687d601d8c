package explore

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

const small = `
name: small
models: [digits]
base: edge-dimc
parameters:
  array.rows: [32, 64, 128]
  array.cols: {from: 16, to: 64, times: 2}
  weight_sram.bytes: "array.rows * array.cols * 16"
  weight_sram.read_energy_fj_per_bit: base.weight_sram.read_energy_fj_per_bit * (weight_sram.bytes / base.weight_sram.bytes) ^ 0.3
  quant.weights: [int8, int4]
  memory:
    choose:
      slow: {dram.gigabytes_per_s: 3.2}
      fast: {dram.gigabytes_per_s: 12.8, dram.energy_fj_per_bit: 5000}
constraints:
  - array.rows >= array.cols
  - area_mm2 <= 50
objectives: [latency, energy, area]
`

func TestParse(t *testing.T) {
	s, err := Parse("small.yaml", []byte(small))
	if err != nil {
		t.Fatal(err)
	}
	if n, ok := s.Size(); !ok || n != 3*3*2*2 {
		t.Errorf("%d points", n)
	}
	d := s.design(Point{1, 1, 1, 1})
	if d.err != nil {
		t.Fatal(d.err)
	}
	c := d.chip
	if c.Array.Rows.Value != 64 || c.Array.Cols.Value != 32 || c.Array.ColsInt4.Value != 64 || c.WeightSRAM.Bytes.Value != 64*32*16 ||
		c.DRAM.GBs.Value != 12.8 || c.DRAM.EnergyFJBit.Value != 5000 || d.weights != "int4" {
		t.Errorf("chip of point 1.1.1.1: %+v", c)
	}
	want := 430 * math.Pow(64*32*16/131072.0, 0.3)
	if got := c.WeightSRAM.ReadEnergyFJBit.Value; math.Abs(got-want) > 1e-9*want {
		t.Errorf("read energy %g, want %g", got, want)
	}
	if s.Base.Array.Rows.Value != 128 {
		t.Error("the base was changed")
	}
	if d := s.design(Point{0, 2, 0, 0}); d.err == nil || !strings.Contains(d.err.Error(), "array.rows >= array.cols") {
		t.Errorf("a broken constraint gives %v", d.err)
	}
	if a, b := chipHash(s.design(Point{1, 1, 0, 1}).chip), chipHash(c); a != b {
		t.Error("precision of weights is no part of a chip")
	}
	if a, b := chipHash(s.design(Point{1, 0, 1, 1}).chip), chipHash(c); a == b {
		t.Error("two chips have one hash")
	}
}

// Every mistake gives an error with line and column.
func TestParseErrors(t *testing.T) {
	for _, c := range []struct{ replace, by, want string }{
		{"name: small", "nam: small", `x.yaml:2:1: unknown key "nam"`},
		{"  array.rows: [32, 64, 128]", "  array.row: [32, 64, 128]", `x.yaml:6:3: unknown parameter "array.row"`},
		{"[32, 64, 128]", "[]", "x.yaml:6:15: array.rows: is empty"},
		{"[32, 64, 128]", "[32, 64, 32]", "x.yaml:6:24: array.rows: 32 is stated twice"},
		{"{from: 16, to: 64, times: 2}", "{from: 64, to: 16, times: 2}", "array.cols: the range from 64 to 16 is empty"},
		{"{from: 16, to: 64, times: 2}", "{from: 16, to: 64}", "x.yaml:7:"},
		{"{from: 16, to: 64, times: 2}", "{from: 16, till: 64}", `unknown key "till"`},
		{"[int8, int4]", "[int8, fp4]", `x.yaml:10:25: quant.weights: no precision "fp4"`},
		{"[int8, int4]", "{from: 4, to: 8, step: 1}", "quant.weights: want a list of names among int8, int4, mxint8, mxint4"},
		{"[int8, int4]", `"array.rows / 16"`, "x.yaml:10:18: quant.weights: want a list of names"},
		{"dram.gigabytes_per_s: 3.2", "dram.speed: 3.2", `x.yaml:13:14: memory slow: unknown figure "dram.speed"`},
		{"area_mm2 <= 50", "area <= 50", `x.yaml:17:5: constraint "area <= 50": unknown quantity "area"`},
		{"area_mm2 <= 50", "area_mm2 <= ", `x.yaml:17:17: constraint`},
		{"area_mm2 <= 50", "area_mm2 <= 50 and area_mm2 >= 60", `x.yaml:17:5: constraint`},
		{"  - area_mm2 <= 50", "  - area_mm2 <= 50\n  - area_mm2 > 50", `x.yaml:18:5: constraint "area_mm2 > 50": no point of the space meets it`},
		{"array.rows >= array.cols", "array.rows < 32", `x.yaml:16:5: constraint "array.rows < 32": no point`},
		{"array.rows >= array.cols", "array.rows * 5 == array.cols * 7", `x.yaml:16:5: none of the 36 points`},
		{"[latency, energy, area]", "[latency, beauty]", `x.yaml:18:23: no objective "beauty"`},
		{"[latency, energy, area]", "[latency, latency]", "stated twice"},
		{"base: edge-dimc", "base: h100", "x.yaml:4:7: base: h100 is a GPU"},
		{`"array.rows * array.cols * 16"`, `"weight_sram.bytes * 2"`, "x.yaml:8:3: weight_sram.bytes: is defined by way of itself"},
		{`"array.rows * array.cols * 16"`, `"arrow * 2"`, `x.yaml:8:3: weight_sram.bytes: unknown quantity "arrow"`},
		{`"array.rows * array.cols * 16"`, `"array.rows * (2"`, `x.yaml:8:`},
		{"objectives: [latency, energy, area]", "", "objectives: is missing"},
		{"      slow: {dram.gigabytes_per_s: 3.2}", "      slow: {array.rows: 3.2}", "array.rows is set both by"},
		{"name: small", "seed: -1", "x.yaml:2:7: seed"},
		{"name: small", "search: {method: magic}", `no search method "magic"`},
		{"name: small", "budget: {time: soon}", "want a duration"},
		{"name: small", "models: [digits", "x.yaml"},
		{"  quant.weights: [int8, int4]", "  batch: [1, 2]", "x.yaml:10:3: batch: model digits does not say"},
	} {
		if !strings.Contains(small, c.replace) {
			t.Fatalf("no %q in the space", c.replace)
		}
		_, err := Parse("x.yaml", []byte(strings.Replace(small, c.replace, c.by, 1)))
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "x.yaml:") {
			t.Errorf("%q for %q:\n got %v\nwant %s", c.by, c.replace, err, c.want)
		}
	}
}

func TestPointAt(t *testing.T) {
	s, err := Parse("small.yaml", []byte(small))
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	n, _ := s.Size()
	for i := range n {
		p := s.PointAt(i)
		if seen[p.String()] {
			t.Fatalf("point %s comes twice", p)
		}
		seen[p.String()] = true
		for k, v := range p {
			if int(v) >= len(s.Params[k].Values) {
				t.Fatalf("point %s is outside", p)
			}
		}
	}
}

func TestExpr(t *testing.T) {
	at := func(v map[string]span) func(string) (span, bool) {
		return func(n string) (span, bool) { s, ok := v[n]; return s, ok }
	}
	env := map[string]span{"a": exactly(3), "b.c": exactly(-2), "r": {1, 4}}
	for _, c := range []struct {
		text string
		want span
	}{
		{"1 + 2 * 3 - 4 / 2", exactly(5)}, {"-a ^ 2", exactly(-9)}, {"2 ^ 3 ^ 2", exactly(512)}, {"(a + b.c) * 1e3", exactly(1000)},
		{"min(a, 2, 7) + max(1, a)", exactly(5)}, {"sqrt(16) + log2(8) + pow(2, 3) + abs(b.c)", exactly(17)},
		{"ceil(1.2) + floor(1.8) + round(2.5)", exactly(6)}, {"r * 2", span{2, 8}}, {"r - r", span{-3, 3}}, {"r * b.c", span{-8, -2}},
		{"r < 1", never}, {"r <= 4", always}, {"r < 4", maybe}, {"r >= 5 or a == 3", always}, {"r >= 5 and a == 3", never},
		{"not r > 4", always}, {"1 / r", span{0.25, 1}}, {"a != 3", never}, {"1.5e-3 * 2", exactly(0.003)},
	} {
		e, err := parseExpr(c.text)
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		got, err := e.eval(at(env))
		if err != nil || math.Abs(got.lo-c.want.lo) > 1e-12 || math.Abs(got.hi-c.want.hi) > 1e-12 {
			t.Errorf("%s = %v (%v), want %v", c.text, got, err, c.want)
		}
	}
	for _, bad := range []string{"", "1 +", "(1", "1)", "f(1)", "min()", "sqrt(1, 2)", "1 2", "a < b < c", "#", "1..2", strings.Repeat("(", 500), strings.Repeat("-", 5000) + "1", strings.Repeat("not ", 500) + "1"} {
		if _, err := parseExpr(bad); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}

// What an expression gives for numbers lies within what it gives for spans that
// hold them.
func TestSpansHoldNumbers(t *testing.T) {
	texts := []string{"a + b * c", "a / b - c", "min(a, b) ^ 2", "(a - b) * (c - a)", "a < b", "a * b <= c or not a > c", "abs(a - c) / max(b, 1)", "sqrt(a) + log2(b) == c"}
	rapid.Check(t, func(t *rapid.T) {
		e, err := parseExpr(rapid.SampledFrom(texts).Draw(t, "text"))
		if err != nil {
			t.Fatal(err)
		}
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		spans, nums := map[string]span{}, map[string]span{}
		for _, n := range []string{"a", "b", "c"} {
			lo, hi := math.Round(10*rng.Float64()), math.Round(10*rng.Float64())
			spans[n] = hull(lo, hi)
			nums[n] = exactly(lo + (hi-lo)*rng.Float64())
		}
		wide, err1 := e.eval(func(n string) (span, bool) { return spans[n], true })
		one, err2 := e.eval(func(n string) (span, bool) { return nums[n], true })
		if err1 != nil || err2 != nil {
			t.Fatal(err1, err2)
		}
		const slack = 1e-9
		if !math.IsNaN(one.lo) && (one.lo < wide.lo-slack || one.hi > wide.hi+slack) {
			t.Fatalf("%v outside %v", one, wide)
		}
	})
}
