package explore

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/parquet-go/parquet-go"

	"situ/runtime/explore/store"
)

// column is a column of an exported run: text, or numbers that may be unknown.
type column struct {
	name    string
	numbers bool
}

// cell is a value of a column.
type cell struct {
	text   string
	number float64
	known  bool // of a number
}

// known is the cell of a quantity, which is unknown where it is 0.
func known(v float64) cell { return cell{number: v, known: v != 0} }

// columns are those of a run's points: parameters, fate, objectives, and the costs
// of each model.
func (s *Space) columns() []column {
	out := []column{{"run", true}, {"point", false}}
	for _, p := range s.Params {
		out = append(out, column{p.Name, p.Values[0].Name == ""})
	}
	out = append(out, column{"stage", false}, column{"fate", false}, column{"reason", false})
	for _, o := range s.Objectives {
		out = append(out, column{objectives[o].metric, true})
	}
	for _, m := range s.Models {
		for _, c := range []string{"latency_s", "throughput_per_s", "energy_j", "energy_steady_j"} {
			out = append(out, column{m.Name + " " + c, true})
		}
	}
	return out
}

// cells are the values of one point, in the order of columns.
func (s *Space) cells(run int64, r *Row) ([]cell, error) {
	if len(r.Settings) != len(s.Params) {
		return nil, fmt.Errorf("store: point %s of run %d has %d settings, its space %d parameters", r.Point, run, len(r.Settings), len(s.Params))
	}
	out := []cell{{number: float64(run), known: true}, {text: r.Point}}
	for i, x := range r.Settings {
		c := cell{text: x.Value}
		if s.Params[i].Values[0].Name == "" {
			v, err := strconv.ParseFloat(x.Value, 64)
			if err != nil {
				return nil, fmt.Errorf("store: point %s of run %d: %s: %w", r.Point, run, x.Name, err)
			}
			c.number, c.known = v, true
		}
		out = append(out, c)
	}
	out = append(out, cell{text: r.Stage}, cell{text: r.Fate}, cell{text: r.Reason})
	for _, o := range s.Objectives {
		v, ok := r.Values[o.String()]
		c := known(v)
		c.known = ok && c.known
		out = append(out, c)
	}
	for i := range s.Models {
		var c ModelCost
		if i < len(r.Models) {
			c = r.Models[i]
		}
		out = append(out, known(c.LatencyS), known(c.ThroughputS), known(c.EnergyJ), known(c.EnergySteadyJ))
	}
	return out, nil
}

// export calls f for every point of a run.
func export(st *store.Store, run *store.Run, begin func([]column) error, f func([]cell) error) error {
	s, err := Parse(run.Name, run.Space)
	if err != nil {
		return fmt.Errorf("run %d: its space is not readable here: %w", run.ID, err)
	}
	if err := begin(s.columns()); err != nil {
		return err
	}
	return Rows(st, run.ID, func(r *Row) error {
		cells, err := s.cells(run.ID, r)
		if err != nil {
			return err
		}
		return f(cells)
	})
}

// WriteCSV writes all points of a run as comma-separated values. A number that is
// not known is an empty cell.
func WriteCSV(w io.Writer, st *store.Store, run *store.Run) error {
	out := csv.NewWriter(w)
	var cols []column
	var line []string
	err := export(st, run, func(c []column) error {
		cols = c
		for i := range cols {
			line = append(line, cols[i].name)
		}
		return out.Write(line)
	}, func(cells []cell) error {
		for i, c := range cells {
			switch {
			case !cols[i].numbers:
				line[i] = c.text
			case c.known:
				line[i] = decimal(c.number)
			default:
				line[i] = ""
			}
		}
		return out.Write(line)
	})
	if out.Flush(); err == nil {
		err = out.Error()
	}
	return err
}

// WriteChip writes the chip of a point of a run as an architecture's file, with the
// commands before it that give what the run found.
func WriteChip(w io.Writer, run *store.Run, point string) error {
	s, err := Parse(run.Name, run.Space)
	if err != nil {
		return fmt.Errorf("run %d: its space is not readable here: %w", run.ID, err)
	}
	var in Inputs
	if err := json.Unmarshal(run.Inputs, &in); err != nil {
		return fmt.Errorf("store: run %d: %w", run.ID, err)
	}
	if chipHash(s.Base) != in.Arch {
		return fmt.Errorf("run %d: its base %s has other figures now; run the space again", run.ID, in.Base)
	}
	p, err := s.pointNamed(point)
	if err != nil {
		return err
	}
	d := s.design(p)
	if d.err != nil {
		return fmt.Errorf("point %s: %w", p, d.err)
	}
	from := fmt.Sprintf("point %s of space %s, run %d", p, s.Name, run.ID)
	c := d.chip.Variant(s.Name + "-" + p.String())
	c.Description = fmt.Sprintf("%s, over %s", from, in.Base)
	for _, path := range s.figures {
		if _, ok := d.values[path]; ok {
			c.FigureAt(path).Source = from
		}
	}
	fmt.Fprintf(w, "# %s; program %s\n", c.Description, run.Version)
	for _, x := range s.describe(p) {
		fmt.Fprintf(w, "#   %s = %s\n", x.Name, x.Value)
	}
	for i := range s.Models {
		m := &s.Models[i]
		fmt.Fprintf(w, "# situ compare %s --on THIS --weights %s", m.Name, d.weights)
		if s.Seed != 1 {
			fmt.Fprintf(w, " --seed %d", s.Seed)
		}
		for _, dim := range sortedKeys(m.Dims) {
			fmt.Fprintf(w, " --dim %s=%d", dim, m.Dims[dim])
		}
		if m.Batch != "" {
			fmt.Fprintf(w, " --dim %s=%d", m.Batch, d.batch)
		}
		fmt.Fprintln(w)
	}
	if d.clusters > 0 {
		fmt.Fprintf(w, "# The run compiled for %d clusters (compiler.clusters), which no file of an architecture says.\n", d.clusters)
	}
	fmt.Fprintln(w)
	return c.WriteYAML(w)
}

// pointNamed returns the point that String calls so.
func (s *Space) pointNamed(name string) (Point, error) {
	var p Point
	for _, part := range strings.Split(name, ".") {
		v, err := strconv.ParseUint(part, 10, 16)
		if err != nil {
			return nil, fmt.Errorf("point %q: want what situ runs show writes in the column point, such as %s", name, s.PointAt(0))
		}
		p = append(p, uint16(v))
	}
	return p, s.has(p)
}

// decimal writes a number so that it is read back the same: whole numbers as such, up
// to where a float64 no longer holds every one of them.
func decimal(v float64) string {
	if v == math.Trunc(v) && math.Abs(v) < 1<<53 {
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}

// rowGroup is how many points of a Parquet file are held in memory.
const rowGroup = 1 << 16

// inOrder is a Parquet group whose columns keep their order; those of a Group are
// sorted by name.
type inOrder struct {
	parquet.Group
	order []string
}

func (g inOrder) Fields() []parquet.Field {
	byName := map[string]parquet.Field{}
	for _, f := range g.Group.Fields() {
		byName[f.Name()] = f
	}
	out := make([]parquet.Field, len(g.order))
	for i, name := range g.order {
		out[i] = byName[name]
	}
	return out
}

// WriteParquet writes all points of a run as a Parquet file: numbers as doubles,
// null where they are not known. The space and the hashes of its inputs are in the
// file's metadata.
func WriteParquet(w io.Writer, st *store.Store, run *store.Run) error {
	var out *parquet.GenericWriter[any]
	var cols []column
	var row parquet.Row
	err := export(st, run, func(c []column) error {
		cols = c
		g := inOrder{Group: parquet.Group{}}
		for _, c := range cols {
			node := parquet.String()
			if c.numbers {
				node = parquet.Optional(parquet.Leaf(parquet.DoubleType))
			}
			if g.Group[c.name] != nil {
				return fmt.Errorf("run %d: two columns are called %q", run.ID, c.name)
			}
			g.Group[c.name] = node
			g.order = append(g.order, c.name)
		}
		row = make(parquet.Row, len(cols))
		out = parquet.NewGenericWriter[any](w, parquet.NewSchema("points", g), parquet.Compression(&parquet.Zstd), parquet.MaxRowsPerRowGroup(rowGroup),
			parquet.KeyValueMetadata("situ.space", string(run.Space)), parquet.KeyValueMetadata("situ.inputs", string(run.Inputs)),
			parquet.KeyValueMetadata("situ.version", run.Version))
		return nil
	}, func(cells []cell) error {
		for i, c := range cells {
			switch {
			case !cols[i].numbers:
				row[i] = parquet.ByteArrayValue([]byte(c.text)).Level(0, 0, i)
			case c.known:
				row[i] = parquet.DoubleValue(c.number).Level(0, 1, i)
			default:
				row[i] = parquet.NullValue().Level(0, 0, i)
			}
		}
		_, err := out.WriteRows([]parquet.Row{row})
		return err
	})
	if out != nil && err == nil {
		err = out.Close()
	}
	return err
}
