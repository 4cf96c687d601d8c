package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"os"
	"path/filepath"

	"situ/backend/gpu"
	"situ/runtime"
)

const prebuiltFolder = "backend/gpu/prebuilt"

// prebuiltKernels writes the PTX of the programs that come with situ, and removes
// that of programs which are no more.
func prebuiltKernels(check bool) error {
	ctx := context.Background()
	programs, err := runtime.ShippedKernels(ctx)
	if err != nil {
		return err
	}
	want := map[string]bool{}
	for _, p := range programs {
		name := gpu.PrebuiltFile(p, gpu.DefaultSM)
		want[name] = true
		path := filepath.Join(prebuiltFolder, name)
		if _, err := os.Stat(path); err == nil {
			continue
		}
		if check {
			return fmt.Errorf("%s has no PTX for the kernels of %s as they are now; run make generate", prebuiltFolder, p.Model)
		}
		llc, err := gpu.FindLLC(ctx, gpu.DefaultSM)
		if err != nil {
			return err
		}
		if err := p.Assemble(ctx, llc, gpu.DefaultSM); err != nil {
			return err
		}
		var b bytes.Buffer
		z, _ := gzip.NewWriterLevel(&b, gzip.BestCompression) // a level that there is
		if _, err := z.Write([]byte(p.PTX)); err != nil {
			return err
		}
		if err := z.Close(); err != nil {
			return err
		}
		if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
			return err
		}
	}
	have, err := filepath.Glob(filepath.Join(prebuiltFolder, "*.ptx.gz"))
	if err != nil {
		return err
	}
	for _, path := range have {
		switch {
		case want[filepath.Base(path)]:
		case check:
			return fmt.Errorf("%s is of kernels that are no more; run make generate", path)
		default:
			if err := os.Remove(path); err != nil {
				return err
			}
		}
	}
	return nil
}
