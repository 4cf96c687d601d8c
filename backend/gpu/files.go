package gpu

import (
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
	plan, err := json.MarshalIndent(p, "", " ")
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
		{PlanFile, append(plan, '\n')},
	}
	_, stat := os.Stat(dir)
	made := errors.Is(stat, fs.ErrNotExist)
	if err := os.MkdirAll(dir, 0o755); err != nil {
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
	var temporary []string
	defer func() {
		for _, t := range temporary {
			os.Remove(t)
		}
		if err != nil && made {
			os.Remove(dir) // only when it is empty
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
		if err := os.Rename(temporary[i], path); err != nil {
			return err
		}
	}
	return nil
}
