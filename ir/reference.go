package ir

import (
	"bufio"
	"fmt"
	"io"
	"reflect"
	"strings"
)

// Reference writes the operator table as a Markdown table, for the
// documentation.
func Reference(w io.Writer) error {
	b := bufio.NewWriter(w)
	fmt.Fprintln(b, "| operator | operands | attributes (defaults) | class | meaning |")
	fmt.Fprintln(b, "|---|---|---|---|---|")
	for _, k := range Kinds() {
		o := Info(k)
		fmt.Fprintf(b, "| `%s` | %s | %s | %s | %s |\n",
			o.Name, strings.Join(o.Operands, ", "), attrReference(o.Attr), o.Flags, strings.ReplaceAll(o.Doc, "|", "\\|"))
	}
	return b.Flush()
}

// attrReference lists attributes, optional ones with their default.
func attrReference(a Attr) string {
	if a == nil {
		return ""
	}
	v := reflect.ValueOf(a).Elem()
	var s []string
	for i := range v.NumField() {
		text, opt := fieldTag(v.Type(), i)
		if opt {
			text = formatField(v, i)
		}
		s = append(s, "`"+text+"`")
	}
	return strings.Join(s, ", ")
}
