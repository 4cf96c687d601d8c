package explore

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"situ/arch"
	"situ/frontend/onnx"
	"situ/models"
	"situ/runtime"
)

// Job is what another machine needs to compute stages of a run's designs: no
// file of the first one is read there.
type Job struct {
	Version string     `json:"version"` // of the program; another one may compute other results
	Name    string     `json:"name"`
	Space   []byte     `json:"space"` // the text
	Base    *arch.Chip `json:"base"`
	Models  []JobModel `json:"models"` // those of the space, in order
}

// JobModel is a model of a job.
type JobModel struct {
	Title string `json:"title"`
	Hash  string `json:"hash"` // of Data, and the name to send it under; "" for a model that ships

	Data []byte `json:"-"` // an ONNX file
}

// job describes the space for other machines.
func (s *Space) job() (*Job, error) {
	version, err := resultVersion()
	if err != nil {
		return nil, err
	}
	j := &Job{Version: version, Name: s.Name, Space: s.Text, Base: s.Base}
	for i := range s.Models {
		ref := &s.Models[i]
		m := JobModel{Title: ref.Name}
		if _, ships := models.Find(ref.Name); !ships {
			if m.Data, err = s.modelBytes(*ref); err != nil {
				return nil, err
			}
			m.Title, m.Hash = runtime.ModelName(s.modelPath(ref.Name)), hashOf(m.Data)
		}
		j.Models = append(j.Models, m)
	}
	return j, nil
}

// modelPath returns where the file of a model is.
func (s *Space) modelPath(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(filepath.Dir(s.File), name)
}

// modelBytes returns a model in one piece; of a model that ships, what tells it
// from others, which may be how it is built.
func (s *Space) modelBytes(ref ModelRef) ([]byte, error) {
	if m, ok := models.Find(ref.Name); ok {
		return m.Identity(ref.Dims)
	}
	b, err := onnx.Pack(s.modelPath(ref.Name))
	if err != nil {
		return nil, fmt.Errorf("model %s: %w", ref.Name, err)
	}
	return b, nil
}

// open reads a model of the space.
func (s *Space) open(ref *ModelRef, o runtime.ModelOptions) (*runtime.Model, error) {
	if ref.data != nil {
		return runtime.ReadModel(ref.title, ref.data, o)
	}
	if _, ships := models.Find(ref.Name); ships {
		return runtime.OpenModel(ref.Name, o)
	}
	return runtime.OpenModel(s.modelPath(ref.Name), o)
}

// Worker computes tasks of one job.
type Worker struct {
	s  *Space
	ev *evaluator
}

// ErrVersion says that a job is of another program.
var ErrVersion = errors.New("another version of situ")

// Version returns the hash of this program, under which its results are kept.
func Version() (string, error) { return resultVersion() }

// NewWorker prepares for the tasks of a job. Data returns the contents of a hash.
func NewWorker(j *Job, data func(hash string) ([]byte, error)) (*Worker, error) {
	version, err := resultVersion()
	if err != nil {
		return nil, err
	}
	if j.Version != version {
		return nil, fmt.Errorf("run %s is computed by program %s, this is program %s: %w; start workers from the very file that explores", j.Name, j.Version, version, ErrVersion)
	}
	if j.Base == nil {
		return nil, fmt.Errorf("run %s has no base architecture", j.Name)
	}
	if err := j.Base.Validate(); err != nil {
		return nil, fmt.Errorf("run %s: base architecture: %w", j.Name, err)
	}
	s, err := parseOn(j.Name, j.Space, j.Base)
	if err != nil {
		return nil, err
	}
	if len(s.Models) != len(j.Models) {
		return nil, fmt.Errorf("run %s: %d models, its space has %d", j.Name, len(j.Models), len(s.Models))
	}
	for i, m := range j.Models {
		ref := &s.Models[i]
		if m.Hash == "" {
			continue
		}
		if ref.data, err = data(m.Hash); err != nil {
			return nil, fmt.Errorf("model %s: %w", m.Title, err)
		}
		if got := hashOf(ref.data); got != m.Hash {
			return nil, fmt.Errorf("model %s: hash %s, want %s", m.Title, got, m.Hash)
		}
		ref.title = m.Title
	}
	ev := newEvaluator(s, nil)
	ev.accuracy = false // the one that explores knows it; costs do not follow from it
	return &Worker{s, ev}, nil
}

// Compute computes a task, one design after the other.
func (w *Worker) Compute(ctx context.Context, t *Task) (*Done, error) {
	if len(t.Keys) != len(t.Points) {
		return nil, fmt.Errorf("task of %d points has %d keys", len(t.Points), len(t.Keys))
	}
	ds := make([]*design, len(t.Points))
	for i, p := range t.Points {
		if err := w.s.has(p); err != nil {
			return nil, err
		}
		ds[i] = w.s.design(p)
		if ds[i].err != nil {
			return nil, fmt.Errorf("point %s: %w", p, ds[i].err)
		}
		key, err := w.ev.key(ctx, t.Stage, ds[i])
		if err != nil {
			return nil, err
		}
		if key != t.Keys[i] {
			return nil, fmt.Errorf("point %s: key %s here, %s where it is explored: the same program made another design or quantised model of it; processors that round differently do so", p, key, t.Keys[i])
		}
	}
	return w.ev.compute(ctx, t, ds, 1, nil)
}

// has reports whether a point is one of the space.
func (s *Space) has(p Point) error {
	if len(p) != len(s.Params) {
		return fmt.Errorf("point %s: %d coordinates, the space has %d parameters", p, len(p), len(s.Params))
	}
	for k, v := range p {
		if int(v) >= len(s.Params[k].Values) {
			return fmt.Errorf("point %s: parameter %s has %d values", p, s.Params[k].Name, len(s.Params[k].Values))
		}
	}
	return nil
}
