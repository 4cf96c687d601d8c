package report

import (
	"bytes"
	"fmt"
	"image/color"
	"math"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"situ/runtime"
)

// palette has one colour a level of the energy split, dark for what is near the
// arithmetic, warm for what is far.
var palette = []color.RGBA{
	{0x1b, 0x4f, 0x72, 255}, {0x2e, 0x86, 0xc1, 255}, {0x48, 0xc9, 0xb0, 255}, {0xa9, 0xdf, 0xbf, 255},
	{0xe6, 0x7e, 0x22, 255}, {0xf5, 0xb0, 0x41, 255}, {0xc0, 0x39, 0x2b, 255}, {0xb2, 0xba, 0xbb, 255},
}

// series has one colour a target.
var series = []color.RGBA{
	{0x1f, 0x77, 0xb4, 255}, {0xd6, 0x27, 0x28, 255}, {0x2c, 0xa0, 0x2c, 255}, {0x94, 0x67, 0xbd, 255},
	{0xff, 0x7f, 0x0e, 255}, {0x17, 0xbe, 0xcf, 255}, {0x8c, 0x56, 0x4b, 255}, {0x7f, 0x7f, 0x7f, 255},
}

// plotWidth is that of every plot; pages scale them down where they must.
const plotWidth = 22 * vg.Centimeter

// svg renders a plot; the result is one <svg> element without an XML header, to
// be put into a page.
func svg(p *plot.Plot, w, h vg.Length) (string, error) {
	c := vgsvg.New(w, h)
	p.Draw(draw.New(c))
	var b bytes.Buffer
	if _, err := c.WriteTo(&b); err != nil {
		return "", err
	}
	s := b.String()
	if i := strings.Index(s, "<svg"); i >= 0 {
		s = s[i:]
	}
	return s, nil
}

// energyPlot stacks the energy levels of each target, those that of returns.
func energyPlot(rs []*runtime.Result, title string, of func(*runtime.Result) *runtime.Energy) (string, error) {
	p := plot.New()
	p.Title.Text = title
	scale, unit := scaleFor(maxOf(rs, func(r *runtime.Result) float64 { return of(r).Total }))
	p.Y.Label.Text = unit + "J"
	p.Y.Min = 0
	p.Legend.Top = true
	names := make([]string, len(rs))
	for i, r := range rs {
		names[i] = label(r, severalBatches(rs))
	}
	p.NominalX(names...)
	var below *plotter.BarChart
	for i, l := range levels {
		if !anyEnergy(rs, l) {
			continue
		}
		v := make(plotter.Values, len(rs))
		for j, r := range rs {
			v[j] = l.energy(of(r)) * scale
		}
		bars, err := plotter.NewBarChart(v, vg.Points(46))
		if err != nil {
			return "", err
		}
		bars.Color = palette[i]
		bars.LineStyle.Width = 0
		if below != nil {
			bars.StackOn(below)
		}
		below = bars
		p.Add(bars)
		p.Legend.Add(l.name, bars)
	}
	p.X.Max += 0.5 + 0.25*float64(len(rs)) // room for the legend
	return svg(p, plotWidth, 9*vg.Centimeter)
}

// layerPlot draws one bar a layer of the quantity f.
func layerPlot(r *runtime.Result, title, unit string, f func(*runtime.LayerCost) float64) (string, error) {
	p := plot.New()
	p.Title.Text = title
	var top float64
	for i := range r.Layers {
		top = max(top, f(&r.Layers[i]))
	}
	scale, prefix := scaleFor(top)
	p.Y.Label.Text = prefix + unit
	p.X.Label.Text = "layer, in the order of the table below"
	v := make(plotter.Values, len(r.Layers))
	for i := range r.Layers {
		v[i] = f(&r.Layers[i]) * scale
	}
	if len(v) == 0 {
		return "", nil
	}
	bars, err := plotter.NewBarChart(v, vg.Points(math.Max(1, math.Min(20, 380/float64(len(v))))))
	if err != nil {
		return "", err
	}
	bars.Color = palette[1]
	bars.LineStyle.Width = 0
	p.Add(bars)
	return svg(p, plotWidth, 6*vg.Centimeter)
}

// rooflinePlot draws each target's ceiling (multiply-accumulates a second over
// multiply-accumulates a byte of DRAM traffic, Williams et al., CACM 2009) and
// where the model lies under it.
func rooflinePlot(rs []*runtime.Result) (string, error) {
	p := plot.New()
	p.Title.Text = "Roofline over DRAM traffic"
	p.X.Label.Text = "multiply-accumulates per byte of DRAM traffic"
	p.Y.Label.Text = "multiply-accumulates a second"
	p.X.Scale, p.Y.Scale = plot.LogScale{}, plot.LogScale{}
	p.X.Tick.Marker, p.Y.Tick.Marker = plot.LogTicks{Prec: -1}, plot.LogTicks{Prec: -1}
	p.Legend.Left, p.Legend.Top = true, true
	drawn := false
	for i, r := range rs {
		if r.Peak.MACsPerS <= 0 || r.Peak.DRAMBytesPerS <= 0 || r.LatencyS <= 0 || r.MACs == 0 || r.Bytes.DRAM == 0 {
			continue
		}
		drawn = true
		at := float64(r.MACs) / float64(r.Bytes.DRAM)
		knee := r.Peak.MACsPerS / r.Peak.DRAMBytesPerS
		lo, hi := math.Min(at, knee)/10, math.Max(at, knee)*10
		line, err := plotter.NewLine(plotter.XYs{{X: lo, Y: lo * r.Peak.DRAMBytesPerS}, {X: knee, Y: r.Peak.MACsPerS}, {X: hi, Y: r.Peak.MACsPerS}})
		if err != nil {
			return "", err
		}
		line.Color = series[i%len(series)]
		line.Width = vg.Points(1.5)
		dots, err := plotter.NewScatter(plotter.XYs{{X: at, Y: float64(r.MACs) * float64(r.Batch) / r.LatencyS}, {X: at, Y: float64(r.MACs) * r.ThroughputS}})
		if err != nil {
			return "", err
		}
		dots.Color = line.Color
		dots.Shape = draw.CircleGlyph{}
		p.Add(line, dots)
		p.Legend.Add(label(r, severalBatches(rs))+" (dots: one run, steady)", line, dots)
	}
	if !drawn {
		return "", nil
	}
	return svg(p, plotWidth, 9*vg.Centimeter)
}

func maxOf(rs []*runtime.Result, f func(*runtime.Result) float64) float64 {
	var m float64
	for _, r := range rs {
		m = max(m, f(r))
	}
	return m
}

// scaleFor returns a factor and SI prefix that bring v between 1 and 1000.
func scaleFor(v float64) (float64, string) {
	prefixes := []string{"p", "n", "µ", "m", "", "k"}
	if v <= 0 {
		return 1, ""
	}
	e := max(-4, min(1, int(math.Floor(math.Log10(v)/3))))
	return math.Pow(1000, -float64(e)), prefixes[e+4]
}

func dimensions(shape []int) string {
	s := make([]string, len(shape))
	for i, d := range shape {
		s[i] = fmt.Sprint(d)
	}
	return strings.Join(s, "×")
}
