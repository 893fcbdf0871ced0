#!/usr/bin/env bash
# Measures here, one `name value unit` line a figure: speed, latency, parts and
# fraud, or what is named as arguments.
#
#   speed    the baseline work saturated: each kernel, busier keys, exact windows, two sessions
#   latency  the baseline work on a schedule, 50,000 and 200,000 events a second
#   order_cost  the baseline work by its own key, copied, and copied in the order of arrival
#   keys     a million users in memory; ten million beyond the limit of the state, and the same answer
#   soak     ten minutes at 100,000 events a second; fails where memory or files grow
#   parts    JSON, windows, trees and log alone
#   fraud    the demo's work
#   moderation  posts through a text model, saturated and 50,000 a second
#   sink_postgres  rows into PostgreSQL, plain and with vectors, beside a loader that only has pgx
#   serve    streams of predictions from `afterbay serve`: 200 trees, a million rows and ten
#
# and on a Kafka broker of its own, set as it comes (AFTERBAY_KAFKA names the jars):
#
#   kafka_latency  until a reader of committed records has a decision, 2,000 and 5,000 events a
#                  second, exactly-once every 10 ms and at-least-once
#   order_latency  what the order of time adds to that of arrival, here and on the broker: four
#                  partitions with 1,000, 100 and 1 events a second each, and one beside three silent
#   kafka_steady   ten minutes at 50,000 events a second, exactly-once, of which two make users
#                  known; fails where memory or files grow, or the pipeline is a second behind
#
# Variants take turns, and a figure is the median of ROUNDS (5). For a quick look
# make less of it: EVENTS, SECONDS_EACH, SOAK and SOAK_PART, KEYS (of the larger
# keys), STATE_LIMIT, BENCHTIME. DIR is a folder on the disk to measure.
set -euo pipefail
cd "$(dirname "$0")/.."
go build -trimpath -pgo=auto -o bin/afterbay ./cmd/afterbay
rounds=${ROUNDS:-5}
events=${EVENTS:-1000000}
found=$(mktemp -d)
trap 'rm -rf "$found"' EXIT

# measure runs `afterbay bench` once and leaves its figures for median.
measure() { # variant, flags of bench
	local name=$1
	shift
	mkdir -p "$found/$name"
	local out=$found/$name/$(find "$found/$name" -type f | wc -l)
	if ! bin/afterbay bench ${DIR:+--dir "$DIR"} "$@" >"$out" 2>"$found/said"; then
		rm -f "$out"
		if grep -q 'does not run here' "$found/said"; then return; fi
		cat "$found/said" >&2
		return 1
	fi
}

# median prints the figures of a variant whose names match.
median() { # variant, pattern
	local files=("$found/$1"/*)
	[ -e "${files[0]}" ] || { echo "$1 NOT RUN: this processor does not run it"; return; }
	head -1 "${files[0]}"
	echo "# $1: median of ${#files[@]}$(sed -n 's/^kernel /, kernel /p' "${files[0]}")"
	awk -v pattern="^($2)\$" '!/^#/ && NF == 3 && $1 ~ pattern {
		if (!($1 in unit)) order[++n] = $1
		unit[$1] = $3; values[$1] = values[$1] " " $2
	}
	END { for (i = 1; i <= n; i++) print order[i], unit[order[i]] values[order[i]] }' "${files[@]}" |
		while read -r name unit values; do
			echo "$1_$name $(tr ' ' '\n' <<<"$values" | sort -g | awk '{ v[NR] = $1 } END { print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2 }' OFMT=%.10g CONVFMT=%.10g) $unit"
		done
}

# against compares a figure of the two variants of each round, which met the same noise.
against() { # its name, variant, the one it is compared with, / or -, figure, unit
	local round
	mkdir -p "$found/$1"
	for round in "$found/$2"/*; do
		awk -v figure="$5" -v by="$4" -v unit="$6" -v title="# $2 $4 $3, round by round" '$1 == figure { v[FNR == NR] = $2 }
			END { print title; print figure, by == "/" ? v[0] / v[1] : v[0] - v[1], unit }' \
			"$found/$3/${round##*/}" "$round" >"$found/$1/${round##*/}"
	done
	median "$1" "$5"
}

progress() { printf '%s\r' "$*" >&2; }

speed() {
	local round figures='events_per_second|events_per_cpu_second|allocs_per_event|cpu_cores_used'
	# Files that are read go back to be written: else half of what is measured is
	# how fast the disk's cache grows.
	local saturated="--events $events --warmup $events --retention-bytes $((256 << 20))"
	for round in $(seq "$rounds"); do
		progress "speed: round $round of $rounds"
		for kernel in avx512 avx2 portable; do
			AFTERBAY_KERNEL=$kernel measure "$kernel" $saturated --parallelism 1
		done
		measure zipf1.3 $saturated --parallelism 1 --zipf 1.3
		measure exact $saturated --parallelism 1 --exact
		measure exact_zipf1.3 $saturated --parallelism 1 --exact --zipf 1.3
		measure one_session $saturated --parallelism 1
		measure two_sessions $saturated --parallelism 2
	done
	for name in avx512 avx2 portable zipf1.3 exact exact_zipf1.3 one_session two_sessions; do
		median "$name" "$figures"
	done
	against two_sessions_against_one two_sessions one_session / events_per_second times
}

latency() {
	local round figures='events_per_second|cpu_cores_used|harness_cores_used|engine_cores_used|latency_p50|latency_p99|latency_p999|latency_max|allocs_per_event'
	for round in $(seq "$rounds"); do
		progress "latency: 50,000/s, round $round of $rounds"
		measure rate_50000 --rate 50000 --duration "${SECONDS_EACH:-20}s" --retention-bytes $((1 << 30)) --parallelism 1
	done
	for round in $(seq $(((rounds + 1) / 2))); do
		progress "latency: 200,000/s, round $round of $(((rounds + 1) / 2))"
		measure rate_200000 --rate 200000 --duration "${SECONDS_EACH:-60}s" --retention-bytes $((1 << 30)) --parallelism 1
	done
	for name in rate_50000 rate_200000; do
		median "$name" "$figures"
	done
}

order_cost() {
	local round name figures='events_per_second|cpu_us_per_event|allocs_per_event|bytes_per_event'
	local saturated="--events $events --warmup $((events / 2)) --retention-bytes $((256 << 20)) --parallelism 1"
	for round in $(seq "$rounds"); do
		progress "order_cost: round $round of $rounds"
		measure own_key $saturated
		measure copied $saturated --repartition 4
		measure copied_by_arrival $saturated --repartition 4 --order arrival
	done
	for name in own_key copied copied_by_arrival; do
		median "$name" "$figures"
	done
	against copied_against_own_key copied own_key / cpu_us_per_event times
	against order_alone copied copied_by_arrival - cpu_us_per_event us
}

keys() {
	local users=${KEYS:-10000000} limit=${STATE_LIMIT:-$((1 << 30))} figures='events_per_second|events_per_cpu_second|rss_mb|rss_peak_mb|state_mb|state_evictions'
	progress "keys: $((users / 10)) in memory"
	# Six events a user: all but a quarter of a percent of them are met.
	measure resident --users $((users / 10)) --zipf 0 --warmup $((users / 10 * 5)) --events $((users / 10)) --retention-bytes $((1 << 30)) --parallelism 1
	median resident "$figures"
	local all="--users $users --zipf 0 --warmup $users --events $((users / 2)) --retention-bytes $((1 << 30)) --parallelism 1 --digest"
	progress "keys: $users beyond the limit"
	measure limited $all --state-memory "$limit"
	median limited "$figures"
	progress "keys: $users in memory"
	measure unlimited $all --state-memory $((limit * 64))
	median unlimited "$figures"
	grep -hE '^(outputs|state)' "$found/limited/0" | grep -vE '^state_(mb|ev)'
	if ! grep -q '^state_evictions [1-9]' "$found/limited/0"; then
		echo "keys: nothing was evicted: set STATE_LIMIT below the state" >&2
		return 1
	fi
	if ! cmp -s <(grep -E '_digest' "$found/limited/0") <(grep -E '_digest' "$found/unlimited/0"); then
		echo "keys: the answers differ" >&2
		return 1
	fi
	echo "same_answer yes"
}

soak() {
	progress "soak: ${SOAK:-10m}"
	bin/afterbay bench ${DIR:+--dir "$DIR"} --rate 100000 --duration "${SOAK:-10m}" --part "${SOAK_PART:-1m}" --retention-bytes $((1 << 30)) --parallelism 1 --steady 2>"$found/said" || { cat "$found/said" >&2; return 1; }
	echo "steady yes"
}

# benchmarks runs those of a package once. A line of go test is
# BenchmarkName-cores, iterations, and pairs of value and unit.
benchmarks() { # package, pattern, time of each
	go test -run '^$' -bench "$2" -benchtime "$3" -benchmem "./$1" | awk -v package="$1" '
		NR == 1 && package != "" { print "# benchmarks of " package }
		/^Benchmark/ {
			sub(/^Benchmark/, "", $1); sub(/-[0-9]+$/, "", $1)
			for (i = 3; i < NF; i += 2) { unit = $(i + 1); sub(/\/op$/, "", unit); gsub(/\//, "_per_", unit); print $1 "_" unit, $i, $(i + 1) }
		}'
}

serve() {
	local round
	mkdir -p "$found/serve"
	for round in $(seq "$rounds"); do
		progress "serve: round $round of $rounds"
		benchmarks internal/http/serving '^BenchmarkServe$' 3x >"$found/serve/$round"
	done
	median serve 'Serve.*(rows_per_s|rss_mb|_ms)'
}

parts() {
	local round name package pattern
	for round in $(seq "$rounds"); do
		while read -r name package pattern; do
			progress "parts: $package, round $round of $rounds"
			local dir=$found/$name
			mkdir -p "$dir"
			benchmarks "$package" "$pattern" "${BENCHTIME:-0.5s}" >>"$dir/$round"
		done <<-'END'
			decode internal/event/decode ^Benchmark(Scan|ScanShuffled|Key|EncodingJSON)$
			expression internal/event/expression ^BenchmarkDecision$
			feature internal/feature ^BenchmarkAddRead$/^(panes|exact)$/^decimals=2$
			feature internal/feature ^BenchmarkFeedback$
			model_tree internal/models/tree ^BenchmarkPredict$
			observe internal/observe ^BenchmarkWay$
			stream_embedded internal/log/embedded ^Benchmark(Append|Cycle)$
		END
	done
	for package in decode expression feature model_tree observe stream_embedded; do
		median "$package" '.*'
	done
}

fraud() {
	local round name
	for round in $(seq "$rounds"); do
		progress "fraud: round $round of $rounds"
		measure fraud_one_session --work fraud --events "$events" --warmup 100000 --parallelism 1
		measure fraud_two_sessions --work fraud --events "$events" --warmup 100000 --parallelism 2
	done
	for rate in 5000 50000; do
		progress "fraud: $rate/s"
		measure "fraud_rate_$rate" --work fraud --rate "$rate" --duration "${SECONDS_EACH:-20}s" --retention-bytes $((1 << 30)) --parallelism 2
	done
	for name in fraud_one_session fraud_two_sessions fraud_rate_5000 fraud_rate_50000; do
		median "$name" 'events_per_second|events_per_cpu_second|allocs_per_event|cpu_cores_used|harness_cores_used|latency_.*'
	done
}

moderation() {
	local round
	for round in $(seq "$rounds"); do
		progress "moderation: round $round of $rounds"
		measure moderation_one_session --work moderation --events "$events" --warmup 100000 --parallelism 1
		measure moderation_two_sessions --work moderation --events "$events" --warmup 100000 --parallelism 2
		measure moderation_rate_50000 --work moderation --rate 50000 --duration "${SECONDS_EACH:-20}s" --retention-bytes $((1 << 30)) --parallelism 2
	done
	for name in moderation_one_session moderation_two_sessions moderation_rate_50000; do
		median "$name" 'events_per_second|events_per_cpu_second|allocs_per_event|cpu_cores_used|harness_cores_used|model_p99|latency_.*|decisions|rss_mb'
	done
}

# kafka_broker starts a broker until this script ends.
kafka_broker() { # options of scripts/kafka start
	port=${BENCH_PORT:-9592}
	trap 'scripts/kafka stop --dir "$found/broker" >/dev/null; rm -rf "$found"' EXIT
	scripts/kafka start --dir "$found/broker" --port "$port" --jvm -Xms1g --jvm -Xmx1g "$@" >&2
}

kafka_latency() {
	local round rate figures='events_per_second|latency_.*|commit_.*|cpu_us_per_event|engine_cpu_us_per_event|harness_cores_used|rss_mb'
	kafka_broker
	for round in $(seq "$rounds"); do
		for rate in 2000 5000; do
			progress "kafka_latency: $rate/s, round $round of $rounds"
			local on="--engine kafka://127.0.0.1:$port --rate $rate --duration ${SECONDS_EACH:-20}s"
			measure "exactly_once_$rate" $on --commit-interval 10ms
			measure "at_least_once_$rate" $on --delivery at-least-once
		done
	done
	for rate in 2000 5000; do
		median "exactly_once_$rate" "$figures"
		median "at_least_once_$rate" "$figures"
	done
}

order_latency() {
	local round name variants=() figures='events_per_second|latency_p50|latency_p99|order_.*|decisions|cpu_us_per_event'
	order_pair() { # variant, flags of both
		local order
		for order in time arrival; do
			progress "order_latency: $1 in the order of $order, round $round of $(((rounds + 1) / 2))"
			measure "$1_$order" --parallelism 1 --repartition 4 --order "$order" --duration "${SECONDS_EACH:-10}s" "${@:2}"
		done
		[ "$round" -gt 1 ] || variants+=("$1")
	}
	kafka_broker
	for round in $(seq $(((rounds + 1) / 2))); do
		for on in "embedded" "kafka --engine kafka://127.0.0.1:$port"; do
			set -- $on
			order_pair "$1_4x1000" "${@:2}" --rate 4000
			order_pair "$1_4x100" "${@:2}" --rate 400
			order_pair "$1_4x1" "${@:2}" --rate 4 --duration "$((4 * ${SECONDS_EACH:-10}))s"
			order_pair "$1_1x1000_beside_3_silent" "${@:2}" --rate 1000 --busy 1
			order_pair "$1_1x1000_beside_3_silent_100ms" "${@:2}" --rate 1000 --busy 1 --idle 100ms
		done
	done
	for name in "${variants[@]}"; do
		median "${name}_time" "$figures"
		median "${name}_arrival" "$figures"
		against "${name}_added" "${name}_time" "${name}_arrival" - latency_p50 ms
		against "${name}_added" "${name}_time" "${name}_arrival" - latency_p99 ms
	done
}

kafka_steady() {
	# What was read long ago goes, else it is the disk that is measured.
	kafka_broker --set log.retention.bytes=$((256 << 20)) --set log.segment.bytes=$((64 << 20))
	progress "kafka_steady: ${SOAK:-10m}"
	bin/afterbay bench ${DIR:+--dir "$DIR"} --engine "kafka://127.0.0.1:$port" --rate 50000 --duration "${SOAK:-10m}" --part "${SOAK_PART:-1m}" --steady --max-lag 1s 2>"$found/said" || { cat "$found/said" >&2; return 1; }
	echo "steady yes"
}

sink_postgres() { # AFTERBAY_POSTGRES names the folder with postgres
	progress "sink_postgres: ${EVENTS:-400000} rows, $rounds rounds"
	AFTERBAY_FULL=1 go test ./internal/sinks/postgres -run SpeedBeside -count=1 -timeout 60m -v -args -speed.rows="${EVENTS:-400000}" -speed.rounds="$rounds" | grep -E '^[a-z-]+ [0-9.]+ [a-z/]+$'
}

[ $# -gt 0 ] || set -- speed latency parts fraud
for part in "$@"; do
	case $part in
	speed | latency | order_cost | keys | soak | parts | fraud | moderation | serve | sink_postgres | kafka_latency | order_latency | kafka_steady) "$part" ;;
	*) echo "bench: no part $part: see the head of scripts/bench.sh" >&2; exit 2 ;;
	esac
done
printf '\r' >&2
