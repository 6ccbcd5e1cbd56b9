# gorun's build. `make help` lists the targets.
GO     ?= go
PREFIX ?= /usr/local
BIN    := bin

# The program of go install, without paths of this machine and symbols.
BUILDFLAGS := -trimpath -ldflags "-s -w"

# go-nvml declares functions that NVIDIA has deprecated, and gcc warns of each.
export CGO_CFLAGS ?= -O2 -g -Wno-deprecated-declarations

# The packages where several goroutines meet; the rest has nothing to race.
RACE ?= ./rendezvous/... ./launch/... ./worker/... ./envprop/... ./internal/...

# Packages that are tested one at a time, since leases run out on a machine that
# does not keep up.
ALONE := /rendezvous/etcd$$|/e2e(/compat)?$$

# RERUN is the path of gotestsum, if a test that fails is to be played once more, by
# itself: CI's machine may stand still for seconds. A data race is never played again,
# nor are more than three failures. $(BIN)/flaky-* names what passed only then.
RERUN ?=

# go-test runs go test with the flags $1 on the packages $2.
go-test = $(if $(RERUN),$(RERUN) --format pkgname --rerun-fails=1 --rerun-fails-max-failures=3 \
	--rerun-fails-abort-on-data-race --rerun-fails-report=$(BIN)/flaky-$$$$.txt --packages="$2" -- $1,$(GO) test $1 $2)

FUZZTIME  ?= 10s
BENCHARGS ?=

# Modules of their own below this one, other than the lint tools.
NESTED := $(patsubst %/go.mod,%,$(filter-out tools/go.mod,$(wildcard */go.mod */*/go.mod */*/*/go.mod)))

.DEFAULT_GOAL := build
.PHONY: demo build build-static install test test-deps race lint fuzz-smoke bench bench-peers cover clean help

# STEP matches the lines of go build -v that say how far it is.
STEP := ^(go: (downloading|finding) .*|[a-z0-9][A-Za-z0-9._/~-]*)$$

# BUILT makes go list name what go build can build: no test's own variants, and
# of the standard library what the rest needs.
export BUILT := {{if and (or .GoFiles .CgoFiles) (not (or .Standard .ForTest (eq .Name "main")))}}{{.ImportPath}}{{end}}

# The demo and the tests build what `go install` builds, so that the second of
# them finds everything compiled.
demo: ## build gorun and run examples/allreduce on two nodes of this machine
	@echo "gorun is built (the first time: one to three minutes), then starts two nodes of two workers each on this machine."
	@scripts/progress.sh "building gorun" '$(STEP)' $(GO) build -v -o $(BIN)/demo/gorun ./cmd/gorun
	CUDA_VISIBLE_DEVICES= $(BIN)/demo/gorun --local-nodes 2 --nproc-per-node 2 ./examples/allreduce

build: ## bin/gorun, with NVML (needs a C compiler)
	$(GO) build $(BUILDFLAGS) -o $(BIN)/gorun ./cmd/gorun

build-static: ## bin/gorun-static: no C, no NVML, runs on any Linux
	CGO_ENABLED=0 $(GO) build $(BUILDFLAGS) -o $(BIN)/gorun-static ./cmd/gorun

install: build ## copy bin/gorun to $(PREFIX)/bin, and its man page
	install -D -m 755 $(BIN)/gorun $(DESTDIR)$(PREFIX)/bin/gorun
	install -D -m 644 cmd/gorun/gorun.1 $(DESTDIR)$(PREFIX)/share/man/man1/gorun.1

test: test-deps ## every test (installs Debian packages first when root)
	@for m in . $(NESTED); do \
		scripts/progress.sh "building what tests of $$m need" '$(STEP)' sh -c \
			'cd $$0 && $(GO) build -v $$($(GO) list -test -deps -f "$$BUILT" ./... $$(grep -o ^tool go.mod))' $$m || exit 1; \
	done
	@for m in $(NESTED); do echo "== $$m"; $(GO) -C $$m test $(TESTFLAGS) ./... || exit 1; done
	$(call go-test,-count=1 $(TESTFLAGS),$$($(GO) list ./... | grep -v -E '$(ALONE)'))
	$(call go-test,-p 1 -count=1 -timeout=20m $(TESTFLAGS),$$($(GO) list ./... | grep -E '$(ALONE)'))

test-deps:
	@scripts/install-test-deps.sh

# The fleets over etcd run without the race detector: with it, two cores do not
# keep up with leases. The same cases are played in memory and over gossip.
race: test-deps ## the concurrent packages under the race detector
	$(call go-test,-race $(TESTFLAGS),$$($(GO) list $(RACE) | grep -v -E '$(ALONE)'))
	$(call go-test,-race -skip '^TestEtcdConformance' $(TESTFLAGS),./rendezvous/etcd)

lint: $(BIN)/gofumpt $(BIN)/staticcheck ## formatting, go vet, staticcheck
	@out=$$($(BIN)/gofumpt -l .) || exit 1; \
	if [ -n "$$out" ]; then echo "not formatted (run bin/gofumpt -w .):"; echo "$$out"; exit 1; fi
	$(GO) vet ./...
	$(BIN)/staticcheck ./...

$(BIN)/gofumpt: tools/go.mod
	$(GO) -C tools build -o ../$@ mvdan.cc/gofumpt

$(BIN)/staticcheck: tools/go.mod
	$(GO) -C tools build -o ../$@ honnef.co/go/tools/cmd/staticcheck

$(BIN)/gotestsum: tools/go.mod
	$(GO) -C tools build -o ../$@ gotest.tools/gotestsum

fuzz-smoke: ## every Fuzz function for $(FUZZTIME)
	@GO="$(GO)" scripts/fuzz-smoke.sh $(FUZZTIME)

bench: build ## gorun beside its peers (BENCHARGS="-quick -only abort")
	$(GO) run ./bench -gorun $(BIN)/gorun $(BENCHARGS)

bench-peers: ## install the peers that bench compares with
	@scripts/install-test-deps.sh python3-torch openmpi-bin mpich etcd-server

cover: ## statement coverage, by package and in total
	@mkdir -p $(BIN)
	$(GO) test -coverprofile=$(BIN)/cover.out ./...
	@$(GO) tool cover -func=$(BIN)/cover.out | tail -n 1

clean: ## remove bin and bench/out
	rm -rf $(BIN) bench/out

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "%-14s %s\n", $$1, $$2 }' Makefile
