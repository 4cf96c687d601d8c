package ptx

// The loops over lanes. They are small enough for the compiler to inline, and
// with them the function literal that every caller passes: what runs is a loop
// over fixed arrays without calls or bounds checks.

func map1[D, A any](d *[lanes]D, a *[lanes]A, f func(A) D) {
	for i := range d {
		d[i] = f(a[i])
	}
}

func map2[D, A, B any](d *[lanes]D, a *[lanes]A, b *[lanes]B, f func(A, B) D) {
	for i := range d {
		d[i] = f(a[i], b[i])
	}
}

func map3[D, A, B, C any](d *[lanes]D, a *[lanes]A, b *[lanes]B, c *[lanes]C, f func(A, B, C) D) {
	for i := range d {
		d[i] = f(a[i], b[i], c[i])
	}
}

// test returns the mask of lanes for which f holds.
func test[A any](a, b *[lanes]A, f func(x, y A) bool) uint32 {
	var m uint32
	for i := range a {
		var bit uint32
		if f(a[i], b[i]) {
			bit = 1
		}
		m |= bit << i
	}
	return m
}
