#!/usr/bin/env bash
# Rows per CPU-second of XGBoost, LightGBM, CatBoost and, for a forest of
# scikit-learn, ONNX Runtime, and of each kernel of internal/models/tree, interleaved in
# rounds, and whether their margins are equal: `name value unit` lines, medians
# of the rounds. Needs an interpreter with all of them (make deps).
# TREES=folder keeps the model that is trained, which takes about a minute.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=${TREES:-$(mktemp -d)}
mkdir -p "$folder"
[ -n "${TREES:-}" ] || trap 'rm -rf "$folder"' EXIT
go test -c -o "$folder/tree.test" ./internal/models/tree
"${PYTHON:-.venv/bin/python}" -B scripts/trees_bench.py "$folder" "${ROUNDS:-7}"
"${PYTHON:-.venv/bin/python}" -B scripts/trees_bench_others.py "$folder" "${ROUNDS:-7}"
