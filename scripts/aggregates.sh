#!/bin/sh
# Prints the tables of memory and cost of aggregates of docs/performance.md, with decimals: 2:
#
#     scripts/aggregates.sh            # some 3 minutes, on a machine that does nothing else
#     scripts/aggregates.sh -benchtime 1x   # memory alone is right
set -e
cd "$(dirname "$0")/.."
go test ./internal/feature -run '^$' -bench 'Aggregates/60s/entries/./decimals=2|Aggregates/60s/1s/entries/./decimals=2' -cpu 1 -timeout 30m "$@" | awk '
/^Benchmark/ {
	split($1, part, "/")
	pane = part[3] !~ /^entries/ # as the window has a "/"
	name = part[4 + pane]
	for (k = 3; k < NF; k++) {
		if ($(k + 1) == "ns/op") time = $k / 1000
		if ($(k + 1) == "B/key") memory = sprintf("%d", $k)
	}
	row = name SUBSEP pane
	time = sprintf(time < 10 ? "%.2g" : "%.0f", time)
	if (!(row in cost)) {
		cost[row] = time; bytes[row] = memory
		if (!(name in seen)) { seen[name] = 1; order[++rows] = name }
	} else {
		cost[row] = cost[row] ", " time; bytes[row] = bytes[row] ", " memory
	}
}
END {
	print "| aggregate | `60s`: bytes of a key | `60s`: us an event | `60s/1s`: bytes of a key | `60s/1s`: us an event |"
	print "|---|---|---|---|---|"
	for (k = 1; k <= rows; k++) {
		name = order[k]
		line = "| `" name "`"
		for (pane = 0; pane < 2; pane++) {
			row = name SUBSEP pane
			line = line " | " (row in cost ? bytes[row] " | " cost[row] : "- | -")
		}
		print line " |"
	}
}'
