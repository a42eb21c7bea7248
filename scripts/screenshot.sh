#!/usr/bin/env bash
# Takes pictures of pages for docs/images, with headless Chromium (Debian's chromium).
#   scripts/screenshot.sh docs [PRESET]       all of docs/: the dashboard of a run that goes on, light, dark and
#                                             narrow, recorded runs side by side, and the report of a sweep in
#                                             runs/quick, which takes minutes where it is not finished; needs a
#                                             build, installs what it needs
#   scripts/screenshot.sh runs/mine/report.html page.png [light|dark] [WIDTHxHEIGHT]
#   scripts/screenshot.sh http://127.0.0.1:7080/ page.png dark 500x900
set -euo pipefail

usage() { sed -n '3,8s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2; exit 2; }

docs() {
  cd "$(dirname "${BASH_SOURCE[0]}")/.."
  scripts/install-packages.sh chromium webp
  PSGD_BIN=$PWD/build/${1:-release}/bin PYTHONDONTWRITEBYTECODE=1 \
    exec /usr/bin/env python3 tests/observe/screenshots.py docs/images
}

if [[ ${1:-} == docs ]]; then
  (($# <= 2)) || usage
  docs "${2:-release}"
fi
(($# >= 2 && $# <= 4)) || usage
page=$1 picture=$2 scheme=${3:-light} size=${4:-1280x900}
[[ $page == *://* ]] || page=file://$(realpath "$page")
case $scheme in
  dark) preferred=0 ;;
  light) preferred=1 ;;
  *) echo "screenshot.sh: \"$scheme\" is neither light nor dark" >&2; exit 2 ;;
esac
command -v chromium > /dev/null || { echo "screenshot.sh: no chromium; apt-get install chromium" >&2; exit 1; }

profile=$(mktemp -d)
trap 'rm -rf "$profile"' EXIT
chromium --headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run --hide-scrollbars \
  --user-data-dir="$profile" --window-size="${size/x/,}" --blink-settings=preferredColorScheme=$preferred \
  --screenshot="$picture" "$page" 2> "$profile/log" || { cat "$profile/log" >&2; exit 1; }
[[ -s $picture ]] || { echo "screenshot.sh: no picture was made" >&2; exit 1; }
