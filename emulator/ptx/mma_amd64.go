package ptx

import "golang.org/x/sys/cpu"

// fastMMA says that mmaSigned works on this machine.
var fastMMA = cpu.X86.HasAVX2

// mmaSigned is D = A·B + C for mma.m16n8k32 of signed bytes. D may be C but
// must not share registers with A or B. What is in words before and after means
// nothing.
//
//go:noescape
func mmaSigned(t *mmaTile, words *[mmaWords]int16)
