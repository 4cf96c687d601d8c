package onnx

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"situ/frontend/onnx/onnxpb"
)

// hostileHeap bounds what reading and importing any file of the corpus may
// allocate in all, freed or not.
const hostileHeap = 256 << 20

// TestHostileFiles reads files that are wrong on purpose, one of each known
// class, from a folder with a secret beside it. Each must give an error that says
// what is wrong, without much memory; one that hangs is stopped by the test's
// deadline.
func TestHostileFiles(t *testing.T) {
	parent := t.TempDir()
	dir := filepath.Join(parent, "model")
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.MkdirAll(filepath.Join(dir, "sub"), 0o777))
	must(os.MkdirAll(filepath.Join(parent, "outside"), 0o777))
	for _, f := range []string{"outside/secret.bin", "model/w.bin", "model/sub/w.bin"} {
		must(os.WriteFile(filepath.Join(parent, f), make([]byte, 64), 0o666))
	}
	for link, target := range map[string]string{
		"file": "../outside/secret.bin", "folder": "../outside", "chain": "file", "loop": "loop", "absolute": filepath.Join(parent, "outside"),
	} {
		must(os.Symlink(target, filepath.Join(dir, link)))
	}
	must(syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o666))
	sparse, err := os.Create(filepath.Join(dir, "sparse.bin"))
	must(err)
	must(sparse.Truncate(1 << 30))
	must(sparse.Close())

	with := func(change func(g *onnxpb.GraphProto)) []byte {
		m := chain()
		change(m.Graph)
		return encode(t, m)
	}
	external := func(entries ...string) []byte {
		return with(func(g *onnxpb.GraphProto) {
			p := &onnxpb.TensorProto{Name: "w", DataType: 1, Dims: []int64{2}, DataLocation: onnxpb.TensorProto_EXTERNAL}
			for i := 0; i < len(entries); i += 2 {
				p.ExternalData = append(p.ExternalData, &onnxpb.StringStringEntryProto{Key: entries[i], Value: entries[i+1]})
			}
			g.Initializer = append(g.Initializer, p)
		})
	}
	nested := func(depth int) []byte {
		g := &onnxpb.GraphProto{Node: []*onnxpb.NodeProto{node("Relu(x) y0")}, Output: []*onnxpb.ValueInfoProto{valueInfo("y0")}}
		for i := 1; i <= depth; i++ {
			y := fmt.Sprintf("y%d", i)
			branch := func(name string) *onnxpb.AttributeProto {
				return &onnxpb.AttributeProto{Name: name, Type: onnxpb.AttributeProto_GRAPH, G: g}
			}
			g = &onnxpb.GraphProto{Node: []*onnxpb.NodeProto{node("If(c) "+y, branch("then_branch"), branch("else_branch"))}, Output: []*onnxpb.ValueInfoProto{valueInfo(y)}}
			if i > 3 { // one branch only: two would double the file each time
				g.Node[0].Attribute = g.Node[0].Attribute[:1]
			}
		}
		return with(func(c *onnxpb.GraphProto) {
			c.Initializer = []*onnxpb.TensorProto{{Name: "c", DataType: 9, Int32Data: []int32{1}}}
			c.Node, c.Output[0].Name = g.Node, g.Output[0].Name
		})
	}
	raw := func(name string, d onnxpb.TensorProto_DataType, dims []int64, data []byte) *onnxpb.TensorProto {
		return &onnxpb.TensorProto{Name: name, DataType: int32(d), Dims: dims, RawData: data}
	}
	weights := func(w *onnxpb.TensorProto) []byte {
		return with(func(g *onnxpb.GraphProto) { g.Initializer = []*onnxpb.TensorProto{w} })
	}
	int64s := func(name string, v ...int64) *onnxpb.TensorProto {
		return &onnxpb.TensorProto{Name: name, DataType: 7, Dims: []int64{int64(len(v))}, Int64Data: v}
	}
	long := make([]int64, 1<<20)

	tests := []struct {
		name string
		file []byte
		want string
	}{
		// Files that external data must not reach.
		{"above the folder", external("location", "../outside/secret.bin"), "only files inside the model's folder"},
		{"above, by way of a folder", external("location", "sub/../../outside/secret.bin"), "only files inside the model's folder"},
		{"absolute path", external("location", filepath.Join(parent, "outside/secret.bin")), "only files inside the model's folder"},
		{"device", external("location", "/dev/zero"), "only files inside the model's folder"},
		{"link to a file", external("location", "file"), "only files inside the model's folder"},
		{"link to a link", external("location", "chain"), "only files inside the model's folder"},
		{"link to a folder", external("location", "folder/secret.bin"), "only files inside the model's folder"},
		{"absolute link to a folder", external("location", "absolute/secret.bin"), "only files inside the model's folder"},
		{"link to itself", external("location", "loop"), "only files inside the model's folder"},
		{"folder", external("location", "sub"), "not a regular file"},
		{"the model's folder", external("location", "."), "not a regular file"},
		{"pipe that nobody writes", external("location", "pipe"), "not a regular file"},
		{"byte 0 in a name", external("location", "w.bin\x00.txt"), `"w.bin\x00.txt"`},
		{"empty name", external("location", ""), "without a location"},
		{"no name", external("offset", "0"), "without a location"},
		{"absent file", external("location", "absent.bin"), "absent.bin"},

		// Offsets and lengths.
		{"negative offset", external("location", "w.bin", "offset", "-8"), "negative offset"},
		{"negative length", external("location", "w.bin", "length", "-8"), "negative offset or length"},
		{"offset whose end wraps", external("location", "w.bin", "offset", "9223372036854775804"), "8 bytes from 9223372036854775804 on are needed"},
		{"offset beyond int64", external("location", "w.bin", "offset", "18446744073709551616"), "is not a number"},
		{"offset in hexadecimal", external("location", "w.bin", "offset", "0x8"), "is not a number"},
		{"end beyond the file", external("location", "w.bin", "offset", "60"), "the file has 64"},
		{"another length", external("location", "w.bin", "length", "64"), "shape and type need 8 bytes"},
		{"length beyond int64", external("location", "w.bin", "length", "99999999999999999999"), "is not a number"},

		// Shapes.
		{"negative dimension", weights(floats("w", []int64{-2}, 1, 2)), "dimension -2"},
		{"two negative dimensions", weights(floats("w", []int64{-1, -2}, 1, 2)), "dimension -1"},
		{"product beyond int64", weights(floats("w", []int64{1 << 40, 1 << 40}, 1)), "dimension 1099511627776"},
		{"product that wraps to 2", weights(floats("w", []int64{1 << 31, 1 << 31, 4, 2}, 1, 2)), "dimension 2147483648"},
		{"elements without end", weights(floats("w", []int64{1 << 16, 1 << 16}, 1)), "more than 2147483648 elements"},
		{"a million dimensions", weights(floats("w", long, 1)), "1048576 dimensions"},
		{"zero hides a huge dimension", weights(floats("w", []int64{0, 1 << 62})), "dimension 4611686018427387904"},
		{"input beyond all memory", with(func(g *onnxpb.GraphProto) { g.Input[0] = valueInfo("x", 1<<40, 1<<40) }), "more than 2147483648 elements"},

		// Data that does not fit the shape.
		{"too few elements", weights(floats("w", []int64{3}, 1, 2)), "needs 3 elements, 2 are present"},
		{"too many elements", weights(floats("w", []int64{1}, 1, 2)), "needs 1 elements, 2 are present"},
		{"raw data too short", weights(raw("w", onnxpb.TensorProto_FLOAT, []int64{2}, make([]byte, 7))), "needs 8 bytes, 7 are present"},
		{"data in another type's field", weights(&onnxpb.TensorProto{Name: "w", DataType: 1, Dims: []int64{2}, DoubleData: []float64{1, 2}}), "needs 2 elements, 0 are present"},
		{"nibbles of another number", weights(raw("w", onnxpb.TensorProto_INT4, []int64{3}, make([]byte, 3))), "needs 2 bytes, 3 are present"},
		{"value that does not fit", weights(&onnxpb.TensorProto{Name: "w", DataType: int32(onnxpb.TensorProto_INT8), Dims: []int64{1}, Int32Data: []int32{300}}), "300 does not fit i8"},
		{"unknown element type", weights(&onnxpb.TensorProto{Name: "w", DataType: 99, Dims: []int64{1}, RawData: []byte{1}}), "element type 99"},

		// Graphs.
		{"cycle", with(func(g *onnxpb.GraphProto) { g.Node = []*onnxpb.NodeProto{node("Relu(z) y"), node("Neg(y) z")} }), "cyclic"},
		{"long cycle", with(func(g *onnxpb.GraphProto) {
			g.Node = nil
			for i := range 1 << 16 {
				g.Node = append(g.Node, node(fmt.Sprintf("Relu(v%d) v%d", (i+1)%(1<<16), i)))
			}
			g.Output[0].Name = "v0"
		}), "65528 more"},
		{"value defined by two nodes", with(func(g *onnxpb.GraphProto) { g.Node = append(g.Node, node("Neg(x) y")) }), "defines already"},
		{"one node defines a value twice", with(func(g *onnxpb.GraphProto) { g.Node[0].Output = []string{"y", "y"} }), "defines already"},
		{"input twice", with(func(g *onnxpb.GraphProto) { g.Input = append(g.Input, g.Input[0]) }), "defined twice"},
		{"initialiser twice", with(func(g *onnxpb.GraphProto) {
			g.Initializer = []*onnxpb.TensorProto{floats("w", nil, 1), floats("w", nil, 2)}
		}), "defined twice"},
		{"graphs in graphs", nested(17), "nested more than 16 deep"},
		{"graphs in graphs without end", nested(200), "nested more than"},
		{"attribute twice", with(func(g *onnxpb.GraphProto) {
			g.Node = []*onnxpb.NodeProto{node("Softmax(x) y", intAttr("axis", 0), intAttr("axis", 1))}
		}), "attribute axis is given twice"},
		{"a quarter million attributes", with(func(g *onnxpb.GraphProto) {
			for i := range 1 << 18 {
				g.Node[0].Attribute = append(g.Node[0].Attribute, intAttr(fmt.Sprint(i), 1))
			}
		}), "unknown attribute"},
		{"a permutation of a million", with(func(g *onnxpb.GraphProto) {
			g.Node = []*onnxpb.NodeProto{node("Transpose(x) y", intsAttr("perm", long...))}
		}), `"y" (Transpose): perm`},
		{"axes without end", with(func(g *onnxpb.GraphProto) {
			g.Node = []*onnxpb.NodeProto{node("ReduceSum(x, a) y")}
			g.Initializer = []*onnxpb.TensorProto{int64s("a", long...)}
		}), "ax"},
		{"a million operands", with(func(g *onnxpb.GraphProto) {
			g.Node = []*onnxpb.NodeProto{node("Concat(x) y", intAttr("axis", 9))}
			for range 1 << 20 {
				g.Node[0].Input = append(g.Node[0].Input, "x")
			}
		}), "axis 9"},

		// Small files that ask for much.
		{"doubling", with(func(g *onnxpb.GraphProto) {
			g.Node = []*onnxpb.NodeProto{node("Concat(x, x) d0", intAttr("axis", 1))}
			for i := range 40 {
				g.Node = append(g.Node, node(fmt.Sprintf("Concat(d%d, d%d) d%d", i, i, i+1), intAttr("axis", 1)))
			}
			g.Output[0].Name = "d40"
		}), "exceeds 2^40"},
		{"doubling of a constant", with(func(g *onnxpb.GraphProto) {
			g.Initializer = []*onnxpb.TensorProto{floats("d", []int64{1}, 1)}
			g.Node = []*onnxpb.NodeProto{node("Concat(d, d) d0", intAttr("axis", 0))}
			for i := range 40 {
				g.Node = append(g.Node, node(fmt.Sprintf("Concat(d%d, d%d) d%d", i, i, i+1), intAttr("axis", 0)))
			}
			g.Output[0].Name = "d40"
		}), "exceeds 2^40"},
		{"expansion", with(func(g *onnxpb.GraphProto) {
			g.Initializer = []*onnxpb.TensorProto{int64s("s", 1<<31, 1<<31, 4)}
			g.Node = []*onnxpb.NodeProto{node("Expand(x, s) y")}
		}), "dimension"},
		{"tiles", with(func(g *onnxpb.GraphProto) {
			g.Initializer = []*onnxpb.TensorProto{int64s("s", 1<<40, 1<<40)}
			g.Node = []*onnxpb.NodeProto{node("Tile(x, s) y")}
		}), `"y" (Tile)`},
		{"packed weights that are not there", with(func(g *onnxpb.GraphProto) {
			n := node("MatMulNBits(x, b, s) y", intAttr("K", 4), intAttr("N", 1<<31-1), intAttr("block_size", 1<<30), intAttr("bits", 8))
			n.Domain = contribDomain
			g.Node = []*onnxpb.NodeProto{n}
			g.Initializer = []*onnxpb.TensorProto{raw("b", onnxpb.TensorProto_UINT8, []int64{16}, make([]byte, 16)), floats("s", []int64{1}, 1)}
		}), "B is u8[16], want u8 [2147483647,1,1073741824]"},
		{"padding", with(func(g *onnxpb.GraphProto) {
			g.Initializer = []*onnxpb.TensorProto{int64s("p", 1<<40, 1<<40, 0, 0)}
			g.Node = []*onnxpb.NodeProto{node("Pad(x, p) y")}
		}), `"y" (Pad)`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			path := filepath.Join(dir, "model.onnx")
			must(os.WriteFile(path, test.file, 0o666))
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			m, err := Load(path)
			if err == nil {
				_, err = Import(m, ImportOptions{})
			}
			runtime.ReadMemStats(&after)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				text := fmt.Sprint(err)
				t.Errorf("got %s, want an error with %q", text[:min(len(text), 500)], test.want)
			} else if !strings.Contains(err.Error(), "model.onnx") {
				t.Errorf("the error does not name the file: %v", err)
			}
			if err != nil && len(err.Error()) > 1<<16 {
				t.Errorf("an error of %d bytes", len(err.Error()))
			}
			if n := after.TotalAlloc - before.TotalAlloc; n > hostileHeap {
				t.Errorf("allocated %d MB for a file of %d kB", n>>20, len(test.file)>>10)
			}
		})
	}

	t.Run("a large file claimed by many", func(t *testing.T) {
		file := with(func(g *onnxpb.GraphProto) {
			for i := range 1000 {
				g.Initializer = append(g.Initializer, &onnxpb.TensorProto{Name: fmt.Sprint("w", i), DataType: 2, Dims: []int64{1 << 30},
					DataLocation: onnxpb.TensorProto_EXTERNAL, ExternalData: []*onnxpb.StringStringEntryProto{{Key: "location", Value: "sparse.bin"}}})
			}
		})
		path := filepath.Join(dir, "model.onnx")
		must(os.WriteFile(path, file, 0o666))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		m, err := Load(path)
		must(err)
		_, err = Import(m, ImportOptions{})
		must(err)
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; n > hostileHeap {
			t.Errorf("allocated %d MB for tensors of one file", n>>20)
		}
	})
}

// TestOddEncodings reads what the wire format allows and few writers produce.
func TestOddEncodings(t *testing.T) {
	m := chain()
	m.Graph.Initializer = []*onnxpb.TensorProto{floats("w", []int64{3}, 1, 2, 3)}
	want, err := Parse(encode(t, m), "")
	if err != nil {
		t.Fatal(err)
	}
	float := func(bits uint32) []byte { return protowire.AppendFixed32(nil, bits) }
	packed := func(num protowire.Number, v []byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(nil, num, protowire.BytesType), v)
	}
	one := func(bits uint32) []byte {
		return append(protowire.AppendTag(nil, 4, protowire.Fixed32Type), float(bits)...)
	}
	const f1, f2, f3 = 0x3f800000, 0x40000000, 0x40400000
	dims := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), 3)
	head := func(rest ...[]byte) []byte {
		b := append(dims, protowire.AppendVarint(protowire.AppendTag(nil, 2, protowire.VarintType), 1)...)
		b = append(b, packed(8, []byte("w"))...)
		for _, r := range rest {
			b = append(b, r...)
		}
		return b
	}
	for _, tt := range []struct {
		name   string
		tensor []byte
	}{
		{"packed", head(packed(4, append(append(float(f1), float(f2)...), float(f3)...)))},
		{"unpacked", head(one(f1), one(f2), one(f3))},
		{"packed in pieces", head(packed(4, float(f1)), packed(4, nil), packed(4, append(float(f2), float(f3)...)))},
		{"both", head(one(f1), packed(4, append(float(f2), float(f3)...)))},
		{"dimensions packed", append(packed(1, protowire.AppendVarint(nil, 3)), head(one(f1), one(f2), one(f3))[len(dims):]...)},
		{"varints longer than needed", append([]byte{1 << 3, 0x83, 0x80, 0x00}, head(one(f1), one(f2), one(f3))[len(dims):]...)},
		{"unknown fields", head(one(f1), packed(99, []byte("?")), one(f2), one(f3), protowire.AppendVarint(protowire.AppendTag(nil, 98, protowire.VarintType), 7))},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bare := proto.Clone(m).(*onnxpb.ModelProto)
			bare.Graph.Initializer = nil
			graph := append(encode(t, bare.Graph), packed(graphInitializer, tt.tensor)...)
			bare.Graph = nil
			got, err := Parse(append(encode(t, bare), packed(modelGraph, graph)...), "")
			if err != nil {
				t.Fatal(err)
			}
			x, err := DecodeTensor(got.Proto.Graph.Initializer[0], "")
			if err != nil {
				t.Fatal(err)
			}
			y, err := DecodeTensor(want.Proto.Graph.Initializer[0], "")
			if err != nil {
				t.Fatal(err)
			}
			if string(rawBytes(x)) != string(rawBytes(y)) {
				t.Errorf("elements %v, want %v", x.Any(), y.Any())
			}
		})
	}
	t.Run("graph in two pieces", func(t *testing.T) {
		// A decoder merges the pieces of a message that occurs twice.
		whole := proto.Clone(m).(*onnxpb.ModelProto)
		first := proto.Clone(whole.Graph).(*onnxpb.GraphProto)
		second := &onnxpb.GraphProto{Node: first.Node}
		first.Node = nil
		whole.Graph = nil
		b := append(encode(t, whole), packed(modelGraph, encode(t, first))...)
		got, err := Parse(append(b, packed(modelGraph, encode(t, second))...), "")
		if err != nil {
			t.Fatal(err)
		}
		if !proto.Equal(got.Proto.Graph, want.Proto.Graph) {
			t.Error("the pieces were not merged")
		}
	})
}
