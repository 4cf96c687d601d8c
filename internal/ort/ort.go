// Package ort runs models in ONNX Runtime for tests and benchmarks, as a second
// opinion. It uses the tool beside the project (../shared/tools/ort) on node,
// and installs it into the user's cache on first use.
package ort

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
)

// Dir returns the folder with ONNX Runtime for node and the scripts that run it.
// The error says what is missing.
var Dir = sync.OnceValues(func() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "situ-bench", "ort")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	src, err := tools()
	if err != nil {
		return "", err
	}
	if err := exec.Command("cp", "-r", src+"/.", dir).Run(); err != nil {
		return "", fmt.Errorf("copy %s: %w", src, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "node_modules", "onnxruntime-node")); err == nil {
		return dir, nil
	}
	npm := exec.Command("npm", "install", "--ignore-scripts", "--no-audit", "--no-fund")
	npm.Dir = dir
	if out, err := npm.CombinedOutput(); err != nil {
		return "", fmt.Errorf("npm install: %v\n%s", err, out)
	}
	return dir, nil
})

// tools finds the tool from the folder a test runs in, which lies inside the
// project.
func tools() (string, error) {
	at, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		dir := filepath.Join(at, "shared", "tools", "ort")
		if _, err := os.Stat(dir); err == nil {
			return dir, nil
		}
		up := filepath.Dir(at)
		if up == at {
			return "", fmt.Errorf("no folder shared/tools/ort beside the project")
		}
		at = up
	}
}

// Run executes a model on one thread with graph optimisations off, on the inputs
// input_K.pb of a folder, and writes its results there as output_K.pb.
func Run(model, dir string) error {
	at, err := Dir()
	if err != nil {
		return err
	}
	cmd := exec.Command("node", "ort_run.mjs", model, "--set", dir, "--out", dir)
	cmd.Dir = at
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("ONNX Runtime: %w\n%s", err, out)
	}
	return nil
}

// optimise writes models as they are after ONNX Runtime's own fusions.
const optimise = `
import { ort } from './tensor.mjs';
const list = process.argv.slice(1);
for (let i = 0; i < list.length; i += 2)
  await ort.InferenceSession.create(list[i], { graphOptimizationLevel: 'extended', optimizedModelFilePath: list[i + 1], intraOpNumThreads: 1, logSeverityLevel: 3 });
`

// Optimise writes models, given as pairs of a file and one to write, with the
// fusions that ONNX Runtime makes for any processor.
func Optimise(pairs ...string) error {
	at, err := Dir()
	if err != nil {
		return err
	}
	cmd := exec.Command("node", append([]string{"--input-type=module", "-e", optimise}, pairs...)...)
	cmd.Dir = at
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("ONNX Runtime: %w\n%s", err, out)
	}
	return nil
}
