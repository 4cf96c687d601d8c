target datalayout = "e-i64:64-i128:128-v16:16-v32:32-n16:32:64"
target triple = "nvptx64-nvidia-cuda"
@smem = external addrspace(3) global [0 x i8], align 16
@st = internal addrspace(3) global [512 x i8] undef, align 16
@tbl = internal addrspace(4) constant [8 x i8] c"\01\02\03\04\05\06\07\08", align 4
@gtb = internal addrspace(1) constant [4 x i32] [i32 1, i32 -2, i32 3, i32 4], align 4
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.y()
declare i32 @llvm.nvvm.read.ptx.sreg.ntid.x()
declare void @llvm.nvvm.barrier0()
declare i32 @llvm.nvvm.shfl.sync.bfly.i32(i32, i32, i32, i32)
declare void @llvm.nvvm.cp.async.cg.shared.global.16(i8 addrspace(3)*, i8 addrspace(1)*)
declare void @llvm.nvvm.cp.async.commit.group()
declare void @llvm.nvvm.cp.async.wait.group(i32)
declare void @llvm.nvvm.cp.async.wait.all()
declare float @llvm.nvvm.ex2.approx.f(float)
declare float @llvm.sqrt.f32(float)
declare i32 @llvm.ctlz.i32(i32, i1)
declare i32 @llvm.smax.i32(i32, i32)
declare i32 @llvm.smin.i32(i32, i32)
declare i32 @llvm.fshl.i32(i32,i32,i32)
declare i32 @llvm.bswap.i32(i32)
declare i32 @llvm.abs.i32(i32, i1)
declare float @llvm.fma.f32(float,float,float)

define void @misc(i32 addrspace(1)* %p, i8 addrspace(1)* %q, i32 %n, float %f, i64 %l) {
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %c = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %nt = call i32 @llvm.nvvm.read.ptx.sreg.ntid.x()
  %m = mul i32 %c, %nt
  %i = add i32 %m, %t
  %ok = icmp slt i32 %i, %n
  br i1 %ok, label %body, label %end
body:
  %i64 = sext i32 %i to i64
  %a = getelementptr i32, i32 addrspace(1)* %p, i64 %i64
  %v = load i32, i32 addrspace(1)* %a
  %b = getelementptr i8, i8 addrspace(1)* %q, i64 %i64
  %w8 = load i8, i8 addrspace(1)* %b
  %w = sext i8 %w8 to i32
  %prod = mul i32 %v, %w
  %sh = call i32 @llvm.nvvm.shfl.sync.bfly.i32(i32 -1, i32 %prod, i32 1, i32 31)
  %lz = call i32 @llvm.ctlz.i32(i32 %sh, i1 false)
  %mx = call i32 @llvm.smax.i32(i32 %lz, i32 -128)
  %mn = call i32 @llvm.smin.i32(i32 %mx, i32 127)
  %rot = call i32 @llvm.fshl.i32(i32 %mn, i32 %mn, i32 %v)
  %bs = call i32 @llvm.bswap.i32(i32 %rot)
  %ab = call i32 @llvm.abs.i32(i32 %bs, i1 false)
  %fl = sitofp i32 %ab to float
  %fm = call float @llvm.fma.f32(float %fl, float %f, float 1.5)
  %rc = call float asm "rcp.approx.ftz.f32 $0, $1;", "=f,f"(float %fm)
  %ex = call float @llvm.nvvm.ex2.approx.f(float %rc)
  %sq = call float @llvm.sqrt.f32(float %ex)
  %dv = fdiv float %sq, 3.0
  %fi = fptosi float %dv to i32
  %v64 = sext i32 %v to i64
  %p64 = mul i64 %v64, %l
  %sh64 = ashr i64 %p64, 31
  %r0 = trunc i64 %sh64 to i32
  %r1 = add i32 %r0, %fi
  %dd = sdiv i32 %r1, %n
  %rm = urem i32 %r1, 7
  %k = and i32 %rm, 7
  %tp = getelementptr [8 x i8], [8 x i8] addrspace(4)* @tbl, i32 0, i32 %k
  %tv = load i8, i8 addrspace(4)* %tp
  %tx = sext i8 %tv to i32
  %k3 = and i32 %rm, 3
  %gp = getelementptr [4 x i32], [4 x i32] addrspace(1)* @gtb, i32 0, i32 %k3
  %gv = load i32, i32 addrspace(1)* %gp
  %s1 = add i32 %dd, %tx
  %s2 = add i32 %s1, %gv
  %odd = and i32 %t, 1
  %isodd = icmp eq i32 %odd, 0
  br i1 %isodd, label %L, label %R
L:
  %x1 = mul i32 %s2, 3
  br label %J
R:
  %sp = getelementptr [512 x i8], [512 x i8] addrspace(3)* @st, i32 0, i32 %t
  %x2t = trunc i32 %s2 to i8
  store i8 %x2t, i8 addrspace(3)* %sp
  %x2 = xor i32 %s2, -1
  br label %J
J:
  %x = phi i32 [%x1,%L],[%x2,%R]
  store i32 %x, i32 addrspace(1)* %a
  br label %end
end:
  ret void
}

define void @tile(i8 addrspace(1)* %A, i8 addrspace(1)* %B, i32 addrspace(1)* %C) {
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %t64 = zext i32 %t to i64
  %t16 = mul i64 %t64, 16
  %src = getelementptr i8, i8 addrspace(1)* %A, i64 %t16
  %dst = getelementptr [0 x i8], [0 x i8] addrspace(3)* @smem, i64 0, i64 %t16
  call void @llvm.nvvm.cp.async.cg.shared.global.16(i8 addrspace(3)* %dst, i8 addrspace(1)* %src)
  call void @llvm.nvvm.cp.async.commit.group()
  call void @llvm.nvvm.cp.async.wait.group(i32 0)
  call void @llvm.nvvm.barrier0()
  %dsti = ptrtoint i8 addrspace(3)* %dst to i64
  %d32 = trunc i64 %dsti to i32
  %fr = call {i32,i32,i32,i32} asm sideeffect "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {$0,$1,$2,$3}, [$4];", "=r,=r,=r,=r,r,~{memory}"(i32 %d32)
  %a0 = extractvalue {i32,i32,i32,i32} %fr, 0
  %a1 = extractvalue {i32,i32,i32,i32} %fr, 1
  %a2 = extractvalue {i32,i32,i32,i32} %fr, 2
  %a3 = extractvalue {i32,i32,i32,i32} %fr, 3
  %t8 = mul i64 %t64, 8
  %bp8 = getelementptr i8, i8 addrspace(1)* %B, i64 %t8
  %bp = bitcast i8 addrspace(1)* %bp8 to <2 x i32> addrspace(1)*
  %bv = load <2 x i32>, <2 x i32> addrspace(1)* %bp, align 8
  %b0 = extractelement <2 x i32> %bv, i32 0
  %b1 = extractelement <2 x i32> %bv, i32 1
  %r = call {i32,i32,i32,i32} asm "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {$0,$1,$2,$3}, {$4,$5,$6,$7}, {$8,$9}, {$10,$11,$12,$13};", "=r,=r,=r,=r,r,r,r,r,r,r,r,r,r,r"(i32 %a0,i32 %a1,i32 %a2,i32 %a3,i32 %b0,i32 %b1,i32 0,i32 0,i32 0,i32 0)
  %r0 = extractvalue {i32,i32,i32,i32} %r, 0
  %r1 = extractvalue {i32,i32,i32,i32} %r, 1
  %r2 = extractvalue {i32,i32,i32,i32} %r, 2
  %r3 = extractvalue {i32,i32,i32,i32} %r, 3
  %dp = call i32 asm "dp4a.s32.s32 $0, $1, $2, $3;", "=r,r,r,r"(i32 %b0, i32 %b1, i32 %r3)
  %v0 = insertelement <4 x i32> undef, i32 %r0, i32 0
  %v1 = insertelement <4 x i32> %v0, i32 %r1, i32 1
  %v2 = insertelement <4 x i32> %v1, i32 %r2, i32 2
  %v3 = insertelement <4 x i32> %v2, i32 %dp, i32 3
  %cp = getelementptr i32, i32 addrspace(1)* %C, i64 %t64
  %t4 = mul i64 %t64, 4
  %cq = getelementptr i32, i32 addrspace(1)* %C, i64 %t4
  %cv = bitcast i32 addrspace(1)* %cq to <4 x i32> addrspace(1)*
  store <4 x i32> %v3, <4 x i32> addrspace(1)* %cv, align 16
  %at = atomicrmw add i32 addrspace(1)* %C, i32 1 seq_cst
  ret void
}
!nvvm.annotations = !{!0,!1}
!0 = !{void (i32 addrspace(1)*, i8 addrspace(1)*, i32, float, i64)* @misc, !"kernel", i32 1}
!1 = !{void (i8 addrspace(1)*, i8 addrspace(1)*, i32 addrspace(1)*)* @tile, !"kernel", i32 1}
