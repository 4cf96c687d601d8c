package arch

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"sync"
)

// leaf is a figure or text of a description, found by walking its fields.
type leaf struct {
	*place
	figure *Figure // one of the two is set
	text   *Text
}

// optional reports whether a description may leave the figure out.
func (l leaf) optional() bool { return l.figure != nil && l.mayMiss }

// leaves lists the figures and texts of a description struct in the order of its
// fields.
func leaves(v reflect.Value) []leaf {
	known, ok := layouts.Load(v.Type())
	if !ok {
		known, _ = layouts.LoadOrStore(v.Type(), layout(v.Type(), "", nil))
	}
	places := known.([]place)
	ls := make([]leaf, len(places))
	for i := range places {
		ls[i].place = &places[i]
		switch x := v.FieldByIndex(ls[i].index).Addr().Interface().(type) {
		case *Figure:
			ls[i].figure = x
		case *Text:
			ls[i].text = x
		}
	}
	return ls
}

// place is where a figure or text is in a description struct, and what its tags say.
type place struct {
	path      string
	field     reflect.StructField
	index     []int
	check     string
	limit     float64 // what is more is not believable
	mayMiss   bool
	noProgram bool // of energy or area alone: programs do not depend on it
}

func placeOf(path string, f reflect.StructField, index []int) place {
	limit, err := strconv.ParseFloat(f.Tag.Get("max"), 64)
	if err != nil {
		limit = math.MaxFloat64
	}
	return place{path, f, index, f.Tag.Get("check"), limit, f.Tag.Get("optional") != "", f.Tag.Get("energy")+f.Tag.Get("area") != ""}
}

// layouts holds the places in each description struct by its type.
var layouts sync.Map

// layout lists the places in a struct that is at some path and index of another.
func layout(t reflect.Type, path string, index []int) []place {
	var ps []place
	for i := range t.NumField() {
		f := t.Field(i)
		key := f.Tag.Get("yaml")
		if key == "" || f.Type.Kind() != reflect.Struct {
			continue
		}
		at := append(slices.Clone(index), i)
		switch f.Type {
		case reflect.TypeFor[Figure](), reflect.TypeFor[Text]():
			ps = append(ps, placeOf(join(path, key), f, at))
		default:
			ps = append(ps, layout(f.Type, join(path, key), at)...)
		}
	}
	return ps
}

// Validate reports all problems of the description, see Chip.Validate.
func (a Arch) Validate() error {
	switch {
	case a.Chip != nil:
		return a.Chip.Validate()
	case a.GPU != nil:
		return a.GPU.Validate()
	}
	return errors.New("architecture: empty description")
}

// Validate reports all problems of the description together, each with its key
// and, when it was read from a file, line and column: figures that are missing,
// not finite, not positive, no whole number where they count things, absurdly
// large, without a source; and figures that contradict each other.
func (c *Chip) Validate() error {
	v := checker{where: c.where}
	v.head(c.Name, c.Kind, "pim")
	v.leaves(leaves(reflect.ValueOf(c).Elem()))
	if len(v.errs) > 0 {
		return errors.Join(v.errs...) // relations between bad figures mean nothing
	}
	if n := c.Dies.Value * c.ClustersPerDie.Value; n > 4096 {
		v.clash("dies", []string{"clusters_per_die"}, "%g clusters on the card, at most 4096 are modelled", n)
	}
	if c.ClustersPerDie.Int()%c.MeshColumns.Int() != 0 {
		v.clash("mesh_columns", []string{"clusters_per_die"}, "%d does not divide clusters_per_die, %d", c.MeshColumns.Int(), c.ClustersPerDie.Int())
	}
	if a := &c.Array; a.ColsInt4.Int() != a.Cols.Int() && a.ColsInt4.Int() != 2*a.Cols.Int() {
		v.clash("array.cols_int4", []string{"array.cols"}, "%d columns of 4-bit weights in an array of %d columns of 8-bit weights, want as many or twice as many", a.ColsInt4.Int(), a.Cols.Int())
	}
	if b := c.Array.InputBitsPerCycle.Int(); 8%b != 0 {
		v.fail("array.input_bits_per_cycle", "%d does not divide 8", b)
	}
	if n := c.Array.ColsInt4.Int(); n%2 != 0 {
		v.clash("array.cols_int4", []string{"array.cols"}, "%d is odd, so that a row of 4-bit weights is not a whole number of bytes", n)
	}
	if a := &c.Array; (a.ShiftRows.Value > 0) != (a.ShiftEnergyFJ.Value > 0) {
		v.fail("array.shift_rows", "and shift_energy_fj go together: state both, or neither for arrays without shifters")
	}
	blocks := c.ShiftRows() > 0
	if tile := max(c.TileBytes(Weights{8, blocks}), c.TileBytes(Weights{4, blocks})); c.WeightSRAM.Bytes.Int() < tile {
		v.clash("weight_sram.bytes", []string{"array.rows", "array.cols", "array.cols_int4", "array.shift_rows"}, "%d B hold not even one array of weights, %d B", c.WeightSRAM.Bytes.Int(), tile)
	}
	if row := 4 * max(c.Array.Cols.Int(), c.Array.ColsInt4.Int()); c.Accumulator.Bytes.Int() < row {
		v.clash("accumulator.bytes", []string{"array.cols", "array.cols_int4"}, "%d B hold not even one row of results, %d B", c.Accumulator.Bytes.Int(), row)
	}
	if c.Scratchpad.Bytes.Int() < 4096 {
		v.fail("scratchpad.bytes", "%d B, want at least 4096", c.Scratchpad.Bytes.Int())
	}
	if c.Power.StaticW.Value >= c.Power.TDPW.Value {
		v.clash("power.static_w", []string{"power.tdp_w"}, "%g W is not below tdp_w, %g W", c.Power.StaticW.Value, c.Power.TDPW.Value)
	}
	return errors.Join(v.errs...)
}

// Validate reports all problems of the description, see Chip.Validate.
func (g *GPU) Validate() error {
	v := checker{where: g.where}
	v.head(g.Name, g.Kind, "gpu")
	v.leaves(leaves(reflect.ValueOf(g).Elem()))
	if len(v.errs) > 0 {
		return errors.Join(v.errs...)
	}
	if g.Shared.Bytes.Value > g.Shared.L1Bytes.Value {
		v.clash("shared.bytes", []string{"shared.l1_bytes"}, "%g B is more than shared.l1_bytes, %g B, of which it is a part", g.Shared.Bytes.Value, g.Shared.L1Bytes.Value)
	}
	if g.Power.IdleW.Value+g.Power.ActiveW.Value >= g.Power.TDPW.Value {
		v.clash("power.active_w", []string{"power.idle_w", "power.tdp_w"}, "%g W and idle_w, %g W, leave nothing of tdp_w, %g W", g.Power.ActiveW.Value, g.Power.IdleW.Value, g.Power.TDPW.Value)
	}
	return errors.Join(v.errs...)
}

// checker collects problems.
type checker struct {
	where positions
	errs  []error
}

func (v *checker) fail(path, format string, args ...any) { v.clash(path, nil, format, args...) }

// clash says what is wrong with a figure beside others. Where it is a preset's, it
// points at the first of the others that the description states.
func (v *checker) clash(path string, others []string, format string, args ...any) {
	at, preset := v.where.at(path)
	msg := path + ": " + fmt.Sprintf(format, args...)
	if preset != "" {
		if i := slices.IndexFunc(others, v.where.states); i >= 0 {
			at, _ = v.where.at(others[i])
		}
		msg += fmt.Sprintf("; %s is that of preset %s, state it too", path, preset)
	}
	v.errs = append(v.errs, errors.New(at+msg))
}

func (v *checker) head(name, kind, want string) {
	if name == "" {
		v.fail("name", "is missing")
	}
	if kind != want {
		v.fail("kind", "%q, want %q", kind, want)
	}
}

func (v *checker) leaves(ls []leaf) {
	for _, l := range ls {
		switch {
		case l.optional() && *l.figure == (Figure{}):
		case l.figure != nil && *l.figure == (Figure{}), l.text != nil && *l.text == (Text{}):
			if _, stated := v.where.keys[l.path]; stated {
				v.fail(l.path, "is empty or zero")
			} else {
				v.fail(l.path, "is missing")
			}
		case l.figure != nil:
			v.number(l)
			v.origin(l.path, l.figure.Source, l.figure.Confidence)
		default:
			if l.text.Value == "" {
				v.fail(l.path, "value is empty")
			}
			v.origin(l.path, l.text.Source, l.text.Confidence)
		}
	}
}

func (v *checker) number(l leaf) {
	x, check, limit := l.figure.Value, l.check, l.limit
	switch {
	case math.IsNaN(x) || math.IsInf(x, 0):
		v.fail(l.path, "is %g, want a finite number", x)
	case x <= 0:
		v.fail(l.path, "is %g, want a positive number", x)
	case check == "count" && x != math.Trunc(x):
		v.fail(l.path, "is %g, want a whole number", x)
	case check == "fraction" && x > 1:
		v.fail(l.path, "is %g, want a fraction of at most 1", x)
	case x > limit:
		v.fail(l.path, "is %g, more than %g is not believable", x, limit)
	case x < 1e-12:
		v.fail(l.path, "is %g, less than 1e-12 is not believable", x)
	}
}

func (v *checker) origin(path, source, confidence string) {
	if source == "" {
		v.fail(path, "has no source")
	}
	if _, ok := Confidences[confidence]; !ok {
		v.fail(path, "has confidence %q, want P, S, D, M or A", confidence)
	}
}

// Fingerprint returns a hash of all figures that a compiled program depends on:
// sizes, counts, rates and latencies. Names, sources, energies and powers do not
// enter, so that a program stays valid when only those are changed.
func (c *Chip) Fingerprint() [32]byte {
	h := sha256.New()
	h.Write([]byte("situ chip 1\n"))
	for _, l := range leaves(reflect.ValueOf(c).Elem()) {
		if l.figure == nil || l.optional() && *l.figure == (Figure{}) || l.noProgram {
			continue
		}
		var b [8]byte
		binary.LittleEndian.PutUint64(b[:], math.Float64bits(l.figure.Value))
		h.Write([]byte(l.path))
		h.Write([]byte{0})
		h.Write(b[:])
	}
	var sum [32]byte
	h.Sum(sum[:0])
	return sum
}
