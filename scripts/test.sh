#!/usr/bin/env bash
# Runs go test with the arguments. If that fails, it ends with what failed: the stacks of a
# test that hangs are longer than what most CI systems show.
set -uo pipefail
log=$(mktemp)
trap 'rm -f "$log"' EXIT
go test "$@" 2>&1 | tee "$log" && exit
status=$?
echo "what failed, again:"
awk '/^panic: / || /running tests:/ { more = 8 } /^ *--- FAIL/ { more = 12 } /^goroutine / { more = 0 } more-- > 0 || /^FAIL/' "$log" | tail -100
exit $status
