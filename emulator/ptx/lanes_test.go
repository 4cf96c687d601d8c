package ptx

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestVectors holds the operations for a machine's vectors against the loops, the
// result in a register of its own and in that of an operand.
func TestVectors(t *testing.T) {
	if len(vector32) == 0 {
		t.Skip("this machine has only the loops")
	}
	rapid.Check(t, func(t *rapid.T) {
		var a, b, c [lanes]uint64
		var a32, b32, c32 [lanes]uint32
		gen := interesting()
		for i := range lanes {
			a[i], b[i], c[i] = gen.Draw(t, "a"), gen.Draw(t, "b"), gen.Draw(t, "c")
			a32[i], b32[i], c32[i] = uint32(a[i]), uint32(b[i]), uint32(c[i])
		}
		for op, f := range vector32 {
			var want, got [lanes]uint32
			alus[op].f32(&want, &a32, &b32, &c32)
			if f(&got, &a32, &b32, &c32); got != want {
				t.Fatalf("%s: %x, want %x", op, got, want)
			}
			for j := range 3 {
				x := [3][lanes]uint32{a32, b32, c32}
				if f(&x[j], &x[0], &x[1], &x[2]); x[j] != want {
					t.Fatalf("%s into operand %d: %x, want %x", op, j, x[j], want)
				}
			}
		}
		for op, f := range vector64 {
			var want, got [lanes]uint64
			alus[op].f64(&want, &a, &b, &c)
			if f(&got, &a, &b, &c); got != want {
				t.Fatalf("%s: %x, want %x", op, got, want)
			}
			for j := range 3 {
				x := [3][lanes]uint64{a, b, c}
				if f(&x[j], &x[0], &x[1], &x[2]); x[j] != want {
					t.Fatalf("%s into operand %d: %x, want %x", op, j, x[j], want)
				}
			}
		}
		for name, f := range vectorCompare32 {
			if got, want := f(&a32, &b32), compares32[name](&a32, &b32); got != want {
				t.Fatalf("%s of 32 bits: %x, want %x", name, got, want)
			}
		}
		for name, f := range vectorCompare64 {
			if got, want := f(&a, &b), compares64[name](&a, &b); got != want {
				t.Fatalf("%s of 64 bits: %x, want %x", name, got, want)
			}
		}
	})
}

// shapeWarp is a warp with its addresses in register 0, of 32 bits for shared memory.
func shapeWarp(p place, addr [lanes]uint64, mask uint32) *warp {
	w := &warp{worker: &worker{rising: true, l1: newCache(0, 4)}, r: make([][lanes]uint32, 1), q: make([][lanes]uint64, 1), mask: mask}
	for i, a := range addr {
		w.q[0][i], w.r[0][i] = a-p.off, uint32(a-p.off)
	}
	w.addr = addr
	return w
}

// TestShapes draws an access and a second one, often the same at another place: the
// shape of the first is that of the second where it must be, and nowhere else, and
// then says of it what counting lane by lane says.
func TestShapes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		addr, mask, size := drawAccess(t)
		p := place{space: spaceGlobal, off: uint64(rapid.IntRange(0, 3).Draw(t, "off"))}
		if rapid.Bool().Draw(t, "shared") {
			p.space, p.narrow = spaceShared, true
		}
		w := shapeWarp(p, addr, mask)
		var s shape
		if !w.worker.record(&s, p.space, &addr, mask, size) {
			t.Fatal("no shape")
		}
		if !w.lies(&s, p, mask) {
			t.Fatal("an access does not have the shape it was recorded with")
		}
		second := addr
		move := uint64(rapid.SampledFrom([]int{0, 1, 2, 4, 16, 32, 64, 128, 4096}).Draw(t, "move"))
		for i := range second {
			second[i] += move
		}
		if rapid.Bool().Draw(t, "changed") {
			second[rapid.IntRange(0, lanes-1).Draw(t, "lane")] += uint64(size) << rapid.IntRange(0, 20).Draw(t, "by")
		}
		other := mask
		if rapid.IntRange(0, 9).Draw(t, "mask") == 0 {
			other = rapid.Uint32Range(1, full).Draw(t, "other")
		}
		unit := uint64(sectorBytes)
		if p.space == spaceShared {
			unit = uint64(max(size, 4))
		}
		f := s.first
		want := other == mask && (second[f]-addr[f])%unit == 0
		for i := range second {
			want = want && (mask>>i&1 == 0 || second[i]-second[f] == addr[i]-addr[f])
		}
		w = shapeWarp(p, second, other)
		if got := w.lies(&s, p, other); got != want {
			t.Fatalf("shape of the second access: %v, want %v", got, want)
		}
		if !want {
			return
		}
		in := &instr{space: p.space, bypass: true}
		lane := shapeWarp(p, second, mask)
		for _, store := range []bool{false, true} {
			w.countShape(in, &s, second[f], store)
			lane.countAccess(p.space, mask, size, store, true)
		}
		if w.worker.traffic != lane.worker.traffic || !slices.Equal(w.worker.stream, lane.worker.stream) {
			t.Fatalf("%+v %v\nlane by lane %+v %v", w.worker.traffic, w.worker.stream, lane.worker.traffic, lane.worker.stream)
		}
	})
}
