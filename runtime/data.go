package runtime

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"situ/frontend/onnx"
	"situ/internal/mnist"
	"situ/ir"
)

// DataOptions say which inputs accuracy is measured on and how they are made
// ready: v becomes (v·Scale − Mean) / Std.
type DataOptions struct {
	Path      string    // see readData; "" for what ships with the model
	Scale     float64   // 0 for 1
	Mean, Std []float64 // of each channel, or one for all; none for 0 and 1
	Layout    string    // order of an image's elements: "nchw", "nhwc", or "" when the model takes them as they lie
	Limit     int       // inputs to use at most, 0 for all
}

// data is what readData found.
type data struct {
	inputs      [][]*ir.Tensor
	labels      []int          // nil without labels
	positions   int            // labels of each input, when it has one a position; else 0
	calibration [][]*ir.Tensor // of the same kind but not among inputs; nil when there is none
	what        string         // for people
}

// readData reads inputs for a model: "mnist", a CSV file of rows of a label and
// the elements of one input, a pair X.npy,Y.npy of inputs and labels, or a folder
// that holds x.npy and y.npy, or one CSV file, or inputs without labels. For a model
// of tokens a pair holds sequences, and a label for each of their positions.
func readData(m *Model, o DataOptions) (*data, error) {
	switch {
	case o.Path == "" && m.Ships != nil:
		return shippedData(m, o.Limit)
	case o.Path == "":
		return nil, errors.New("no model of this name ships, so it needs --data: mnist, a CSV file, a pair X.npy,Y.npy or a folder")
	}
	if x, y, ok := strings.Cut(o.Path, ","); ok && takesTokens(m.Graph) {
		return tokenData(m.Graph, x, y, o.Limit)
	}
	if plain, err := isUnlabelled(o.Path); err != nil {
		return nil, err
	} else if plain {
		return unlabelled(m.Graph, o)
	}
	p, err := newPreparation(m.Graph, o)
	if err != nil {
		return nil, err
	}
	if o.Path == "mnist" {
		return mnistDigits(p, o.Limit)
	}
	if x, y, ok := strings.Cut(o.Path, ","); ok {
		return npyData(p, x, y, o.Limit)
	}
	st, err := os.Stat(o.Path)
	if err != nil {
		return nil, err
	}
	if !st.IsDir() {
		if filepath.Ext(o.Path) != ".csv" {
			return nil, fmt.Errorf("%s: labelled data is a .csv file, a pair X.npy,Y.npy or a folder", o.Path)
		}
		return csvData(p, o.Path, o.Limit)
	}
	if x, y := pairIn(o.Path); isFile(x) {
		return npyData(p, x, y, o.Limit)
	}
	tables, err := tablesIn(o.Path)
	switch {
	case err != nil:
		return nil, err
	case len(tables) > 1:
		return nil, fmt.Errorf("%s holds %d CSV files; name the one to use", o.Path, len(tables))
	}
	return csvData(p, tables[0], o.Limit)
}

// isUnlabelled reports whether path is a folder without labels: neither a pair nor
// a table.
func isUnlabelled(path string) (bool, error) {
	st, err := os.Stat(path)
	if err != nil || !st.IsDir() {
		return false, nil // mnist, a pair or a file; whoever reads it says what is wrong
	}
	x, _ := pairIn(path)
	tables, err := tablesIn(path)
	return !isFile(x) && len(tables) == 0, err
}

// pairIn returns where a folder holds inputs and labels.
func pairIn(dir string) (x, y string) {
	return filepath.Join(dir, "x.npy"), filepath.Join(dir, "y.npy")
}

func tablesIn(dir string) ([]string, error) { return filepath.Glob(filepath.Join(dir, "*.csv")) }

func isFile(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// shippedData is the test set of a model that ships.
func shippedData(m *Model, limit int) (*data, error) {
	images, labels, err := m.Ships.Test()
	if err != nil {
		return nil, err
	}
	d := &data{what: "test images that ship"}
	shape := m.Graph.Type(m.Graph.Inputs[0]).Shape
	for i, x := range images {
		if limit > 0 && i == limit {
			break
		}
		d.inputs = append(d.inputs, []*ir.Tensor{ir.NewTensor(ir.F32, shape, x)})
		d.labels = append(d.labels, int(labels[i]))
	}
	return d, nil
}

// unlabelled reads folders of inputs as --calibration does; they are taken as
// they are.
func unlabelled(g *ir.Graph, o DataOptions) (*data, error) {
	if o.Scale != 0 && o.Scale != 1 || o.Mean != nil || o.Std != nil || o.Layout != "" {
		return nil, fmt.Errorf("%s: inputs without labels are taken as they are; --scale, --mean, --std and --layout are for labelled data", o.Path)
	}
	sets, err := readInputs(o.Path)
	if err != nil {
		return nil, err
	}
	d := &data{what: o.Path}
	for _, s := range sets {
		if o.Limit > 0 && len(d.inputs) == o.Limit {
			break
		}
		in, err := bind(g, s)
		if err != nil {
			return nil, err
		}
		d.inputs = append(d.inputs, in)
	}
	return d, nil
}

// mnistDigits is the MNIST test set; training images calibrate.
func mnistDigits(p *preparation, limit int) (*data, error) {
	train, test, err := mnist.Load()
	if err != nil {
		return nil, err
	}
	const calibrate = 32
	d := &data{what: "MNIST test images"}
	raw := make([]float64, 28*28)
	ready := func(img []byte) ([]*ir.Tensor, error) {
		for i, v := range img {
			raw[i] = float64(v)
		}
		return p.ready(raw)
	}
	for i, img := range test.Images {
		if limit > 0 && i == limit {
			break
		}
		in, err := ready(img)
		if err != nil {
			return nil, fmt.Errorf("MNIST: %w", err)
		}
		d.inputs = append(d.inputs, in)
		d.labels = append(d.labels, int(test.Labels[i]))
	}
	for _, img := range train.Images[:calibrate] {
		in, err := ready(img)
		if err != nil {
			return nil, fmt.Errorf("MNIST: %w", err)
		}
		d.calibration = append(d.calibration, in)
	}
	return d, nil
}

// csvData reads rows of a label and the elements of one input.
func csvData(p *preparation, path string, limit int) (*data, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r := csv.NewReader(f)
	r.ReuseRecord, r.FieldsPerRecord, r.TrimLeadingSpace = true, -1, true
	d := &data{what: path}
	for limit == 0 || len(d.inputs) < limit {
		row, err := r.Read()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if n := len(row); row[n-1] == "" { // rows may end in a comma
			row = row[:n-1]
		}
		line, _ := r.FieldPos(0)
		v := make([]float64, len(row))
		for i, s := range row {
			if v[i], err = strconv.ParseFloat(strings.TrimSpace(s), 64); err != nil {
				return nil, fmt.Errorf("%s:%d: field %d is %q, want a number (no line of headings)", path, line, i+1, s)
			}
		}
		if err := d.add(p, v, path, line); err != nil {
			return nil, err
		}
	}
	return d, d.check(path)
}

// add appends a row of a label and an input.
func (d *data) add(p *preparation, row []float64, path string, line int) error {
	if len(row) == 0 {
		return fmt.Errorf("%s:%d: no label", path, line)
	}
	in, err := p.ready(row[1:])
	if err != nil {
		return fmt.Errorf("%s:%d: %w", path, line, err)
	}
	label := int(row[0])
	if float64(label) != row[0] || label < 0 {
		return fmt.Errorf("%s:%d: label %v is no class: classes count from 0", path, line, row[0])
	}
	d.inputs, d.labels = append(d.inputs, in), append(d.labels, label)
	return nil
}

func (d *data) check(path string) error {
	if len(d.inputs) == 0 {
		return fmt.Errorf("%s: no inputs in it", path)
	}
	return nil
}

// npyData reads inputs and labels that have the same first dimension.
func npyData(p *preparation, xPath, yPath string, limit int) (*data, error) {
	_, x, err := onnx.ReadTensorFile(xPath)
	if err != nil {
		return nil, err
	}
	_, y, err := onnx.ReadTensorFile(yPath)
	if err != nil {
		return nil, err
	}
	if len(x.Shape) < 2 || y.Numel() != x.Shape[0] {
		return nil, fmt.Errorf("%s has shape %v and %s %v; want N inputs and N labels", xPath, x.Shape, yPath, y.Shape)
	}
	values, labels := reals(x), reals(y)
	if values == nil || labels == nil {
		return nil, fmt.Errorf("%s is %s and %s is %s; want numbers", xPath, x.DType, yPath, y.DType)
	}
	n := len(labels)
	if limit > 0 {
		n = min(n, limit)
	}
	d := &data{what: xPath}
	for i := range n {
		per := len(values) / len(labels)
		row := append([]float64{labels[i]}, values[i*per:(i+1)*per]...)
		if err := d.add(p, row, xPath, i); err != nil {
			return nil, err
		}
	}
	return d, d.check(xPath)
}

// preparation turns raw elements into a model's input.
type preparation struct {
	shape     []int
	scale     float64
	mean, std []float64 // of each channel
	channel   int       // the dimension that holds the channels, −1 when mean and std are for all
	from      []int     // where each element lies in the data; nil when as in the model
}

func newPreparation(g *ir.Graph, o DataOptions) (*preparation, error) {
	if len(g.Inputs) != 1 || g.Type(g.Inputs[0]).DType != ir.F32 {
		return nil, fmt.Errorf("model %q takes %s; labelled data is for models with one float32 input, a pair X.npy,Y.npy also for one of integers", g.Name, describeInputs(g, fewInputs))
	}
	p := &preparation{shape: g.Type(g.Inputs[0]).Shape, scale: o.Scale, mean: o.Mean, std: o.Std, channel: -1}
	if p.scale == 0 {
		p.scale = 1
	}
	if p.mean == nil {
		p.mean = []float64{0}
	}
	if p.std == nil {
		p.std = []float64{1}
	}
	for _, s := range p.std {
		if !(s > 0) {
			return nil, fmt.Errorf("--std %v: a standard deviation is positive", s)
		}
	}
	if o.Layout != "" && o.Layout != "nchw" && o.Layout != "nhwc" {
		return nil, fmt.Errorf("no layout %q; there are nchw and nhwc", o.Layout)
	}
	channels := max(len(p.mean), len(p.std))
	if channels == 1 && o.Layout == "" {
		return p, nil
	}
	c, err := channelsOf(p.shape)
	if err != nil {
		return nil, err
	}
	if channels > 1 {
		p.channel = c
		for _, list := range [][]float64{p.mean, p.std} {
			if len(list) != 1 && len(list) != p.shape[c] {
				return nil, fmt.Errorf("%d figures for %d channels in --mean or --std; give one, or one a channel", len(list), p.shape[c])
			}
		}
	}
	s := p.shape
	switch {
	case o.Layout == "nhwc" && c == 1:
		p.from = order(s[1], s[2]*s[3], func(ch, pixel int) int { return pixel*s[1] + ch })
	case o.Layout == "nchw" && c == 3:
		p.from = order(s[1]*s[2], s[3], func(pixel, ch int) int { return ch*s[1]*s[2] + pixel })
	}
	return p, nil
}

// order lists where the elements of an outer × inner matrix come from.
func order(outer, inner int, from func(outer, inner int) int) []int {
	var list []int
	for o := range outer {
		for i := range inner {
			list = append(list, from(o, i))
		}
	}
	return list
}

// channelsOf finds which dimension of an input shape holds the channels.
func channelsOf(shape []int) (int, error) {
	const most = 4 // channels of an image
	if len(shape) == 4 && (shape[1] <= most) != (shape[3] <= most) {
		if shape[1] <= most {
			return 1, nil
		}
		return 3, nil
	}
	return 0, fmt.Errorf("cannot tell which dimension of the input %v holds the channels; prepare the data and leave out --layout and lists of --mean and --std", shape)
}

// ready returns the model's input made from raw elements.
func (p *preparation) ready(raw []float64) ([]*ir.Tensor, error) {
	if len(raw) != ir.Numel(p.shape) {
		return nil, fmt.Errorf("%d elements, the model's input %v takes %d", len(raw), p.shape, ir.Numel(p.shape))
	}
	inner := 1 // elements before the channel changes
	if p.channel >= 0 {
		inner = ir.Numel(p.shape[p.channel+1:])
	}
	pick := func(list []float64, i int) float64 {
		if len(list) == 1 {
			return list[0]
		}
		return list[i/inner%len(list)]
	}
	out := make([]float32, len(raw))
	for i := range out {
		v := raw[i]
		if p.from != nil {
			v = raw[p.from[i]]
		}
		out[i] = float32((v*p.scale - pick(p.mean, i)) / pick(p.std, i))
	}
	return []*ir.Tensor{ir.NewTensor(ir.F32, p.shape, out)}, nil
}
