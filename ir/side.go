package ir

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"strings"
)

// Side holds the constants that the textual form names by hash, under the
// hexadecimal digest that stands after "sha256:". The digest covers element
// type, shape and elements.
type Side map[string]*Tensor

// sideMagic is the first line of a side file. Each constant follows as a line
// "f32[1024,10] sha256:…" and its elements, little endian.
const sideMagic = "situ-side 1"

// SideOf collects the constants of g that Print writes as hashes; the tensors
// are shared with g.
func SideOf(g *Graph) Side {
	s := Side{}
	for i := range g.Values {
		if c := g.Values[i].Const; c != nil && !c.described && c.Numel() > inlineElems {
			s[c.sum()] = c
		}
	}
	return s
}

// WriteSide writes the constants of g that Print writes as hashes, each once.
func WriteSide(w io.Writer, g *Graph) error {
	b := bufio.NewWriter(w)
	fmt.Fprintln(b, sideMagic)
	seen := map[string]bool{}
	for i := range g.Values {
		c := g.Values[i].Const
		if c == nil || c.described || c.Numel() <= inlineElems {
			continue
		}
		if sum := c.sum(); !seen[sum] {
			seen[sum] = true
			fmt.Fprintf(b, "%s sha256:%s\n", c.Type(), sum)
			c.writeData(b)
		}
	}
	return b.Flush()
}

// ReadSide reads what WriteSide wrote and checks every digest. Memory grows with
// the data that is there, not with the sizes it claims.
func ReadSide(r io.Reader) (Side, error) {
	b := bufio.NewReader(r)
	line, err := readLine(b)
	if err != nil || line != sideMagic {
		return nil, fmt.Errorf("not a side file: its first line is not %q", sideMagic)
	}
	s := Side{}
	for {
		line, err := readLine(b)
		if err == io.EOF {
			return s, nil
		}
		if err != nil {
			return nil, fmt.Errorf("side file, constant %d: %w", len(s), err)
		}
		head, sum, ok := strings.Cut(line, " sha256:")
		p := parser{text: head}
		t, err := p.typ()
		if err == nil {
			err = ValidType(t)
		}
		if err != nil || !ok || p.pos < len(head) || t.Quant != nil {
			return nil, fmt.Errorf("side file, constant %d: its header %q is not of the form f32[2,3] sha256:…", len(s), line)
		}
		c, err := readTensor(b, t)
		if err != nil {
			return nil, fmt.Errorf("side file, constant %s sha256:%s: %w", t, sum, err)
		}
		if got := c.sum(); got != sum {
			return nil, fmt.Errorf("side file, constant %s: its data has sha256:%s, want sha256:%s", t, got, sum)
		}
		s[sum] = c
	}
}

// readLine reads a short line without its newline; io.EOF means that there is
// nothing left.
func readLine(b *bufio.Reader) (string, error) {
	line, err := b.ReadSlice('\n')
	switch {
	case err == io.EOF && len(line) > 0:
		return "", io.ErrUnexpectedEOF
	case err != nil:
		return "", err
	}
	return string(bytes.TrimSuffix(line, []byte("\n"))), nil
}

// sum returns the hexadecimal digest of t's type and elements.
func (t *Tensor) sum() string {
	h := sha256.New()
	fmt.Fprintln(h, t.Type())
	t.writeData(h) // a hash does not fail
	return hex.EncodeToString(h.Sum(nil))
}

// writeData writes the elements, little endian, as held in memory. Errors are
// left to w, a bufio.Writer or a hash.
func (t *Tensor) writeData(w io.Writer) {
	switch s := t.data.(type) {
	case []float32:
		writeLE(w, s)
	case []float64:
		writeLE(w, s)
	case []uint16:
		writeLE(w, s)
	case []int8:
		writeLE(w, s)
	case []uint8:
		w.Write(s)
	case []int16:
		writeLE(w, s)
	case []int32:
		writeLE(w, s)
	case []uint32:
		writeLE(w, s)
	case []int64:
		writeLE(w, s)
	case []uint64:
		writeLE(w, s)
	}
}

// chunkElems is how many elements are converted at a time.
const chunkElems = 1 << 14

func writeLE[T Elem](w io.Writer, s []T) {
	var buf []byte
	for len(s) > 0 {
		n := min(len(s), chunkElems)
		buf, _ = binary.Append(buf[:0], binary.LittleEndian, s[:n]) // fails for unsized types only
		w.Write(buf)
		s = s[n:]
	}
}

// readTensor reads the elements of a tensor of type t, whose shape is valid.
func readTensor(r io.Reader, t Type) (*Tensor, error) {
	var data any
	var err error
	n := t.Numel()
	switch zeroData(t.DType, 0).(type) {
	case []float32:
		data, err = readLE[float32](r, n)
	case []float64:
		data, err = readLE[float64](r, n)
	case []uint16:
		data, err = readLE[uint16](r, n)
	case []int8:
		data, err = readLE[int8](r, n)
	case []uint8:
		data, err = readLE[uint8](r, n)
	case []int16:
		data, err = readLE[int16](r, n)
	case []int32:
		data, err = readLE[int32](r, n)
	case []uint32:
		data, err = readLE[uint32](r, n)
	case []int64:
		data, err = readLE[int64](r, n)
	case []uint64:
		data, err = readLE[uint64](r, n)
	}
	if err != nil {
		return nil, fmt.Errorf("its data ends early: %w", err)
	}
	return &Tensor{DType: t.DType, Shape: t.Shape, data: data}, nil
}

func readLE[T Elem](r io.Reader, n int) ([]T, error) {
	var out []T
	chunk := make([]T, min(n, chunkElems))
	for len(out) < n {
		part := chunk[:min(n-len(out), chunkElems)]
		if err := binary.Read(r, binary.LittleEndian, part); err != nil {
			return nil, err
		}
		out = append(out, part...)
	}
	return out, nil
}
