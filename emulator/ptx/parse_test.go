package ptx

import (
	"context"
	"os"
	"strings"
	"testing"
)

func TestParseErrors(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", "not PTX"},
		{"hello", `test.ptx:1: "hello" at the top`},
		{".version 7.0\n.target sm_80\n.address_size 32", "only 64"},
		{header + ".extern .func foo;", "test.ptx:4: external function"},
		{header + ".func foo() { ret; }", "device functions"},
		{header + ".global .u32 x = {1, 2};", "too many initial values"},
		{header + ".global .u32 x[];", "has no size"},
		{header + ".global .align 3 .u32 x;", "alignment 3"},
		{header + ".global .u32 x[99999999999];", "too large"},
		{header + ".global .u32 x; .global .u32 x;", "declared twice"},
		{header + ".global .u64 x = y;", "where a number was expected"},
		{snippet("frob.u32 %r1, %r2;"), "test.ptx:8: frob.u32: this opcode is not modelled"},
		{snippet("add.u32 %r1, %r2;"), "2 operands, want 3"},
		{snippet("add.u32 %r1, %r2, %rd3;"), "%rd3 has 64 bits"},
		{snippet("add.u32 %rd1, %r2, %r3;"), "%rd1 has 64 bits, the instruction writes u32"},
		{snippet("add.u32 %r1, %r2, %r99;"), "%r99 is not declared"},
		{snippet("add.u32 5, %r2, %r3;"), "the result must be a register"},
		{snippet("add.f32 %f1, %f2, 1;"), "integer where f32"},
		{snippet("mov.u32 %r1, %clock;"), "special register that is not modelled"},
		{snippet("fma.f32 %f1, %f1, %f1, %f1;"), "not modelled"},
		{snippet("add.rz.f32 %f1, %f1, %f1;"), "not modelled"},
		{snippet("cvt.f32.s32 %f1, %r1;"), "only .rn is modelled"},
		{snippet("cvt.s32.f32 %r1, %f1;"), "needs .rni"},
		{snippet("cvt.f32.f64 %f1, %rd1;"), "needs .rn"},
		{snippet("bra nowhere;"), `label "nowhere" is not defined`},
		{snippet("A: A: ret;"), "defined twice"},
		{snippet("@%r1 bra A; A: ret;"), "is not a predicate"},
		{snippet("call.uni foo, (%r1);"), "calls are not supported"},
		{snippet("ld.global.u32 %r1, %rd1;"), "an address in [ ] is missing"},
		{snippet("ld.global.u32 %r1, [nothing];"), "is not defined"},
		{snippet("ld.global.v4.u64 {%rd1, %rd2, %rd3, %rd4}, [%rd1];"), "more than 16 bytes"},
		{snippet("ld.global.v2.u32 {%r1}, [%rd1];"), "1 values, want 2"},
		{snippet("st.const.u32 [%rd1], %r1;"), "const memory cannot be written"},
		{snippet(".shared .b8 x[4]; ld.global.u32 %r1, [x];"), "x is not in global memory"},
		{snippet("ld.weird.u32 %r1, [%rd1];"), "modifier .weird"},
		{snippet("shfl.b32 %r1, %r1, 1, 31;"), "only shfl.sync"},
		{snippet("bar.sync %r1;"), "a number from 0 to 15"},
		{snippet("bar.red.popc.u32 %r1, 0, %p1;"), "this barrier is not modelled"},
		{snippet("mma.sync.aligned.m16n8k64.row.col.s32.s4.s4.s32 {%r1,%r1,%r1,%r1}, {%r1,%r1,%r1,%r1}, {%r1,%r1}, {%r1,%r1,%r1,%r1};"), "types s32.s4.s4.s32 are not modelled"},
		{snippet("cp.async.ca.shared.global [%rd1], [%rd2], 12;"), "4, 8 or 16 bytes"},
		{snippet("setp.lt.b32 %p1, %r1"), "where"},
		{snippet(strings.Repeat("{", 100)), "nested scopes"},
		{snippet(".reg .b32 %q<-1>;"), "-1 registers"},
		{snippet(".reg .b32 %q<9>; mov.u32 %q09, 1;"), "%q09 is not declared"},
		{snippet("mov.u32 %r1, %q9; .reg .b32 %q<10>;"), "%q9 is not declared"},
		{snippet("add.u16 %h1, %h2, %r1;"), "%r1 has 32 bits, the instruction reads u16"},
		{snippet("mov.u32 %r1, {%r1, %r2};"), "%r1 has 32 bits"},
	} {
		_, err := Parse(c.text, "test.ptx")
		if err == nil {
			t.Errorf("no error, want %q from\n%s", c.want, c.text)
		} else if !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v\nwant %q from\n%s", err, c.want, c.text)
		}
	}
}

func TestKernelInfo(t *testing.T) {
	m := load(t, "misc.ptx")
	if m.Version != "7.0" || m.Target != "sm_80" || strings.Join(m.Kernels(), " ") != "misc tile" {
		t.Errorf("%s %s %v", m.Version, m.Target, m.Kernels())
	}
	k, err := m.Kernel("misc")
	if err != nil {
		t.Fatal(err)
	}
	if len(k.Params) != 5 || k.Params[2] != (ParamInfo{"misc_param_2", 4}) || k.SharedBytes != 512 || k.MaxThreads != 0 {
		t.Errorf("%+v", k)
	}
	// The text declares 43 + 9 registers of 32 bits and 20 of 64; few are
	// alive at once.
	if k.LiveRegisters < 8 || k.LiveRegisters > 24 {
		t.Errorf("%d live registers", k.LiveRegisters)
	}
	if _, err := m.Kernel("none"); err == nil {
		t.Error("no error for an unknown kernel")
	}
	limited := parse(t, strings.Replace(snippet("ret;"), "\n{\n", "\n.maxntid 64, 2, 1\n.minnctapersm 2\n{\n", 1))
	if k, err := limited.Kernel("k"); err != nil || k.MaxThreads != 128 {
		t.Errorf("%+v, %v", k, err)
	}
}

// FuzzParse runs whatever parses, for a little while: no panic, no hang.
func FuzzParse(f *testing.F) {
	for _, file := range []string{"misc.ptx", "reduce.ptx"} {
		text, err := os.ReadFile("testdata/" + file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
	f.Add(gemmText())
	f.Add(snippet("A: setp.lt.u32 %p0, %r0, 9; @%p0 bra A; shfl.sync.idx.b32 %r1|%p1, %r0, %r0, %r0, -1; bar.sync 0; ret;"))
	f.Add(snippet(".local .b8 d[8]; cvta.local.u64 %rd3, d; st.u8 [%rd3+3], %h0; mov.b64 {%r1, %r2}, %rd3; @!%p3 bra B; trap; B: vote.sync.ballot.b32 %r3, !%p0, -1;"))
	f.Add(header + ".visible .global .align 4 .f32 x[2] = {0f3F800000, 1.5}; .const .b8 y[] = {1, 2, 3};" + snippet("ld.const.u8 %r1, [y+1]; ld.global.f32 %f1, [x+4];")[len(header):])
	for _, c := range opCases[:20] {
		f.Add(moduleFor(c))
	}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 1<<16 {
			return
		}
		m, err := Parse(text, "fuzz.ptx")
		if err != nil {
			return
		}
		for _, name := range m.Kernels() {
			k, err := m.Kernel(name)
			if err != nil {
				t.Fatal(err)
			}
			mem := NewMemory(1 << 16)
			a, err := mem.Alloc("a", 1<<12)
			if err != nil {
				t.Fatal(err)
			}
			cfg := LaunchConfig{Grid: [3]int{2}, Block: [3]int{40}, SharedBytes: 64, Memory: mem, MaxSteps: 2000, Workers: 1, Caches: Caches{L2Bytes: 1 << 14}}
			for _, p := range k.Params {
				arg := make(Arg, p.Bytes)
				copy(arg, U64(a))
				cfg.Args = append(cfg.Args, arg)
			}
			_, err = m.Launch(context.Background(), name, cfg)
			if err != nil && !strings.HasPrefix(err.Error(), "fuzz.ptx:") {
				t.Errorf("%v does not name the text", err)
			}
		}
	})
}
