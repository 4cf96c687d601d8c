// Package policy holds tests of the project as a whole.
package policy

import (
	"encoding/json"
	"io"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
)

// imports says which packages of the project a package may import; a pattern
// ending in /... covers a folder and all below. What is not allowed is
// forbidden. Test files are free.
//
// The two lines that matter most: the emulator knows the program, never the
// graph; and the two back ends do not know each other.
var imports = []struct {
	pkg   string
	allow []string
}{
	{"situ/ir", nil},
	{"situ/ir/irtest", []string{"situ/ir"}},
	{"situ/ir/eval", []string{"situ/ir", "situ/internal/par", "situ/internal/fixed", "situ/internal/gemm", "situ/internal/vecf32"}},
	{"situ/frontend/onnx", []string{"situ/ir", "situ/ir/eval", "situ/frontend/onnx/onnxpb", "situ/internal/npy"}},
	{"situ/frontend/onnx/onnxpb", nil},
	{"situ/passes", []string{"situ/ir", "situ/ir/eval", "situ/internal/fixed", "situ/internal/par"}},
	{"situ/arch", nil},
	{"situ/backend/pim/isa", nil},
	{"situ/backend/pim", []string{"situ/ir", "situ/passes", "situ/arch", "situ/backend/pim/isa", "situ/internal/fixed", "situ/internal/vecf32", "situ/internal/cost", "situ/internal/par"}},
	{"situ/backend/gpu", []string{"situ/ir", "situ/passes", "situ/arch", "situ/backend/gpu/kernel", "situ/internal/fixed"}},
	{"situ/backend/gpu/kernel", nil},
	{"situ/backend/gpu/cuda", nil},
	{"situ/backend/gpu/cuda/cudatest", []string{"situ/emulator/ptx"}},
	{"situ/emulator/ptx", nil},
	{"situ/emulator/...", []string{"situ/emulator/...", "situ/backend/pim/isa", "situ/arch", "situ/internal/fixed", "situ/internal/gemm", "situ/internal/vecf32", "situ/internal/cost"}},
	{"situ/models/...", []string{"situ/ir", "situ/frontend/onnx", "situ/frontend/onnx/onnxpb", "situ/internal/gemm", "situ/internal/mnist"}},
	{"situ/internal/gendocs", []string{"situ/..."}},
	{"situ/internal/decodertest", []string{"situ/frontend/onnx/onnxpb"}},
	{"situ/internal/...", []string{"situ/internal/par"}},
	{"situ/runtime/...", []string{"situ/..."}},
	{"situ/cmd/situ", []string{"situ/..."}},
}

func matches(pattern, pkg string) bool {
	if base, ok := strings.CutSuffix(pattern, "/..."); ok {
		return pkg == base || strings.HasPrefix(pkg, base+"/")
	}
	return pattern == pkg
}

func TestImports(t *testing.T) {
	out, err := exec.Command("go", "list", "-json=ImportPath,Imports", "situ/...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	dec := json.NewDecoder(strings.NewReader(string(out)))
	for {
		var p struct {
			ImportPath string
			Imports    []string
		}
		if err := dec.Decode(&p); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		row := slices.IndexFunc(imports, func(r struct {
			pkg   string
			allow []string
		}) bool {
			return matches(r.pkg, p.ImportPath)
		})
		if row < 0 {
			t.Errorf("%s has no row in the import table", p.ImportPath)
			continue
		}
		for _, imp := range p.Imports {
			if !strings.HasPrefix(imp, "situ/") {
				continue
			}
			if strings.HasPrefix(imp, "situ/runtime") && !matches("situ/runtime/...", p.ImportPath) && !strings.HasPrefix(p.ImportPath, "situ/cmd/") && p.ImportPath != "situ/internal/gendocs" {
				t.Errorf("%s imports %s: only commands may import runtime", p.ImportPath, imp)
			}
			if !slices.ContainsFunc(imports[row].allow, func(a string) bool { return matches(a, imp) }) {
				t.Errorf("%s imports %s, which row %q (%s) does not allow", p.ImportPath, imp, imports[row].pkg, path.Base(p.ImportPath))
			}
		}
	}
}
