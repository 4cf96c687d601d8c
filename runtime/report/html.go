package report

import (
	"bytes"
	_ "embed"
	"html/template"
	"io"
	"strings"

	"situ/runtime"
)

//go:embed page.html
var pageText string

var page = template.Must(template.New("page").Funcs(template.FuncMap{
	"unit": Unit, "bytes": Bytes, "percent": runtime.Percent, "dims": dimensions,
}).Parse(pageText))

type section struct {
	Name                 string
	Result               *runtime.Result
	EnergyPlot, TimePlot template.HTML
}

// HTML writes one self-contained page: the comparison table, energy by level
// for each target, a roofline, and time and energy of every layer.
func HTML(w io.Writer, title string, rs []*runtime.Result, acc *Accuracy) error {
	var text bytes.Buffer
	if err := Compare(&text, title, rs, acc); err != nil {
		return err
	}
	roof, targets, err := rooflinePlot(rs)
	if err != nil {
		return err
	}
	data := struct {
		Title, Text, Conclusion  string
		Energy, Steady, Roofline template.HTML
		Levels, Targets          []key
		Sections                 []section
	}{
		Title: title, Text: strings.TrimSpace(text.String()), Conclusion: Conclusion(rs),
		Energy:   energyPlot(rs, "Energy of one inference in one run, by distance", func(r *runtime.Result) *runtime.Energy { return &r.Energy }),
		Steady:   energyPlot(rs, "Energy of one inference at steady throughput, by distance", func(r *runtime.Result) *runtime.Energy { return &r.Steady }),
		Roofline: roof, Levels: levelKeys(rs), Targets: targets,
	}
	for _, r := range rs {
		name := label(r, severalBatches(rs))
		e, err := layerPlot(r, "Energy of each layer, "+name, "J", func(l *runtime.LayerCost) float64 { return l.Energy.Total })
		if err != nil {
			return err
		}
		t, err := layerPlot(r, "Time of each layer, "+name, "s", func(l *runtime.LayerCost) float64 { return l.TimeS })
		if err != nil {
			return err
		}
		data.Sections = append(data.Sections, section{name, r, e, t})
	}
	return page.Execute(w, data)
}
