#!/usr/bin/env bash
# Builds a release twice, the second time in a clone with an empty build cache,
# and compares the bytes. Then it installs and runs the result, and checks the chart.
set -euo pipefail
cd "$(dirname "$0")/.."
unset GOFLAGS CGO_ENABLED
version=v0.0.0-check.1
work=$(mktemp -d)
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
build() { # folder of the repository, folder for the files
	local start=$SECONDS
	go -C "$1/tools/release" run . -version $version -out "$2" -pgo "${RELEASE_PGO:-auto}"
	echo "built in $((SECONDS - start)) s"
}
git clone -q . "$work/first"
git clone -q . "$work/second"
build "$work/first" "$work/dist"
GOCACHE=$work/cache build "$work/second" "$work/again" >/dev/null
diff "$work/dist/SHA256SUMS" "$work/again/SHA256SUMS"
echo "two builds have equal bytes"
go -C tools/release run . -check "$work/dist"
go -C tools/chart run . -python "$PWD/.venv/bin/python" ../../deploy/helm/afterbay
