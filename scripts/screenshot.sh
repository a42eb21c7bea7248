#!/usr/bin/env bash
# A picture of a page, as docs/images has them, by headless Chromium (Debian's chromium).
#   scripts/screenshot.sh runs/quick/report.html docs/images/report.png [light|dark] [WIDTHxHEIGHT]
#   scripts/screenshot.sh http://127.0.0.1:7080/ page.png dark 500x900
set -euo pipefail

(($# >= 2 && $# <= 4)) || { sed -n '2,4s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2; exit 2; }
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
