package ir_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
	"pgregory.net/rapid"

	"situ/ir"
	"situ/ir/irtest"
)

var update = flag.Bool("update", false, "rewrite the expected text in testdata")

// errorCases runs check on each .ir file of an archive and compares its error
// with the .err file beside it.
func errorCases(t *testing.T, archive string, check func(text string) error) {
	path := filepath.Join("testdata", archive)
	a, err := txtar.ParseFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{}
	for _, f := range a.Files {
		want[f.Name] = string(f.Data)
	}
	out := &txtar.Archive{Comment: a.Comment}
	for _, f := range a.Files {
		name, ok := strings.CutSuffix(f.Name, ".ir")
		if !ok {
			continue
		}
		t.Run(name, func(t *testing.T) {
			err := check(string(f.Data))
			if err == nil {
				t.Fatalf("no error for:\n%s", f.Data)
			}
			got := err.Error() + "\n"
			out.Files = append(out.Files, f, txtar.File{Name: name + ".err", Data: []byte(got)})
			if diff := cmp.Diff(want[name+".err"], got); diff != "" && !*update {
				t.Errorf("error differs from %s (-want +got; go test -update rewrites it):\n%s", path, diff)
			}
		})
	}
	if *update && !t.Failed() {
		if err := os.WriteFile(path, txtar.Format(out), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func TestParseErrors(t *testing.T) {
	errorCases(t, "parse_errors.txtar", func(text string) error {
		_, err := ir.Parse(text, nil)
		return err
	})
}

func TestVerifyErrors(t *testing.T) {
	errorCases(t, "verify.txtar", func(text string) error {
		g, err := ir.Parse(text, nil)
		if err != nil {
			t.Fatal(err)
		}
		return ir.Verify(g)
	})
}

// TestPrint checks that each graph of print.txtar is valid and prints as it is
// written there.
func TestPrint(t *testing.T) {
	path := filepath.Join("testdata", "print.txtar")
	a, err := txtar.ParseFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i, f := range a.Files {
		t.Run(f.Name, func(t *testing.T) {
			g, err := ir.Parse(string(f.Data), nil)
			if err != nil {
				t.Fatal(err)
			}
			if err := ir.Verify(g); err != nil {
				t.Error(err)
			}
			if diff := cmp.Diff(string(f.Data), g.String()); diff != "" && !*update {
				t.Errorf("printed form differs from %s (-want +got; go test -update rewrites it):\n%s", path, diff)
			}
			a.Files[i].Data = []byte(g.String())
		})
	}
	if *update && !t.Failed() {
		if err := os.WriteFile(path, txtar.Format(a), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// TestParseFreely checks that layout and comments do not matter, and that order
// and names of values and operators are kept.
func TestParseFreely(t *testing.T) {
	g, err := ir.Parse(`// a comment
graph "g"{%2=input"x":i8[2,1]scale=[1,2]zero=[3,3]axis=0 // twice 3
output %0 %1 = const "c" : f32[ 2 ] { 1,
2 }
%0 = dequantize %2:f32[2,1]@"dq" output %2,%1 }`, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := `graph "g" {
  %2 = input "x" : i8[2,1] scale=[1, 2] zero=3 axis=0
  %0 = dequantize %2 : f32[2,1] @ "dq"
  %1 = const "c" : f32[2] {1, 2}
  output %0, %2, %1
}
`
	if diff := cmp.Diff(want, g.String()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// roundTrip prints and parses g, with its side file written and read.
func roundTrip(t rapid.TB, g *ir.Graph) *ir.Graph {
	var side bytes.Buffer
	if err := ir.WriteSide(&side, g); err != nil {
		t.Fatal(err)
	}
	s, err := ir.ReadSide(&side)
	if err != nil {
		t.Fatal(err)
	}
	h, err := ir.Parse(g.String(), s)
	if err != nil {
		t.Fatalf("%v\n%v", err, g)
	}
	return h
}

func TestRoundTripRandom(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := irtest.Graph(t, irtest.Options{MaxOps: 12, Plain: true})
		h := roundTrip(t, g)
		if !ir.Equal(g, h) {
			t.Fatalf("parsed graph differs\nprinted:\n%vread back:\n%v", g, h)
		}
		if err := ir.Verify(h); err != nil {
			t.Fatal(err)
		}
	})
}

// everyType returns a graph with a large constant of each element type.
func everyType(t *testing.T) *ir.Graph {
	g := &ir.Graph{Name: "types"}
	fill := func(d ir.DType, data any) {
		switch s := data.(type) {
		case []float32:
			s[3] = 0.1
		case []uint16:
			s[3] = 0x1234
		case []int8:
			s[3] = -5
		case []uint8:
			s[3] = 1
		case []int64:
			s[3] = -1 << 40
		}
	}
	for d := ir.F32; d <= ir.Bool; d++ {
		c := ir.Zeros(d, 5, 20001)
		fill(d, c.Any())
		g.Outputs = append(g.Outputs, g.AddConst(d.String(), c, nil))
	}
	if err := ir.Verify(g); err != nil {
		t.Fatal(err)
	}
	return g
}

func TestSide(t *testing.T) {
	g := everyType(t)
	if h := roundTrip(t, g); !ir.Equal(g, h) {
		t.Errorf("graph read back with its side file differs")
	}
	if h, err := ir.Parse(g.String(), ir.SideOf(g)); err != nil || !ir.Equal(g, h) {
		t.Errorf("graph read back with SideOf differs, error %v", err)
	}
	var b bytes.Buffer
	if err := ir.WriteSide(&b, g); err != nil {
		t.Fatal(err)
	}
	good := b.String()
	flipped := []byte(good)
	flipped[len(flipped)-1] ^= 1
	for _, test := range []struct{ name, text, want string }{
		{"empty", "", "not a side file"},
		{"magic", "situ-side 2\n", "not a side file"},
		{"cut", good[:len(good)-1], "its data ends early"},
		{"header cut", "situ-side 1\nf32[2", "unexpected EOF"},
		{"flipped", string(flipped), "its data has sha256:"},
		{"header", "situ-side 1\nf32[2,3] md5:0\n", "is not of the form"},
		{"quantised", "situ-side 1\ni8[2] scale=1 zero=0 sha256:00\n", "is not of the form"},
		{"huge", "situ-side 1\nf32[1099511627776] sha256:00\n", "its data ends early"},
		{"overflow", "situ-side 1\nf32[1099511627776,1099511627776] sha256:00\n", "is not of the form"},
		{"long line", "situ-side 1\n" + strings.Repeat("x", 1<<20), "buffer full"},
	} {
		_, err := ir.ReadSide(strings.NewReader(test.text))
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error %v, want one with %q", test.name, err, test.want)
		}
	}
	wrong := strings.Replace(g.String(), "f32[5,20001]", "f32[20001,5]", 1)
	if _, err := ir.Parse(wrong, ir.SideOf(g)); err == nil || !strings.Contains(err.Error(), "the text says f32[20001,5]") {
		t.Errorf("constant of another shape than the text says: error %v", err)
	}
}

// TestParseMemory checks that declared sizes allocate nothing.
func TestParseMemory(t *testing.T) {
	text := `graph "g" { %0 = input "x" : f32[1099511627776] %1 = const "w" : f32[1099511627776] {1} output %0 }`
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, err := ir.Parse(text, nil); err == nil {
		t.Error("a constant without its elements was accepted")
	}
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > 1<<20 {
		t.Errorf("parsing %d bytes allocated %d", len(text), n)
	}
}

func FuzzParse(f *testing.F) {
	for _, name := range []string{"print.txtar", "verify.txtar", "parse_errors.txtar"} {
		a, err := txtar.ParseFile(filepath.Join("testdata", name))
		if err != nil {
			f.Fatal(err)
		}
		for _, file := range a.Files {
			if strings.HasSuffix(file.Name, ".ir") {
				f.Add(string(file.Data))
			}
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		g, err := ir.Parse(text, nil)
		if err != nil {
			return
		}
		ir.Verify(g) // whatever it says, it must return
		h, err := ir.Parse(g.String(), ir.SideOf(g))
		if err != nil {
			t.Fatalf("printed form does not parse: %v\n%v", err, g)
		}
		if !ir.Equal(g, h) {
			t.Fatalf("printed form differs\nread:\n%vread back:\n%v", g, h)
		}
	})
}

// TestDescribedText checks that a described constant survives its textual form,
// differs from one of another deviation, and stays out of side files.
func TestDescribedText(t *testing.T) {
	build := func(std float32) *ir.Graph {
		g := &ir.Graph{Name: "d"}
		g.Outputs = []ir.ValueID{g.AddConst("w", ir.Describe(ir.I4, std, 4096, 128256), ir.PerTensor(0.5, 0))}
		return g
	}
	g := build(0.02)
	if err := ir.Verify(g); err != nil {
		t.Fatal(err)
	}
	h, err := ir.Parse(g.String(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if !ir.Equal(g, h) || ir.Equal(g, build(0.03)) {
		t.Errorf("%s became\n%s", g, h)
	}
	if len(ir.SideOf(g)) != 0 {
		t.Error("a described constant is in the side file")
	}
	if _, err := ir.Parse(strings.Replace(g.String(), "std=", "deviation=", 1), nil); err == nil || !strings.Contains(err.Error(), "described std=0.02") {
		t.Errorf("a described constant without a deviation gives %v", err)
	}
}
