package ptx

import (
	"fmt"
	"strconv"
	"strings"
)

// entry parses .entry name ( params ) directives { body } and compiles it.
func (p *parser) entry() error {
	p.advance()
	k := &kernelText{name: p.tok.text, line: p.tok.line}
	if k.name == "" || !isWordStart(k.name[0]) {
		return p.errorf("%q where the name of a kernel was expected", k.name)
	}
	for _, other := range p.module.kernels {
		if other.name == k.name {
			return p.errorf("kernel %s defined twice", k.name)
		}
	}
	p.advance()
	p.k = k
	top := newScope(p.globals)
	if p.accept("(") {
		for p.tok.text != ")" {
			if err := p.param(top); err != nil {
				return err
			}
			if !p.accept(",") && p.tok.text != ")" {
				return p.errorf("%q in the parameters of %s", p.tok.text, k.name)
			}
		}
		p.advance()
	}
	for p.tok.text != "{" {
		switch p.tok.text {
		case ".maxntid", ".reqntid":
			p.advance()
			n := int64(1)
			for {
				d, err := p.integer()
				if err != nil {
					return err
				}
				if d < 1 || d > 1024 || n*d > 1024 {
					return p.errorf("a block has at most 1024 threads")
				}
				n *= d
				if !p.accept(",") {
					break
				}
			}
			k.maxThreads = int(n)
		case ".maxnreg", ".minnctapersm", ".maxnctapersm":
			p.advance()
			if _, err := p.integer(); err != nil {
				return err
			}
		case ".pragma", ".noreturn":
			p.skipLine()
		default:
			return p.errorf("%q before the body of %s is not supported", p.tok.text, k.name)
		}
	}
	if err := p.body(top); err != nil {
		return err
	}
	compiled, err := compile(p.module, k)
	if err != nil {
		return err
	}
	p.module.kernels = append(p.module.kernels, compiled)
	return nil
}

func newScope(outer *scope) *scope {
	return &scope{
		outer: outer, depth: outer.depth + 1,
		regs: map[string]int{}, vars: map[string]*variable{}, labels: map[string]int{},
	}
}

// param parses one .param of a kernel.
func (p *parser) param(s *scope) error {
	if err := p.expect(".param"); err != nil {
		return err
	}
	v := &variable{space: spaceParam, line: p.tok.line, align: 1}
	for strings.HasPrefix(p.tok.text, ".") {
		word := p.tok.text[1:]
		p.advance()
		switch word {
		case "align":
			n, err := p.integer()
			if err != nil {
				return err
			}
			if n < 1 || n > 128 || n&(n-1) != 0 {
				return p.errorf("alignment %d", n)
			}
			v.align = max(v.align, int(n))
		case "ptr", "global", "shared", "const", "local":
			if word != "ptr" || p.tok.text != ".align" {
				continue
			}
			// The alignment of what a pointer points to says nothing about
			// the parameter itself.
			p.advance()
			if _, err := p.integer(); err != nil {
				return err
			}
		default:
			t, ok := types[word]
			if !ok || t.kind == 'p' {
				return p.errorf("type .%s of a parameter is not supported", word)
			}
			v.size = t.bits / 8
			v.align = max(v.align, v.size)
		}
	}
	if v.size == 0 {
		return p.errorf("parameter without a type")
	}
	v.name = p.tok.text
	p.advance()
	if p.accept("[") {
		n, err := p.integer()
		if err != nil {
			return err
		}
		if n < 1 || n > 4096 {
			return p.errorf("parameter %s of %d elements", v.name, n)
		}
		v.size *= int(n)
		if err := p.expect("]"); err != nil {
			return err
		}
	}
	if s.vars[v.name] != nil {
		return p.errorf("parameter %s declared twice", v.name)
	}
	for _, q := range p.k.params {
		v.offset = max(v.offset, q.offset+q.size)
	}
	v.offset = alignUp(v.offset, v.align)
	if v.offset+v.size > 4096 {
		return p.errorf("more than 4096 bytes of parameters")
	}
	s.vars[v.name] = v
	p.k.params = append(p.k.params, v)
	return nil
}

func alignUp(n, align int) int { return (n + align - 1) &^ (align - 1) }

// body parses { ... } with its nested scopes.
func (p *parser) body(s *scope) error {
	if s.depth > maxDepth {
		return p.errorf("more than %d nested scopes", maxDepth)
	}
	if err := p.expect("{"); err != nil {
		return err
	}
	for !p.accept("}") {
		switch t := p.tok.text; {
		case t == "":
			return p.errorf("text ends inside kernel %s", p.k.name)
		case t == "{":
			if err := p.body(newScope(s)); err != nil {
				return err
			}
		case t == ";":
			p.advance()
		case t == ".reg":
			if err := p.registers(s); err != nil {
				return err
			}
		case t == ".shared", t == ".local":
			v, err := p.variable(s)
			if err != nil {
				return err
			}
			p.k.vars = append(p.k.vars, v)
		case t == ".loc", t == ".file", t == ".pragma":
			p.skipLine()
		case strings.HasPrefix(t, "."):
			return p.errorf("%q in a kernel is not supported", t)
		default:
			if err := p.statement(s); err != nil {
				return err
			}
		}
	}
	return nil
}

// registers parses .reg .type name<count>, name, ... ;
func (p *parser) registers(s *scope) error {
	p.advance()
	t, ok := types[strings.TrimPrefix(p.tok.text, ".")]
	if !ok {
		return p.errorf("registers of type %q are not supported", p.tok.text)
	}
	p.advance()
	for {
		name := p.tok.text
		if name == "" || !isWordStart(name[0]) {
			return p.errorf("%q where the name of a register was expected", name)
		}
		p.advance()
		if !p.accept("<") {
			if err := p.register(s, name, t); err != nil {
				return err
			}
		} else {
			n, err := p.integer()
			if err != nil {
				return err
			}
			if n < 0 || len(s.ranges) >= maxDepth {
				return p.errorf("%d registers in %d ranges", n, len(s.ranges)+1)
			}
			s.ranges = append(s.ranges, registerRange{name, n, t})
			if err := p.expect(">"); err != nil {
				return err
			}
		}
		if p.accept(";") {
			return nil
		}
		if err := p.expect(","); err != nil {
			return err
		}
	}
}

func (p *parser) register(s *scope, name string, t typ) error {
	if _, ok := s.regs[name]; ok {
		return p.errorf("register %s declared twice", name)
	}
	if len(p.k.regs) >= maxRegisters {
		return p.errorf("more than %d registers", maxRegisters)
	}
	s.regs[name] = len(p.k.regs)
	p.k.regs = append(p.k.regs, register{t.class(), t.bits})
	return nil
}

// find returns the register that a name means in a scope.
func (p *parser) find(s *scope, name string) (int, bool) {
	digits := len(name)
	for digits > 0 && isDigit(name[digits-1]) {
		digits--
	}
	for ; s != nil; s = s.outer {
		if r, ok := s.regs[name]; ok {
			return r, true
		}
		for _, d := range s.ranges {
			// The prefix may itself end in digits.
			if len(d.prefix) < digits || len(d.prefix) >= len(name) || !strings.HasPrefix(name, d.prefix) {
				continue
			}
			num := name[len(d.prefix):]
			if i, err := strconv.ParseInt(num, 10, 64); err != nil || i >= d.n || num[0] == '0' && num != "0" {
				continue
			}
			if p.register(s, name, d.t) == nil {
				return s.regs[name], true
			}
		}
	}
	return 0, false
}

// statement parses a label or an instruction.
func (p *parser) statement(s *scope) error {
	st := statement{line: p.tok.line, guard: -1, scope: s}
	if p.accept("@") {
		st.guardNeg = p.accept("!")
		r, ok := p.find(s, p.tok.text)
		if !ok || p.k.regs[r].class != classPred {
			return p.errorf("%q is not a predicate", p.tok.text)
		}
		st.guard = r
		p.advance()
	}
	st.op = p.tok.text
	st.line = p.tok.line
	if st.op == "" || !isWordStart(st.op[0]) {
		return p.errorf("%q where an instruction was expected", st.op)
	}
	p.advance()
	if st.guard < 0 && p.accept(":") {
		if _, ok := s.labels[st.op]; ok {
			return p.errorf("label %s defined twice", st.op)
		}
		s.labels[st.op] = len(p.k.stmts)
		return nil
	}
	for p.tok.text != ";" {
		if p.tok.text == "" {
			return p.errorf("text ends inside %s", st.op)
		}
		if strings.HasPrefix(st.op, "call") {
			return p.errorf("%s: calls are not supported; inline the function", st.op)
		}
		arg, err := p.operand(s, true)
		if err != nil {
			return err
		}
		st.args = append(st.args, arg)
		if p.accept("|") {
			second, err := p.operand(s, false)
			if err != nil {
				return err
			}
			st.args[len(st.args)-1] = operand{kind: opVec, name: "|", list: []operand{arg, second}}
		}
		if p.tok.text != ";" {
			if err := p.expect(","); err != nil {
				return err
			}
		}
	}
	p.advance()
	if len(p.k.stmts) >= maxInstructions {
		return p.errorf("more than %d instructions", maxInstructions)
	}
	p.k.stmts = append(p.k.stmts, st)
	return nil
}

// operand parses one operand; lists and addresses only where nested.
func (p *parser) operand(s *scope, nested bool) (operand, error) {
	switch t := p.tok.text; {
	case t == "{" && nested:
		p.advance()
		v := operand{kind: opVec}
		for {
			e, err := p.operand(s, false)
			if err != nil {
				return v, err
			}
			v.list = append(v.list, e)
			if p.accept("}") {
				return v, nil
			}
			if err := p.expect(","); err != nil {
				return v, err
			}
		}
	case t == "[" && nested:
		p.advance()
		base, err := p.operand(s, false)
		if err != nil {
			return base, err
		}
		if base.kind == opLabel || base.neg {
			return base, p.errorf("%q in an address is not defined", base.name)
		}
		a := operand{kind: opAddr, list: []operand{base}}
		if base.kind == opSym || base.kind == opImm {
			a.value, a.list[0].value = base.value, 0
		}
		if p.tok.text == "+" || p.tok.text == "-" {
			off, err := p.integer()
			if err != nil {
				return a, err
			}
			a.value += off
		}
		return a, p.expect("]")
	case t == "!":
		p.advance()
		o, err := p.operand(s, false)
		o.neg = !o.neg
		return o, err
	case t == "-" || t == "+" || t != "" && isDigit(t[0]):
		bits, float, err := p.literal()
		return operand{kind: opImm, value: int64(bits), float: float}, err
	case t != "" && isWordStart(t[0]):
		p.advance()
		if r, ok := p.find(s, t); ok {
			return operand{kind: opReg, reg: r, name: t}, nil
		}
		if sp := specialIndex(t); sp >= 0 {
			return operand{kind: opSpecial, value: int64(sp), name: t}, nil
		}
		if t[0] == '%' {
			return operand{}, &errLine{p.tok.line, fmt.Errorf("register %s is not declared, or a special register that is not modelled", t)}
		}
		if v := s.variable(t); v != nil {
			o := operand{kind: opSym, sym: v, name: t}
			if p.tok.text == "+" && nested {
				off, err := p.integer()
				if err != nil {
					return o, err
				}
				o.value = off
			}
			return o, nil
		}
		return operand{kind: opLabel, name: t}, nil
	}
	return operand{}, p.errorf("%q where an operand was expected", p.tok.text)
}

func (s *scope) variable(name string) *variable {
	for ; s != nil; s = s.outer {
		if v := s.vars[name]; v != nil {
			return v
		}
	}
	return nil
}

func (s *scope) label(name string) (int, bool) {
	for ; s != nil; s = s.outer {
		if at, ok := s.labels[name]; ok {
			return at, true
		}
	}
	return 0, false
}
