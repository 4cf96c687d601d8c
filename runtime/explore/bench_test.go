package explore

import (
	"context"
	"fmt"
	goruntime "runtime"
	"syscall"
	"testing"
	"time"

	"situ/ir/irtest"
	"situ/runtime"
)

// resnetSpace varies what a card's designers would; every point maps ResNet-18
// anew.
const resnetSpace = `
models: [digits]
base: %s
objectives: [latency, energy]
parameters:
  array.rows: [32, 64, 128, 256]
  array.cols: [32, 64, 128]
  cores_per_cluster: [16, 32, 64, 128]
  vector.lanes: [64, 128, 256, 512]
  array.input_bits_per_cycle: [1, 2, 4]
  noc.link_bytes_per_cycle: [64, 128, 256]
search: {method: random}
budget: {points: 1000}
`

// BenchmarkResNet18Points takes design points of ResNet-18 at 224² through the
// stages bound and estimate. Points a second are of processor time, which load on
// the machine does not distort.
func BenchmarkResNet18Points(b *testing.B) {
	g, err := irtest.ResNet18(224)
	if err != nil {
		b.Fatal(err)
	}
	ctx := context.Background()
	p, err := runtime.Prepare(ctx, &runtime.Model{Name: "resnet18", Graph: g}, runtime.QuantOptions{})
	if err != nil {
		b.Fatal(err)
	}
	for _, base := range []string{"corsair-chiplet", "corsair-card", "edge-dimc"} {
		b.Run(base, func(b *testing.B) {
			s := parse(b, fmt.Sprintf(resnetSpace, base))
			ev := newEvaluator(s, openStore(b, ""))
			ev.variants[variantKey{0, "int8", 1}] = &variant{prepared: p, batch: 1, idle: make(chan *runtime.Pricer, 1)}
			search, _ := newProposer(s)
			points := search.next(1000)
			unfit := 0
			b.ReportAllocs()
			at, began := 0, cpuTime(b)
			for b.Loop() {
				d := s.design(points[at%len(points)])
				at++
				if d.err != nil {
					b.Fatal(d.err)
				}
				if _, _, err := ev.bound(ctx, d); err != nil {
					b.Fatal(err)
				}
				if _, err := ev.estimate(ctx, d); err != nil {
					unfit++
				}
			}
			b.ReportMetric(float64(at)/(cpuTime(b)-began).Seconds(), "points/core-s")
			b.ReportMetric(float64(unfit)/float64(at), "unfit/point")
			var m goruntime.MemStats
			goruntime.ReadMemStats(&m)
			b.ReportMetric(float64(m.Sys-m.HeapReleased)/(1<<20), "MiB")
		})
	}
}

// cpuTime returns the processor time of this process.
func cpuTime(t testing.TB) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
