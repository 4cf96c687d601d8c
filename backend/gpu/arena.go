package gpu

import (
	"cmp"
	"slices"
)

// align is the alignment of every tensor in a buffer: that of device allocations,
// and a multiple of every vector access.
const align = 256

// span is a tensor that needs memory from launch first to launch last.
type span struct {
	bytes       int64
	first, last int
	offset      int64
}

// pack gives every span an offset so that spans alive at once do not overlap, and
// returns the bytes needed: the largest first, each at the lowest offset free.
func pack(spans []*span) int64 {
	order := slices.Clone(spans)
	slices.SortStableFunc(order, func(a, b *span) int { return cmp.Compare(b.bytes, a.bytes) })
	var placed []*span // by offset
	total := int64(0)
	for _, s := range order {
		size := alignUp(s.bytes)
		at := int64(0)
		for _, p := range placed {
			if p.last < s.first || s.last < p.first {
				continue
			}
			if p.offset >= at+size {
				break
			}
			at = max(at, p.offset+alignUp(p.bytes))
		}
		s.offset = at
		total = max(total, at+size)
		i, _ := slices.BinarySearchFunc(placed, at, func(p *span, at int64) int { return cmp.Compare(p.offset, at) })
		placed = slices.Insert(placed, i, s)
	}
	return total
}

func alignUp(n int64) int64 { return (n + align - 1) / align * align }
