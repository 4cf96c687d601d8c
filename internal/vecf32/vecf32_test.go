package vecf32

import (
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// near reports whether two results agree to a few units in the last place.
func near(a, b float64) bool {
	return a == b || a != a && b != b || math.Abs(a-b) <= 1e-6*math.Max(math.Abs(a), math.Abs(b))
}

// TestFunctions checks values that are known without the code under test, and
// that Apply and Eval agree on them.
func TestFunctions(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	for _, c := range []struct {
		f    Fn
		p    Params
		x, y float64
	}{
		{Relu, Params{}, -3, 0}, {Relu, Params{}, 3, 3}, {Relu, Params{}, nan, nan},
		{LeakyRelu, Params{A: 0.5}, -3, -1.5}, {LeakyRelu, Params{A: 0.5}, 3, 3},
		{Clip, Params{A: -1, B: 2}, -3, -1}, {Clip, Params{A: -1, B: 2}, inf, 2}, {Clip, Params{A: -1, B: 2}, nan, nan},
		{Sigmoid, Params{}, 0, 0.5}, {Sigmoid, Params{}, 1, 0.7310585786300049}, {Sigmoid, Params{}, -inf, 0}, {Sigmoid, Params{}, 1000, 1},
		{HardSigmoid, Params{A: 0.2, B: 0.5}, 0.5, 0.6}, {HardSigmoid, Params{A: 0.2, B: 0.5}, -10, 0}, {HardSigmoid, Params{A: 0.2, B: 0.5}, 10, 1},
		{HardSwish, Params{}, 3, 3}, {HardSwish, Params{}, -3, 0}, {HardSwish, Params{}, 1, 2.0 / 3},
		{Tanh, Params{}, 1, 0.7615941559557649}, {Tanh, Params{}, -inf, -1},
		{Exp, Params{}, 1, math.E}, {Exp, Params{}, 200, inf}, {Exp, Params{}, -inf, 0},
		{Log, Params{}, math.E * math.E, 2}, {Log, Params{}, 0, -inf}, {Log, Params{}, -1, nan},
		{Sqrt, Params{}, 2, math.Sqrt2}, {Sqrt, Params{}, -1, nan},
		{Reciprocal, Params{}, -4, -0.25}, {Reciprocal, Params{}, 0, inf},
		{Neg, Params{}, 2, -2}, {Abs, Params{}, -2, 2},
		{Erf, Params{}, 1, 0.8427007929497149}, {Erf, Params{}, -inf, -1},
		{Floor, Params{}, -0.5, -1}, {Ceil, Params{}, 0.5, 1}, {Round, Params{}, 2.5, 2}, {Round, Params{}, -3.5, -4},
		{Softplus, Params{}, 0, math.Ln2}, {Softplus, Params{}, 100, 100}, {Softplus, Params{}, -100, 3.720075976020836e-44},
		{Elu, Params{A: 2}, -1, 2 * (1/math.E - 1)}, {Elu, Params{A: 2}, 3, 3},
	} {
		x := float32(c.x)
		y := []float32{x}
		Apply(c.f, c.p, y, y)
		if e := Eval(c.f, c.p, x); math.Float32bits(e) != math.Float32bits(y[0]) {
			t.Errorf("%s(%v): Apply gives %v, Eval %v", c.f, c.x, y[0], e)
		}
		if !near(float64(y[0]), float64(float32(c.y))) {
			t.Errorf("%s %+v of %v is %v, want %v", c.f, c.p, c.x, y[0], c.y)
		}
	}
	seen := map[string]bool{}
	for f := range NumFns {
		if fns[f].eval == nil || seen[f.String()] {
			t.Errorf("function %d %q lacks a definition or shares its name", f, f)
		}
		seen[f.String()] = true
	}
}

func random(rng *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(rng.NormFloat64())
	}
	return x
}

func numel(shape []int) int {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
}

// eachIndexOf calls f for every index of shape, row-major.
func eachIndexOf(shape []int, f func(at []int)) {
	at := make([]int, len(shape))
	for range numel(shape) {
		f(at)
		for i := len(at) - 1; i >= 0; i-- {
			if at[i]++; at[i] < shape[i] {
				break
			}
			at[i] = 0
		}
	}
}

// offset is the position of a result's index in an operand that broadcasts.
func offset(shape, at []int) int {
	o := 0
	at = at[len(at)-len(shape):]
	for i, n := range shape {
		o *= n
		if n > 1 {
			o += at[i]
		}
	}
	return o
}

func drawShape(t *rapid.T, name string) []int {
	return rapid.SliceOfN(rapid.IntRange(1, 4), 0, 4).Draw(t, name)
}

// squeezed draws a shape that broadcasts to the given one.
func squeezed(t *rapid.T, name string, shape []int) []int {
	s := slices.Clone(shape[rapid.IntRange(0, len(shape)).Draw(t, name+" rank"):])
	for i := range s {
		if rapid.Bool().Draw(t, name+" one") {
			s[i] = 1
		}
	}
	return s
}

func TestBinary(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		full := drawShape(t, "shape")
		as, bs := squeezed(t, "a", full), squeezed(t, "b", full)
		shape, ok := BroadcastShapes(as, bs)
		if !ok {
			t.Fatalf("%v and %v do not broadcast", as, bs)
		}
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		a, b := random(rng, numel(as)), random(rng, numel(bs))
		for op := range NumBinOps {
			got := make([]float32, numel(shape))
			Binary(op, got, shape, a, as, b, bs)
			i := 0
			eachIndexOf(shape, func(at []int) {
				x, y := a[offset(as, at)], b[offset(bs, at)]
				var want float32
				switch op {
				case Add:
					want = x + y
				case Sub:
					want = x - y
				case Mul:
					want = x * y
				case Div:
					want = x / y
				case Min:
					want = float32(math.Min(float64(x), float64(y)))
				case Max:
					want = float32(math.Max(float64(x), float64(y)))
				case Pow:
					want = float32(math.Pow(float64(x), float64(y)))
				}
				if math.Float32bits(got[i]) != math.Float32bits(want) && (got[i] == got[i] || want == want) {
					t.Fatalf("%s of %v and %v at %v: %v, want %v", op, as, bs, at, got[i], want)
				}
				i++
			})
		}
	})
	if _, ok := BroadcastShapes([]int{2, 3}, []int{2}); ok {
		t.Error("[2 3] and [2] broadcast")
	}
}

func TestReduce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		shape := drawShape(t, "shape")
		if rapid.IntRange(0, 4).Draw(t, "wide") == 4 {
			shape = append(shape, 3*chunk+5) // more than one chunk of results
		}
		var axes []int
		kept := slices.Clone(shape)
		for i := range shape {
			if rapid.Bool().Draw(t, "axis") {
				axes = append(axes, i)
				kept[i] = 1
			}
		}
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		x := random(rng, numel(shape))
		for op := range NumRedOps {
			got := make([]float32, numel(kept))
			Reduce(op, got, x, shape, axes)
			want := make([]float64, len(got))
			for i := range want {
				switch op {
				case ReduceMax:
					want[i] = math.Inf(-1)
				case ReduceMin:
					want[i] = math.Inf(1)
				case ReduceProd:
					want[i] = 1
				}
			}
			i := 0
			eachIndexOf(shape, func(at []int) {
				o, v := offset(kept, at), float64(x[i])
				switch op {
				case ReduceMax:
					want[o] = math.Max(want[o], v)
				case ReduceMin:
					want[o] = math.Min(want[o], v)
				case ReduceProd:
					want[o] *= v
				default:
					want[o] += v
				}
				i++
			})
			for i, w := range want {
				if op == ReduceMean {
					w /= float64(numel(shape) / len(want))
				}
				if got[i] != float32(w) {
					t.Fatalf("%s of %v over %v, element %d: %v, want %v", op, shape, axes, i, got[i], w)
				}
			}
		}
	})
}

func TestSoftmax(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		shape := append(drawShape(t, "shape"), rapid.IntRange(1, 5).Draw(t, "last"))
		axis := rapid.IntRange(0, len(shape)-1).Draw(t, "axis")
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		x := random(rng, numel(shape))
		for i := range x {
			x[i] = x[i]*20 + 500 // e^x alone would overflow
		}
		soft, log := make([]float32, len(x)), make([]float32, len(x))
		Softmax(soft, x, shape, axis)
		LogSoftmax(log, x, shape, axis)
		kept := slices.Clone(shape)
		kept[axis] = 1
		sum := make([]float64, numel(kept))
		i := 0
		eachIndexOf(shape, func(at []int) {
			sum[offset(kept, at)] += math.Exp(float64(x[i]) - 500)
			i++
		})
		i = 0
		eachIndexOf(shape, func(at []int) {
			s := sum[offset(kept, at)]
			if want := math.Exp(float64(x[i])-500) / s; !near(float64(soft[i]), float64(float32(want))) && want > math.SmallestNonzeroFloat32*1e6 {
				t.Fatalf("softmax at %v: %v, want %v", at, soft[i], want)
			}
			if want := float64(x[i]) - 500 - math.Log(s); math.Abs(float64(log[i])-want) > 1e-5*(1+math.Abs(want)) {
				t.Fatalf("logsoftmax at %v: %v, want %v", at, log[i], want)
			}
			i++
		})
	})
}

// TestLRN is the definition on numbers worked by hand: an even size takes one
// more neighbour after than before.
func TestLRN(t *testing.T) {
	x := []float32{1, 2, 3, 4}
	y := make([]float32, 4)
	LRN(y, x, []int{1, 4, 1}, 1, 2, 2, 1, 1)
	for i, want := range []float64{1. / 6, 2. / 14, 3. / 26, 4. / 17} {
		if !near(float64(y[i]), float64(float32(want))) {
			t.Errorf("size 2, element %d: %v, want %v", i, y[i], want)
		}
	}
	LRN(y, x, []int{4}, 0, 3, 3, 0.5, 2)
	for i, want := range []float64{1 / math.Sqrt(7), 2 / math.Sqrt(16), 3 / math.Sqrt(31), 4 / math.Sqrt(27)} {
		if !near(float64(y[i]), float64(float32(want))) {
			t.Errorf("size 3, element %d: %v, want %v", i, y[i], want)
		}
	}
}

// TestPools compares pooling with a direct sum over a padded copy.
func TestPools(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := func(name string, lo, hi int) int { return rapid.IntRange(lo, hi).Draw(t, name) }
		w := &Window{
			N: in("n", 1, 2), H: in("h", 3, 6), W: in("w", 3, 6), C: in("c", 1, 3),
			Kernel:  [2]int{in("kh", 1, 3), in("kw", 1, 3)},
			Strides: [2]int{in("sh", 1, 2), in("sw", 1, 2)}, Dilations: [2]int{1, 1},
			CountPad: rapid.Bool().Draw(t, "count pad"),
		}
		w.PadTop, w.PadLeft = in("top", 0, w.Kernel[0]-1), in("left", 0, w.Kernel[1]-1)
		bottom, right := in("bottom", 0, w.Kernel[0]-1), in("right", 0, w.Kernel[1]-1)
		w.OutH = (w.H+w.PadTop+bottom-w.Kernel[0])/w.Strides[0] + 1
		w.OutW = (w.W+w.PadLeft+right-w.Kernel[1])/w.Strides[1] + 1
		// The last row of padding is ceil mode's, and does not count.
		w.PadEndH, w.PadEndW = w.H+max(bottom-1, 0), w.W+right
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		x := random(rng, w.N*w.H*w.W*w.C)
		shape := []int{w.N, w.OutH, w.OutW, w.C}
		top, avg := make([]float32, numel(shape)), make([]float32, numel(shape))
		MaxPool(top, x, w)
		AvgPool(avg, x, w)
		divisors := map[int]bool{}
		i := 0
		eachIndexOf(shape, func(at []int) {
			best, sum, n := math.Inf(-1), 0.0, 0.0
			for ky := range w.Kernel[0] {
				for kx := range w.Kernel[1] {
					y, z := at[1]*w.Strides[0]-w.PadTop+ky, at[2]*w.Strides[1]-w.PadLeft+kx
					switch {
					case y >= 0 && y < w.H && z >= 0 && z < w.W:
						v := float64(x[((at[0]*w.H+y)*w.W+z)*w.C+at[3]])
						best, sum, n = math.Max(best, v), sum+v, n+1
					case w.CountPad && y < w.PadEndH && z < w.PadEndW:
						n++
					}
				}
			}
			if float64(top[i]) != best || n > 0 && avg[i] != float32(sum/n) {
				t.Fatalf("%+v at %v: max %v and mean %v, want %v and %v", w, at, top[i], avg[i], best, sum/n)
			}
			divisors[int(n)] = true
			i++
		})
		if got := w.Divisors(); len(got) != len(divisors) || slices.ContainsFunc(got, func(d int) bool { return !divisors[d] }) {
			t.Fatalf("%+v has divisors %v, want those of %v", w, got, divisors)
		}
	})
}

// TestNoAllocation checks that nothing of the data's size is allocated.
func TestNoAllocation(t *testing.T) {
	const n = 1 << 16
	x, y := make([]float32, n), make([]float32, n)
	shape := []int{4, 128, 128}
	for name, f := range map[string]func(){
		"apply":   func() { Apply(Tanh, Params{}, y, x) },
		"binary":  func() { Binary(Add, y, shape, x, shape, x[:128], []int{128, 1}) },
		"softmax": func() { Softmax(y, x, shape, 1) },
		"lrn":     func() { LRN(y, x, shape, 1, 5, 1, 1, 1) },
		"reduce":  func() { Reduce(ReduceMean, y, x, shape, []int{1}) },
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		f()
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; n > 16<<10 {
			t.Errorf("%s allocates %d bytes", name, n)
		}
	}
}
