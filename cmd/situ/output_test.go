package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/spf13/cobra"
)

// TestWriteOut checks that a file appears, or is replaced, whole or not at all.
func TestWriteOut(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	link := filepath.Join(dir, "link")
	if err := os.Symlink("f", link); err != nil {
		t.Fatal(err)
	}
	write := func(path, text string, force, fail bool) error {
		return writeOut(&cobra.Command{}, path, force, func(w io.Writer) error {
			if _, err := io.WriteString(w, text); err != nil {
				return err
			}
			if fail {
				return errors.New("disk on fire")
			}
			return nil
		})
	}
	check := func(want ...string) {
		t.Helper()
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		if len(entries) != len(want)+1 { // and the link
			t.Fatalf("folder holds %v, want %d files and a link", entries, len(want))
		}
		for _, w := range want {
			if b, err := os.ReadFile(path); err != nil || string(b) != w {
				t.Errorf("file holds %q (%v), want %q", b, err, w)
			}
		}
	}
	if write(path, "half", false, true) == nil {
		t.Error("a failed write gives no error")
	}
	check()
	if err := write(path, "one", false, false); err != nil {
		t.Error(err)
	}
	check("one")
	if write(path, "two", false, false) == nil {
		t.Error("a file was replaced without force")
	}
	if write(path, "half", true, true) == nil {
		t.Error("a failed write gives no error")
	}
	check("one")
	if err := write(path, "two", true, false); err != nil {
		t.Error(err)
	}
	check("two")
	if err := write(link, "three", true, false); err != nil {
		t.Error(err)
	}
	check("three")
	if err := write("/dev/null", "half", true, true); err == nil {
		t.Error("a failed write gives no error")
	}
	if st, err := os.Stat("/dev/null"); err != nil || st.Mode().IsRegular() {
		t.Errorf("/dev/null is gone: %v", err)
	}
}

// What cannot be written is refused before work begins, and asking leaves nothing.
func TestMayWrite(t *testing.T) {
	dir := t.TempDir()
	closed := filepath.Join(dir, "closed")
	if err := os.Mkdir(closed, 0o555); err != nil {
		t.Fatal(err)
	}
	for path, ok := range map[string]bool{"": true, "-": true, os.DevNull: true, filepath.Join(dir, "f"): true, filepath.Join(dir, "no", "f"): false, dir: false} {
		if err := mayWrite(path, true); (err == nil) != ok {
			t.Errorf("mayWrite(%q): %v", path, err)
		}
	}
	if err := mayFill(filepath.Join(dir, "a", "b")); err != nil {
		t.Errorf("a folder that would be made: %v", err)
	}
	if os.Getuid() != 0 { // who may write everywhere
		if mayWrite(filepath.Join(closed, "f"), false) == nil || mayFill(filepath.Join(closed, "a")) == nil {
			t.Error("a folder that takes no files passes")
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}
