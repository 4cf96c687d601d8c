package gpu

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Files of a compiled program.
const (
	PlanFile      = "plan.json"
	LLVMFile      = "kernels.ll"
	PTXFile       = "kernels.ptx"
	ConstantsFile = "constants.bin"
)

// Write writes the program's files into a folder, which it makes if need be;
// without PTX there is no PTXFile. It refuses to replace files unless force is
// set, and leaves nothing behind when it fails.
func (p *Program) Write(dir string, force bool) (err error) {
	plan, err := p.plan()
	if err != nil {
		return err
	}
	files := []struct {
		name string
		data []byte
	}{
		{LLVMFile, []byte(p.LLVM)},
		{ConstantsFile, p.Constants},
		{PTXFile, []byte(p.PTX)},
		{PlanFile, plan},
	}
	made := missingFolders(dir)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		for _, d := range made {
			os.Remove(d)
		}
		return err
	}
	if !force {
		for _, f := range files {
			path := filepath.Join(dir, f.name)
			if _, err := os.Lstat(path); err == nil {
				return fmt.Errorf("%s exists; give --force to replace it", path)
			}
		}
	}
	var temporary, placed []string
	defer func() {
		for _, t := range temporary {
			os.Remove(t)
		}
		if err == nil {
			return
		}
		for _, f := range placed {
			os.Remove(f)
		}
		for _, d := range made {
			os.Remove(d) // only when it is empty
		}
	}()
	for _, f := range files {
		t, err := os.CreateTemp(dir, "."+f.name+"-*")
		if err != nil {
			return err
		}
		temporary = append(temporary, t.Name())
		_, err = t.Write(f.data)
		if err = errors.Join(err, t.Chmod(0o644), t.Close()); err != nil {
			return err
		}
	}
	for i, f := range files {
		path := filepath.Join(dir, f.name)
		if f.name == PTXFile && p.PTX == "" {
			if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			continue
		}
		_, stat := os.Lstat(path)
		if err := os.Rename(temporary[i], path); err != nil {
			return err
		}
		if errors.Is(stat, fs.ErrNotExist) {
			placed = append(placed, path)
		}
	}
	return nil
}

// missingFolders returns the folders that making dir will make, the innermost
// first.
func missingFolders(dir string) []string {
	var out []string
	for d := filepath.Clean(dir); ; d = filepath.Dir(d) {
		if _, err := os.Stat(d); !errors.Is(err, fs.ErrNotExist) {
			return out
		}
		out = append(out, d)
	}
}

// plan is the program as JSON, one buffer, input, output or launch a line.
func (p *Program) plan() ([]byte, error) {
	var b bytes.Buffer
	var failed error
	value := func(v any) {
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		failed = errors.Join(failed, e.Encode(v))
		b.Truncate(b.Len() - 1) // the encoder's newline
	}
	fmt.Fprint(&b, "{\n \"model\": ")
	value(p.Model)
	fmt.Fprint(&b, ",\n \"target\": ")
	value(p.Target)
	fmt.Fprintf(&b, ",\n \"sm\": %d", p.SM)
	list := func(name string, n int, at func(i int) any) {
		fmt.Fprintf(&b, ",\n %q: [", name)
		for i := range n {
			fmt.Fprint(&b, [...]string{"\n  ", ",\n  "}[min(i, 1)])
			value(at(i))
		}
		fmt.Fprint(&b, "\n ]")
	}
	list("buffers", len(p.Buffers), func(i int) any { return p.Buffers[i] })
	list("inputs", len(p.Inputs), func(i int) any { return p.Inputs[i] })
	list("outputs", len(p.Outputs), func(i int) any { return p.Outputs[i] })
	list("launches", len(p.Launches), func(i int) any { return p.Launches[i] })
	fmt.Fprint(&b, "\n}\n")
	return b.Bytes(), failed
}
