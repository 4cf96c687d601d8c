package functional

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"situ/backend/pim/isa"
)

// loadInt returns the integer or bool of type t at an address, sign-extended
// unless t is unsigned.
func loadInt(sp []byte, at int64, t isa.DType) int64 {
	switch t {
	case isa.I8:
		return int64(int8(sp[at] ^ 0x80))
	case isa.U8, isa.Bool:
		return int64(sp[at])
	case isa.I16:
		return int64(int16(binary.LittleEndian.Uint16(sp[at:])))
	case isa.U16:
		return int64(binary.LittleEndian.Uint16(sp[at:]))
	case isa.I32:
		return int64(int32(binary.LittleEndian.Uint32(sp[at:])))
	case isa.U32:
		return int64(binary.LittleEndian.Uint32(sp[at:]))
	}
	return int64(binary.LittleEndian.Uint64(sp[at:]))
}

// storeInt is the inverse of loadInt; high bits are lost.
func storeInt(sp []byte, at int64, t isa.DType, x int64) {
	switch t {
	case isa.I8:
		sp[at] = byte(x) ^ 0x80
	case isa.U8, isa.Bool:
		sp[at] = byte(x)
	case isa.I16, isa.U16:
		binary.LittleEndian.PutUint16(sp[at:], uint16(x))
	case isa.I32, isa.U32:
		binary.LittleEndian.PutUint32(sp[at:], uint32(x))
	default:
		binary.LittleEndian.PutUint64(sp[at:], uint64(x))
	}
}

func loadF32(sp []byte, at int64) float32 {
	return math.Float32frombits(binary.LittleEndian.Uint32(sp[at:]))
}

func storeF32(sp []byte, at int64, x float32) {
	binary.LittleEndian.PutUint32(sp[at:], math.Float32bits(x))
}

// intRange returns the least and the greatest integer of a type of at most 32
// bits.
func intRange(t isa.DType) (lo, hi float64) {
	bits := 8 * int(t.Size())
	if t == isa.I8 || t == isa.I16 || t == isa.I32 {
		return -math.Ldexp(1, bits-1), math.Ldexp(1, bits-1) - 1
	}
	return 0, math.Ldexp(1, bits) - 1
}

// truncated converts a float towards zero, saturated to a type; NaN is 0.
func truncated(x float32, t isa.DType) int64 {
	f := float64(x)
	switch {
	case f != f:
		return 0
	case t == isa.I64 && f >= 1<<63:
		return math.MaxInt64
	case t == isa.I64:
		return int64(max(f, math.MinInt64))
	case t == isa.U64 && f >= 1<<64:
		return -1
	case t == isa.U64:
		return int64(uint64(max(f, 0)))
	}
	lo, hi := intRange(t)
	return int64(min(max(f, lo), hi))
}

// convertOne converts one element.
func convertOne(sp []byte, d int64, to isa.DType, s int64, from isa.DType) {
	if from == isa.F32 {
		switch x := loadF32(sp, s); to {
		case isa.F32:
			storeF32(sp, d, x)
		case isa.Bool:
			storeInt(sp, d, to, bit(x != 0))
		default:
			storeInt(sp, d, to, truncated(x, to))
		}
		return
	}
	x := loadInt(sp, s, from)
	switch {
	case to == isa.Bool:
		storeInt(sp, d, to, bit(x != 0))
	case to == isa.F32 && from == isa.U64:
		storeF32(sp, d, float32(uint64(x)))
	case to == isa.F32:
		storeF32(sp, d, float32(x))
	default:
		storeInt(sp, d, to, x)
	}
}

func bit(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// converted walks an n2 × n1 × len access whose operands, from n2 on, are d, and
// calls f with the addresses of result and source.
func converted(d []int64, dst, src, dstSize, srcSize int64, f func(d, s int64)) {
	for i := range d[0] {
		for j := range d[3] {
			to, from := dst+i*d[1]+j*d[4], src+i*d[2]+j*d[5]
			for range d[6] {
				f(to, from)
				to, from = to+dstSize, from+srcSize
			}
		}
	}
}

func (c *cluster) convert(a []int64) error {
	to, from := isa.DType(a[isa.ConvertTo]), isa.DType(a[isa.ConvertFrom])
	converted(a[isa.ConvertN2:], a[isa.ConvertDst], a[isa.ConvertSrc], to.Size(), from.Size(), func(d, s int64) {
		convertOne(c.sp, d, to, s, from)
	})
	return nil
}

// wideCodes is the error of codes of a type that an instruction does not have.
func wideCodes(t isa.DType) error { return fmt.Errorf("type = %d: there are no codes of %s", t, t) }

func (c *cluster) quantW(a []int64) error {
	t, scale, offset := isa.DType(a[isa.QuantWType]), f32(a[isa.QuantWScale]), a[isa.QuantWOffset]
	if t != isa.I16 && t != isa.U16 {
		return wideCodes(t)
	}
	if !(scale > 0) || math.IsInf(float64(scale), 0) {
		return fmt.Errorf("scale = %v is not a finite number above 0", scale)
	}
	lo, hi := intRange(t)
	converted(a[isa.QuantWN2:], a[isa.QuantWDst], a[isa.QuantWSrc], 2, 4, func(d, s int64) {
		r := math.RoundToEven(float64(loadF32(c.sp, s)/scale)) + float64(offset)
		if r != r {
			r = float64(offset)
		}
		storeInt(c.sp, d, t, int64(min(max(r, lo), hi)))
	})
	return nil
}

func (c *cluster) dequantW(a []int64) error {
	t, scale, offset := isa.DType(a[isa.DequantWType]), f32(a[isa.DequantWScale]), a[isa.DequantWOffset]
	if t != isa.I16 && t != isa.U16 && t != isa.I32 {
		return wideCodes(t)
	}
	converted(a[isa.DequantWN2:], a[isa.DequantWDst], a[isa.DequantWSrc], 4, t.Size(), func(d, s int64) {
		storeF32(c.sp, d, float32(loadInt(c.sp, s, t)-offset)*scale)
	})
	return nil
}

var errDivZero = errors.New("integer division by zero")

// binaryInt is a function of binaryi on integers; u says that they are of 64 bits
// without sign.
func binaryInt(fn int64, u bool, x, y int64) int64 {
	switch fn {
	case isa.IAdd:
		return x + y
	case isa.ISub:
		return x - y
	case isa.IMul:
		return x * y
	case isa.IAnd:
		return x & y
	case isa.IOr:
		return x | y
	case isa.IXor:
		return x ^ y
	case isa.IEqual:
		return bit(x == y)
	}
	if u {
		return int64(ordered(fn, uint64(x), uint64(y)))
	}
	return ordered(fn, x, y)
}

// ordered is binaryInt for functions that depend on the sign.
func ordered[T int64 | uint64](fn int64, x, y T) T {
	switch fn {
	case isa.IDiv:
		return x / y
	case isa.IMin:
		return min(x, y)
	case isa.IMax:
		return max(x, y)
	case isa.IMod:
		r := x % y
		if r != 0 && (r < 0) != (y < 0) {
			r += y
		}
		return r
	case isa.IRem:
		return x % y
	case isa.ILess:
		return T(bit(x < y))
	}
	return T(bit(x <= y))
}

func compareF32(fn int64, x, y float32) int64 {
	switch fn {
	case isa.IEqual:
		return bit(x == y)
	case isa.ILess:
		return bit(x < y)
	}
	return bit(x <= y)
}

// nested walks four dimensions; d are the operands from n3 on, each count
// followed by a step for each address of at. f gets the addresses of the first
// element of a row, the steps along it and its length.
func nested(d []int64, at [4]int64, operands int, f func(at, step [4]int64, n int64)) {
	per := 1 + operands
	var step [4][4]int64 // by dimension
	for k := range 4 {
		copy(step[k][:], d[k*per+1:k*per+per])
	}
	for i3 := range d[0] {
		for i2 := range d[per] {
			for i1 := range d[2*per] {
				p := at
				for o := range operands {
					p[o] += i3*step[0][o] + i2*step[1][o] + i1*step[2][o]
				}
				f(p, step[3], d[3*per])
			}
		}
	}
}

func (c *cluster) binaryI(a []int64) error {
	fn, t := a[isa.BinaryIFn], isa.DType(a[isa.BinaryIType])
	if fn >= isa.NumIFns || t == isa.F32 && !isa.Compares(fn) {
		return badFunction(fn)
	}
	divides := fn == isa.IDiv || fn == isa.IMod || fn == isa.IRem
	result := t
	if isa.Compares(fn) {
		result = isa.Bool
	}
	var err error
	at := [4]int64{a[isa.BinaryIDst], a[isa.BinaryIA], a[isa.BinaryIB]}
	nested(a[isa.BinaryIN3:], at, 3, func(p, s [4]int64, n int64) {
		d, x, y := p[0], p[1], p[2]
		for range n {
			if t == isa.F32 {
				storeInt(c.sp, d, result, compareF32(fn, loadF32(c.sp, x), loadF32(c.sp, y)))
			} else if v := loadInt(c.sp, y, t); v == 0 && divides {
				err = errDivZero
			} else {
				storeInt(c.sp, d, result, binaryInt(fn, t == isa.U64, loadInt(c.sp, x, t), v))
			}
			d, x, y = d+s[0], x+s[1], y+s[2]
		}
	})
	return err
}

func (c *cluster) choose(a []int64) error {
	size := a[isa.SelectSize]
	at := [4]int64{a[isa.SelectDst], a[isa.SelectCond], a[isa.SelectA], a[isa.SelectB]}
	nested(a[isa.SelectN3:], at, 4, func(p, s [4]int64, n int64) {
		for range n {
			from := p[3]
			if c.sp[p[1]] == 1 {
				from = p[2]
			}
			copy(c.sp[p[0]:p[0]+size], c.sp[from:from+size])
			for i := range p {
				p[i] += s[i]
			}
		}
	})
	return nil
}

func (c *cluster) reduceI(a []int64) error {
	fn, t := a[isa.ReduceIFn], isa.DType(a[isa.ReduceIType])
	if fn >= isa.NumIReductions || t == isa.F32 {
		return badFunction(fn)
	}
	do := [...]int64{isa.ISum: isa.IAdd, isa.IReduceMax: isa.IMax, isa.IReduceMin: isa.IMin}[fn]
	n, inner, size := a[isa.ReduceIN], a[isa.ReduceIInner], t.Size()
	for o := range a[isa.ReduceIOuter] {
		for i := range inner {
			at := a[isa.ReduceISrc] + (o*n*inner+i)*size
			x := loadInt(c.sp, at, t)
			for k := int64(1); k < n; k++ {
				x = binaryInt(do, t == isa.U64, x, loadInt(c.sp, at+k*inner*size, t))
			}
			storeInt(c.sp, a[isa.ReduceIDst]+(o*inner+i)*size, t, x)
		}
	}
	return nil
}

func (c *cluster) storeAcc(a []int64) error {
	n := a[isa.StoreAccN]
	bias := words[int32](c.sp, a[isa.StoreAccParams], n)
	acc := a[isa.StoreAccAcc] / 4
	for y := range a[isa.StoreAccRowsY] {
		for x := range a[isa.StoreAccRowsX] {
			dst := words[int32](c.sp, a[isa.StoreAccDst]+y*a[isa.StoreAccDstSy]+x*a[isa.StoreAccDstSx], n)
			for i, v := range c.acc[acc : acc+n] {
				dst[i] = v + bias[i]
			}
			acc += a[isa.StoreAccAccPitch] / 4
		}
	}
	return nil
}
