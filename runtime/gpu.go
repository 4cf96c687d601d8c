package runtime

import (
	"fmt"

	"situ/backend/gpu"
)

// throughputBatch is the batch at which the steady throughput of a GPU is taken:
// large enough that kernels fill the device, as GPUs are run for throughput.
const throughputBatch = 128

// runGPU predicts what one inference costs on a GPU, and its throughput at
// throughputBatch.
func runGPU(p *Prepared, t *Target) (*Result, error) {
	one, err := gpu.Estimate(p.Fixed, t.GPU, gpu.Options{Batch: 1})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", t.Name, err)
	}
	r := &Result{
		Model: p.Model.Name, Target: t.Name, Quant: p.Quant,
		LatencyS: one.LatencyS, ThroughputS: one.ThroughputPerS,
		Cycles: one.Cycles, MACs: one.MACs, Utilisation: one.Utilisation, UtilisationTP: one.Utilisation,
		Energy: gpuEnergy(one.Energy), Bytes: Bytes(one.Bytes), Compulsory: one.CompulsoryBytes,
		Fallback: p.Fallback, Peak: t.Peak(), Notes: one.Notes,
	}
	for _, l := range one.Layers {
		r.Layers = append(r.Layers, LayerCost{Name: l.Name, Op: l.Op, MACs: l.MACs, TimeS: l.TimeS, Energy: gpuEnergy(l.Energy), Bytes: Bytes(l.Bytes), Mapping: l.Mapping})
	}
	many, err := gpu.Estimate(p.Fixed, t.GPU, gpu.Options{Batch: throughputBatch})
	if err == nil { // a model may fit in memory at batch 1 and not at this batch
		r.ThroughputS, r.UtilisationTP = many.ThroughputPerS, many.Utilisation
		r.Notes = append(r.Notes, fmt.Sprintf("throughput is at batch %d, where one input takes %.3g times less energy than alone",
			throughputBatch, one.Energy.Total()/(many.Energy.Total()/throughputBatch)))
	}
	return r, nil
}

func gpuEnergy(e gpu.Energy) Energy {
	return Energy{Total: e.Total(), Compute: e.Compute, Register: e.Register, SRAM: e.SRAM, NoC: e.NoC,
		DRAM: e.DRAM, Link: e.Link, Network: e.Network, Static: e.Static}
}
