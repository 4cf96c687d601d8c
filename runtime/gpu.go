package runtime

import (
	"fmt"
	"time"

	"situ/backend/gpu"
)

// throughputBatch is the batch at which the steady throughput of a GPU is taken:
// large enough that kernels fill the device, as GPUs are run for throughput.
const throughputBatch = 128

// runGPU predicts what one inference costs on a GPU, and its throughput at
// throughputBatch.
func runGPU(p *Prepared, t *Target) (*Result, error) {
	start := time.Now()
	one, err := gpu.Estimate(p.Fixed, t.GPU, gpu.Options{Batch: 1})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", t.Name, err)
	}
	r := &Result{
		Model: p.Model.Name, Target: t.Name, Quant: p.Quant,
		LatencyS: one.LatencyS, ThroughputS: one.ThroughputPerS,
		Cycles: one.Cycles, MACs: one.MACs, Utilisation: one.Utilisation, UtilisationTP: one.Utilisation,
		Energy: gpuEnergy(one.Energy, 1), Steady: gpuEnergy(one.Energy, 1), Bytes: Bytes(one.Bytes), Compulsory: one.CompulsoryBytes,
		Fallback: p.Fallback, Outputs: []Output{}, Peak: t.Peak(), Notes: one.Notes, HostSPerRun: time.Since(start).Seconds(),
	}
	for _, l := range one.Layers {
		r.Layers = append(r.Layers, LayerCost{Name: l.Name, Op: l.Op, MACs: l.MACs, TimeS: l.TimeS, Energy: dynamic(gpuEnergy(l.Energy, 1)), Bytes: Bytes(l.Bytes), Mapping: l.Mapping})
	}
	many, err := gpu.Estimate(p.Fixed, t.GPU, gpu.Options{Batch: throughputBatch})
	if err == nil { // a model may fit in memory at batch 1 and not at this batch
		r.ThroughputS, r.UtilisationTP = many.ThroughputPerS, many.Utilisation
		r.Steady = gpuEnergy(many.Energy, throughputBatch)
		r.Notes = append(r.Notes, fmt.Sprintf("steady figures are at batch %d", throughputBatch))
	}
	return r, nil
}

// gpuEnergy returns the energy of one of n inputs.
func gpuEnergy(e gpu.Energy, n float64) Energy {
	return Energy{Total: e.Total() / n, Compute: e.Compute / n, Register: e.Register / n, SRAM: e.SRAM / n, NoC: e.NoC / n,
		DRAM: e.DRAM / n, Link: e.Link / n, Network: e.Network / n, Static: e.Static / n}
}

// dynamic leaves static energy out, which layers are not charged with.
func dynamic(e Energy) Energy {
	e.Total -= e.Static
	e.Static = 0
	return e
}
