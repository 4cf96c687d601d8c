package ir

import (
	"fmt"
	"math"
	"slices"
)

// DType is the element type of a tensor.
type DType uint8

// Element types. I4 and U4 hold one element a byte in memory; bytes moved are
// counted with Bits.
const (
	Invalid DType = iota
	F32
	F64
	F16
	BF16
	I4
	U4
	I8
	U8
	I16
	U16
	I32
	U32
	I64
	U64
	Bool
	numDTypes
)

var dtypeInfo = [numDTypes]struct {
	name string
	bits int
}{
	Invalid: {"invalid", 0},
	F32:     {"f32", 32}, F64: {"f64", 64}, F16: {"f16", 16}, BF16: {"bf16", 16},
	I4: {"i4", 4}, U4: {"u4", 4}, I8: {"i8", 8}, U8: {"u8", 8},
	I16: {"i16", 16}, U16: {"u16", 16}, I32: {"i32", 32}, U32: {"u32", 32},
	I64: {"i64", 64}, U64: {"u64", 64}, Bool: {"bool", 8},
}

// String returns the name the textual form uses, such as "i8".
func (d DType) String() string {
	if d < numDTypes {
		return dtypeInfo[d].name
	}
	return fmt.Sprintf("dtype(%d)", uint8(d))
}

// Bits returns the width of one element in bits, as stored and moved by hardware.
func (d DType) Bits() int {
	if d < numDTypes {
		return dtypeInfo[d].bits
	}
	return 0
}

// IsFloat reports whether d is a floating-point type.
func (d DType) IsFloat() bool { return d >= F32 && d <= BF16 }

// IsInt reports whether d is an integer type (Bool is not).
func (d DType) IsInt() bool { return d >= I4 && d <= U64 }

// IntRange returns the smallest and largest value of a quantisable integer type
// (at most 32 bits); it panics for others.
func (d DType) IntRange() (lo, hi int64) {
	switch d {
	case I4:
		return -8, 7
	case U4:
		return 0, 15
	case I8:
		return math.MinInt8, math.MaxInt8
	case U8:
		return 0, math.MaxUint8
	case I16:
		return math.MinInt16, math.MaxInt16
	case U16:
		return 0, math.MaxUint16
	case I32:
		return math.MinInt32, math.MaxInt32
	}
	panic("ir: no integer range for " + d.String())
}

// ParseDType is the inverse of DType.String.
func ParseDType(s string) (DType, bool) {
	for d := Invalid + 1; d < numDTypes; d++ {
		if dtypeInfo[d].name == s {
			return d, true
		}
	}
	return Invalid, false
}

// Quant says how integer codes stand for real numbers: real = (code − zero) · scale.
// With Axis < 0 there is one scale and one zero point for the tensor; otherwise
// one of each per index of that axis, a channel.
//
// With Block > 0 the codes of a channel, in row-major order of the tensor, come in
// blocks of that many, the last one perhaps shorter, each with a power of two:
// real = code · 2^shift · scale. Zero points are then 0. With scales that are powers
// of two these are the formats of OCP Microscaling; a block's exponent is that of
// the channel's scale plus its shift.
type Quant struct {
	Scale []float32
	Zero  []int32
	Axis  int
	Block int
	Shift []uint8 // of each block, those of a channel together; nil without blocks
}

// MaxShift is the largest shift of a block: hardware has three bits for it.
const MaxShift = 7

// BlocksOf returns the number of blocks in a channel of n codes.
func (q *Quant) BlocksOf(n int) int { return (n + q.Block - 1) / q.Block }

// ShiftOf returns the shift of code k of the n codes of a channel, 0 without blocks.
func (q *Quant) ShiftOf(channel, k, n int) uint8 {
	if q.Block == 0 {
		return 0
	}
	return q.Shift[channel*q.BlocksOf(n)+k/q.Block]
}

// PerTensor returns a Quant with one scale and zero point.
func PerTensor(scale float32, zero int32) *Quant {
	return &Quant{Scale: []float32{scale}, Zero: []int32{zero}, Axis: -1}
}

// Equal reports whether two quantisations (either may be nil) are the same.
func (q *Quant) Equal(r *Quant) bool {
	if q == nil || r == nil {
		return q == r
	}
	return q.Axis == r.Axis && slices.Equal(q.Scale, r.Scale) && slices.Equal(q.Zero, r.Zero) &&
		q.Block == r.Block && slices.Equal(q.Shift, r.Shift)
}

// IsPerTensor reports whether q has a single scale.
func (q *Quant) IsPerTensor() bool { return q.Axis < 0 }

// Type is the type of a value: element type, static shape and, for codes that
// stand for real numbers, their quantisation. Types are immutable: never write
// through Shape or Quant of a type that is in use.
type Type struct {
	DType DType
	Shape []int
	Quant *Quant
}

// TypeOf builds an unquantised type.
func TypeOf(d DType, shape ...int) Type { return Type{DType: d, Shape: shape} }

// WithQuant returns t with its quantisation replaced.
func (t Type) WithQuant(q *Quant) Type { t.Quant = q; return t }

// Numel returns the number of elements (1 for a scalar).
func (t Type) Numel() int { return Numel(t.Shape) }

// Bytes returns the size in bytes as stored by hardware: I4 and U4 take half a
// byte, the total rounded up, and a block of codes has one for its exponent.
func (t Type) Bytes() int64 {
	n := (int64(t.Numel())*int64(t.DType.Bits()) + 7) / 8
	if t.Quant != nil {
		n += int64(len(t.Quant.Shift))
	}
	return n
}

// Equal reports whether two types are the same.
func (t Type) Equal(u Type) bool {
	return t.DType == u.DType && slices.Equal(t.Shape, u.Shape) && t.Quant.Equal(u.Quant)
}

// Numel returns the product of a shape's dimensions.
func Numel(shape []int) int {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
}
