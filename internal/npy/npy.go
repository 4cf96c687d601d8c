package npy

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

var magic = []byte("\x93NUMPY")

// Array is a dense array in row-major order with little-endian elements.
type Array struct {
	Kind  byte // 'f' float, 'i' signed, 'u' unsigned, 'b' boolean
	Size  int  // bytes per element: 1, 2, 4 or 8
	Shape []int
	Data  []byte // product(Shape)·Size bytes
}

// Decode parses a whole .npy file. Big-endian and column-major (Fortran order)
// arrays are converted. Data shares b's memory where no conversion is needed.
func Decode(b []byte) (*Array, error) {
	header, data, err := split(b)
	if err != nil {
		return nil, err
	}
	h, err := parseHeader(header)
	if err != nil {
		return nil, err
	}
	a := &Array{Kind: h.kind, Size: h.size, Shape: h.shape}
	n, err := byteLen(h.shape, h.size)
	if err != nil {
		return nil, err
	}
	if n != len(data) {
		return nil, fmt.Errorf("npy: shape %v of %d-byte elements needs %d bytes of data, the file has %d",
			h.shape, h.size, n, len(data))
	}
	if h.bigEndian && h.size > 1 {
		data = slices.Clone(data)
		for e := range slices.Chunk(data, h.size) {
			slices.Reverse(e)
		}
	}
	if h.fortran && len(h.shape) > 1 && n > 0 {
		data = rowMajor(data, h.shape, h.size)
	}
	a.Data = data
	return a, nil
}

// Encode returns the array as a .npy file of format version 1. It returns an
// error when Data does not match Shape and Size.
func Encode(a *Array) ([]byte, error) {
	n, err := byteLen(a.Shape, a.Size)
	if err != nil {
		return nil, err
	}
	if n != len(a.Data) {
		return nil, fmt.Errorf("npy: shape %v of %d-byte elements needs %d bytes of data, got %d",
			a.Shape, a.Size, n, len(a.Data))
	}
	order := "<"
	if a.Size == 1 {
		order = "|"
	}
	var shape strings.Builder
	for i, d := range a.Shape {
		if i > 0 {
			shape.WriteByte(' ')
		}
		shape.WriteString(strconv.Itoa(d) + ",")
	}
	dims := shape.String()
	if len(a.Shape) > 1 {
		dims = strings.TrimSuffix(dims, ",")
	}
	dict := fmt.Sprintf("{'descr': '%s%c%d', 'fortran_order': False, 'shape': (%s), }",
		order, a.Kind, a.Size, dims)
	// The data starts at a multiple of 64 bytes, the header ends in a newline.
	const prefix = 6 + 2 + 2
	total := (prefix + len(dict) + 1 + 63) / 64 * 64
	if total-prefix > math.MaxUint16 {
		return nil, fmt.Errorf("npy: header of %d dimensions is too long", len(a.Shape))
	}
	out := make([]byte, 0, total+n)
	out = append(out, magic...)
	out = append(out, 1, 0)
	out = binary.LittleEndian.AppendUint16(out, uint16(total-prefix))
	out = append(out, dict...)
	for len(out) < total-1 {
		out = append(out, ' ')
	}
	out = append(out, '\n')
	return append(out, a.Data...), nil
}

// split separates the header text from the element data.
func split(b []byte) (header string, data []byte, err error) {
	if len(b) < 10 || string(b[:6]) != string(magic) {
		return "", nil, errors.New("npy: not a .npy file (the magic bytes are missing)")
	}
	var n uint64
	rest := b[8:]
	switch major := b[6]; major {
	case 1:
		n, rest = uint64(binary.LittleEndian.Uint16(rest)), rest[2:]
	case 2, 3:
		if len(rest) < 4 {
			return "", nil, errors.New("npy: truncated header")
		}
		n, rest = uint64(binary.LittleEndian.Uint32(rest)), rest[4:]
	default:
		return "", nil, fmt.Errorf("npy: format version %d is not known; versions 1 to 3 are", major)
	}
	if n > uint64(len(rest)) {
		return "", nil, fmt.Errorf("npy: truncated header: %d bytes announced, %d present", n, len(rest))
	}
	return string(rest[:n]), rest[n:], nil
}

// byteLen multiplies a shape and an element size, refusing negative
// dimensions, empty elements and overflow.
func byteLen(shape []int, size int) (int, error) {
	if size < 1 {
		return 0, fmt.Errorf("npy: element size of %d bytes", size)
	}
	n := size
	empty := slices.Contains(shape, 0)
	for _, d := range shape {
		if d < 0 {
			return 0, fmt.Errorf("npy: negative dimension in shape %v", shape)
		}
		if !empty {
			if d > math.MaxInt/n {
				return 0, fmt.Errorf("npy: shape %v is too large", shape)
			}
			n *= d
		}
	}
	if empty {
		return 0, nil
	}
	return n, nil
}

// rowMajor converts column-major elements.
func rowMajor(src []byte, shape []int, size int) []byte {
	stride := make([]int, len(shape)) // in bytes, of the column-major source
	s := size
	for i, d := range shape {
		stride[i] = s
		s *= d
	}
	out := make([]byte, 0, len(src))
	index := make([]int, len(shape))
	for off := 0; ; {
		out = append(out, src[off:off+size]...)
		i := len(shape) - 1
		for ; i >= 0; i-- {
			index[i]++
			off += stride[i]
			if index[i] < shape[i] {
				break
			}
			off -= stride[i] * shape[i]
			index[i] = 0
		}
		if i < 0 {
			return out
		}
	}
}
