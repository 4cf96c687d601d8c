package timing

import "situ/emulator/effect"

// A memory is watched in pages, at most maxPages of them, and pages in groups.
const (
	maxPages   = 4096
	groupShift = 5 // log2 of the pages of a group
)

// pages remembers, for each page of a memory, when its last write, its last read
// and its last departure (the read of a send or store) end. A reader waits for
// writes, a writer for all three.
type pages struct {
	shift               uint // log2 of the bytes of a page
	written, read, left times
}

// times holds the latest time of every page. Long ranges touch groups instead
// of their pages: a page's time is the greater of its own and its group's all.
type times struct {
	page    []int64
	all     []int64 // of a group: a time that holds for all of its pages
	most    []int64 // of a group: the greatest of its pages
	touched int64   // no group from here on has been
}

// reset makes p the pages of a memory of some bytes that nothing has touched,
// each of at least minPage bytes, a power of two.
func (p *pages) reset(size, minPage int64) {
	p.shift = 0
	for 1<<p.shift < minPage || (size-1)>>p.shift >= maxPages {
		p.shift++
	}
	n := int64(0)
	if size > 0 {
		n = (size-1)>>p.shift + 1
	}
	p.written.reset(n)
	p.read.reset(n)
	p.left.reset(n)
}

// reset makes t the times of n pages, all 0. It clears what was touched only.
func (t *times) reset(n int64) {
	const size = 1 << groupShift
	for g, most := range t.most[:t.touched] {
		if most > 0 {
			t.all[g], t.most[g] = 0, 0
			clear(t.page[g*size : min((g+1)*size, len(t.page))])
		}
	}
	t.touched = 0
	groups := (n + size - 1) >> groupShift
	if int64(cap(t.page)) < n {
		buf := make([]int64, n+2*groups)
		*t = times{page: buf[:n:n], all: buf[n:][:groups:groups], most: buf[n+groups:]}
	}
	t.page, t.all, t.most = t.page[:n], t.all[:groups], t.most[:groups]
}

// latest returns the greatest time of pages lo..hi-1, at least from.
func (t *times) latest(lo, hi, from int64) int64 {
	for lo < hi {
		g := lo >> groupShift
		end := min((g+1)<<groupShift, hi)
		switch {
		case t.most[g] <= from:
		case end-lo == 1<<groupShift:
			from = t.most[g]
		default:
			from = max(from, t.all[g])
			for _, x := range t.page[lo:end] {
				if x > from {
					from = x
				}
			}
		}
		lo = end
	}
	return from
}

// raise sets pages lo..hi-1 to at least a time.
func (t *times) raise(lo, hi, to int64) {
	if lo < hi {
		t.touched = max(t.touched, (hi-1)>>groupShift+1)
	}
	for lo < hi {
		g := lo >> groupShift
		end := min((g+1)<<groupShift, hi)
		t.most[g] = max(t.most[g], to)
		switch {
		case end-lo == 1<<groupShift:
			t.all[g] = max(t.all[g], to)
		case t.all[g] < to:
			pages := t.page[lo:end]
			for i := range pages {
				if pages[i] < to {
					pages[i] = to
				}
			}
		}
		lo = end
	}
}

// span returns the pages that a region touches, none when it is empty.
func (p *pages) span(r *effect.Region) (lo, hi int64) {
	if r.Hi <= r.Lo {
		return 0, 0
	}
	return r.Lo >> p.shift, (r.Hi-1)>>p.shift + 1
}

// ready returns when a region of the memory may be read or written, at least
// from.
func (p *pages) ready(r *effect.Region, from int64) int64 {
	lo, hi := p.span(r)
	from = p.written.latest(lo, hi, from)
	if r.Write {
		from = p.left.latest(lo, hi, p.read.latest(lo, hi, from))
	}
	return from
}

// readyRemote is ready for a write from another cluster. It waits for reads
// only: where bytes pass between clusters a program has a barrier, which waits
// for sends and stores, so that such a write needs not be remembered here, and
// where its hull meets that of a departure the bytes are different ones.
func (p *pages) readyRemote(r *effect.Region, from int64) int64 {
	lo, hi := p.span(r)
	return p.read.latest(lo, hi, from)
}

// depart notes that a region is being sent until end.
func (p *pages) depart(r *effect.Region, end int64) {
	lo, hi := p.span(r)
	p.left.raise(lo, hi, end)
}

// set notes that a region is in use until end.
func (p *pages) set(r *effect.Region, end int64) {
	lo, hi := p.span(r)
	if r.Write {
		p.written.raise(lo, hi, end)
	} else {
		p.read.raise(lo, hi, end)
	}
}
