package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
)

// output is a file being written. The file of the wanted name appears, or is
// replaced, only once all of it has been written.
type output struct {
	*os.File
	path string // the wanted name; "" for a device or pipe, which is written to directly
}

// mayReplace refuses to replace a file unless force is set, so that nothing the user
// made is lost by a slip of the flag.
func mayReplace(path string, force bool) error {
	if force {
		return nil
	}
	if _, err := os.Stat(path); err == nil {
		return fmt.Errorf("%s exists; give --force to replace it", path)
	}
	return nil
}

// mayWrite says whether a file can be made, or replaced where force is set. Commands
// that work for long ask before they begin; "" and "-" name no file.
func mayWrite(path string, force bool) error {
	if path == "" || path == "-" {
		return nil
	}
	if err := mayReplace(path, force); err != nil {
		return err
	}
	switch st, err := os.Stat(path); {
	case err != nil:
	case st.IsDir():
		return fmt.Errorf("%s is a folder; give the name of a file", path)
	case !st.Mode().IsRegular():
		return nil // a device or pipe, which is written to directly
	}
	dir := filepath.Dir(path)
	switch st, err := os.Stat(dir); {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s: there is no folder %s; make it first", path, dir)
	case err != nil:
		return err
	case !st.IsDir():
		return fmt.Errorf("%s: %s is no folder", path, dir)
	}
	return takesFiles(dir)
}

// mayFill says whether files can be made in a folder, which is made when it does not
// exist.
func mayFill(dir string) error {
	for {
		st, err := os.Stat(dir)
		switch {
		case err == nil && !st.IsDir():
			return fmt.Errorf("%s is no folder", dir)
		case err == nil:
			return takesFiles(dir)
		case !errors.Is(err, fs.ErrNotExist):
			return err
		}
		dir = filepath.Dir(dir)
	}
}

// takesFiles tries to make a file in a folder.
func takesFiles(dir string) error {
	f, err := os.CreateTemp(dir, ".situ-*.part")
	if err != nil {
		return fmt.Errorf("nothing can be written to folder %s: %w", dir, errors.Unwrap(err))
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// create begins a file where mayReplace lets it.
func create(path string, force bool) (*output, error) {
	if err := mayReplace(path, force); err != nil {
		return nil, err
	}
	if st, err := os.Stat(path); err == nil {
		if !st.Mode().IsRegular() {
			f, err := os.OpenFile(path, os.O_WRONLY, 0)
			return &output{File: f}, err
		}
		if path, err = filepath.EvalSymlinks(path); err != nil {
			return nil, err
		}
	}
	f, err := os.OpenFile(fmt.Sprintf("%s.%d.part", path, os.Getpid()), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	return &output{f, path}, err
}

// commit ends a file that is complete.
func (o *output) commit() error {
	err := o.Close()
	if o.path == "" {
		return err
	}
	if err == nil {
		err = os.Rename(o.Name(), o.path)
	}
	if err != nil {
		os.Remove(o.Name())
	}
	return err
}

// abandon ends a file that is not complete and leaves things as they were.
func (o *output) abandon() {
	o.Close()
	if o.path != "" {
		os.Remove(o.Name())
	}
}

// writeOut writes to a file made by create, or to standard output when path is
// "" or "-".
func writeOut(cmd *cobra.Command, path string, force bool, write func(io.Writer) error) error {
	if path == "" || path == "-" {
		return write(cmd.OutOrStdout())
	}
	f, err := create(path, force)
	if err != nil {
		return err
	}
	if err := write(f); err != nil {
		f.abandon()
		return err
	}
	return f.commit()
}

// writeFile is writeOut for bytes; with --json it says what it wrote.
func writeFile(cmd *cobra.Command, path string, force bool, b []byte) error {
	if err := writeOut(cmd, path, force, func(w io.Writer) error { _, err := w.Write(b); return err }); err != nil {
		return err
	}
	if wantJSON(cmd) && path != "-" {
		return printJSON(cmd.OutOrStdout(), map[string]any{"file": path, "bytes": len(b)})
	}
	return nil
}
