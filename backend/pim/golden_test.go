package pim

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"situ/arch"
	"situ/backend/pim/isa"
	"situ/ir"
)

var update = flag.Bool("update", false, "rewrite the expected parts of testdata")

// TestGolden compiles the graphs of testdata/*.txtar and compares the program
// with the text beside them. The comment of an archive starts with the chip's
// name and the number of clusters; what follows says what to look at.
func TestGolden(t *testing.T) {
	chips := map[string]func() *arch.Chip{"tiny": tinyChip, "many": manyChip}
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal("no golden files", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			a, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var name string
			var n int
			if _, err := fmt.Sscan(string(a.Comment), &name, &n); err != nil || chips[name] == nil {
				t.Fatalf("the comment does not start with a chip and a number of clusters: %v", err)
			}
			g, err := ir.Parse(string(a.Files[0].Data), nil)
			if err != nil {
				t.Fatal(err)
			}
			p, err := Compile(g, chips[name](), Options{Clusters: n})
			if err != nil {
				t.Fatal(err)
			}
			got := programText(p)
			if *update {
				a.Files = []txtar.File{a.Files[0], {Name: "program", Data: []byte(got)}}
				if err := os.WriteFile(file, txtar.Format(a), 0o666); err != nil {
					t.Fatal(err)
				}
				return
			}
			if len(a.Files) < 2 || !bytes.Equal(a.Files[1].Data, []byte(got)) {
				t.Errorf("the program differs from %s (rewrite it with go test -run TestGolden -update):\n%s", file, got)
			}
		})
	}
}

// programText is a program without its constants, for people.
func programText(p *isa.Program) string {
	var b strings.Builder
	for _, l := range p.Layers {
		fmt.Fprintf(&b, "layer %s %s, %d MACs: %s\n", l.Op, l.Name, l.MACs, l.Mapping)
	}
	for _, s := range []struct {
		name    string
		streams []isa.Stream
	}{{"init", p.Init}, {"main", p.Main}} {
		for j := range s.streams {
			fmt.Fprintf(&b, "%s %d\n", s.name, j)
			for i := range s.streams[j].Insts {
				fmt.Fprintf(&b, "  %s\n", isa.AppendInst(nil, &s.streams[j].Insts[i]))
			}
		}
	}
	return b.String()
}
