#!/bin/sh
# Long trials of what tests try for a short time; takes about an hour on two cores.
#
#   scripts/soak.sh [KILLS [SEEDS [FUZZ_SECONDS]]]    default: 1000 kills, 10000 seeds, 60 s a target
#
# 1. Simulated runs with every fault at once: SEEDS of them. A failure names its seed.
# 2. Processes of real runs killed at random, KILLS times; then the journals are audited.
# 3. Each fuzz target for FUZZ_SECONDS, where clang is installed.
set -eu
cd "$(dirname "$0")/.."
kills=${1:-1000}
seeds=${2:-10000}
fuzz=${3:-60}
build=build/release

scripts/build.sh
cmake --build $build --target sim_test kill_soak
echo "== $seeds simulated runs"
$build/tests/bin/sim_test --gtest_filter='*RandomRuns*' --seeds="$seeds" --first=100001
echo "== $kills kills"
$build/tests/bin/kill_soak --kills="$kills" --seed="$(date +%s)"
if command -v clang++ > /dev/null; then
  echo "== fuzz targets, $fuzz s each"
  scripts/fuzz.sh "$fuzz"
else
  echo "== no clang++: the fuzz targets are left out"
fi
