package ir

import "reflect"

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
