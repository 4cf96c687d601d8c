package ptx

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
)

// Limits of a launch: those of the CUDA programming guide for compute
// capability 9.0, and two that keep hostile text from taking the machine down.
const (
	maxThreads    = 1024
	maxShared     = 227 << 10 // bytes of a block
	maxBlockState = 256 << 20 // bytes of registers, or of local memory, of a block
)

// defaultSteps is how many instructions the warps of one block may execute
// together unless the launch says otherwise: some minutes.
const defaultSteps = int64(1) << 32

// An Arg is the value of a kernel parameter, little-endian.
type Arg []byte

// U32 is a 32-bit argument.
func U32(v uint32) Arg { return binary.LittleEndian.AppendUint32(nil, v) }

// S32 is a signed 32-bit argument.
func S32(v int32) Arg { return U32(uint32(v)) }

// U64 is a 64-bit argument, or the address of a buffer.
func U64(v uint64) Arg { return binary.LittleEndian.AppendUint64(nil, v) }

// F32 is a single-precision argument.
func F32(v float32) Arg { return U32(math.Float32bits(v)) }

// A Sample chooses the thread blocks of a launch that run. The counters are
// then scaled to the whole grid, and memory holds only what those blocks wrote.
type Sample struct {
	// Blocks is how many run, each block as likely as any other; 0, or as
	// many as the grid has, runs all. Estimates of DRAM traffic need several
	// blocks that share each tile: of a product, four for each row and column
	// of the grid.
	Blocks int
	// Seed makes the choice; the same seed chooses the same blocks.
	Seed uint64
}

// Caches says what lies between the SMs and memory. A zero is the default, a
// negative number means none.
type Caches struct {
	L1Bytes int // share of one block; default 32 KiB
	L2Bytes int // default 40 MiB
	// Resident is how many blocks run at the same time; their accesses reach
	// L2 in turns. Default 108, the SMs of an A100.
	Resident int
}

// A LaunchConfig is everything of a launch but the kernel.
type LaunchConfig struct {
	Grid, Block [3]int // zeros count as 1
	SharedBytes int    // dynamic shared memory
	Args        []Arg  // one for each parameter
	Memory      *Memory
	Sample      Sample
	Caches      Caches
	// L2, if not nil, is the cache as an earlier launch left it. What is dirty
	// stays in it. It cannot be combined with a sample.
	L2 *L2
	// MaxSteps bounds the warp instructions of one block, against kernels that
	// never end; 0 is 2³².
	MaxSteps int64
	// Workers is the number of blocks that run at once here; 0 is GOMAXPROCS.
	// It changes no counter.
	Workers int
}

// launch is the state of one launch.
type launch struct {
	module      *Module
	kernel      *kernel
	cfg         LaunchConfig
	ctx         context.Context
	regions     []*region
	params      []byte
	c32         [][lanes]uint32
	c64         [][lanes]uint64
	threads     int // of a block
	warps       int
	sharedBytes int
	grid        int   // blocks
	blocks      []int // that run, ascending; nil: all
	next        atomic.Int64
	failed      atomic.Bool
	order       *order
}

// Launch runs a kernel to its end and returns what it did. Errors of the
// caller (arguments, sizes) and of the kernel (an access outside every buffer,
// a barrier that part of a warp misses) are errors; those of the kernel name
// the line of the instruction, the block and the thread. A kernel that fails
// leaves memory half-written.
func (m *Module) Launch(ctx context.Context, name string, cfg LaunchConfig) (*Counters, error) {
	k, err := m.find(name)
	if err != nil {
		return nil, err
	}
	l := &launch{module: m, kernel: k, cfg: cfg, ctx: ctx}
	if err := l.prepare(); err != nil {
		return nil, fmt.Errorf("%s: launch of %s: %w", m.Name, name, err)
	}
	return l.run()
}

// prepare checks the configuration and fills in what it leaves open.
func (l *launch) prepare() error {
	cfg, k := &l.cfg, l.kernel
	if cfg.Memory == nil {
		return errors.New("no memory")
	}
	l.threads, l.grid = 1, 1
	for i := range 3 {
		if cfg.Block[i] == 0 {
			cfg.Block[i] = 1
		}
		if cfg.Grid[i] == 0 {
			cfg.Grid[i] = 1
		}
		if g := [3]int{math.MaxInt32, 65535, 65535}[i]; cfg.Grid[i] < 1 || cfg.Grid[i] > g {
			return fmt.Errorf("grid %v: dimension %d must be 1 to %d", cfg.Grid, i, g)
		}
		if b := [3]int{1024, 1024, 64}[i]; cfg.Block[i] < 1 || cfg.Block[i] > b {
			return fmt.Errorf("block %v: dimension %d must be 1 to %d", cfg.Block, i, b)
		}
		l.threads *= cfg.Block[i]
		if l.grid > math.MaxInt32/cfg.Grid[i] {
			return fmt.Errorf("grid %v has more than 2³¹ blocks", cfg.Grid)
		}
		l.grid *= cfg.Grid[i]
	}
	limit := maxThreads
	if k.maxThreads > 0 {
		limit = k.maxThreads
	}
	if l.threads > limit {
		return fmt.Errorf("block %v has %d threads, at most %d may run", cfg.Block, l.threads, limit)
	}
	l.warps = (l.threads + lanes - 1) / lanes
	if cfg.SharedBytes < 0 || cfg.SharedBytes > maxShared || k.dynamic+cfg.SharedBytes > maxShared {
		return fmt.Errorf("%d bytes of shared memory and %d of the launch: a block has at most %d", k.dynamic, cfg.SharedBytes, maxShared)
	}
	l.sharedBytes = k.shared
	if cfg.SharedBytes > 0 {
		l.sharedBytes = k.dynamic + cfg.SharedBytes
	}
	if n := l.warps * (k.n32*4 + k.n64*8 + k.preds) * lanes; n > maxBlockState {
		return fmt.Errorf("%d bytes of registers for a block, at most %d are emulated", n, maxBlockState)
	}
	if n := l.warps * lanes * k.local; n > maxBlockState {
		return fmt.Errorf("%d bytes of local memory for a block, at most %d are emulated", n, maxBlockState)
	}
	if len(cfg.Args) != len(k.params) {
		return fmt.Errorf("%d arguments for %d parameters", len(cfg.Args), len(k.params))
	}
	l.params = make([]byte, k.paramBytes)
	for i, p := range k.params {
		if len(cfg.Args[i]) != p.size {
			return fmt.Errorf("argument %d has %d bytes, parameter %s has %d", i, len(cfg.Args[i]), p.name, p.size)
		}
		copy(l.params[p.offset:], cfg.Args[i])
	}
	pick := func(v *int, def int) {
		if *v == 0 {
			*v = def
		}
		*v = max(*v, 0)
	}
	pick(&cfg.Caches.L1Bytes, 32<<10)
	pick(&cfg.Caches.L2Bytes, 40<<20)
	pick(&cfg.Caches.Resident, 108)
	if cfg.MaxSteps <= 0 {
		cfg.MaxSteps = defaultSteps
	}
	if cfg.Workers <= 0 {
		cfg.Workers = runtime.GOMAXPROCS(0)
	}
	if n := cfg.Sample.Blocks; n > 0 && n < l.grid {
		if cfg.L2 != nil {
			return errors.New("a sampled launch cannot share an L2: the blocks that do not run leave nothing in it")
		}
		l.blocks = choose(cfg.Grid, n, cfg.Sample.Seed)
	}
	return l.constants()
}

// choose returns n blocks of a grid as ascending linear indices. With at least
// balanced of them for each index of every dimension, each index gets about as
// many as any other, so that no row or column of tiles goes unseen by chance.
func choose(grid [3]int, n int, seed uint64) []int {
	rng := rand.New(rand.NewPCG(seed, 0x5174755f707478))
	total := grid[0] * grid[1] * grid[2]
	m := min(n, total-n) // choose those that run or those that do not
	set := make(map[int]bool, m)
	if n >= balanced*max(grid[0], grid[1], grid[2]) {
		var turns [3][]int
		for len(set) < m {
			b, stride := 0, 1
			for d, g := range grid {
				if len(turns[d]) == 0 {
					turns[d] = rng.Perm(g)
				}
				b += stride * turns[d][0]
				stride *= g
				turns[d] = turns[d][1:]
			}
			set[b] = true
		}
	} else {
		for i := total - m; i < total; i++ { // Floyd's algorithm
			if j := rng.IntN(i + 1); !set[j] {
				set[j] = true
			} else {
				set[i] = true
			}
		}
	}
	out := make([]int, 0, n)
	if m == n {
		for b := range set {
			out = append(out, b)
		}
		slices.Sort(out)
		return out
	}
	for b := range total {
		if !set[b] {
			out = append(out, b)
		}
	}
	return out
}

// balanced is how many blocks a sample has for each index of a dimension, at
// least, for choose to spread them evenly.
const balanced = 4

// constants places the module's variables and spreads constants over lanes.
func (l *launch) constants() error {
	at, err := l.cfg.Memory.load(l.module)
	if err != nil {
		return err
	}
	l.cfg.Memory.mu.Lock()
	l.regions = l.cfg.Memory.regions
	l.cfg.Memory.mu.Unlock()
	c64 := slices.Clone(l.kernel.c64)
	for _, r := range l.kernel.relocs {
		c64[r.index] = at[r.sym] + uint64(r.addend)
	}
	l.c32 = make([][lanes]uint32, len(l.kernel.c32))
	for i, v := range l.kernel.c32 {
		for j := range lanes {
			l.c32[i][j] = v
		}
	}
	l.c64 = make([][lanes]uint64, len(c64))
	for i, v := range c64 {
		for j := range lanes {
			l.c64[i][j] = v
		}
	}
	return nil
}

// run executes the blocks on Workers goroutines.
func (l *launch) run() (*Counters, error) {
	total := l.grid
	if l.blocks != nil {
		total = len(l.blocks)
	}
	l.order = newOrder(l, total)
	workers := make([]*worker, min(l.cfg.Workers, total))
	var wg sync.WaitGroup
	for i := range workers {
		workers[i] = takeWorker(l)
		wg.Go(func() { workers[i].blocks(total) })
	}
	wg.Wait()
	// Of several blocks that failed the first in the grid: those before it have
	// all run to their end.
	var failed *worker
	for _, w := range workers {
		if w.err != nil && (failed == nil || w.failedAt < failed.failedAt) {
			failed = w
		}
	}
	if failed != nil {
		return nil, failed.err
	}
	l.order.finish()
	c := l.counters(workers)
	l.order.end()
	for _, w := range workers {
		giveWorker(w)
	}
	return c, nil
}
