package runtime

import (
	"context"
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"situ/ir"
)

// recorded opens a model with the inputs of one of its test sets.
func recorded(t *testing.T, name, set string) (m *Model, dir string, inputs []*ir.Tensor) {
	t.Helper()
	dir = filepath.Join(sharedDir(t, "onnx", "models"), name)
	in, err := readSet(filepath.Join(dir, set), "input")
	if err != nil {
		t.Fatal(err)
	}
	if m, err = OpenModel(filepath.Join(dir, "model.onnx"), ModelOptions{inputs: in}); err != nil {
		t.Fatal(err)
	}
	if inputs, err = bind(m.Graph, m.given); err != nil {
		t.Fatal(err)
	}
	return m, dir, inputs
}

// samples reads 16-bit PCM behind a header of 44 bytes, as numbers in −1 … 1.
func samples(t *testing.T, path string) []float32 {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var x []float32
	for b = b[44:]; len(b) > 1; b = b[2:] {
		x = append(x, float32(int16(binary.LittleEndian.Uint16(b)))/32768)
	}
	return x
}

// TestSpeechIsFound: on the emulator Silero VAD, frame by frame with the state handed
// on, finds the word in a recording and none in noise and silence, as it does in float.
func TestSpeechIsFound(t *testing.T) {
	ctx := context.Background()
	m, _, first := recorded(t, "silero-vad-16k", "test_data_set_0")
	sounds := filepath.Join(sharedDir(t, "datasets"), "speech-commands-samples")
	frame := first[0].Numel()
	target, err := OpenTarget("corsair-card")
	if err != nil {
		t.Fatal(err)
	}
	// listen returns the largest probability of speech over a recording.
	listen := func(name string, run func(in []*ir.Tensor) ([]*ir.Tensor, error)) (most float32, frames [][]*ir.Tensor) {
		x := samples(t, filepath.Join(sounds, name))
		state := ir.Zeros(ir.F32, first[1].Shape...)
		const overlap = 64 // samples of the frame before, which the model wants to see again
		for at := 0; at+frame <= len(x); at += frame - overlap {
			in := []*ir.Tensor{ir.NewTensor(ir.F32, first[0].Shape, slices.Clone(x[at:at+frame])), state}
			out, err := run(in)
			if err != nil {
				t.Fatal(err)
			}
			frames = append(frames, in)
			most, state = max(most, ir.Data[float32](out[0])[0]), out[1]
		}
		return most, frames
	}
	float := func(in []*ir.Tensor) ([]*ir.Tensor, error) { return evaluate(ctx, m.Graph, in) }
	_, calibration := listen("no_1000ms.wav", float)
	p, err := prepare(ctx, m, QuantOptions{}, calibration)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		file   string
		speech bool
	}{{"yes_1000ms.wav", true}, {"no_1000ms.wav", true}, {"noise_1000ms.wav", false}, {"silence_1000ms.wav", false}} {
		want, _ := listen(tt.file, float)
		got, _ := listen(tt.file, func(in []*ir.Tensor) ([]*ir.Tensor, error) { return emulate(ctx, p, target, in) })
		t.Logf("%s: speech with %.3f at most on the emulator, %.3f in float", tt.file, got, want)
		if want > 0.5 != tt.speech || got > 0.5 != tt.speech {
			t.Errorf("%s: %.3f on the emulator, %.3f in float; speech: %t", tt.file, got, want, tt.speech)
		}
	}
}

// TestTextIsRead: on the emulator PP-OCR reads the characters of its samples, of two
// widths, that ONNX Runtime read.
func TestTextIsRead(t *testing.T) {
	ctx := context.Background()
	// characters are the best classes, without repetitions and blanks (class 0).
	characters := func(y *ir.Tensor) (text []int) {
		classes, last := y.Shape[len(y.Shape)-1], 0
		for row := range slices.Chunk(reals(y), classes) {
			if c := argmax(row); c != last {
				if last = c; c != 0 {
					text = append(text, c)
				}
			}
		}
		return text
	}
	for _, set := range []string{"test_data_set_0", "test_data_set_1"} {
		m, dir, inputs := recorded(t, "ppocr-v4-rec", set)
		golden, err := readSet(filepath.Join(dir, set), "output")
		if err != nil {
			t.Fatal(err)
		}
		p, err := prepare(ctx, m, QuantOptions{}, [][]*ir.Tensor{inputs})
		if err != nil {
			t.Fatal(err)
		}
		for _, on := range []string{"corsair-card", "edge-dimc"} {
			target, err := OpenTarget(on)
			if err != nil {
				t.Fatal(err)
			}
			got, err := emulate(ctx, p, target, inputs)
			if err != nil {
				t.Fatal(err)
			}
			want := characters(golden[0].tensor)
			if text := characters(got[0]); len(want) < 4 || !slices.Equal(text, want) {
				t.Errorf("%s of width %d: reads %v, want %v", on, inputs[0].Shape[3], text, want)
			}
		}
	}
}
