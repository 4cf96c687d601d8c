//go:build !(linux || darwin || freebsd)

package onnx

import (
	"io"
	"os"
)

// contents returns the bytes of an open regular file.
func contents(f *os.File, size int64) ([]byte, error) {
	return io.ReadAll(io.LimitReader(f, size))
}
