#!/usr/bin/env bash
# Configures and builds one preset (release, debug, asan, tsan, fuzz) into build/PRESET.
# scripts/build.sh [PRESET]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

preset=${1:-release}
cmake --preset "$preset"
cmake --build --preset "$preset"
