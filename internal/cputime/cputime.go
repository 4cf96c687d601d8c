// Package cputime measures processor time, for benchmarks whose figures must not depend
// on what else the machine does.
package cputime

import "time"

// Process is the processor time that this process has taken on all cores; 0 where the
// system is not asked for it.
func Process() time.Duration { return process() }
