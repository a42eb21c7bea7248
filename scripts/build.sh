#!/usr/bin/env bash
# Configures and builds one preset (release, debug, asan, tsan, fuzz) into build/PRESET: all
# targets, or only the named targets.
# scripts/build.sh [PRESET [TARGET ...]]     scripts/build.sh release programs: no tests
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

preset=${1:-release}
cmake --preset "$preset"
cmake --build --preset "$preset" ${2:+--target "${@:2}"}
