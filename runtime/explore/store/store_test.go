package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func open(t *testing.T, path string) *Store {
	t.Helper()
	s, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func begin(t *testing.T, s *Store, name string) *Run {
	t.Helper()
	r := &Run{Identity: "id-" + name, Name: name, Space: []byte("space"), Inputs: []byte("{}"), Seed: 1<<64 - 1, Version: "v", Started: time.Unix(1e9, 0)}
	if err := s.Begin(r); err != nil {
		t.Fatal(err)
	}
	return r
}

// Runs come back as they were entered, and are found by number and identity.
func TestRuns(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a b?#%.db") // a name that is no URL
	s := open(t, path)
	if _, err := s.Find(0); err == nil {
		t.Error("an empty store has a latest run")
	}
	a, b := begin(t, s, "a"), begin(t, s, "b")
	if a.UID == "" || a.UID == b.UID || a.ID == b.ID {
		t.Errorf("runs %+v and %+v are not told apart", a, b)
	}
	if err := s.Update(a.ID, Done, 2.5, []byte(`{"x":1}`)); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Error(err)
	}
	s.Close()
	s = open(t, path)
	a.Status, a.Seconds, a.Summary = Done, 2.5, []byte(`{"x":1}`)
	b.Status, b.Summary = Running, []byte("{}")
	got, err := s.Runs("")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]Run{*a, *b}, got); diff != "" {
		t.Error(diff)
	}
	// Nobody has worked on it for long.
	if _, err := s.db.Exec("UPDATE runs SET alive = alive - 60"); err != nil {
		t.Fatal(err)
	}
	if got, err = s.Runs(""); err != nil || got[0].Status != Done || got[1].Status != Interrupted {
		t.Errorf("after a minute without work: %+v, %v", got, err)
	}
	if got, err := s.Runs(b.Identity); err != nil || len(got) != 1 || got[0].ID != b.ID {
		t.Errorf("runs of %s: %+v, %v", b.Identity, got, err)
	}
	for id, want := range map[int64]int64{0: b.ID, a.ID: a.ID} {
		if r, err := s.Find(id); err != nil || r.ID != want {
			t.Errorf("run %d: %+v, %v", id, r, err)
		}
	}
	if _, err := s.Find(77); err == nil || !strings.Contains(err.Error(), "no run 77") {
		t.Errorf("a run that is not there: %v", err)
	}
}

// Results keep their first value and count how often they came; points keep their
// last fate. A change that fails in the middle leaves nothing.
func TestPut(t *testing.T) {
	ctx := context.Background()
	s := open(t, filepath.Join(t.TempDir(), "x.db"))
	run := begin(t, s, "a").ID
	put := func(results []Result, points []Point) {
		t.Helper()
		if err := s.Put(run, results, points); err != nil {
			t.Fatal(err)
		}
	}
	var many []Result
	var keys []string
	for i := range 1203 { // more than are asked for at once
		k := fmt.Sprintf("key%d", i)
		many = append(many, Result{k, "estimate", []byte(k)})
		keys = append(keys, k)
	}
	put(many, nil)
	put([]Result{{"key5", "estimate", []byte("other")}, {"e", "emulate", []byte("E")}}, []Point{{Point: "1", Stage: "bound", Fate: "dropped", Settings: []byte("[]"), Result: []byte("{}")}, {Point: "0", Stage: "space", Settings: []byte("[]"), Result: []byte("{}")}})
	put(nil, []Point{{Point: "1", Stage: "emulate", Fate: "front", Reason: "r", Settings: []byte("[]"), Result: []byte("{}")}})
	put(nil, nil)

	got, err := s.GetAll(ctx, append(keys, "absent"))
	if err != nil || len(got) != len(keys) || string(got["key5"]) != "key5" || string(got["key1202"]) != "key1202" {
		t.Errorf("%d of %d values, %v", len(got), len(keys), err)
	}
	if got, err := s.GetAll(ctx, nil); err != nil || len(got) != 0 {
		t.Errorf("no keys: %v, %v", got, err)
	}
	if v, ok, err := s.Get(ctx, "e"); string(v) != "E" || !ok || err != nil {
		t.Errorf("%q, %v, %v", v, ok, err)
	}
	if _, ok, err := s.Get(ctx, "absent"); ok || err != nil {
		t.Errorf("absent: %v, %v", ok, err)
	}
	if n, times, err := s.Counts("estimate"); n != 1203 || times != 1204 || err != nil {
		t.Errorf("%d results, %d times, %v", n, times, err)
	}
	var points []Point
	if err := s.Points(run, func(p Point) error { points = append(points, p); return nil }); err != nil {
		t.Fatal(err)
	}
	if len(points) != 2 || points[0].Point != "0" || points[1].Fate != "front" || points[1].Reason != "r" {
		t.Errorf("points %+v", points)
	}
	stop := errors.New("stop")
	if err := s.Points(run, func(Point) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("a reader that stops: %v", err)
	}

	// A row that the schema refuses takes the others of its batch with it.
	if err := s.change(func(tx *sql.Tx) error {
		if _, err := tx.Exec("INSERT INTO results VALUES ('half', 'estimate', 'x', 1)"); err != nil {
			return err
		}
		_, err := tx.Exec("INSERT INTO results VALUES ('rest', NULL, 'x', 1)")
		return err
	}); err == nil {
		t.Error("a result without a stage was stored")
	}
	if _, ok, _ := s.Get(ctx, "half"); ok {
		t.Error("half of a batch is in the store")
	}
}

// A file of the first version is brought up to date, once, with its runs.
func TestMigrate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "old.db")
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	old := strings.Replace(schema, "	summary  BLOB NOT NULL, -- JSON\n	uid      TEXT NOT NULL, -- a name that no other run of any store has\n	alive    INTEGER NOT NULL -- seconds since 1970 when a process last worked on it\n", "	summary  BLOB NOT NULL -- JSON\n", 1)
	if old == schema {
		t.Fatal("the schema has changed; this test makes its first version from it")
	}
	for _, q := range []string{old, "PRAGMA user_version = 1",
		"INSERT INTO runs VALUES (3, 'i', 'n', 's', '{}', 1, 'v', 5, 1.5, 'done', '{}')", "INSERT INTO runs VALUES (4, 'i', 'n', 's', '{}', 1, 'v', 6, 1.5, 'done', '{}')",
		"INSERT INTO results VALUES ('k', 'emulate', 'v', 1)"} {
		if _, err := db.Exec(q); err != nil {
			t.Fatal(err)
		}
	}
	db.Close()
	var uids []string
	for range 2 {
		s := open(t, path)
		runs, err := s.Runs("i")
		if err != nil || len(runs) != 2 || runs[0].UID == "" || runs[0].UID == runs[1].UID {
			t.Fatalf("runs %+v, %v", runs, err)
		}
		uids = append(uids, runs[0].UID)
		if v, ok, err := s.Get(t.Context(), "k"); !ok || string(v) != "v" || err != nil {
			t.Errorf("a result is lost: %q, %v", v, err)
		}
		begin(t, s, fmt.Sprint("new", len(uids)))
		s.Close()
	}
	if uids[0] != uids[1] {
		t.Error("opening a store again renames its runs")
	}
}

// Errors name the file.
func TestErrors(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "x.db"))
	run := begin(t, s, "a")
	if _, err := s.db.Exec("DROP TABLE points; DROP TABLE results; ALTER TABLE runs RENAME TO gone"); err != nil {
		t.Fatal(err)
	}
	_, _, get := s.Get(t.Context(), "k")
	_, all := s.GetAll(t.Context(), []string{"k"})
	_, runs := s.Runs("")
	_, _, counts := s.Counts("x")
	for what, err := range map[string]error{"get": get, "get all": all, "runs": runs, "counts": counts, "put": s.Put(run.ID, []Result{{"k", "s", nil}}, nil), "begin": s.Begin(run),
		"update": s.Update(run.ID, Done, 1, nil), "points": s.Points(run.ID, func(Point) error { return nil })} {
		if err == nil || strings.Count(err.Error(), s.path) != 1 {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// What is no store of ours is refused and left alone.
func TestRefused(t *testing.T) {
	dir := t.TempDir()
	file := func(name string, queries ...string) string {
		path := filepath.Join(dir, name)
		db, err := sql.Open("sqlite", path)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		for _, q := range queries {
			if _, err := db.Exec(q); err != nil {
				t.Fatal(err)
			}
		}
		return path
	}
	text := filepath.Join(dir, "text")
	if err := os.WriteFile(text, []byte(strings.Repeat("not a data base ", 100)), 0o644); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		file("later", "PRAGMA user_version = 99"):      "(99, want",
		file("foreign", "CREATE TABLE other (x TEXT)"): "(0, want",
		dir:                           "not a regular file",
		text:                          "not a database",
		filepath.Join(dir, "no", "x"): "x",
	} {
		if s, err := Open(path); err == nil {
			s.Close()
			t.Errorf("%s was opened", path)
		} else if !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
}
