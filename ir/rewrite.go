package ir

import "fmt"

// A Rewriter builds a new graph from an old one, operator by operator; it is how
// passes change graphs. A pass walks the old operators in order and for each
// either copies it or defines its result by Set to some value of the new graph:
//
//	r := ir.NewRewriter(g)
//	for i := range g.Ops {
//		op := &g.Ops[i]
//		if op.Kind == ir.Reshape && g.Type(op.In[0]).Equal(g.Type(op.Out)) {
//			r.Set(op.Out, r.Map(op.In[0]))
//			continue
//		}
//		r.Copy(op)
//	}
//	return r.Finish()
//
// Results that are never mapped need no definition, so a pass may skip operators
// whose users it replaces. Constants are shared between the graphs.
type Rewriter struct {
	Dst *Graph // the graph being built; passes add operators with Dst.Add

	src *Graph
	ids []ValueID // new id of each old value, NoValue before it has one
}

// NewRewriter starts a graph with the name and the inputs of g.
func NewRewriter(g *Graph) *Rewriter {
	r := &Rewriter{Dst: &Graph{Name: g.Name}, src: g, ids: make([]ValueID, len(g.Values))}
	for i := range r.ids {
		r.ids[i] = NoValue
	}
	for _, id := range g.Inputs {
		v := g.Value(id)
		r.ids[id] = r.Dst.AddInput(v.Name, v.Type)
	}
	return r
}

// Map returns the new id of an old value; a constant is taken over when it is
// first asked for, and NoValue stays NoValue. It panics when the value has none
// yet: the pass skipped an operator that is still used.
func (r *Rewriter) Map(old ValueID) ValueID {
	if old == NoValue {
		return NoValue
	}
	if r.ids[old] == NoValue {
		v := r.src.Value(old)
		if v.Const == nil {
			panic(fmt.Sprintf("ir: rewriting graph %q: %s %q is used but was not copied", r.src.Name, old, v.Name))
		}
		r.ids[old] = r.Dst.newValue(Value{Name: v.Name, Type: v.Type, Const: v.Const, Def: -1})
	}
	return r.ids[old]
}

// MapAll maps a list of values.
func (r *Rewriter) MapAll(old []ValueID) []ValueID {
	ids := make([]ValueID, len(old))
	for i, id := range old {
		ids[i] = r.Map(id)
	}
	return ids
}

// Has reports whether an old value can be mapped already.
func (r *Rewriter) Has(old ValueID) bool {
	return old == NoValue || r.ids[old] != NoValue || r.src.IsConst(old)
}

// Set makes a value of the new graph stand for an old one.
func (r *Rewriter) Set(old, new ValueID) { r.ids[old] = new }

// Copy copies an operator of the old graph with its operands mapped and its
// result type kept, and returns the new result. It checks no rules: Verify does
// when the pass is through.
func (r *Rewriter) Copy(op *Op) ValueID { return r.CopyAs(op, r.src.Type(op.Out)) }

// CopyAs is Copy with another result type.
func (r *Rewriter) CopyAs(op *Op, t Type) ValueID {
	in := r.MapAll(op.In)
	id := r.Dst.append(Op{Kind: op.Kind, In: in, Attr: cloneAttr(op.Attr), Name: op.Name}, t)
	r.Dst.Values[id].Name = r.src.Value(op.Out).Name
	r.ids[op.Out] = id
	return id
}

// Finish maps the old graph's outputs, drops what they do not need, and returns
// the new graph.
func (r *Rewriter) Finish() *Graph {
	r.Dst.Outputs = r.MapAll(r.src.Outputs)
	return DCE(r.Dst)
}

// DCE returns g without the operators and constants that no output needs. Inputs
// stay. A graph in which all is needed is returned as it is.
func DCE(g *Graph) *Graph {
	live := make([]bool, len(g.Values))
	for _, id := range g.Outputs {
		live[id] = true
	}
	for i := len(g.Ops) - 1; i >= 0; i-- {
		if op := &g.Ops[i]; live[op.Out] {
			for _, id := range op.In {
				if id != NoValue {
					live[id] = true
				}
			}
		}
	}
	for _, id := range g.Inputs {
		live[id] = true
	}
	dead := false
	for _, l := range live {
		dead = dead || !l
	}
	if !dead {
		return g
	}
	r := NewRewriter(g)
	for i := range g.Ops {
		if live[g.Ops[i].Out] {
			r.Copy(&g.Ops[i])
		}
	}
	r.Dst.Outputs = r.MapAll(g.Outputs)
	return r.Dst
}

// Clone returns a copy of g that shares only what is never written: constants
// and types.
func Clone(g *Graph) *Graph {
	h := &Graph{
		Name:    g.Name,
		Values:  append([]Value(nil), g.Values...),
		Ops:     append([]Op(nil), g.Ops...),
		Inputs:  append([]ValueID(nil), g.Inputs...),
		Outputs: append([]ValueID(nil), g.Outputs...),
	}
	for i := range h.Ops {
		op := &h.Ops[i]
		op.In = append([]ValueID(nil), op.In...)
		op.Attr = cloneAttr(op.Attr)
	}
	return h
}
