#!/usr/bin/env bash
# Builds libpsgd and packs it with the Python package: one wheel for every Python from 3.9 and every
# PyTorch, on Linux with the glibc of this machine (Debian 12: 2.36) or a newer one.
# scripts/wheel.sh [--build FOLDER] [--no-build] [--out FOLDER]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

build=build/release
make=yes
to=dist
while (($# > 0)); do
  case $1 in
    --build) build=${2:?--build needs the folder of a release build}; shift ;;
    --no-build) make=no ;;
    --out) to=${2:?--out needs a folder}; shift ;;
    *) echo "scripts/wheel.sh: unknown argument $1; there are --build, --no-build and --out" >&2; exit 2 ;;
  esac
  shift
done

[[ -e $build/CMakeCache.txt ]] || { echo "nothing is built in $build yet; first: scripts/build.sh release programs" >&2; exit 1; }
[[ $make == no ]] || cmake --build "$build" --target psgd_library
wheel=$(python3 scripts/psgd_wheel.py "$to" "$build")
echo "$wheel: $(du -k "$wheel" | cut -f1) KiB; python3 -m pip install $wheel"
