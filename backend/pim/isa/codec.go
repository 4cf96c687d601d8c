package isa

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
)

// FormatVersion is the version of the .pim container that Encode writes.
const FormatVersion = 4

// ISAVersion is the version of the instruction table. It grows whenever an
// existing opcode's number or operand list changes; a test holds the table to it.
const ISAVersion = 6

// The ways in which a file can be no program for this build or this machine.
// Errors of Decode and CheckArch wrap one of them.
var (
	ErrMagic     = errors.New("not a .pim program")
	ErrVersion   = errors.New("unsupported .pim format version")
	ErrISA       = errors.New("program for another version of the instruction set")
	ErrTruncated = errors.New("program file is truncated")
	ErrChecksum  = errors.New("program file is corrupt: checksum mismatch")
	ErrCorrupt   = errors.New("program file is malformed")
	ErrArch      = errors.New("program for another architecture")
)

// The container, little endian:
//
//	0   magic          8 bytes
//	8   format version uint32
//	12  ISA version    uint32
//	16  fingerprint    32 bytes, of the architecture
//	48  file length    uint64
//	56  sections       3 × {offset, length uint64, crc32c uint32}: meta, code, constants
//	116 checksum       uint32, crc32c of bytes 0 to 115
//	120 meta, code, constants
//
// Meta and code are sequences of varints (zig-zag where a value may be
// negative), with strings as length and bytes. An address operand is coded as
// immediate·16 + register, so that small addresses take few bytes.
const (
	magic      = "SITUPIM\n"
	headerSize = 120

	offFormat      = 8
	offISA         = 12
	offFingerprint = 16
	offLength      = 48
	offSections    = 56
	offChecksum    = 116
)

const (
	secMeta = iota
	secCode
	secConsts
	numSections
)

const sectionSize = 8 + 8 + 4

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// CheckArch returns an error wrapping ErrArch unless the program was placed for
// the architecture with the given name and fingerprint.
func (p *Program) CheckArch(name string, fingerprint [32]byte) error {
	switch {
	case p.Fingerprint == fingerprint:
		return nil
	case p.Arch == name:
		return fmt.Errorf("%w: it was compiled for %s with other figures (fingerprint %x…, now %x…); compile the model again",
			ErrArch, p.Arch, p.Fingerprint[:4], fingerprint[:4])
	}
	return fmt.Errorf("%w: it was compiled for %s, not %s; compile the model for %s", ErrArch, p.Arch, name, name)
}

// Encode returns the program as a .pim file. The program must be valid; the
// error is that of Validate.
func Encode(p *Program) ([]byte, error) {
	if err := Validate(p); err != nil {
		return nil, err
	}
	meta, code := encodeMeta(p), encodeCode(p)
	out := make([]byte, headerSize, headerSize+len(meta)+len(code)+len(p.Consts))
	copy(out, magic)
	le := binary.LittleEndian
	le.PutUint32(out[offFormat:], FormatVersion)
	le.PutUint32(out[offISA:], ISAVersion)
	copy(out[offFingerprint:], p.Fingerprint[:])
	le.PutUint64(out[offLength:], uint64(cap(out)))
	for i, sec := range [numSections][]byte{meta, code, p.Consts} {
		entry := out[offSections+i*sectionSize:]
		le.PutUint64(entry, uint64(len(out)))
		le.PutUint64(entry[8:], uint64(len(sec)))
		le.PutUint32(entry[16:], crc32.Checksum(sec, castagnoli))
		out = append(out, sec...)
	}
	le.PutUint32(out[offChecksum:], crc32.Checksum(out[:offChecksum], castagnoli))
	return out, nil
}

// Decode reads a .pim file. The program's constants share memory with data.
// Errors wrap ErrMagic, ErrVersion, ErrISA, ErrTruncated, ErrChecksum,
// ErrCorrupt or ErrInvalid. Memory used is bounded by a small multiple of
// len(data), whatever the file claims.
func Decode(data []byte) (*Program, error) {
	sections, err := splitFile(data)
	if err != nil {
		return nil, err
	}
	p := &Program{Consts: sections[secConsts]}
	copy(p.Fingerprint[:], data[offFingerprint:])
	r := reader{data: sections[secMeta]}
	decodeMeta(&r, p)
	if err := r.finish("meta"); err != nil {
		return nil, err
	}
	r = reader{data: sections[secCode]}
	decodeCode(&r, p)
	if err := r.finish("code"); err != nil {
		return nil, err
	}
	if err := Validate(p); err != nil {
		return nil, err
	}
	return p, nil
}

// splitFile checks the header and the checksums and returns the sections.
func splitFile(data []byte) (sections [numSections][]byte, err error) {
	if n := min(len(data), len(magic)); string(data[:n]) != magic[:n] {
		return sections, ErrMagic
	}
	if len(data) < offFingerprint {
		return sections, fmt.Errorf("%w: %d bytes, the header alone has %d", ErrTruncated, len(data), headerSize)
	}
	le := binary.LittleEndian
	if v := le.Uint32(data[offFormat:]); v != FormatVersion {
		return sections, fmt.Errorf("%w %d; this build reads version %d", ErrVersion, v, FormatVersion)
	}
	if v := le.Uint32(data[offISA:]); v != ISAVersion {
		return sections, fmt.Errorf("%w: it has version %d, this build executes version %d; compile the model again", ErrISA, v, ISAVersion)
	}
	if len(data) < headerSize {
		return sections, fmt.Errorf("%w: %d bytes, the header alone has %d", ErrTruncated, len(data), headerSize)
	}
	if le.Uint32(data[offChecksum:]) != crc32.Checksum(data[:offChecksum], castagnoli) {
		return sections, fmt.Errorf("%w in the header", ErrChecksum)
	}
	if n := le.Uint64(data[offLength:]); n != uint64(len(data)) {
		return sections, fmt.Errorf("%w: it should have %d bytes and has %d", ErrTruncated, n, len(data))
	}
	for i := range sections {
		entry := data[offSections+i*sectionSize:]
		off, n := le.Uint64(entry), le.Uint64(entry[8:])
		if off < headerSize || off > uint64(len(data)) || n > uint64(len(data))-off {
			return sections, fmt.Errorf("%w: section %d lies outside the file", ErrCorrupt, i)
		}
		sections[i] = data[off : off+n : off+n]
		if le.Uint32(entry[16:]) != crc32.Checksum(sections[i], castagnoli) {
			return sections, fmt.Errorf("%w in section %d", ErrChecksum, i)
		}
	}
	return sections, nil
}

// writer appends values to a section.
type writer struct{ data []byte }

func (w *writer) uint(x uint64) { w.data = binary.AppendUvarint(w.data, x) }
func (w *writer) int(x int64)   { w.data = binary.AppendVarint(w.data, x) }
func (w *writer) f32(x float32) { w.uint(uint64(math.Float32bits(x))) }
func (w *writer) bool(b bool) {
	if b {
		w.uint(1)
	} else {
		w.uint(0)
	}
}
func (w *writer) string(s string) { w.uint(uint64(len(s))); w.data = append(w.data, s...) }

// reader takes values from a section. After the first fault it yields zeros and
// keeps the error.
type reader struct {
	data []byte
	err  error
}

func (r *reader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
	r.data = nil
}

func (r *reader) uint() uint64 {
	x, n := binary.Uvarint(r.data)
	if n <= 0 {
		r.fail(errors.New("a number is cut off or too long"))
		return 0
	}
	r.data = r.data[n:]
	return x
}

func (r *reader) int() int64 {
	x := r.uint()
	return int64(x>>1) ^ -int64(x&1)
}

func (r *reader) f32() float32 { return math.Float32frombits(uint32(r.uint())) }

func (r *reader) bool() bool {
	x := r.uint()
	if x > 1 {
		r.fail(fmt.Errorf("%d is neither 0 nor 1", x))
	}
	return x == 1
}

func (r *reader) string() string {
	n := r.count()
	if r.err != nil {
		return ""
	}
	s := string(r.data[:n])
	r.data = r.data[n:]
	return s
}

// count reads the number of items that follow, each of at least one byte.
func (r *reader) count() int {
	n := r.uint()
	if n > uint64(len(r.data)) {
		r.fail(fmt.Errorf("%d items are announced, %d bytes are left", n, len(r.data)))
		return 0
	}
	return int(n)
}

func (r *reader) finish(section string) error {
	if r.err == nil && len(r.data) > 0 {
		r.err = fmt.Errorf("%d bytes are left over", len(r.data))
	}
	if r.err != nil {
		return fmt.Errorf("%w: section %s: %w", ErrCorrupt, section, r.err)
	}
	return nil
}
