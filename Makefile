# make            builds the seven programs into build/bin
# make demo       eight jobs on a real Slurm, their reports and a page, on this machine
# make test       all that this machine can test in ten minutes
# make help       the other targets; contrib/test/ has further tests

SHELL := /bin/bash
.SHELLFLAGS := -o pipefail -c
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

MODULE  := github.com/resource-tracker/rt
GO      ?= go
# nethttpomithttp2: S3 and Sentinel use HTTP/1.1, and HTTP/2 would add 0.4 MiB.
TAGS    := urfave_cli_no_docs,sqlite_omit_load_extension,nethttpomithttp2
VERSION := $(shell git describe --tags --match 'v*' --dirty 2>/dev/null | sed 's/^v//')
COMMIT  := $(shell git describe --always --abbrev=12 --exclude '*' --dirty 2>/dev/null)
LDFLAGS := -s -w $(if $(VERSION),-X $(MODULE).Version=$(VERSION)) $(if $(COMMIT),-X $(MODULE).Commit=$(COMMIT))
# The same bytes from a checkout, from an archive and in each directory.
GOBUILD := build -trimpath -buildvcs=false
# Tests and linters compile with the flags of the programs, so that each package is compiled once.
export GOFLAGS := $(strip $(GOFLAGS) -trimpath)
# SQLite's code is a third smaller with -Os, and with it a tracker, which is in memory once for each job.
export CGO_CFLAGS := -g -Os

# NVML is resolved at its first call, not when the program is loaded: most nodes have
# none, and a hardened tool chain binds all symbols at the start.
LDFLAGS_CGO := $(LDFLAGS) -extldflags=-Wl,-z,lazy

BIN   ?= build/bin
TOOLS := build/tools
HOOKS := rt-prolog rt-epilog
CGO   := rt-tracker rt-spool resource-tracker rt-site rt-lake

.PHONY: all build programs demo test check fresh lint bench gpu install packages release clean help print-version

all: build

help:
	@printf '%-9s %s\n' \
	build 'the seven programs, stripped, in $(BIN)' \
	demo 'eight jobs on a real Slurm, their reports and a page; without root under resource-tracker' \
	test 'unit tests, and jobs on a real Slurm where one can run: at most ten minutes' \
	check 'all tests: lint, -race, Slurm 22.05 to 26.05 in virtual machines, PostgreSQL, browser' \
	fresh 'demo and test on a new Debian 12 (as root); contrib/lab/fresh has more kinds of machines' \
	lint 'gofmt, go vet, staticcheck, depguard, the checks of tools/rtvet, and Vale for the prose' \
	bench 'what trackers, hooks and drain cost, next to their limits (BENCH=-h)' \
	gpu 'a test of GPUs in build/gpu, to be copied to a machine that has one: build/gpu/run' \
	install 'into PREFIX=$(PREFIX), below DESTDIR' \
	packages 'deb and rpm packages of this commit, in build/packages' \
	release 'packages and archives for amd64 and arm64, SBOM and SHA256SUMS of the tag at HEAD' \
	clean 'removes build/; contrib/lab/clean-system removes what tests left elsewhere'
	@printf '\ncontrib/test/NAME has further tests, and NAME -h says what it needs:\n'
	@ls contrib/test | grep -v '^lib$$' | fmt -w 80 | sed 's/^/  /'

build:
	@contrib/lab/progress 'building the seven programs into $(BIN)' $(MAKE) programs
	@$(GO) run -C tools ./completions '$(abspath $(BIN))' '$(abspath $(BIN)/completions)'

# The hooks delay every job: no cgo, so that they start without a dynamic loader.
programs:
	@mkdir -p $(BIN)
	CGO_ENABLED=0 $(GO) $(GOBUILD) -v -ldflags '$(LDFLAGS)' -o $(BIN)/ $(HOOKS:%=./cmd/%)
	CGO_ENABLED=1 $(GO) $(GOBUILD) -v -tags $(TAGS) -ldflags '$(LDFLAGS_CGO)' -o $(BIN)/ $(CGO:%=./cmd/%)
	@ln -sf rt-spool $(BIN)/rt-job

demo:
	@contrib/demo/demo.sh '$(BIN)'

# -------------------------------------------------------------------- tests

test:
	@contrib/test/quick

check:
	@contrib/test/all

fresh:
	@contrib/lab/fresh demo test

# BENCH='-only tracker,hooks -for 1m'. docs/budgets.md explains the figures.
BENCH ?=
bench: build
	@python3 -c 'import ensurepip' 2>/dev/null || contrib/lab/need python3-venv || true
	@RT_BIN='$(abspath $(BIN))' $(GO) run -tags $(TAGS) ./e2e/bench $(BENCH)

lint: $(TOOLS)/vale
	@GO='$(GO)' contrib/test/lint

# build/gpu can be copied to a machine without Go, compiler and network: build/gpu/run there is the test.
gpu: build
	@mkdir -p build/gpu
	$(GO) test -c -trimpath -tags $(TAGS),gpu -ldflags '$(LDFLAGS_CGO)' -o build/gpu/gpu.test ./e2e/gpu
	gcc -O2 -o build/gpu/load e2e/gpu/load/load.c -ldl
	cp e2e/gpu/run $(BIN)/resource-tracker $(BIN)/rt-spool build/gpu/

# ---------------------------------------------------------- tools of the tests

$(TOOLS)/testsum: $(wildcard tools/testsum/*.go)
	@mkdir -p $(TOOLS)
	@$(GO) build -C tools -buildvcs=false -o ../$(TOOLS)/ ./testsum

$(TOOLS)/vale: tools/vale/go.mod tools/vale/go.sum
	@contrib/lab/need g++=build-essential
	@mkdir -p $(TOOLS)
	@contrib/lab/progress 'building the linter of prose, once' env CGO_CFLAGS='-O0 -g0' CGO_CXXFLAGS='-O0 -g0' $(GO) build -C tools/vale -v -trimpath -buildvcs=false -ldflags '-s -w' -o ../../$@ github.com/errata-ai/vale/v3/cmd/vale

# A real object store from its Go module: built once, which takes minutes.
$(TOOLS)/minio: tools/minio/go.mod tools/minio/go.sum
	@mkdir -p $(TOOLS)
	@contrib/lab/progress 'building MinIO, once' $(GO) build -C tools/minio -v -trimpath -buildvcs=false -ldflags '-s -w' -o ../../$@ github.com/minio/minio

$(TOOLS)/nfpm: tools/nfpm/go.mod tools/nfpm/go.sum
	@mkdir -p $(TOOLS)
	$(GO) build -C tools/nfpm -trimpath -buildvcs=false -ldflags '-s -w' -o ../../$@ github.com/goreleaser/nfpm/v2/cmd/nfpm

$(TOOLS)/cyclonedx-gomod $(TOOLS)/sbom &: tools/sbom/go.mod tools/sbom/go.sum tools/sbom/main.go
	@mkdir -p $(TOOLS)
	$(GO) build -C tools/sbom -trimpath -buildvcs=false -ldflags '-s -w' -o ../../$(TOOLS)/ . github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod

# ------------------------------------------------------- install and packages

PREFIX     ?= /usr/local
DESTDIR    ?=
BINDIR     ?= $(PREFIX)/bin
LIBEXECDIR ?= $(PREFIX)/libexec/rt
MANDIR     ?= $(PREFIX)/share/man
DOCDIR     ?= $(PREFIX)/share/doc/rt
BASHDIR    ?= $(PREFIX)/share/bash-completion/completions
ZSHDIR     ?= $(PREFIX)/share/zsh/site-functions
FISHDIR    ?= $(PREFIX)/share/fish/vendor_completions.d
COMPLETIONS ?= $(BIN)/completions

# It builds nothing and needs no Go: another user, such as root, can run it after make.
install: export PREFIX := $(PREFIX)
install: export DESTDIR := $(DESTDIR)
install: export BINDIR := $(BINDIR)
install: export LIBEXECDIR := $(LIBEXECDIR)
install: export MANDIR := $(MANDIR)
install: export DOCDIR := $(DOCDIR)
install: export BASHDIR := $(BASHDIR)
install: export ZSHDIR := $(ZSHDIR)
install: export FISHDIR := $(FISHDIR)
install: export COMPLETIONS := $(COMPLETIONS)
install: export BIN := $(BIN)
install:
	@contrib/packages/install

# The version of a package: a version without a tag is older than the next one.
NEXT := $(shell sed -n 's/^var Version = "\(.*\)"/\1/p' version.go)
PKGVERSION ?= $(if $(VERSION),$(subst -,~,$(VERSION)),$(NEXT)~dev)
export SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct 2>/dev/null || stat -c %Y version.go)
ARCH := $(if $(filter aarch64,$(shell uname -m)),arm64,amd64)

print-version:
	@echo '$(PKGVERSION)'

packages: $(TOOLS)/nfpm build
	@rm -rf build/packages
	contrib/packages/build $(BIN) $(PKGVERSION) $(ARCH)

# From the tag at HEAD; it pushes nothing.
release: $(TOOLS)/nfpm $(TOOLS)/cyclonedx-gomod $(TOOLS)/sbom build
	@contrib/test/cross
	@GO='$(GO)' contrib/packages/release

clean:
	rm -rf build
