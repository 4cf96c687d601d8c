package gpu

import (
	"math"
	"reflect"
	"testing"

	"situ/arch"
	"situ/ir"
	"situ/ir/irtest"

	"pgregory.net/rapid"
)

// randomNet draws a small convolutional network with branches.
func randomNet(t *testing.T, rt *rapid.T) *ir.Graph {
	b := irtest.NewNet(t, "random")
	size := rapid.IntRange(1, 40).Draw(rt, "size")
	x := b.Input(1, size, size, rapid.IntRange(1, 80).Draw(rt, "channels"))
	for range rapid.IntRange(1, 8).Draw(rt, "layers") {
		s := b.G.Type(x).Shape
		switch rapid.IntRange(0, 5).Draw(rt, "layer") {
		case 0:
			x = b.Conv(x, rapid.IntRange(1, 300).Draw(rt, "out"), 2*rapid.IntRange(0, 2).Draw(rt, "k")+1, rapid.IntRange(1, 2).Draw(rt, "stride"), 1, true)
		case 1:
			x = b.Conv(x, s[3], 3, 1, s[3], true)
		case 2:
			x = b.Add(b.Conv(x, s[3], 3, 1, 1, false), x)
		case 3:
			x = b.Must(b.G.Add(ir.MaxPool, b.Name("pool"), &ir.PoolAttr{Kernel: [2]int{1, 1}, Strides: [2]int{2, 2}, Dilations: [2]int{1, 1}}, x))
		case 4:
			x = b.Must(b.G.Add(ir.Concat, b.Name("cat"), &ir.AxisAttr{Axis: 3}, b.Conv(x, 8, 1, 1, 1, true), b.Conv(x, 24, 3, 1, 1, true)))
		case 5:
			x = b.Must(b.G.Add(ir.Transpose, b.Name("turn"), &ir.PermAttr{Perm: []int{0, 2, 1, 3}}, x))
		}
	}
	return b.Done(x)
}

func TestProperties(t *testing.T) {
	var gpus []*arch.GPU
	for _, name := range []string{"a100", "h100", "l4"} {
		gpus = append(gpus, device(t, name))
	}
	rapid.Check(t, func(rt *rapid.T) {
		g := randomNet(t, rt)
		gpu := rapid.SampledFrom(gpus).Draw(rt, "gpu")
		batch := rapid.IntRange(1, 64).Draw(rt, "batch")
		r := estimate(t, g, gpu, Options{Batch: batch})

		if again := estimate(t, g, gpu, Options{Batch: batch}); !reflect.DeepEqual(r, again) {
			rt.Fatal("two estimates of the same run differ")
		}
		// The whole is the sum of its kernels.
		var sum Report
		for _, l := range r.Layers {
			sum.LatencyS += l.TimeS
			sum.MACs += l.MACs
			sum.Bytes.DRAM += l.Bytes.DRAM
			sum.Bytes.SRAM += l.Bytes.SRAM
			sum.Bytes.Register += l.Bytes.Register
			sum.Energy.add(l.Energy)
			if l.TimeS <= 0 || l.Energy.Static <= 0 || l.Bound == "" || l.Mapping == "" {
				rt.Fatalf("kernel %+v", l)
			}
		}
		near := func(what string, a, b float64) {
			if math.Abs(a-b) > 1e-9*math.Abs(b)+float64(len(r.Layers)) { // each is rounded to a whole byte
				rt.Fatalf("%s: kernels add up to %g, report says %g", what, a, b)
			}
		}
		near("DRAM bytes", float64(sum.Bytes.DRAM), float64(r.Bytes.DRAM))
		near("SRAM bytes", float64(sum.Bytes.SRAM), float64(r.Bytes.SRAM))
		near("register bytes", float64(sum.Bytes.Register), float64(r.Bytes.Register))
		if sum.MACs != r.MACs {
			rt.Fatalf("kernels do %d multiply-accumulates, report says %d", sum.MACs, r.MACs)
		}
		for _, p := range [][2]float64{{sum.LatencyS, r.LatencyS}, {sum.Energy.Total(), r.Energy.Total()}} {
			if math.Abs(p[0]-p[1]) > 1e-9*p[1] {
				rt.Fatalf("kernels add up to %g, report says %g", p[0], p[1])
			}
		}
		// Physical limits.
		io := int64(batch) * (g.Type(g.Inputs[0]).Bytes() + g.Type(g.Outputs[0]).Bytes())
		if len(r.Layers) > 0 && r.Bytes.DRAM < io {
			rt.Fatalf("%d B of DRAM traffic, inputs and outputs alone have %d", r.Bytes.DRAM, io)
		}
		if r.Utilisation < 0 || r.Utilisation > 1 {
			rt.Fatalf("utilisation %g", r.Utilisation)
		}
		if r.PowerW > gpu.Power.TDPW.Value*(1+1e-9) {
			rt.Fatalf("draws %g W", r.PowerW)
		}
		if floor := float64(r.Bytes.DRAM) / (gpu.DRAM.GBs.Value * 1e9); r.LatencyS < floor {
			rt.Fatalf("%g s, DRAM traffic alone needs %g s", r.LatencyS, floor)
		}
		// More inputs take longer, launching one by one too. Under the power limit
		// time follows energy, which gaps and other tiles may lower a little.
		if more := estimate(t, g, gpu, Options{Batch: 2 * batch}); more.LatencyS < r.LatencyS*(1-1e-9) && !more.PowerLimited && !r.PowerLimited {
			rt.Fatalf("batch %d takes %g s, batch %d %g s", batch, r.LatencyS, 2*batch, more.LatencyS)
		}
		if slow := estimate(t, g, gpu, Options{Batch: batch, Stream: true}); slow.LatencyS < r.LatencyS && !r.PowerLimited {
			rt.Fatalf("one by one %g s, captured %g s", slow.LatencyS, r.LatencyS)
		}
	})
}
