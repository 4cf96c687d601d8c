package gpu

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// ErrNoLLC says that the LLVM code generator is not installed.
var ErrNoLLC = errors.New("llc, the LLVM code generator, is not on PATH: install LLVM 14 or newer (on Debian: apt-get install llvm)")

// llcNames are what an llc on PATH may be called.
var llcNames = []string{"llc", "llc-19", "llc-18", "llc-17", "llc-16", "llc-15", "llc-14"}

// targets are the compute capabilities ×10 that PTX can be made for, with the
// oldest LLVM that knows each. PTX for an older one runs on newer cards.
var targets = []struct{ sm, llvm int }{{80, 14}, {86, 14}, {89, 16}, {90, 16}}

// DefaultSM is the compute capability ×10 that Debian 12's LLVM knows and every
// kernel makes do with.
const DefaultSM = 80

// LLC is an LLVM code generator.
type LLC struct {
	Path    string
	Version int // major
}

// FindLLC looks for an llc on PATH that makes PTX for a compute capability (×10): the
// newest, or for the default the one called llc, if there is one, so that the same
// kernels are counted whatever else is installed. The error is ErrNoLLC when there is
// none at all.
func FindLLC(ctx context.Context, sm int) (*LLC, error) {
	i := slices.IndexFunc(targets, func(t struct{ sm, llvm int }) bool { return t.sm == sm })
	if i < 0 {
		var names []string
		for _, t := range targets {
			names = append(names, strconv.Itoa(t.sm))
		}
		return nil, fmt.Errorf("no target sm_%d; there are %s", sm, strings.Join(names, ", "))
	}
	need := targets[i].llvm
	var newest LLC
	for _, name := range llcNames {
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		version, err := llcVersion(ctx, path)
		if err != nil {
			return nil, err
		}
		if version > newest.Version {
			newest = LLC{path, version}
		}
		if sm == DefaultSM && version >= need {
			break
		}
	}
	switch {
	case newest.Version == 0:
		return nil, ErrNoLLC
	case newest.Version >= need:
		return &newest, nil
	}
	return nil, fmt.Errorf("sm_%d needs llc %d or newer, the one installed is %d: install a newer LLVM (on Debian: apt-get install llvm-%d) or compile for sm_%d, whose PTX runs on newer cards too", sm, need, newest.Version, need, DefaultSM)
}

var versionPattern = regexp.MustCompile(`LLVM version (\d+)`)

func llcVersion(ctx context.Context, path string) (int, error) {
	out, err := exec.CommandContext(ctx, path, "--version").Output()
	if err != nil {
		return 0, fmt.Errorf("%s --version: %w", path, err)
	}
	m := versionPattern.FindSubmatch(out)
	if m == nil {
		return 0, fmt.Errorf("%s --version does not say its version", path)
	}
	if !bytes.Contains(out, []byte("nvptx64")) {
		return 0, fmt.Errorf("%s was built without the NVPTX target: install another LLVM (on Debian: apt-get install llvm)", path)
	}
	return strconv.Atoi(string(m[1]))
}

// Assemble makes the program's PTX for a compute capability (×10).
func (p *Program) Assemble(ctx context.Context, c *LLC, sm int) error {
	ptx, err := c.assemble(ctx, p.LLVM, sm)
	if err != nil {
		return err
	}
	p.PTX, p.SM = ptx, sm
	return nil
}

// assemble turns LLVM IR into PTX.
func (c *LLC) assemble(ctx context.Context, llvm string, sm int) (string, error) {
	cmd := exec.CommandContext(ctx, c.Path, "-O3", "-march=nvptx64", fmt.Sprintf("-mcpu=sm_%d", sm), "-fp-contract=off", "-o", "-")
	cmd.Stdin = strings.NewReader(llvm)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
		return "", fmt.Errorf("%s: %w\n%s", c.Path, err, firstLines(stderr.String(), 10))
	}
	ptx := stdout.String()
	if err := checkPTX(ptx, sm); err != nil {
		return "", fmt.Errorf("%s (LLVM %d): %w", c.Path, c.Version, err)
	}
	return ptx, nil
}

func firstLines(s string, n int) string {
	lines := strings.SplitAfterN(s, "\n", n+1)
	return strings.TrimSpace(strings.Join(lines[:min(n, len(lines))], ""))
}

var headerPattern = regexp.MustCompile(`(?m)^\.version (\d+)\.(\d+)\s*\n\.target sm_(\d+)`)

// checkPTX refuses what llc makes without complaint where it does not know the
// processor (a header for an old one) or an intrinsic (a call of a function that
// does not exist).
func checkPTX(ptx string, sm int) error {
	h := headerPattern.FindStringSubmatch(ptx)
	if h == nil {
		return errors.New("the PTX has no .version and .target header")
	}
	major, _ := strconv.Atoi(h[1])
	target, _ := strconv.Atoi(h[3])
	if major < 7 || target != sm {
		return fmt.Errorf("the PTX is of version %s.%s for sm_%s, want version 7.0 or newer for sm_%d: this llc does not know the target", h[1], h[2], h[3], sm)
	}
	if i := strings.Index(ptx, ".extern .func"); i >= 0 {
		return fmt.Errorf("the PTX calls a function that does not exist: %s", firstLines(ptx[i:], 1))
	}
	return nil
}
