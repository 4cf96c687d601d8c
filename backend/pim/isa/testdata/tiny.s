.isa 6
.model "tiny"
.arch "test" 0100000000000000000000000000000000000000000000000000000000000000
.quant ""
.dram_bytes 4096
.scratchpad_bytes 0
.accumulator_bytes 0
.weight_sram_bytes 0
.weight_bytes 0
.replicas 0
.input "x" f32 [1,4] 512 0 0
.layer "a" "conv2d" 0 "" ; 0

.init ; cluster 0
    halt

.init ; cluster 1
    halt

.main ; cluster 0
.at 0 ; a
    set reg=r1 imm=5
    loop count=3
        load dst=64 src=128+r1 n1=2 dst_s1=64 src_s1=32 len=16
        addi reg=r1 imm=16
    next
.at -1
    halt

.main ; cluster 1
.at 0 ; a
    unaryf fn=3 src=64 n=16 alpha=0.1 beta=nan:7fc00000
.at -1
    halt

.consts ; 9 bytes: base64, or .zero and a count
Y29uc3RhbnRz
