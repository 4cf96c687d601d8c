package gemm

import (
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// eachISA runs f at every level the machine has.
func eachISA(t *testing.T, f func(t *testing.T)) {
	saved := active
	defer func() { active = saved }()
	for level := isaPortable; level <= bestISA(); level++ {
		active = level
		t.Run(ISA(), f)
	}
}

func TestChooseISA(t *testing.T) {
	for _, c := range []struct {
		want string
		best isa
		got  isa
	}{
		{"", isaAVX512, isaAVX512},
		{"portable", isaAVX512, isaPortable},
		{"avx2", isaAVX512, isaAVX2},
		{"avx512", isaAVX2, isaAVX2},
		{"sse9", isaAVX2, isaAVX2},
	} {
		if got := chooseISA(c.want, c.best); got != c.got {
			t.Errorf("chooseISA(%q, %v) = %v, want %v", c.want, c.best, got, c.got)
		}
	}
}

func TestSplitRows(t *testing.T) {
	for m := 1; m < 40; m++ {
		n1, r1, n2 := splitRows(m, 6)
		if n1*r1+n2*(r1-1) != m || r1 > 6 || n2 > 0 && r1 < 2 {
			t.Errorf("splitRows(%d) = %d×%d + %d×%d", m, n1, r1, n2, r1-1)
		}
	}
}

// int8Case is one random indirect product with slack around every operand.
type int8Case struct {
	c          []int32
	ldc, cols  int
	accumulate bool
	a          []byte
	rows, segs []int32
	segLen     int
	w          []int8 // K×cols
	panels     []int8
}

func drawInt8(t *rapid.T) int8Case {
	r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
	x := int8Case{
		cols:       rapid.OneOf(rapid.IntRange(1, 64), rapid.IntRange(65, 140)).Draw(t, "cols"),
		accumulate: rapid.Bool().Draw(t, "accumulate"),
		segLen:     4 * rapid.OneOf(rapid.IntRange(1, 12), rapid.IntRange(60, 140)).Draw(t, "segLen/4"),
		rows:       make([]int32, rapid.IntRange(1, 14).Draw(t, "rows")),
		segs:       make([]int32, rapid.IntRange(1, 5).Draw(t, "segs")),
	}
	x.ldc = x.cols + rapid.IntRange(0, 5).Draw(t, "ldc slack")
	extreme := rapid.IntRange(0, 2).Draw(t, "extreme") // 1: the largest sums of one sign; 2: extremes of either
	x.a = make([]byte, x.segLen+rapid.IntRange(0, 300).Draw(t, "a"))
	for i := range x.a {
		x.a[i] = byte(r.Uint32())
		switch {
		case extreme == 1:
			x.a[i] = 255
		case extreme == 2:
			x.a[i] = 255 * (x.a[i] & 1)
		}
	}
	room := len(x.a) - x.segLen
	shift := rapid.IntRange(0, 100).Draw(t, "shift")
	for i := range x.rows {
		x.rows[i] = int32(r.IntN(room/2+1) + shift)
	}
	for i := range x.segs {
		x.segs[i] = int32(r.IntN(room-room/2+1) - shift)
	}
	k := len(x.segs) * x.segLen
	x.w = make([]int8, k*x.cols)
	for i := range x.w {
		x.w[i] = int8(r.Uint32())
		switch {
		case extreme == 1:
			x.w[i] = -128
		case extreme == 2:
			x.w[i] = int8(127 - 255*int(x.w[i]&1))
		}
	}
	x.panels = Pack(k, x.cols, x.w, x.cols).data
	x.c = make([]int32, (len(x.rows)-1)*x.ldc+x.cols)
	for i := range x.c {
		x.c[i] = int32(r.Uint32())
	}
	return x
}

// want is the definition, independent of the packing.
func (x *int8Case) want() []int32 {
	c := slices.Clone(x.c)
	for i, row := range x.rows {
		for j := range x.cols {
			sum := int32(0)
			if x.accumulate {
				sum = c[i*x.ldc+j]
			}
			for s, seg := range x.segs {
				for e := range x.segLen {
					sum += int32(x.a[int(row)+int(seg)+e]) * int32(x.w[(s*x.segLen+e)*x.cols+j])
				}
			}
			c[i*x.ldc+j] = sum
		}
	}
	return c
}

func TestIndirect(t *testing.T) {
	eachISA(t, func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			x := drawInt8(t)
			want := x.want()
			Indirect(x.c, x.ldc, x.cols, x.accumulate, x.a, x.rows, x.segs, x.segLen, x.panels)
			if !slices.Equal(x.c, want) {
				t.Fatalf("got  %v\nwant %v", x.c, want)
			}
		})
	})
}

// TestIndirectShapes covers every kernel: each count of rows and columns.
func TestIndirectShapes(t *testing.T) {
	eachISA(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(1, 2))
		a := make([]byte, 100)
		for i := range a {
			a[i] = byte(r.Uint32())
		}
		for m := 1; m <= 13; m++ {
			for cols := 1; cols <= 64; cols++ {
				x := int8Case{cols: cols, ldc: cols, a: a, segLen: 8, segs: []int32{0, 20, 9}, rows: make([]int32, m)}
				for i := range x.rows {
					x.rows[i] = int32(r.IntN(70))
				}
				x.w = make([]int8, 24*cols)
				for i := range x.w {
					x.w[i] = int8(r.Uint32())
				}
				x.panels = Pack(24, cols, x.w, cols).data
				x.c = make([]int32, m*cols)
				want := x.want()
				Indirect(x.c, cols, cols, false, a, x.rows, x.segs, 8, x.panels)
				if !slices.Equal(x.c, want) {
					t.Fatalf("m=%d cols=%d: got %v want %v", m, cols, x.c, want)
				}
			}
		}
	})
}

// TestWrap sums past 32 bits, where all levels must wrap alike.
func TestWrap(t *testing.T) {
	eachISA(t, func(t *testing.T) {
		const k = 1 << 18
		a, w := make([]byte, k), make([]int8, k)
		for i := range a {
			a[i], w[i] = 255, 127
		}
		c := []int32{1 << 30}
		Indirect(c, 1, 1, true, a, []int32{0}, []int32{0}, k, Pack(k, 1, w, 1).Panel(0))
		exact := int64(1<<30) + k*255*127
		if exact <= math.MaxInt32 || c[0] != int32(exact) {
			t.Errorf("got %d, want %d", c[0], int32(exact))
		}
	})
}

func TestMul(t *testing.T) {
	eachISA(t, func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			m := rapid.IntRange(1, 20).Draw(t, "m")
			if rapid.IntRange(0, 9).Draw(t, "tall") == 0 {
				m += mulRows
			}
			k := rapid.OneOf(rapid.IntRange(0, 70), rapid.IntRange(maxK-2, maxK+9), rapid.IntRange(252, 260)).Draw(t, "k")
			n := rapid.IntRange(1, 150).Draw(t, "n")
			lda := (k+3)&^3 + rapid.IntRange(0, 7).Draw(t, "lda slack")
			ldb, ldc := n+rapid.IntRange(0, 3).Draw(t, "ldb slack"), n+rapid.IntRange(0, 3).Draw(t, "ldc slack")
			r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
			a, b := make([]byte, m*lda), make([]int8, k*ldb)
			for i := range a {
				a[i] = byte(r.Uint32())
			}
			for i := range b {
				b[i] = int8(r.Uint32())
			}
			got := make([]int32, m*ldc)
			for i := range got {
				got[i] = 77
			}
			want := slices.Clone(got)
			for i := range m {
				row := want[i*ldc : i*ldc+n]
				clear(row)
				for x := range k {
					for j, w := range b[x*ldb : x*ldb+n] {
						row[j] += int32(a[i*lda+x]) * int32(w)
					}
				}
			}
			Mul(got, ldc, a, lda, m, Pack(k, n, b, ldb))
			if !slices.Equal(got, want) {
				t.Fatalf("m=%d k=%d n=%d differ", m, k, n)
			}
		})
	})
}

// TestSegmentsNotOfFour computes the same product by padded segments and by a
// gathered copy.
func TestSegmentsNotOfFour(t *testing.T) {
	eachISA(t, func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			nseg, segLen := rapid.IntRange(1, 5).Draw(t, "nseg"), rapid.IntRange(1, 23).Draw(t, "segLen")
			n := rapid.IntRange(1, 64).Draw(t, "n")
			r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
			a, w := make([]byte, 200), make([]int8, nseg*segLen*n)
			for i := range a {
				a[i] = byte(r.Uint32())
			}
			for i := range w {
				w[i] = int8(r.Uint32())
			}
			rows, segs := make([]int32, 7), make([]int32, nseg)
			for i := range rows {
				rows[i] = int32(r.IntN(80))
			}
			for i := range segs {
				segs[i] = int32(r.IntN(80))
			}
			c1, c2 := make([]int32, 7*n), make([]int32, 7*n)
			padded := (segLen + 3) &^ 3
			b := PackSegments(nseg, segLen, n, w, n)
			Indirect(c1, n, n, false, a, rows, segs, padded, b.Panel(0))

			packed := make([]byte, 7*200)
			k := PackRows(packed, 200, a, rows, segs, segLen)
			if want := (nseg*segLen + 3) &^ 3; k != want {
				t.Fatalf("PackRows filled %d, want %d", k, want)
			}
			Mul(c2, n, packed, 200, 7, Pack(nseg*segLen, n, w, n))
			if !slices.Equal(c1, c2) {
				t.Fatalf("padded segments %v\ngathered copy %v", c1, c2)
			}
		})
	})
}

func TestChecks(t *testing.T) {
	a, c, panel := make([]byte, 64), make([]int32, 128), make([]int8, PanelBytes(16))
	zero := []int32{0}
	for name, f := range map[string]func(){
		"row before a":       func() { Indirect(c, 64, 64, false, a, []int32{-1}, zero, 16, panel) },
		"row past a":         func() { Indirect(c, 64, 64, false, a, []int32{49}, zero, 16, panel) },
		"segment past a":     func() { Indirect(c, 64, 64, false, a, zero, []int32{0, 57}, 8, panel) },
		"short panel":        func() { Indirect(c, 64, 64, false, a, zero, zero, 20, panel) },
		"short c":            func() { Indirect(c, 65, 64, false, a, []int32{0, 1}, zero, 16, panel) },
		"overlapping c":      func() { Indirect(c, 63, 64, false, a, []int32{0, 1}, zero, 16, panel) },
		"panel of another K": func() { Indirect(c, 64, 64, false, a, zero, zero, 12, panel) },
		"segment of 6":       func() { Indirect(c, 64, 64, false, a, zero, zero, 6, panel) },
		"65 columns":         func() { Indirect(c, 65, 65, false, a, zero, zero, 16, panel) },
		"float row past a": func() {
			F32Indirect(make([]float32, 64), 64, 64, false, make([]float32, 8), []int32{5}, zero, 4, make([]float32, 256))
		},
		"float short panel": func() {
			F32Indirect(make([]float32, 64), 64, 64, false, make([]float32, 8), zero, zero, 4, make([]float32, 255))
		},
		"Mul short a":         func() { Mul(c, 64, a, 16, 5, Pack(16, 1, make([]int8, 16), 1)) },
		"F32 short b":         func() { F32(make([]float32, 4), 2, make([]float32, 4), 2, 2, 2, 2, make([]float32, 3), 2) },
		"overflowing ldc":     func() { Indirect(c, 1<<62, 64, false, a, make([]int32, 5), zero, 16, panel) },
		"overflowing segment": func() { Indirect(c, 64, 64, false, a, zero, zero, 1<<61, panel) },
		"Mul overflowing lda": func() { Mul(c, 1, a, 1<<62, 5, Pack(16, 1, make([]int8, 16), 1)) },
		"PackRows lda":        func() { PackRows(make([]byte, 64), 4, a, zero, zero, 5) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			f()
		}()
	}
	Indirect(nil, 64, 64, false, nil, nil, nil, 4, nil) // nothing to do
}

// TestFMA32 checks the portable fused multiply-add against exact arithmetic.
func TestFMA32(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := math.Float32frombits(rapid.Uint32().Draw(t, "x"))
		y := math.Float32frombits(rapid.Uint32().Draw(t, "y"))
		z := math.Float32frombits(rapid.Uint32().Draw(t, "z"))
		p := float64(x) * float64(y)
		if rapid.Bool().Draw(t, "near") && p != 0 && !math.IsNaN(p) && !math.IsInf(p, 0) {
			z = float32(-p) * float32(rapid.SampledFrom([]float64{1, -1, 1 << 20, 1 << 24, 1.0 / (1 << 24), 1.0 / (1 << 30)}).Draw(t, "factor"))
		}
		if rapid.Bool().Draw(t, "tiny") { // around the subnormal float32
			x = math.Float32frombits(math.Float32bits(x)&^(0xff<<23) | uint32(rapid.IntRange(40, 80).Draw(t, "ex"))<<23)
			y = math.Float32frombits(math.Float32bits(y)&^(0xff<<23) | uint32(rapid.IntRange(40, 80).Draw(t, "ey"))<<23)
			z = math.Float32frombits(math.Float32bits(z)&^(0xff<<23) | uint32(rapid.IntRange(0, 4).Draw(t, "ez"))<<23)
			p = float64(x) * float64(y)
		}
		if p != p || math.IsInf(p, 0) || z != z || math.IsInf(float64(z), 0) {
			t.Skip("not finite")
		}
		sum := new(big.Float).SetPrec(1200).SetFloat64(p)
		sum.Add(sum, new(big.Float).SetFloat64(float64(z)))
		want, _ := sum.Float32()
		if got := fma32(x, y, z); got != want {
			t.Fatalf("fma32(%g, %g, %g) = %g, want %g", x, y, z, got, want)
		}
	})
}

// TestFMA32Ties makes near ties: sums a little off the middle of two float32, so
// little that float64 rounds some of them to the middle.
func TestFMA32Ties(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 9))
	rounded := 0
	for range 200_000 {
		z := float32(1<<23 + r.IntN(1<<23)) // its last place is 1
		e := math.Ldexp(1, -10-r.IntN(13))
		x, y := float32(1+e), float32(1-e*float64(r.IntN(3)-1))/2 // x·y = ½ and a little
		sum := new(big.Float).SetPrec(1200).SetFloat64(float64(x) * float64(y))
		want, _ := sum.Add(sum, new(big.Float).SetFloat64(float64(z))).Float32()
		if got := fma32(x, y, z); got != want {
			t.Fatalf("fma32(%g, %g, %g) = %g, want %g", x, y, z, got, want)
		}
		if float32(float64(x)*float64(y)+float64(z)) != want {
			rounded++
		}
	}
	if rounded == 0 {
		t.Error("no case needs the second rounding corrected")
	}
}

// wantF32 is the definition of F32's bits.
func wantF32(c []float32, ldc int, a []float32, lda, m, k, n int, b []float32, ldb int) {
	for i := range m {
		for j := range n {
			sum := float32(0)
			for x := range k {
				sum = fma32(a[i*lda+x], b[x*ldb+j], sum)
			}
			c[i*ldc+j] = sum
		}
	}
}

func randomF32(r *rand.Rand, n int) []float32 {
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(r.NormFloat64())
	}
	return v
}

func TestF32(t *testing.T) {
	eachISA(t, func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			m := rapid.OneOf(rapid.IntRange(1, 20), rapid.IntRange(f32Rows-1, f32Rows+8)).Draw(t, "m")
			k := rapid.IntRange(0, 40).Draw(t, "k")
			if rapid.IntRange(0, 9).Draw(t, "deep") == 0 {
				k += f32K
			}
			n := rapid.IntRange(1, 140).Draw(t, "n")
			lda, ldb, ldc := k+rapid.IntRange(0, 3).Draw(t, "lda slack"), n+rapid.IntRange(0, 3).Draw(t, "ldb slack"), n+rapid.IntRange(0, 3).Draw(t, "ldc slack")
			r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
			a, b, got := randomF32(r, m*lda), randomF32(r, k*ldb), randomF32(r, m*ldc)
			want := slices.Clone(got)
			wantF32(want, ldc, a, lda, m, k, n, b, ldb)
			F32(got, ldc, a, lda, m, k, n, b, ldb)
			if !slices.Equal(got, want) {
				t.Fatalf("m=%d k=%d n=%d differ", m, k, n)
			}
		})
	})
}

// TestF32Parallel checks that a product large enough to be split over
// goroutines has the bits of its rows computed one at a time.
func TestF32Parallel(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	const m, k, n = 250, 300, 200
	a, b := randomF32(r, m*k), randomF32(r, k*n)
	got, want := make([]float32, m*n), make([]float32, m*n)
	F32(got, n, a, k, m, k, n, b, n)
	for i := range m {
		F32(want[i*n:], n, a[i*k:], k, 1, k, n, b, n)
	}
	if !slices.Equal(got, want) {
		t.Error("bits depend on m")
	}
}

func TestF32Indirect(t *testing.T) {
	eachISA(t, func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			cols := rapid.IntRange(1, 64).Draw(t, "cols")
			segLen := rapid.IntRange(1, 17).Draw(t, "segLen")
			rows, segs := make([]int32, rapid.IntRange(1, 20).Draw(t, "rows")), make([]int32, rapid.IntRange(1, 6).Draw(t, "segs"))
			r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
			a := randomF32(r, 64)
			for i := range rows {
				rows[i] = int32(r.IntN(20))
			}
			for i := range segs {
				segs[i] = int32(r.IntN(64 - 17 - 19))
			}
			k := len(segs) * segLen
			w := randomF32(r, k*cols)
			panel := make([]float32, k*PanelCols)
			PackF32Into(panel, k, cols, w, cols)
			got := randomF32(r, len(rows)*cols)
			want := slices.Clone(got)
			accumulate := rapid.Bool().Draw(t, "accumulate")
			for i, row := range rows {
				for j := range cols {
					sum := want[i*cols+j]
					if !accumulate {
						sum = 0
					}
					for s, seg := range segs {
						for x := range segLen {
							sum = fma32(a[int(row)+int(seg)+x], w[(s*segLen+x)*cols+j], sum)
						}
					}
					want[i*cols+j] = sum
				}
			}
			F32Indirect(got, cols, cols, accumulate, a, rows, segs, segLen, panel)
			if !slices.Equal(got, want) {
				t.Fatalf("got  %v\nwant %v", got, want)
			}
		})
	})
}

func TestAllocations(t *testing.T) {
	const k, n, m = 256, 128, 14
	a, c, b := make([]byte, m*k), make([]int32, m*n), Pack(k, n, make([]int8, k*n), n)
	eachISA(t, func(t *testing.T) {
		if got := testing.AllocsPerRun(3, func() { Mul(c, n, a, k, m, b) }); got != 0 {
			t.Errorf("Mul allocates %v times", got)
		}
	})
}
