package models

import (
	"testing"

	"situ/frontend/onnx"
)

// TestTrained imports every trained model that ships and reads its images.
func TestTrained(t *testing.T) {
	for _, m := range List() {
		if !m.HasImages() {
			continue
		}
		t.Run(m.Name, func(t *testing.T) {
			p, _, err := m.Open(nil)
			if err != nil {
				t.Fatal(err)
			}
			g, err := onnx.Import(p, onnx.ImportOptions{})
			if err != nil {
				t.Fatal(err)
			}
			calibration, err := m.Calibration()
			if err != nil {
				t.Fatal(err)
			}
			images, labels, err := m.Test()
			if err != nil {
				t.Fatal(err)
			}
			if len(images) == 0 || len(images) != len(labels) || len(calibration) == 0 {
				t.Fatalf("%d test images, %d labels, %d calibration images", len(images), len(labels), len(calibration))
			}
			if n := g.Type(g.Inputs[0]).Numel(); len(images[0]) != n || len(calibration[0]) != n {
				t.Errorf("images of %d values, the model takes %d", len(images[0]), n)
			}
			for i, l := range labels {
				if l > 9 {
					t.Fatalf("label %d is %d", i, l)
				}
			}
		})
	}
	if _, ok := Find("nothing"); ok {
		t.Error("a model that does not ship was found")
	}
}
