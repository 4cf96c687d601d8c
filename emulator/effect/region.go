package effect

import (
	"fmt"

	"situ/arch"
)

// Mem is a memory.
type Mem uint8

// Memories. Remote ones are those of an instruction's receiving clusters.
const (
	SP Mem = iota
	Acc
	WS
	DRAM
	RemoteSP
	RemoteWS
	NumMems
)

var memNames = [NumMems]string{"scratchpad", "accumulators", "weight SRAM", "DRAM", "receiving scratchpad", "receiving weight SRAM"}

// String returns the memory's name.
func (m Mem) String() string { return memNames[m] }

// Region is the interval [Lo, Hi) of a memory that an instruction touches. A
// strided access is its hull.
type Region struct {
	Mem    Mem
	Write  bool
	Lo, Hi int64
}

// maxRegions is the most regions an instruction has.
const maxRegions = 5

// Effect is what one execution of an instruction touches.
type Effect struct {
	regions [maxRegions]Region
	n       int
	work    float64 // what it costs the host, roughly
	err     error
}

// Regions returns the regions touched; the slice is valid until the Effect is
// used again.
func (e *Effect) Regions() []Region { return e.regions[:e.n] }

// Shape is what Of needs to know of the architecture.
type Shape struct {
	Rows      int64    // of an array
	Cols      [2]int64 // for 8-bit and for 4-bit weights
	Cores     int64    // of a cluster
	ShiftRows int64    // of a column that share a shifter; 0 without shifters
}

// ShapeOf returns the chip's shape.
func ShapeOf(c *arch.Chip) Shape {
	return Shape{Rows: c.Array.Rows.Int(), Cols: [2]int64{c.Cols(8), c.Cols(4)}, Cores: c.CoresPerCluster.Int(), ShiftRows: c.ShiftRows()}
}

// ArrayCols returns the columns of an array for a weight width.
func (s *Shape) ArrayCols(wbits int64) int64 {
	if wbits == 4 {
		return s.Cols[1]
	}
	return s.Cols[0]
}

// WeightRows returns the bytes of the weights of one array, without shifts.
func (s *Shape) WeightRows(wbits int64) int64 { return s.Rows * s.ArrayCols(wbits) * wbits / 8 }

// TileBytes returns the bytes of the weights of one array, with shifts where shifts
// is 1 and the chip has shifters.
func (s *Shape) TileBytes(wbits, shifts int64) int64 {
	n := s.WeightRows(wbits)
	if shifts != 0 && s.ShiftRows > 0 {
		n += s.Rows / s.ShiftRows * s.ArrayCols(wbits)
	}
	return n
}

// Limits are the sizes of the memories, in bytes.
type Limits [NumMems]int64

// maxWork bounds what one instruction may ask of the host, in bytes moved or
// what takes as long, to about a second.
const maxWork = 1 << 30

// least is the work of a run, however short, and of a float function.
const least = 16

// Check returns an error when a region leaves its memory, an address is not
// aligned, or the operands are inconsistent.
func (e *Effect) Check(limits *Limits) error {
	if e.err != nil {
		return e.err
	}
	if e.work > maxWork {
		return fmt.Errorf("asks for the work of moving %.3g bytes, an instruction may do that of %d", e.work, int64(maxWork))
	}
	for i := range e.regions[:e.n] {
		if r := &e.regions[i]; r.Lo < 0 || r.Hi > limits[r.Mem] {
			return fmt.Errorf("touches bytes %d to %d of the %s, which has %d", r.Lo, r.Hi, r.Mem, limits[r.Mem])
		}
	}
	return nil
}

// dim is a count and the step from one to the next.
type dim struct{ n, step int64 }

// add appends the hull of runs of size bytes repeated over dims from base.
func (e *Effect) add(mem Mem, write bool, base, size int64, dims ...dim) {
	lo, hi := base, base+min(size, saturated)
	for _, d := range dims {
		if span := mul(d.n-1, d.step); span < 0 {
			lo += span
		} else {
			hi += span
		}
	}
	e.regions[e.n] = Region{Mem: mem, Write: write, Lo: lo, Hi: hi}
	e.n++
}

// saturated is beyond every memory and small enough that eight of it do not
// overflow.
const saturated = 1 << 59

// mul multiplies with saturation.
func mul(a, b int64) int64 {
	if uint64(a|b) < 1<<29 {
		return a * b
	}
	if p := float64(a) * float64(b); p > saturated {
		return saturated
	} else if p < -saturated {
		return -saturated
	}
	return a * b
}

// aligned notes an error unless all values are multiples of four.
func (e *Effect) aligned(values ...int64) {
	for _, v := range values {
		if v&3 != 0 && e.err == nil {
			e.err = fmt.Errorf("address or step %d of 32-bit words is no multiple of 4", v)
		}
	}
}

func (e *Effect) fail(format string, args ...any) {
	if e.err == nil {
		e.err = fmt.Errorf(format, args...)
	}
}

// runs is the work of some runs of size bytes.
func runs(size int64, counts ...int64) float64 {
	return float64(max(size, least)) * product(counts...)
}

// product multiplies counts.
func product(counts ...int64) float64 {
	p := 1.0
	for _, n := range counts {
		p *= float64(n)
	}
	return p
}
