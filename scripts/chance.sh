#!/usr/bin/env bash
# Runs the tests that draw or wait again and again beside busy loops: a test that is red
# by chance shows here before it does elsewhere. Arguments are packages (all).
#
# A package is in when its tests use math/rand, clocks, other processes or goroutines.
# A test runs RUNS times (30), fewer where that takes more than EACH seconds (60), but 3
# times at least. LOOPS busy loops (2) run beside it. One line a package; the output of
# a red run follows.
set -euo pipefail
cd "$(dirname "$0")/.."
runs=${RUNS:-30} each=${EACH:-60} loops=${LOOPS:-2}
work=$(mktemp -d)
busy=()
trap 'kill "${busy[@]}" 2>/dev/null; rm -rf "$work"' EXIT
for _ in $(seq "$loops"); do
	while :; do :; done &
	busy+=($!)
done

draws='math/rand|time\.(Sleep|After|NewTimer|NewTicker|Tick|Now)|WithTimeout|exec\.Command|synctest|go func'
packages=("$@")
if [ $# = 0 ]; then
	mapfile -t packages < <(grep -rlE "$draws" --include='*_test.go' . | grep -vE '^\./(tools|bench|examples|clients)/' | xargs -n1 dirname | sort -u)
fi

# many runs a package's tests of a count and prints how many were red.
many() { # package, binary, count, tests
	local pattern
	pattern="^($(tr ' ' '|' <<<"$4"))\$"
	(cd "$1" && "$2" -test.run "$pattern" -test.count "$3" -test.timeout 60m) >"$work/out" 2>&1 || true
	local red
	red=$(grep -c '^--- FAIL' "$work/out" || true)
	if ! tail -1 "$work/out" | grep -q '^PASS'; then
		[ "$red" -gt 0 ] || red=1
		cp "$work/out" "$work/red.$RANDOM"
	fi
	echo "$red"
}

total=0 failed=0
for package in "${packages[@]}"; do
	binary=$work/test
	go test -c -vet=off -o "$binary" "$package" 2>"$work/out" || { cat "$work/out"; exit 1; }
	[ -e "$binary" ] || continue
	(cd "$package" && "$binary" -test.v -test.timeout 60m) >"$work/first" 2>&1 || cp "$work/first" "$work/red.$RANDOM"
	declare -A by=()
	while read -r test seconds; do
		count=$(awk -v s="$seconds" -v e="$each" -v r="$runs" 'BEGIN { n = s > 0 ? int(e / s) : r; n = n > r ? r : n; print (n < 3 ? 3 : n) }')
		by[$count]="${by[$count]:-}${by[$count]:+ }$test"
	done < <(sed -nE 's/^--- (PASS|FAIL): (Test[^ /]*) \(([0-9.]+)s\)$/\2 \3/p' "$work/first")
	line="" reds=$(grep -c '^--- FAIL' "$work/first" || true)
	for count in "${!by[@]}"; do
		red=$(many "$package" "$binary" "$count" "${by[$count]}")
		reds=$((reds + red))
		line="$line $(wc -w <<<"${by[$count]}")x$count"
	done
	unset by
	echo "$package: tests x runs:$line; red: $reds"
	total=$((total + 1)) failed=$((failed + reds))
	rm -f "$binary"
done
for out in "$work"/red.*; do
	[ ! -e "$out" ] || grep -vE '^(=== |PASS|ok )' "$out" | tail -60
done
echo "packages $total count"
echo "red $failed count"
[ "$failed" = 0 ]
