package ir

import "fmt"

// Elem is the set of Go types that hold tensor elements. F16 and BF16 are held
// as uint16 bit patterns, I4 as int8, U4 and Bool as uint8.
type Elem interface {
	float32 | float64 | uint16 | int8 | uint8 | int16 | int32 | uint32 | int64 | uint64
}

// Tensor is a dense row-major array. Tensors that are constants of a graph are
// shared and never written.
//
// A tensor made by Describe has a type and no elements. It stands for weights
// that are too large to hold where only their place matters: what has to be
// moved, how much is computed. Data and Any must not be asked of it.
type Tensor struct {
	DType DType
	Shape []int
	data  any

	described bool
	std       float32 // of a described tensor
}

// Describe returns a tensor without elements; std is the standard deviation that
// they are said to have around 0.
func Describe(d DType, std float32, shape ...int) *Tensor {
	return &Tensor{DType: d, Shape: shape, described: true, std: std}
}

// Described reports whether t has no elements, and with which standard deviation
// they are described.
func (t *Tensor) Described() (std float32, ok bool) { return t.std, t.described }

// IsDescribed reports whether a value is a constant without elements.
func (g *Graph) IsDescribed(id ValueID) bool {
	if !g.IsConst(id) {
		return false
	}
	_, ok := g.Values[id].Const.Described()
	return ok
}

// Described returns the first constant of g without elements, or NoValue.
func (g *Graph) Described() ValueID {
	for i := range g.Values {
		if g.IsDescribed(ValueID(i)) {
			return ValueID(i)
		}
	}
	return NoValue
}

// NewTensor wraps data without copying. It panics when the length does not match
// the shape or the Go type does not fit the element type: both are programming errors.
func NewTensor[T Elem](d DType, shape []int, data []T) *Tensor {
	if len(data) != Numel(shape) {
		panic(fmt.Sprintf("ir: tensor of shape %v given %d elements", shape, len(data)))
	}
	t := &Tensor{DType: d, Shape: shape, data: data}
	if _, ok := zeroData(d, 0).([]T); !ok {
		panic(fmt.Sprintf("ir: %s tensor given %T", d, data))
	}
	return t
}

// Zeros allocates a tensor of zeros.
func Zeros(d DType, shape ...int) *Tensor {
	return &Tensor{DType: d, Shape: shape, data: zeroData(d, Numel(shape))}
}

func zeroData(d DType, n int) any {
	switch d {
	case F32:
		return make([]float32, n)
	case F64:
		return make([]float64, n)
	case F16, BF16, U16:
		return make([]uint16, n)
	case I4, I8:
		return make([]int8, n)
	case U4, U8, Bool:
		return make([]uint8, n)
	case I16:
		return make([]int16, n)
	case I32:
		return make([]int32, n)
	case U32:
		return make([]uint32, n)
	case I64:
		return make([]int64, n)
	case U64:
		return make([]uint64, n)
	}
	panic("ir: no storage for " + d.String())
}

// Data returns the elements of t; it panics when T is not how t's type is held,
// or t is described.
func Data[T Elem](t *Tensor) []T { return t.data.([]T) }

// Any returns the element slice as an interface, for type switches.
func (t *Tensor) Any() any { return t.data }

// Numel returns the number of elements.
func (t *Tensor) Numel() int { return Numel(t.Shape) }

// Type returns the unquantised type of t.
func (t *Tensor) Type() Type { return Type{DType: t.DType, Shape: t.Shape} }

// Reshaped returns a tensor that shares t's elements under another shape of the
// same number of elements.
func (t *Tensor) Reshaped(shape ...int) *Tensor {
	if Numel(shape) != t.Numel() {
		panic(fmt.Sprintf("ir: reshape of %v to %v", t.Shape, shape))
	}
	return &Tensor{DType: t.DType, Shape: shape, data: t.data, described: t.described, std: t.std}
}
