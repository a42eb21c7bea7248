#!/usr/bin/env bash
# Tests the wheel as its users have it: in a virtual environment with the newest PyTorch of PyPI, with
# the Python tests and with ten steps or more of every example. Not part of scripts/test.sh: it needs
# PyPI, 5 GB in build/python-venv the first time, and some minutes.
# scripts/test-python.sh [--python PYTHON] [--examples-only | --tests-only]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

python=python3
tests=yes
examples=yes
while (($# > 0)); do
  case $1 in
    --python) python=${2:?--python needs a program, such as python3.12}; shift ;;
    --examples-only) tests=no ;;
    --tests-only) examples=no ;;
    *) echo "scripts/test-python.sh: unknown argument $1; there are --python, --examples-only and --tests-only" >&2; exit 2 ;;
  esac
  shift
done

bin=$PWD/build/release/bin
[[ -x $bin/ps-run ]] || { echo "no programs are built yet; first: scripts/build.sh release" >&2; exit 1; }
venv=$PWD/build/python-venv
pip=("$venv/bin/python" -m pip install --quiet --no-cache-dir --disable-pip-version-check)
if [[ ! -e $venv/complete ]]; then
  "$python" -m venv --clear "$venv"
  # PyPI's PyTorch loads the CUDA libraries even where there is no GPU, but neither Triton nor
  # cuda-bindings.
  "${pip[@]}" --no-deps torch torchvision
  "$venv/bin/python" - > "$venv/needed.txt" <<'EOF'
from importlib.metadata import requires
for line in requires("torch"):
    if "extra ==" not in line and not line.startswith(("triton", "cuda-bindings")):
        print(line)
EOF
  echo "pip's error that torch lacks cuda-bindings and triton is expected"
  "${pip[@]}" -r "$venv/needed.txt" numpy pillow jax
  touch "$venv/complete"
fi

rm -rf build/python-wheel
scripts/wheel.sh --out build/python-wheel
"${pip[@]}" --no-deps --force-reinstall build/python-wheel/*.whl
# Without this ps-run would say that the build's library counts.
PSGD_LIBRARY=$(cd / && "$venv/bin/python" -c 'import psgd; print(psgd.__path__[0] + "/libpsgd.so")')
export PSGD_LIBRARY PYTHONDONTWRITEBYTECODE=1
unset PYTHONPATH
"$venv/bin/python" -c 'import jax, sys, torch, torchvision
print(f"Python {sys.version.split()[0]}, torch {torch.__version__}, torchvision {torchvision.__version__}, jax {jax.__version__}")'

passed=0
failed=0
count() {  # count NAME COMMAND...
  local name=$1
  shift
  if "$@"; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "$name failed" >&2; fi
}

out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
# The loss must fall from the first epoch to the last.
example() {  # example NAME BATCH ARGUMENT...
  local name=$1 batch=$2
  shift 2
  echo "examples/$name.py $*"
  "$bin/ps-run" examples/cluster.yaml --set "name=$name" --set "data.batch=$batch" --workers 2 \
    --run-dir "$out/$name" -- "$venv/bin/python" "examples/$name.py" "$@" > "$out/said" 2>&1 ||
    { cat "$out/said"; return 1; }
  "$venv/bin/python" - "$out/$name/metrics.jsonl" "$out/$name/summary.json" <<'EOF'
import json
import sys
losses = [line["loss"] for line in map(json.loads, open(sys.argv[1]))
          if line["kind"] == "evaluation"]
summary = json.load(open(sys.argv[2]))
print(f"  {summary['steps']} steps in {summary['wall_seconds']:.0f} s, loss "
      + ", ".join(f"{loss:.4f}" for loss in losses))
sys.exit(not losses[-1] < losses[0])
EOF
}

if [[ $tests == yes ]]; then
  for test in tests/python/*_test.py; do
    echo "$test"
    count "$test" "$venv/bin/python" "$test" "$bin" "$PWD"
  done
fi
if [[ $examples == yes ]]; then
  count numpy_logistic example numpy_logistic 64 --epochs 2
  count jax_mlp example jax_mlp 64 --epochs 2
  if [[ -e /usr/share/datasets/fashion-mnist ]]; then
    count fashion_mnist example fashion_mnist 64 --epochs 2
  fi
  count gpt example gpt 64 --epochs 2
  count lstm_translator example lstm_translator 64 --epochs 2
  count resnet18 example resnet18 64 --epochs 2
  count ssd300 example ssd300 4 --epochs 2 --samples 48
  count mask_rcnn example mask_rcnn 2 --epochs 2 --samples 24
fi
echo "$passed passed, $failed failed"
((failed == 0))
