package npy

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func file(major byte, header string, data ...byte) []byte {
	b := append([]byte(magic), major, 0)
	if major == 1 {
		b = binary.LittleEndian.AppendUint16(b, uint16(len(header)))
	} else {
		b = binary.LittleEndian.AppendUint32(b, uint32(len(header)))
	}
	return append(append(b, header...), data...)
}

func TestDecode(t *testing.T) {
	tests := []struct {
		name string
		file []byte
		want *Array
	}{
		{"row major", file(1, "{'descr': '|u1', 'fortran_order': False, 'shape': (2, 3), }\n", 1, 2, 3, 4, 5, 6),
			&Array{'u', 1, []int{2, 3}, []byte{1, 2, 3, 4, 5, 6}}},
		{"column major", file(2, "{'descr': '|i1', 'fortran_order': True, 'shape': (2, 3)}", 1, 4, 2, 5, 3, 6),
			&Array{'i', 1, []int{2, 3}, []byte{1, 2, 3, 4, 5, 6}}},
		{"big endian, other key order", file(3, "{\"shape\": (2,), 'fortran_order':False,'descr':'>u2'}", 1, 2, 3, 4),
			&Array{'u', 2, []int{2}, []byte{2, 1, 4, 3}}},
		{"scalar", file(1, "{'descr': '<f4', 'fortran_order': False, 'shape': ()}", 0, 0, 128, 63),
			&Array{'f', 4, []int{}, []byte{0, 0, 128, 63}}},
		{"empty", file(1, "{'descr': '<f8', 'fortran_order': True, 'shape': (4611686018427387904, 0, 9)}"),
			&Array{'f', 8, []int{1 << 62, 0, 9}, []byte{}}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := Decode(test.file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			b, err := Encode(got)
			if err != nil {
				t.Fatal(err)
			}
			again, err := Decode(b)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(got, again); diff != "" {
				t.Errorf("round trip (-want +got):\n%s", diff)
			}
		})
	}
}

// TestEncodeLayout pins the bytes that NumPy itself writes for this array.
func TestEncodeLayout(t *testing.T) {
	b, err := Encode(&Array{'f', 4, []int{2}, make([]byte, 8)})
	if err != nil {
		t.Fatal(err)
	}
	want := "\x93NUMPY\x01\x00\x76\x00{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }" +
		strings.Repeat(" ", 60) + "\n" + strings.Repeat("\x00", 8)
	if !bytes.Equal(b, []byte(want)) {
		t.Errorf("got  %q\nwant %q", b, want)
	}
}

func TestDecodeErrors(t *testing.T) {
	tests := []struct {
		name string
		file []byte
		want string
	}{
		{"empty", nil, "not a .npy file"},
		{"zip", []byte("PK\x03\x04aaaaaaaaaaaa"), "not a .npy file"},
		{"version", file(9, "{}"), "format version 9"},
		{"header longer than file", []byte("\x93NUMPY\x02\x00\xff\xff\xff\xff"), "truncated header"},
		{"no dictionary", file(1, "hello"), "expected {"},
		{"missing key", file(1, "{'descr': '<f4', 'shape': (1,)}"), `lacks the key "fortran_order"`},
		{"double key", file(1, "{'descr': '<f4', 'descr': '<f4'}"), "twice"},
		{"object array", file(1, "{'descr': '|O', "), "not a plain number"},
		{"structured", file(1, "{'descr': [('a', '<f4')], "), "expected a quoted element type"},
		{"complex", file(1, "{'descr': '<c8', "), "not supported"},
		{"gigabytes from a small file", file(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (1000000, 1000000)}"), "needs 4000000000000 bytes"},
		{"overflow", file(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 8)}"), "too large"},
		{"dimension out of range", file(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}"), "expected a dimension"},
		{"negative", file(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}"), "expected a dimension"},
		{"unterminated", file(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (1"), "expected a comma"},
		{"rank", file(1, "{'shape': ("+strings.Repeat("1,", 65)+")"), "more than 64 dimensions"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := Decode(test.file)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want an error with %q", err, test.want)
			}
		})
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(file(1, "{'descr': '<f4', 'fortran_order': True, 'shape': (1, 1), }", 1, 2, 3, 4))
	f.Add(file(2, "{'descr': '>u2', 'fortran_order': False, 'shape': (0,), }"))
	f.Fuzz(func(t *testing.T, b []byte) {
		a, err := Decode(b)
		if err != nil {
			return
		}
		enc, err := Encode(a)
		if err != nil {
			t.Fatalf("decoded %v but cannot encode it: %v", a, err)
		}
		again, err := Decode(enc)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(a, again); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}
