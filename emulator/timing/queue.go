package timing

// entry is a cluster that wants to go on at a time.
type entry struct {
	at      int64
	cluster int
}

func (e entry) before(o entry) bool {
	return e.at < o.at || e.at == o.at && e.cluster < o.cluster
}

// queue is a binary heap, earliest first, lowest cluster first among equals. The
// first entry stays where it is while its cluster runs, as that one mostly comes
// back.
type queue struct {
	heap []entry
	gone bool // the first entry has been taken
}

// take returns the first entry's cluster, and false when there is none.
func (q *queue) take() (cluster int, ok bool) {
	if q.gone {
		q.drop()
	}
	if len(q.heap) == 0 {
		return 0, false
	}
	q.gone = true
	return q.heap[0].cluster, true
}

// drop removes the first entry.
func (q *queue) drop() {
	q.gone = false
	last := q.heap[len(q.heap)-1]
	q.heap = q.heap[:len(q.heap)-1]
	if len(q.heap) > 0 {
		q.sink(last)
	}
}

func (q *queue) push(e entry) {
	if q.gone {
		q.gone = false
		q.sink(e)
		return
	}
	q.heap = append(q.heap, e)
	h := q.heap
	i := len(h) - 1
	for i > 0 {
		parent := (i - 1) / 2
		if !e.before(h[parent]) {
			break
		}
		h[i] = h[parent]
		i = parent
	}
	h[i] = e
}

// sink puts an entry in the place of the first one.
func (q *queue) sink(e entry) {
	h := q.heap
	i := 0
	for {
		child := 2*i + 1
		if child >= len(h) {
			break
		}
		if child+1 < len(h) && h[child+1].before(h[child]) {
			child++
		}
		if !h[child].before(e) {
			break
		}
		h[i] = h[child]
		i = child
	}
	h[i] = e
}
