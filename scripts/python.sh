#!/usr/bin/env bash
# Builds the Python wheel of this machine from bin/ (make build), installs it into a fresh
# environment, and tests it there: types, lint, the API, the notebook.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export PYTHONDONTWRITEBYTECODE=1 RUFF_NO_CACHE=true MYPY_CACHE_DIR=$folder/mypy PIP_DISABLE_PIP_VERSION_CHECK=1
platform=$(go env GOOS)-$(go env GOARCH)
mkdir -p "$folder/programs/$platform"
cp bin/afterbay "$folder/programs/$platform/"
python3 -m venv "$folder/venv"
export PATH="$folder/venv/bin:$PATH"
pip install --quiet --require-hashes --no-deps -r scripts/deps/wheel-tests.txt
python clients/python/wheels.py v0.0.0-rc.1 "$folder/programs" "$folder/dist" "$platform"
python clients/python/wheels.py v0.0.0-rc.1 "$folder/programs" "$folder/again" "$platform"
cmp "$folder"/dist/*.whl "$folder"/again/*.whl
echo "wheel: $(stat -c %s "$folder"/dist/*.whl) bytes; two builds have equal bytes"
pip install --quiet "$folder"/dist/*.whl
afterbay version
cd clients/python
ruff check .
ruff format --check .
mypy
python -m unittest discover -v tests
