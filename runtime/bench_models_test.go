package runtime

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"situ/backend/gpu"
	"situ/backend/pim"
	"situ/emulator/ptx"
	"situ/internal/cputime"
	"situ/ir"
	"situ/ir/eval"
)

// tenModels are of ten kinds: a residual network, depthwise convolutions, an
// autoencoder, images at two sizes, a quantised ImageNet model, two detectors, a
// recurrent network, sound, and super-resolution, whose images are large.
var tenModels = []string{
	"cifar10-resnet20-bn", "mlperf-tiny-kws-dscnn-int8-qdq", "mlperf-tiny-ad-autoencoder-float", "mlperf-tiny-vww-mobilenetv1-float",
	"mobilenetv2-imagenet-int8-qdq", "nanodet-m-320", "ultraface-rfb-320", "self-mnist-gru-rows", "stm-yamnet-256", "superres-espcn-224",
}

// BenchmarkTenModels sets the reference evaluator and the emulator of
// corsair-card, both on the fixed-point graph, beside ONNX Runtime on the model as
// it came, in one run on the same cores. The evaluator is made once, as ONNX
// Runtime's session is; ×ort is the ratio of the times, below 1 where it is faster.
func BenchmarkTenModels(b *testing.B) {
	target, err := OpenTarget("corsair-card")
	if err != nil {
		b.Fatal(err)
	}
	ctx := context.Background()
	for _, name := range tenModels {
		b.Run(name, func(b *testing.B) {
			p, inputs, model, set := benchModel(b, filepath.Join(sharedDir(b, "onnx", "models"), name))
			e, err := eval.New(p.Fixed)
			if err != nil {
				b.Fatal(err)
			}
			c, err := p.compile(target, pim.Latency)
			if err != nil {
				b.Fatal(err)
			}
			evaluate := func() error { _, err := e.Run(ctx, inputs, eval.Options{}); return err }
			emulate := func() error { _, _, err := c.run(ctx, inputs, FunctionalOnly, 1, nil); return err }
			best := [2]time.Duration{1 << 62, 1 << 62}
			for b.Loop() {
				for range 5 {
					for i, f := range []func() error{evaluate, emulate} {
						s := time.Now()
						if err := f(); err != nil {
							b.Fatal(err)
						}
						best[i] = min(best[i], time.Since(s))
					}
				}
			}
			ms := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e6 }
			b.ReportMetric(ms(best[0]), "ms/evaluator")
			b.ReportMetric(ms(best[1]), "ms/emulator")
			if ort, ok := ortTime(b, model, set); ok {
				b.ReportMetric(ms(ort), "ms/ort")
				b.ReportMetric(float64(best[0])/float64(ort), "×ort-evaluator")
				b.ReportMetric(float64(best[1])/float64(ort), "×ort-emulator")
			}
		})
	}
}

// BenchmarkKernels runs all kernels of whole models on the PTX emulator; the metrics are
// thread instructions a second, on as many cores as there are, and a second of processor
// time. digits, at a batch of 128, needs no llc.
func BenchmarkKernels(b *testing.B) {
	target, err := OpenTarget("a100")
	if err != nil {
		b.Fatal(err)
	}
	run := func(b *testing.B, d *emulation, inputs []*ir.Tensor) {
		ctx := context.Background()
		var n int64
		cpu := cputime.Process()
		for b.Loop() {
			if err := d.run(ctx, inputs, func(_ int, c *ptx.Counters) { n += c.Total.Threads }); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(n)/b.Elapsed().Seconds()/1e6, "Mthreadinst/s")
		b.ReportMetric(float64(n)/(cputime.Process()-cpu).Seconds()/1e6, "Mthreadinst/cpu-s")
	}
	b.Run("digits", func(b *testing.B) {
		d, _, in := onDevice(b, "digits", "a100", nil, throughputBatch)
		run(b, d, in)
	})
	for _, name := range []string{"mlperf-tiny-ic-resnet8-int8-qdq", "bert-toy-6l"} {
		b.Run(name, func(b *testing.B) {
			p, inputs, _, _ := benchModel(b, filepath.Join(sharedDir(b, "onnx", "models"), name))
			prog, err := kernelsOf(context.Background(), p.Chip, target.GPU)
			if errors.Is(err, gpu.ErrNoLLC) {
				b.Skip(err)
			}
			if err != nil {
				b.Fatal(err)
			}
			d, err := newEmulation(prog, target.GPU)
			if err != nil {
				b.Fatal(err)
			}
			run(b, d, inputs)
		})
	}
}
