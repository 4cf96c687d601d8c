package ptx

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
)

// A footprint is which sectors of each buffer a launch touches. For a sampled
// launch it also estimates what the whole grid would touch. Buffers are cut
// where a pointer among the arguments points, as what lies there is likely to
// be used in another way.
type footprint struct {
	spans   []span
	of      []*bufferFoot // by span, nil until touched
	last    int
	sampled bool
}

// A span is a buffer or a part of one.
type span struct {
	name string
	base uint64
	size int
}

// spans returns the buffers in the order of their addresses, cut at pointers.
func (l *launch) spans() []span {
	var cuts []uint64
	for _, a := range l.cfg.Args {
		if len(a) == 8 {
			cuts = append(cuts, binary.LittleEndian.Uint64(a)&^(sectorBytes-1))
		}
	}
	slices.Sort(cuts)
	var out []span
	for _, r := range l.regions {
		s := span{r.name, r.base, len(r.data)}
		for _, c := range slices.Compact(cuts) {
			if at := c - s.base; c > s.base && at < uint64(s.size) {
				out = append(out, span{s.name, s.base, int(at)})
				s = span{fmt.Sprintf("%s+%d", r.name, c-r.base), c, s.size - int(at)}
			}
		}
		out = append(out, s)
	}
	return out
}

func (s span) sectors() int64 { return int64(s.size+sectorBytes-1) / sectorBytes }

// bufferFoot is the footprint of one buffer.
type bufferFoot struct {
	read, written, fetched set
	// Of a sampled launch: which block touched a sector last, and how many
	// pairs of a block and a sector there are.
	readBy, writtenBy       []int32
	readPairs, writtenPairs int64
	reads, writes           int64 // transactions
	first                   int64 // sectors fetched from memory the first time
	// Reads of a sector that was read before: by the same group of resident
	// blocks, or last by an earlier group; and how many went to memory.
	readIn            []int32
	near, far         int64
	nearMiss, farMiss int64
}

// set is a bit set with the number of its members.
type set struct {
	bits []uint64
	n    int64
}

func (s *set) add(i uint64) bool {
	b := uint64(1) << (i % 64)
	if s.bits[i/64]&b != 0 {
		return false
	}
	s.bits[i/64] |= b
	s.n++
	return true
}

func newFootprint(l *launch) *footprint {
	spans := l.spans()
	return &footprint{spans: spans, of: make([]*bufferFoot, len(spans)), sampled: l.blocks != nil}
}

// at returns the footprint of the buffer a sector lies in, and its index there.
func (f *footprint) at(sector uint64) (*bufferFoot, uint64) {
	addr := sector * sectorBytes
	r := f.spans[f.last]
	if addr-r.base >= uint64(r.size) {
		lo, hi := 0, len(f.spans)-1
		for lo < hi {
			mid := (lo + hi + 1) / 2
			if f.spans[mid].base <= addr {
				lo = mid
			} else {
				hi = mid - 1
			}
		}
		f.last = lo
		r = f.spans[lo]
	}
	b := f.of[f.last]
	if b == nil {
		n := int(r.sectors())
		words := (n + 63) / 64
		b = &bufferFoot{read: set{bits: make([]uint64, words)}, written: set{bits: make([]uint64, words)}}
		if f.sampled {
			b.fetched.bits = make([]uint64, words)
			b.readBy, b.writtenBy, b.readIn = make([]int32, n), make([]int32, n), make([]int32, n)
		}
		f.of[f.last] = b
	}
	return b, (addr - r.base) / sectorBytes
}

// block adds what the i-th block that ran sent.
func (f *footprint) block(i int, stream []transaction) {
	by := int32(i + 1)
	for _, t := range stream {
		b, s := f.at(t.sector())
		if t.reads() {
			b.reads++
			b.read.add(s)
			if f.sampled && b.readBy[s] != by {
				b.readBy[s] = by
				b.readPairs++
			}
		}
		if t.written != 0 {
			b.writes++
			b.written.add(s)
			if f.sampled && b.writtenBy[s] != by {
				b.writtenBy[s] = by
				b.writtenPairs++
			}
		}
	}
}

// fetch notes whether a read of a sector by a group of resident blocks of a sample
// went to memory.
func (f *footprint) fetch(sector uint64, group int32, miss bool) {
	missed := int64(0)
	if miss {
		missed = 1
	}
	b, s := f.at(sector)
	switch {
	case b.fetched.add(s):
		b.first += missed
	case b.readIn[s] == group:
		b.near++
		b.nearMiss += missed
	default:
		b.far++
		b.farMiss += missed
	}
	b.readIn[s] = group
}

// unique estimates how many different sectors the whole grid of total blocks
// touches, when n of them, chosen at random, touch seen ones in pairs pairs of
// block and sector. It assumes that within a span each sector is touched by
// the same number k of blocks. Then the sample sees a sector with probability
//
//	p(k) = 1 - C(total-k, n) / C(total, n)
//
// and seen / pairs = p(k) / (k·n/total), which is solved for k by bisection.
func unique(seen, pairs int64, n, total int, limit int64) int64 {
	if seen == 0 || n >= total {
		return seen
	}
	f := float64(n) / float64(total)
	p := func(k float64) float64 {
		if k > float64(total-n) {
			return 1
		}
		lg := func(x float64) float64 { v, _ := math.Lgamma(x + 1); return v }
		t, m := float64(total), float64(n)
		return 1 - math.Exp(lg(t-k)-lg(t-k-m)-lg(t)+lg(t-m))
	}
	ratio := float64(seen) / float64(pairs)
	lo, hi := 1.0, float64(total)
	for range 60 {
		k := (lo + hi) / 2
		if p(k)/(k*f) > ratio {
			lo = k
		} else {
			hi = k
		}
	}
	return min(int64(math.Round(float64(seen)/p(lo))), limit)
}

// estimate is the traffic of the whole grid between L2 and memory, from that
// of a sample. Sectors fetched for the first time follow the estimated
// footprint. Reads of a sector again miss at the rate seen in the sample, apart
// for those within a group of resident blocks, whose number scales with the
// blocks, and those across groups, which are the rest. Writes beyond the first
// of a sector miss at one rate.
func (f *footprint) estimate(n, total int, writtenSectors int64) (readBytes, writeBytes int64) {
	scale := float64(total) / float64(n)
	var reads, writes, far, farMiss, allFar float64
	var rewrites, allRewrites, written float64
	for i, b := range f.of {
		if b == nil {
			continue
		}
		limit := f.spans[i].sectors()
		if b.read.n > 0 {
			u := float64(unique(b.read.n, b.readPairs, n, total, limit))
			reads += u*float64(b.first)/float64(b.read.n) + scale*float64(b.nearMiss)
			far += float64(b.far)
			farMiss += float64(b.farMiss)
			allFar += max(0, scale*float64(b.reads-b.near)-u)
		}
		if b.written.n > 0 {
			u := float64(unique(b.written.n, b.writtenPairs, n, total, limit))
			writes += u
			written += float64(b.written.n)
			rewrites += float64(b.writes - b.written.n)
			allRewrites += max(0, scale*float64(b.writes)-u)
		}
	}
	if far > 0 {
		reads += allFar * farMiss / far
	}
	if rewrites > 0 {
		writes += allRewrites * max(0, float64(writtenSectors)-written) / rewrites
	}
	return int64(math.Round(reads)) * sectorBytes, int64(math.Round(writes)) * sectorBytes
}
