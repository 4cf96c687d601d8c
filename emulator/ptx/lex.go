package ptx

import (
	"strings"
)

// A token is one word of PTX text. Opcodes with their modifiers
// (ld.global.nc.v4.u32), special registers (%tid.x), directives (.visible)
// and numbers are one token each; anything else is one character.
type token struct {
	text string
	line int32
}

// lexer splits text into tokens; comments disappear.
type lexer struct {
	src  string
	pos  int
	line int32
}

func isWordStart(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' || c == '$' || c == '%' || c == '.'
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func isWord(c byte) bool { return isWordStart(c) && c != '%' || isDigit(c) }

// next returns the next token; its text is empty at the end.
func (l *lexer) next() token {
	l.space()
	if l.pos >= len(l.src) {
		return token{line: l.line}
	}
	start := l.pos
	c := l.src[start]
	l.pos++
	switch {
	case isWordStart(c), isDigit(c):
		for l.pos < len(l.src) && (isWord(l.src[l.pos]) || l.src[l.pos] == ':' && strings.HasPrefix(l.src[l.pos:], "::")) {
			if l.src[l.pos] == ':' {
				l.pos++
			}
			l.pos++
		}
	case c == '"':
		for l.pos < len(l.src) && l.src[l.pos] != '"' && l.src[l.pos] != '\n' {
			l.pos++
		}
		if l.pos < len(l.src) && l.src[l.pos] == '"' {
			l.pos++
		}
	}
	return token{l.src[start:l.pos], l.line}
}

// space skips blanks and comments.
func (l *lexer) space() {
	for l.pos < len(l.src) {
		rest := l.src[l.pos:]
		switch c := rest[0]; {
		case c == '\n':
			l.line++
			l.pos++
		case c == ' ' || c == '\t' || c == '\r':
			l.pos++
		case strings.HasPrefix(rest, "//"):
			end := strings.IndexByte(rest, '\n')
			if end < 0 {
				end = len(rest)
			}
			l.pos += end
		case strings.HasPrefix(rest, "/*"):
			end := strings.Index(rest, "*/")
			if end < 0 {
				end = len(rest) - 2
			}
			l.line += int32(strings.Count(rest[:end], "\n"))
			l.pos += end + 2
		default:
			return
		}
	}
}
