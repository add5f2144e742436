# make help lists the targets.
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
FUZZTIME ?= 15s
HOURS ?= 1
SEED ?= 1

.PHONY: help build test bench lint fuzz soak ci demo experiments rivals clean

help: ## this list
	@grep -hE '^[a-z]+:.*## ' Makefile | sed 's/:.*## /\t/'

build: ## ./crawld, static and reproducible
	CGO_ENABLED=0 go build -trimpath -ldflags "-X main.version=$(VERSION)" -o crawld ./cmd/crawld

test: ## every test, with short counts
	go test ./...

bench: ## every benchmark
	go test -run '^$$' -bench . ./...

lint: ## formatting, vet for Linux and macOS, staticcheck, go.mod
	bash .ci/run format vet vet_darwin staticcheck tidy

fuzz: ## every fuzz target for FUZZTIME (15s)
	FUZZTIME=$(FUZZTIME) bash .ci/run fuzz

soak: ## every invariant for HOURS (1) from SEED (1) on; the figures go into docs/track-record.md
	go run ./cmd/crawld-soak --hours $(HOURS) --seed $(SEED) --record docs/track-record.md

ci: ## everything that must pass before a change is in
	bash .ci/run

demo: ## sleeping sensors on this machine, crawled before your eyes
	go run ./cmd/crawld demo

experiments: ## docs/experiments.md anew: every simulation at full size, some minutes
	CRAWLD_EXPERIMENTS=all go test ./cmd/crawld -run '^TestExperimentsDocument$$' -count=1 -timeout 60m

rivals: ## the Discovery Service against PostgreSQL, a million objects: some minutes, 4 GB of disk
	CRAWLD_EXPERIMENTS='simulate discovery --objects 10000..1000000' \
		go test ./cmd/crawld -run '^TestExperimentsDocument$$' -count=1 -timeout 60m

clean: ## what build left
	rm -f crawld
