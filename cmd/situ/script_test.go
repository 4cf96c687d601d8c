package main

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"situ/backend/gpu/cuda"
	"situ/internal/decodertest"
	"situ/internal/natstest"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"situ": func() { os.Exit(Main()) }})
}

// TestScripts runs testdata/script/*.txtar: commands as a user types them, with
// what they print. -update rewrites expected outputs.
func TestScripts(t *testing.T) {
	shared, err := filepath.Abs(filepath.Join("..", "..", "..", "shared"))
	if err != nil {
		t.Fatal(err)
	}
	examples, err := filepath.Abs(filepath.Join("..", "..", "docs", "examples"))
	if err != nil {
		t.Fatal(err)
	}
	nats := natstest.URL(natstest.Start(t, nil))
	testscript.Run(t, testscript.Params{
		Dir:           filepath.Join("testdata", "script"),
		UpdateScripts: *update,
		Setup: func(e *testscript.Env) error {
			e.Setenv("SHARED", shared)
			e.Setenv("EXAMPLES", examples)
			e.Setenv("NATS", nats)
			decoder := filepath.Join(e.WorkDir, "decoder.onnx")
			e.Setenv("DECODER", decoder)
			if err := os.WriteFile(decoder, decodertest.Small.ONNX(), 0o644); err != nil {
				return err
			}
			// Where testscript puts the command, to make a PATH without anything else.
			e.Setenv("SITU", filepath.SplitList(e.Getenv("PATH"))[0])
			return nil
		},
		Condition: func(cond string) (bool, error) {
			switch cond {
			case "shared": // the data beside the project is there
				_, err := os.Stat(shared)
				return err == nil, nil
			case "cuda": // this machine has a driver
				_, err := cuda.Open()
				return err == nil, nil
			}
			return false, fmt.Errorf("no condition %q", cond)
		},
	})
}
