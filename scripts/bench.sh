#!/usr/bin/env bash
# What `make bench` runs: throughput, CPU and latency of the fraud pipeline, one
# `name value unit` line a figure; then the benchmarks of the packages.
set -euo pipefail
cd "$(dirname "$0")/.."
events=${EVENTS:-1000000}
for sessions in 1 2; do
	echo "# afterbay bench --events $events --sessions $sessions"
	bin/afterbay bench --events "$events" --sessions "$sessions"
done
for rate in 5000 50000; do
	echo "# afterbay bench --rate $rate --duration 20s --sessions 2"
	bin/afterbay bench --rate "$rate" --duration 20s --sessions 2
done
go test -run '^$' -bench . -benchtime 0.3s ./decode ./expression ./feature ./model/tree ./stream/embedded
