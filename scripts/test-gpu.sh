#!/usr/bin/env bash
# Runs on a machine with a GPU, from the unpacked bundle. Checks every op and network of the CUDA
# engine against the reference and PyTorch's numbers, and the codecs' CUDA twins against the host.
# Measures the speed of steps and codecs (against PyTorch for CUDA if it is there), and runs short
# trainings with the real programs. Ends with a table and one line with the number of passed checks.
# The output of each check, and the table so far, are in gpu-results/, even if a check fails.
# test-gpu.sh [--minutes N] [WORD]     only the checks with WORD in their names, as "step" or "golden"; each may take
#                                      N minutes (20)
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
source ./activate

minutes=20
if [[ ${1:-} == --minutes ]]; then
  minutes=${2:?--minutes needs a number}
  shift 2
fi
only=${1:-}
passed=0 failed=0 skipped=0
results=$PWD/gpu-results
rm -rf "$results"
mkdir -p "$results"
say() { printf '\n== %s\n' "$1"; }
row() { printf '%-48s %-7s %8s %12s\n' "$@" >> "$results/table.txt"; }

row check result seconds samples/s

finish() {
  say "results"
  cat "$results/table.txt" "$results"/against_PyTorch*.log 2> /dev/null
  say "$passed passed, $failed failed, $skipped skipped; what they printed: $results"
}
trap finish EXIT
trap 'exit 130' INT TERM

# check NAME COMMAND...: runs the command and adds its row to the table.
check() {
  local name=$1 start result speed log
  shift
  [[ $name == *"$only"* ]] || return 0
  say "$name"
  log=$results/${name//[^A-Za-z0-9.]/_}.log
  start=$(date +%s%N)
  if limited "$@" 2>&1 | tee "$log"; then
    result=ok passed=$((passed + 1))
  else
    result=FAILED failed=$((failed + 1))
  fi
  # Matches the output of ps-bench and the summary of a run.
  speed=$(grep -oE 'samples_per_second"?[=:] *[0-9.e+]+' "$log" | grep -oE '[0-9.e+]+$' | tail -1)
  row "$name" $result "$(printf '%.1f' "$((($(date +%s%N) - start) / 100000000))e-1")" \
    "${speed:+$(printf '%.1f' "$speed")}"
  echo "$result: $name"
}
skip() {
  [[ $1 == *"$only"* ]] || return 0
  skipped=$((skipped + 1))
  row "$1" skipped "" ""
  echo "skipped: $1: $2"
}

# Runs a program, or a function of this script in its own shell, with a time limit: a hanging check
# must not stop the others.
limited() {
  if [[ $(type -t "$1") == function ]]; then
    timeout --kill-after=10 "${minutes}m" bash -c "$(declare -f conformance train by_hand); \"\$@\"" - "$@"
  else
    timeout --kill-after=10 "${minutes}m" "$@"
  fi
}

# conformance PATTERN: runs the tests with matching names. A test without a device or plugin is
# skipped; a skip must not count as success, and neither may a name without tests.
conformance() {
  set -o pipefail
  local out
  out=$(psgd-gpu-tests --gtest_brief=1 --gtest_filter="$1" | tee /dev/stderr) &&
    [[ $out != *SKIPPED* && $out != *" 0 tests"* ]]
}

# step NAME ARGUMENTS...: measures the step in each precision.
step() {
  local name=$1 precision
  shift
  for precision in fp32 tf32 bf16 fp16; do
    check "step: $name, $precision" ps-bench step --engine cudnn --precision $precision "$@"
  done
}

# train ARGUMENTS...: runs ps-run with these arguments.
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
nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv | tee "$results/devices.txt" || exit 1
gpus=$(nvidia-smi --query-gpu=name --format=csv,noheader | wc -l)
torch=0
python3 -c 'import torch, torchvision; assert torch.cuda.is_available()' 2> /dev/null && torch=1

check "what there is to train with" ps-doctor
check "ops and networks against the reference" conformance "*cudnn*-*Zoo*:*Golden*:*Onnx*:*Device*"
check "large networks against the reference" conformance "*Zoo*cudnn*"
check "golden networks: losses of PyTorch" conformance "*GoldenTest*cudnn*"
check "networks from ONNX files: losses of PyTorch" conformance "*Onnx*cudnn*"
PSGD_TENSORS=10000 check "codecs against the host, byte by byte" conformance "*DeviceTwins*cudnn*"
check "codecs: ps-bench codec --gpu 0" ps-bench codec --elements 8000000 --gpu 0
step lenet5 --model lenet5 --batch 256
step cnn --model cnn --batch 256
step "resnet18 32px batch 128" --model resnet18 --image 32 --batch 128
step "resnet50 224px batch 64" --model resnet50 --image 224 --batch 64
step "resnet50 224px batch 256" --model resnet50 --image 224 --batch 256
check "step: resnet50 224px batch 256, bf16, recompute" ps-bench step --engine cudnn --precision bf16 \
  --model resnet50 --image 224 --batch 256 --recompute auto
step "gpt 2 layers" --model gpt --tokens 128 --batch 32
step "gpt 6 layers" --model gpt --layers 6 --width 384 --tokens 256 --batch 32
step lstm_lm --model lstm_lm --tokens 128 --batch 32
for model in lenet5 resnet18 resnet50 gpt; do
  if ((torch)); then
    check "against PyTorch: $model" python3 bench/vs_torch.py --bin bin --gpu 0 --only $model
  else
    skip "against PyTorch: $model" "no PyTorch for CUDA in $(command -v python3 || echo 'python3, which is not there')"
  fi
done
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
else
  for name in "node.reduce host, two GPUs" "node.reduce nccl, two GPUs" "ps-run, a worker on each GPU"; do
    skip "training: $name" "there is one GPU"
  done
fi
exit $((failed > 0))
