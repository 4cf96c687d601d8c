# situ: build, test, check, bench, fuzz. Everything is plain go; these targets
# only save typing and agree with what continuous integration runs.

GO       ?= go
FUZZTIME ?= 60s
STATICCHECK = honnef.co/go/tools/cmd/staticcheck@v0.8.2

.PHONY: build test deps check bench fuzz generate accuracy device

build: ## the command line, into bin/
	$(GO) build -o bin/situ ./cmd/situ

test: deps ## all tests
	$(GO) test -timeout 30m ./...

# Go fetches modules by itself. Beyond them only the tests of GPU kernels need
# something: llc, from Debian's package llvm. Without it they say so and skip.
deps: ## what tests need beyond Go
	@command -v llc >/dev/null || ls /usr/bin/llc-* >/dev/null 2>&1 || \
	  { command -v apt-get >/dev/null && apt-get update -q && apt-get install -y -q --no-install-recommends llvm; } || \
	  echo "llc was not found and could not be installed (Debian package llvm): tests of GPU kernels will be skipped"

check: ## format, vet, staticcheck, build, generated files, tests
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { gofmt -l $$(git ls-files '*.go'); echo "run gofmt -w on these"; exit 1; }
	$(GO) vet ./...
	$(GO) run $(STATICCHECK) ./...
	$(GO) build ./...
	$(GO) run ./internal/gendocs -check
	$(GO) test -timeout 30m ./...

bench: ## benchmarks; ratios (%peak, ×ort) are taken in one run
	$(GO) test -run '^$$' -bench . -benchtime 200ms ./internal/gemm ./internal/fixed ./arch ./frontend/onnx ./ir/...
	$(GO) test -run '^$$' -bench . -benchtime 5x ./emulator/... ./backend/... ./models ./runtime
	$(GO) test -run '^$$' -bench 'Mappings|ResNet18Points' -benchtime 400x ./backend/pim ./runtime/explore
	$(GO) test -run '^$$' -bench Workers -benchtime 3x ./runtime/explore

fuzz: ## each fuzz target for FUZZTIME
	@for p in $$($(GO) list ./...); do \
	  for f in $$($(GO) test -list '^Fuzz' $$p | grep '^Fuzz'); do \
	    echo "$$p $$f"; $(GO) test -run '^$$' -fuzz "^$$f$$" -fuzztime $(FUZZTIME) $$p || exit 1; \
	  done; done

generate: ## reference pages and protobuf code
	$(GO) run ./internal/gendocs
	$(GO) generate ./...

accuracy: ## top-1 on MNIST (10,000) and CIFAR-10 (100) beside the float model
	$(GO) test -run TestAccuracy -v -count=1 -timeout 60m ./runtime -blocks

# On a machine with an NVIDIA GPU and llc (make deps); DEVICE_TESTS adds folders
# of ONNX tests to the model that ships.
device: build deps ## measure the GPU of this machine, results in device.json
	bin/situ device
	bin/situ device check -o device.json --force $(DEVICE_TESTS)
