#!/usr/bin/env bash
# Measures Kafka Streams, Flink and a Python worker beside afterbay, doing the work
# of examples/baseline on one real broker; one `name value unit` line a figure, and
# what ours is against each. bench/peers/README.md says how they are set.
#
#   scripts/peers.sh [FLAGS]       FLAGS are those of bench/peers: scripts/peers.sh -help
#
# for a quick look: scripts/peers.sh -events 300000 -seconds 15 -only streams,python
#
# Needs Java 17, Maven and Python 3 with venv; the rest comes from Maven Central and
# PyPI, into .kafka, .venv and bench/peers/*/target. PEERS_PORT is the broker's port.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
work=$root/.kafka/peers
port=${PEERS_PORT:-9492}
binary=.venv/xgboost-2.1.4 # apart from .venv's own, which is newer
go build -trimpath -pgo=auto -o bin/afterbay ./cmd/afterbay
go build -C bench -trimpath -o ../bin/peers ./peers
if [[ " $* " == *" -help "* ]]; then exec bin/peers -help; fi

make -s deps >&2
[ -e $binary ] || .venv/bin/pip install --quiet --disable-pip-version-check --require-hashes --no-deps --target $binary -r scripts/deps/xgboost-2.1.4.txt
(cd bench/peers && mvn -B -q -C clean package)

export AFTERBAY_KAFKA=$root/.kafka/libs-4.3.1
broker() { "$root/scripts/kafka" "$1" --dir "$work/broker" "${@:2}" >&2; }
if [ -e "$work/broker" ]; then broker stop; fi
rm -rf "$work"
mkdir -p "$work"
.venv/bin/python bench/peers/convert.py examples/baseline/model.ubj "$work/model.json"
PYTHONPATH=$binary .venv/bin/python -W ignore bench/peers/convert.py "$work/model.json" "$work/model.deprecated"
trap 'broker stop; rm -rf "$work/broker"' EXIT
broker start --port "$port" --jvm -Xms1g --jvm -Xmx1g
bin/peers -broker "127.0.0.1:$port" -broker-pid "$(cat "$work/broker/n1/pid")" -work "$work" "$@"
