#!/usr/bin/env bash
# From a fresh Debian 12 to a trained model: installs the packages, builds, and trains LeNet-5 on
# Fashion-MNIST with four shards and two workers. Where there is no GPU, the backend for GPUs and the
# benchmarks are not built.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

scripts/install-packages.sh
programs=programs
[[ -e /dev/nvidiactl ]] || programs=programs-cpu
scripts/build.sh release "$programs"
build/release/bin/ps-run configs/fashion_mnist.yaml

cat <<'NEXT'

the programs are in build/release/bin; for short: export PATH="$PWD/build/release/bin:$PATH"
all tests: scripts/test.sh          what each program does: docs/programs.md
benchmarks and GPUs: scripts/build.sh release programs
NEXT
