package ir

import (
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
)

// Attribute structs are copied, compared and printed by reflection over their
// "ir" tags. Fields are integers, booleans, floats, PadMode, ScatterMode, arrays and slices
// of integers, and pointers to structs of such fields.

// fieldTag returns the name of field i of struct type t in the textual form, and
// whether the field may be left out when it has its default.
func fieldTag(t reflect.Type, i int) (name string, optional bool) {
	name, opt, _ := strings.Cut(t.Field(i).Tag.Get("ir"), ",")
	return name, opt == "opt"
}

// cloneAttr returns a deep copy of an attribute struct.
func cloneAttr(a Attr) Attr {
	if a == nil {
		return nil
	}
	return cloneValue(reflect.ValueOf(a)).Interface()
}

func cloneValue(v reflect.Value) reflect.Value {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return v
		}
		p := reflect.New(v.Type().Elem())
		p.Elem().Set(cloneValue(v.Elem()))
		return p
	case reflect.Slice:
		if v.IsNil() {
			return v
		}
		return reflect.AppendSlice(reflect.MakeSlice(v.Type(), 0, v.Len()), v)
	case reflect.Struct:
		c := reflect.New(v.Type()).Elem()
		for i := range v.NumField() {
			c.Field(i).Set(cloneValue(v.Field(i)))
		}
		return c
	}
	return v
}

// equalAttr compares two attributes: floats by their bits, nil and empty lists
// as the same.
func equalAttr(a, b Attr) bool {
	if a == nil || b == nil {
		return a == b
	}
	return reflect.TypeOf(a) == reflect.TypeOf(b) && equalValue(reflect.ValueOf(a), reflect.ValueOf(b))
}

func equalValue(a, b reflect.Value) bool {
	switch a.Kind() {
	case reflect.Pointer:
		if a.IsNil() || b.IsNil() {
			return a.IsNil() == b.IsNil()
		}
		return equalValue(a.Elem(), b.Elem())
	case reflect.Struct:
		for i := range a.NumField() {
			if !equalValue(a.Field(i), b.Field(i)) {
				return false
			}
		}
		return true
	case reflect.Slice, reflect.Array:
		if a.Len() != b.Len() {
			return false
		}
		for i := range a.Len() {
			if !equalValue(a.Index(i), b.Index(i)) {
				return false
			}
		}
		return true
	case reflect.Float32, reflect.Float64:
		return formatValue(a) == formatValue(b)
	}
	return a.Equal(b)
}

// formatAttr writes the fields of a as " {name=value, …}", without optional
// ones that have the default of their operator; it writes nothing when none is
// left.
func formatAttr(k OpKind, a Attr) string {
	v := reflect.ValueOf(a)
	if v.Kind() != reflect.Pointer || v.IsNil() || v.Elem().Kind() != reflect.Struct {
		return ""
	}
	v = v.Elem()
	def := reflect.ValueOf(Info(k).Attr)
	var fields []string
	for i := range v.NumField() {
		if _, opt := fieldTag(v.Type(), i); opt && def.IsValid() && def.Elem().Type() == v.Type() && equalValue(def.Elem().Field(i), v.Field(i)) {
			continue
		}
		fields = append(fields, formatField(v, i))
	}
	if len(fields) == 0 {
		return ""
	}
	return " {" + strings.Join(fields, ", ") + "}"
}

func formatField(v reflect.Value, i int) string {
	name, _ := fieldTag(v.Type(), i)
	return name + "=" + formatValue(v.Field(i))
}

func formatValue(v reflect.Value) string {
	switch x := v.Interface().(type) {
	case float32:
		return formatF32(x)
	case float64:
		return formatF64(x)
	case fmt.Stringer:
		return x.String()
	}
	var list []string
	switch v.Kind() {
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			list = append(list, formatValue(v.Index(i)))
		}
		return "[" + strings.Join(list, ",") + "]"
	case reflect.Pointer:
		if v.IsNil() {
			return "none"
		}
		for i := range v.Elem().NumField() {
			list = append(list, formatField(v.Elem(), i))
		}
		return "{" + strings.Join(list, ", ") + "}"
	}
	return fmt.Sprint(v.Interface())
}

// formatF32 writes the shortest text that reads back as v; a NaN carries its
// bits, as in nan(0x7fc00000).
func formatF32(v float32) string {
	if v != v {
		return fmt.Sprintf("nan(%#x)", math.Float32bits(v))
	}
	return strconv.FormatFloat(float64(v), 'g', -1, 32)
}

// formatF64 is formatF32 for float64.
func formatF64(v float64) string {
	if v != v {
		return fmt.Sprintf("nan(%#x)", math.Float64bits(v))
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}
