// Package models holds the models that ship with situ: trained weights as ONNX,
// with the few images that go with them.
//
// To add a model: add its row to the table below; its ONNX file is embedded or
// built. How a trained model was made is a program beside this one (train).
package models

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"fmt"
	"io"
	"strings"
)

// Model describes a model that ships.
type Model struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	Source      string `json:"source"` // how it was made

	onnx        []byte
	calibration []byte // gzip of byte images
	images      []byte
	labels      []byte
}

var (
	//go:embed digits.onnx
	digitsONNX []byte
	//go:embed digits-calibration.gz
	digitsCalibration []byte
	//go:embed digits-images.gz
	digitsImages []byte
	//go:embed digits-labels.gz
	digitsLabels []byte
)

var table = []Model{
	{
		Name:        "digits",
		Description: "CNN for 28×28 digits",
		Source:      "trained on the 60,000 MNIST images by go run ./models/train",
		onnx:        digitsONNX, calibration: digitsCalibration, images: digitsImages, labels: digitsLabels,
	},
}

// List returns the models that ship.
func List() []Model { return table }

// Find returns the model of a name.
func Find(name string) (*Model, bool) {
	for i := range table {
		if table[i].Name == name {
			return &table[i], true
		}
	}
	return nil, false
}

// ONNX returns the ONNX file of a model that ships.
func ONNX(name string) ([]byte, error) {
	m, ok := Find(name)
	if !ok {
		var names []string
		for _, m := range table {
			names = append(names, m.Name)
		}
		return nil, fmt.Errorf("no model %q ships; there is: %s", name, strings.Join(names, ", "))
	}
	return m.onnx, nil
}

// Calibration returns inputs for calibration: images of 784 values in 0..1.
func (m *Model) Calibration() ([][]float32, error) { return unpack(m.calibration) }

// Test returns labelled test inputs.
func (m *Model) Test() (images [][]float32, labels []byte, err error) {
	if images, err = unpack(m.images); err != nil {
		return nil, nil, err
	}
	labels, err = gunzip(m.labels)
	return images, labels, err
}

func unpack(zipped []byte) ([][]float32, error) {
	b, err := gunzip(zipped)
	if err != nil {
		return nil, err
	}
	const pixels = 28 * 28
	out := make([][]float32, len(b)/pixels)
	for i := range out {
		out[i] = make([]float32, pixels)
		for j, v := range b[i*pixels : (i+1)*pixels] {
			out[i][j] = float32(v) / 255
		}
	}
	return out, nil
}

func gunzip(b []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		return nil, fmt.Errorf("models: %w", err)
	}
	return io.ReadAll(r)
}
