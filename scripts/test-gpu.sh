#!/usr/bin/env bash
# On a machine with a GPU, from the unpacked bundle: every op and network of the CUDA engine against
# the reference, then how fast a step is, then a short training through the real programs.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
source ./activate

failed=0
say() { printf '\n== %s\n' "$1"; }
check() {
  local name=$1
  shift
  say "$name"
  if "$@"; then echo "ok: $name"; else echo "FAILED: $name"; failed=$((failed + 1)); fi
}

say "devices"
nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv || exit 1
check "what there is to train with" ps-doctor
# A test that finds no device or no plugin is skipped, which must not pass for success.
conformance() {
  "$1" --gtest_brief=1 --gtest_filter="*cudnn*" | tee conformance.log && ! grep -q SKIPPED conformance.log
}
check "ops and networks against the reference" conformance engine_conformance_test
check "large networks against the reference" conformance engine_zoo_conformance_test
for precision in fp32 tf32 bf16 fp16; do
  for model in lenet5 cnn; do
    check "step: $model, $precision" ps-bench step --engine cudnn --precision $precision --model $model --batch 256
  done
  for model in gpt lstm_lm; do
    check "step: $model, $precision" ps-bench step --engine cudnn --precision $precision --model $model --tokens 128 --batch 32
  done
done
check "training on generated data" bash -c '
  rm -rf gpu-run && ps-server --config configs/mlp_synthetic.yaml --port 7171 --run-dir gpu-run --workers 2 &
  ps-worker --gpu 0,0 --server 127.0.0.1:7171 --quiet; code=$?; wait; exit $code'
say "$failed failed"
exit $((failed > 0))
