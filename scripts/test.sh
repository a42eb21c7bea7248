#!/usr/bin/env bash
# Installs missing packages, builds, and runs every test that needs no GPU. Ends with the reasons
# for skipped tests and one line, "N passed, N failed". Fails if a test failed, or was skipped for a
# reason that scripts/allowed-skips.txt does not name.
# scripts/test.sh [--preset release|debug|asan|tsan]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

preset=release
case ${1:-} in
  --preset) preset=${2:?--preset needs a name: release, debug, asan or tsan} ;;
  '') ;;
  *) echo "usage: scripts/test.sh [--preset release|debug|asan|tsan]" >&2; exit 2 ;;
esac
scripts/install-packages.sh python3
# These are for tests of the dashboard, of leader changes, of a sweep's hosts and clusters, and of
# manifests. No build needs them, so they are installed beside it.
installed=$(mktemp)
scripts/install-packages.sh chromium clang-format-14 etcd-server openssh-server munge slurmctld slurmd slurm-client \
  python3-yaml python3-jsonschema python3-torch python3-numpy >"$installed" 2>&1 &
installing=$!
built=0
# Machine code for one kind of GPU shows that the device code compiles; PTX serves the others.
[[ -e build/$preset/CMakeCache.txt ]] || cmake --preset "$preset" -DPSGD_CUDA_ARCHITECTURES=90 || built=$?
((built > 0)) || scripts/build.sh "$preset" || built=$?
wait $installing || { cat "$installed" >&2; exit 1; }
cat "$installed"
rm "$installed"
((built == 0)) || exit "$built"

# CUDA's parts compile without a GPU, so they are built if possible.
nvcc=$(command -v nvcc || ls /usr/local/cuda/bin/nvcc 2>/dev/null || true)
if [[ -n $nvcc ]] && ! grep -q '^PSGD_CUDA:[A-Z]*=OFF' "build/$preset/CMakeCache.txt"; then
  exported=$(nm -D "build/$preset/bin/libpsgd_cudnn.so" 2>&1 || true)
  for part in psgd_make_backend psgd_make_device_codecs; do
    [[ $exported == *" T $part"* ]] && continue
    echo "scripts/test.sh: $nvcc is there, but build/$preset/bin/libpsgd_cudnn.so has no $part: is cuDNN installed?" \
      "See what cmake --preset $preset found, or say -DPSGD_CUDA=OFF" >&2
    exit 1
  done
fi

log=build/$preset/tests.log
results=$PWD/build/$preset/tests.xml
rm -f "$results"
# Half of the time, an average test waits.
ctest --test-dir "build/$preset" -j"$(($(nproc) * 2))" --label-exclude '^gpu$' --output-on-failure --output-junit "$results" \
  --test-output-size-passed 100000000 </dev/null 2>&1 | tee "$log" || true

# "97% tests passed, 1 tests failed out of 34": tests that could not run count as failed, skipped
# tests as passed.
totals=$(sed -nE 's/^[0-9]+% tests passed, ([0-9]+) tests failed out of ([0-9]+)$/\1 \2/p' "$log")
read -r failed total <<<"${totals:-1 1}"
skipped=$(grep -cE '^[[:space:]]+[0-9]+ - .* \(Skipped\)$' "$log" || true)
reasons=0
python3 scripts/count-skips.py "$results" scripts/allowed-skips.txt || reasons=1
echo "$((total - failed - skipped)) passed, $failed failed"
((failed == 0 && reasons == 0))
