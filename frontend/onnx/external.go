package onnx

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"

	"situ/frontend/onnx/onnxpb"
)

// readExternal reads the want bytes of a tensor that is stored in a file below
// dir. Absolute locations, ".." and symbolic links that lead outside are refused.
func readExternal(t *onnxpb.TensorProto, dir string, want int) ([]byte, error) {
	var location string
	var offset, length int64
	haveLength := false
	for _, e := range t.ExternalData {
		var err error
		switch e.Key {
		case "location":
			location = e.Value
		case "offset":
			offset, err = strconv.ParseInt(e.Value, 10, 64)
		case "length":
			length, err = strconv.ParseInt(e.Value, 10, 64)
			haveLength = true
		}
		if err != nil {
			return nil, fmt.Errorf("external data: %s %q is not a number", e.Key, e.Value)
		}
	}
	switch {
	case dir == "":
		return nil, fmt.Errorf("external data %q: the model has no folder, so its files cannot be found", location)
	case location == "":
		return nil, fmt.Errorf("external data without a location")
	case !filepath.IsLocal(filepath.FromSlash(location)):
		return nil, fmt.Errorf("external data %q: only files inside the model's folder are read", location)
	case offset < 0 || length < 0:
		return nil, fmt.Errorf("external data %q: negative offset or length", location)
	case haveLength && length != int64(want):
		return nil, fmt.Errorf("external data %q: length %d, but shape and type need %d bytes", location, length, want)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("external data %q: %w", location, err)
	}
	defer root.Close()
	info, err := root.Stat(location)
	if err != nil {
		return nil, fmt.Errorf("external data %q: only files inside the model's folder are read: %w", location, err)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("external data %q: not a regular file", location)
	}
	if offset > info.Size() || int64(want) > info.Size()-offset {
		return nil, fmt.Errorf("external data %q: %d bytes from %d on are needed, the file has %d",
			location, want, offset, info.Size())
	}
	f, err := root.Open(location)
	if err != nil {
		return nil, fmt.Errorf("external data %q: %w", location, err)
	}
	defer f.Close()
	b := make([]byte, want)
	if _, err := io.ReadFull(io.NewSectionReader(f, offset, int64(want)), b); err != nil {
		return nil, fmt.Errorf("external data %q: %w", location, err)
	}
	return b, nil
}
