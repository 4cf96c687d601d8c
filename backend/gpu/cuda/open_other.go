//go:build !linux

package cuda

import "fmt"

// Open opens the driver library of this machine, which is known on Linux only.
func Open() (*Driver, error) {
	return nil, fmt.Errorf("%w; it is looked for on Linux only", ErrNoDriver)
}
