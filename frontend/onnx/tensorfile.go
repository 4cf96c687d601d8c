package onnx

import (
	"fmt"
	"os"
	"path/filepath"

	"google.golang.org/protobuf/proto"

	"situ/frontend/onnx/onnxpb"
	"situ/internal/npy"
	"situ/ir"
)

// maxTensorBytes bounds the size of a tensor file.
const maxTensorBytes = 2 << 30

// npyTypes maps .npy element types to the IR's; F16 is kept as bit patterns.
var npyTypes = []struct {
	kind  byte
	size  int
	dtype ir.DType
}{
	{'f', 2, ir.F16}, {'f', 4, ir.F32}, {'f', 8, ir.F64},
	{'i', 1, ir.I8}, {'i', 2, ir.I16}, {'i', 4, ir.I32}, {'i', 8, ir.I64},
	{'u', 1, ir.U8}, {'u', 2, ir.U16}, {'u', 4, ir.U32}, {'u', 8, ir.U64},
	{'b', 1, ir.Bool},
}

// ReadTensorFile reads a tensor from a .npy file or from a .pb file that holds
// one TensorProto, chosen by the file's extension. name is the tensor's name in
// a .pb file, else "". The tensor must not be written to. Errors name the file.
func ReadTensorFile(path string) (name string, t *ir.Tensor, err error) {
	b, err := readFile(path, maxTensorBytes)
	if err != nil {
		return "", nil, err
	}
	switch ext := filepath.Ext(path); ext {
	case ".npy":
		t, err = decodeNPY(b)
	case ".pb":
		p := &onnxpb.TensorProto{}
		if err = unmarshal(b, p); err == nil {
			name = p.Name
			t, err = DecodeTensor(p, filepath.Dir(path))
		}
	default:
		err = fmt.Errorf("unknown tensor file extension %q; use .npy or .pb", ext)
	}
	if err != nil {
		return "", nil, fmt.Errorf("%s: %w", path, err)
	}
	return name, t, nil
}

func decodeNPY(b []byte) (*ir.Tensor, error) {
	a, err := npy.Decode(b)
	if err != nil {
		return nil, err
	}
	for _, n := range npyTypes {
		if n.kind == a.Kind && n.size == a.Size {
			return fromRaw(n.dtype, a.Shape, a.Data), nil
		}
	}
	return nil, fmt.Errorf("element type %c%d is not supported", a.Kind, a.Size)
}

// WriteTensorFile writes a tensor as .npy or .pb, by the file's extension; name
// is kept only in .pb. BF16, I4 and U4 have no .npy form.
func WriteTensorFile(path, name string, t *ir.Tensor) error {
	var b []byte
	var err error
	switch ext := filepath.Ext(path); ext {
	case ".npy":
		b, err = encodeNPY(t)
	case ".pb":
		b, err = proto.Marshal(EncodeTensor(name, t))
	default:
		err = fmt.Errorf("unknown tensor file extension %q; use .npy or .pb", ext)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return os.WriteFile(path, b, 0o666)
}

func encodeNPY(t *ir.Tensor) ([]byte, error) {
	for _, n := range npyTypes {
		if n.dtype == t.DType {
			return npy.Encode(&npy.Array{Kind: n.kind, Size: n.size, Shape: t.Shape, Data: rawBytes(t)})
		}
	}
	return nil, fmt.Errorf("%s has no .npy form; write a .pb file", t.DType)
}
