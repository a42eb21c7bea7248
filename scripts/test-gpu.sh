#!/usr/bin/env bash
# Runs on a machine with a GPU, from the unpacked bundle. Checks the CUDA engine against the reference
# and PyTorch's numbers, and the codecs' CUDA twins against the host. Trains with the real programs,
# and measures the speed of steps and codecs (against PyTorch for CUDA if it is there).
#   test-gpu.sh [--list] [--budget SECONDS] [--minutes N] [--results FOLDER] [PIECE | WORD]...
# Without PIECE or WORD it runs all pieces, first the piece that decides most.
#   PIECE             all checks of the piece; --list shows the pieces
#   WORD              the checks with WORD in their names, as "resnet50"
#   --list            shows the pieces and checks with an estimate of each, and runs nothing
#   --budget SECONDS  starts no check that does not fit into what is left of them, and ends a check
#                     that takes longer
#   --minutes N       ends a check after N minutes (20)
#   --results FOLDER  keeps the table and the output of each check there (gpu-results)
# Each check adds its row to FOLDER/table.txt when it ends, so a script that is killed leaves a whole
# table. Ends with the table, and one line with the number of passed checks.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")" || exit
source ./activate
export PATH="$PATH:${CUDA_HOME:-/usr/local/cuda}/bin"  # compute-sanitizer

refuse() {
  echo "test-gpu.sh: $1" >&2
  exit 2
}

pieces=(capture ops twins programs golden repeat bench torch roofline sanitize train steps torch_tf32)
list=no budget=0 minutes=20 results=$PWD/gpu-results words=()
while (($# > 0)); do
  case $1 in
    --list) list=yes ;;
    --budget)
      budget=${2:?--budget needs a number of seconds}
      [[ $budget =~ ^[1-9][0-9]*$ ]] || refuse "--budget takes whole seconds, not $budget"
      shift ;;
    --minutes) minutes=${2:?--minutes needs a number}; shift ;;
    --results) results=$(realpath -m "${2:?--results needs a folder}"); shift ;;
    -*) refuse "unknown option $1; there are --list, --budget, --minutes and --results" ;;
    *) words+=("$1") ;;
  esac
  shift
done

piece="" running="" job=""
passed=0 failed=0 skipped=0 cut=0
declare -A estimates=()
say() { printf '\n== %s\n' "$1"; }
line() { printf '%-48s %-8s %8s %12s\n' "$@"; }
row() { line "$@" >> "$results/table.txt"; }
tenths() { printf '%d.%d' $(($1 / 10)) $(($1 % 10)); }
now() { echo $(($(date +%s%N) / 100000000)); }  # in tenths of a second
log_of() { echo "$results/${1//[^A-Za-z0-9.]/_}.log"; }

# Whether the command line asks for the check: for its piece, or for a word in its name.
wanted() {
  ((${#words[@]} == 0)) && return 0
  local word
  for word in "${words[@]}"; do
    if [[ " ${pieces[*]} " == *" $word "* ]]; then
      [[ $word == "$piece" ]] && return 0
    elif [[ $1 == *"$word"* ]]; then
      return 0
    fi
  done
  return 1
}

# check ESTIMATE NAME COMMAND...: runs the command and adds its row to the table. The estimate is in
# seconds, on an H100 with 16 cores.
check() {
  local estimate=$1 name=$2 start log result=ok speed left limit
  shift 2
  wanted "$name" || return 0
  if [[ $list == yes ]]; then
    estimates[$piece]=$((${estimates[$piece]:-0} + estimate))
    checks+=("$(printf '  %-56s %5d' "$name" "$estimate")")
    return
  fi
  limit=$(awk -v n="$minutes" 'BEGIN { print 60 * n }')
  if ((budget > 0)); then
    left=$((budget - SECONDS))
    if ((estimate > left)); then
      leave_out "$name" "it takes about $estimate seconds, and $((left > 0 ? left : 0)) of $budget are left"
      return
    fi
    limit=$(awk -v a="$limit" -v b="$left" 'BEGIN { print a < b ? a : b }')
  fi
  log=$(log_of "$name") start=$(now)
  say "$name (about $estimate s)"
  running=$name
  # In the background, because bash handles no signal while it waits for a command in front.
  limited "$limit" "$@" > "$log" 2>&1 < /dev/null &
  job=$!
  wait $job || result=FAILED
  running=""
  if [[ $result == ok ]]; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
  # Matches the output of ps-bench and the summary of a run.
  speed=$(grep -oE 'samples_per_second"?[=:] *[0-9.e+]+' "$log" | grep -oE '[0-9.e+]+$' | tail -1)
  row "$name" $result "$(tenths $(($(now) - start)))" "${speed:+$(printf '%.1f' "$speed")}"
  tail -n "$([[ $result == ok ]] && echo 6 || echo 60)" "$log"
  echo "$result: $name"
}
leave_out() {
  skipped=$((skipped + 1))
  row "$1" skipped "" ""
  echo "skipped: $1: $2"
}
# skip NAME WHY: a check that this machine cannot run.
skip() {
  [[ $list == no ]] && wanted "$1" && leave_out "$1" "$2"
}

finish() {
  [[ $list == no ]] || return 0
  say "results"
  cat "$results/table.txt" "$results"/against_PyTorch*.log 2> /dev/null
  say "$passed passed, $failed failed, $skipped skipped$( ((cut == 0)) || echo ", 1 cut"); what they printed: $results"
}
# The end from outside: the row of the running check says so.
cut_off() {
  trap '' INT TERM
  if [[ -n $running ]]; then
    cut=1
    row "$running" cut "" ""
    kill -TERM $job 2> /dev/null
    wait $job
    # A signal that comes as timeout starts its program ends timeout alone. Both are in its group.
    kill -KILL -- -$job 2> /dev/null
  fi
  exit 130
}

# Runs a program, or a function of this script in its own shell, with a time limit: a hanging check
# must not stop the others.
limited() {
  local limit=$1
  shift
  if [[ $(type -t "$1") == function ]]; then
    exec timeout --kill-after=10 "$limit" bash -c "$(declare -p allowed_skips); $(declare -f); \"\$@\"" - "$@"
  fi
  exec timeout --kill-after=10 "$limit" "$@"
}

# Reasons for which a test may be skipped on a machine with a GPU: the case has nothing to test.
allowed_skips='no other codec goes on from it: compression.push: auto refuses it'

# conformance PATTERN: runs the tests with matching names, in several processes at once. A test
# without a device or plugin is skipped; such a skip must not count as success, and neither may a name
# without tests.
conformance() {
  local shards i folder ok=yes jobs=() unexpected
  shards=$(nproc)
  ((shards > 8)) && shards=8
  folder=$(mktemp -d)
  for ((i = 0; i < shards; ++i)); do
    GTEST_TOTAL_SHARDS=$shards GTEST_SHARD_INDEX=$i \
      ${CHECKER:-} psgd-gpu-tests --gtest_brief=1 --gtest_filter="$1" > "$folder/$i" 2>&1 &
    jobs+=($!)
  done
  for ((i = 0; i < shards; ++i)); do
    wait "${jobs[$i]}" || ok=no
    cat "$folder/$i"
  done
  unexpected=$(cat "$folder"/* | awk '/: Skipped$/ { reason = 1; next } reason && NF { print; reason = 0 }' |
               grep -vxF "$allowed_skips" | sort | uniq -c)
  if [[ -n $unexpected ]]; then
    printf 'tests that were skipped, although there is a GPU, and why:\n%s\n' "$unexpected"
    ok=no
  fi
  if ! cat "$folder"/* | grep -qE '^\[  PASSED  \] [1-9]'; then
    echo "no test passed; the names were: $1"
    ok=no
  fi
  rm -rf "$folder"
  [[ $ok == yes ]]
}

# sanitized TOOL PATTERN: the tests under a tool of compute-sanitizer that watches psgd's own kernels.
sanitized() {
  CHECKER="compute-sanitizer --tool $1 --kernel-name kernel_substring=psgd --report-api-errors no --error-exitcode 9" \
    conformance "$2"
}

# train FOLDER ARGUMENTS...: runs ps-run with these arguments.
train() {
  local folder=$1
  shift
  rm -rf "$folder"
  ps-run configs/mlp_synthetic.yaml --run-dir "$folder" --json --quiet "$@"
}

# Two runs with the same seed give the same weights.
twice() {
  train gpu-run-1 "$@" && train gpu-run-2 "$@" || return
  cmp gpu-run-1/weights.safetensors gpu-run-2/weights.safetensors
}

# serve FOLDER PORT WORKER [SERVER ARGUMENTS...]: a server, and a worker with these arguments, for both
# of the run's workers.
serve() {
  local folder=$1 port=$2 worker=$3 server code
  shift 3
  rm -rf "$folder"
  ps-server --config configs/mlp_synthetic.yaml --port "$port" --run-dir "$folder" --workers 2 "$@" &
  server=$!
  # shellcheck disable=SC2086
  ps-worker $worker --server "127.0.0.1:$port" --quiet
  code=$?
  ((code == 0)) || kill $server
  wait $server && return $code
}

# The accuracy on the GPU is that on the host, within two hundredths.
as_on_the_host() {
  local on_gpu on_host
  accuracy() { sed -nE 's/.*"test_accuracy": *([0-9.]+).*/\1/p' "$1/summary.json"; }
  train gpu-run --gpu 0 "$@" && serve host-run 7172 "--cpu --engine reference --replicas 2" "$@" || return
  on_gpu=$(accuracy gpu-run) on_host=$(accuracy host-run)
  echo "test accuracy: $on_gpu on the GPU, $on_host on the host"
  awk -v a="$on_gpu" -v b="$on_host" 'BEGIN { exit !(a != "" && a >= b - 0.02) }'
}

# step ESTIMATE NAME PRECISIONS ARGUMENTS...: measures the step in each precision.
step() {
  local estimate=$1 name=$2 precisions=$3 precision
  shift 3
  for precision in $precisions; do
    check "$estimate" "step: $name, $precision" ps-bench step --engine cudnn --precision "$precision" "$@"
  done
}

# A piece takes less than 8 minutes and is useful alone.
piece_capture() {
  check 5 "what there is to train with" ps-doctor
  check 5 "gradients of recorded steps are the step's own" conformance "*Capture*"
}
piece_ops() {
  check 150 "ops and networks against the reference" conformance "*cudnn*-*Zoo*:*Golden*:*Onnx*:*Device*:*Capture*"
}
piece_twins() {
  PSGD_TENSORS=300 check 60 "codecs against the host, byte by byte" conformance "*DeviceTwins*cudnn*:*DeviceGroups*cudnn*"
}
piece_programs() {
  check 10 "programs: codecs wait for a program's stream" conformance "ProgramStream*"
}
piece_golden() {
  check 60 "golden networks: losses of PyTorch" conformance "*GoldenTest*cudnn*"
  check 20 "networks from ONNX files: losses of PyTorch" conformance "*Onnx*cudnn*"
  check 100 "large networks against the reference" conformance "*Zoo*cudnn*"
}
piece_repeat() {
  local precision
  for precision in fp32 bf16; do
    check 10 "twice, bit for bit: topk, $precision" twice --gpu 0 --precision $precision \
      --set consistency.staleness=0
  done
  check 5 "topk, four shards: accuracy as on the host" as_on_the_host --set cluster.shards=4
}
piece_bench() {
  check 20 "codecs: ps-bench codec --gpu 0" ps-bench codec --gpu 0
  step 60 "resnet50 224px batch 256" bf16 --model resnet50 --image 224 --batch 256
  step 20 "gpt 6 layers of 512, 1024 tokens" bf16 --model gpt --layers 6 --width 512 --tokens 1024 --batch 16
  step 25 "vgg16 224px batch 64" bf16 --model vgg16 --image 224 --batch 64
}
# against_torch PRECISION MODELS...
against_torch() {
  local precision=$1 model name
  shift
  for model; do
    name="against PyTorch: $model, $precision"
    if ((torch)) || [[ $list == yes ]]; then
      check 150 "$name" python3 bench/vs_torch.py --bin bin --gpu 0 --rounds 1 --only "$model" --precision "$precision"
    else
      skip "$name" \
        "no PyTorch for CUDA in $(command -v python3 || echo 'python3, which is not there')"
    fi
  done
}
piece_torch() { against_torch bf16 resnet50 gpt vgg16; }
# Where the time of a step goes, op by op.
piece_roofline() {
  step 60 "resnet50 224px batch 64, by op" bf16 --model resnet50 --image 224 --batch 64 --roofline
  step 20 "gpt 6 layers of 512, by op" bf16 --model gpt --layers 6 --width 512 --tokens 1024 \
    --batch 8 --roofline
}
piece_torch_tf32() { against_torch tf32 resnet50 gpt vgg16; }
piece_sanitize() {
  # Kernels that share memory, add up over threads, or move packs.
  local shared="LayerNorm*:BatchNorm*:Softmax*:KeepLargest*:Bias*:Transpose*:Lstm*:Embedding*:MaxPool*"
  shared+=":AveragePool*:Relu*:Mul*:Dropout*:Slice*:Concat*:Pad*:Sum*"
  local fp32="*BackendTest.AgreesWithTheOracle/cudnn_" bf16="*BackendTest.AgreesWithTheOracle/cudnn_bf16_"
  fp32+=${shared//:/:$fp32}
  bf16+=${shared//:/:$bf16}
  if command -v compute-sanitizer > /dev/null || [[ $list == yes ]]; then
    check 160 "memcheck: ops" sanitized memcheck "$fp32:$bf16"
    check 120 "racecheck: ops" sanitized racecheck "$fp32"
    PSGD_TENSORS=9 check 100 "memcheck: codecs" sanitized memcheck "*DeviceTwins.AgreeOnRandomTensors/cudnn*:*DeviceGroups*cudnn*"
    PSGD_TENSORS=9 check 100 "racecheck: codecs" sanitized racecheck "*DeviceTwins.AgreeOnRandomTensors/cudnn*:*DeviceGroups*cudnn*"
  else
    local name
    for name in "memcheck: ops" "racecheck: ops" "memcheck: codecs" "racecheck: codecs"; do
      skip "$name" "no compute-sanitizer on PATH; CUDA's toolkit has it"
    done
  fi
}
piece_train() {
  check 5 "training: server and worker by hand" serve gpu-run 7171 "--gpu 0,0"
  check 5 "training: ps-run --gpu 0" train gpu-run --gpu 0
  check 5 "training: ps-run --gpu 0, bf16" train gpu-run --gpu 0 --precision bf16
  check 5 "training: codecs on the GPU, onebit" train gpu-run --gpu 0 --set compression.push=onebit
  check 5 "training: codecs on the GPU, topk, fp16" train gpu-run --gpu 0 --precision fp16 \
    --set compression.push=topk --set compression.push.topk.select=sampled
  check 5 "training: node.reduce host, one GPU twice" train gpu-run --gpu 0,0 --set node.reduce=host
  if ((gpus > 1)); then
    check 20 "training: node.reduce host, two GPUs" train gpu-run --gpu 0,1 --set node.reduce=host
    check 20 "gradients that GPUs add up, against the host" conformance "GroupTest.*"
    check 20 "training: node.reduce nccl, two GPUs" train gpu-run --gpu 0,1 --set node.reduce=nccl
    check 20 "training: ps-run, a worker on each GPU" train gpu-run --gpu "0-$((gpus - 1))"
  else
    local name
    for name in "node.reduce host, two GPUs" "node.reduce nccl, two GPUs" "ps-run, a worker on each GPU"; do
      skip "training: $name" "there is one GPU"
    done
  fi
}
piece_steps() {
  step 8 lenet5 "fp32 tf32 bf16 fp16" --model lenet5 --batch 256
  step 8 cnn "fp32 tf32 bf16 fp16" --model cnn --batch 256
  step 12 "resnet18 32px batch 128" "fp32 tf32 bf16 fp16" --model resnet18 --image 32 --batch 128
  step 50 "resnet50 224px batch 64" "fp32 tf32 fp16" --model resnet50 --image 224 --batch 64
  step 8 "gpt 2 layers" "fp32 tf32 bf16 fp16" --model gpt --tokens 128 --batch 32
  step 12 "gpt 6 layers" "fp32 tf32 fp16" --model gpt --layers 6 --width 384 --tokens 256 --batch 32
  step 8 lstm_lm "fp32 tf32 bf16 fp16" --model lstm_lm --tokens 128 --batch 32
  check 80 "step: resnet50 224px batch 256, bf16, recompute" ps-bench step --engine cudnn \
    --precision bf16 --model resnet50 --image 224 --batch 256 --recompute auto
}

gpus=0 torch=0
if [[ $list == no ]]; then
  if ! found=$(nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv 2>&1); then
    echo "no GPU can be used here: nvidia-smi says: $found"
    echo "this script needs a machine with an NVIDIA GPU and its driver; --list shows what it would run"
    say "0 passed, 0 failed, 0 skipped"
    exit 1
  fi
  mkdir -p "$results"
  rm -f "$results"/table.txt "$results"/devices.txt "$results"/*.log
  trap finish EXIT
  trap cut_off INT TERM
  row check result seconds samples/s
  say "devices"
  tee "$results/devices.txt" <<< "$found"
  gpus=$(nvidia-smi --query-gpu=name --format=csv,noheader | wc -l)
  python3 -c 'import torch, torchvision; assert torch.cuda.is_available()' 2> /dev/null && torch=1
fi

for piece in "${pieces[@]}"; do
  checks=()
  "piece_$piece"
  if [[ $list == yes && ${estimates[$piece]:-0} != 0 ]]; then
    printf '%-58s %5d seconds\n' "$piece" "${estimates[$piece]}"
    printf '%s\n' "${checks[@]}"
  fi
done
if ((${#estimates[@]} + passed + failed + skipped == 0)); then
  refuse "no piece, and no check's name, has ${words[*]}; --list shows them all"
fi
exit $((failed > 0))
