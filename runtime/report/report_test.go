package report

import (
	"bytes"
	"io"
	"math"
	"strings"
	"testing"

	"situ/backend/gpu/cuda"
	"situ/runtime"
)

func TestUnit(t *testing.T) {
	for _, tt := range []struct {
		v    float64
		want string
	}{
		{0, "0 s"}, {1, "1.00 s"}, {999.4, "999 s"}, {999.6, "1.00 ks"}, {0.0012345, "1.23 ms"}, {1.5e-7, "150 ns"},
		{-2.5e6, "-2.50 Ms"}, {3e-16, "0.30 fs"}, {5e20, "500 Es"},
	} {
		if got := Unit(tt.v, "s"); got != tt.want {
			t.Errorf("Unit(%g) = %q, want %q", tt.v, got, tt.want)
		}
	}
}

func TestWrap(t *testing.T) {
	text := strings.Repeat("word ", 60)
	for _, line := range strings.Split(wrap(text), "\n") {
		if len(line) > 96 {
			t.Errorf("line of %d characters", len(line))
		}
	}
	if got := strings.ReplaceAll(wrap(text), "\n", " "); got != text {
		t.Error("wrap changed the words")
	}
}

func results() []*runtime.Result {
	a := &runtime.Result{Target: "pim", Batch: 1, Method: runtime.Emulated, LatencyS: 1e-6, ThroughputS: 2e6, Compulsory: 100,
		Energy: runtime.Energy{Total: 3e-6, SRAM: 2e-6, DRAM: 1e-6}, Steady: runtime.Energy{Total: 2e-6},
		Bytes: runtime.Bytes{DRAM: 50}, Fallback: []runtime.Fallback{{Node: "sm", Op: "softmax", Share: 0.01}},
		Layers: []runtime.LayerCost{{Name: "c1", Op: "conv2d", TimeS: 1e-6, Energy: runtime.Energy{Total: 1e-6}}},
		MACs:   1000, Peak: runtime.Peak{MACsPerS: 1e12, DRAMBytesPerS: 1e9}}
	b := &runtime.Result{Target: "gpu", Batch: 1, Method: runtime.Counted, LatencyS: 4e-6, ThroughputS: 1e6, Compulsory: 100,
		Energy: runtime.Energy{Total: 30e-6, SRAM: 3e-6, DRAM: 27e-6}, Steady: runtime.Energy{Total: 1e-6},
		Bytes: runtime.Bytes{DRAM: 200}, Fallback: a.Fallback}
	return []*runtime.Result{a, b}
}

func TestConclusion(t *testing.T) {
	rs := results()
	got := Conclusion(rs)
	want := "pim needs 10.0× less energy per inference than gpu; 96 % of the difference is DRAM (memory outside the chip): 1.00 µJ against 27.0 µJ. At steady state the order turns: 2.00 µJ against 1.00 µJ. One input is also 4.00× faster."
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if c := Conclusion(rs[:1]); c != "" {
		t.Errorf("one target gives a conclusion: %s", c)
	}
	rs[1].SteadyAlone = true
	if c := Conclusion(rs); !strings.Contains(c, "2.00 µJ against 1.00 µJ, but gpu runs one input after the other there. One") {
		t.Errorf("steady figures without a batch: %s", c)
	}
	rs[1].Energy = rs[0].Energy
	if c := Conclusion(rs); c != "pim and gpu need about the same energy." {
		t.Errorf("equal targets: %s", c)
	}
}

func TestCompare(t *testing.T) {
	var b bytes.Buffer
	if err := Compare(&b, "m   int8", results(), &Accuracy{Images: 10, Float: 0.9, Fixed: 0.8, SameBits: true}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"latency                         1.00 µs    4.00 µs\n",
		"  DRAM × compulsory                0.50       2.00\n",
		"top-1 on 10 test images: 80.0 % (float 90.0 %); emulator and reference evaluator agree on every bit of these, too\n",
		"all: in float32: softmax \"sm\" (1.00 % of the element operations)\n",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("missing %q in\n%s", want, b.String())
		}
	}
	if strings.Contains(b.String(), "network between nodes") {
		t.Error("a level that no target uses has a row")
	}
}

func TestHostNote(t *testing.T) {
	rs := results()
	rs[0].Host = &runtime.Host{Share: 0.25, BytesTo: 512}
	rs[0].Fallback = append(rs[0].Fallback, runtime.Fallback{Node: "nms", Op: "NonMaxSuppression", Share: 0.25, On: runtime.OnHost})
	rs[1].Host, rs[1].Fallback = &runtime.Host{Uncounted: true}, []runtime.Fallback{{Node: "nms", Op: "NonMaxSuppression", On: runtime.OnHost}}
	got := strings.Join(notes(rs), "\n")
	want := "pim: on the host, whose time and energy are in none of the figures, 25.0 % of the element operations: NonMaxSuppression \"nms\" (25.0 %); 512 B go to it and 0 B come from it\n" +
		"pim: in float32: softmax \"sm\" (1.00 % of the element operations)\n" +
		"gpu: on the host, whose time and energy are in none of the figures, how much is not counted without a run: NonMaxSuppression \"nms\"; 0 B go to it and 0 B come from it"
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestHTML checks that the page is whole and asks nothing of the network.
func TestHTML(t *testing.T) {
	rs := results()
	rs[0].Layers[0].Name = `<script>alert(1)</script>`
	rs[0].Target = `a<b`
	var b bytes.Buffer
	if err := HTML(&b, "m", rs, nil); err != nil {
		t.Fatal(err)
	}
	page := b.String()
	if n := strings.Count(page, "<svg"); n < 5 {
		t.Errorf("%d charts", n)
	}
	for _, bad := range []string{"<script", "src=", "href=\"http", "url(", "a<b"} {
		if strings.Contains(page, bad) {
			t.Errorf("page contains %q", bad)
		}
	}
}

func TestNoise(t *testing.T) {
	db := 40.25
	for _, tt := range []struct {
		a    runtime.Agreement
		want string
	}{
		{runtime.Agreement{}, "equal"},
		{runtime.Agreement{MaxAbsError: 0.5, SQNRdB: &db}, "largest error 0.5, signal to quantisation noise 40.2 dB"},
		{runtime.Agreement{MaxAbsError: 0.5}, "largest error 0.5, no signal to compare with"},
		{runtime.Agreement{MaxAbsError: math.MaxFloat64}, "NaN or infinity on one side only"},
	} {
		if got := noise(&tt.a); got != tt.want {
			t.Errorf("%+v: %q, want %q", tt.a, got, tt.want)
		}
	}
}

func TestDevice(t *testing.T) {
	card := cuda.Device{Ordinal: 1, Name: "NVIDIA Test", SM: 90, SMs: 132, ClockKHz: 1_755_000, MemoryBytes: 80e9}
	run := &runtime.DeviceRun{
		Model: "digits", Quant: "int8", Device: card, LatencyS: 30e-6, Predicted: 25e-6, Arch: "h100", Runs: 20, Different: 2, Elements: 10, MaxError: 0.5,
		Kernels: []runtime.KernelTime{{Kernel: "conv_0", Op: "conv2d", Node: "Conv_0", MeasuredS: 10e-6, PredictedS: 8e-6, Registers: 64, LocalBytes: 16}},
		Outputs: []runtime.Output{{Name: "y", Type: "f32", Shape: []int{1, 10}, SHA256: strings.Repeat("ab", 32)}},
	}
	for _, tt := range []struct {
		name  string
		write func(w io.Writer) error
		want  []string
	}{
		{"list", func(w io.Writer) error {
			return Devices(w, &runtime.Devices{Driver: 12040, Devices: []cuda.Device{card}})
		}, []string{"CUDA driver 12.4", "cuda:1   NVIDIA Test   sm_90   132 SMs   1.75 GHz   80.0 GB"}},
		{"none", func(w io.Writer) error { return Devices(w, &runtime.Devices{Reason: "gone"}) }, []string{"no device: gone"}},
		{"run", func(w io.Writer) error { return DeviceRun(w, run) }, []string{
			`conv_0    10.0 µs     8.00 µs   64 + 16 B spilled   conv2d "Conv_0"`, "median of 20 runs", "predicted for h100",
			"2 of 10 elements differ from the reference evaluator's, by at most 0.5", `output "y" f32[1×10] sha256 abababababababab`}},
		{"check", func(w io.Writer) error {
			return DeviceCheck(w, &runtime.DeviceCheck{
				Driver: 12040, Device: card, GEMM: runtime.GEMMCheck{Size: 8192, TimeS: 0.001, OpsPerS: 1.1e15, PeakShare: 0.6, Rows: 64, BitExact: true},
				Models: []runtime.DeviceResult{{Name: "a", Run: run}, {Name: "b", Error: "no memory"}},
			})
		}, []string{"int8 product, 8192 × 8192 × 8192   1.00 ms", "1.10 POPS, 60.0 % of peak, the same bits in 64 rows", "failed: no memory"}},
	} {
		var b strings.Builder
		if err := tt.write(&b); err != nil {
			t.Fatal(err)
		}
		for _, w := range tt.want {
			if !strings.Contains(b.String(), w) {
				t.Errorf("%s lacks %q:\n%s", tt.name, w, &b)
			}
		}
	}
}

// However many columns there are, each has a row of shares and a total that are told
// apart, and each target one colour.
func TestPlotsOfManyColumns(t *testing.T) {
	var rs []*runtime.Result
	for _, target := range []string{"a", "b", "c", "d", "e", "f", "g", "h", "i"} {
		for _, batch := range []int{1, 8} {
			r := *results()[0]
			r.Target, r.Batch = target, batch
			r.Energy.Total *= float64(batch) // as if it were another
			rs = append(rs, &r)
		}
	}
	e := string(energyPlot(rs, "energy", func(r *runtime.Result) *runtime.Energy { return &r.Energy }))
	for _, r := range rs {
		if n := strings.Count(e, ">"+label(r, true)+"</text>"); n != 1 {
			t.Errorf("%s stands %d times in the plot", label(r, true), n)
		}
	}
	if n := strings.Count(e, ">3.00 µJ<"); n != 9 {
		t.Errorf("3 µJ stands %d times", n)
	}
	_, keys, err := rooflinePlot(rs)
	if err != nil || len(keys) != 9 || keys[0] == keys[1] || keys[8] != (key{keys[0].Colour, "i (dashed)"}) {
		t.Errorf("keys %v, %v", keys, err)
	}
	if e := energyPlot(rs[:1], "none", func(*runtime.Result) *runtime.Energy { return &runtime.Energy{} }); e != "" {
		t.Errorf("a plot of nothing: %s", e)
	}
}
