package runtime

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"situ/backend/pim/isa"
	"situ/frontend/onnx"
	"situ/ir"
	"situ/models"
)

// ModelOptions say how a model is read.
type ModelOptions struct {
	Dims        map[string]int64 // sizes of symbolic dimensions
	InputShapes map[string][]int // shapes of inputs, which bind symbolic dimensions too
}

// Model is an opened model: a graph, or a program compiled earlier.
type Model struct {
	Name    string
	Graph   *ir.Graph     // nil for a compiled program
	Program *isa.Program  // nil for an ONNX model
	Ships   *models.Model // nil for files
	Opset   int64
	Bytes   int64 // size of the file
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
		b, err := models.ONNX(name)
		if err != nil {
			return nil, err
		}
		parsed, err := onnx.Parse(b, "")
		if err != nil {
			return nil, err
		}
		return importModel(parsed, &Model{Name: m.Name, Ships: m, Bytes: int64(len(b))}, o)
	}
	var names []string
	for _, m := range models.List() {
		names = append(names, m.Name)
	}
	return nil, fmt.Errorf("%s: no such file, and no model of this name ships (there is: %s)", name, strings.Join(names, ", "))
}

func openFile(path string, size int64, o ModelOptions) (*Model, error) {
	short := strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
	if short == "model" { // the usual layout is NAME/model.onnx
		if abs, err := filepath.Abs(path); err == nil {
			short = filepath.Base(filepath.Dir(abs))
		}
	}
	m := &Model{Name: short, Bytes: size}
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
	g, err := onnx.Import(parsed, onnx.ImportOptions{Dims: o.Dims, InputShapes: o.InputShapes})
	if err != nil {
		return nil, fmt.Errorf("model %s: %w", m.Name, err)
	}
	g.Name = m.Name
	m.Graph = g
	for _, s := range parsed.Proto.GetOpsetImport() {
		if s.GetDomain() == "" || s.GetDomain() == "ai.onnx" {
			m.Opset = s.GetVersion()
		}
	}
	return m, nil
}
