package arch

import (
	"bytes"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite testdata")

func load(t testing.TB, name string) Arch {
	t.Helper()
	a, err := Load(name)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestPresets(t *testing.T) {
	want := []string{"a100", "corsair-card", "corsair-chiplet", "edge-dimc", "h100", "l4"}
	if got := Presets(); !slices.Equal(got, want) {
		t.Fatalf("Presets() = %v, want %v", got, want)
	}
	for _, name := range Presets() {
		a := load(t, name)
		if a.Name() != name || a.Description() == "" {
			t.Errorf("preset %s calls itself %q, %q", name, a.Name(), a.Description())
		}
		if (a.Chip == nil) == (a.GPU == nil) {
			t.Errorf("preset %s is not exactly one of Chip and GPU", name)
		}
	}
}

// The printed table of each preset is a golden file, so that every change of a
// figure shows in review.
func TestTables(t *testing.T) {
	for _, name := range Presets() {
		var b bytes.Buffer
		if err := load(t, name).WriteTable(&b); err != nil {
			t.Fatal(err)
		}
		golden := filepath.Join("testdata", name+".txt")
		if *update {
			if err := os.WriteFile(golden, b.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatalf("%v (run go test ./arch -update)", err)
		}
		if !bytes.Equal(b.Bytes(), want) {
			t.Errorf("table of %s differs from %s (run go test ./arch -update and look at the difference)", name, golden)
		}
	}
}

func within(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	if math.Abs(got-want) > tolerance*want {
		t.Errorf("%s = %.6g, published %.6g (tolerance %.2g %%)", what, got, want, 100*tolerance)
	}
}

func TestDerivedMeetsPublished(t *testing.T) {
	card, chiplet := load(t, "corsair-card").Chip, load(t, "corsair-chiplet").Chip
	p := card.Derived()
	within(t, "corsair-card int8 TOPS", p.Int8TOPS, 2400, 1e-3)
	within(t, "corsair-card int4 TOPS", p.Int4TOPS, 9600, 1e-3)
	within(t, "corsair-card SRAM TB/s", p.WeightTBs, 150, 1e-3)
	within(t, "corsair-card DRAM GB/s", p.DRAMGBs, 400, 0)
	if p.WeightSRAMBytes != 2<<30 || p.Cores != 2048 {
		t.Errorf("corsair-card has %d B of weight SRAM in %d cores, published 2 GB in 2048", p.WeightSRAMBytes, p.Cores)
	}
	if p.Int8Batch != 8 || p.Int4Batch != 16 {
		t.Errorf("corsair-card saturates at batch %d (int8) and %d (int4), want 8 and 16", p.Int8Batch, p.Int4Batch)
	}
	q := chiplet.Derived()
	within(t, "chiplet × 8 int8 TOPS", 8*q.Int8TOPS, p.Int8TOPS, 1e-12)
	within(t, "chiplet × 8 SRAM", float64(8*q.WeightSRAMBytes), float64(p.WeightSRAMBytes), 0)
	within(t, "chiplet × 8 DRAM GB/s", 8*q.DRAMGBs, p.DRAMGBs, 0)
	within(t, "chiplet × 8 TDP", 8*chiplet.Power.TDPW.Value, card.Power.TDPW.Value, 0)
	within(t, "chiplet × 8 static power", 8*chiplet.Power.StaticW.Value, card.Power.StaticW.Value, 0)

	edge := load(t, "edge-dimc").Chip
	// The published macro: 128×64 multiply-accumulates in 4 cycles of 182 MHz.
	within(t, "edge-dimc int8 TOPS", edge.Derived().Int8TOPS, 4*2*128*64*182e6/4/1e12, 1e-9)
	within(t, "edge-dimc TOPS/W of a macro", 2e3/edge.Array.MACEnergyFJ.Value, 19.5, 1e-3)

	for _, g := range []struct {
		name                 string
		int8, bf16, gbs, tdp float64
		l2                   float64
	}{
		{"a100", 624, 312, 2039, 400, 40 << 20},
		{"h100", 1979, 989, 3350, 700, 50 << 20},
		{"l4", 242, 121, 300, 72, 48 << 20},
	} {
		gpu := load(t, g.name).GPU
		p := gpu.Derived()
		within(t, g.name+" int8 TOPS", p.Int8TOPS, g.int8, 2e-3)
		within(t, g.name+" bf16 TFLOPS", p.BF16TFLOPS, g.bf16, 2e-3)
		within(t, g.name+" DRAM GB/s", p.DRAMGBs, g.gbs, 0)
		within(t, g.name+" TDP", gpu.Power.TDPW.Value, g.tdp, 0)
		within(t, g.name+" L2", gpu.L2.Bytes.Value, g.l2, 0)
	}
}

// cardPower adds up the energies of the description at full rate: weights of the
// given width streamed at the full SRAM bandwidth, each used for batch vectors, so
// that neither the array nor its port waits. Voltage scales energies by its square.
func cardPower(c *Chip, weightBits int, inputBits int64, mhz, volts, nominal float64) float64 {
	macEnergy := c.Array.MACEnergyFJ.Value
	if weightBits == 4 {
		// 4-bit inputs: half the bit products of the int8 × int4 figure.
		macEnergy = c.Array.MACInt4EnergyFJ.Value * float64(inputBits) / 8
	}
	cols, rows := float64(c.Cols(weightBits)), c.Array.Rows.Value
	passCycles := float64(c.inputCycles(inputBits))
	perCoreCycle := (rows*cols*macEnergy + // products
		2*32*cols*c.Accumulator.EnergyFJBit.Value + // partial sums read and written
		rows*float64(inputBits)*c.Array.InputEnergyFJBit.Value) / passCycles
	perCoreCycle += 8 * c.WeightSRAM.PortBytes.Value * (c.WeightSRAM.ReadEnergyFJBit.Value + c.Array.LoadEnergyFJBit.Value)
	perCluster := c.CoresPerCluster.Value*perCoreCycle +
		8*c.Scratchpad.ReadBytes.Value/8*c.Scratchpad.ReadEnergyFJBit.Value // inputs shared by the columns' cores
	watts := perCluster * float64(c.NumClusters()) * mhz * 1e6 * 1e-15
	return watts*math.Pow(volts/nominal, 2) + c.Power.StaticW.Value
}

// The energies of corsair-card must be able to explain the published powers.
// Voltages are an assumption (0.70 V at 800 MHz, 0.85 V at 1.2 GHz, linear
// between); energies are stated for the 1144 MHz point.
func TestCorsairPowerIsPlausible(t *testing.T) {
	c := load(t, "corsair-card").Chip
	volts := func(mhz float64) float64 { return 0.70 + (mhz-800)/400*0.15 }
	nominal := volts(c.ClockMHz.Value)
	t.Logf("%-22s %9s %9s", "full rate", "model", "published")
	// The quoted 38 TOPS/W is no int8 figure of the card: its peak over the published
	// powers is 4.4 to 8.7.
	perWatt := c.Derived().Int8TOPS / cardPower(c, 8, 8, c.ClockMHz.Value, nominal, nominal)
	if perWatt < 4.4 || perWatt > 8.7 {
		t.Errorf("int8: %.1f TOPS/W, published peak and powers allow 4.4 to 8.7", perWatt)
	}
	for _, p := range []struct{ mhz, watts float64 }{{800, 275}, {1200, 550}} {
		for _, bits := range []int{8, 4} {
			got := cardPower(c, bits, int64(bits), p.mhz, volts(p.mhz), nominal)
			t.Logf("int%d at %4.0f MHz       %7.0f W %7.0f W  (%+.0f %%)", bits, p.mhz, got, p.watts, 100*(got/p.watts-1))
			if got < 0.8*p.watts || got > 1.15*p.watts {
				t.Errorf("int%d at %.0f MHz: %.0f W, published %.0f W; want −20 to +15 %%", bits, p.mhz, got, p.watts)
			}
		}
	}
}

func TestPowerLimitsHold(t *testing.T) {
	for _, name := range []string{"corsair-card", "corsair-chiplet", "edge-dimc"} {
		c := load(t, name).Chip
		for _, bits := range []int{8, 4} {
			w := cardPower(c, bits, int64(bits), c.ClockMHz.Value, 1, 1)
			t.Logf("%-16s int%d at full rate: %7.4g W of %g W", name, bits, w, c.Power.TDPW.Value)
			if w > c.Power.TDPW.Value || w < 0.4*c.Power.TDPW.Value {
				t.Errorf("%s: int%d at full rate takes %.4g W, tdp_w is %g", name, bits, w, c.Power.TDPW.Value)
			}
		}
	}
}

func TestVariantStatesOnlyDifferences(t *testing.T) {
	card, chiplet := load(t, "corsair-card").Chip, load(t, "corsair-chiplet").Chip
	var differ []string
	a, b := leaves(reflect.ValueOf(card).Elem()), leaves(reflect.ValueOf(chiplet).Elem())
	for i := range a {
		if a[i].figure != nil && *a[i].figure != *b[i].figure {
			differ = append(differ, a[i].path)
		}
	}
	want := []string{"dies", "dram.bytes", "dram.gigabytes_per_s", "power.static_w", "power.tdp_w"}
	if !slices.Equal(differ, want) {
		t.Errorf("card differs from chiplet in %v, want %v", differ, want)
	}
}

func TestFingerprint(t *testing.T) {
	base := load(t, "corsair-card").Chip
	want := base.Fingerprint()
	seen := map[[32]byte]string{want: "unchanged"}
	for i, l := range leaves(reflect.ValueOf(base).Elem()) {
		if l.figure == nil {
			continue
		}
		c := load(t, "corsair-card").Chip
		f := leaves(reflect.ValueOf(c).Elem())[i].figure
		f.Source, f.Confidence = "elsewhere", "M"
		if c.Fingerprint() != want {
			t.Errorf("%s: the source enters the fingerprint", l.path)
		}
		f.Value++
		got := c.Fingerprint()
		isEnergy := l.field.Tag.Get("energy") != ""
		if named := strings.Contains(l.path, "_fj") || strings.HasPrefix(l.path, "power."); named != isEnergy {
			t.Errorf("%s: energy tag %v, but by its name %v", l.path, isEnergy, named)
		}
		if isEnergy || l.field.Tag.Get("area") != "" {
			if got != want {
				t.Errorf("%s: an energy or area figure enters the fingerprint", l.path)
			}
			continue
		}
		if other, ok := seen[got]; ok {
			t.Errorf("%s + 1 has the same fingerprint as %s", l.path, other)
		}
		seen[got] = l.path
	}
}

func TestDescriptionFields(t *testing.T) {
	for _, v := range []any{&Chip{}, &GPU{}} {
		for _, l := range leaves(reflect.ValueOf(v).Elem()) {
			if c := l.field.Tag.Get("check"); c != "" && c != "count" && c != "fraction" {
				t.Errorf("%T.%s: unknown check %q", v, l.path, c)
			}
			var limit float64
			if m := l.field.Tag.Get("max"); m != "" {
				if n, err := fmt.Sscan(m, &limit); n != 1 || err != nil || limit <= 0 {
					t.Errorf("%T.%s: unreadable max %q", v, l.path, m)
				}
			}
		}
	}
}
