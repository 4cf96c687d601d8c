package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/goccy/go-yaml"

	"situ/runtime/explore"
)

// The spaces of studies, which take too long to explore in a test, can be read.
func TestStudies(t *testing.T) {
	spaces, err := filepath.Glob(filepath.Join("..", "..", "docs", "studies", "*.yaml"))
	if err != nil || len(spaces) == 0 {
		t.Fatalf("no spaces: %v", err)
	}
	for _, path := range spaces {
		if _, err := explore.Load(path); err != nil {
			t.Error(err)
		}
	}
}

// The Kubernetes manifest is readable, and starts a worker with flags that there
// are.
func TestWorkerJob(t *testing.T) {
	b, err := os.ReadFile(filepath.Join("..", "..", "docs", "examples", "worker-job.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var job struct {
		Kind string
		Spec struct {
			Template struct {
				Spec struct {
					Containers []struct{ Command, Args []string }
				}
			}
		}
	}
	if err := yaml.Unmarshal(b, &job); err != nil {
		t.Fatal(err)
	}
	c := job.Spec.Template.Spec.Containers
	if job.Kind != "Job" || len(c) != 1 || len(c[0].Args) < 2 || c[0].Args[0] != "worker" {
		t.Fatalf("the manifest starts %+v", c)
	}
	if err := workerCmd().ParseFlags(c[0].Args[1:]); err != nil {
		t.Error(err)
	}
}

// The Slurm script starts a worker, and says what it lacks.
func TestWorkerScript(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("there is no bash")
	}
	fake := filepath.Join(t.TempDir(), "situ")
	if err := os.WriteFile(fake, []byte("#!/bin/sh\necho \"$@\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	run := func(env ...string) (string, error) {
		cmd := exec.Command(bash, filepath.Join("..", "..", "docs", "examples", "worker.sbatch"))
		cmd.Env = append(os.Environ(), append(env, "SITU="+fake)...)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	if out, err := run("QUEUE=nats://h:4222", "SLURM_CPUS_PER_TASK=3"); err != nil || out != "worker --queue nats://h:4222 --tasks 3 --idle 10m\n" {
		t.Errorf("%q, %v", out, err)
	}
	if out, err := run(); err == nil {
		t.Errorf("without QUEUE: %q", out)
	}
}
