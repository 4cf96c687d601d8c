package explore

import (
	"bytes"
	"context"
	"encoding/csv"
	"io"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/parquet-go/parquet-go"
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
