# Everything a developer or CI runs. `make help` lists the targets.
SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
STATICCHECK = go tool -modfile=tools/go.mod staticcheck
PYTHON = $(CURDIR)/.venv/bin/python
KAFKA = .kafka/libs-4.3.1
.DEFAULT_GOAL := help
.PHONY: help build deps quick test prove demo bench lint docs clean

help: ## list the targets
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 10

build: ## build bin/afterbay
	go build -trimpath -o bin/afterbay ./cmd/afterbay

deps: .venv/xgboost-3.2.0 .venv/kubernetes-validate-1.37.0 $(KAFKA) ## install what the tests need: XGBoost and schemas of Kubernetes into .venv, Kafka into .kafka
.venv/xgboost-3.2.0:
	@echo "deps: python venv with xgboost 3.2.0 (compared with in tests)"
	python3 -m venv .venv || { apt-get update -q && apt-get install -qy python3 python3-venv && python3 -m venv .venv; } \
		|| { echo "deps: python3 with venv is needed: install it and run make again"; exit 1; }
	.venv/bin/pip install --quiet --disable-pip-version-check xgboost==3.2.0 numpy==2.4.6
	touch $@
.venv/kubernetes-validate-1.37.0: .venv/xgboost-3.2.0
	.venv/bin/pip install --quiet --disable-pip-version-check kubernetes-validate==1.37.0
	touch $@
$(KAFKA):
	@echo "deps: jars of Apache Kafka 4.3.1 (tests start its broker)"
	{ command -v java && command -v mvn; } >/dev/null || { apt-get update -q && apt-get install -qy openjdk-17-jre-headless maven; } \
		|| { echo "deps: Java 17 or later and Maven are needed: install them and run make again"; exit 1; }
	AFTERBAY_KAFKA=$(CURDIR)/$@ scripts/kafka jars

quick: ## tests that need Go alone; says what did not run
	go test ./... 2>&1
	@test -e .venv/xgboost-3.2.0 || echo "NOT RUN: comparison with an installed XGBoost (make deps installs it)"
	@test -n "$$AFTERBAY_KAFKA" || echo "NOT RUN: what needs a real Kafka broker (make test runs it)"

test: deps ## all tests, the race detector where goroutines meet, a build for arm64
	AFTERBAY_FULL=1 AFTERBAY_PYTHON=$(PYTHON) AFTERBAY_KAFKA=$(CURDIR)/$(KAFKA) go test -timeout 20m ./...
	go test -race -timeout 15m ./stream/... ./task/... ./state/... ./ingest/... ./serve/...
	go test -race -timeout 15m -skip Killed . -args -answer.events=10000
	for target in linux/arm64 darwin/arm64; do \
		echo "$$target"; GOOS=$${target%/*} GOARCH=$${target#*/} go build ./...; done

prove: deps build ## long proofs: many seeds, many kills, fuzzing, the baseline; results in docs/results
	scripts/prove.sh

demo: ## 200,000 card transactions become decisions, with a summary
	go run ./cmd/afterbay demo

bench: ## throughput, CPU and latency of the baseline and of the demo, and package benchmarks
	ROUNDS=$${ROUNDS:-1} scripts/bench.sh

lint: ## gofmt, go vet, staticcheck, shape of the code
	@test -z "$$(gofmt -l .)" || { gofmt -l .; echo "gofmt these files"; exit 1; }
	go vet ./...
	$(STATICCHECK) ./...
	go test -run 'TestShape|TestLayers' .

docs: ## write the generated parts of the documentation
	go test ./cmd/afterbay -run TestHelp -update
	go test ./config -run TestReference -update

clean: ## remove what make made
	scripts/kafka stop
	rm -rf bin .venv .kafka demo-data
