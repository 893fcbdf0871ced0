#!/usr/bin/env bash
# Writes cmd/afterbay/default.pgo: profiles of what bench measures, merged. The Go
# compiler reads it when it builds the command: calls that are dear are compiled into
# their callers. AFTERBAY_KAFKA names the jars of Apache Kafka, as for tests.
set -euo pipefail
cd "$(dirname "$0")/.."
go build -trimpath -pgo=off -o bin/afterbay ./cmd/afterbay
found=$(mktemp -d)
trap 'scripts/kafka stop --dir "$found/kafka" >/dev/null 2>&1 || true; rm -rf "$found"' EXIT
profile() { # name, flags of bench
	local name=$1
	shift
	echo "profile: $name" >&2
	bin/afterbay bench --cpu-profile "$found/$name.pprof" "$@" 2>/dev/null | grep cpu_us_per_event >&2
}
profile baseline --events 2000000
profile schedule --rate 50000 --duration 10s
profile fraud --work fraud --events 500000
profile moderation --work moderation --events 200000
AFTERBAY_KAFKA=${AFTERBAY_KAFKA:-$PWD/.kafka/libs-4.3.1} scripts/kafka start --dir "$found/kafka" --port 19492 >&2
profile kafka --engine kafka://127.0.0.1:19492 --events 2000000
go tool pprof -proto "$found"/*.pprof > "$found/merged"
mv "$found/merged" cmd/afterbay/default.pgo
