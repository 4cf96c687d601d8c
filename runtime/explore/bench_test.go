package explore

import (
	"context"
	"fmt"
	"os"
	goruntime "runtime"
	"syscall"
	"testing"
	"time"

	"situ/ir/irtest"
	"situ/runtime"
	"situ/runtime/explore/store"
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
budget: {points: %d}
`

// BenchmarkResNet18Points takes design points of ResNet-18 at 224² through the
// stages bound and estimate. Points a second are of processor time, which load on
// the machine does not distort.
func BenchmarkResNet18Points(b *testing.B) {
	ctx := context.Background()
	p := resnet18(b)
	for _, base := range []string{"corsair-chiplet", "corsair-card", "edge-dimc"} {
		b.Run(base, func(b *testing.B) {
			s := parse(b, fmt.Sprintf(resnetSpace, base, 1000))
			ev := evaluatorOf(s, openStore(b, ""), p)
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

// BenchmarkWorkers explores the same space with one worker on one core and with two
// on two, in turn: preparing models, packing weights and collecting garbage would
// otherwise use the second core for the one worker, too. What a loaded machine takes
// from both it takes from neither for long, so the ratio is that of the best runs.
func BenchmarkWorkers(b *testing.B) {
	resnet := resnet18(b)
	for _, c := range []struct {
		name, space string
		prepared    *runtime.Prepared
	}{
		{"digits", readExample(b, "digits.yaml"), nil},
		{"card", readExample(b, "card.yaml"), nil},
		{"resnet18", fmt.Sprintf(resnetSpace, "corsair-card", 1000), resnet},
	} {
		b.Run(c.name, func(b *testing.B) {
			var wall, cpu [2]time.Duration // the least, of one worker and of two
			for b.Loop() {
				for w := range wall {
					s := parse(b, c.space)
					ev := evaluatorOf(s, openStore(b, ""), c.prepared)
					cores := goruntime.GOMAXPROCS(w + 1)
					began, used := time.Now(), cpuTime(b)
					if _, err := ev.run(context.Background(), Options{Workers: w + 1}); err != nil {
						b.Fatal(err)
					}
					least(&wall[w], time.Since(began))
					least(&cpu[w], cpuTime(b)-used)
					goruntime.GOMAXPROCS(cores)
				}
			}
			b.ReportMetric(wall[0].Seconds(), "s/1")
			b.ReportMetric(wall[1].Seconds(), "s/2")
			b.ReportMetric(wall[0].Seconds()/wall[1].Seconds(), "×speed")
			b.ReportMetric(cpu[1].Seconds()/cpu[0].Seconds(), "×cpu")
		})
	}
}

// least keeps the lesser of two durations, of which the first may be missing.
func least(a *time.Duration, b time.Duration) {
	if *a == 0 || b < *a {
		*a = b
	}
}

// resnet18 prepares ResNet-18 at 224² with synthetic weights.
func resnet18(b *testing.B) *runtime.Prepared {
	g, err := irtest.ResNet18(224)
	if err != nil {
		b.Fatal(err)
	}
	p, err := runtime.Prepare(context.Background(), &runtime.Model{Name: "resnet18", Graph: g}, runtime.QuantOptions{})
	if err != nil {
		b.Fatal(err)
	}
	return p
}

// evaluatorOf returns an evaluator whose only model is a prepared one, if it is
// given, in the place of the space's.
func evaluatorOf(s *Space, st *store.Store, p *runtime.Prepared) *evaluator {
	ev := newEvaluator(s, st)
	if p != nil {
		ev.variants[variantKey{0, "int8", 1}] = &variant{prepared: p, hash: p.Model.Name, batch: 1, idle: make(chan *runtime.Pricer, idlePricers)}
	}
	return ev
}

// readExample returns an example of the documentation.
func readExample(t testing.TB, name string) string {
	b, err := os.ReadFile("../../docs/examples/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// cpuTime returns the processor time of this process.
func cpuTime(t testing.TB) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
