//go:build !amd64

package fixed

func bestISA() isa { return isaPortable }
