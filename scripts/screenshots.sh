#!/usr/bin/env bash
# Takes the pictures of docs/: the dashboard of a run that goes on, light, dark and narrow, and recorded
# runs side by side. Needs a build (scripts/build.sh release); installs Chromium and what makes the
# pictures small.
# scripts/screenshots.sh [PRESET]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

scripts/install-packages.sh chromium webp
PSGD_BIN=$PWD/build/${1:-release}/bin PYTHONDONTWRITEBYTECODE=1 \
  /usr/bin/env python3 tests/observe/screenshots.py docs/images
