package main

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite expected outputs of scripts and the one shown in README.md")

// TestReadme checks that README.md shows what its first command prints today.
func TestReadme(t *testing.T) {
	var out bytes.Buffer
	root := newRoot()
	root.SetOut(&out)
	root.SetArgs([]string{"compare", "digits"})
	if err := root.Execute(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join("..", "..", "README.md")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	begin, end := []byte("<!-- output of: situ compare digits -->\n```\n"), []byte("```\n<!-- end -->")
	_, rest, ok1 := bytes.Cut(text, begin)
	shown, _, ok2 := bytes.Cut(rest, end)
	if !ok1 || !ok2 {
		t.Fatal("README.md has lost the markers around the first command's output")
	}
	if d := cmp.Diff(string(shown), out.String()); d != "" {
		if *update {
			text = bytes.Replace(text, append(append(bytes.Clone(begin), shown...), end...), append(append(bytes.Clone(begin), out.Bytes()...), end...), 1)
			if err := os.WriteFile(path, text, 0o644); err != nil {
				t.Fatal(err)
			}
			return
		}
		t.Errorf("README.md shows another output than the command prints (-shown +printed; go test ./cmd/situ -run Readme -update rewrites it):\n%s", d)
	}
}
