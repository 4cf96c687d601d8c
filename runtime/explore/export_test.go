package explore

import (
	"bytes"
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/parquet-go/parquet-go"

	"situ/arch"
	"situ/runtime"
)

// Numbers in CSV are read back as they were; bytes and counts are whole numbers.
func TestDecimal(t *testing.T) {
	for v, want := range map[float64]string{
		1048576: "1048576", 4294967296: "4294967296", 0.5: "0.5", 1.5e-5: "1.5e-05", -3: "-3", 1e300: "1e+300", 1.0 / 3: "0.3333333333333333",
	} {
		got := decimal(v)
		if back, err := strconv.ParseFloat(got, 64); got != want || err != nil || back != v {
			t.Errorf("%g is written %q and read %g, %v; want %q", v, got, back, err, want)
		}
	}
}

// A Parquet file holds, bit for bit, what the run's points are in CSV, in the same
// columns, and says which space they are of.
func TestExports(t *testing.T) {
	st := openStore(t, "")
	r, err := Run(context.Background(), parse(t, plain), st, Options{})
	if err != nil {
		t.Fatal(err)
	}
	run, err := st.Find(r.Run)
	if err != nil {
		t.Fatal(err)
	}
	var text, file bytes.Buffer
	if err := WriteCSV(&text, st, run); err != nil {
		t.Fatal(err)
	}
	if err := WriteParquet(&file, st, run); err != nil {
		t.Fatal(err)
	}
	lines, err := csv.NewReader(&text).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	if len(lines) != int(r.Proposed)+1 {
		t.Errorf("%d lines for %d points", len(lines), r.Proposed)
	}
	f, err := parquet.OpenFile(bytes.NewReader(file.Bytes()), int64(file.Len()))
	if err != nil {
		t.Fatal(err)
	}
	if space, _ := f.Lookup("situ.space"); space != string(run.Space) {
		t.Errorf("the file's metadata holds the space %q", space)
	}
	in := parquet.NewReader(f)
	defer in.Close()
	var head []string
	for _, c := range in.Schema().Columns() {
		head = append(head, c[0])
	}
	got := [][]string{head}
	numbers, nulls := 0, 0
	rows := make([]parquet.Row, 64)
	for {
		n, err := in.ReadRows(rows)
		for _, row := range rows[:n] {
			line := make([]string, len(row))
			for i, v := range row {
				switch {
				case v.IsNull():
					nulls++
				case v.Kind() == parquet.Double:
					numbers++
					line[i] = decimal(v.Double())
				default:
					line[i] = string(v.ByteArray())
				}
			}
			got = append(got, line)
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(lines, got); diff != "" {
		t.Errorf("CSV and Parquet differ (-csv +parquet):\n%.2000s", diff)
	}
	if numbers == 0 || nulls == 0 {
		t.Errorf("%d numbers and %d nulls; both belong in this run", numbers, nulls)
	}
}

// A design that is written as an architecture's file costs what the run found, bit
// for bit.
func TestChipOfDesign(t *testing.T) {
	st := openStore(t, "")
	s := parse(t, "models: [digits]\nbase: edge-dimc\nobjectives: [latency, energy, throughput, energy_steady, area]\nfunnel: {finalists: 0}\n"+
		"parameters:\n  array.cols: [16, 64]\n  vector.lanes: [8, 32]\n  quant.weights: [int8, mxint4]\n  weight_sram.read_energy_fj_per_bit: 100.1 * sqrt(array.cols)\n  array.shift_rows: 32\n  array.shift_energy_fj: 0.1\n")
	r, err := Run(context.Background(), s, st, Options{})
	if err != nil {
		t.Fatal(err)
	}
	run, err := st.Find(r.Run)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Front) < 2 {
		t.Fatalf("a front of %d", len(r.Front))
	}
	for _, d := range r.Front {
		file := filepath.Join(t.TempDir(), "chip.yaml")
		var b bytes.Buffer
		if err := WriteChip(&b, run, d.Point); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		q := runtime.QuantOptions{Weights: d.Settings[2].Value, Method: "minmax", Mixed: "auto", Samples: 16, Seed: 1}
		c, err := runtime.Compare(context.Background(), "digits", []string{file}, runtime.ModelOptions{}, q, runtime.CompareOptions{})
		if err != nil {
			t.Fatalf("point %s: %v\n%s", d.Point, err, b.String())
		}
		a, err := arch.Load(file)
		if err != nil {
			t.Fatal(err)
		}
		area, err := a.Chip.Area()
		if err != nil {
			t.Fatal(err)
		}
		x := c.Results[0]
		got := map[string]float64{"latency": x.LatencyS, "energy": x.Energy.Total, "throughput": x.ThroughputS, "energy_steady": x.Steady.Total, "area": area.Total().Mid}
		for o, want := range d.Values {
			if o == "throughput" { // the store has its inverse
				want, got[o] = float64(float32(want)), float64(float32(got[o]))
			}
			if got[o] != want {
				t.Errorf("point %s: %s %v as a file, %v in the run", d.Point, o, got[o], want)
			}
		}
		if source := a.Chip.Array.Cols.Source; source != fmt.Sprintf("point %s of space test, run 1", d.Point) {
			t.Errorf("point %s: source of array.cols: %q", d.Point, source)
		}
	}
	for point, want := range map[string]string{"9.9.9": "has 2 values", "1": "1 coordinates", "x": `point "x": want what situ runs show writes`} {
		if err := WriteChip(io.Discard, run, point); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("point %s: %v, want %q", point, err, want)
		}
	}
}
