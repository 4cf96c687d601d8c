package functional

import (
	"fmt"
	"math"
	"slices"

	"situ/backend/pim/isa"
)

// entry resolves an index into n entries.
func entry(k, n int64) (int64, error) {
	at := k
	if at < 0 {
		at += n
	}
	if at < 0 || at >= n {
		return 0, fmt.Errorf("index %d is outside a dimension of %d elements", k, n)
	}
	return at, nil
}

// indexed calls f with the addresses of every element of an array [outer, k, inner]
// from src on and of its element of [outer, n, inner] from dst on, which its index
// selects along n.
func (c *cluster) indexed(index int64, t isa.DType, outer, n, m, inner, bytes, src, dst int64, f func(src, dst int64)) error {
	step := t.Size()
	for o := range outer {
		for range m {
			for i := range inner {
				k, err := entry(loadInt(c.sp, index, t), n)
				if err != nil {
					return err
				}
				f(src, dst+((o*n+k)*inner+i)*bytes)
				src, index = src+bytes, index+step
			}
		}
	}
	return nil
}

func (c *cluster) pick(a []int64) error {
	t, size := isa.DType(a[isa.PickType]), a[isa.PickSize]
	if t == isa.F32 {
		return fmt.Errorf("type = %d: indices are integers", t)
	}
	return c.indexed(a[isa.PickIndex], t, a[isa.PickOuter], a[isa.PickN], a[isa.PickK], a[isa.PickInner], size, a[isa.PickDst], a[isa.PickSrc], func(to, from int64) {
		copy(c.sp[to:to+size], c.sp[from:from+size])
	})
}

// putInts are the functions of put on integers, those of binaryi.
var putInts = [isa.NumPuts]int64{isa.PutAdd: isa.IAdd, isa.PutMul: isa.IMul, isa.PutMin: isa.IMin, isa.PutMax: isa.IMax}

func (c *cluster) put(a []int64) error {
	fn, t, it := a[isa.PutFn], isa.DType(a[isa.PutType]), isa.DType(a[isa.PutItype])
	if it == isa.F32 {
		return fmt.Errorf("itype = %d: indices are integers", it)
	}
	if fn >= isa.NumPuts || t == isa.Bool && fn != isa.PutReplace {
		return badFunction(fn)
	}
	size := t.Size()
	return c.indexed(a[isa.PutIndex], it, a[isa.PutOuter], a[isa.PutN], a[isa.PutK], a[isa.PutInner], size, a[isa.PutSrc], a[isa.PutDst], func(from, to int64) {
		switch {
		case fn == isa.PutReplace:
			copy(c.sp[to:to+size], c.sp[from:from+size])
		case t == isa.F32:
			storeF32(c.sp, to, putF32(fn, loadF32(c.sp, to), loadF32(c.sp, from)))
		default:
			storeInt(c.sp, to, t, binaryInt(putInts[fn], t == isa.U64, loadInt(c.sp, to, t), loadInt(c.sp, from, t)))
		}
	})
}

func putF32(fn int64, old, v float32) float32 {
	switch fn {
	case isa.PutAdd:
		return old + v
	case isa.PutMul:
		return old * v
	case isa.PutMin:
		return min(old, v)
	}
	return max(old, v)
}

// orderKey returns an integer that orders elements of type t as topk does: NaN above
// all numbers, −0 and 0 equal.
func orderKey(sp []byte, at int64, t isa.DType) int64 {
	switch t {
	case isa.F32:
		f := loadF32(sp, at)
		if f != f {
			return math.MaxInt64
		}
		b := int64(math.Float32bits(f))
		if b&(1<<31) != 0 {
			b = 1<<31 - b // 0 for −0, less the larger the number
		}
		return b
	case isa.U64:
		return loadInt(sp, at, t) ^ math.MinInt64
	}
	return loadInt(sp, at, t)
}

func (c *cluster) topK(a []int64) error {
	t, k, n, inner := isa.DType(a[isa.TopKType]), a[isa.TopKK], a[isa.TopKN], a[isa.TopKInner]
	keys, order := grow(&c.keys, n), grow(&c.order, n)
	for o := range a[isa.TopKOuter] {
		for i := range inner {
			for j := range keys {
				keys[j], order[j] = orderKey(c.sp, a[isa.TopKSrc]+((o*n+int64(j))*inner+i)*t.Size(), t), int64(j)
				if a[isa.TopKSmallest] == 0 {
					keys[j] = ^keys[j]
				}
			}
			best := func(x, y int64) int { // the better first; of equals the first
				if keys[x] != keys[y] {
					if keys[x] < keys[y] {
						return -1
					}
					return 1
				}
				return int(x - y)
			}
			if k == 1 {
				for _, j := range order[1:] {
					if best(j, order[0]) < 0 {
						order[0] = j
					}
				}
			} else {
				slices.SortFunc(order, best)
			}
			for j := range k {
				storeInt(c.sp, a[isa.TopKDst]+8*((o*k+j)*inner+i), isa.I64, order[j])
			}
		}
	}
	return nil
}
