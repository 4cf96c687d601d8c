package ptx

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// errLine is an error at a line of the text.
type errLine struct {
	line int32
	err  error
}

func (e *errLine) Error() string { return fmt.Sprintf("line %d: %v", e.line, e.err) }
func (e *errLine) Unwrap() error { return e.err }

// Parse reads PTX text and compiles every entry point in it. The name is what
// errors begin with, followed by the line. Whatever the emulator does not
// model (an opcode, a modifier, a device function) is an error here, not at
// launch.
func Parse(text, name string) (*Module, error) {
	if len(text) > maxText {
		return nil, fmt.Errorf("%s: %d bytes of PTX, at most %d are read", name, len(text), maxText)
	}
	p := &parser{
		lex:     lexer{src: text, line: 1},
		module:  &Module{Name: name},
		globals: &scope{vars: map[string]*variable{}},
	}
	p.advance()
	if err := p.parse(); err != nil {
		var at *errLine
		if errors.As(err, &at) {
			return nil, fmt.Errorf("%s:%d: %w", name, at.line, at.err)
		}
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return p.module, nil
}

type parser struct {
	lex     lexer
	tok     token
	module  *Module
	globals *scope
	k       *kernelText
}

func (p *parser) advance() { p.tok = p.lex.next() }

func (p *parser) errorf(format string, args ...any) error {
	return &errLine{p.tok.line, fmt.Errorf(format, args...)}
}

func (p *parser) accept(text string) bool {
	if p.tok.text != text {
		return false
	}
	p.advance()
	return true
}

func (p *parser) expect(text string) error {
	if !p.accept(text) {
		return p.errorf("%q where %q was expected", p.tok.text, text)
	}
	return nil
}

// skipLine drops the rest of a directive that only debuggers read.
func (p *parser) skipLine() {
	for line := p.tok.line; p.tok.text != "" && p.tok.line == line; {
		p.advance()
	}
}

func (p *parser) parse() error {
	m := p.module
	for p.tok.text != "" {
		switch p.tok.text {
		case ".version":
			p.advance()
			m.Version = p.tok.text
			p.advance()
		case ".target":
			p.advance()
			m.Target = p.tok.text
			p.advance()
			for p.accept(",") {
				p.advance()
			}
		case ".address_size":
			p.advance()
			if p.tok.text != "64" {
				return p.errorf(".address_size %s: only 64 is supported", p.tok.text)
			}
			p.advance()
		case ".file", ".loc", ".pragma":
			p.skipLine()
		case ".visible", ".weak":
			p.advance()
		case ".entry":
			if err := p.entry(); err != nil {
				return err
			}
		case ".func":
			return p.errorf("device functions (.func) are not supported; inline them")
		case ".extern", ".global", ".const", ".shared":
			v, err := p.variable(p.globals)
			if err != nil {
				return err
			}
			m.vars = append(m.vars, v)
		default:
			return p.errorf("%q at the top of a module is not supported", p.tok.text)
		}
	}
	if m.Version == "" || m.Target == "" {
		return p.errorf("not PTX: .version or .target is missing")
	}
	return nil
}

// variable parses a declaration in the global, const, shared or local space.
func (p *parser) variable(s *scope) (*variable, error) {
	v := &variable{line: p.tok.line, align: 1}
	if p.accept(".extern") {
		v.extern = true
		if p.tok.text == ".func" {
			return nil, p.errorf("external function: code calls something that is not in the module")
		}
	}
	sp, ok := spaceNames[strings.TrimPrefix(p.tok.text, ".")]
	if !ok || sp == spaceParam {
		return nil, p.errorf("%q where a state space was expected", p.tok.text)
	}
	v.space = sp
	p.advance()
	elem := 0
	var t typ
	for strings.HasPrefix(p.tok.text, ".") {
		word := p.tok.text[1:]
		p.advance()
		switch word {
		case "align":
			n, err := p.integer()
			if err != nil {
				return nil, err
			}
			if n < 1 || n > 4096 || n&(n-1) != 0 {
				return nil, p.errorf("alignment %d", n)
			}
			v.align = int(n)
		case "v2":
			elem = 2
		case "v4":
			elem = 4
		case "attribute":
			return nil, p.errorf(".attribute is not supported")
		default:
			if t, ok = types[word]; !ok || t.kind == 'p' {
				return nil, p.errorf("type .%s of a variable is not supported", word)
			}
		}
	}
	if t.bits == 0 {
		return nil, p.errorf("variable without a type")
	}
	v.name = p.tok.text
	if v.name == "" || !isWordStart(v.name[0]) {
		return nil, p.errorf("%q where a name was expected", v.name)
	}
	p.advance()
	count, open := int64(1), false
	for p.accept("[") {
		if p.accept("]") {
			open = true
			continue
		}
		n, err := p.integer()
		if err != nil {
			return nil, err
		}
		if n < 0 || n > maxVariable || count*n > maxVariable {
			return nil, p.errorf("%s is too large", v.name)
		}
		count *= n
		if err := p.expect("]"); err != nil {
			return nil, err
		}
	}
	size := int64(t.bits / 8)
	v.align = max(v.align, int(size))
	v.size = int(count) * int(size) * max(elem, 1)
	if open {
		v.size = 0
	}
	if p.accept("=") {
		if v.space == spaceShared || v.space == spaceLocal {
			return nil, p.errorf("%s: shared and local variables have no initial value", v.name)
		}
		if err := p.initial(v, int(size), open); err != nil {
			return nil, err
		}
	} else if open && !(v.extern && v.space == spaceShared) {
		return nil, p.errorf("%s has no size", v.name)
	}
	if v.extern && v.space != spaceShared {
		return nil, p.errorf("%s: external variables are not supported", v.name)
	}
	if v.size > maxVariable {
		return nil, p.errorf("%s is too large", v.name)
	}
	if s.vars[v.name] != nil {
		return nil, p.errorf("%s declared twice", v.name)
	}
	s.vars[v.name] = v
	return v, p.expect(";")
}

// initial parses the initial value of v, whose elements have size bytes.
func (p *parser) initial(v *variable, size int, open bool) error {
	depth := 0
	for {
		switch {
		case p.accept("{"):
			depth++
		case p.accept("}"):
			if depth--; depth < 0 {
				return p.errorf("} too many")
			}
		case p.accept(","):
		default:
			bits, _, err := p.literal()
			if err != nil {
				return err
			}
			if !open && len(v.init) >= v.size || len(v.init) >= maxVariable {
				return p.errorf("too many initial values for %s", v.name)
			}
			for i := range size {
				v.init = append(v.init, byte(bits>>(8*i)))
			}
		}
		if depth == 0 {
			break
		}
	}
	if open {
		v.size = len(v.init)
	}
	return nil
}

// integer parses a decimal or hexadecimal integer with an optional sign.
func (p *parser) integer() (int64, error) {
	bits, float, err := p.literal()
	if err == nil && float != 0 {
		err = p.errorf("floating-point number where an integer was expected")
	}
	return int64(bits), err
}

// literal parses a number; float is 32 or 64 for 0f and 0d literals.
func (p *parser) literal() (bits uint64, float int, err error) {
	neg := false
	for {
		if p.accept("-") {
			neg = !neg
		} else if !p.accept("+") {
			break
		}
	}
	t := p.tok.text
	if t == "" || !isDigit(t[0]) {
		return 0, 0, p.errorf("%q where a number was expected", t)
	}
	lower := strings.ToLower(t)
	switch {
	case strings.HasPrefix(lower, "0f") && len(t) == 10:
		bits, err = strconv.ParseUint(t[2:], 16, 32)
		float = 32
		if neg {
			bits ^= 1 << 31
		}
	case strings.HasPrefix(lower, "0d") && len(t) == 18:
		bits, err = strconv.ParseUint(t[2:], 16, 64)
		float = 64
		if neg {
			bits ^= 1 << 63
		}
	case strings.Contains(t, ".") && !strings.HasPrefix(lower, "0x"):
		var f float64
		f, err = strconv.ParseFloat(t, 64)
		if neg {
			f = -f
		}
		bits, float = math.Float64bits(f), 64
	default:
		bits, err = strconv.ParseUint(strings.TrimSuffix(lower, "u"), 0, 64)
		if neg {
			bits = -bits
		}
	}
	if err != nil {
		return 0, 0, p.errorf("%q is not a number", t)
	}
	p.advance()
	return bits, float, nil
}
