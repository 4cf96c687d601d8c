package emulator

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"

	"situ/backend/pim/isa"
	"situ/emulator/timing"
)

// tracer writes events in the Trace Event Format that Chrome and Perfetto read:
// a process for each cluster, a thread for each of its units, times in
// microseconds.
type tracer struct {
	w     *bufio.Writer
	prog  *isa.Program
	names []string // of layers, as JSON strings
	comma bool
}

func newTracer(w io.Writer, p *isa.Program) *tracer {
	t := &tracer{w: bufio.NewWriterSize(w, 1<<16), prog: p}
	for _, l := range p.Layers {
		t.names = append(t.names, quoteJSON(l.Name))
	}
	fmt.Fprint(t.w, `{"displayTimeUnit":"ns","traceEvents":[`)
	for c := range p.Main {
		t.meta("process_name", c, -1, fmt.Sprintf("cluster %d", c))
		for u := isa.UnitCtrl + 1; u < isa.NumUnits; u++ {
			t.meta("thread_name", c, int(u), u.String())
		}
	}
	return t
}

func quoteJSON(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err) // a string always has a JSON form
	}
	return string(b)
}

func (t *tracer) sep() {
	if t.comma {
		t.w.WriteString(",\n")
	}
	t.comma = true
}

func (t *tracer) meta(kind string, cluster, unit int, name string) {
	t.sep()
	fmt.Fprintf(t.w, `{"ph":"M","name":%q,"pid":%d`, kind, cluster)
	if unit >= 0 {
		fmt.Fprintf(t.w, `,"tid":%d`, unit)
	}
	fmt.Fprintf(t.w, `,"args":{"name":%s}}`, quoteJSON(name))
}

func (t *tracer) event(e timing.Event) {
	t.sep()
	fmt.Fprintf(t.w, `{"ph":"X","name":%q,"pid":%d,"tid":%d,"ts":%s,"dur":%s,"args":{"input":%d`,
		e.Op, e.Cluster, e.Unit, micros(e.Start), micros(e.End-e.Start), e.Input)
	if e.Layer >= 0 {
		fmt.Fprintf(t.w, `,"layer":%s`, t.names[e.Layer])
	}
	t.w.WriteString("}}")
}

// micros writes picoseconds as microseconds, exactly.
func micros(ps int64) string { return fmt.Sprintf("%d.%06d", ps/1e6, ps%1e6) }

func (t *tracer) close() error {
	t.w.WriteString("]}\n")
	return t.w.Flush()
}
