//go:build unix

package cputime

import (
	"time"

	"golang.org/x/sys/unix"
)

func process() time.Duration {
	var r unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &r) != nil {
		return 0
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
