//go:build linux || darwin || freebsd

package onnx

import (
	"io"
	"os"
	"syscall"
)

// mapThreshold is the size from which a file is mapped rather than read.
const mapThreshold = 1 << 20

// contents returns the bytes of an open regular file. Large files are mapped
// read-only: weights then cost no heap, and pages that nobody reads are never
// loaded. A mapping stays for the life of the process, since tensors share it.
func contents(f *os.File, size int64) ([]byte, error) {
	if size >= mapThreshold {
		b, err := syscall.Mmap(int(f.Fd()), 0, int(size), syscall.PROT_READ, syscall.MAP_PRIVATE)
		if err == nil {
			return b, nil
		}
	}
	return io.ReadAll(io.LimitReader(f, size))
}
