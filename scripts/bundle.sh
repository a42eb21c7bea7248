#!/usr/bin/env bash
# Packs the built programs for machines without psgd (glibc 2.36 or newer), with every library
# except glibc, the driver and the CUDA libraries.
# scripts/bundle.sh [--with-onednn] [--build FOLDER] [--no-build] [--out FOLDER]
# --no-build: psgd-programs and psgd-gpu-tests are already built.
# --with-onednn: the CPU engine adds 40 MiB, which exceeds the limit of 64 MiB for a bundle. A
# bundle is for machines with GPUs; without the CPU engine their CPUs can still serve, send and
# evaluate.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

with_onednn=no
build=build/release
make=yes
to=build/bundle
while (($# > 0)); do
  case $1 in
    --with-onednn) with_onednn=yes ;;
    --build) build=${2:?--build needs the folder of a release build}; shift ;;
    --no-build) make=no ;;
    --out) to=${2:?--out needs a folder}; shift ;;
    *) echo "scripts/bundle.sh: unknown argument $1; there are --with-onednn, --build, --no-build and --out" >&2; exit 2 ;;
  esac
  shift
done

[[ -x $build/bin/ps-server ]] || { echo "nothing is built in $build yet; first: scripts/build.sh release" >&2; exit 1; }
command -v patchelf > /dev/null || { echo "patchelf is missing; first: scripts/install-packages.sh" >&2; exit 1; }

[[ $make == no ]] || cmake --build "$build" --target psgd-programs psgd-gpu-tests
out=$to/psgd
rm -rf "$out" "$out.tar.gz"
mkdir -p "$out/bin" "$out/lib"
install -s "$build/bin/psgd-programs" "$out/bin/"
for program in "$build"/bin/ps-*; do ln -s psgd-programs "$out/bin/${program##*/}"; done
install -s "$build/tests/bin/psgd-gpu-tests" "$out/bin/"
plugins=("$build/bin/libpsgd_cudnn.so")
[[ $with_onednn == yes ]] && plugins+=("$build/bin/libpsgd_onednn.so")
for plugin in "${plugins[@]}"; do
  if [[ -e $plugin ]]; then
    install -s "$plugin" "$out/bin/"
  else
    echo "scripts/bundle.sh: $plugin was not built, so the bundle is without it" >&2
  fi
done
cp -r configs "$out/"
mkdir -p "$out/tests/golden" "$out/bench"
cp -r tests/golden/networks.json tests/golden/torch_networks.py tests/golden/onnx "$out/tests/golden/"
install bench/vs_torch.py "$out/bench/"
install -m 644 scripts/activate "$out/"
install scripts/test-gpu.sh scripts/make-certs.sh "$out/"

# The machine must provide these libraries.
from_the_system='^(libc|libm|libdl|librt|libpthread|libresolv|ld-linux.*|libcuda|libcublas.*|libcudnn.*)\.so'
for file in "$out"/bin/*; do ldd "$file"; done | awk '$2 == "=>" && $3 ~ /^\// {print $1, $3}' |
  sort -u | while read -r name path; do
    [[ $name =~ $from_the_system ]] || install -s "$(readlink -f "$path")" "$out/lib/$name"
  done
# An RPATH, unlike a RUNPATH, also holds for the libraries that a library needs. So they stay as they
# are: patchelf would add 4 MB to them.
find "$out/bin" -type f -exec patchelf --force-rpath --set-rpath '$ORIGIN/../lib' {} +

# A bundle must be small enough to be copied to every node of a job at its start.
size=$(du -sk --apparent-size "$out" | cut -f1)
[[ $with_onednn == yes ]] || ((size <= 64 * 1024)) || {
  echo "scripts/bundle.sh: $out takes $size KiB, more than 64 MiB" >&2
  exit 1
}

tar -C "$to" -czf "$out.tar.gz" psgd
du -sh "$out" "$out.tar.gz"
echo "machine code for GPUs of compute capability $(sed -n 's/^PSGD_CUDA_ARCHITECTURES:[A-Z]*=//p' "$build/CMakeCache.txt" |
  sed 's/AUTO/80, 90 and 100/'); the driver translates for others at the first start"
echo "copy $out.tar.gz to the machine, then: tar xzf psgd.tar.gz && source psgd/activate && ps-worker --help"
