package arch

import (
	"embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// Limits on a description file, far above what a real one needs.
const (
	maxFileBytes = 1 << 16 // the YAML package takes quadratic time on some texts
	maxNesting   = 64      // open brackets outside of text, and spaces of indentation / 2
	maxBases     = 8       // length of a chain of based_on
)

//go:embed presets/*.yaml
var presetFiles embed.FS

// Arch is one description: either a Chip or a GPU.
type Arch struct {
	Chip *Chip
	GPU  *GPU
}

// Name returns the name of the described device.
func (a Arch) Name() string {
	switch {
	case a.Chip != nil:
		return a.Chip.Name
	case a.GPU != nil:
		return a.GPU.Name
	}
	return ""
}

// Description returns one line that says what the device is.
func (a Arch) Description() string {
	switch {
	case a.Chip != nil:
		return a.Chip.Description
	case a.GPU != nil:
		return a.GPU.Description
	}
	return ""
}

// Presets returns the names of the descriptions that ship, sorted.
func Presets() []string {
	entries, err := presetFiles.ReadDir("presets")
	if err != nil {
		panic("arch: embedded presets: " + err.Error())
	}
	var names []string
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), ".yaml"))
	}
	return names
}

// Load returns the preset of the given name or, when there is none, the
// description in the file of that name. The error of a name that is neither lists
// the presets.
func Load(nameOrFile string) (Arch, error) {
	if slices.Contains(Presets(), nameOrFile) {
		return loadPreset(nameOrFile, 0)
	}
	if _, err := os.Stat(nameOrFile); err != nil && !looksLikeFile(nameOrFile) {
		return Arch{}, fmt.Errorf("architecture %q is neither a preset (%s) nor a file", nameOrFile, strings.Join(Presets(), ", "))
	}
	return ParseFile(nameOrFile)
}

func looksLikeFile(s string) bool {
	ext := filepath.Ext(s)
	return ext == ".yaml" || ext == ".yml" || strings.ContainsRune(s, filepath.Separator)
}

// ParseFile reads and validates a description file.
func ParseFile(path string) (Arch, error) {
	info, err := os.Stat(path)
	if err != nil {
		return Arch{}, fmt.Errorf("architecture: %w", err)
	}
	if !info.Mode().IsRegular() {
		return Arch{}, fmt.Errorf("architecture: %s is not a regular file", path)
	}
	if info.Size() > maxFileBytes {
		return Arch{}, fmt.Errorf("architecture: %s has %d bytes, at most %d are read", path, info.Size(), maxFileBytes)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return Arch{}, fmt.Errorf("architecture: %w", err)
	}
	return Parse(path, data)
}

// Parse reads and validates a description; file is the name used in errors. All
// problems are reported together, each with line and column.
func Parse(file string, data []byte) (Arch, error) {
	a, err := parse(file, data, 0)
	if err != nil {
		return Arch{}, err
	}
	if name := a.Name(); slices.Contains(Presets(), name) {
		at, preset := a.where().at("name")
		if preset != "" {
			return Arch{}, fmt.Errorf("%sname: is missing; give it a name of its own, other than that of preset %s", at, name)
		}
		return Arch{}, fmt.Errorf("%sname: %q is the name of a preset; choose another one, so that reports tell the two apart", at, name)
	}
	return a, a.Validate()
}

func loadPreset(name string, depth int) (Arch, error) {
	data, err := presetFiles.ReadFile("presets/" + name + ".yaml")
	if err != nil {
		return Arch{}, fmt.Errorf("no preset %q; there are %s", name, strings.Join(Presets(), ", "))
	}
	a, err := parse(name+".yaml", data, depth)
	if err != nil {
		return Arch{}, err
	}
	return a, a.Validate()
}

// parse fills the base, if any, and puts the file's own keys on top of it.
func parse(file string, data []byte, depth int) (Arch, error) {
	root, err := parseYAML(file, data)
	if err != nil {
		return Arch{}, err
	}
	d := decoder{file: file}
	var a Arch
	base, hasBase := d.topText(root, "based_on")
	kind, hasKind := d.topText(root, "kind")
	switch {
	case hasBase && depth >= maxBases:
		return Arch{}, fmt.Errorf("%s: based_on: a chain of more than %d descriptions", file, maxBases)
	case hasBase:
		if a, err = loadPreset(base, depth+1); err != nil {
			return Arch{}, fmt.Errorf("%s: based_on: %w", file, err)
		}
		if k := a.kind(); hasKind && kind != k {
			return Arch{}, fmt.Errorf("%s: kind: %q, but %s is of kind %q", file, kind, base, k)
		}
	case kind == "pim":
		a.Chip = &Chip{}
	case kind == "gpu":
		a.GPU = &GPU{}
	default:
		return Arch{}, fmt.Errorf("%s: kind: %q, want pim or gpu (or state based_on)", file, kind)
	}
	if c := a.Chip; c != nil {
		before := *c
		c.where = d.begin(c.where, base)
		d.mapping(root, "", reflect.ValueOf(c).Elem())
		if hasBase && !c.where.states("array.cols_int4") && c.where.states("array.cols") {
			c.FollowCols(&before)
		}
	} else {
		a.GPU.where = d.begin(a.GPU.where, base)
		d.mapping(root, "", reflect.ValueOf(a.GPU).Elem())
	}
	return a, errors.Join(d.errs...)
}

// where returns where the keys of the description were stated.
func (a Arch) where() positions {
	if a.Chip != nil {
		return a.Chip.where
	}
	return a.GPU.where
}

func (a Arch) kind() string {
	if a.Chip != nil {
		return a.Chip.Kind
	}
	return a.GPU.Kind
}

// parseYAML returns the top mapping of a file of one document.
func parseYAML(file string, data []byte) (root ast.MapNode, err error) {
	if len(data) > maxFileBytes {
		return nil, fmt.Errorf("%s: %d bytes, at most %d are read", file, len(data), maxFileBytes)
	}
	if line := tooNested(data); line > 0 {
		return nil, fmt.Errorf("%s:%d: nested more than %d deep", file, line, maxNesting)
	}
	// The YAML package is not ours; a panic of it on a malformed file is that
	// file's error.
	defer func() {
		if r := recover(); r != nil {
			root, err = nil, fmt.Errorf("%s: not readable as YAML: %v", file, r)
		}
	}()
	f, err := parser.ParseBytes(data, 0)
	if err != nil {
		var at yaml.Error
		if errors.As(err, &at) && at.GetToken() != nil {
			pos := at.GetToken().Position
			return nil, fmt.Errorf("%s:%d:%d: not readable as YAML: %s", file, pos.Line, pos.Column, at.GetMessage())
		}
		return nil, fmt.Errorf("%s: not readable as YAML: %w", file, err)
	}
	var docs []*ast.DocumentNode
	for _, d := range f.Docs {
		if d.Body != nil {
			docs = append(docs, d)
		}
	}
	if len(docs) != 1 {
		return nil, fmt.Errorf("%s: holds %d YAML documents, want 1", file, len(docs))
	}
	root, ok := docs[0].Body.(ast.MapNode)
	if !ok {
		return nil, fmt.Errorf("%s: want a mapping of keys at the top", file)
	}
	return root, nil
}

// tooNested returns the first line on which brackets or indentation are deeper
// than any description needs, or 0. It errs on the strict side inside text.
func tooNested(data []byte) int {
	line, depth, indent, atStart := 1, 0, 0, true
	for _, c := range data {
		switch c {
		case '\n':
			line, indent, atStart = line+1, 0, true
			continue
		case ' ', '\t', '-', '?', ':':
			if atStart {
				indent++
			}
		default:
			atStart = false
		}
		switch c {
		case '[', '{':
			depth++
		case ']', '}':
			depth = max(depth-1, 0)
		}
		if depth > maxNesting || atStart && indent > 2*maxNesting {
			return line
		}
	}
	return 0
}

// position is where a key was stated.
type position struct {
	file      string
	line, col int
	preset    string // that the description has the key from; "" for one of its own
}

// positions says where the keys of a description were stated. It is empty for one
// that was built in Go.
type positions struct {
	file string
	keys map[string]position // by path, such as "dram.bytes"
}

// states reports whether the description states a key itself.
func (p positions) states(path string) bool {
	pos, ok := p.keys[path]
	return ok && pos.preset == ""
}

// at returns "file:line:col: " for a key path, or for the nearest enclosing key
// that was stated. What a description has from a preset is in no file that its
// author has, so that it returns "file: " for it, and the preset.
func (p positions) at(path string) (place, preset string) {
	for {
		if pos, ok := p.keys[path]; ok {
			if pos.preset != "" {
				return p.file + ": ", pos.preset
			}
			return fmt.Sprintf("%s:%d:%d: ", pos.file, pos.line, pos.col), ""
		}
		i := strings.LastIndexByte(path, '.')
		if i < 0 {
			break
		}
		path = path[:i]
	}
	if p.file == "" {
		return "", ""
	}
	return p.file + ": ", ""
}

// decoder copies a YAML tree into a description and collects all problems.
type decoder struct {
	file  string
	where positions
	errs  []error
}

// begin starts from the positions of the base, a preset.
func (d *decoder) begin(base positions, preset string) positions {
	d.where = positions{d.file, make(map[string]position, len(base.keys)+64)}
	for k, pos := range base.keys {
		pos.preset = preset
		d.where.keys[k] = pos
	}
	return d.where
}

func (d *decoder) fail(n ast.Node, path, format string, args ...any) {
	pos := n.GetToken().Position
	msg := fmt.Sprintf(format, args...)
	if path != "" {
		msg = path + ": " + msg
	}
	d.errs = append(d.errs, fmt.Errorf("%s:%d:%d: %s", d.file, pos.Line, pos.Column, msg))
}

// topText returns the text of a top-level key.
func (d *decoder) topText(root ast.MapNode, key string) (string, bool) {
	for it := root.MapRange(); it.Next(); {
		if k, ok := it.Key().(*ast.StringNode); ok && k.Value == key {
			s, ok := it.Value().(*ast.StringNode)
			if !ok {
				return "", false
			}
			return s.Value, true
		}
	}
	return "", false
}

// mapping copies the entries of m into the fields of v.
func (d *decoder) mapping(m ast.MapNode, path string, v reflect.Value) {
	seen := make(map[string]bool)
	for it := m.MapRange(); it.Next(); {
		key, ok := it.Key().(*ast.StringNode)
		if !ok {
			d.fail(it.Key(), path, "a key must be a plain name")
			continue
		}
		p := join(path, key.Value)
		field, ok := fieldByKey(v, key.Value)
		switch {
		case !ok:
			d.fail(key, "", "unknown key %q; known here: %s", p, strings.Join(keys(v.Type()), ", "))
		case seen[key.Value]:
			d.fail(key, "", "key %q is stated twice", p)
		default:
			seen[key.Value] = true
			pos := key.GetToken().Position
			d.where.keys[p] = position{file: d.file, line: pos.Line, col: pos.Column}
			d.value(it.Value(), p, field)
		}
	}
}

// value copies one node into a field: text, number, figure or nested mapping.
func (d *decoder) value(n ast.Node, path string, v reflect.Value) {
	switch {
	case v.Kind() == reflect.String:
		switch s := n.(type) {
		case *ast.StringNode:
			v.SetString(s.Value)
		case *ast.LiteralNode:
			v.SetString(strings.TrimSpace(s.Value.Value))
		default:
			d.fail(n, path, "want text")
		}
	case v.Kind() == reflect.Float64:
		f, err := number(n)
		if err != nil {
			d.fail(n, path, "%v", err)
			return
		}
		v.SetFloat(f)
	default:
		m, ok := n.(ast.MapNode)
		if !ok {
			d.fail(n, path, "want a mapping of %s", strings.Join(keys(v.Type()), ", "))
			return
		}
		switch v.Interface().(type) {
		case Figure, Text: // replaced whole: a new value never keeps the old source
			v.SetZero()
		}
		d.mapping(m, path, v)
	}
}

func number(n ast.Node) (float64, error) {
	switch n := n.(type) {
	case *ast.IntegerNode:
		switch i := n.Value.(type) {
		case int64:
			return float64(i), nil
		case uint64:
			return float64(i), nil
		}
	case *ast.FloatNode:
		return n.Value, nil
	case *ast.InfinityNode:
		return n.Value, nil
	case *ast.NanNode:
		return 0, errors.New("is not a number")
	case *ast.StringNode:
		// The YAML package takes exponents without a point for text.
		if f, err := strconv.ParseFloat(n.Value, 64); err == nil && n.Token.Type == token.StringType {
			return f, nil
		}
	}
	return 0, errors.New("want a number")
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

func fieldByKey(v reflect.Value, key string) (reflect.Value, bool) {
	for i := range v.NumField() {
		if k := v.Type().Field(i).Tag.Get("yaml"); k != "" && k == key {
			return v.Field(i), true
		}
	}
	return reflect.Value{}, false
}

// keys lists the keys of a description struct in order.
func keys(t reflect.Type) []string {
	var ks []string
	for i := range t.NumField() {
		if k := t.Field(i).Tag.Get("yaml"); k != "" {
			ks = append(ks, k)
		}
	}
	return ks
}

// MarshalJSON writes the description with the names of the YAML form.
func (a Arch) MarshalJSON() ([]byte, error) {
	var v any = a.Chip
	if a.Chip == nil {
		v = a.GPU
	}
	b, err := yaml.Marshal(v)
	if err != nil {
		return nil, err
	}
	return yaml.YAMLToJSON(b)
}
