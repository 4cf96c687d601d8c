package runtime

import (
	"situ/arch"
)

// Target is an architecture that models run on: exactly one of Chip and GPU is set.
type Target struct {
	Name string
	Chip *arch.Chip
	GPU  *arch.GPU
}

// OpenTarget loads a preset or an architecture file.
func OpenTarget(nameOrFile string) (*Target, error) {
	a, err := arch.Load(nameOrFile)
	if err != nil {
		return nil, err
	}
	return &Target{Name: a.Name(), Chip: a.Chip, GPU: a.GPU}, nil
}

// Peak returns the target's ceilings.
func (t *Target) Peak() Peak {
	if t.Chip != nil {
		d := t.Chip.Derived()
		return Peak{MACsPerS: d.Int8TOPS * 1e12 / 2, DRAMBytesPerS: d.DRAMGBs * 1e9, SRAMBytesPerS: d.WeightTBs * 1e12}
	}
	d := t.GPU.Derived()
	return Peak{MACsPerS: d.Int8TOPS * 1e12 / 2, DRAMBytesPerS: d.DRAMGBs * 1e9, SRAMBytesPerS: d.SharedTBs * 1e12}
}

// ArchInfo is one row of the list of architectures.
type ArchInfo struct {
	Name          string  `json:"name"`
	Kind          string  `json:"kind"` // "pim" or "gpu"
	Description   string  `json:"description"`
	Int8OpsPerS   float64 `json:"int8_ops_per_s"`
	SRAMBytes     int64   `json:"sram_bytes"` // weight SRAM and scratchpads, or shared memory, registers and L2
	DRAMBytesPerS float64 `json:"dram_bytes_per_s"`
}

// Archs describes the presets.
func Archs() ([]ArchInfo, error) {
	var out []ArchInfo
	for _, name := range arch.Presets() {
		a, err := arch.Load(name)
		if err != nil {
			return nil, err
		}
		t := &Target{Name: name, Chip: a.Chip, GPU: a.GPU}
		p := t.Peak()
		i := ArchInfo{Name: name, Kind: "gpu", Description: a.Description(), Int8OpsPerS: 2 * p.MACsPerS, DRAMBytesPerS: p.DRAMBytesPerS}
		if c := a.Chip; c != nil {
			d := c.Derived()
			i.Kind = "pim"
			i.SRAMBytes = d.WeightSRAMBytes + d.ScratchpadBytes
		} else {
			g := a.GPU
			i.SRAMBytes = g.L2.Bytes.Int() + g.SMs.Int()*(g.Shared.L1Bytes.Int()+g.Register.Bytes.Int())
		}
		out = append(out, i)
	}
	return out, nil
}
