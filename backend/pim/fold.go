package pim

import "slices"

// foldTransposes makes products of two activations read their operands, and write
// their result, where these lie before and after transposes: heads side by side in
// the channels, keys by positions. The transposes then go. A projection split by
// channels over clusters so makes each cluster's heads where they are needed.
func (l *lowering) foldTransposes() {
	f := &folder{lowering: l}
	f.count()
	for _, s := range l.steps {
		k, ok := s.kernel.(*pair)
		if !ok {
			continue
		}
		ext := k.size
		ext[3] = k.k
		f.operand(s, 0, &k.a, ext, func(a *access) bool { return k.k == 1 || a.axis[3] == 3 && a.mult[3] == 1 })
		ext = k.size
		ext[2] = k.k
		f.operand(s, 1, &k.b, ext, func(*access) bool { return true })
		f.result(s, k)
	}
	f.prune()
	f.flatten()
}

type folder struct {
	*lowering
	writers, readers map[*store][]*step
}

func (f *folder) count() {
	f.writers, f.readers = map[*store][]*step{}, map[*store][]*step{}
	for _, s := range f.steps {
		if s.out != nil {
			f.writers[s.out.store] = append(f.writers[s.out.store], s)
		}
		for _, t := range s.in {
			if r := f.readers[t.store]; len(r) == 0 || r[len(r)-1] != s {
				f.readers[t.store] = append(r, s)
			}
		}
	}
}

// transposition returns the piece of a step that does nothing but permute all of a
// tensor of its own store.
func transpositionOf(s *step) (*piece, bool) {
	k, ok := s.kernel.(*move)
	if !ok || len(k.pieces) != 1 || s.out.reshaped || s.out.dims != s.out.store.dims || s.out.store.bordered {
		return nil, false
	}
	p := &k.pieces[0]
	seen := [4]bool{}
	for d, axis := range p.axis {
		if p.step[d] != 1 {
			return nil, false
		}
		seen[axis] = true
	}
	return p, p.to == whole(s.out.dims) && p.from == dims{} && seen == [4]bool{true, true, true, true}
}

// operand looks for the place from which operand i of s can be read by an access
// that fits.
func (f *folder) operand(s *step, i int, a *access, ext dims, fits func(*access) bool) {
	t, now := s.in[i], *a
	for {
		st := t.store
		if st.constant() || st.bordered || t.off != (dims{}) || !t.reshaped && t.dims != st.dims {
			return
		}
		if t.reshaped {
			var ok bool
			if now, ok = now.rebased(ext, t.dims, st.dims); !ok {
				return
			}
			t = &tensor{name: t.name, dims: st.dims, elem: t.elem, zero: t.zero, store: st}
			if fits(&now) {
				s.in[i], *a = t, now
			}
		}
		w := f.writers[st]
		if len(w) != 1 {
			return
		}
		p, ok := transpositionOf(w[0])
		if !ok {
			return
		}
		for j, axis := range now.axis {
			now.axis[j] = p.axis[axis]
		}
		t = w[0].in[0]
		if fits(&now) {
			s.in[i], *a = t, now
		}
	}
}

// result looks for the place to which the result of s can be written.
func (f *folder) result(s *step, k *pair) {
	t := s.out
	r := f.readers[t.store]
	if len(r) != 1 || len(f.writers[t.store]) != 1 || t.store.output || t.reshaped || t.dims != t.store.dims {
		return
	}
	p, ok := transpositionOf(r[0])
	if !ok || len(f.writers[r[0].out.store]) != 1 || r[0].in[0].off != (dims{}) {
		return
	}
	now, ok := k.out.rebased(k.size, t.dims, r[0].in[0].dims)
	if !ok {
		return
	}
	for j, axis := range now.axis {
		now.axis[j] = slices.Index(p.axis[:], axis)
	}
	if now.writes(k.size) {
		s.out, k.out = r[0].out, now
		r[0].kernel = nil
	}
}

// flatten gives a store that its readers see under other dimensions than the
// product that writes it, or its writer under other ones than the products that
// read it, those of the former.
func (f *folder) flatten() {
	f.count()
	for _, s := range f.steps {
		if k, ok := s.kernel.(*pair); ok {
			f.flattenResult(s, k)
		}
	}
	for _, st := range f.stores {
		st.whole = st.whole && f.wantsWhole(st)
	}
}

func (f *folder) flattenResult(s *step, k *pair) {
	st := s.out.store
	if len(f.writers[st]) != 1 || len(f.readers[st]) == 0 || st.output || st.bordered || s.out.reshaped || s.out.dims != st.dims {
		return
	}
	var d dims
	for _, r := range f.readers[st] {
		for _, t := range r.in {
			if t.store != st {
				continue
			}
			if !t.reshaped || d != (dims{}) && t.dims != d {
				return
			}
			d = t.dims
		}
	}
	now, ok := k.out.rebased(k.size, st.dims, d)
	if !ok || !now.writes(k.size) {
		return
	}
	k.out, st.dims, s.out.dims = now, d, d
	for _, r := range f.readers[st] {
		for _, t := range r.in {
			if t.store == st {
				t.reshaped = false
			}
		}
	}
}

// wantsWhole reports whether a step needs all of a store, dense.
func (f *folder) wantsWhole(st *store) bool {
	wants := func(s *step, t *tensor) bool {
		if t.store != st {
			return false
		}
		switch s.kernel.(type) {
		case *alongF, *reduceF:
			return true
		}
		return t.reshaped
	}
	for _, s := range f.writers[st] {
		if wants(s, s.out) {
			return true
		}
	}
	for _, s := range f.readers[st] {
		for _, t := range s.in {
			if wants(s, t) {
				return true
			}
		}
	}
	return false
}

// prune drops steps whose result nobody reads any more, and those without a
// kernel.
func (f *folder) prune() {
	for {
		f.count()
		n := len(f.steps)
		f.steps = slices.DeleteFunc(f.steps, func(s *step) bool {
			if s.kernel == nil {
				return true
			}
			_, moves := s.kernel.(*move)
			return moves && len(f.readers[s.out.store]) == 0 && !s.out.store.output
		})
		if len(f.steps) == n {
			break
		}
	}
	f.stores = slices.DeleteFunc(f.stores, func(st *store) bool {
		return !st.constant() && len(f.writers[st])+len(f.readers[st]) == 0
	})
}

// rebased returns the access of the same elements of a dense array under other
// dimensions; ext are the extents of the indices. It reports false when there is
// none.
func (a access) rebased(ext, from, to dims) (access, bool) {
	stride := func(d dims, axis int) int {
		n := 1
		for _, e := range d[axis+1:] {
			n *= e
		}
		return n
	}
	var out access
	var last [4]int // of the elements reached along each dimension
	for j := range ext {
		step := a.mult[j] * stride(from, a.axis[j])
		if ext[j] == 1 || step == 0 {
			out.axis[j] = j
			continue
		}
		found := false
		for axis := range to {
			s := stride(to, axis)
			if to[axis] == 1 || step%s != 0 || step/s*(ext[j]-1) >= to[axis] {
				continue
			}
			out.axis[j], out.mult[j], found = axis, step/s, true
			last[axis] += step / s * (ext[j] - 1)
			break
		}
		if !found {
			return access{}, false
		}
	}
	for axis, n := range last {
		if n >= to[axis] {
			return access{}, false
		}
	}
	return out, true
}

// writes reports whether a product can write its result by the access: the columns
// one behind the other, and where two indices share a dimension the slower one in
// steps of the whole of the faster.
func (a *access) writes(size dims) bool {
	if size[3] > 1 && (a.axis[3] != 3 || a.mult[3] != 1) {
		return false
	}
	for axis := range 4 {
		var on []int
		for j := range a.axis {
			if a.axis[j] == axis && a.mult[j] > 0 {
				on = append(on, j)
			}
		}
		switch len(on) {
		case 0:
		case 1:
			if a.mult[on[0]] != 1 {
				return false
			}
		case 2:
			x, y := on[0], on[1]
			if a.mult[x] > a.mult[y] {
				x, y = y, x
			}
			if a.mult[x] != 1 || a.mult[y] != size[x] || size[x] == 1 {
				return false
			}
		default:
			return false
		}
	}
	return true
}
