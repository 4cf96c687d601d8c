package main

import (
	"fmt"
	"io"
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

// mayWrite refuses to replace a file unless force is set, so that nothing the user
// made is lost by a slip of the flag. Commands that work for long ask before they
// begin; "" and "-" name no file.
func mayWrite(path string, force bool) error {
	if force || path == "" || path == "-" {
		return nil
	}
	if _, err := os.Stat(path); err == nil {
		return fmt.Errorf("%s exists; give --force to replace it", path)
	}
	return nil
}

// create begins a file where mayWrite lets it.
func create(path string, force bool) (*output, error) {
	if err := mayWrite(path, force); err != nil {
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
