package emulator_test

import (
	"context"
	"math/rand/v2"
	"testing"

	"situ/arch"
	"situ/backend/pim/isa"
	"situ/emulator"
	"situ/emulator/internal/testchip"
)

// card is the corsair-card preset.
func card(tb testing.TB) *arch.Chip {
	a, err := arch.Load("corsair-card")
	if err != nil {
		tb.Fatal(err)
	}
	return a.Chip
}

// convStack is a program as ResNet-50 has in its middle: on each cluster, layers
// of a 3×3 product of 98 rows of 576 by 64 and its requantisation, with an
// exchange of rows between neighbours and a barrier after each.
func convStack(chip *arch.Chip, layers int) *isa.Program {
	const rows, width, channels, k = 98, 14, 64, 576
	rng := rand.New(rand.NewPCG(5, 6))
	consts := make([]byte, layers*k*channels+12*channels)
	for i := range consts {
		consts[i] = byte(rng.Uint32())
	}
	params := int64(layers * k * channels)
	for c := range channels {
		copy(consts[params+int64(8*channels+4*c):], []byte{45, 0, 0, 0})
	}
	p := testchip.Program(chip, consts, 0)
	n := len(p.Main)
	const pitch = (width + 2) * channels // a row of the picture with its borders
	for i := range p.Main {
		testchip.Emit(&p.Init[i], isa.OpLoad, 1<<20, params, 1, 0, 0, 1, 0, 0, 12*channels)
		if i == 0 {
			for l := range int64(layers) {
				testchip.Emit(&p.Init[0], isa.OpLoadW, l*4096, l*k*channels, 9, 1, 9, 7, 8, 0, int64(n), 0)
			}
		}
		s := &p.Main[i]
		for l := range int64(layers) {
			p.Layers = append(p.Layers, isa.Layer{Name: "conv"})
			from, to := l%2*262144, (l+1)%2*262144
			testchip.EmitLayer(s, int32(l), isa.OpMVM, 0, l*4096, from, 7, pitch, 14, channels, 1, 0, 3, pitch, 1, 0, 3*channels, 1, 9, 7, 0, channels, 8, 0, 0, 0)
			testchip.EmitLayer(s, int32(l), isa.OpRequant, to+pitch+channels, 0, 1<<20, 7, pitch, 14, channels, channels, 4*channels, 3, 3, 255)
			testchip.EmitLayer(s, int32(l), isa.OpSend, to, to+7*pitch, 1, 0, 0, 1, 0, 0, pitch, int64((i+1)%n), 1)
			testchip.EmitLayer(s, int32(l), isa.OpBarrier, l, 0, int64(n))
		}
		testchip.Emit(s, isa.OpHalt)
	}
	return p
}

func benchmarkStack(b *testing.B, mode emulator.Mode) {
	const layers = 48
	chip := card(b)
	p := convStack(chip, layers)
	m, err := emulator.Load(p, chip)
	if err != nil {
		b.Fatal(err)
	}
	if err := m.Prepare(); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, _, err := m.Run(context.Background(), nil, emulator.Options{Mode: mode}); err != nil {
			b.Fatal(err)
		}
	}
	macs := float64(len(p.Main)) * layers * 98 * 576 * 64
	b.ReportMetric(macs*float64(b.N)/b.Elapsed().Seconds()/1e9, "GMAC/s")
	b.ReportMetric(float64(len(p.Main)*len(p.Main[0].Insts)), "instructions")
}

func BenchmarkFunctional(b *testing.B) { benchmarkStack(b, emulator.Functional) }
func BenchmarkTiming(b *testing.B)     { benchmarkStack(b, emulator.Timing) }
func BenchmarkFull(b *testing.B)       { benchmarkStack(b, emulator.Full) }
