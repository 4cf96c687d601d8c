package cuda

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"
	"unsafe"
)

// Context is a device in use, valid inside Driver.Run and in its goroutine only.
type Context struct {
	Device Device

	d       *Driver
	ctx     context.Context
	release []func() error
}

// Run makes a device the current one, calls f, waits for what f left running, and
// releases all that f made, in reverse order.
func (d *Driver) Run(ctx context.Context, ordinal int, f func(*Context) error) (err error) {
	dev, h, err := d.device(ordinal)
	if err != nil {
		return err
	}
	// The current context belongs to the operating system's thread.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	what := fmt.Sprintf("opening device %d, %s", ordinal, dev.Name)
	var handle uintptr
	if r := d.api.Retain(&handle, h); r != success {
		return d.err(what, r)
	}
	c := &Context{Device: dev, d: d, ctx: ctx}
	c.onClose("closing the device", func() result { return d.api.Release(h) })
	defer func() {
		if r := d.api.Synchronize(); r != success && err == nil {
			err = d.err("waiting for the device", r)
		}
		for _, r := range slices.Backward(c.release) {
			err = errors.Join(err, r())
		}
	}()
	if r := d.api.SetCurrent(handle); r != success {
		return d.err(what, r)
	}
	c.onClose("leaving the device", func() result { return d.api.SetCurrent(0) })
	return f(c)
}

// onClose has f called when the context closes. After a fault on the device every
// call answers with that fault: it has been reported, so only a first one counts.
func (c *Context) onClose(what string, f func() result) {
	c.release = append(c.release, func() error {
		err := c.d.err(what, f())
		var e *Error
		if errors.As(err, &e) && e.Code >= firstFault {
			return nil
		}
		return err
	})
}

// firstFault is the first code of errors that leave the device unusable for this
// process: illegal address (700) and what follows it.
const firstFault = 700

// Alloc returns memory of at least one byte, filled with zeros.
func (c *Context) Alloc(name string, bytes int) (uint64, error) {
	n := uint64(max(bytes, 1))
	var p uint64
	if r := c.d.api.Alloc(&p, n); r != success {
		return 0, c.d.err(fmt.Sprintf("allocating %d bytes for %s", n, name), r)
	}
	c.onClose("freeing "+name, func() result { return c.d.api.Free(p) })
	return p, c.d.err("clearing "+name, c.d.api.Fill(p, 0, n))
}

// Write copies to the device.
func (c *Context) Write(p uint64, b []byte) error {
	if len(b) == 0 {
		return nil
	}
	return c.d.err(fmt.Sprintf("copying %d bytes to the device", len(b)), c.d.api.ToDevice(p, unsafe.Pointer(&b[0]), uint64(len(b))))
}

// Read copies from the device, after all that was launched before.
func (c *Context) Read(p uint64, b []byte) error {
	if len(b) == 0 {
		return nil
	}
	return c.d.err(fmt.Sprintf("copying %d bytes from the device", len(b)), c.d.api.ToHost(unsafe.Pointer(&b[0]), p, uint64(len(b))))
}

// Module is compiled PTX.
type Module struct {
	c      *Context
	handle uintptr
	funcs  map[string]*Function
}

// Numbers of CUjit_option.
const (
	jitErrorLog      = 5
	jitErrorLogBytes = 6
)

// Load has the driver compile PTX for the device. The error holds the compiler's
// own words.
func (c *Context) Load(ptx string) (*Module, error) {
	text := append([]byte(ptx), 0)
	log := make([]byte, 8<<10)
	options := []int32{jitErrorLog, jitErrorLogBytes}
	var pin runtime.Pinner // the driver follows the address in values
	pin.Pin(&log[0])
	defer pin.Unpin()
	values := []uintptr{uintptr(unsafe.Pointer(&log[0])), uintptr(len(log))}
	m := &Module{c: c, funcs: map[string]*Function{}}
	r := c.d.api.LoadModule(&m.handle, &text[0], uint32(len(options)), &options[0], &values[0])
	if r != success {
		err := c.d.err("compiling the PTX", r)
		if i := bytes.IndexByte(log, 0); i > 0 {
			err = fmt.Errorf("%w\n%s", err, bytes.TrimSpace(log[:i]))
		}
		return nil, err
	}
	c.onClose("unloading the kernels", func() result { return c.d.api.UnloadModule(m.handle) })
	return m, nil
}

// Function is a kernel on the device.
type Function struct {
	Name       string
	Registers  int // of a thread
	LocalBytes int // of a thread, spilled registers included

	m      *Module
	handle uintptr
	shared int // dynamic shared memory it may use
}

// Function returns the kernel of a name.
func (m *Module) Function(name string) (*Function, error) {
	if f := m.funcs[name]; f != nil {
		return f, nil
	}
	f := &Function{Name: name, m: m, shared: 48 << 10} // what every kernel may use unasked
	a := &m.c.d.api
	if r := a.Function(&f.handle, m.handle, name); r != success {
		return nil, m.c.d.err("looking for kernel "+name, r)
	}
	for _, q := range []struct {
		number int32
		value  *int
	}{{funcRegisters, &f.Registers}, {funcLocalBytes, &f.LocalBytes}} {
		var v int32
		if r := a.GetAttribute(&v, q.number, f.handle); r != success {
			return nil, m.c.d.err("asking about kernel "+name, r)
		}
		*q.value = int(v)
	}
	m.funcs[name] = f
	return f, nil
}

// Launch starts a kernel whose parameters are device addresses. It returns before
// the kernel ends; launches run one after the other.
func (f *Function) Launch(grid, block [3]int, shared int, args []uint64) error {
	c := f.m.c
	if err := c.ctx.Err(); err != nil {
		return err
	}
	what := fmt.Sprintf("launching kernel %s, grid %v, block %v, %d bytes of shared memory", f.Name, grid, block, shared)
	if shared > f.shared {
		if r := c.d.api.SetAttribute(f.handle, funcDynamicShared, int32(shared)); r != success {
			return c.d.err(what, r)
		}
		f.shared = shared
	}
	var pin runtime.Pinner // the driver follows the addresses in pointers
	defer pin.Unpin()
	pointers := make([]uintptr, len(args)+1)
	for i := range args {
		pin.Pin(&args[i])
		pointers[i] = uintptr(unsafe.Pointer(&args[i]))
	}
	return c.d.err(what, c.d.api.Launch(f.handle, uint32(grid[0]), uint32(grid[1]), uint32(grid[2]),
		uint32(block[0]), uint32(block[1]), uint32(block[2]), uint32(shared), 0, &pointers[0], nil))
}

// Event marks a point between launches.
type Event struct {
	c      *Context
	handle uintptr
}

// NewEvent returns an event that is not yet recorded.
func (c *Context) NewEvent() (*Event, error) {
	e := &Event{c: c}
	if r := c.d.api.NewEvent(&e.handle, 0); r != success {
		return nil, c.d.err("making an event", r)
	}
	c.onClose("freeing an event", func() result { return c.d.api.FreeEvent(e.handle) })
	return e, nil
}

// Record marks the point after all that was launched.
func (e *Event) Record() error { return e.c.d.err("recording an event", e.c.d.api.Record(e.handle, 0)) }

// Since returns the time on the device from another event, both passed.
func (e *Event) Since(start *Event) (time.Duration, error) {
	var ms float32
	r := e.c.d.api.Elapsed(&ms, start.handle, e.handle)
	return time.Duration(float64(ms) * float64(time.Millisecond)), e.c.d.err("reading the time between events", r)
}

// Wait waits until all that was launched is done, and returns its first fault.
func (c *Context) Wait() error {
	return c.d.err("running the kernels", c.d.api.Synchronize())
}
