// Package svg draws for pages: text, lines and rectangles whose looks, but for what a
// colour says, are the page's style sheet's. A browser lays the text out, so that it
// fits whatever fonts there are.
package svg

import (
	"fmt"
	"html"
	"html/template"
	"strings"
)

// Drawing builds one drawing. Everything that came from a user is escaped. What a
// page may tell of an element that is pointed at stands in data-t.
type Drawing struct {
	strings.Builder
}

// New begins a drawing, which a page shows at most a quarter larger than w and h.
func New(w, h float64, title string) *Drawing {
	s := &Drawing{}
	fmt.Fprintf(s, `<svg viewBox="0 0 %g %g" style="max-width:%gpx" role="img" xmlns="http://www.w3.org/2000/svg">`, w, h, 1.25*w)
	s.Text(w/2, 16, "middle", "t", title)
	return s
}

// HTML ends the drawing.
func (s *Drawing) HTML() template.HTML {
	s.WriteString("</svg>")
	return template.HTML(s.String())
}

// Text writes t at a place; anchor is start, middle or end.
func (s *Drawing) Text(x, y float64, anchor, class, t string) {
	fmt.Fprintf(s, `<text x="%.1f" y="%.1f" text-anchor="%s" class="%s">%s</text>`, x, y, anchor, class, html.EscapeString(t))
}

// Line draws a line.
func (s *Drawing) Line(x1, y1, x2, y2 float64, class string) {
	fmt.Fprintf(s, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" class="%s"/>`, x1, y1, x2, y2, class)
}

// Rect fills a rectangle.
func (s *Drawing) Rect(x, y, w, h float64, fill, about string) {
	fmt.Fprintf(s, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s" data-t="%s"/>`, x, y, max(w, 0), max(h, 0), fill, html.EscapeString(about))
}
