package ir

// Extract returns the graph of some operators of g, nil when it is none of them. Its
// inputs are the values they read that are neither constant nor made by one of them,
// in the order of their use; its outputs the values they make that others read or
// that g returns, in order. in and out name both in g. Constants are shared.
func Extract(g *Graph, take func(i int) bool) (h *Graph, in, out []ValueID) {
	made := make([]bool, len(g.Values))
	outside := make([]bool, len(g.Values)) // read by others, or returned
	for _, id := range g.Outputs {
		outside[id] = true
	}
	taken := false
	for i := range g.Ops {
		if take(i) {
			made[g.Ops[i].Out], taken = true, true
			continue
		}
		for _, id := range g.Ops[i].In {
			if id != NoValue {
				outside[id] = true
			}
		}
	}
	if !taken {
		return nil, nil, nil
	}
	r := &Rewriter{Dst: &Graph{Name: g.Name}, src: g, ids: make([]ValueID, len(g.Values))}
	for i := range r.ids {
		r.ids[i] = NoValue
	}
	for i := range g.Ops {
		if !made[g.Ops[i].Out] {
			continue
		}
		for _, id := range g.Ops[i].In {
			if id != NoValue && !made[id] && !r.Has(id) {
				v := g.Value(id)
				r.ids[id] = r.Dst.AddInput(v.Name, v.Type)
				in = append(in, id)
			}
		}
		r.Copy(&g.Ops[i])
	}
	for i := range g.Ops {
		if id := g.Ops[i].Out; made[id] && outside[id] {
			out = append(out, id)
		}
	}
	r.Dst.Outputs = r.MapAll(out)
	return r.Dst, in, out
}
