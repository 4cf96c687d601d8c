// Package store keeps what explorations learnt in one SQLite file: results of
// stages by what produced them, and runs with the fate of each of their points.
//
// Every change is one transaction in write-ahead mode, so a process that is
// killed at any moment leaves the file as it was after some batch. Several
// processes may use one file.
//
// To store something new: add it to the schema under a higher version, and a
// step to migrate.
package store

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	_ "modernc.org/sqlite" // the driver "sqlite"
)

// Store is an open file. It is safe for concurrent use.
type Store struct {
	db   *sql.DB
	path string
}

// version is that of the schema, kept in the file.
const version = 3

const schema = `
CREATE TABLE results (
	key   TEXT PRIMARY KEY, -- hash of everything that the value follows from
	stage TEXT NOT NULL,
	value BLOB NOT NULL,    -- JSON
	times INTEGER NOT NULL  -- how often it was computed: once, unless two processes raced
) WITHOUT ROWID;
CREATE TABLE runs (
	id       INTEGER PRIMARY KEY,
	identity TEXT NOT NULL, -- hash of space, models, architecture, seed and version
	name     TEXT NOT NULL,
	space    BLOB NOT NULL, -- the space file
	inputs   BLOB NOT NULL, -- JSON: names and hashes
	seed     INTEGER NOT NULL,
	version  TEXT NOT NULL,
	started  INTEGER NOT NULL, -- seconds since 1970
	seconds  REAL NOT NULL,
	status   TEXT NOT NULL,
	summary  BLOB NOT NULL, -- JSON
	uid      TEXT NOT NULL, -- a name that no other run of any store has
	alive    INTEGER NOT NULL -- seconds since 1970 when a process last worked on it
);
CREATE TABLE points (
	run      INTEGER NOT NULL REFERENCES runs(id),
	point    TEXT NOT NULL,
	stage    TEXT NOT NULL, -- the last it went through
	fate     TEXT NOT NULL,
	reason   TEXT NOT NULL,
	settings BLOB NOT NULL, -- JSON
	result   BLOB NOT NULL, -- JSON
	PRIMARY KEY (run, point)
) WITHOUT ROWID;
`

// Open opens a store, which it makes when there is none.
func Open(path string) (*Store, error) {
	if st, err := os.Stat(path); err == nil && !st.Mode().IsRegular() {
		return nil, fmt.Errorf("store %s is not a regular file", path)
	}
	// SQLite does not say why a file cannot be opened.
	if f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644); err != nil {
		return nil, fmt.Errorf("store: %w", err)
	} else if err := f.Close(); err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	q := url.Values{"_pragma": {"busy_timeout(20000)", "journal_mode(WAL)", "synchronous(NORMAL)"}, "_txlock": {"immediate"}}
	db, err := sql.Open("sqlite", "file:"+(&url.URL{Path: path}).EscapedPath()+"?"+q.Encode())
	if err != nil {
		return nil, fmt.Errorf("store %s: %w", path, err)
	}
	db.SetMaxOpenConns(1) // SQLite has one writer; readers of this process wait less than they gain
	s := &Store{db, path}
	if err := s.migrate(); err != nil {
		db.Close()
		return nil, err
	}
	return s, nil
}

// steps bring a file from the version of their index to the next.
var steps = [version]string{
	1: "ALTER TABLE runs ADD COLUMN uid TEXT NOT NULL DEFAULT ''; UPDATE runs SET uid = hex(randomblob(16))",
	2: "ALTER TABLE runs ADD COLUMN alive INTEGER NOT NULL DEFAULT 0",
}

// migrate makes the tables of a new file, brings those of older versions up to
// date, and refuses files of others.
func (s *Store) migrate() error {
	return s.change(func(tx *sql.Tx) error {
		var v, tables int
		if err := tx.QueryRow("PRAGMA user_version").Scan(&v); err != nil {
			return err
		}
		if err := tx.QueryRow("SELECT count(*) FROM sqlite_master").Scan(&tables); err != nil {
			return err
		}
		switch {
		case v == version:
			return nil
		case v > version || v == 0 && tables > 0:
			return fmt.Errorf("is not a store of this version of situ (%d, want %d)", v, version)
		case v == 0:
			if _, err := tx.Exec(schema); err != nil {
				return err
			}
			v = version
		}
		for ; v < version; v++ {
			if _, err := tx.Exec(steps[v]); err != nil {
				return err
			}
		}
		_, err := tx.Exec(fmt.Sprintf("PRAGMA user_version = %d", version))
		return err
	})
}

// named adds the file to an error of its data base.
func (s *Store) named(err *error) {
	if *err != nil {
		*err = fmt.Errorf("store %s: %w", s.path, *err)
	}
}

// Close closes the file.
func (s *Store) Close() error { return s.db.Close() }

// change runs f in a transaction.
func (s *Store) change(f func(tx *sql.Tx) error) (err error) {
	defer s.named(&err)
	tx, err := s.db.Begin()
	if err != nil {
		return err
	}
	if err := f(tx); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

// Result is what a stage computed.
type Result struct {
	Key, Stage string
	Value      []byte
}

// Get returns the value of a key.
func (s *Store) Get(ctx context.Context, key string) (v []byte, ok bool, err error) {
	defer s.named(&err)
	err = s.db.QueryRowContext(ctx, "SELECT value FROM results WHERE key = ?", key).Scan(&v)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, false, nil
	}
	return v, err == nil, err
}

// GetAll returns the values of those of the keys that there are.
func (s *Store) GetAll(ctx context.Context, keys []string) (values map[string][]byte, err error) {
	defer s.named(&err)
	values = map[string][]byte{}
	for part := range slices.Chunk(keys, 500) {
		args := make([]any, len(part))
		for i, k := range part {
			args[i] = k
		}
		rows, err := s.db.QueryContext(ctx, "SELECT key, value FROM results WHERE key IN (?"+strings.Repeat(",?", len(part)-1)+")", args...)
		if err != nil {
			return nil, err
		}
		for rows.Next() {
			var k string
			var v []byte
			if err := rows.Scan(&k, &v); err != nil {
				return nil, errors.Join(err, rows.Close())
			}
			values[k] = v
		}
		if err := rows.Err(); err != nil {
			return nil, err
		}
	}
	return values, nil
}

// Point is the fate of a point in a run.
type Point struct {
	Point, Stage, Fate, Reason string
	Settings, Result           []byte
}

// Put stores results and fates of points of a run together: all or none.
func (s *Store) Put(run int64, results []Result, points []Point) error {
	if len(results)+len(points) == 0 {
		return nil
	}
	return s.change(func(tx *sql.Tx) error {
		rs, err := tx.Prepare("INSERT INTO results VALUES (?, ?, ?, 1) ON CONFLICT (key) DO UPDATE SET times = times + 1")
		if err != nil {
			return err
		}
		defer rs.Close()
		for _, r := range results {
			if _, err := rs.Exec(r.Key, r.Stage, r.Value); err != nil {
				return err
			}
		}
		ps, err := tx.Prepare("INSERT OR REPLACE INTO points VALUES (?, ?, ?, ?, ?, ?, ?)")
		if err != nil {
			return err
		}
		defer ps.Close()
		for _, p := range points {
			if _, err := ps.Exec(run, p.Point, p.Stage, p.Fate, p.Reason, p.Settings, p.Result); err != nil {
				return err
			}
		}
		return nil
	})
}

// Run is one exploration.
type Run struct {
	ID       int64     `json:"id"`
	Identity string    `json:"identity"`
	Name     string    `json:"name"`
	Space    []byte    `json:"-"`
	Inputs   []byte    `json:"-"`
	Seed     uint64    `json:"seed"`
	Version  string    `json:"version"`
	Started  time.Time `json:"started"`
	Seconds  float64   `json:"seconds"`
	Status   string    `json:"status"` // Running, Done, Stopped or Interrupted
	Summary  []byte    `json:"-"`
	UID      string    `json:"-"` // a name that no other run of any store has
}

// Statuses of a run.
const (
	Running     = "running"
	Stopped     = "stopped" // by an error, or by whoever ran it
	Done        = "done"
	Interrupted = "interrupted" // entered as Running, but nobody has worked on it for some time
)

// BeatEvery is how often a process that works on a run calls Update; after several
// times as long without, the run counts as interrupted.
const BeatEvery = 5 * time.Second

const deadAfter = 6 * BeatEvery

// Begin enters a new run, and fills in its number and unique name.
func (s *Store) Begin(r *Run) (err error) {
	defer s.named(&err)
	r.UID = rand.Text()
	res, err := s.db.Exec("INSERT INTO runs (identity, name, space, inputs, seed, version, started, seconds, status, summary, uid, alive) VALUES (?, ?, ?, ?, ?, ?, ?, 0, ?, ?, ?, ?)",
		r.Identity, r.Name, r.Space, r.Inputs, int64(r.Seed), r.Version, r.Started.Unix(), Running, []byte("{}"), r.UID, time.Now().Unix())
	if err != nil {
		return err
	}
	r.ID, err = res.LastInsertId()
	return err
}

// Update sets what changes of a run: status, seconds and summary.
func (s *Store) Update(id int64, status string, seconds float64, summary []byte) (err error) {
	defer s.named(&err)
	_, err = s.db.Exec("UPDATE runs SET status = ?, seconds = ?, summary = ?, alive = ? WHERE id = ?", status, seconds, summary, time.Now().Unix(), id)
	return err
}

const runColumns = "SELECT id, identity, name, space, inputs, seed, version, started, seconds, status, summary, uid, alive FROM runs"

// Runs lists runs, the oldest first; with an identity only those of it.
func (s *Store) Runs(identity string) (out []Run, err error) {
	defer s.named(&err)
	rows, err := s.db.Query(runColumns+" WHERE ? = '' OR identity = ? ORDER BY id", identity, identity)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var r Run
		var seed, started, alive int64
		if err := rows.Scan(&r.ID, &r.Identity, &r.Name, &r.Space, &r.Inputs, &seed, &r.Version, &started, &r.Seconds, &r.Status, &r.Summary, &r.UID, &alive); err != nil {
			return nil, err
		}
		r.Seed, r.Started = uint64(seed), time.Unix(started, 0)
		if r.Status == Running && time.Since(time.Unix(alive, 0)) > deadAfter {
			r.Status = Interrupted
		}
		out = append(out, r)
	}
	return out, rows.Err()
}

// Find returns a run by its number, or the latest for 0.
func (s *Store) Find(id int64) (*Run, error) {
	runs, err := s.Runs("")
	if err != nil {
		return nil, err
	}
	for i := len(runs) - 1; i >= 0; i-- {
		if id == 0 || runs[i].ID == id {
			return &runs[i], nil
		}
	}
	if id == 0 {
		return nil, fmt.Errorf("store %s holds no runs", s.path)
	}
	return nil, fmt.Errorf("store %s holds no run %d; situ runs list shows those it does", s.path, id)
}

// Points calls f for each point of a run, in the order of their names.
func (s *Store) Points(run int64, f func(Point) error) (err error) {
	rows, err := s.db.Query("SELECT point, stage, fate, reason, settings, result FROM points WHERE run = ? ORDER BY point", run)
	if err != nil {
		s.named(&err)
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var p Point
		if err := rows.Scan(&p.Point, &p.Stage, &p.Fate, &p.Reason, &p.Settings, &p.Result); err != nil {
			s.named(&err)
			return err
		}
		if err := f(p); err != nil { // f's own
			return err
		}
	}
	err = rows.Err()
	s.named(&err)
	return err
}

// Counts returns how many results a stage has, and how often they were computed
// in all.
func (s *Store) Counts(stage string) (results, times int64, err error) {
	defer s.named(&err)
	err = s.db.QueryRow("SELECT count(*), coalesce(sum(times), 0) FROM results WHERE stage = ?", stage).Scan(&results, &times)
	return results, times, err
}
