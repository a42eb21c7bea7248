#!/usr/bin/env bash
# Installs what is missing, builds, and runs every test that needs no GPU. Ends with one line,
# "N passed, N failed", and fails if any test did.
# scripts/test.sh [--preset release|debug|asan|tsan]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

preset=release
case ${1:-} in
  --preset) preset=${2:?--preset needs a name: release, debug, asan or tsan} ;;
  '') ;;
  *) echo "usage: scripts/test.sh [--preset release|debug|asan|tsan]" >&2; exit 2 ;;
esac
# For the tests of the dashboard, of hosts of a sweep, and of manifests.
scripts/install-packages.sh chromium openssh-server python3-yaml python3-jsonschema
scripts/build.sh "$preset"

log=build/$preset/tests.log
ctest --test-dir "build/$preset" -j2 --label-exclude '^gpu$' --output-on-failure </dev/null 2>&1 |
  tee "$log" || true

# "97% tests passed, 1 tests failed out of 34": one that could not run failed, one skipped passed.
totals=$(sed -nE 's/^[0-9]+% tests passed, ([0-9]+) tests failed out of ([0-9]+)$/\1 \2/p' "$log")
read -r failed total <<<"${totals:-1 1}"
skipped=$(grep -cE '^[[:space:]]+[0-9]+ - .* \(Skipped\)$' "$log" || true)
((skipped == 0)) || echo "$skipped skipped"
echo "$((total - failed - skipped)) passed, $failed failed"
((failed == 0))
