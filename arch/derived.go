package arch

import (
	"fmt"
	"io"
	"math"
	"reflect"
	"text/tabwriter"
)

// ChipPeaks are figures that follow from a Chip's description.
type ChipPeaks struct {
	Cores           int64   // of the card
	Int8TOPS        float64 // 10¹² operations a second, int8 inputs and weights; a multiply-accumulate is two
	Int4TOPS        float64 // int4 inputs and weights
	Int8x4TOPS      float64 // int8 inputs, int4 weights
	WeightTBs       float64 // TB/s from the weight SRAMs into the arrays
	WeightSRAMBytes int64   // of the card
	ScratchpadBytes int64   // of the card
	DRAMGBs         float64 // of the card
	// Input vectors for which the arrays stay busy while weights are streamed from
	// the weight SRAM: the balance point in batch.
	Int8Batch, Int4Batch int64
}

// Derived computes the peaks of the card.
func (c *Chip) Derived() ChipPeaks {
	cores := c.Dies.Value * c.ClustersPerDie.Value * c.CoresPerCluster.Value
	hz := c.ClockMHz.Value * 1e6
	tops := func(cols Figure, inputBits int64) float64 {
		return 2 * cores * c.Array.Rows.Value * cols.Value * hz / float64(c.inputCycles(inputBits)) / 1e12
	}
	batch := func(weightBits int, inputBits int64) int64 {
		load := math.Ceil(float64(c.TileBytes(Weights{Bits: weightBits})) / c.WeightSRAM.PortBytes.Value)
		return int64(math.Ceil(load / float64(c.inputCycles(inputBits))))
	}
	return ChipPeaks{
		Cores:           int64(cores),
		Int8TOPS:        tops(c.Array.Cols, 8),
		Int4TOPS:        tops(c.Array.ColsInt4, 4),
		Int8x4TOPS:      tops(c.Array.ColsInt4, 8),
		WeightTBs:       cores * c.WeightSRAM.PortBytes.Value * hz / 1e12,
		WeightSRAMBytes: int64(cores * c.WeightSRAM.Bytes.Value),
		ScratchpadBytes: int64(c.Dies.Value * c.ClustersPerDie.Value * c.Scratchpad.Bytes.Value),
		DRAMGBs:         c.DRAM.GBs.Value,
		Int8Batch:       batch(8, 8),
		Int4Batch:       batch(4, 4),
	}
}

// GPUPeaks are figures that follow from a GPU's description.
type GPUPeaks struct {
	Int8TOPS   float64 // dense
	BF16TFLOPS float64 // dense
	SharedTBs  float64 // all SMs
	L2TBs      float64
	DRAMGBs    float64
	// Int8 operations a DRAM byte above which the tensor cores limit.
	RidgeOpsPerByte float64
}

// Derived computes the peaks of the GPU.
func (g *GPU) Derived() GPUPeaks {
	hz := g.ClockMHz.Value * 1e6
	int8 := 2 * g.SMs.Value * g.Tensor.Int8MACs.Value * hz
	return GPUPeaks{
		Int8TOPS:        int8 / 1e12,
		BF16TFLOPS:      2 * g.SMs.Value * g.Tensor.BF16MACs.Value * hz / 1e12,
		SharedTBs:       g.SMs.Value * g.Shared.BytesPerCycle.Value * hz / 1e12,
		L2TBs:           g.L2.BytesPerCycle.Value * hz / 1e12,
		DRAMGBs:         g.DRAM.GBs.Value,
		RidgeOpsPerByte: int8 / (g.DRAM.GBs.Value * 1e9),
	}
}

// WriteTable prints every figure of the description with unit, confidence and
// source, after the derived peaks.
func (a Arch) WriteTable(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintf(tw, "%s — %s\n\n", a.Name(), a.Description())
	var ls []leaf
	if c := a.Chip; c != nil {
		p := c.Derived()
		fmt.Fprintf(tw, "peak, int8\t%.4g TOPS\n", p.Int8TOPS)
		fmt.Fprintf(tw, "peak, int4\t%.4g TOPS\n", p.Int4TOPS)
		fmt.Fprintf(tw, "peak, int8 × int4 weights\t%.4g TOPS\n", p.Int8x4TOPS)
		fmt.Fprintf(tw, "weight SRAM to arrays\t%.4g TB/s\n", p.WeightTBs)
		fmt.Fprintf(tw, "weight SRAM\t%s\n", bytesText(float64(p.WeightSRAMBytes)))
		fmt.Fprintf(tw, "scratchpads\t%s\n", bytesText(float64(p.ScratchpadBytes)))
		fmt.Fprintf(tw, "DRAM\t%s at %.4g GB/s\n", bytesText(c.DRAM.Bytes.Value), p.DRAMGBs)
		fmt.Fprintf(tw, "arrays saturate at\t%d input vectors per weight (int8), %d (int4)\n", p.Int8Batch, p.Int4Batch)
		fmt.Fprintf(tw, "peak power\t%.3g W\n", c.PeakPowerW())
		if a, err := c.Area(); err == nil {
			fmt.Fprintf(tw, "area\t%.3g mm², between %.3g and %.3g\n", a.Total().Mid, a.Total().Low, a.Total().High)
		}
		ls = leaves(reflect.ValueOf(c).Elem())
	} else if g := a.GPU; g != nil {
		p := g.Derived()
		fmt.Fprintf(tw, "peak, int8\t%.4g TOPS\n", p.Int8TOPS)
		fmt.Fprintf(tw, "peak, bf16\t%.4g TFLOPS\n", p.BF16TFLOPS)
		fmt.Fprintf(tw, "shared memory\t%.4g TB/s\n", p.SharedTBs)
		fmt.Fprintf(tw, "L2\t%s at %.4g TB/s\n", bytesText(g.L2.Bytes.Value), p.L2TBs)
		fmt.Fprintf(tw, "DRAM\t%s at %.4g GB/s\n", bytesText(g.DRAM.Bytes.Value), p.DRAMGBs)
		fmt.Fprintf(tw, "tensor cores limit from\t%.4g operations a DRAM byte\n", p.RidgeOpsPerByte)
		ls = leaves(reflect.ValueOf(g).Elem())
	}
	fmt.Fprintf(tw, "\nfigure\tvalue\t\tsource\n")
	for _, l := range ls {
		if l.optional() && *l.figure == (Figure{}) {
			continue
		}
		if l.text != nil {
			fmt.Fprintf(tw, "%s\t%s\t%s\t%s\n", l.path, l.text.Value, l.text.Confidence, l.text.Source)
			continue
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\n", l.path, valueText(l), l.figure.Confidence, l.figure.Source)
	}
	fmt.Fprintf(tw, "\nP read in the primary source, S in a secondary one, D derived, M from memory of the literature, A assumed\n")
	return tw.Flush()
}

func valueText(l leaf) string {
	unit := l.field.Tag.Get("unit")
	switch {
	case unit == "B":
		return bytesText(l.figure.Value)
	case unit == "":
		return fmt.Sprintf("%.10g", l.figure.Value)
	}
	return fmt.Sprintf("%.10g %s", l.figure.Value, unit)
}

// bytesText writes a number of bytes with a binary prefix, or a decimal one where
// only that is exact, as makers of DRAM count.
func bytesText(b float64) string {
	base, prefixes := 1024.0, []string{"", "Ki", "Mi", "Gi", "Ti", "Pi"}
	if math.Mod(b, 1<<20) != 0 && math.Mod(b, 1e6) == 0 {
		base, prefixes = 1000, []string{"", "k", "M", "G", "T", "P"}
	}
	i := 0
	for i+1 < len(prefixes) && b >= base {
		b /= base
		i++
	}
	return fmt.Sprintf("%.6g %sB", b, prefixes[i])
}
