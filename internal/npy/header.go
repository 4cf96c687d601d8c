package npy

import (
	"fmt"
	"strconv"
	"strings"
)

type header struct {
	kind      byte
	size      int
	bigEndian bool
	fortran   bool
	shape     []int
}

// maxRank is NumPy's own limit on the number of dimensions.
const maxRank = 64

// parseHeader reads {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }
// with the keys in any order, each exactly once.
func parseHeader(text string) (*header, error) {
	p := &parser{rest: text}
	h := &header{}
	seen := map[string]bool{}
	if !p.take("{") {
		return nil, p.errorf("expected {")
	}
	for !p.take("}") {
		key, ok := p.str()
		if !ok || !p.take(":") {
			return nil, p.errorf("expected a quoted key and a colon")
		}
		if seen[key] {
			return nil, fmt.Errorf("npy: header key %q appears twice", key)
		}
		seen[key] = true
		if err := p.value(key, h); err != nil {
			return nil, err
		}
		if !p.take(",") && !strings.HasPrefix(p.skip(), "}") {
			return nil, p.errorf("expected a comma or }")
		}
	}
	if p.skip() != "" {
		return nil, p.errorf("expected the end")
	}
	for _, key := range []string{"descr", "fortran_order", "shape"} {
		if !seen[key] {
			return nil, fmt.Errorf("npy: header lacks the key %q", key)
		}
	}
	return h, nil
}

func (p *parser) value(key string, h *header) error {
	switch key {
	case "descr":
		descr, ok := p.str()
		if !ok {
			return p.errorf("expected a quoted element type (structured arrays are not read)")
		}
		return parseDescr(descr, h)
	case "fortran_order":
		switch {
		case p.take("True"):
			h.fortran = true
		case p.take("False"):
		default:
			return p.errorf("expected True or False")
		}
		return nil
	case "shape":
		return p.shape(h)
	}
	return fmt.Errorf("npy: unknown header key %q", key)
}

// parseDescr reads an element type such as "<f4": byte order, kind, size.
func parseDescr(descr string, h *header) error {
	if len(descr) != 3 || !strings.Contains("<>|=", descr[:1]) {
		return fmt.Errorf("npy: element type %q is not a plain number", descr)
	}
	h.bigEndian = descr[0] == '>'
	h.kind, h.size = descr[1], int(descr[2]-'0')
	allowed := map[byte]string{'f': "248", 'i': "1248", 'u': "1248", 'b': "1"}[h.kind]
	if !strings.Contains(allowed, descr[2:]) {
		return fmt.Errorf("npy: element type %q is not supported; use f2, f4, f8, i1 to i8, u1 to u8 or b1", descr)
	}
	return nil
}

// parser walks over the header text.
type parser struct{ rest string }

func (p *parser) skip() string {
	p.rest = strings.TrimLeft(p.rest, " \t\r\n")
	return p.rest
}

func (p *parser) take(token string) bool {
	rest, ok := strings.CutPrefix(p.skip(), token)
	if ok {
		p.rest = rest
	}
	return ok
}

func (p *parser) str() (string, bool) {
	rest := p.skip()
	if rest == "" || (rest[0] != '\'' && rest[0] != '"') {
		return "", false
	}
	s, rest, ok := strings.Cut(rest[1:], rest[:1])
	if ok {
		p.rest = rest
	}
	return s, ok
}

func (p *parser) shape(h *header) error {
	if !p.take("(") {
		return p.errorf("expected a shape in parentheses")
	}
	h.shape = []int{}
	for !p.take(")") {
		rest := p.skip()
		n := len(rest) - len(strings.TrimLeft(rest, "0123456789"))
		d, err := strconv.Atoi(rest[:n])
		if err != nil {
			return p.errorf("expected a dimension")
		}
		if len(h.shape) == maxRank {
			return fmt.Errorf("npy: more than %d dimensions", maxRank)
		}
		h.shape = append(h.shape, d)
		p.rest = rest[n:]
		if !p.take(",") && !strings.HasPrefix(p.skip(), ")") {
			return p.errorf("expected a comma or )")
		}
	}
	return nil
}

func (p *parser) errorf(what string) error {
	rest := p.rest
	if len(rest) > 20 {
		rest = rest[:20]
	}
	return fmt.Errorf("npy: malformed header: %s at %q", what, rest)
}
