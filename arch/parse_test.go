package arch

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

const variant = "name: mine\nbased_on: edge-dimc\n"

func TestVariantFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "mine.yaml")
	text := variant + "clock_mhz: {value: 200, source: measured here, confidence: P}\n" +
		"dram:\n  gigabytes_per_s: {value: 12.8, source: two channels, confidence: A}\n"
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	c := load(t, file).Chip
	base := load(t, "edge-dimc").Chip
	if c.Name != "mine" || c.ClockMHz.Value != 200 || c.DRAM.GBs.Value != 12.8 || c.ClockMHz.Source != "measured here" {
		t.Errorf("variant: name %q, clock %v, DRAM %v", c.Name, c.ClockMHz, c.DRAM.GBs)
	}
	if c.DRAM.Bytes != base.DRAM.Bytes || c.Array != base.Array {
		t.Error("variant lost figures of its base")
	}
	if base.ClockMHz.Value != 182 {
		t.Error("loading a variant changed its base")
	}
}

// Columns of 4-bit weights follow those of 8-bit weights, unless both are stated.
func TestColumnsFollow(t *testing.T) {
	for text, want := range map[string][2]float64{
		"":                      {64, 128},
		"cols: {value: 32":      {32, 64},
		"cols_int4: {value: 64": {64, 64},
		"cols: {value: 32, source: x, confidence: A}\n  cols_int4: {value: 32": {32, 32},
	} {
		if text != "" {
			text = "array:\n  " + text + ", source: x, confidence: A}\n"
		}
		a, err := Parse("f.yaml", []byte(variant+text))
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got := [2]float64{a.Chip.Array.Cols.Value, a.Chip.Array.ColsInt4.Value}; got != want {
			t.Errorf("%s: columns %v, want %v", text, got, want)
		}
	}
}

// What WriteYAML writes is read as the same description.
func TestWriteYAML(t *testing.T) {
	for _, name := range Presets() {
		c := load(t, name).Chip
		if c == nil {
			continue
		}
		c = c.Variant("mine: \"a\" # b\n'c' <µ>")
		c.ClockMHz.Value, c.Power.StaticW.Value, c.DRAM.GBs.Value = 1.0/3, 1.25e-7, 1e7/3.0
		var b strings.Builder
		if err := c.WriteYAML(&b); err != nil {
			t.Fatal(err)
		}
		a, err := Parse("f.yaml", []byte("# a comment\n"+b.String()))
		if err != nil {
			t.Fatalf("%s: %v\n%s", name, err, b.String())
		}
		c.BasedOn = ""
		if got := a.Chip.Variant(a.Chip.Name); !reflect.DeepEqual(got, c) {
			t.Errorf("%s: read back as\n%+v, want\n%+v", name, got, c)
		}
	}
}

// Every bad description gives an error that holds each of the texts.
func TestBadDescriptions(t *testing.T) {
	for _, tt := range []struct {
		name, yaml string
		want       []string
	}{
		{"empty", "", []string{"f.yaml", "0 YAML documents"}},
		{"list", "- 1\n- 2\n", []string{"want a mapping"}},
		{"two documents", "name: a\n---\nname: b\n", []string{"2 YAML documents"}},
		{"no kind", "name: a\n", []string{"kind", "pim or gpu"}},
		{"other kind", "name: a\nkind: fpga\n", []string{`"fpga"`}},
		{"no such base", "name: a\nbased_on: tpu\n", []string{`"tpu"`, "corsair-card"}},
		{"kind against base", variant + "kind: gpu\n", []string{`"gpu"`, "edge-dimc", `"pim"`}},
		{"unknown key", variant + "dram:\n  gb_per_s: {value: 1, source: x, confidence: A}\n", []string{`f.yaml:4:3: unknown key "dram.gb_per_s"`, "gigabytes_per_s"}},
		{"unknown top key", variant + "dice: 3\n", []string{`f.yaml:3:1: unknown key "dice"`}},
		{"unknown figure key", variant + "dies: {value: 1, source: x, confidence: A, unit: m}\n", []string{`f.yaml:3:44: unknown key "dies.unit"`}},
		{"key twice", variant + "name: again\n", []string{"f.yaml:3:1: not readable as YAML", "name"}},
		{"bare number", variant + "dies: 3\n", []string{"f.yaml:3:7: dies: want a mapping of value, source, confidence"}},
		{"text for a number", variant + "dies: {value: many, source: x, confidence: A}\n", []string{"f.yaml:3:15: dies.value: want a number"}},
		{"quoted number", variant + "dies: {value: \"3\", source: x, confidence: A}\n", []string{"dies.value: want a number"}},
		{"number for text", variant + "dies: {value: 1, source: 3, confidence: A}\n", []string{"dies.source: want text"}},
		{"list for a mapping", variant + "dram: [1, 2]\n", []string{"f.yaml:3:7: dram: want a mapping"}},
		{"NaN", variant + "clock_mhz: {value: .nan, source: x, confidence: A}\n", []string{"f.yaml:3", "clock_mhz"}},
		{"infinite", variant + "clock_mhz: {value: .inf, source: x, confidence: A}\n", []string{"f.yaml:3:1: clock_mhz: is +Inf"}},
		{"zero", variant + "clock_mhz: {value: 0, source: x, confidence: A}\n", []string{"f.yaml:3:1: clock_mhz: is 0, want a positive"}},
		{"negative", variant + "scratchpad:\n  bytes: {value: -4096, source: x, confidence: A}\n", []string{"f.yaml:4:3: scratchpad.bytes: is -4096"}},
		{"fraction of a core", variant + "cores_per_cluster: {value: 2.5, source: x, confidence: A}\n", []string{"f.yaml:3:1: cores_per_cluster: is 2.5, want a whole number"}},
		{"absurd", variant + "array:\n  rows: {value: 1e300, source: x, confidence: A}\n", []string{"f.yaml:4:3: array.rows: is 1e+300, more than 65536"}},
		{"tiny", variant + "clock_mhz: {value: 1e-300, source: x, confidence: A}\n", []string{"clock_mhz", "not believable"}},
		{"no source", variant + "dies: {value: 1, confidence: A}\n", []string{"f.yaml:3:1: dies: has no source"}},
		{"no confidence", variant + "dies: {value: 1, source: x}\n", []string{"dies: has confidence \"\""}},
		{"value not restated", variant + "dies: {source: better, confidence: P}\n", []string{"f.yaml:3:1: dies: is 0"}},
		{"empty figure", variant + "dies: {}\n", []string{"f.yaml:3:1: dies: is empty or zero"}},
		{"mesh", variant + "clusters_per_die: {value: 6, source: x, confidence: A}\nmesh_columns: {value: 4, source: x, confidence: A}\n", []string{"f.yaml:4:1: mesh_columns: 4 does not divide clusters_per_die, 6"}},
		{"int4 columns", variant + "array:\n  cols_int4: {value: 100, source: x, confidence: A}\n", []string{"f.yaml:4:3: array.cols_int4: 100 columns"}},
		{"odd int4 columns", variant + "array:\n  cols: {value: 1, source: x, confidence: A}\n  cols_int4: {value: 1, source: x, confidence: A}\n", []string{"f.yaml:5:3: array.cols_int4: 1 is odd"}},
		{"columns of the base", variant + "array:\n  cols: {value: 100000, source: x, confidence: A}\n", []string{"f.yaml:4:3: array.cols: is 100000", "array.cols_int4: is 200000"}},
		{"name of a preset", "name: h100\nbased_on: edge-dimc\n", []string{`f.yaml:1:1: name: "h100" is the name of a preset; choose another`}},
		{"name of the base", "based_on: edge-dimc\n", []string{"f.yaml: name: is missing; give it a name of its own, other than that of preset edge-dimc"}},
		{"figure of the base", variant + "array:\n  rows: {value: 8192, source: x, confidence: A}\n", []string{"f.yaml:4:3: weight_sram.bytes: 131072 B hold not even one array of weights, 524288 B; weight_sram.bytes is that of preset edge-dimc, state it too"}},
		{"input bits", variant + "array:\n  input_bits_per_cycle: {value: 3, source: x, confidence: A}\n", []string{"3 does not divide 8"}},
		{"no room for a tile", variant + "weight_sram:\n  bytes: {value: 4096, source: x, confidence: A}\n", []string{"4096 B hold not even one array of weights, 8192 B"}},
		{"all problems at once", variant + "dies: {value: -1, source: x, confidence: A}\nclock_mhz: {value: 0, source: x, confidence: Q}\n",
			[]string{"f.yaml:3:1: dies: is -1", "f.yaml:4:1: clock_mhz: is 0", `f.yaml:4:1: clock_mhz: has confidence "Q"`}},
		{"missing figures", "name: a\nkind: gpu\n", []string{"clock_mhz: is missing", "power.tdp_w: is missing"}},
		{"GPU ceiling", "name: a\nbased_on: h100\nceiling:\n  tensor: {value: 1.2, source: x, confidence: A}\n", []string{"f.yaml:4:3: ceiling.tensor: is 1.2"}},
		{"anchors", variant + "dies: &a {value: 1, source: x, confidence: A}\nclusters_per_die: *a\n", []string{"f.yaml:3"}},
		{"merge keys", variant + "<<: {dies: 1}\n", []string{"f.yaml:3"}},
		{"tags", variant + "dies: !!binary aGVsbG8=\n", []string{"f.yaml:3"}},
		{"null", variant + "dies:\n", []string{"f.yaml:3", "dies: want a mapping"}},
		{"unclosed", variant + "dies: {value: 1\n", []string{"f.yaml:3:7: not readable as YAML"}},
		{"deep brackets", variant + "dies: " + strings.Repeat("[", 50000) + "\n", []string{"f.yaml:3: nested more than"}},
		{"deep indentation", variant + strings.Repeat("- ", 5000) + "1\n", []string{"nested more than"}},
		{"too large", variant + "# " + strings.Repeat("x", maxFileBytes), []string{"at most"}},
		{"binary", "\x00\xff\xfe\x80", []string{"f.yaml"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Parse("f.yaml", []byte(tt.yaml))
			if err == nil {
				t.Fatal("no error")
			}
			for _, w := range tt.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("error lacks %q:\n%v", w, err)
				}
			}
		})
	}
}

func TestLoadErrors(t *testing.T) {
	dir := t.TempDir()
	for name, want := range map[string]string{
		"h1000":                         "neither a preset (a100, corsair-card",
		filepath.Join(dir, "none.yaml"): "no such file",
		dir:                             "not a regular file",
		"/dev/zero":                     "not a regular file",
	} {
		if _, err := Load(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Load(%q): %v, want %q", name, err, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, name := range Presets() {
		data, err := presetFiles.ReadFile("presets/" + name + ".yaml")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte(variant + "dies: {value: 1e3, source: 'x', confidence: A}\n"))
	f.Add([]byte("a: &x [*x, *x]\n<<: *x\n? [b]\n: |\n  text\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		a, err := Parse("f.yaml", data)
		if err != nil {
			return
		}
		if err := a.Validate(); err != nil {
			t.Errorf("accepted, then found invalid: %v", err)
		}
		if a.Chip != nil {
			a.Chip.Fingerprint()
			a.Chip.Derived()
		} else {
			a.GPU.Derived()
		}
	})
}
