# make            builds the six programs into build/bin
# make demo       a workload, its report and its delivery, on this machine
# make test       all tests, also on a real Slurm (as root: it installs the packages that it needs)
# make help       the other targets

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

# NVML is resolved at its first call, not when the program is loaded: most nodes have
# none, and a hardened tool chain binds all symbols at the start.
LDFLAGS_CGO := $(LDFLAGS) -extldflags=-Wl,-z,lazy

BIN  ?= build/bin
HOOKS := rt-prolog rt-epilog
CGO   := rt-tracker rt-spool resource-tracker rt-site
TRACKERS := rt-tracker resource-tracker
# SQLite's code is a third smaller with -Os, and with it a program that is in memory once for each job. The other
# programs read many rows.
SMALL := CGO_CFLAGS='-g -Os'

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
# The files of the checkout have the default paths; the installed files have those of the
# installation.  In two steps, so that a path below /usr/local is not replaced twice.
PATHS      := -e 's|/usr/local/libexec/rt|@LIBEXECDIR@|g' -e 's|/usr/local/bin|@BINDIR@|g' \
	-e 's|/usr/local/share/doc/rt|@DOCDIR@|g' -e 's|/usr/local|@PREFIX@|g' -e 's|(contrib/slurm/|(slurm/|g' \
	-e 's|@LIBEXECDIR@|$(LIBEXECDIR)|g' -e 's|@BINDIR@|$(BINDIR)|g' -e 's|@DOCDIR@|$(DOCDIR)|g' -e 's|@PREFIX@|$(PREFIX)|g'

.PHONY: all build test fresh lint bench soak demo install cross clean clean-system help

all: build

help:
	@printf '%-14s %s\n' \
	build 'the six programs, stripped, in $(BIN)' \
	demo 'a workload under resource-tracker, delivered to a receiver on loopback' \
	test 'lint, unit tests with -race, and jobs on a real Slurm with cgroup v1 and v2 (as root)' \
	fresh 'demo and test on a Debian 12 that is made for them and has nothing else (as root)' \
	test-slurm 'all jobs of the tests on a real Slurm 22.05 with cgroup v1, and on 22.05, 24.11 and 26.05 with v2 (as root)' \
	test-each 'the tests of each package by themselves; a test fails if it leaves something on the machine' \
	test-hostile 'ten minutes of a hostile token holder against the receiver' \
	test-kills '1,000 random kills of drain, with faults of the network and a strict receiver (KILLS=1000); memory of a drain of 10,000 runs; all of the packages of which make test runs a short form' \
	fuzz 'each fuzz target for FUZZTIME (10m), one after the other; FUZZ=format/ for those below one directory' \
	test-s3 'uploads to a real MinIO on loopback, which is built first; a site service with PostgreSQL and MinIO next to one with files' \
	test-site 'deliveries of 2,000 nodes while receivers, PostgreSQL and MinIO are killed, and 300 kills of a receiver with SQLite (NODES=2000 SITE_KILLS=300)' \
	test-lake 'the Parquet files of rt-site lake in DuckDB and Spark, and 100 kills of its writer (LAKE_KILLS=100)' \
	test-openapi 'the reading API of rt-site against its description, with schemathesis' \
	test-powerapi 'reports that a real PowerAPI reads from files and its socket' \
	test-counters 'software counters of a real Slurm job, in an emulated machine with cgroup v2' \
	test-gpu 'readings of a real GPU of NVIDIA next to nvidia-smi; build/gpu can be copied to a machine that has one' \
	test-arm64 'unit tests and real samples of linux/arm64 under qemu-user' \
	compat 'one minute next to the Python resource-tracker, compared column by column' \
	lint 'gofmt, go vet, staticcheck, depguard for the table of floors, the checks of tools/rtvet, prose' \
	prose 'Vale over comments, man pages and documents' \
	bench 'the cost of trackers of real jobs next to other programs, of readings, hooks and lists, each next to its budget (BENCH=-h)' \
	bench-lake 'samples a second of rt-site lake, bytes a sample, and queries in DuckDB (RT_RUNS=1000000)' \
	soak 'memory and CPU time of resource-tracker, and of the tracker of a job with steps that come and go, in an hour (SOAK=24h)' \
	scale 'runs a second and memory of a receiver with SQLite, and with PostgreSQL and MinIO; a registry of a million jobs in both' \
	install 'into PREFIX=$(PREFIX), below DESTDIR' \
	packages 'deb and rpm packages of this commit, in build/packages' \
	release 'packages and archives for amd64 and arm64, SBOM and SHA256SUMS of the tag at HEAD, in build/release' \
	test-release 'two builds of a tag, compared byte by byte' \
	test-ansible 'the roles of contrib/ansible in a new Debian 12 (as root)' \
	test-packages 'the packages in new Debian and RPM root file systems: installed, upgraded, removed, purged; lintian and rpmlint (as root)' \
	cross 'linux/arm64, with the cross compiler of Debian' \
	clean 'removes build/' \
	clean-system 'removes what the tests have created elsewhere on this machine (as root)'

# The hooks delay every job: no cgo, so that they start without a dynamic loader.
build:
	@mkdir -p $(BIN)
	CGO_ENABLED=0 $(GO) $(GOBUILD) -ldflags '$(LDFLAGS)' -o $(BIN)/ $(HOOKS:%=./cmd/%)
	$(SMALL) CGO_ENABLED=1 $(GO) $(GOBUILD) -tags $(TAGS) -ldflags '$(LDFLAGS_CGO)' -o $(BIN)/ $(TRACKERS:%=./cmd/%)
	CGO_ENABLED=1 $(GO) $(GOBUILD) -tags $(TAGS) -ldflags '$(LDFLAGS_CGO)' -o $(BIN)/ $(patsubst %,./cmd/%,$(filter-out $(TRACKERS),$(CGO)))
	@$(GO) run -C tools ./completions '$(abspath $(BIN))' '$(abspath $(BIN)/completions)'

# -------------------------------------------------------------------- tests

TOOLS := build/tools
PACKAGES := $(MODULE)/...

.PHONY: tools testsum
testsum:
	@mkdir -p $(TOOLS)
	@$(GO) build -C tools -o ../$(TOOLS)/ ./testsum
tools:
	@mkdir -p $(TOOLS)
	@$(GO) build -C tools -o ../$(TOOLS)/ ./testsum ./rtvet \
		github.com/OpenPeeDeeP/depguard/v2/cmd/depguard honnef.co/go/tools/cmd/staticcheck

# depguard compares absolute paths: its globs are bound to this checkout first.
lint: tools prose
	@echo '== lint'
	@unformatted=$$(git ls-files -z '*.go' | xargs -0 gofmt -l); \
		[ -z "$$unformatted" ] || { echo "not formatted with gofmt:"; echo "$$unformatted"; exit 1; }
	@$(GO) vet -tags $(TAGS),e2e,s3,qemu,powerapi,openapi,gpu,lake ./...
	@$(GO) vet -vettool='$(abspath $(TOOLS)/rtvet)' -tags $(TAGS) ./...
	@$(GO) test -C tools ./...
	@mkdir -p build/lint && sed 's|"\(!*\)\*\*/|"\1$(CURDIR)/|g' .depguard.yml >build/lint/.depguard.yml
	@cd build/lint && GOFLAGS='$(GOFLAGS) -tags=$(TAGS),e2e,s3,qemu,powerapi,openapi,gpu,lake' ../tools/depguard $(PACKAGES)
	@$(TOOLS)/staticcheck -tags $(TAGS),e2e,s3,qemu,powerapi,openapi,gpu,lake ./...

# Vale over the comments, the man pages, rt.toml and the documents, with the words in .vale.
PROSE := git ls-files -z '*.go' '*.md' 'man/*.[158]' contrib/rt.toml ':!**/testdata/**'

$(TOOLS)/vale: tools/vale/go.mod tools/vale/go.sum
	@contrib/lab/need g++=build-essential
	@mkdir -p $(TOOLS)
	$(GO) build -C tools/vale -trimpath -ldflags '-s -w' -o ../../$@ github.com/errata-ai/vale/v3/cmd/vale

.PHONY: prose
prose: $(TOOLS)/vale
	@$(PROSE) | xargs -0 $(TOOLS)/vale --output line

# The packages that take longest start first.
SLOWEST := ./cmd/rt-spool ./cmd/rt-site ./spool ./site/lake ./cmd/resource-tracker ./upload ./site/registry
SUM := $(TOOLS)/testsum -allow e2e/skip-allow.txt
# -short leaves out most of the kills and faults that differ only in their place, others in each run: make test-kills or
# make test-each has them all.
UNIT := $(GO) test -race -short -tags $(TAGS) -count=1 -timeout 30m -json
# Jobs on the host wait for most of their time: the virtual machines, which share nothing with them, run meanwhile.
IN_MACHINES := V2$$
E2E := env RT_BIN=$(abspath $(BIN)) $(GO) test -tags $(TAGS),e2e -count=1 -timeout 2h -json

# The Debian suites with the versions of Slurm. Their images are built while the unit tests run.
SUITES := bookworm trixie sid
IMAGES := for s in $(SUITES); do CG2_SUITE=$$s CG2_CACHE=$${CG2_CACHE:-/var/cache/cg2-vm} nice contrib/lab/cg2-vm build || exit 1; done

# A program that was built with -race waits one second when it exits, and the tests
# start a thousand: 0.1 s is enough.
test: export GORACE = atexit_sleep_ms=100
test: lint build
	@echo '== tests'
	@contrib/lab/need sqlite3=sqlite3 ps=procps mmdebstrap=mmdebstrap mke2fs=e2fsprogs chromium=chromium fonts-liberation postgresql munged=munge promtool=prometheus
	@{ { $(IMAGES); } >/dev/null 2>&1 & $(UNIT) -shuffle=on $(SLOWEST) ./...; echo "exit $$?"; wait; \
	   { $(E2E) -run '$(IN_MACHINES)' ./e2e; echo "exit $$?"; } >build/machines.json 2>&1 & \
	   $(E2E) -skip '$(IN_MACHINES)' ./e2e ./e2e/delivery; echo "exit $$?"; \
	   wait; cat build/machines.json; \
	 } 2>&1 | $(SUM) -commands 3 -again '$(UNIT)' -again-e2e '$(E2E)'

# CI runs the same in .ci/run.
fresh:
	@GO='$(GO)' contrib/lab/fresh demo test

.PHONY: test-slurm
test-slurm: testsum build
	@contrib/lab/need sqlite3=sqlite3 ps=procps mmdebstrap=mmdebstrap mke2fs=e2fsprogs
	@$(IMAGES)
	@{ RT_E2E_SLURM=all $(E2E) -run '^(TestCgroupV1|TestCgroupV2|TestTruth|TestTruthV2|TestLifecycle|TestPrologFlags)$$' ./e2e; echo "exit $$?"; } 2>&1 | \
		tee build/test-slurm.json | $(SUM)
	@grep -aoh 'versions: Slurm [^\\"]*' build/test-slurm.json | sort -u

.PHONY: test-each
test-each: testsum
	@GO='$(GO)' contrib/lab/each-package $(TAGS) 2>&1 | $(SUM)

# HOSTILE=1m for a shorter attack. make test has one of 20 s, which checks no times.
.PHONY: test-hostile
HOSTILE ?= 10m
test-hostile: build
	@RT_HOSTILE=$(HOSTILE) RT_BIN='$(abspath $(BIN))' $(GO) test -tags $(TAGS),e2e -count=1 -timeout 1h -v -run '^TestHostileTokenHolder$$' ./e2e/delivery

KILLS ?= 1000
SHORTENED = $(shell grep -rl --include='*_test.go' 'testing\.Short()' . | xargs -n1 dirname | sort -u)
.PHONY: test-kills
test-kills: build
	@$(GO) test -tags $(TAGS) -count=1 -timeout 1h $(SHORTENED)
	@RT_KILLS=$(KILLS) RT_RUNS=10000 RT_BIN='$(abspath $(BIN))' $(GO) test -tags $(TAGS),e2e -count=1 -timeout 2h -v -run '^TestDrain(KilledAtRandom|Memory)$$' ./e2e/delivery

# An input that reaches new code is minimised in few executions: by default that takes a minute, and with
# it most of the time.
FUZZTIME ?= 10m
FUZZ ?=
.PHONY: fuzz
fuzz:
	@grep -roE --include='*_test.go' 'func Fuzz[A-Za-z0-9]+' './$(FUZZ)' | sed -E 's|/[^/]*:func | |' | sort | while read -r dir name; do \
		echo "$$dir $$name"; $(GO) test -tags $(TAGS) -run '^$$' -fuzz "^$$name$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 100x "$$dir" </dev/null || exit 1; \
	done

# A real object store from its Go module: built once, which takes minutes.
$(TOOLS)/minio: tools/minio/go.mod tools/minio/go.sum
	@mkdir -p $(TOOLS)
	$(GO) build -C tools/minio -trimpath -ldflags '-s -w' -o ../../$@ github.com/minio/minio

.PHONY: test-s3 test-site test-openapi test-powerapi test-counters test-arm64 compat
test-s3 test-site: export RT_MINIO = $(abspath $(TOOLS)/minio)
test-s3 test-site: export RT_BIN = $(abspath $(BIN))
test-s3: $(TOOLS)/minio testsum build
	@contrib/lab/need postgresql
	@{ $(GO) test -tags $(TAGS),s3 -count=1 -json ./e2e/s3 ./site/objects; echo "exit $$?"; \
	   $(GO) test -tags $(TAGS),e2e,s3 -count=1 -json -run '^TestSiteStores$$' ./e2e/delivery; echo "exit $$?"; } 2>&1 | $(SUM)

# RT_SEED repeats the random choices of an earlier run.
NODES ?= 2000
SITE_KILLS ?= 300
test-site: $(TOOLS)/minio build
	@contrib/lab/need postgresql
	@RT_NODES=$(NODES) RT_KILLS=$(SITE_KILLS) $(GO) test -tags $(TAGS),e2e,s3 -count=1 -timeout 2h -v -run '^TestSite' ./e2e/delivery

# SCHEMATHESIS=4.32.4 for another one.
SCHEMATHESIS ?= 4.32.5
test-openapi: build
	@python3 -c 'import ensurepip' 2>/dev/null || contrib/lab/need python3-venv || true
	@[ -e build/schemathesis-$(SCHEMATHESIS)/bin/python ] || python3 -m venv build/schemathesis-$(SCHEMATHESIS)
	@build/schemathesis-$(SCHEMATHESIS)/bin/pip install -q schemathesis==$(SCHEMATHESIS)
	@RT_BIN='$(abspath $(BIN))' RT_SCHEMATHESIS='$(abspath build/schemathesis-$(SCHEMATHESIS)/bin/schemathesis)' $(GO) test -tags $(TAGS),openapi -count=1 -v ./e2e/openapi

# The Python packages of the engines. Spark needs Java 17 or later.
DUCKDB  ?= 2.0.1
PYSPARK ?= 4.3.0
LAKE_PY := build/lake-$(DUCKDB)-$(PYSPARK)
RT_RUNS ?= 1000000
LAKE_KILLS ?= 100
.PHONY: test-lake bench-lake lake-engines
lake-engines:
	@python3 -c 'import ensurepip' 2>/dev/null || contrib/lab/need python3-venv || true
	@java -version 2>/dev/null || contrib/lab/need java=default-jre-headless
	@[ -e $(LAKE_PY)/bin/python ] || python3 -m venv $(LAKE_PY)
	@$(LAKE_PY)/bin/pip install -q duckdb==$(DUCKDB) pyspark==$(PYSPARK)
test-lake bench-lake: export RT_LAKE_PYTHON = $(abspath $(LAKE_PY)/bin/python)
test-lake bench-lake: export RT_BIN = $(abspath $(BIN))
test-lake: export RT_MINIO = $(abspath $(TOOLS)/minio)
test-lake: $(TOOLS)/minio build lake-engines
	@contrib/lab/need postgresql
	@RT_SEEDS=30 $(GO) test -tags $(TAGS) -count=1 -timeout 1h -run '^TestKilledAnywhere$$' ./site/lake
	@RT_KILLS=$(LAKE_KILLS) $(GO) test -tags $(TAGS),lake -count=1 -timeout 1h -v -run '^Test(Engines|Killed|Writer)' ./e2e/lake
bench-lake: build lake-engines
	@RT_RUNS=$(RT_RUNS) $(GO) test -tags $(TAGS),lake -count=1 -timeout 6h -v -run '^TestFigures$$' ./e2e/lake

# POWERAPI=2.9.1 for an older one.
POWERAPI ?= 2.10.0
test-powerapi:
	@python3 -c 'import ensurepip' 2>/dev/null || contrib/lab/need python3-venv || true
	@[ -e build/powerapi-$(POWERAPI)/bin/python ] || python3 -m venv build/powerapi-$(POWERAPI)
	@build/powerapi-$(POWERAPI)/bin/pip install -q powerapi==$(POWERAPI)
	@RT_POWERAPI='$(abspath build/powerapi-$(POWERAPI)/bin/python)' $(GO) test -tags $(TAGS),powerapi -count=1 -run '^TestPowerAPIReads$$' ./internal/convert/powerapi

# Slurm under a stock kernel in qemu, which takes minutes.
test-counters: build
	@RT_E2E_TCG=1 RT_BIN='$(abspath $(BIN))' $(GO) test -tags $(TAGS),e2e -count=1 -timeout 1h -v -run '^TestCountersV2$$' ./e2e

# build/gpu can be copied to a machine without Go, compiler and network: build/gpu/run there is the test.
.PHONY: gpu test-gpu
gpu: build
	@mkdir -p build/gpu
	$(GO) test -c -trimpath -tags $(TAGS),gpu -ldflags '$(LDFLAGS_CGO)' -o build/gpu/gpu.test ./e2e/gpu
	gcc -O2 -o build/gpu/load e2e/gpu/load/load.c -ldl
	cp e2e/gpu/run $(BIN)/resource-tracker $(BIN)/rt-spool build/gpu/
test-gpu: gpu
	@build/gpu/run

QEMU := qemu-aarch64 -L /usr/aarch64-linux-gnu
test-arm64: export RT_QEMU = $(QEMU)
test-arm64: build cross testsum
	@contrib/lab/need qemu-aarch64=qemu-user
	@{ GO='$(GO)' e2e/arm64/unit.sh $(TAGS); echo "exit $$?"; \
	   RT_BIN='$(abspath $(BIN))' RT_ARM64_BIN='$(abspath build/arm64)' $(GO) test -tags $(TAGS),qemu -count=1 -json ./e2e/arm64; echo "exit $$?"; \
	 } 2>&1 | $(SUM)

# The flags and their defaults: COMPAT='-seconds 60 -interval 5 -package resource-tracker==0.5.0'.
compat: build
	@python3 -c 'import ensurepip' 2>/dev/null || contrib/lab/need python3-venv || true
	@RT_BIN='$(abspath $(BIN))' $(GO) run -tags $(TAGS) ./e2e/compat $(COMPAT)

# Parts and time: BENCH='-only tracker,hooks -for 1m'. As root it installs Slurm and the programs to compare with.
BENCH ?=
bench: build
	@python3 -c 'import ensurepip' 2>/dev/null || contrib/lab/need python3-venv || true
	@RT_BIN='$(abspath $(BIN))' $(GO) run -tags $(TAGS) ./e2e/bench $(BENCH)

# SOAK=1m for a shorter run, SOAK=24h for a longer one.
SOAK ?= 1h
soak: build
	@RT_BIN='$(abspath $(BIN))' $(GO) run -tags $(TAGS) ./e2e/bench -soak $(SOAK)

# The flags and their defaults: SCALE='-nodes 2000 -jitter 1m -rows 60 -dir /tmp'. The last lines are
# the figures next to their goals.
.PHONY: scale
scale: $(TOOLS)/minio build
	@contrib/lab/need postgresql
	@$(GO) test -tags $(TAGS) -run '^$$' -bench Runs -benchtime 20000x -timeout 30m ./site/registry
	@$(GO) test -tags $(TAGS) -run '^$$' -bench Jobs -benchtime 100x -timeout 30m ./site/registry | tee build/scale-lists
	@RT_BIN='$(abspath $(BIN))' RT_MINIO='$(abspath $(TOOLS)/minio)' $(GO) run -tags $(TAGS) ./e2e/scale -lists build/scale-lists $(SCALE)

demo: build
	@contrib/demo/demo.sh '$(BIN)'

# ------------------------------------------------------------------ install

# It builds nothing and needs no Go: another user, such as root, can run it after make. The programs
# and hooks are replaced by a rename, because Slurm drains a node if its Prolog is missing for a moment.
install:
	@for f in $(HOOKS) $(CGO) $(if $(filter $(BIN)/completions,$(COMPLETIONS)),completions); do [ -x $(BIN)/$$f ] || { echo "make install: $(BIN)/$$f does not exist; run make first, as the user who builds"; exit 1; }; done
	install -d $(DESTDIR)$(BINDIR) $(DESTDIR)$(LIBEXECDIR) $(DESTDIR)$(PREFIX)/share/rt $(DESTDIR)$(MANDIR)/man{1,5,8} \
		$(DESTDIR)$(DOCDIR)/{docs,site,spool,upload,slurm,cron,systemd,prometheus,grafana,sysusers.d,tmpfiles.d} $(DESTDIR)$(BASHDIR) $(DESTDIR)$(ZSHDIR) $(DESTDIR)$(FISHDIR)
	@set -e; program() { install -m 755 $(BIN)/$$2 "$(DESTDIR)$$1/.$$2.new"; mv -f "$(DESTDIR)$$1/.$$2.new" "$(DESTDIR)$$1/$$2"; }; \
	for f in resource-tracker rt-spool rt-site; do program $(BINDIR) $$f; done; \
	for f in rt-prolog rt-epilog rt-tracker; do program $(LIBEXECDIR) $$f; done
	install -m 644 $(COMPLETIONS)/bash/* $(DESTDIR)$(BASHDIR)/
	install -m 644 $(COMPLETIONS)/zsh/* $(DESTDIR)$(ZSHDIR)/
	install -m 644 $(COMPLETIONS)/fish/* $(DESTDIR)$(FISHDIR)/
	install -m 644 docs/*.png $(DESTDIR)$(DOCDIR)/docs/
	@set -e; mode=644; \
	put() { to="$(DESTDIR)$$1"; shift; for f; do n=$${f##*/}; sed $(PATHS) "$$f" | install -m $$mode /dev/stdin "$$to/.$$n.new"; mv -f "$$to/.$$n.new" "$$to/$$n"; done; }; \
	for s in 1 5 8; do put $(MANDIR)/man$$s man/*.$$s; done; \
	put $(DOCDIR) contrib/rt.toml README.md CONTRIBUTING.md CHANGELOG.md LICENSE; \
	put $(DOCDIR)/docs docs/*.md; put $(DOCDIR)/spool spool/DESIGN.md; put $(DOCDIR)/site site/DESIGN.md; put $(DOCDIR)/upload upload/DESIGN.md; \
	put $(DOCDIR)/slurm contrib/slurm/INSTALL.md; put $(PREFIX)/share/rt contrib/slurm/slurm.conf.snippet; \
	for d in cron systemd prometheus grafana sysusers.d tmpfiles.d; do put $(DOCDIR)/$$d $$(find contrib/$$d -maxdepth 1 -type f); done; \
	mode=755; put $(LIBEXECDIR) contrib/slurm/hooks/*
	awk -f man/rt.toml.5.awk contrib/rt.toml | sed $(PATHS) | install -m 644 /dev/stdin $(DESTDIR)$(MANDIR)/man5/rt.toml.5

# ----------------------------------------------------------------- packages

# The version of a package: a version without a tag is older than the next one.
NEXT := $(shell sed -n 's/^var Version = "\(.*\)"/\1/p' version.go)
PKGVERSION ?= $(if $(VERSION),$(subst -,~,$(VERSION)),$(NEXT)~dev)
export SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct 2>/dev/null || stat -c %Y version.go)
ARCH := $(if $(filter aarch64,$(shell uname -m)),arm64,amd64)

$(TOOLS)/nfpm: tools/nfpm/go.mod tools/nfpm/go.sum
	@mkdir -p $(TOOLS)
	$(GO) build -C tools/nfpm -trimpath -buildvcs=false -ldflags '-s -w' -o ../../$@ github.com/goreleaser/nfpm/v2/cmd/nfpm

$(TOOLS)/cyclonedx-gomod $(TOOLS)/sbom &: tools/sbom/go.mod tools/sbom/go.sum tools/sbom/main.go
	@mkdir -p $(TOOLS)
	$(GO) build -C tools/sbom -trimpath -buildvcs=false -ldflags '-s -w' -o ../../$(TOOLS)/ . github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod

.PHONY: packages test-packages test-release test-ansible release
packages: $(TOOLS)/nfpm build
	@rm -rf build/packages
	contrib/packages/build $(BIN) $(PKGVERSION) $(ARCH)

# From the tag at HEAD; it pushes nothing.
release: $(TOOLS)/nfpm $(TOOLS)/cyclonedx-gomod $(TOOLS)/sbom build cross
	@GO='$(GO)' contrib/packages/release

# PARTS="debian jobs" for some of its parts; contrib/packages/test lists them.
PARTS ?=
test-packages: $(TOOLS)/nfpm
	@contrib/lab/need lintian=lintian rpmlint=rpmlint rpm=rpm mmdebstrap=mmdebstrap createrepo_c=createrepo-c
	@contrib/packages/test $(PARTS)

# Two builds of a tag in different directories, with build caches of their own, have the same bytes.
test-release: $(TOOLS)/nfpm $(TOOLS)/cyclonedx-gomod $(TOOLS)/sbom
	@GO='$(GO)' contrib/packages/test-release

ANSIBLE ?= 12.3.0
ANSIBLE_LINT ?= 26.10.1
test-ansible: packages
	@contrib/lab/need mmdebstrap=mmdebstrap
	@python3 -c 'import ensurepip' 2>/dev/null || contrib/lab/need python3-venv || true
	@[ -e build/ansible-$(ANSIBLE)/bin/ansible-playbook ] || { python3 -m venv build/ansible-$(ANSIBLE); build/ansible-$(ANSIBLE)/bin/pip install -q ansible==$(ANSIBLE) ansible-lint==$(ANSIBLE_LINT); }
	@contrib/ansible/test '$(abspath build/ansible-$(ANSIBLE)/bin)' build/packages '$(PKGVERSION)'

# -------------------------------------------------------------------- cross

cross:
	@contrib/lab/need aarch64-linux-gnu-gcc=gcc-aarch64-linux-gnu
	@[ -e /usr/aarch64-linux-gnu/include/stdlib.h ] || contrib/lab/need libc6-dev-arm64-cross
	@mkdir -p build/arm64
	CGO_ENABLED=0 GOARCH=arm64 $(GO) $(GOBUILD) -ldflags '$(LDFLAGS)' -o build/arm64/ $(HOOKS:%=./cmd/%)
	$(SMALL) CGO_ENABLED=1 GOARCH=arm64 CC=aarch64-linux-gnu-gcc $(GO) $(GOBUILD) -tags $(TAGS) -ldflags '$(LDFLAGS_CGO)' -o build/arm64/ $(TRACKERS:%=./cmd/%)
	CGO_ENABLED=1 GOARCH=arm64 CC=aarch64-linux-gnu-gcc $(GO) $(GOBUILD) -tags $(TAGS) -ldflags '$(LDFLAGS_CGO)' -o build/arm64/ $(patsubst %,./cmd/%,$(filter-out $(TRACKERS),$(CGO)))

clean:
	rm -rf build

clean-system:
	@contrib/lab/clean-system
