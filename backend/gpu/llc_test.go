package gpu

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// fakeLLC puts a script called llc on PATH, and nothing else.
func fakeLLC(t *testing.T, script string) { fakeLLCs(t, map[string]string{"llc": script}) }

// fakeLLCs puts scripts on PATH, by name, and nothing else.
func fakeLLCs(t *testing.T, scripts map[string]string) {
	t.Helper()
	dir := t.TempDir()
	for name, script := range scripts {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir)
}

const version14 = "if [ \"$1\" = --version ]; then echo 'Debian LLVM version 14.0.6'; echo '    nvptx64 - NVIDIA PTX 64-bit'; exit 0; fi\n"

func TestFindLLC(t *testing.T) {
	ctx := context.Background()
	t.Setenv("PATH", t.TempDir())
	if _, err := FindLLC(ctx, DefaultSM); !errors.Is(err, ErrNoLLC) || !strings.Contains(err.Error(), "apt-get install llvm") {
		t.Errorf("without llc: %v", err)
	}
	for _, c := range []struct {
		script string
		sm     int
		want   string // part of the error, empty for none
	}{
		{version14, 80, ""},
		{version14, 90, "sm_90 needs llc 16 or newer, the one installed is 14"},
		{version14, 70, "no target sm_70; there are 80, 86, 89, 90"},
		{"echo 'LLVM version 19.1.7'; echo 'x86-64'", 80, "without the NVPTX target"},
		{"echo hello", 80, "does not say its version"},
		{"exit 3", 80, "--version"},
	} {
		fakeLLC(t, c.script)
		got, err := FindLLC(ctx, c.sm)
		switch {
		case c.want == "" && (err != nil || got.Version != 14):
			t.Errorf("%q for sm_%d: %v, %v", c.script, c.sm, got, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%q for sm_%d: %v, want %q", c.script, c.sm, err, c.want)
		}
	}
}

// TestFindNewestLLC: a target takes the newest llc that knows it, the default one the
// one called llc.
func TestFindNewestLLC(t *testing.T) {
	version := func(v string) string {
		return "echo 'LLVM version " + v + ".0.6'; echo '    nvptx64 - NVIDIA PTX 64-bit'"
	}
	for _, c := range []struct {
		llcs map[string]string // name → version
		sm   int
		want string
	}{
		{map[string]string{"llc": "14", "llc-14": "14", "llc-16": "16", "llc-19": "19"}, 90, "llc-19"},
		{map[string]string{"llc": "14", "llc-14": "14", "llc-16": "16", "llc-19": "19"}, 86, "llc-19"},
		{map[string]string{"llc": "14", "llc-14": "14", "llc-16": "16", "llc-19": "19"}, DefaultSM, "llc"},
		{map[string]string{"llc": "16", "llc-14": "14", "llc-19": "19"}, 90, "llc-19"},
		{map[string]string{"llc": "20", "llc-19": "19"}, 90, "llc"},
		{map[string]string{"llc-14": "14", "llc-16": "16"}, DefaultSM, "llc-16"},
		{map[string]string{"llc-14": "14", "llc-16": "16"}, 89, "llc-16"},
	} {
		scripts := map[string]string{}
		for name, v := range c.llcs {
			scripts[name] = version(v)
		}
		fakeLLCs(t, scripts)
		got, err := FindLLC(context.Background(), c.sm)
		if err != nil || filepath.Base(got.Path) != c.want {
			t.Errorf("%v for sm_%d: %v, %v, want %s", c.llcs, c.sm, got, err, c.want)
		}
	}
}

// TestEveryLLC compiles two models by each llc on PATH, for the default target and for
// the newest that it knows, and compares bits.
func TestEveryLLC(t *testing.T) {
	root := shared(t, "onnx")
	ctx := context.Background()
	needLLC(t)
	newest := 0
	for _, name := range llcNames {
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		version, err := llcVersion(ctx, path)
		if err != nil {
			t.Fatal(err)
		}
		newest = max(newest, version)
		c := &LLC{Path: path, Version: version}
		best := DefaultSM
		for _, x := range targets {
			if x.llvm <= version {
				best = x.sm
			}
		}
		sms := []int{DefaultSM, best}
		for _, sm := range sms {
			for _, model := range []string{"mlperf-tiny-ic-resnet8-int8-qdq", "bert-toy-6l"} {
				t.Run(fmt.Sprintf("%s/sm_%d/%s", name, sm, model), func(t *testing.T) {
					m, in, shapes := openFolder(t, filepath.Join(root, "models", model))
					modelBitsBy(t, c, sm, m, in, shapes)
				})
			}
		}
	}
	if newest < 16 {
		t.Logf("the newest llc is %d: no PTX for sm_89 and sm_90 has been made", newest)
	}
}

// TestAssembleErrors: what llc gets wrong in silence is refused.
func TestAssembleErrors(t *testing.T) {
	ctx := context.Background()
	for _, c := range []struct{ script, want string }{
		{"printf '.version 3.2\\n.target sm_20\\n'", "does not know the target"},
		{"printf '.version 7.0\\n.target sm_80\\n.extern .func (.param .b32 r) llvm.nvvm.idp4a\\n'", "calls a function that does not exist"},
		{"echo nothing", "no .version"},
		{"echo '<stdin>:3:1: error: expected type' >&2; exit 1", "expected type"},
	} {
		fakeLLC(t, version14+c.script)
		l, err := FindLLC(ctx, DefaultSM)
		if err != nil {
			t.Fatal(err)
		}
		p := &Program{}
		if err := p.Assemble(ctx, l, DefaultSM); err == nil || !strings.Contains(err.Error(), c.want) || p.PTX != "" {
			t.Errorf("%q: %v, want %q", c.script, err, c.want)
		}
	}
}

func TestWrite(t *testing.T) {
	p := &Program{Model: "m", LLVM: "ll", PTX: "ptx", Constants: []byte{1}}
	dir := filepath.Join(t.TempDir(), "out")
	if err := p.Write(dir, false); err != nil {
		t.Fatal(err)
	}
	for _, f := range []string{PlanFile, LLVMFile, PTXFile, ConstantsFile} {
		if _, err := os.Stat(filepath.Join(dir, f)); err != nil {
			t.Error(err)
		}
	}
	if err := p.Write(dir, false); err == nil || !strings.Contains(err.Error(), "--force") {
		t.Errorf("second time: %v", err)
	}
	p.PTX = "" // a folder must not keep PTX of another program
	if err := p.Write(dir, true); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, PTXFile)); err == nil {
		t.Error("old PTX is still there")
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 3 {
		t.Errorf("%d files are left, want 3 (%v)", len(files), err)
	}
	// One of the files cannot be placed: those before it go again.
	bad := filepath.Join(t.TempDir(), "out")
	if err := os.MkdirAll(filepath.Join(bad, PTXFile, "sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	p.PTX = "ptx"
	if err := p.Write(bad, true); err == nil {
		t.Error("replaced a folder by a file")
	}
	if left, err := os.ReadDir(bad); err != nil || len(left) != 1 {
		t.Errorf("%v is left, want the folder that was there alone (%v)", left, err)
	}
	file := filepath.Join(dir, PlanFile)
	if err := p.Write(filepath.Join(file, "sub"), false); err == nil {
		t.Error("writing below a file succeeded")
	}
}
