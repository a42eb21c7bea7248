#!/usr/bin/env bash
# Longer versions of short tests; about three hours on two cores.
#
#   scripts/soak.sh [KILLS [SEEDS [FUZZ_SECONDS]]]    default: 1000 kills, 10000 seeds, 60 s a fuzz target
#
# Simulates runs with every fault at once (a failure names its seed), kills processes of real runs
# at random and audits their journals, and runs every fuzz target.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

kills=${1:-1000}
seeds=${2:-10000}
fuzz=${3:-60}
scripts/install-packages.sh etcd-server
scripts/build.sh release
echo "$seeds simulated runs"
build/release/tests/bin/sim_test --gtest_filter='*RandomRuns*' --seeds="$seeds" --first=100001
echo "$kills kills"
build/release/tests/bin/kill_soak --kills="$kills" --seed="$(date +%s)"
echo "$kills kills of workers and of three servers with two copies of each shard, some with their disks"
build/release/tests/bin/kill_soak --copies=2 --undisturbed=30 --kills="$kills" --seed="$(date +%s)"
few=$(((kills + 4) / 5))
for transport in zmq grpc ucx; do
  echo "$few kills over $transport"
  build/release/tests/bin/kill_soak --copies=2 --transport="$transport" --kills="$few" --seed="$(date +%s)"
done
# Models of 302 tensors, and of slices as large as they get.
for hidden in "$(printf '8,%.0s' {1..150})8" 1100,1100; do
  echo "$few kills with model.hidden [${hidden:0:10}...]"
  build/release/tests/bin/kill_soak --copies=2 --kills="$few" --seed="$(date +%s)" --set="model.hidden=[$hidden]"
done
echo "1000 clients"
PSGD_CLIENTS=1000 build/release/tests/bin/system_test --gtest_filter='*AClient*'
echo "10000 random tensors a codec, its kernels for a device run by this machine's loops"
PSGD_TENSORS=10000 build/release/tests/bin/codec_device_test --gtest_brief=1 \
  --gtest_filter='*RandomTensors*:-*cudnn*'
echo "a million mutated messages"
build/release/tests/bin/mutated_messages 1000000
scripts/fuzz.sh "$fuzz"
