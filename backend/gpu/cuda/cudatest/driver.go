// Package cudatest is a CUDA driver in Go, for tests where there is no GPU. Its
// functions are called through C's calling convention, as those of the real
// library are; kernels run on the PTX emulator. It can be told to refuse calls,
// and knows what was made and never released.
package cudatest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"unsafe"

	"github.com/ebitengine/purego"

	"situ/emulator/ptx"
)

// Driver is a driver with one device.
type Driver struct {
	Name string // of the device
	// Fail, if not nil, is asked before each call and returns its CUresult, 0 to
	// let it work.
	Fail func(symbol string) int32

	mu    sync.Mutex
	mem   *ptx.Memory
	next  uintptr
	made  map[uintptr]any // by handle: *ptx.Module, *event, primary
	funcs map[uintptr]function
	held  map[uint64]bool // allocations
	clock float32         // ms, advanced by launches
	keep  [][]byte        // C strings handed out
}

type (
	event    struct{ at float32 }
	primary  struct{}
	function struct {
		m    *ptx.Module
		info ptx.KernelInfo
	}
)

// Some of CUresult.
const (
	InvalidValue = 1
	OutOfMemory  = 2
	InvalidPTX   = 218
	NotFound     = 500
	IllegalAddr  = 700
)

// New returns a driver whose device has a name and an amount of memory.
func New(name string, bytes int) *Driver {
	return &Driver{Name: name, mem: ptx.NewMemory(bytes), next: 1 << 12, made: map[uintptr]any{}, funcs: map[uintptr]function{}, held: map[uint64]bool{}}
}

// Left returns how many allocations and other objects were not released.
func (d *Driver) Left() int { return len(d.made) + len(d.held) }

// Lookup returns the address of a function, for cuda.Bind.
func (d *Driver) Lookup(symbol string) (uintptr, error) {
	f, ok := d.functions()[symbol]
	if !ok {
		return 0, fmt.Errorf("no function %s", symbol)
	}
	return purego.NewCallback(f), nil
}

// call runs one call under the lock, unless it is to fail.
func (d *Driver) call(symbol string, f func() int32) uintptr {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.Fail != nil {
		if r := d.Fail(symbol); r != 0 {
			return uintptr(r)
		}
	}
	return uintptr(f())
}

// handle stores an object and returns its handle.
func (d *Driver) handle(v any) uintptr {
	d.next += 16
	d.made[d.next] = v
	return d.next
}

func (d *Driver) drop(h uintptr) int32 {
	if d.made[h] == nil {
		return InvalidValue
	}
	delete(d.made, h)
	return 0
}

// text stores a C string at *p.
func (d *Driver) text(p *uintptr, s string) int32 {
	b := append([]byte(s), 0)
	d.keep = append(d.keep, b)
	*p = uintptr(unsafe.Pointer(&b[0]))
	return 0
}

// functions returns the functions by symbol. What they take and return is of the
// width that C's have, or wider where the convention does not tell them apart.
func (d *Driver) functions() map[string]any {
	return map[string]any{
		"cuInit":             func(uint32) uintptr { return d.call("cuInit", func() int32 { return 0 }) },
		"cuDriverGetVersion": func(p *int32) uintptr { return d.call("cuDriverGetVersion", func() int32 { *p = 12040; return 0 }) },
		"cuGetErrorName": func(r int32, p *uintptr) uintptr {
			return d.call("cuGetErrorName", func() int32 { return d.text(p, fmt.Sprintf("CUDA_ERROR_%d", r)) })
		},
		"cuGetErrorString": func(r int32, p *uintptr) uintptr {
			return d.call("cuGetErrorString", func() int32 { return d.text(p, "told to fail") })
		},
		"cuDeviceGetCount": func(p *int32) uintptr { return d.call("cuDeviceGetCount", func() int32 { *p = 1; return 0 }) },
		"cuDeviceGet":      func(p *int32, i int32) uintptr { return d.call("cuDeviceGet", func() int32 { *p = i + 7; return i }) },
		"cuDeviceGetName": func(p *byte, n, _ int32) uintptr {
			return d.call("cuDeviceGetName", func() int32 { copy(unsafe.Slice(p, n), d.Name+"\x00"); return 0 })
		},
		"cuDeviceTotalMem_v2": func(p *uint64, _ int32) uintptr {
			return d.call("cuDeviceTotalMem_v2", func() int32 { *p = 1 << 30; return 0 })
		},
		"cuDeviceGetAttribute": func(p *int32, a, _ int32) uintptr {
			return d.call("cuDeviceGetAttribute", func() int32 {
				*p = map[int32]int32{13: 1_500_000, 16: 108, 38: 40 << 20, 75: 8, 76: 0, 97: 163 << 10}[a]
				return 0
			})
		},
		"cuDevicePrimaryCtxRetain": func(p *uintptr, _ int32) uintptr {
			return d.call("cuDevicePrimaryCtxRetain", func() int32 { *p = d.handle(primary{}); return 0 })
		},
		"cuDevicePrimaryCtxRelease_v2": func(int32) uintptr {
			return d.call("cuDevicePrimaryCtxRelease_v2", func() int32 {
				for h, v := range d.made {
					if v == (primary{}) {
						return d.drop(h)
					}
				}
				return InvalidValue
			})
		},
		"cuCtxSetCurrent":  func(uintptr) uintptr { return d.call("cuCtxSetCurrent", func() int32 { return 0 }) },
		"cuCtxSynchronize": func() uintptr { return d.call("cuCtxSynchronize", func() int32 { return 0 }) },
		"cuModuleLoadDataEx": func(p *uintptr, text *byte, n uint32, options *int32, values *uintptr) uintptr {
			return d.call("cuModuleLoadDataEx", func() int32 { return d.load(p, text, unsafe.Slice(options, n), unsafe.Slice(values, n)) })
		},
		"cuModuleUnload": func(h uintptr) uintptr { return d.call("cuModuleUnload", func() int32 { return d.drop(h) }) },
		"cuModuleGetFunction": func(p *uintptr, m uintptr, name *byte) uintptr {
			return d.call("cuModuleGetFunction", func() int32 { return d.find(p, m, cString(name)) })
		},
		"cuFuncSetAttribute": func(uintptr, int32, int32) uintptr {
			return d.call("cuFuncSetAttribute", func() int32 { return 0 })
		},
		"cuFuncGetAttribute": func(p *int32, a int32, _ uintptr) uintptr {
			return d.call("cuFuncGetAttribute", func() int32 { *p = 10 * a; return 0 })
		},
		"cuMemAlloc_v2": func(p *uint64, n uint64) uintptr {
			return d.call("cuMemAlloc_v2", func() int32 {
				addr, err := d.mem.Alloc("device memory", int(n))
				if err != nil {
					return OutOfMemory
				}
				*p, d.held[addr] = addr, true
				return 0
			})
		},
		"cuMemFree_v2": func(p uint64) uintptr {
			return d.call("cuMemFree_v2", func() int32 { delete(d.held, p); return code(d.mem.Free(p), InvalidValue) })
		},
		"cuMemsetD8_v2": func(p uint64, v uint8, n uint64) uintptr {
			return d.call("cuMemsetD8_v2", func() int32 {
				return code(d.mem.Write(p, slices.Repeat([]byte{v}, int(n))), InvalidValue)
			})
		},
		"cuMemcpyHtoD_v2": func(dst uint64, src *byte, n uint64) uintptr {
			return d.call("cuMemcpyHtoD_v2", func() int32 { return code(d.mem.Write(dst, unsafe.Slice(src, n)), InvalidValue) })
		},
		"cuMemcpyDtoH_v2": func(dst *byte, src uint64, n uint64) uintptr {
			return d.call("cuMemcpyDtoH_v2", func() int32 { return code(d.mem.Read(src, unsafe.Slice(dst, n)), InvalidValue) })
		},
		"cuEventCreate": func(p *uintptr, _ uint32) uintptr {
			return d.call("cuEventCreate", func() int32 { *p = d.handle(&event{}); return 0 })
		},
		"cuEventDestroy_v2": func(h uintptr) uintptr { return d.call("cuEventDestroy_v2", func() int32 { return d.drop(h) }) },
		"cuEventRecord": func(h, _ uintptr) uintptr {
			return d.call("cuEventRecord", func() int32 {
				e, ok := d.made[h].(*event)
				if !ok {
					return InvalidValue
				}
				e.at = d.clock
				return 0
			})
		},
		"cuEventElapsedTime": func(ms *float32, start, end uintptr) uintptr {
			return d.call("cuEventElapsedTime", func() int32 {
				a, ok := d.made[start].(*event)
				b, ok2 := d.made[end].(*event)
				if !ok || !ok2 {
					return InvalidValue
				}
				*ms = b.at - a.at
				return 0
			})
		},
		"cuLaunchKernel": func(f uintptr, gx, gy, gz, bx, by, bz, shared uint32, _ uintptr, args, _ *uintptr) uintptr {
			return d.call("cuLaunchKernel", func() int32 {
				return d.launch(f, [3]int{int(gx), int(gy), int(gz)}, [3]int{int(bx), int(by), int(bz)}, int(shared), args)
			})
		},
	}
}

func code(err error, r int32) int32 {
	if err != nil {
		return r
	}
	return 0
}

func cString(p *byte) string {
	n := 0
	for *(*byte)(unsafe.Add(unsafe.Pointer(p), n)) != 0 {
		n++
	}
	return string(unsafe.Slice(p, n))
}

// load parses PTX. What is wrong goes into the error log, where one is given.
func (d *Driver) load(p *uintptr, text *byte, options []int32, values []uintptr) int32 {
	m, err := ptx.Parse(cString(text), "kernels.ptx")
	if err == nil {
		*p = d.handle(m)
		return 0
	}
	if i, j := slices.Index(options, 5), slices.Index(options, 6); i >= 0 && j >= 0 {
		log := unsafe.Slice(*(**byte)(unsafe.Pointer(&values[i])), int(values[j]))
		copy(log[:len(log)-1], err.Error())
	}
	return InvalidPTX
}

func (d *Driver) find(p *uintptr, h uintptr, name string) int32 {
	m, ok := d.made[h].(*ptx.Module)
	if !ok {
		return InvalidValue
	}
	info, err := m.Kernel(name)
	if err != nil {
		return NotFound
	}
	d.next += 16
	*p, d.funcs[d.next] = d.next, function{m, info} // it goes with its module
	return 0
}

func (d *Driver) launch(f uintptr, grid, block [3]int, shared int, args *uintptr) int32 {
	fn, ok := d.funcs[f]
	if !ok {
		return InvalidValue
	}
	cfg := ptx.LaunchConfig{Grid: grid, Block: block, SharedBytes: shared, Memory: d.mem}
	for _, a := range unsafe.Slice(args, len(fn.info.Params)) {
		cfg.Args = append(cfg.Args, ptx.U64(**(**uint64)(unsafe.Pointer(&a))))
	}
	if _, err := fn.m.Launch(context.Background(), fn.info.Name, cfg); err != nil {
		return IllegalAddr
	}
	d.clock++ // every launch takes a millisecond
	return 0
}

// Forget drops what was not released.
func (d *Driver) Forget() {
	clear(d.made)
	for p := range d.held {
		_ = d.mem.Free(p) // it is there: it is held
	}
	clear(d.held)
}
