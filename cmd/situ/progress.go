package main

import (
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"situ/runtime/explore"
)

// lineEvery is how often long work says how far it is where standard error is no
// terminal, and firstLine when it says so first.
const (
	lineEvery = 10 * time.Second
	firstLine = 2 * time.Second
)

// lines writes what say returns to w, a line soon and then every so often, until stop
// is called.
func lines(w io.Writer, every time.Duration, say func(since time.Duration) string) (stop func()) {
	began := time.Now()
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTimer(min(every, firstLine))
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				tick.Reset(every)
				if s := say(time.Since(began)); s != "" {
					fmt.Fprintln(w, "situ:", s)
				}
			}
		}
	}()
	return sync.OnceFunc(func() { close(done); <-ended })
}

// spinner shows on standard error that work goes on, once it has taken two seconds; in
// lines where that is no terminal. say changes what it says is done, stop removes it.
func spinner(cmd *cobra.Command, what string) (say func(what string), stop func()) {
	var now atomic.Pointer[string]
	now.Store(&what)
	say = func(what string) { now.Store(&what) }
	if !term.IsTerminal(int(os.Stderr.Fd())) {
		return say, lines(cmd.ErrOrStderr(), lineEvery, func(since time.Duration) string {
			return fmt.Sprintf("%s (%v)", *now.Load(), since.Round(time.Second))
		})
	}
	done := make(chan struct{})
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		select {
		case <-done:
			return
		case <-time.After(firstLine):
		}
		bar := progressbar.NewOptions(-1, progressbar.OptionSetDescription(*now.Load()),
			progressbar.OptionSetWriter(cmd.ErrOrStderr()), progressbar.OptionClearOnFinish(),
			progressbar.OptionSetElapsedTime(true), progressbar.OptionSpinnerType(14))
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-done:
				bar.Finish()
				return
			case <-tick.C:
				bar.Describe(*now.Load())
				bar.Add(1)
			}
		}
	}()
	return say, func() { close(done); <-finished }
}

// progress draws a bar with the time left of an exploration on standard error, or
// writes lines where that is no terminal; stop ends it.
func progress(cmd *cobra.Command) (func(explore.Progress), func()) {
	if !term.IsTerminal(int(os.Stderr.Fd())) {
		var l progressLines
		return l.note, lines(cmd.ErrOrStderr(), lineEvery, func(time.Duration) string { return l.say(time.Now()) })
	}
	var bar *progressbar.ProgressBar
	doing := ""
	_, prepared := spinner(cmd, "preparing")
	prepared = sync.OnceFunc(prepared)
	stop := func() {
		prepared()
		if bar != nil {
			_ = bar.Finish() // it only draws
		}
	}
	return func(p explore.Progress) {
		if p.Doing != doing {
			stop()
			doing = p.Doing
			bar = progressbar.NewOptions64(int64(p.Total), progressbar.OptionSetWriter(cmd.ErrOrStderr()), progressbar.OptionClearOnFinish(),
				progressbar.OptionSetPredictTime(true), progressbar.OptionShowCount(), progressbar.OptionThrottle(200*time.Millisecond))
		}
		bar.Describe(fmt.Sprintf("%s, front of %d", p.Doing, p.Front))
		_ = bar.Set64(int64(min(p.Done, p.Total))) // it only draws
	}, stop
}

// progressLines turns the progress of an exploration into lines.
type progressLines struct {
	mu    sync.Mutex
	now   explore.Progress
	first uint64    // what was done when this part began
	began time.Time // and when that was
}

// note takes what there is to say.
func (l *progressLines) note(p explore.Progress) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if p.Doing != l.now.Doing {
		l.first, l.began = p.Done, time.Now()
	}
	l.now = p
}

// say returns how far the exploration is, with the time left once there is a pace.
func (l *progressLines) say(now time.Time) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.now
	if p.Doing == "" {
		return "preparing"
	}
	s := fmt.Sprintf("%s: %d of %d, front of %d", p.Doing, min(p.Done, p.Total), p.Total, p.Front)
	if p.Done > l.first && p.Done < p.Total {
		each := now.Sub(l.began).Seconds() / float64(p.Done-l.first)
		s += fmt.Sprintf(", %v left", (time.Duration(each*float64(p.Total-p.Done)) * time.Second).Round(time.Second))
	}
	return s
}
