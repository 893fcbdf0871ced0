#!/usr/bin/env bash
# Prints the dearest functions of the baseline work, drained from each engine: nanoseconds of
# CPU an event in the function itself, and with all that it calls.
# What fills the log before is not in the profile. AFTERBAY_KAFKA names the jars of Apache
# Kafka, as for tests.
set -euo pipefail
cd "$(dirname "$0")/.."
go build -trimpath -pgo=auto -o bin/afterbay ./cmd/afterbay
found=$(mktemp -d)
trap 'scripts/kafka stop --dir "$found/kafka" >/dev/null 2>&1 || true; rm -rf "$found"' EXIT
events=${EVENTS:-3000000}
dearest() { # name, flags of bench
	local name=$1
	shift
	bin/afterbay bench --cpu-profile "$found/$name.pprof" --events "$events" "$@" 2>/dev/null | grep cpu_us_per_event | sed "s/^/$name /"
	go tool pprof -top -nodecount=10 -unit=ns bin/afterbay "$found/$name.pprof" 2>/dev/null | awk -v n="$events" -v name="$name" '
		/flat%/ { on = 1; next }
		on { sub(/ns/, "", $1); sub(/ns/, "", $4); f = $6; for (i = 7; i <= NF; i++) f = f " " $i; printf "%s %6.0f %6.0f ns  %s\n", name, $1 / n, $4 / n, f }'
}
dearest embedded
AFTERBAY_KAFKA=${AFTERBAY_KAFKA:-$PWD/.kafka/libs-4.3.1} scripts/kafka start --dir "$found/kafka" --port 19493 >&2
dearest kafka --engine kafka://127.0.0.1:19493
