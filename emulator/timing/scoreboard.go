package timing

import "situ/emulator/effect"

// maxPages bounds the pages of one memory.
const maxPages = 4096

// pages remembers, for each page of a memory, when its last write and its last
// read end. A reader waits for writes, a writer for both.
type pages struct {
	shift         uint
	written, read []int64
}

// newPages returns the pages of a memory of some bytes, each of at least
// minPage bytes, a power of two.
func newPages(size, minPage int64) pages {
	p := pages{}
	for 1<<p.shift < minPage || (size-1)>>p.shift >= maxPages {
		p.shift++
	}
	n := int64(0)
	if size > 0 {
		n = (size-1)>>p.shift + 1
	}
	p.written, p.read = make([]int64, n), make([]int64, n)
	return p
}

// ready returns when a region of the memory may be read or written, at least
// from.
func (p *pages) ready(r *effect.Region, from int64) int64 {
	if r.Hi <= r.Lo {
		return from
	}
	lo, hi := r.Lo>>p.shift, (r.Hi-1)>>p.shift+1
	for _, t := range p.written[lo:hi] {
		from = max(from, t)
	}
	if r.Write {
		for _, t := range p.read[lo:hi] {
			from = max(from, t)
		}
	}
	return from
}

// set notes that a region is in use until end.
func (p *pages) set(r *effect.Region, end int64) {
	if r.Hi <= r.Lo {
		return
	}
	lo, hi := r.Lo>>p.shift, (r.Hi-1)>>p.shift+1
	times := p.read[lo:hi]
	if r.Write {
		times = p.written[lo:hi]
	}
	for i, t := range times {
		times[i] = max(t, end)
	}
}
