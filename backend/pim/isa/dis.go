package isa

import (
	"bufio"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

// constLine is how many bytes of constants a line of text holds.
const constLine = 48

// Disassemble writes the program as text that Assemble reads back into an equal
// program. Lines starting with a dot describe the program; the others are
// instructions, `mnemonic name=value …`, where operands equal to their default
// (1 for a count, else 0) are left out and an address is imm or imm+rN. A
// semicolon starts a comment. The error is that of Validate or of the writer.
func Disassemble(w io.Writer, p *Program) error {
	if err := Validate(p); err != nil {
		return err
	}
	d := disassembler{w: bufio.NewWriterSize(w, 1<<16), p: p}
	d.header()
	for i := range p.Init {
		d.stream(".init", i, &p.Init[i])
	}
	for i := range p.Main {
		d.stream(".main", i, &p.Main[i])
	}
	d.consts()
	return d.w.Flush()
}

type disassembler struct {
	w   *bufio.Writer
	p   *Program
	buf []byte
}

func (d *disassembler) printf(format string, args ...any) { fmt.Fprintf(d.w, format, args...) }

func (d *disassembler) header() {
	p := d.p
	d.printf(".isa %d\n.model %q\n.arch %q %s\n.quant %q\n", ISAVersion, p.Model, p.Arch, hex.EncodeToString(p.Fingerprint[:]), p.Quant)
	for i, x := range p.sizes() {
		if x == &p.DescribedBytes && *x == 0 {
			continue // as in nearly all programs
		}
		d.printf(".%s %d\n", sizeNames[i], *x)
	}
	d.printf(".replicas %d\n", p.Replicas)
	if p.Rounds != 0 { // as in few programs
		d.printf(".rounds %d\n", p.Rounds)
	}
	for _, r := range p.Regions {
		d.printf(".region %d %d %d\n", r.Start, r.End, r.Die)
	}
	for _, x := range p.Inputs {
		d.tensor(".input", &x)
	}
	for _, x := range p.Outputs {
		d.tensor(".output", &x)
	}
	for _, s := range p.States {
		d.printf(".state %d %q %d %d %t\n", s.Input, s.Output, s.Bytes, s.New, s.Spilled)
	}
	for i, l := range p.Layers {
		d.printf(".layer %q %q %d %q ; %d\n", l.Name, l.Op, l.MACs, l.Mapping, i)
	}
	for _, f := range p.Fallbacks {
		d.printf(".fallback %q %q %s\n", f.Node, f.Op, formatFloat64(f.Share))
	}
}

// sizeNames are the directives of Program.sizes.
var sizeNames = [...]string{"dram_bytes", "scratchpad_bytes", "accumulator_bytes", "weight_sram_bytes", "weight_bytes", "described_bytes"}

func (d *disassembler) tensor(directive string, io *IO) {
	d.printf("%s %q %s [%s] %d %s %d\n", directive, io.Name, io.DType, formatShape(io.Shape), io.Addr, formatFloat32(math.Float32bits(io.Scale)), io.Zero)
}

func formatShape(shape []int) string {
	parts := make([]string, len(shape))
	for i, n := range shape {
		parts[i] = strconv.Itoa(n)
	}
	return strings.Join(parts, ",")
}

// formatFloat32 writes the shortest decimal that reads back to the same bits; a NaN
// is written as its bits, which no conversion may touch: it would quiet a signalling one.
func formatFloat32(bits uint32) string {
	if x := math.Float32frombits(bits); x == x {
		return strconv.FormatFloat(float64(x), 'g', -1, 32)
	}
	return fmt.Sprintf("nan:%x", bits)
}

// formatFloat64 is formatFloat32 for float64.
func formatFloat64(x float64) string {
	if x != x {
		return fmt.Sprintf("nan:%x", math.Float64bits(x))
	}
	return strconv.FormatFloat(x, 'g', -1, 64)
}

func (d *disassembler) stream(directive string, cluster int, s *Stream) {
	d.printf("\n%s ; cluster %d\n", directive, cluster)
	layer, depth := int32(-1), 0
	for i := range s.Insts {
		if s.Layer[i] != layer {
			if layer = s.Layer[i]; layer < 0 {
				d.printf(".at -1\n")
			} else {
				d.printf(".at %d ; %s\n", layer, strings.ReplaceAll(d.p.Layers[layer].Name, "\n", " "))
			}
		}
		in := &s.Insts[i]
		if in.Op == OpNext && depth > 0 {
			depth--
		}
		for range depth + 1 {
			d.w.WriteString("    ")
		}
		if in.Op == OpLoop {
			depth++
		}
		d.buf = AppendInst(d.buf[:0], in)
		d.w.Write(append(d.buf, '\n'))
	}
}

// AppendInst appends the text of one instruction, which must have the operands
// of its table row.
func AppendInst(b []byte, in *Inst) []byte {
	row := in.Op.Info()
	b = append(b, row.Mnemonic...)
	for i, o := range row.Operands {
		x := in.Args[i]
		if x == o.Kind.defaultValue() {
			continue
		}
		b = append(b, ' ')
		b = append(b, o.Name...)
		b = append(b, '=')
		switch {
		case o.Kind.isAddr():
			imm, reg := SplitAddr(x)
			b = strconv.AppendInt(b, imm, 10)
			if reg != 0 {
				b = append(b, "+r"...)
				b = strconv.AppendInt(b, int64(reg), 10)
			}
		case o.Kind == KReg:
			b = append(b, 'r')
			b = strconv.AppendInt(b, x, 10)
		case o.Kind == KFloat:
			b = append(b, formatFloat32(uint32(x))...)
		default:
			b = strconv.AppendInt(b, x, 10)
		}
	}
	return b
}

// defaultValue is what an operand left out in text stands for.
func (k OperandKind) defaultValue() int64 {
	if k == KCount {
		return 1
	}
	return 0
}

func (d *disassembler) consts() {
	if len(d.p.Consts) == 0 {
		return
	}
	d.printf("\n.consts ; %d bytes: base64, or .zero and a count\n", len(d.p.Consts))
	zeros := 0
	flush := func() {
		if zeros > 0 {
			d.printf(".zero %d\n", zeros)
			zeros = 0
		}
	}
	line := make([]byte, base64.StdEncoding.EncodedLen(constLine)+1)
	for rest := d.p.Consts; len(rest) > 0; {
		chunk := rest[:min(constLine, len(rest))]
		rest = rest[len(chunk):]
		if allZero(chunk) {
			zeros += len(chunk)
			continue
		}
		flush()
		n := base64.StdEncoding.EncodedLen(len(chunk))
		base64.StdEncoding.Encode(line, chunk)
		line[n] = '\n'
		d.w.Write(line[:n+1])
	}
	flush()
}

func allZero(b []byte) bool {
	for _, x := range b {
		if x != 0 {
			return false
		}
	}
	return true
}
