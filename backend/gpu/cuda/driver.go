package cuda

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"unsafe"

	"github.com/ebitengine/purego"
)

// ErrNoDriver says that the CUDA driver library could not be opened.
var ErrNoDriver = errors.New("the CUDA driver library was not found: it comes with NVIDIA's graphics driver")

// result is CUresult.
type result int32

const (
	success  result = 0
	noDevice result = 100 // CUDA_ERROR_NO_DEVICE
)

// Driver is the driver library.
type Driver struct {
	Version int // of the API it offers, 1000·major + 10·minor
	api     api
}

// api is the functions used, each under its name in the library. Handles are
// pointers that Go neither owns nor looks into.
type api struct {
	Init          func(flags uint32) result                                                                           `symbol:"cuInit"`
	DriverVersion func(version *int32) result                                                                         `symbol:"cuDriverGetVersion"`
	ErrorName     func(r result, text **byte) result                                                                  `symbol:"cuGetErrorName"`
	ErrorString   func(r result, text **byte) result                                                                  `symbol:"cuGetErrorString"`
	DeviceCount   func(n *int32) result                                                                               `symbol:"cuDeviceGetCount"`
	Device        func(dev *int32, ordinal int32) result                                                              `symbol:"cuDeviceGet"`
	DeviceName    func(name *byte, size int32, dev int32) result                                                      `symbol:"cuDeviceGetName"`
	DeviceMemory  func(bytes *uint64, dev int32) result                                                               `symbol:"cuDeviceTotalMem_v2"`
	Attribute     func(value *int32, attribute int32, dev int32) result                                               `symbol:"cuDeviceGetAttribute"`
	Retain        func(ctx *uintptr, dev int32) result                                                                `symbol:"cuDevicePrimaryCtxRetain"`
	Release       func(dev int32) result                                                                              `symbol:"cuDevicePrimaryCtxRelease_v2"`
	SetCurrent    func(ctx uintptr) result                                                                            `symbol:"cuCtxSetCurrent"`
	Synchronize   func() result                                                                                       `symbol:"cuCtxSynchronize"`
	LoadModule    func(m *uintptr, ptx *byte, n uint32, options *int32, values *uintptr) result                       `symbol:"cuModuleLoadDataEx"`
	UnloadModule  func(m uintptr) result                                                                              `symbol:"cuModuleUnload"`
	Function      func(f *uintptr, m uintptr, name string) result                                                     `symbol:"cuModuleGetFunction"`
	SetAttribute  func(f uintptr, attribute, value int32) result                                                      `symbol:"cuFuncSetAttribute"`
	GetAttribute  func(value *int32, attribute int32, f uintptr) result                                               `symbol:"cuFuncGetAttribute"`
	Alloc         func(p *uint64, bytes uint64) result                                                                `symbol:"cuMemAlloc_v2"`
	Free          func(p uint64) result                                                                               `symbol:"cuMemFree_v2"`
	Fill          func(p uint64, value byte, bytes uint64) result                                                     `symbol:"cuMemsetD8_v2"`
	ToDevice      func(dst uint64, src unsafe.Pointer, bytes uint64) result                                           `symbol:"cuMemcpyHtoD_v2"`
	ToHost        func(dst unsafe.Pointer, src uint64, bytes uint64) result                                           `symbol:"cuMemcpyDtoH_v2"`
	NewEvent      func(e *uintptr, flags uint32) result                                                               `symbol:"cuEventCreate"`
	FreeEvent     func(e uintptr) result                                                                              `symbol:"cuEventDestroy_v2"`
	Record        func(e, stream uintptr) result                                                                      `symbol:"cuEventRecord"`
	Elapsed       func(ms *float32, start, end uintptr) result                                                        `symbol:"cuEventElapsedTime"`
	Launch        func(f uintptr, gx, gy, gz, bx, by, bz, shared uint32, stream uintptr, args, extra *uintptr) result `symbol:"cuLaunchKernel"`
}

// Bind makes a driver of the functions that lookup finds, which take C's calling
// convention, and initialises it.
func Bind(lookup func(symbol string) (uintptr, error)) (*Driver, error) {
	d := &Driver{}
	v := reflect.ValueOf(&d.api).Elem()
	for i := range v.NumField() {
		symbol := v.Type().Field(i).Tag.Get("symbol")
		f, err := lookup(symbol)
		if err != nil {
			return nil, fmt.Errorf("the CUDA driver library has no function %s: it is too old (%w)", symbol, err)
		}
		purego.RegisterFunc(v.Field(i).Addr().Interface(), f)
	}
	if r := d.api.Init(0); r != success {
		return nil, d.err("starting the driver", r)
	}
	var version int32
	if r := d.api.DriverVersion(&version); r != success {
		return nil, d.err("asking the driver's version", r)
	}
	d.Version = int(version)
	return d, nil
}

// Error is a call that the driver refused.
type Error struct {
	What string // what was attempted
	Code int    // CUresult
	Name string // of the code
	Text string // the driver's explanation
}

func (e *Error) Error() string {
	return fmt.Sprintf("CUDA: %s: %s (%s, %d)", e.What, e.Text, e.Name, e.Code)
}

// err is nil for success.
func (d *Driver) err(what string, r result) error {
	if r == success {
		return nil
	}
	text := func(f func(result, **byte) result) string {
		var p *byte
		if f(r, &p) != success || p == nil {
			return "unknown"
		}
		return goString(p)
	}
	return &Error{What: what, Code: int(r), Name: text(d.api.ErrorName), Text: text(d.api.ErrorString)}
}

// goString copies a text that ends in a zero byte, at most 4,096 bytes of it.
func goString(p *byte) string {
	var b strings.Builder
	for i := range 4096 {
		c := *(*byte)(unsafe.Add(unsafe.Pointer(p), i))
		if c == 0 {
			break
		}
		b.WriteByte(c)
	}
	return b.String()
}

// Device describes one GPU.
type Device struct {
	Ordinal     int    `json:"ordinal"`
	Name        string `json:"name"`
	SM          int    `json:"sm"` // compute capability ×10
	SMs         int    `json:"sms"`
	ClockKHz    int    `json:"clock_khz"` // highest, of the SMs
	MemoryBytes uint64 `json:"memory_bytes"`
	L2Bytes     int    `json:"l2_bytes"`
	SharedBytes int    `json:"shared_bytes_per_block"` // at most, when asked for
}

// Numbers of CUdevice_attribute.
const (
	attrClockRate     = 13
	attrSMs           = 16
	attrL2            = 38
	attrMajor         = 75
	attrMinor         = 76
	attrSharedOptIn   = 97
	maxNameBytes      = 256
	funcDynamicShared = 8 // CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
	funcLocalBytes    = 3 // CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES
	funcRegisters     = 4 // CU_FUNC_ATTRIBUTE_NUM_REGS
)

// Devices lists the GPUs that the driver sees; there may be none.
func (d *Driver) Devices() ([]Device, error) {
	var n int32
	if r := d.api.DeviceCount(&n); r != success && r != noDevice {
		return nil, d.err("counting devices", r)
	}
	out := []Device{} // rather than null in JSON
	for i := range n {
		dev, _, err := d.device(int(i))
		if err != nil {
			return nil, err
		}
		out = append(out, dev)
	}
	return out, nil
}

// device describes a device and returns its handle.
func (d *Driver) device(ordinal int) (Device, int32, error) {
	dev := Device{Ordinal: ordinal}
	what := fmt.Sprintf("asking device %d", ordinal)
	var h int32
	if r := d.api.Device(&h, int32(ordinal)); r != success {
		return dev, 0, d.err(what, r)
	}
	name := make([]byte, maxNameBytes)
	if r := d.api.DeviceName(&name[0], maxNameBytes-1, h); r != success {
		return dev, 0, d.err(what+" for its name", r)
	}
	dev.Name = goString(&name[0])
	if r := d.api.DeviceMemory(&dev.MemoryBytes, h); r != success {
		return dev, 0, d.err(what+" for its memory", r)
	}
	var major, minor int
	for _, a := range []struct {
		number int32
		value  *int
	}{{attrMajor, &major}, {attrMinor, &minor}, {attrSMs, &dev.SMs}, {attrClockRate, &dev.ClockKHz}, {attrL2, &dev.L2Bytes}, {attrSharedOptIn, &dev.SharedBytes}} {
		var v int32
		if r := d.api.Attribute(&v, a.number, h); r != success {
			return dev, 0, d.err(fmt.Sprintf("%s for attribute %d", what, a.number), r)
		}
		*a.value = int(v)
	}
	dev.SM = 10*major + minor
	return dev, h, nil
}
