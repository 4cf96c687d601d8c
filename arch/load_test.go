package arch

import "testing"

func TestPresetsLoad(t *testing.T) {
	for _, name := range Presets() {
		a, err := Load(name)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if a.Name() != name {
			t.Errorf("preset %s calls itself %q", name, a.Name())
		}
		if a.Description() == "" {
			t.Errorf("preset %s has no description", name)
		}
	}
}
