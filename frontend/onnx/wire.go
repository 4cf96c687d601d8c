package onnx

import (
	"errors"
	"fmt"
	"io"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"situ/frontend/onnx/onnxpb"
)

// Limits on what a file may contain. They are far above real models and keep
// what decoding allocates within a small multiple of the file's size.
const (
	maxDepth  = 64      // nested messages; a subgraph costs three
	maxFields = 4 << 20 // fields of all messages, packed arrays counting once
)

// unmarshal decodes a message after checking the wire format against the
// message's description, so that the error names the field at fault.
func unmarshal(b []byte, m proto.Message) error {
	s := scanner{}
	if err := s.message(b, m.ProtoReflect().Descriptor(), 0); err != nil {
		return err
	}
	return proto.UnmarshalOptions{RecursionLimit: 4 * maxDepth}.Unmarshal(b, m)
}

// unmarshalModel decodes a model. The raw data of large initialisers is not
// copied: it shares b's memory.
func unmarshalModel(b []byte) (*onnxpb.ModelProto, error) {
	m := &onnxpb.ModelProto{}
	s := scanner{}
	if err := s.message(b, m.ProtoReflect().Descriptor(), 0); err != nil {
		return nil, err
	}
	lean, raw := hoist(b)
	if err := (proto.UnmarshalOptions{RecursionLimit: 4 * maxDepth}).Unmarshal(lean, m); err != nil {
		return nil, err
	}
	for i, data := range raw {
		m.Graph.Initializer[i].RawData = data
	}
	return m, nil
}

// scanner walks over encoded messages without allocating, checking that they
// are well formed and within the limits.
type scanner struct{ fields int }

func (s *scanner) message(b []byte, d protoreflect.MessageDescriptor, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("%s: messages nested more than %d deep", d.Name(), maxDepth)
	}
	for len(b) > 0 {
		if s.fields++; s.fields > maxFields {
			return fmt.Errorf("%s: more than %d fields in the file", d.Name(), maxFields)
		}
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return wireError(d, nil, n)
		}
		b = b[n:]
		fd := d.Fields().ByNumber(num)
		if fd == nil || typ != protowire.BytesType || fd.Message() == nil {
			if n = protowire.ConsumeFieldValue(num, typ, b); n < 0 {
				return wireError(d, fd, n)
			}
			b = b[n:]
			continue
		}
		v, n := protowire.ConsumeBytes(b)
		if n < 0 {
			return wireError(d, fd, n)
		}
		b = b[n:]
		if err := s.message(v, fd.Message(), depth+1); err != nil {
			return err
		}
	}
	return nil
}

func wireError(d protoreflect.MessageDescriptor, fd protoreflect.FieldDescriptor, n int) error {
	err := protowire.ParseError(n)
	where := string(d.Name())
	if fd != nil {
		where += "." + string(fd.Name())
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%s: the data ends too early (truncated, or not an ONNX file)", where)
	}
	return fmt.Errorf("not an ONNX file, or a damaged one: %s: malformed protobuf: %w", where, err)
}

// Field numbers on the way to a model's weights.
const (
	modelGraph       = 7
	graphInitializer = 5
	tensorRawData    = 9
	hoistMin         = 4096 // smaller raw data is left in place
)

// hoist returns the encoded model without the raw data of its large
// initialisers, and that data by initialiser index. b must be well formed.
func hoist(b []byte) (lean []byte, raw map[int][]byte) {
	raw = map[int][]byte{}
	index := 0
	return rewrite(b, modelGraph, func(graph []byte) []byte {
		return rewrite(graph, graphInitializer, func(tensor []byte) []byte {
			i := index
			index++
			if len(tensor) < hoistMin {
				return tensor
			}
			return rewrite(tensor, tensorRawData, func(data []byte) []byte {
				raw[i] = data // the last one counts, as in any decoder
				return nil
			})
		})
	}), raw
}

// rewrite copies an encoded message, replacing each length-delimited field num.
func rewrite(b []byte, num protowire.Number, replace func([]byte) []byte) []byte {
	var out []byte
	for len(b) > 0 {
		n, typ, tag := protowire.ConsumeTag(b)
		if n == num && typ == protowire.BytesType {
			v, size := protowire.ConsumeBytes(b[tag:])
			out = append(out, b[:tag]...)
			out = protowire.AppendBytes(out, replace(v))
			b = b[tag+size:]
			continue
		}
		size := tag + protowire.ConsumeFieldValue(n, typ, b[tag:])
		out = append(out, b[:size]...)
		b = b[size:]
	}
	return out
}
