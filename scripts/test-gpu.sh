#!/usr/bin/env bash
# On a machine with a GPU, from the unpacked bundle: every op and network of the CUDA engine against
# the reference and against PyTorch's numbers, the codecs' twins there against those of the host, how
# fast a step and a codec are, and short trainings through the real programs. Ends with a table.
# test-gpu.sh [WORD]     only the checks with WORD in their names, as "step" or "golden"
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
source ./activate

only=${1:-}
failed=0
rows=()
say() { printf '\n== %s\n' "$1"; }

# check NAME COMMAND...: runs it, and adds its row to the table.
check() {
  local name=$1 start result speed
  shift
  [[ $name == *"$only"* ]] || return 0
  say "$name"
  start=$(date +%s%N)
  if "$@" 2>&1 | tee check.log; then result=ok; else result=FAILED failed=$((failed + 1)); fi
  # Of ps-bench, and of the summary of a run.
  speed=$(grep -oE 'samples_per_second"?[=:] *[0-9.e+]+' check.log | grep -oE '[0-9.e+]+$' | tail -1)
  rows+=("$(printf '%-44s %-7s %8.1f %12s' "$name" $result "$((($(date +%s%N) - start) / 100000000))e-1" \
    "${speed:+$(printf '%.1f' "$speed")}")")
  echo "$result: $name"
}

# A test that finds no device or no plugin is skipped, which must not pass for success.
conformance() {
  "$1" --gtest_brief=1 --gtest_filter="*cudnn*" | tee conformance.log && ! grep -q SKIPPED conformance.log
}

# step NAME ARGUMENTS...: in each precision.
step() {
  local name=$1 precision
  shift
  for precision in fp32 tf32 bf16 fp16; do
    check "step: $name, $precision" ps-bench step --engine cudnn --precision $precision "$@"
  done
}

# train ARGUMENTS...: of ps-run.
train() {
  rm -rf gpu-run
  ps-run configs/mlp_synthetic.yaml --run-dir gpu-run --json --quiet "$@"
}

by_hand() {
  rm -rf gpu-run
  ps-server --config configs/mlp_synthetic.yaml --port 7171 --run-dir gpu-run --workers 2 &
  local server=$! code
  ps-worker --gpu 0,0 --server 127.0.0.1:7171 --quiet
  code=$?
  ((code == 0)) || kill $server
  wait $server && return $code
}

say "devices"
nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv || exit 1
gpus=$(nvidia-smi --query-gpu=name --format=csv,noheader | wc -l)

check "what there is to train with" ps-doctor
check "ops and networks against the reference" conformance engine_conformance_test
check "large networks against the reference" conformance engine_zoo_conformance_test
check "golden networks: losses of PyTorch" conformance engine_golden_test
check "codecs against the host, byte by byte" conformance codec_device_test
check "codecs: ps-bench codec --gpu 0" ps-bench codec --elements 8000000 --gpu 0
step lenet5 --model lenet5 --batch 256
step cnn --model cnn --batch 256
step "resnet18 32px batch 128" --model resnet18 --image 32 --batch 128
step "resnet50 224px batch 64" --model resnet50 --image 224 --batch 64
step "gpt 2 layers" --model gpt --tokens 128 --batch 32
step "gpt 6 layers" --model gpt --layers 6 --width 384 --tokens 256 --batch 32
step lstm_lm --model lstm_lm --tokens 128 --batch 32
check "training: server and worker by hand" by_hand
check "training: ps-run --gpu 0" train --gpu 0
check "training: ps-run --gpu 0, bf16" train --gpu 0 --precision bf16
check "training: codecs on the GPU, onebit" train --gpu 0 --set compression.push=onebit
check "training: codecs on the GPU, topk, fp16" train --gpu 0 --precision fp16 \
  --set compression.push=topk --set compression.push.topk.select=sampled
check "training: node.reduce host, one GPU twice" train --gpu 0,0 --set node.reduce=host
if ((gpus > 1)); then
  check "training: node.reduce host, two GPUs" train --gpu 0,1 --set node.reduce=host
  check "training: node.reduce nccl, two GPUs" train --gpu 0,1 --set node.reduce=nccl
  check "training: ps-run, a worker on each GPU" train --gpu "0-$((gpus - 1))"
fi
rm -f check.log conformance.log

say "results"
printf '%-44s %-7s %8s %12s\n' check result seconds samples/s
((${#rows[@]} == 0)) || printf '%s\n' "${rows[@]}"
((gpus > 1)) || echo "one GPU: node.reduce nccl was not tried"
say "$failed failed"
exit $((failed > 0))
