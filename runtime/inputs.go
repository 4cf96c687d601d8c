package runtime

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"situ/frontend/onnx"
	"situ/ir"
	"situ/passes"
)

// named is an input tensor with the name its file gives it, which may be empty.
type named struct {
	name   string
	tensor *ir.Tensor
	path   string
}

// readSet reads the files input_K.pb or input_K.npy of a folder (prefix "input"
// or "output"), in the order of K.
func readSet(dir, prefix string) ([]named, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	type file struct {
		k    int
		name string
	}
	var files []file
	for _, e := range entries {
		var k int
		ext := filepath.Ext(e.Name())
		if ext != ".pb" && ext != ".npy" {
			continue
		}
		stem := strings.TrimSuffix(e.Name(), ext)
		if n, _ := fmt.Sscanf(stem, prefix+"_%d", &k); n == 1 && stem == fmt.Sprintf("%s_%d", prefix, k) {
			files = append(files, file{k, e.Name()})
		}
	}
	slices.SortFunc(files, func(a, b file) int { return a.k - b.k })
	var out []named
	for i, f := range files {
		if i > 0 && files[i-1].k == f.k {
			return nil, fmt.Errorf("%s: both %s and %s", dir, files[i-1].name, f.name)
		}
		p := filepath.Join(dir, f.name)
		name, t, err := onnx.ReadTensorFile(p)
		if err != nil {
			return nil, err
		}
		out = append(out, named{name, t, p})
	}
	return out, nil
}

// readInputs reads model inputs from a tensor file, or from a folder that holds
// input_K files or test_data_set_* folders; the latter give several sets.
func readInputs(path string) ([][]named, error) {
	st, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !st.IsDir() {
		name, t, err := onnx.ReadTensorFile(path)
		if err != nil {
			return nil, err
		}
		return [][]named{{{name, t, path}}}, nil
	}
	if set, err := readSet(path, "input"); err != nil {
		return nil, err
	} else if len(set) > 0 {
		return [][]named{set}, nil
	}
	dirs, err := setsIn(path)
	if err != nil {
		return nil, err
	}
	var sets [][]named
	for _, d := range dirs {
		set, err := readSet(d, "input")
		if err != nil {
			return nil, err
		}
		if len(set) > 0 {
			sets = append(sets, set)
		}
	}
	if len(sets) > 0 {
		return sets, nil
	}
	// A folder of single tensors: each is one sample of a model's only input.
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if ext := filepath.Ext(e.Name()); ext == ".npy" || ext == ".pb" {
			p := filepath.Join(path, e.Name())
			name, t, err := onnx.ReadTensorFile(p)
			if err != nil {
				return nil, err
			}
			sets = append(sets, []named{{name, t, p}})
		}
	}
	if len(sets) == 0 {
		return nil, fmt.Errorf("%s: no input_K.pb, input_K.npy, test_data_set_* or other .npy and .pb files", path)
	}
	return sets, nil
}

// setsIn returns the test_data_set_* folders of a folder: those with a number in the
// order of their numbers, which is that of steps, then others.
func setsIn(dir string) ([]string, error) {
	const prefix = "test_data_set_"
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	number := func(path string) int {
		if n, err := strconv.Atoi(strings.TrimPrefix(filepath.Base(path), prefix)); err == nil && n >= 0 {
			return n
		}
		return math.MaxInt
	}
	var sets []string
	for _, e := range entries {
		p := filepath.Join(dir, e.Name())
		if st, err := os.Stat(p); err == nil && st.IsDir() && strings.HasPrefix(e.Name(), prefix) {
			sets = append(sets, p)
		}
	}
	slices.SortStableFunc(sets, func(a, b string) int { return cmp.Compare(number(a), number(b)) })
	return sets, nil
}

// bind puts a set of tensors into the order of the graph's inputs. A set may hold the
// inputs, too, that became constants when the model was opened, with those values.
func (m *Model) bind(set []named) ([]*ir.Tensor, error) {
	if len(set) == len(m.Graph.Inputs)+len(m.constants) && len(m.constants) > 0 {
		byName, err := match(m.inputNames, set)
		if err != nil {
			return nil, err
		}
		set = nil
		for _, n := range byName {
			c, constant := m.constants[n.name]
			switch {
			case !constant:
				set = append(set, n)
			case !sameBits(c, n.tensor):
				return nil, fmt.Errorf("%s: input %q of model %q is not the same as in the first set, on which shapes or branches of the model depend: run these inputs by themselves", n.path, n.name, m.Name)
			}
		}
	}
	return bind(m.Graph, set)
}

// bind puts a set of tensors into the order of the graph's inputs, by name where
// every name is known and by position otherwise, and checks types and shapes.
func bind(g *ir.Graph, set []named) ([]*ir.Tensor, error) {
	if len(set) != len(g.Inputs) {
		return nil, fmt.Errorf("model %q takes %d inputs (%s), %d given", g.Name, len(g.Inputs), describeInputs(g, fewInputs), len(set))
	}
	order := make([]*ir.Tensor, len(set))
	byName := true
	for i, id := range g.Inputs {
		k := slices.IndexFunc(set, func(n named) bool { return n.name == g.Value(id).Name })
		if k < 0 {
			byName = false
			break
		}
		order[i] = set[k].tensor
	}
	for i, id := range g.Inputs {
		if !byName {
			order[i] = set[i].tensor
		}
		v := g.Value(id)
		t := order[i]
		if t.DType != v.Type.DType || !slices.Equal(t.Shape, v.Type.Shape) {
			// A sample without its leading batch dimension of 1 is what people have.
			if t.DType == v.Type.DType && t.Numel() == v.Type.Numel() && sameButOnes(t.Shape, v.Type.Shape) {
				order[i] = t.Reshaped(v.Type.Shape...)
				continue
			}
			return nil, fmt.Errorf("input %q of model %q is %s%v; the tensor given (%s) is %s%v", v.Name, g.Name, v.Type.DType, v.Type.Shape, set[i].path, t.DType, t.Shape)
		}
	}
	return order, nil
}

// sameButOnes reports whether two shapes differ only in leading ones.
func sameButOnes(a, b []int) bool {
	for len(a) > 0 && a[0] == 1 {
		a = a[1:]
	}
	for len(b) > 0 && b[0] == 1 {
		b = b[1:]
	}
	return slices.Equal(a, b)
}

// fewInputs is how many inputs of a model an error names.
const fewInputs = 6

// describeInputs lists names, types and shapes of a graph's inputs, at most so many.
func describeInputs(g *ir.Graph, most int) string {
	var parts []string
	for _, id := range g.Inputs[:min(most, len(g.Inputs))] {
		v := g.Value(id)
		parts = append(parts, fmt.Sprintf("%q %s%v", v.Name, v.Type.DType, v.Type.Shape))
	}
	if more := len(g.Inputs) - len(parts); more > 0 {
		parts = append(parts, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(parts, ", ")
}

// synthetic returns seeded inputs for a graph: standard normal values for floats,
// small integers for the rest. It is an error when they have more elements than
// float32 values fit in passes.MemoryLimit.
func synthetic(g *ir.Graph, seed uint64) ([]*ir.Tensor, error) {
	const most = passes.MemoryLimit / 4
	n := 0.0
	for _, id := range g.Inputs {
		n += float64(g.Type(id).Numel())
	}
	if n > most {
		return nil, fmt.Errorf("model %q: its inputs (%s) have %.3g elements, at most %d are made: use a smaller batch or smaller inputs",
			g.Name, describeInputs(g, fewInputs), n, most)
	}
	rng := rand.New(rand.NewPCG(seed, 0x5170))
	var out []*ir.Tensor
	for _, id := range g.Inputs {
		ty := g.Type(id)
		t := ir.Zeros(ty.DType, ty.Shape...)
		switch d := t.Any().(type) {
		case []float32:
			for i := range d {
				d[i] = float32(rng.NormFloat64())
			}
		case []float64:
			for i := range d {
				d[i] = rng.NormFloat64()
			}
		case []int8:
			for i := range d {
				d[i] = int8(rng.IntN(7) - 3)
			}
		case []uint8:
			for i := range d {
				d[i] = uint8(rng.IntN(2))
			}
		case []int32:
			for i := range d {
				d[i] = int32(rng.IntN(2))
			}
		case []int64:
			for i := range d {
				d[i] = int64(rng.IntN(2))
			}
		}
		out = append(out, t)
	}
	return out, nil
}

// WriteOutputs writes tensors as output_K.npy into a folder, which it makes. It
// refuses to replace files unless force is set.
func WriteOutputs(dir string, outputs []*ir.Tensor, force bool) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	file := func(i int) string { return filepath.Join(dir, fmt.Sprintf("output_%d.npy", i)) }
	for i := range outputs {
		if _, err := os.Lstat(file(i)); err == nil && !force {
			return fmt.Errorf("%s exists; give --force to replace it", file(i))
		}
	}
	for i, t := range outputs {
		if err := onnx.WriteTensorFile(file(i), "", t); err != nil {
			return err
		}
	}
	return nil
}
