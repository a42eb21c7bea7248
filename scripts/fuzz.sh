#!/usr/bin/env bash
# Runs every fuzz target under Clang's libFuzzer with AddressSanitizer, each for some seconds:
#
#   scripts/fuzz.sh            # 60 seconds each
#   scripts/fuzz.sh 600        # ten minutes each
#
# A target TARGET starts with the files of tests/fuzz/corpus/TARGET/VARIANT and runs once per
# variant. Exits with 1 at the first failing input, which is saved in build/fuzz/found. New inputs
# of libFuzzer are kept in build/fuzz/corpus for the next run.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
seconds=${1:-60}
scripts/install-packages.sh clang libclang-rt-14-dev
scripts/build.sh fuzz
mkdir -p build/fuzz/found
for seeds in tests/fuzz/corpus/*/*; do
  target=$(basename "$(dirname "$seeds")")
  variant=$(basename "$seeds")
  grown=build/fuzz/corpus/$target/$variant
  mkdir -p "$grown"
  more=()
  if [[ $target == onnx ]]; then more=(tests/golden/onnx); fi
  echo "${target}_fuzz --$target=$variant, $seconds s"
  "build/fuzz/tests/bin/${target}_fuzz" "--$target=$variant" -max_total_time="$seconds" -max_len=4096 \
    -timeout=20 -rss_limit_mb=2048 -artifact_prefix=build/fuzz/found/ -print_final_stats=1 \
    "$grown" "$seeds" "${more[@]}" 2>&1 |
    tee build/fuzz/found/log |
    grep -E 'ERROR: |SUMMARY|fuzz: |number_of_executed_units'
done
