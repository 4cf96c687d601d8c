package timing

// entry is a cluster that wants to go on at a time.
type entry struct {
	at      int64
	cluster int
}

func (e entry) before(o entry) bool {
	return e.at < o.at || e.at == o.at && e.cluster < o.cluster
}

// queue is a binary heap, earliest first, lowest cluster first among equals.
type queue []entry

func (q *queue) push(e entry) {
	*q = append(*q, e)
	h := *q
	for i := len(h) - 1; i > 0; {
		parent := (i - 1) / 2
		if !h[i].before(h[parent]) {
			return
		}
		h[i], h[parent] = h[parent], h[i]
		i = parent
	}
}

func (q *queue) pop() entry {
	h := *q
	top, last := h[0], len(h)-1
	h[0] = h[last]
	h = h[:last]
	*q = h
	for i := 0; ; {
		child := 2*i + 1
		if child >= last {
			return top
		}
		if child+1 < last && h[child+1].before(h[child]) {
			child++
		}
		if !h[child].before(h[i]) {
			return top
		}
		h[i], h[child] = h[child], h[i]
		i = child
	}
}
