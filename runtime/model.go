package runtime

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"situ/backend/pim/isa"
	"situ/frontend/onnx"
	"situ/ir"
	"situ/models"
)

// ModelOptions say how a model is read.
type ModelOptions struct {
	Dims map[string]int64 // sizes of symbolic dimensions
	// States names what a program keeps from run to run: pairs IN=OUT of an input and
	// the output that becomes it, and AutoStates for those that names give away.
	// Without any, all inputs are given to, and all outputs taken from, every run.
	States []string

	inputs []named // tensors the model will be run on, whose shapes bind dimensions too
}

// Model is an opened model: a graph, or a program compiled earlier.
type Model struct {
	Name    string
	Graph   *ir.Graph     // nil for a compiled program
	Host    *onnx.Host    // what follows Graph and depends on data; nil when nothing does
	Program *isa.Program  // nil for an ONNX model
	Ships   *models.Model // the model that ships, when inputs come with it; nil for others
	Opset   int64
	Bytes   int64 // size of the file, 0 for a model that is built

	Description string       // of a model that ships
	Dims        []models.Dim // that a model which is built takes
	Parameters  int64        // of a model that is built; others' are counted
	Batch       int          // inputs of one run, where it is known which dimension they are, or 0
	batchDim    string       // and the name of that dimension

	bound map[string]int64 // symbolic dimensions that were given a size, but for the batch

	States []ir.State // what programs keep from run to run

	growth *growth // nil without a cache that grows

	given      []named               // what remains of ModelOptions.inputs for the graph's inputs, in order
	constants  map[string]*ir.Tensor // of ModelOptions.inputs, those that are constants of the graph
	inputNames []string              // of the model as it came
}

// batch returns how many inputs a run of the model is known to take.
func (m *Model) batch() int { return max(m.Batch, 1) }

// computable refuses a graph whose weights have no values.
func (m *Model) computable() error {
	if m.Graph == nil || m.Graph.Described() == ir.NoValue {
		return nil
	}
	return fmt.Errorf("model %s: %w", m.Name, models.ErrDescribed)
}

// OpenModel reads an ONNX file, a compiled program, or a model that ships.
func OpenModel(name string, o ModelOptions) (*Model, error) {
	st, err := os.Stat(name)
	switch {
	case err == nil && st.IsDir():
		return nil, fmt.Errorf("%s is a folder; give the model file in it", name)
	case err == nil:
		return openFile(name, st.Size(), o)
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	if m, ok := models.Find(name); ok {
		return openShipped(m, o)
	}
	return nil, fmt.Errorf("%s: no such file, and no model of this name ships (there is: %s)", name, models.Names())
}

// openShipped opens a model that ships.
func openShipped(s *models.Model, o ModelOptions) (*Model, error) {
	parsed, parameters, err := s.Open(o.Dims)
	if err != nil {
		return nil, err
	}
	m := &Model{Name: s.Name, Description: s.Description, Dims: s.Dims, Parameters: parameters, Batch: int(o.Dims["batch"]), batchDim: "batch"}
	if s.HasImages() {
		m.Ships = s
	}
	if parameters > 0 {
		m.bound = maps.Clone(o.Dims)
		delete(m.bound, "batch")
		o.Dims = nil // the model was built for them
	} else {
		file, err := s.ONNX(nil)
		if err != nil {
			return nil, err
		}
		m.Bytes = int64(len(file))
	}
	return importModel(parsed, m, o)
}

// ReadModel reads an ONNX model held in memory, which must not be changed
// afterwards, and calls it by a name.
func ReadModel(name string, b []byte, o ModelOptions) (*Model, error) {
	parsed, err := onnx.Parse(b, "")
	if err != nil {
		return nil, fmt.Errorf("model %s: %w", name, err)
	}
	return importModel(parsed, &Model{Name: name, Bytes: int64(len(b))}, o)
}

// ModelName returns what the model in a file is called.
func ModelName(path string) string {
	short := strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
	if short == "model" { // the usual layout is NAME/model.onnx
		if abs, err := filepath.Abs(path); err == nil {
			short = filepath.Base(filepath.Dir(abs))
		}
	}
	return short
}

func openFile(path string, size int64, o ModelOptions) (*Model, error) {
	m := &Model{Name: ModelName(path), Bytes: size}
	if filepath.Ext(path) == ".pim" {
		b, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		p, err := isa.Decode(b)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		m.Program = p
		m.Name = p.Model
		return m, nil
	}
	parsed, err := onnx.Load(path)
	if err != nil {
		return nil, err // names the file
	}
	return importModel(parsed, m, o)
}

func importModel(parsed *onnx.Model, m *Model, o ModelOptions) (*Model, error) {
	m.inputNames = inputNamesOf(parsed)
	given, err := match(m.inputNames, o.inputs)
	if err != nil {
		return nil, fmt.Errorf("model %s: %w", m.Name, err)
	}
	s, err := importGiven(parsed, given, o)
	if err != nil {
		return nil, fmt.Errorf("model %s: %w", m.Name, err)
	}
	g := s.graph
	g.Name = m.Name
	m.Graph, m.Host, m.given, m.constants = g, s.host, s.given, s.constants
	if o.Dims != nil {
		m.bound = maps.Clone(o.Dims)
		if name := parsed.BatchSymbol(); m.bound[name] > 0 {
			m.Batch, m.batchDim = int(m.bound[name]), name
			delete(m.bound, name)
		}
	}
	if m.States, err = statesOf(g, o.States); err != nil {
		return nil, fmt.Errorf("model %s: %w", m.Name, err)
	}
	m.growth = growthOf(parsed, given, o)
	m.Opset = parsed.Opsets[""]
	return m, nil
}

// inputNamesOf returns the names of the inputs of a model as it came.
func inputNamesOf(parsed *onnx.Model) (names []string) {
	for _, in := range parsed.Inputs() {
		names = append(names, in.GetName())
	}
	return names
}

// match names tensors after the inputs of a model: by their own names where each is
// the name of an input, by position otherwise.
func match(inputs []string, set []named) ([]named, error) {
	if set == nil {
		return nil, nil
	}
	if len(inputs) != len(set) {
		var names []string
		for _, in := range inputs {
			names = append(names, strconv.Quote(in))
		}
		return nil, fmt.Errorf("it takes %d inputs (%s), %d given", len(inputs), strings.Join(names, ", "), len(set))
	}
	byName := make([]named, len(set))
	for i, in := range inputs {
		k := slices.IndexFunc(set, func(n named) bool { return n.name == in })
		if k < 0 {
			byName = slices.Clone(set)
			for i, in := range inputs {
				byName[i].name = in
			}
			break
		}
		byName[i] = set[k]
	}
	return byName, nil
}

// smallModel is the number of nodes up to which any input may be taken as a
// constant; operator tests are far below, models of interest above.
const smallModel = 200

// importGiven imports a model for the given inputs. Shapes of everything must be
// known when a graph is compiled, so where an input decides about shapes or
// branches it has to be a constant, the same in every run. Integer scalars
// beside other inputs, such as a sample rate, are taken so first; then no input
// is; and for small models all but the first. Where a graph of the whole model is
// had by none of these, what depends on data is left to the host.
func importGiven(parsed *onnx.Model, given []named, o ModelOptions) (*imported, error) {
	scalar := func(i int) bool { t := given[i].tensor; return len(t.Shape) == 0 && t.DType.IsInt() }
	tries := []func(i int) bool{
		scalar,
		func(int) bool { return false },
		func(i int) bool { return i > 0 },
	}
	scalars := 0
	for i := range given {
		if scalar(i) {
			scalars++
		}
	}
	if scalars == 0 || scalars == len(given) {
		tries = tries[1:]
	}
	if len(parsed.Proto.GetGraph().GetNode()) > smallModel || given == nil {
		tries = tries[:len(tries)-1]
	}
	var first *imported
	var fault error
	for _, constant := range tries {
		opt := onnx.ImportOptions{Dims: o.Dims, InputShapes: map[string][]int{}, Values: map[string]*ir.Tensor{}}
		var left []named
		for i, n := range given {
			opt.InputShapes[n.name] = n.tensor.Shape
			if constant(i) {
				opt.Values[n.name] = n.tensor
			} else {
				left = append(left, n)
			}
		}
		g, host, err := onnx.ImportHost(parsed, opt)
		switch {
		case err == nil && host == nil:
			return &imported{g, nil, left, opt.Values}, nil
		case err == nil && first == nil:
			first = &imported{g, host, left, opt.Values}
		case err != nil && fault == nil:
			fault = err
		}
	}
	if first == nil {
		return nil, fault
	}
	return first, nil
}

// imported is a model as importGiven found it.
type imported struct {
	graph     *ir.Graph
	host      *onnx.Host            // that runs an end, or nil
	given     []named               // for the graph's inputs
	constants map[string]*ir.Tensor // the other inputs
}
