package main

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite expected outputs of scripts and the one shown in README.md")

// TestReadme checks that README.md and the docs show what the commands beside the
// output print today.
func TestReadme(t *testing.T) {
	for _, tt := range []struct{ file, command string }{
		{"README.md", "compare digits"},
		{"docs/models.md", "model list"},
	} {
		t.Run(tt.file, func(t *testing.T) { testShown(t, tt.file, tt.command) })
	}
}

func testShown(t *testing.T, file, command string) {
	var out bytes.Buffer
	root := newRoot()
	root.SetOut(&out)
	root.SetArgs(strings.Fields(command))
	if err := root.Execute(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join("..", "..", filepath.FromSlash(file))
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	begin, end := []byte("<!-- output of: situ "+command+" -->\n```\n"), []byte("```\n<!-- end -->")
	_, rest, ok1 := bytes.Cut(text, begin)
	shown, _, ok2 := bytes.Cut(rest, end)
	if !ok1 || !ok2 {
		t.Fatalf("%s has lost the markers around the output of situ %s", file, command)
	}
	if d := cmp.Diff(string(shown), out.String()); d != "" {
		if *update {
			text = bytes.Replace(text, append(append(bytes.Clone(begin), shown...), end...), append(append(bytes.Clone(begin), out.Bytes()...), end...), 1)
			if err := os.WriteFile(path, text, 0o644); err != nil {
				t.Fatal(err)
			}
			return
		}
		t.Errorf("%s shows another output than the command prints (-shown +printed; go test ./cmd/situ -run Readme -update rewrites it):\n%s", file, d)
	}
}
