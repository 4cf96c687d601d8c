package cuda

import (
	"fmt"

	"github.com/ebitengine/purego"
)

// Open opens the driver library of this machine and starts it. The error wraps
// ErrNoDriver when there is none. The library stays open: it cannot be unloaded
// safely.
func Open() (*Driver, error) {
	lib, err := purego.Dlopen("libcuda.so.1", purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		if err.Error() == "" { // the loader does not say why
			return nil, ErrNoDriver
		}
		return nil, fmt.Errorf("%w (%v)", ErrNoDriver, err)
	}
	return Bind(func(symbol string) (uintptr, error) { return purego.Dlsym(lib, symbol) })
}
