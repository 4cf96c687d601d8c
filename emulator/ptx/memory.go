package ptx

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"
)

// Where the windows of shared and local memory lie in the generic address
// space, and where global memory begins.
const (
	globalBase   = uint64(1) << 32
	sharedWindow = uint64(1) << 56
	localWindow  = uint64(1) << 57
	windowMask   = uint64(1)<<56 - 1
)

const (
	allocAlign = 256     // of each buffer
	allocGap   = 4 << 10 // at least, between buffers: what lies there is a fault
)

// Memory is the global memory of a device: one flat address space with
// buffers in it. An access outside every buffer is an error of the launch. It
// may be used from several goroutines; what two launches do to the same bytes
// at the same time is undefined, as on a device.
type Memory struct {
	mu      sync.Mutex
	limit   int
	used    int
	next    uint64
	regions []*region
	modules map[*Module]map[*variable]uint64

	atomics sync.Mutex // serialises atom and red
}

// A region is one buffer.
type region struct {
	name string
	base uint64
	data []byte
}

// NewMemory returns an empty memory of at most limit bytes.
func NewMemory(limit int) *Memory {
	return &Memory{limit: limit, next: globalBase, modules: map[*Module]map[*variable]uint64{}}
}

// Alloc adds a zeroed buffer of size bytes, aligned to 256, and returns its
// address. The name is for errors and counters.
func (m *Memory) Alloc(name string, size int) (uint64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.alloc(name, size)
}

// Map is Alloc with data for the buffer's contents, not a copy of it.
func (m *Memory) Map(name string, data []byte) (uint64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.place(name, len(data), func() []byte { return data })
}

func (m *Memory) alloc(name string, size int) (uint64, error) {
	return m.place(name, size, func() []byte { return make([]byte, size) })
}

func (m *Memory) place(name string, size int, data func() []byte) (uint64, error) {
	if size < 0 || size > m.limit-m.used {
		return 0, fmt.Errorf("buffer %s of %d bytes: %d of %d bytes are in use", name, size, m.used, m.limit)
	}
	r := &region{name: name, base: m.next, data: data()}
	m.used += size
	m.next += uint64(alignUp(size, allocAlign) + allocGap)
	m.regions = append(m.regions, r)
	return r.base, nil
}

// Free removes the buffer that begins at addr.
func (m *Memory) Free(addr uint64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	i, ok := slices.BinarySearchFunc(m.regions, addr, func(r *region, a uint64) int { return cmp.Compare(r.base, a) })
	if !ok {
		return fmt.Errorf("no buffer begins at %#x", addr)
	}
	m.used -= len(m.regions[i].data)
	// A launch that runs keeps the list it began with.
	m.regions = slices.Concat(m.regions[:i], m.regions[i+1:])
	return nil
}

// Write copies data to addr; the range must lie in one buffer.
func (m *Memory) Write(addr uint64, data []byte) error {
	b, err := m.View(addr, len(data))
	copy(b, data)
	return err
}

// Read copies from addr to data; the range must lie in one buffer.
func (m *Memory) Read(addr uint64, data []byte) error {
	b, err := m.View(addr, len(data))
	copy(data, b)
	return err
}

// View returns n bytes of memory at addr, not a copy.
func (m *Memory) View(addr uint64, n int) ([]byte, error) {
	m.mu.Lock()
	regions := m.regions
	m.mu.Unlock()
	r := findRegion(regions, addr)
	if r == nil || n < 0 {
		return nil, fmt.Errorf("%d bytes at %#x: %w", n, addr, errOutside)
	}
	off := addr - r.base
	if uint64(n) > uint64(len(r.data))-off {
		return nil, fmt.Errorf("%d bytes at %#x: buffer %s ends after %d: %w", n, addr, r.name, uint64(len(r.data))-off, errOutside)
	}
	return r.data[off : off+uint64(n) : off+uint64(n)], nil
}

var errOutside = errors.New("outside every buffer")

// findRegion returns the buffer that addr lies in, or nil.
func findRegion(regions []*region, addr uint64) *region {
	i, ok := slices.BinarySearchFunc(regions, addr, func(r *region, a uint64) int { return cmp.Compare(r.base, a) })
	if !ok {
		i--
	}
	if i < 0 || addr-regions[i].base >= uint64(max(len(regions[i].data), 1)) {
		return nil
	}
	return regions[i]
}

// load places the variables of a module, at the first launch of it.
func (m *Memory) load(mod *Module) (map[*variable]uint64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if at := m.modules[mod]; at != nil {
		return at, nil
	}
	at := map[*variable]uint64{}
	for _, v := range mod.vars {
		if v.space != spaceGlobal && v.space != spaceConst {
			continue
		}
		a, err := m.alloc(v.name, v.size)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", mod.Name, v.line, err)
		}
		copy(m.regions[len(m.regions)-1].data, v.init)
		at[v] = a
	}
	m.modules[mod] = at
	return at, nil
}
