package runtime

import "testing"

func TestPercent(t *testing.T) {
	for _, tt := range []struct {
		share float64
		want  string
	}{
		{0, "0 %"},
		{1, "100.0 %"},
		{0.9961, "99.6 %"},
		{0.09, "9.00 %"},
		{0.0010174, "0.10 %"},
		{0.00092243, "0.092 %"},
		{0.000004, "0.0004 %"},
		{3.1e-8, "0.0000031 %"},
		{9.99e-6, "0.001 %"},
		{-0.5, "-50.0 %"},
	} {
		if got := Percent(tt.share); got != tt.want {
			t.Errorf("Percent(%v) = %q, want %q", tt.share, got, tt.want)
		}
	}
}
