//go:build !amd64

package gemm

func bestISA() isa { return isaPortable }
