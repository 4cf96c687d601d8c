// Package cuda calls the driver of NVIDIA's GPUs: it opens the shared library
// that comes with the graphics driver (no toolkit, no cgo), lists devices, loads
// PTX, moves memory, and launches kernels with events around them.
//
// Everything that is made inside Driver.Run is released when it returns, in
// reverse order, whether it fails or not. Names and numbers are those of the CUDA
// driver API reference (docs.nvidia.com/cuda/cuda-driver-api).
//
// Reading order: driver.go (library and devices), context.go (memory, modules,
// launches, events). The tests run it against a driver written in Go, whose
// functions are called through the C ABI as the real ones are.
package cuda
