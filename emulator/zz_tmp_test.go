package emulator_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"situ/arch"
	"situ/backend/pim/isa"
	"situ/emulator"
)

func BenchmarkZZ(b *testing.B) {
	files, _ := filepath.Glob("/tmp/rn/*.pim")
	for _, f := range files {
		data, _ := os.ReadFile(f)
		p, err := isa.Decode(data)
		if err != nil {
			b.Fatal(err)
		}
		name := "corsair-card"
		if strings.Contains(f, "edge") {
			name = "edge-dimc"
		}
		a, _ := arch.Load(name)
		m, err := emulator.Load(p, a.Chip)
		if err != nil {
			b.Fatal(err)
		}
		var in [][]byte
		for i := range p.Inputs {
			n, _ := p.Inputs[i].Bytes()
			in = append(in, make([]byte, n))
		}
		for _, mode := range []emulator.Mode{emulator.Functional, emulator.Timing, emulator.Full} {
			b.Run(filepath.Base(f)+"/"+mode.String(), func(b *testing.B) {
				m.Prepare()
				var r *emulator.Report
				var r0, r1 syscall.Rusage
				syscall.Getrusage(0, &r0)
				defer func() {
					syscall.Getrusage(0, &r1)
					b.ReportMetric(float64(r1.Utime.Nano()-r0.Utime.Nano()+r1.Stime.Nano()-r0.Stime.Nano())/1e6/float64(b.N), "cpu-ms")
				}()
				for b.Loop() {
					var err error
					r, _, err = m.Run(context.Background(), in, emulator.Options{Mode: mode})
					if err != nil {
						b.Fatal(err)
					}
				}
				if mode == emulator.Full {
					j, _ := json.MarshalIndent(r, "", " ")
					os.WriteFile(f+".json", j, 0o666)
				}
				b.ReportMetric(float64(r.MACs)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GMAC/s")
			})
		}
	}
}
