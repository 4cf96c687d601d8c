package fixed

import "golang.org/x/sys/cpu"

func bestISA() isa {
	x := &cpu.X86
	switch {
	case x.HasAVX512F && x.HasAVX512BW && x.HasAVX512DQ && x.HasAVX512VL && x.HasAVX512VNNI && x.HasAVX512VBMI:
		return isaAVX512
	case x.HasAVX2:
		return isaAVX2
	}
	return isaPortable
}
