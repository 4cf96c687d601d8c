package main

import (
	"bytes"
	"strings"
	"sync"
	"testing"
	"time"

	"situ/runtime/explore"
)

// Lines of progress say what is done, how much is left, and for how long at the
// pace of this part of the work.
func TestProgressLines(t *testing.T) {
	var l progressLines
	if s := l.say(time.Now()); s != "preparing" {
		t.Errorf("before anything: %q", s)
	}
	l.note(explore.Progress{Doing: "looking", Done: 40, Total: 240, Front: 3})
	if s := l.say(time.Now()); s != "looking: 40 of 240, front of 3" {
		t.Errorf("without a pace: %q", s)
	}
	l.note(explore.Progress{Doing: "looking", Done: 140, Total: 240, Front: 5})
	if s := l.say(l.began.Add(30 * time.Second)); s != "looking: 140 of 240, front of 5, 30s left" {
		t.Errorf("half way: %q", s)
	}
	l.note(explore.Progress{Doing: "looking", Done: 240, Total: 240, Front: 5})
	if s := l.say(l.began.Add(time.Minute)); s != "looking: 240 of 240, front of 5" {
		t.Errorf("at its end: %q", s)
	}
	l.note(explore.Progress{Doing: "emulating", Done: 0, Total: 9})
	if s := l.say(l.began.Add(time.Hour)); s != "emulating: 0 of 9, front of 0" {
		t.Errorf("the next part: %q", s)
	}
}

// Lines come until they are stopped, and none after.
func TestLines(t *testing.T) {
	var out safeBuffer
	stop := lines(&out, time.Millisecond, func(since time.Duration) string { return "working" })
	for end := time.Now().Add(10 * time.Second); strings.Count(out.String(), "situ: working\n") < 3; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("in ten seconds there came %q", out.String())
		}
	}
	stop()
	stop()
	was := out.String()
	time.Sleep(20 * time.Millisecond)
	if out.String() != was {
		t.Error("a line came after the end")
	}
}

// safeBuffer is a buffer that two goroutines may use.
type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}
