package gpu

import (
	"math"
	"testing"

	"situ/arch"
	"situ/ir"
	"situ/ir/irtest"
)

func device(t testing.TB, name string) *arch.GPU {
	t.Helper()
	a, err := arch.Load(name)
	if err != nil {
		t.Fatal(err)
	}
	return a.GPU
}

func estimate(t testing.TB, g *ir.Graph, gpu *arch.GPU, opt Options) *Report {
	t.Helper()
	r, err := Estimate(g, gpu, opt)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// MLPerf Inference v3.1, closed division, NVIDIA, Offline: any batch may be used,
// so the model's best batch is compared.
func TestResNet50MeetsMLPerf(t *testing.T) {
	g := irtest.ResNet50(t)
	for _, tt := range []struct {
		gpu       string
		published float64 // samples/s
	}{{"h100", 88526}, {"l4", 12881.7}} {
		gpu := device(t, tt.gpu)
		for _, batch := range []int{1, 8, 32, 128, 1024} {
			r := estimate(t, g, gpu, Options{Batch: batch})
			t.Logf("%-5s batch %4d  %8.1f µs  %6.0f /s  %4.1f %% of peak  %5.2f mJ an input  %3.0f W  DRAM %5.2f MB an input",
				tt.gpu, batch, 1e6*r.LatencyS, r.ThroughputPerS, 100*r.Utilisation, 1e3*r.Energy.Total()/float64(batch), r.PowerW,
				float64(r.Bytes.DRAM)/1e6/float64(batch))
		}
		best, err := BestBatch(g, gpu, 4096, Options{})
		if err != nil {
			t.Fatal(err)
		}
		off := best.ThroughputPerS/tt.published - 1
		// The published rate was reached within the board's power limit, which bounds
		// the energy of an input from above.
		bound, energy := gpu.Power.TDPW.Value/tt.published, best.Energy.Total()/float64(best.Batch)
		t.Logf("%-5s energy of an input: at most %.2f mJ by rate and power limit, model %.2f mJ", tt.gpu, 1e3*bound, 1e3*energy)
		if energy > 1.15*bound || energy < 0.4*bound {
			t.Errorf("%s: model spends %.2f mJ an input, rate and power limit allow %.2f", tt.gpu, 1e3*energy, 1e3*bound)
		}
		t.Logf("%-5s ResNet-50 Offline: published %.0f /s, model %.0f /s at batch %d (%+.0f %%)", tt.gpu, tt.published, best.ThroughputPerS, best.Batch, 100*off)
		if off < -0.35 || off > 0.35 {
			t.Errorf("%s: model is %+.0f %% off, want within 35 %%", tt.gpu, 100*off)
		}
	}
}

// LLMCompass measurements of fp16 products on A100, M×12288×12288 and 8192×N×N.
// The measurements contain a constant: the three smallest products all take 24 to
// 26 µs longer than the model says, as a host that waits for each product would
// add. It is added to the model's time here; without it the rest is within 12 %.
func TestA100ProductsMeetMeasurements(t *testing.T) {
	const hostS = 25e-6
	gpu := device(t, "a100")
	t.Logf("%22s %9s %9s %9s", "M×N×K", "measured", "model", "with host")
	var worst float64
	for _, tt := range []struct {
		m, nk    int
		measured float64 // TFLOPS
	}{
		{64, 12288, 102}, {128, 12288, 193}, {256, 12288, 243}, {512, 12288, 253}, {1024, 12288, 258}, {4096, 12288, 277}, {16384, 12288, 291},
		{8192, 256, 30}, {8192, 512, 91}, {8192, 1024, 185}, {8192, 2048, 244}, {8192, 4096, 269}, {8192, 8192, 278},
	} {
		r := estimate(t, matmul16(t, tt.m, tt.nk, tt.nk), gpu, Options{})
		flop := 2 * float64(r.MACs)
		got := flop / (r.LatencyS + hostS) / 1e12
		off := got/tt.measured - 1
		worst = max(worst, math.Abs(off))
		t.Logf("%7d×%6d×%6d %6.0f TF %6.0f TF %6.0f TF (%+3.0f %%)  %3.0f W, %s, %s", tt.m, tt.nk, tt.nk, tt.measured,
			flop/r.LatencyS/1e12, got, 100*off, r.PowerW, r.Layers[0].Bound, r.Layers[0].Mapping)
		if math.Abs(off) > 0.15 {
			t.Errorf("%d×%d×%d: model %.0f TFLOPS, measured %.0f; want within 15 %%", tt.m, tt.nk, tt.nk, got, tt.measured)
		}
	}
	t.Logf("largest deviation %.0f %%", 100*worst)
}

// A large product at full rate must draw most of the board's power and not more:
// the energies of the description and its measured ceilings have to fit together.
func TestFullRatePowerIsPlausible(t *testing.T) {
	for _, name := range []string{"a100", "h100", "l4"} {
		gpu := device(t, name)
		b := irtest.NewNet(t, "gemm")
		int8 := b.Done(b.Dense(b.Input(8192, 8192), 8192))
		for _, g := range []*ir.Graph{int8, matmul16(t, 8192, 8192, 8192)} {
			r := estimate(t, g, gpu, Options{})
			share := r.PowerW / gpu.Power.TDPW.Value
			t.Logf("%-5s %s: %4.0f W of %4.0f W, %3.0f %% of the peak rate, limited: %v", name, g.Type(g.Inputs[0]).DType, r.PowerW, gpu.Power.TDPW.Value, 100*r.Utilisation, r.PowerLimited)
			if share < 0.6 {
				t.Errorf("%s: %.0f W at full rate, the board is rated for %.0f", name, r.PowerW, gpu.Power.TDPW.Value)
			}
			// L4's 72 W are known to hold products to about half of its peak.
			if r.PowerLimited && r.Utilisation < 0.4 {
				t.Errorf("%s: the power limit leaves %.0f %% of the peak", name, 100*r.Utilisation)
			}
		}
	}
}
