package onnx

import (
	"encoding/binary"
	"errors"
	"fmt"
	"unsafe"

	"situ/frontend/onnx/onnxpb"
	"situ/ir"
)

// dtypes maps the standard's element types to the IR's. Strings, complex
// numbers and floats of eight bits or fewer have no counterpart.
var dtypes = map[onnxpb.TensorProto_DataType]ir.DType{
	onnxpb.TensorProto_FLOAT:    ir.F32,
	onnxpb.TensorProto_DOUBLE:   ir.F64,
	onnxpb.TensorProto_FLOAT16:  ir.F16,
	onnxpb.TensorProto_BFLOAT16: ir.BF16,
	onnxpb.TensorProto_INT4:     ir.I4,
	onnxpb.TensorProto_UINT4:    ir.U4,
	onnxpb.TensorProto_INT8:     ir.I8,
	onnxpb.TensorProto_UINT8:    ir.U8,
	onnxpb.TensorProto_INT16:    ir.I16,
	onnxpb.TensorProto_UINT16:   ir.U16,
	onnxpb.TensorProto_INT32:    ir.I32,
	onnxpb.TensorProto_UINT32:   ir.U32,
	onnxpb.TensorProto_INT64:    ir.I64,
	onnxpb.TensorProto_UINT64:   ir.U64,
	onnxpb.TensorProto_BOOL:     ir.Bool,
}

// dtypeOf returns the IR element type of a standard one.
func dtypeOf(t int32) (ir.DType, error) {
	d, ok := dtypes[onnxpb.TensorProto_DataType(t)]
	if !ok {
		return ir.Invalid, fmt.Errorf("element type %v is not supported", onnxpb.TensorProto_DataType(t))
	}
	return d, nil
}

// protoDType is the inverse of dtypeOf.
func protoDType(d ir.DType) onnxpb.TensorProto_DataType {
	for p, q := range dtypes {
		if q == d {
			return p
		}
	}
	return onnxpb.TensorProto_UNDEFINED
}

// storedBytes is the size of n elements in raw data: I4 and U4 are packed two to
// a byte.
func storedBytes(d ir.DType, n int) int {
	return (n*d.Bits() + 7) / 8
}

// checkTensor compares a tensor's shape with the data present, without decoding
// it. Element types that cannot be decoded are left to whoever needs the tensor.
func checkTensor(t *onnxpb.TensorProto) error {
	shape, err := shapeOf(t.Dims)
	if err != nil {
		return err
	}
	d, err := dtypeOf(t.DataType)
	if err != nil || t.DataLocation == onnxpb.TensorProto_EXTERNAL {
		return nil
	}
	return checkLength(t, d, ir.Numel(shape))
}

// checkLength checks that exactly n elements are present.
func checkLength(t *onnxpb.TensorProto, d ir.DType, n int) error {
	if t.Segment != nil {
		return errors.New("tensors in segments are not supported")
	}
	if len(t.RawData) > 0 {
		if want := storedBytes(d, n); len(t.RawData) != want {
			return fmt.Errorf("shape %v of %s needs %d bytes, %d are present", t.Dims, d, want, len(t.RawData))
		}
		return nil
	}
	want, got := n, 0
	switch d {
	case ir.F32:
		got = len(t.FloatData)
	case ir.F64:
		got = len(t.DoubleData)
	case ir.I64:
		got = len(t.Int64Data)
	case ir.U32, ir.U64:
		got = len(t.Uint64Data)
	case ir.I4, ir.U4:
		want, got = (n+1)/2, len(t.Int32Data)
	default:
		got = len(t.Int32Data)
	}
	if got != want {
		return fmt.Errorf("shape %v of %s needs %d elements, %d are present", t.Dims, d, want, got)
	}
	return nil
}

// DecodeTensor returns the tensor's elements. External data is read from below
// dir; "" refuses it. Little-endian raw data is shared, not copied, where type
// and alignment allow; the result must not be written to. Errors do not name
// the tensor.
func DecodeTensor(t *onnxpb.TensorProto, dir string) (*ir.Tensor, error) {
	return (&dataFiles{dir: dir}).decode(t)
}

// decode is DecodeTensor with files that stay open.
func (files *dataFiles) decode(t *onnxpb.TensorProto) (*ir.Tensor, error) {
	shape, err := shapeOf(t.Dims)
	if err != nil {
		return nil, err
	}
	d, err := dtypeOf(t.DataType)
	if err != nil {
		return nil, err
	}
	n := ir.Numel(shape)
	if t.DataLocation == onnxpb.TensorProto_EXTERNAL {
		raw, err := files.read(t, storedBytes(d, n))
		if err != nil {
			return nil, err
		}
		return fromRaw(d, shape, raw), nil
	}
	if err := checkLength(t, d, n); err != nil {
		return nil, err
	}
	if len(t.RawData) > 0 {
		return fromRaw(d, shape, t.RawData), nil
	}
	return fromTyped(t, d, shape)
}

// nativeLittleEndian says whether raw data can be used as it is.
var nativeLittleEndian = binary.NativeEndian.Uint16([]byte{1, 0}) == 1

// fromRaw interprets raw data of the right length.
func fromRaw(d ir.DType, shape []int, raw []byte) *ir.Tensor {
	switch d {
	case ir.F32:
		return ir.NewTensor(d, shape, view[float32](raw))
	case ir.F64:
		return ir.NewTensor(d, shape, view[float64](raw))
	case ir.I8:
		return ir.NewTensor(d, shape, view[int8](raw))
	case ir.U8:
		return ir.NewTensor(d, shape, raw)
	case ir.I16:
		return ir.NewTensor(d, shape, view[int16](raw))
	case ir.U16, ir.F16, ir.BF16:
		return ir.NewTensor(d, shape, view[uint16](raw))
	case ir.I32:
		return ir.NewTensor(d, shape, view[int32](raw))
	case ir.U32:
		return ir.NewTensor(d, shape, view[uint32](raw))
	case ir.I64:
		return ir.NewTensor(d, shape, view[int64](raw))
	case ir.U64:
		return ir.NewTensor(d, shape, view[uint64](raw))
	case ir.I4:
		v := make([]int8, ir.Numel(shape))
		for i := range v {
			v[i] = int8(raw[i/2]<<(4-4*(i&1))) >> 4
		}
		return ir.NewTensor(d, shape, v)
	case ir.U4:
		v := make([]uint8, ir.Numel(shape))
		for i := range v {
			v[i] = raw[i/2] >> (4 * (i & 1)) & 15
		}
		return ir.NewTensor(d, shape, v)
	}
	v := make([]uint8, len(raw)) // Bool: any non-zero byte is true
	for i, b := range raw {
		if b != 0 {
			v[i] = 1
		}
	}
	return ir.NewTensor(ir.Bool, shape, v)
}

// view reinterprets little-endian bytes as elements, without a copy where the
// machine and the address allow it.
func view[T ir.Elem](raw []byte) []T {
	var zero T
	size := int(unsafe.Sizeof(zero))
	n := len(raw) / size
	if n == 0 {
		return []T{}
	}
	start := unsafe.Pointer(unsafe.SliceData(raw))
	if (nativeLittleEndian || size == 1) && uintptr(start)%unsafe.Alignof(zero) == 0 {
		return unsafe.Slice((*T)(start), n)
	}
	v := make([]T, n)
	// The length is a multiple of the size, so Decode cannot fail.
	binary.Decode(raw[:n*size], binary.LittleEndian, v)
	return v
}

// fromTyped takes elements from the field of the tensor's type. The number of
// elements has been checked.
func fromTyped(t *onnxpb.TensorProto, d ir.DType, shape []int) (*ir.Tensor, error) {
	switch d {
	case ir.F32:
		return ir.NewTensor(d, shape, t.FloatData), nil
	case ir.F64:
		return ir.NewTensor(d, shape, t.DoubleData), nil
	case ir.I64:
		return ir.NewTensor(d, shape, t.Int64Data), nil
	case ir.U64:
		return ir.NewTensor(d, shape, t.Uint64Data), nil
	case ir.U32:
		return narrow[uint32](d, shape, t.Uint64Data)
	case ir.I32:
		return ir.NewTensor(d, shape, t.Int32Data), nil
	case ir.I16:
		return narrow[int16](d, shape, t.Int32Data)
	case ir.U16, ir.F16, ir.BF16:
		return narrow[uint16](d, shape, t.Int32Data)
	case ir.I8:
		return narrow[int8](d, shape, t.Int32Data)
	case ir.U8:
		return narrow[uint8](d, shape, t.Int32Data)
	}
	// Bool and the packed types: each entry holds one byte of raw data.
	raw := make([]byte, len(t.Int32Data))
	for i, v := range t.Int32Data {
		if v != int32(uint8(v)) && v != int32(int8(v)) {
			return nil, fmt.Errorf("element %d: %d does not fit in a byte", i, v)
		}
		raw[i] = byte(v)
	}
	return fromRaw(d, shape, raw), nil
}

// narrow converts elements to the type they are meant to be, refusing those that
// do not fit.
func narrow[T int8 | uint8 | int16 | uint16 | uint32, W int32 | uint64](d ir.DType, shape []int, wide []W) (*ir.Tensor, error) {
	v := make([]T, len(wide))
	for i, w := range wide {
		v[i] = T(w)
		if W(v[i]) != w {
			return nil, fmt.Errorf("element %d: %d does not fit %s", i, w, d)
		}
	}
	return ir.NewTensor(d, shape, v), nil
}

// EncodeTensor is the inverse of DecodeTensor; it writes raw data.
func EncodeTensor(name string, t *ir.Tensor) *onnxpb.TensorProto {
	p := &onnxpb.TensorProto{Name: name, DataType: int32(protoDType(t.DType)), RawData: rawBytes(t)}
	for _, d := range t.Shape {
		p.Dims = append(p.Dims, int64(d))
	}
	return p
}

// rawBytes returns a tensor's elements as little-endian bytes, I4 and U4 packed.
func rawBytes(t *ir.Tensor) []byte {
	switch t.DType {
	case ir.I4:
		return pack4(ir.Data[int8](t))
	case ir.U4:
		return pack4(ir.Data[uint8](t))
	}
	b, err := binary.Append(nil, binary.LittleEndian, t.Any())
	if err != nil {
		panic(err) // every element type is of fixed size
	}
	return b
}

func pack4[T int8 | uint8](v []T) []byte {
	b := make([]byte, (len(v)+1)/2)
	for i, x := range v {
		b[i/2] |= byte(x) & 15 << (4 * (i & 1))
	}
	return b
}
