package onnx

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"situ/frontend/onnx/onnxpb"
	"situ/ir"
)

// samples has one tensor of each element type, with its encoding in typed fields.
var samples = []struct {
	typed *onnxpb.TensorProto
	want  any
}{
	{&onnxpb.TensorProto{DataType: 1, Dims: []int64{2, 2}, FloatData: []float32{1, -2.5, nan, float32(math.Inf(1))}}, []float32{1, -2.5, nan, float32(math.Inf(1))}},
	{&onnxpb.TensorProto{DataType: 11, Dims: []int64{1}, DoubleData: []float64{1e300}}, []float64{1e300}},
	{&onnxpb.TensorProto{DataType: 10, Dims: []int64{2}, Int32Data: []int32{0x3c00, 0xfc00}}, []uint16{0x3c00, 0xfc00}},
	{&onnxpb.TensorProto{DataType: 16, Dims: []int64{1}, Int32Data: []int32{0x3f80}}, []uint16{0x3f80}},
	{&onnxpb.TensorProto{DataType: 22, Dims: []int64{5}, Int32Data: []int32{0xf8, 0x27, 0x01}}, []int8{-8, -1, 7, 2, 1}},
	{&onnxpb.TensorProto{DataType: 21, Dims: []int64{3}, Int32Data: []int32{0xf8, 0x03}}, []uint8{8, 15, 3}},
	{&onnxpb.TensorProto{DataType: 3, Dims: []int64{3}, Int32Data: []int32{-128, 127, 0}}, []int8{-128, 127, 0}},
	{&onnxpb.TensorProto{DataType: 2, Dims: []int64{3, 1}, Int32Data: []int32{0, 255, 7}}, []uint8{0, 255, 7}},
	{&onnxpb.TensorProto{DataType: 5, Dims: []int64{2}, Int32Data: []int32{-32768, 1}}, []int16{-32768, 1}},
	{&onnxpb.TensorProto{DataType: 4, Dims: []int64{2}, Int32Data: []int32{65535, 1}}, []uint16{65535, 1}},
	{&onnxpb.TensorProto{DataType: 6, Dims: []int64{2}, Int32Data: []int32{math.MinInt32, 1}}, []int32{math.MinInt32, 1}},
	{&onnxpb.TensorProto{DataType: 12, Dims: []int64{2}, Uint64Data: []uint64{math.MaxUint32, 1}}, []uint32{math.MaxUint32, 1}},
	{&onnxpb.TensorProto{DataType: 7, Dims: []int64{2}, Int64Data: []int64{math.MinInt64, 1}}, []int64{math.MinInt64, 1}},
	{&onnxpb.TensorProto{DataType: 13, Dims: nil, Uint64Data: []uint64{math.MaxUint64}}, []uint64{math.MaxUint64}},
	{&onnxpb.TensorProto{DataType: 9, Dims: []int64{2}, Int32Data: []int32{0, 1}}, []uint8{0, 1}},
	{&onnxpb.TensorProto{DataType: 1, Dims: []int64{4, 0}}, []float32{}},
}

func TestDecodeTensor(t *testing.T) {
	same := cmp.Comparer(func(a, b float32) bool { return math.Float32bits(a) == math.Float32bits(b) })
	empty := cmp.Comparer(func(a, b []float32) bool {
		return len(a) == len(b) && cmp.Equal(append([]float32{}, a...), append([]float32{}, b...), same)
	})
	for _, s := range samples {
		name := onnxpb.TensorProto_DataType(s.typed.DataType).String()
		t.Run(name, func(t *testing.T) {
			a, err := DecodeTensor(s.typed, "")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(s.want, a.Any(), empty); diff != "" {
				t.Errorf("typed fields (-want +got):\n%s", diff)
			}
			b, err := DecodeTensor(EncodeTensor("n", a), "")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(s.want, b.Any(), empty); diff != "" || a.DType != b.DType {
				t.Errorf("raw data (-want +got):\n%s", diff)
			}
			for _, ext := range []string{".pb", ".npy"} {
				path := filepath.Join(t.TempDir(), "t"+ext)
				if err := WriteTensorFile(path, "n", a); err != nil {
					if d := a.DType; ext == ".npy" && (d == ir.BF16 || d == ir.I4 || d == ir.U4) {
						continue
					}
					t.Fatal(err)
				}
				_, c, err := ReadTensorFile(path)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(s.want, c.Any(), empty); diff != "" || a.DType != c.DType || !cmp.Equal(a.Shape, append([]int{}, c.Shape...)) {
					t.Errorf("%s (-want +got):\n%s", ext, diff)
				}
			}
		})
	}
}

// TestDecodeUnaligned decodes raw data at every alignment.
func TestDecodeUnaligned(t *testing.T) {
	buf := make([]byte, 32)
	for shift := range 8 {
		raw := buf[shift : shift+8]
		copy(raw, []byte{0, 0, 128, 63, 0, 0, 0, 192})
		got, err := DecodeTensor(&onnxpb.TensorProto{DataType: 1, Dims: []int64{2}, RawData: raw}, "")
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]float32{1, -2}, got.Any()); diff != "" {
			t.Errorf("shift %d: %s", shift, diff)
		}
	}
}

func TestDecodeTensorErrors(t *testing.T) {
	tests := []struct {
		tensor *onnxpb.TensorProto
		want   string
	}{
		{&onnxpb.TensorProto{DataType: 8}, "STRING is not supported"},
		{&onnxpb.TensorProto{DataType: 17}, "FLOAT8E4M3FN is not supported"},
		{&onnxpb.TensorProto{DataType: 99}, "99 is not supported"},
		{&onnxpb.TensorProto{DataType: 3, Dims: []int64{1}, Int32Data: []int32{128}}, "element 0: 128 does not fit i8"},
		{&onnxpb.TensorProto{DataType: 2, Dims: []int64{1}, Int32Data: []int32{-1}}, "-1 does not fit u8"},
		{&onnxpb.TensorProto{DataType: 12, Dims: []int64{1}, Uint64Data: []uint64{1 << 32}}, "does not fit u32"},
		{&onnxpb.TensorProto{DataType: 22, Dims: []int64{1}, Int32Data: []int32{256}}, "does not fit in a byte"},
		{&onnxpb.TensorProto{DataType: 22, Dims: []int64{3}, RawData: []byte{1}}, "needs 2 bytes, 1 are present"},
		{&onnxpb.TensorProto{DataType: 7, Dims: []int64{1}, Int32Data: []int32{1}}, "needs 1 elements, 0 are present"},
	}
	for _, test := range tests {
		if _, err := DecodeTensor(test.tensor, ""); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v: got %v, want an error with %q", test.tensor, err, test.want)
		}
	}
}

func TestExternalData(t *testing.T) {
	parent := t.TempDir()
	dir := filepath.Join(parent, "model")
	if err := os.MkdirAll(filepath.Join(dir, "sub"), 0o777); err != nil {
		t.Fatal(err)
	}
	data := []byte{9, 9, 0, 0, 128, 63, 0, 0, 0, 64}
	for _, f := range []string{"model/w.bin", "model/sub/w.bin", "secret.bin"} {
		if err := os.WriteFile(filepath.Join(parent, f), data, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	for link, target := range map[string]string{"out": "../secret.bin", "in": "w.bin", "updir": ".."} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Skipf("this file system has no symbolic links: %v", err)
		}
	}
	tensor := func(entries ...string) *onnxpb.TensorProto {
		p := &onnxpb.TensorProto{DataType: 1, Dims: []int64{2}, DataLocation: onnxpb.TensorProto_EXTERNAL}
		for i := 0; i < len(entries); i += 2 {
			p.ExternalData = append(p.ExternalData, &onnxpb.StringStringEntryProto{Key: entries[i], Value: entries[i+1]})
		}
		return p
	}
	for _, good := range []*onnxpb.TensorProto{
		tensor("location", "w.bin", "offset", "2", "length", "8"),
		tensor("location", "sub/w.bin", "offset", "2", "checksum", "whatever"),
		tensor("location", "in", "offset", "2"),
	} {
		got, err := DecodeTensor(good, dir)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]float32{1, 2}, got.Any()); diff != "" {
			t.Error(diff)
		}
	}
	huge := tensor("location", "w.bin")
	huge.Dims = []int64{1 << 15, 1 << 15}
	tests := []struct {
		tensor *onnxpb.TensorProto
		want   string
	}{
		{tensor(), "without a location"},
		{tensor("location", filepath.Join(dir, "w.bin")), "only files inside"},
		{tensor("location", "../secret.bin"), "only files inside"},
		{tensor("location", "sub/../../secret.bin"), "only files inside"},
		{tensor("location", "out"), "only files inside"},
		{tensor("location", "updir/secret.bin"), "only files inside"},
		{tensor("location", "sub"), "not a regular file"},
		{tensor("location", "absent"), "absent"},
		{tensor("location", "w.bin", "offset", "3"), "8 bytes from 3 on are needed, the file has 10"},
		{tensor("location", "w.bin", "offset", "9223372036854775807"), "are needed"},
		{tensor("location", "w.bin", "offset", "-1"), "negative"},
		{tensor("location", "w.bin", "offset", "two"), "not a number"},
		{tensor("location", "w.bin", "length", "4"), "need 8 bytes"},
		{huge, "the file has 10"},
	}
	for _, test := range tests {
		if _, err := DecodeTensor(test.tensor, dir); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v: got %v, want an error with %q", test.tensor.ExternalData, err, test.want)
		}
	}
	if _, err := DecodeTensor(tensor("location", "w.bin"), ""); err == nil {
		t.Error("external data was read without a folder")
	}
}

func TestReadTensorFileErrors(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, b []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, b, 0o666); err != nil {
			t.Fatal(err)
		}
		return path
	}
	pb, err := proto.Marshal(floats("x", []int64{3}, 1))
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		write("a.npy", []byte("nonsense")): "a.npy: npy: not a .npy file",
		write("b.pb", pb[:len(pb)-1]):      "b.pb: TensorProto.name: the data ends too early",
		write("c.pb", pb):                  "c.pb: shape [3] of f32 needs 3 elements",
		write("d.txt", nil):                "unknown tensor file extension",
		filepath.Join(dir, "nothing.npy"):  "nothing.npy",
	} {
		if _, _, err := ReadTensorFile(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want an error with %q", path, err, want)
		}
	}
}
