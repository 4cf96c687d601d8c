package report

import (
	"bytes"
	"fmt"
	"html/template"
	"image/color"
	"math"
	"strings"
	"unicode/utf8"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"situ/internal/svg"
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

// render draws a plot; the result is one <svg> element without an XML header, to
// be put into a page. Its text is escaped by the plotter.
func render(p *plot.Plot, w, h vg.Length) (template.HTML, error) {
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
	return template.HTML(s), nil
}

// hex writes a colour for a style sheet.
func hex(c color.RGBA) string { return fmt.Sprintf("#%02x%02x%02x", c.R, c.G, c.B) }

// key is what a colour stands for.
type key struct {
	Colour, Name string
}

// levelKeys says what the colours of energy levels stand for.
func levelKeys(rs []*runtime.Result) []key {
	var ks []key
	for i, l := range levels {
		if anyEnergy(rs, l) {
			ks = append(ks, key{hex(palette[i]), l.name})
		}
	}
	return ks
}

// energyPlot draws for each result how the energy that of returns is shared among
// levels and, on a logarithmic axis as results lie far apart, how much it is.
func energyPlot(rs []*runtime.Result, title string, of func(*runtime.Result) *runtime.Energy) template.HTML {
	const shares, gap, totals, top, row = 340, 60, 170, 44, 24
	left := 60.0 // room for names, at some seven a letter
	for _, r := range rs {
		left = max(left, 7.2*float64(utf8.RuneCountInString(label(r, severalBatches(rs))))+10)
	}
	w, bottom := left+shares+gap+totals+80, top+row*float64(len(rs))
	s := svg.New(w, bottom+24, title)
	lo, hi := math.Inf(1), 0.0
	for _, r := range rs {
		if t := of(r).Total; t > 0 {
			lo, hi = min(lo, t), max(hi, t)
		}
	}
	if hi == 0 {
		return ""
	}
	lo, hi = math.Floor(math.Log10(lo)), math.Ceil(math.Log10(hi))
	hi = max(hi, lo+1)
	at := func(v float64) float64 { return left + shares + gap + totals*(math.Log10(v)-lo)/(hi-lo) }
	for q := 0; q <= 100; q += 25 {
		x := left + shares*float64(q)/100
		s.Line(x, top-4, x, bottom, "g")
		s.Text(x, bottom+16, "middle", "l", fmt.Sprintf("%d %%", q))
	}
	for e := lo; e <= hi; e++ {
		x := at(math.Pow(10, e))
		s.Line(x, top-4, x, bottom, "g")
		if e == lo || e == hi {
			s.Text(x, bottom+16, "middle", "l", Unit(math.Pow(10, e), "J"))
		}
	}
	s.Text(left+shares/2, top-10, "middle", "l", "share")
	s.Text(left+shares+gap+totals/2, top-10, "middle", "l", "in all, logarithmic")
	for k, r := range rs {
		e := of(r)
		y := top + row*float64(k)
		s.Text(left-8, y+15, "end", "l", label(r, severalBatches(rs)))
		if e.Total <= 0 {
			continue
		}
		x := left
		for i, l := range levels {
			v := l.energy(e)
			s.Rect(x, y+2, shares*v/e.Total, row-6, hex(palette[i]), fmt.Sprintf("%s: %s, %s", l.name, Unit(v, "J"), runtime.Percent(v/e.Total)))
			x += shares * v / e.Total
		}
		s.Rect(at(e.Total)-4, y+6, 8, row-14, "#17202a", Unit(e.Total, "J"))
		s.Text(at(e.Total)+9, y+15, "start", "v", Unit(e.Total, "J"))
	}
	return s.HTML()
}

// layerPlot draws one bar a layer of the quantity f.
func layerPlot(r *runtime.Result, title, unit string, f func(*runtime.LayerCost) float64) (template.HTML, error) {
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
	return render(p, plotWidth, 6*vg.Centimeter)
}

// rooflinePlot draws each target's ceiling (multiply-accumulates a second over
// multiply-accumulates a byte of DRAM traffic, Williams et al., CACM 2009) and
// where the model lies under it: a ring for one run and a dot for steady state, for
// each of its batches. It returns what the colours stand for, too.
func rooflinePlot(rs []*runtime.Result) (template.HTML, []key, error) {
	p := plot.New()
	p.Title.Text = "Roofline over DRAM traffic"
	p.X.Label.Text = "multiply-accumulates per byte of DRAM traffic"
	p.Y.Label.Text = "multiply-accumulates a second"
	p.X.Scale, p.Y.Scale = plot.LogScale{}, plot.LogScale{}
	p.X.Tick.Marker, p.Y.Tick.Marker = plot.LogTicks{Prec: -1}, plot.LogTicks{Prec: -1}
	var drawn []*runtime.Result
	lo, hi := math.Inf(1), 0.0
	for _, r := range rs {
		if r.Peak.MACsPerS <= 0 || r.Peak.DRAMBytesPerS <= 0 || r.LatencyS <= 0 || r.MACs == 0 || r.Bytes.DRAM == 0 {
			continue
		}
		drawn = append(drawn, r)
		at, knee := float64(r.MACs)/float64(r.Bytes.DRAM), r.Peak.MACsPerS/r.Peak.DRAMBytesPerS
		lo, hi = min(lo, at/10, knee/10), max(hi, at*10, knee*10)
	}
	if drawn == nil {
		return "", nil, nil
	}
	colours := map[string]color.RGBA{} // by target
	var keys []key
	for _, r := range drawn {
		c, ok := colours[r.Target]
		if !ok {
			k := len(colours)
			c = series[k%len(series)]
			colours[r.Target] = c
			keys = append(keys, key{hex(c), r.Target})
			knee := r.Peak.MACsPerS / r.Peak.DRAMBytesPerS
			line, err := plotter.NewLine(plotter.XYs{{X: lo, Y: lo * r.Peak.DRAMBytesPerS}, {X: knee, Y: r.Peak.MACsPerS}, {X: hi, Y: r.Peak.MACsPerS}})
			if err != nil {
				return "", nil, err
			}
			line.Color, line.Width = c, vg.Points(1.5)
			if k >= len(series) { // a colour again
				line.Dashes = []vg.Length{vg.Points(6), vg.Points(3)}
				keys[k].Name += " (dashed)"
			}
			p.Add(line)
		}
		at := float64(r.MACs) / float64(r.Bytes.DRAM)
		for _, d := range []struct {
			y      float64
			shape  draw.GlyphDrawer
			radius float64
		}{{float64(r.MACs) * float64(r.Batch) / r.LatencyS, draw.RingGlyph{}, 5.5}, {float64(r.MACs) * r.ThroughputS, draw.CircleGlyph{}, 3}} {
			if d.y <= 0 {
				continue
			}
			dot, err := plotter.NewScatter(plotter.XYs{{X: at, Y: d.y}})
			if err != nil {
				return "", nil, err
			}
			dot.GlyphStyle = draw.GlyphStyle{Color: c, Radius: vg.Points(d.radius), Shape: d.shape}
			p.Add(dot)
		}
	}
	s, err := render(p, plotWidth, 9*vg.Centimeter)
	return s, keys, err
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
