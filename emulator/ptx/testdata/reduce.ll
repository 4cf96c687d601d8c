; Sum of n bytes by blocks: a loop over the input, a tree in shared memory with
; barriers, and shuffles for the last warp. Odd threads add twice their bytes,
; on a path of their own.
target datalayout = "e-i64:64-i128:128-v16:16-v32:32-n16:32:64"
target triple = "nvptx64-nvidia-cuda"
@part = internal addrspace(3) global [256 x i32] undef, align 4
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ntid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.nctaid.x()
declare void @llvm.nvvm.barrier0()
declare i32 @llvm.nvvm.shfl.sync.down.i32(i32, i32, i32, i32)

define void @reduce(i8 addrspace(1)* %src, i32 addrspace(1)* %dst, i32 %n) {
entry:
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %c = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %nt = call i32 @llvm.nvvm.read.ptx.sreg.ntid.x()
  %nc = call i32 @llvm.nvvm.read.ptx.sreg.nctaid.x()
  %base = mul i32 %c, %nt
  %first = add i32 %base, %t
  %step = mul i32 %nc, %nt
  %odd = and i32 %t, 1
  %isodd = icmp ne i32 %odd, 0
  br label %head
head:
  %i = phi i32 [%first, %entry], [%inext, %next]
  %s = phi i32 [0, %entry], [%snext, %next]
  %more = icmp slt i32 %i, %n
  br i1 %more, label %body, label %tree
body:
  %i64 = sext i32 %i to i64
  %p = getelementptr i8, i8 addrspace(1)* %src, i64 %i64
  %v8 = load volatile i8, i8 addrspace(1)* %p
  %v = sext i8 %v8 to i32
  br i1 %isodd, label %double, label %next
double:
  %v2 = shl i32 %v, 1
  %m = call i32 asm sideeffect "activemask.b32 $0;", "=r"()
  br label %next
next:
  %w = phi i32 [%v, %body], [%v2, %double]
  %snext = add i32 %s, %w
  %inext = add i32 %i, %step
  br label %head
tree:
  %slot = getelementptr [256 x i32], [256 x i32] addrspace(3)* @part, i32 0, i32 %t
  store i32 %s, i32 addrspace(3)* %slot
  call void @llvm.nvvm.barrier0()
  br label %level
level:
  %half = phi i32 [128, %tree], [%half2, %join]
  %low = icmp slt i32 %t, %half
  br i1 %low, label %add, label %join
add:
  %o = add i32 %t, %half
  %oslot = getelementptr [256 x i32], [256 x i32] addrspace(3)* @part, i32 0, i32 %o
  %a = load i32, i32 addrspace(3)* %slot
  %b = load i32, i32 addrspace(3)* %oslot
  %ab = add i32 %a, %b
  store i32 %ab, i32 addrspace(3)* %slot
  br label %join
join:
  call void @llvm.nvvm.barrier0()
  %half2 = lshr i32 %half, 1
  %again = icmp sgt i32 %half2, 16
  br i1 %again, label %level, label %last
last:
  %inwarp = icmp slt i32 %t, 32
  br i1 %inwarp, label %shuffle, label %end
shuffle:
  %x0 = load i32, i32 addrspace(3)* %slot
  %y0 = call i32 @llvm.nvvm.shfl.sync.down.i32(i32 -1, i32 %x0, i32 16, i32 31)
  %x1 = add i32 %x0, %y0
  %y1 = call i32 @llvm.nvvm.shfl.sync.down.i32(i32 -1, i32 %x1, i32 8, i32 31)
  %x2 = add i32 %x1, %y1
  %y2 = call i32 @llvm.nvvm.shfl.sync.down.i32(i32 -1, i32 %x2, i32 4, i32 31)
  %x3 = add i32 %x2, %y2
  %y3 = call i32 @llvm.nvvm.shfl.sync.down.i32(i32 -1, i32 %x3, i32 2, i32 31)
  %x4 = add i32 %x3, %y3
  %y4 = call i32 @llvm.nvvm.shfl.sync.down.i32(i32 -1, i32 %x4, i32 1, i32 31)
  %x5 = add i32 %x4, %y4
  %zero = icmp eq i32 %t, 0
  br i1 %zero, label %out, label %end
out:
  %old = atomicrmw add i32 addrspace(1)* %dst, i32 %x5 seq_cst
  br label %end
end:
  ret void
}
!nvvm.annotations = !{!0}
!0 = !{void (i8 addrspace(1)*, i32 addrspace(1)*, i32)* @reduce, !"kernel", i32 1}
