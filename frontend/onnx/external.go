package onnx

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"situ/frontend/onnx/onnxpb"
)

// dataFiles are the files below dir that tensors of a model are stored in. Each is
// opened once, however many tensors claim to be in it, and large ones are mapped,
// not copied: a small model cannot ask for more memory than there are files.
type dataFiles struct {
	dir  string
	open map[string][]byte // by location
}

// read returns the want bytes of a tensor that is stored in a file. Absolute
// locations, ".." and symbolic links that lead outside are refused.
func (d *dataFiles) read(t *onnxpb.TensorProto, want int) ([]byte, error) {
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
	case d.dir == "":
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
	b, err := d.file(location)
	if err != nil {
		return nil, fmt.Errorf("external data %q: %w", location, err)
	}
	size := int64(len(b))
	if offset > size || int64(want) > size-offset {
		return nil, fmt.Errorf("external data %q: %d bytes from %d on are needed, the file has %d", location, want, offset, size)
	}
	return b[offset : offset+int64(want) : offset+int64(want)], nil
}

// file returns the contents of a file below the folder.
func (d *dataFiles) file(location string) ([]byte, error) {
	location = filepath.Clean(filepath.FromSlash(location))
	if b, ok := d.open[location]; ok {
		return b, nil
	}
	root, err := os.OpenRoot(d.dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	info, err := root.Stat(location) // before it is opened: a pipe would wait for its writer
	if err != nil {
		return nil, fmt.Errorf("only files inside the model's folder are read: %w", err)
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("not a regular file")
	}
	f, err := root.Open(location)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := contents(f, info.Size())
	if err != nil {
		return nil, err
	}
	if d.open == nil {
		d.open = map[string][]byte{}
	}
	d.open[location] = b
	return b, nil
}
