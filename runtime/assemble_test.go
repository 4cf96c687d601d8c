package runtime

import (
	"bytes"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Text that names a preset but is of another architecture is refused.
func TestAssembleForPreset(t *testing.T) {
	target, err := OpenTarget("edge-dimc")
	if err != nil {
		t.Fatal(err)
	}
	r, err := Compile(t.Context(), "digits", target, ModelOptions{}, QuantOptions{Weights: "int8", Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	program, text := filepath.Join(dir, "p.pim"), filepath.Join(dir, "p.s")
	if err := os.WriteFile(program, r.Encoded, 0o644); err != nil {
		t.Fatal(err)
	}
	var s bytes.Buffer
	if err := Disassemble(&s, program); err != nil {
		t.Fatal(err)
	}
	sum := target.Chip.Fingerprint()
	own := hex.EncodeToString(sum[:])
	for fingerprint, want := range map[string]string{own: "", strings.Repeat("0", 64): "p.s: .arch: the fingerprint is not that of edge-dimc"} {
		if err := os.WriteFile(text, bytes.Replace(s.Bytes(), []byte(own), []byte(fingerprint), 1), 0o644); err != nil {
			t.Fatal(err)
		}
		b, err := Assemble(text)
		switch {
		case want == "" && (err != nil || !bytes.Equal(b, r.Encoded)):
			t.Errorf("the program's own text: %v", err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%v, want %q", err, want)
		}
	}
}
