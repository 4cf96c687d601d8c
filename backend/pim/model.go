package pim

import "situ/arch"

// tensor is a value as the back end sees it: a window on a store.
type tensor struct {
	name  string
	dims  dims
	elem  int // bytes of an element: 1 for codes, 4 for float32
	zero  int // code of real zero, which borders hold; 0 for float32
	store *store
	off   dims // of element 0 in the store
	// reshaped tensors show the whole of a dense store under other dimensions;
	// off is then zero.
	reshaped bool
}

// store is memory of one or several tensors: a row-major array of which each
// cluster holds a box.
type store struct {
	name   string
	dims   dims
	elem   int
	tens   []*tensor
	data   []byte // constants: the elements
	absent int64  // constants that are described: the bytes that data would have
	remote bool   // constants that stay in DRAM and are read from there entry by entry
	fill   int    // value of the border, when bordered
	whole  bool   // a reshaped tensor needs all of it, dense, without border

	bordered bool  // some reader wants a border
	input    bool  // filled by the user, in DRAM
	output   bool  // wanted by the user, in DRAM
	kept     bool  // holds a state, from run to run
	dram     int64 // home in DRAM of inputs, outputs and spilled stores, else −1

	index   int
	boxes   []box    // of each cluster, from the distribution
	got     []box    // of each cluster: the hull of what it reads
	holding *holding // the same and what follows from it
	spilled bool     // lives in DRAM; clusters hold strips while they work
	inner   bool     // as spilled, but made and used strip by strip in one group: not even in DRAM
	addr    int64    // in the scratchpad, the same on every cluster
	over    *store   // whose place it takes over, nil for a place of its own
	size    int64    // bytes of the largest box
	item    int      // index of the item that holds it
	tried   bool     // to bring it back to the scratchpad, see plan.unspill
	writers []*step
	readers []*step
}

// constant reports whether s holds a constant.
func (s *store) constant() bool { return s.data != nil || s.absent > 0 }

// constBytes returns the size of the constant in s.
func (s *store) constBytes() int64 { return int64(len(s.data)) + s.absent }

// window returns the view of t in a buffer that holds box b of its store.
func (t *tensor) window(addr int64, b box) view {
	if t.reshaped {
		return dense(addr, whole(t.dims), t.elem)
	}
	v := dense(addr, b, t.elem)
	for i := range v.lo {
		v.lo[i] -= t.off[i]
	}
	return v
}

// inStore returns the box of the store that covers box b of t. What lies
// outside a reshaped tensor has no place.
func (t *tensor) inStore(b box) box {
	if !t.reshaped {
		return b.shift(t.off)
	}
	if b.empty() {
		return box{}
	}
	// The elements of b lie between two positions of the dense array; take all
	// of the store's outermost slices that they touch.
	first, last := int64(0), int64(0)
	for i := range b.lo {
		first = first*int64(t.dims[i]) + int64(b.lo[i])
		last = last*int64(t.dims[i]) + int64(b.hi[i]-1)
	}
	out := whole(t.store.dims)
	inner := t.store.dims.numel()
	for i := range out.lo {
		inner /= int64(t.store.dims[i])
		f, l := int(first/inner), int(last/inner)
		out.lo[i], out.hi[i] = f, l+1
		if f != l {
			break
		}
		first, last = first%inner, last%inner
	}
	return out
}

// isWhole reports whether t shows all of its store.
func (t *tensor) isWhole() bool { return t.reshaped || t.dims == t.store.dims }

// kernel is what a step computes. Boxes are in the coordinates of the step's
// result and operands.
type kernel interface {
	// need returns the part of operand i from which the part out of the result
	// follows. It may reach outside the operand: a border of its zero.
	need(i int, out box) box
	// cuts says along which axes the result may be computed in parts.
	// Kernels that are channelled leave out channels.
	cuts() [4]bool
	// cycles estimates the time of one cluster for a part of the result.
	cycles(c *arch.Chip, out box) int64
	// params returns the constants that a cluster needs in its scratchpad to
	// compute a part; emit finds them at e.params.
	params(out box) []byte
	// emit writes the instructions that compute a part, dst and src being the
	// views of result and operands in the cluster's scratchpad.
	emit(e *emitter, out box, dst view, src []view)
}

// step is one operation of the compiled program, on all clusters.
type step struct {
	kernel
	index int
	layer int32
	in    []*tensor
	out   *tensor
	parts []box // of the result, one a cluster; empty where it takes no part
	split int32 // their number, see splits
	near  []*step
	sends bool   // some cluster needs what another computes in it
	alike []bool // of each cluster: it does as the one before, see plan.alikeClusters; nil if not known
	once  bool   // it runs before the first run alone, to take a state from an input

	blobs  []blob // constants, one for each different part
	blobOf []int  // of each cluster, index in blobs
	blobAt int64  // scratchpad address of the constants when they do not stay
	group  *group // the strips it runs in, nil when it runs at once
}

// end returns the last step that runs together with s.
func (s *step) end() int {
	if s.group != nil {
		return s.group.last
	}
	return s.index
}

// blob is constants of a step in the DRAM image and in the scratchpad.
type blob struct {
	data   []byte
	consts []int64 // offset of each constant operand, −1 for others
	at     int64   // in the DRAM image, and in the scratchpad when constants stay
}

// channelled is implemented by kernels whose channels belong together, by their
// parameters or otherwise. They can be split by channels over clusters; cuts says
// whether a part can be cut by channels again.
type channelled interface {
	grain() int // channels at multiples of which it is best cut
}

// grain returns the multiples at which the result of s is best cut.
func (s *step) grain(axis int) int {
	if k, ok := s.kernel.(channelled); ok && axis == 3 {
		return k.grain()
	}
	return 1
}

// allCuts is for kernels that compute every element by itself.
var allCuts = [4]bool{true, true, true, true}
