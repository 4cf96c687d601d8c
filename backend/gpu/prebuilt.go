package gpu

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"fmt"
	"io"
)

// PTX of programs of the model that ships, so that comparing it needs no llc: one
// file a program, named for its LLVM IR. make generate renews them.
//
//go:embed prebuilt/*.ptx.gz
var prebuilt embed.FS

// PrebuiltFile names the file that holds the PTX of a program for a compute
// capability (×10).
func PrebuiltFile(p *Program, sm int) string {
	return fmt.Sprintf("%x-sm%d.ptx.gz", sha256.Sum256([]byte(p.LLVM)), sm)
}

// UsePrebuilt gives the program the PTX that comes with situ, if there is any made
// from the same LLVM IR, and reports whether there was.
func (p *Program) UsePrebuilt(sm int) bool {
	packed, err := prebuilt.ReadFile("prebuilt/" + PrebuiltFile(p, sm))
	if err != nil {
		return false
	}
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return false
	}
	text, err := io.ReadAll(z)
	if err != nil || checkPTX(string(text), sm) != nil {
		return false
	}
	p.PTX, p.SM = string(text), sm
	return true
}
