package explore

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// span is an interval of numbers. A known number is the span from itself to
// itself, so one evaluator serves numbers, ranges of parameters, and quantities
// of which only a bound is known. A truth value is 1, 0, or the span of both.
type span struct{ lo, hi float64 }

func exactly(v float64) span { return span{v, v} }

var (
	never  = exactly(0)
	always = exactly(1)
	maybe  = span{0, 1}
)

// hull returns the span of the given numbers.
func hull(v ...float64) span {
	s := span{math.Inf(1), math.Inf(-1)}
	for _, x := range v {
		if math.IsNaN(x) { // 0 × ∞ and the like: nothing is known
			return span{math.Inf(-1), math.Inf(1)}
		}
		s.lo, s.hi = min(s.lo, x), max(s.hi, x)
	}
	return s
}

// expr is an arithmetic expression over named quantities.
type expr struct {
	op    string // an operator, "num", "name", or a function
	num   float64
	name  string
	at    int // offset in the text
	parts []*expr
}

// functions and the number of their arguments; −1 means one or more.
var functions = map[string]int{"min": -1, "max": -1, "sqrt": 1, "log2": 1, "ceil": 1, "floor": 1, "round": 1, "abs": 1, "pow": 2}

// exprError is an error at an offset of an expression's text.
type exprError struct {
	at  int
	msg string
}

func (e *exprError) Error() string { return e.msg }

// parseExpr reads an expression:
//
//	a or b, a and b, not a, < <= > >= == !=, + - * /, − a, a ^ b, f(a, b), names
//
// in the order of rising strength.
func parseExpr(text string) (*expr, error) {
	p := &exprParser{text: text}
	p.next()
	e, err := p.or()
	if err == nil && p.tok != "" {
		err = &exprError{p.at, fmt.Sprintf("%q is not expected here", p.tok)}
	}
	return e, err
}

type exprParser struct {
	text    string
	pos, at int
	tok     string
	depth   int
}

const maxExprDepth = 100

func (p *exprParser) next() {
	for p.pos < len(p.text) && (p.text[p.pos] == ' ' || p.text[p.pos] == '\t' || p.text[p.pos] == '\n') {
		p.pos++
	}
	p.at = p.pos
	rest := p.text[p.pos:]
	n := 0
	switch {
	case rest == "":
	case rest[0] >= '0' && rest[0] <= '9' || rest[0] == '.':
		for n < len(rest) && (isWord(rest[n]) || (rest[n] == '+' || rest[n] == '-') && (rest[n-1] == 'e' || rest[n-1] == 'E')) {
			n++
		}
	case isWord(rest[0]):
		for n < len(rest) && isWord(rest[n]) {
			n++
		}
	case slices.Contains([]string{"<=", ">=", "==", "!=", "**"}, rest[:min(2, len(rest))]):
		n = 2
	default:
		n = len(string([]rune(rest)[:1]))
	}
	p.tok = rest[:n]
	p.pos += n
}

func isWord(c byte) bool {
	return c == '_' || c == '.' || c < unicode.MaxASCII && (unicode.IsLetter(rune(c)) || unicode.IsDigit(rune(c)))
}

func (p *exprParser) or() (*expr, error)  { return p.chain(p.and, "or") }
func (p *exprParser) and() (*expr, error) { return p.chain(p.not, "and") }
func (p *exprParser) sum() (*expr, error) { return p.chain(p.product, "+", "-") }
func (p *exprParser) product() (*expr, error) {
	return p.chain(p.unary, "*", "/")
}

// chain reads operands joined by operators of one strength, from the left.
func (p *exprParser) chain(operand func() (*expr, error), ops ...string) (*expr, error) {
	e, err := operand()
	for err == nil && slices.Contains(ops, p.tok) {
		op := &expr{op: p.tok, at: p.at, parts: []*expr{e, nil}}
		p.next()
		op.parts[1], err = operand()
		e = op
	}
	return e, err
}

func (p *exprParser) not() (*expr, error) {
	if p.tok != "not" {
		return p.comparison()
	}
	if err := p.deeper(); err != nil {
		return nil, err
	}
	defer func() { p.depth-- }()
	at := p.at
	p.next()
	e, err := p.not()
	return &expr{op: "not", at: at, parts: []*expr{e}}, err
}

func (p *exprParser) comparison() (*expr, error) {
	a, err := p.sum()
	if err != nil || !slices.Contains([]string{"<", "<=", ">", ">=", "==", "!="}, p.tok) {
		return a, err
	}
	e := &expr{op: p.tok, at: p.at}
	p.next()
	b, err := p.sum()
	e.parts = []*expr{a, b}
	return e, err
}

func (p *exprParser) deeper() error {
	if p.depth++; p.depth > maxExprDepth {
		return &exprError{p.at, "is nested too deep"}
	}
	return nil
}

func (p *exprParser) unary() (*expr, error) {
	if err := p.deeper(); err != nil {
		return nil, err
	}
	defer func() { p.depth-- }()
	if p.tok == "-" {
		at := p.at
		p.next()
		e, err := p.unary()
		return &expr{op: "neg", at: at, parts: []*expr{e}}, err
	}
	a, err := p.atom()
	if err == nil && (p.tok == "^" || p.tok == "**") {
		e := &expr{op: "pow", at: p.at}
		p.next()
		var b *expr
		b, err = p.unary()
		e.parts = []*expr{a, b}
		return e, err
	}
	return a, err
}

func (p *exprParser) atom() (*expr, error) {
	e := &expr{at: p.at}
	switch tok := p.tok; {
	case tok == "":
		return nil, &exprError{p.at, "ends where a value is wanted"}
	case tok == "(":
		p.next()
		in, err := p.or()
		if err != nil {
			return nil, err
		}
		return in, p.expect(")")
	case tok[0] >= '0' && tok[0] <= '9' || tok[0] == '.':
		v, err := strconv.ParseFloat(tok, 64)
		if err != nil {
			return nil, &exprError{p.at, fmt.Sprintf("%q is not a number", tok)}
		}
		e.op, e.num = "num", v
		p.next()
	case isWord(tok[0]):
		p.next()
		if p.tok != "(" {
			e.op, e.name = "name", tok
			return e, nil
		}
		return p.call(e, tok)
	default:
		return nil, &exprError{p.at, fmt.Sprintf("%q is not expected here", tok)}
	}
	return e, nil
}

func (p *exprParser) call(e *expr, name string) (*expr, error) {
	want, ok := functions[name]
	if !ok {
		return nil, &exprError{e.at, fmt.Sprintf("there is no function %q; there are %s", name, strings.Join(sortedKeys(functions), ", "))}
	}
	e.op = name
	for p.tok != ")" {
		p.next() // "(" or ","
		a, err := p.or()
		if err != nil {
			return nil, err
		}
		e.parts = append(e.parts, a)
		if p.tok != "," && p.tok != ")" {
			return nil, &exprError{p.at, fmt.Sprintf("%q where , or ) is wanted", p.tok)}
		}
	}
	if want >= 0 && len(e.parts) != want {
		return nil, &exprError{e.at, fmt.Sprintf("%s takes %d values, %d given", name, want, len(e.parts))}
	}
	return e, p.expect(")")
}

func (p *exprParser) expect(tok string) error {
	if p.tok != tok {
		return &exprError{p.at, fmt.Sprintf("%q where %q is wanted", p.tok, tok)}
	}
	p.next()
	return nil
}

// names calls f for every name of the expression.
func (e *expr) names(f func(e *expr)) {
	if e.op == "name" {
		f(e)
	}
	for _, p := range e.parts {
		p.names(f)
	}
}

var errUnknown = errors.New("unknown quantity")

// eval returns the span of values the expression can take when each quantity
// lies in the span that lookup gives.
func (e *expr) eval(lookup func(string) (span, bool)) (span, error) {
	switch e.op {
	case "num":
		return exactly(e.num), nil
	case "name":
		v, ok := lookup(e.name)
		if !ok {
			return v, fmt.Errorf("%w %q", errUnknown, e.name)
		}
		return v, nil
	}
	var buf [2]span
	v := buf[:0]
	for _, p := range e.parts {
		s, err := p.eval(lookup)
		if err != nil {
			return s, err
		}
		v = append(v, s)
	}
	return e.apply(v), nil
}

func (e *expr) apply(v []span) span {
	a := v[0]
	b := a
	if len(v) > 1 {
		b = v[1]
	}
	each := func(f func(float64) float64) span { return span{f(a.lo), f(a.hi)} }
	switch e.op {
	case "+":
		return span{a.lo + b.lo, a.hi + b.hi}
	case "-":
		return span{a.lo - b.hi, a.hi - b.lo}
	case "neg":
		return span{-a.hi, -a.lo}
	case "*":
		return hull(a.lo*b.lo, a.lo*b.hi, a.hi*b.lo, a.hi*b.hi)
	case "/":
		if b.lo <= 0 && b.hi >= 0 && b.lo != b.hi {
			return span{math.Inf(-1), math.Inf(1)}
		}
		return hull(a.lo/b.lo, a.lo/b.hi, a.hi/b.lo, a.hi/b.hi)
	case "pow":
		if a.lo < 0 && a.lo != a.hi { // not monotone
			return span{math.Inf(-1), math.Inf(1)}
		}
		return hull(math.Pow(a.lo, b.lo), math.Pow(a.lo, b.hi), math.Pow(a.hi, b.lo), math.Pow(a.hi, b.hi))
	case "min", "max":
		for _, s := range v[1:] {
			if e.op == "min" {
				a = span{min(a.lo, s.lo), min(a.hi, s.hi)}
			} else {
				a = span{max(a.lo, s.lo), max(a.hi, s.hi)}
			}
		}
		return a
	case "sqrt":
		return each(func(x float64) float64 { return math.Sqrt(max(x, 0)) })
	case "log2":
		return each(func(x float64) float64 { return math.Log2(max(x, 0)) })
	case "ceil":
		return each(math.Ceil)
	case "floor":
		return each(math.Floor)
	case "round":
		return each(math.Round)
	case "abs":
		if a.lo <= 0 && a.hi >= 0 {
			return span{0, max(-a.lo, a.hi)}
		}
		return hull(math.Abs(a.lo), math.Abs(a.hi))
	case "<":
		return less(a, b)
	case ">":
		return less(b, a)
	case ">=":
		return negate(less(a, b))
	case "<=":
		return negate(less(b, a))
	case "==":
		return equal(a, b)
	case "!=":
		return negate(equal(a, b))
	case "not":
		return negate(truth(a))
	case "and":
		a, b = truth(a), truth(b)
		return span{min(a.lo, b.lo), min(a.hi, b.hi)}
	case "or":
		a, b = truth(a), truth(b)
		return span{max(a.lo, b.lo), max(a.hi, b.hi)}
	}
	panic("explore: no meaning for " + e.op)
}

func truth(a span) span {
	switch {
	case a.lo == 0 && a.hi == 0:
		return never
	case a.lo <= 0 && a.hi >= 0:
		return maybe
	}
	return always
}

func negate(a span) span { return span{1 - a.hi, 1 - a.lo} }

func less(a, b span) span {
	switch {
	case a.hi < b.lo:
		return always
	case a.lo >= b.hi:
		return never
	}
	return maybe
}

func equal(a, b span) span {
	switch {
	case a.hi < b.lo || b.hi < a.lo:
		return never
	case a.lo == a.hi && b.lo == b.hi:
		return always
	}
	return maybe
}

func sortedKeys[V any](m map[string]V) []string {
	var ks []string
	for k := range m {
		ks = append(ks, k)
	}
	slices.Sort(ks)
	return ks
}
