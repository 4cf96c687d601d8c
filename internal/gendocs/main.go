// Command gendocs writes the reference pages that follow from tables in the
// code: docs/isa.md from the instruction table, docs/ir.md from the
// operator table and docs/operators.md from the importer's table; and the PTX that
// comes with situ (backend/gpu/prebuilt), which needs llc. With -check it writes
// nothing and fails when something is stale.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"log"
	"os"

	"situ/backend/pim/isa"
	"situ/ir"
)

var pages = []struct {
	path  string
	write func(io.Writer) error
}{
	{"docs/isa.md", isa.Reference},
	{"docs/ir.md", ir.Reference},
	{"docs/operators.md", onnxReference},
}

func main() {
	log.SetFlags(0)
	check := flag.Bool("check", false, "fail when a page is stale instead of writing it")
	flag.Parse()
	for _, p := range pages {
		if err := update(p.path, p.write, *check); err != nil {
			log.Fatal(err)
		}
	}
	if err := prebuiltKernels(*check); err != nil {
		log.Fatal(err)
	}
}

func update(path string, write func(io.Writer) error, check bool) error {
	var b bytes.Buffer
	if err := write(&b); err != nil {
		return err
	}
	old, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	if bytes.Equal(old, b.Bytes()) {
		return nil
	}
	if check {
		return fmt.Errorf("%s is stale; run make generate", path)
	}
	return os.WriteFile(path, b.Bytes(), 0o644)
}
