#!/usr/bin/env bash
# Packs the built programs with every library they need, except glibc, the driver and the CUDA
# libraries, for machines where nothing of psgd is installed (glibc 2.36 or newer).
# scripts/bundle.sh [--with-onednn]     the CPU engine adds 40 MB
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

with_onednn=no
for argument in "$@"; do
  case $argument in
    --with-onednn) with_onednn=yes ;;
    *) echo "scripts/bundle.sh: unknown argument $argument; there is --with-onednn" >&2; exit 2 ;;
  esac
done

build=build/release
[[ -x $build/bin/ps-server ]] || { echo "nothing is built yet; first: scripts/build.sh release" >&2; exit 1; }
command -v patchelf > /dev/null || { echo "patchelf is missing; first: scripts/install-packages.sh" >&2; exit 1; }

cmake --build $build --target psgd-programs
out=build/bundle/psgd
rm -rf build/bundle
mkdir -p $out/bin $out/lib
install -s $build/bin/psgd-programs $out/bin/
for program in $build/bin/ps-*; do ln -s psgd-programs "$out/bin/${program##*/}"; done
install -s $build/tests/bin/{engine_conformance,engine_golden,engine_zoo_conformance,codec_device}_test $out/bin/
plugins=($build/bin/libpsgd_cudnn.so)
[[ $with_onednn == yes ]] && plugins+=($build/bin/libpsgd_onednn.so)
for plugin in "${plugins[@]}"; do
  [[ -e $plugin ]] && install -s "$plugin" $out/bin/
done
cp -r configs $out/
install -D -m 644 tests/golden/networks.json $out/golden/networks.json
install -m 644 scripts/activate $out/
install scripts/test-gpu.sh scripts/make-certs.sh $out/

# What the machine itself has to bring.
from_the_system='^(libc|libm|libdl|librt|libpthread|libresolv|ld-linux.*|libcuda|libcublas.*|libcudnn.*)\.so'
for file in $out/bin/*; do ldd "$file"; done | awk '$2 == "=>" && $3 ~ /^\// {print $1, $3}' |
  sort -u | while read -r name path; do
    [[ $name =~ $from_the_system ]] || install -s "$(readlink -f "$path")" "$out/lib/$name"
  done
find $out/bin -type f -exec patchelf --set-rpath '$ORIGIN/../lib' {} +
patchelf --set-rpath '$ORIGIN' $out/lib/*

# Part of what a bundle promises: small enough to be copied to every node of a job as it starts.
size=$(du -sk --apparent-size $out | cut -f1)
[[ $with_onednn == yes ]] || ((size <= 64 * 1024)) || {
  echo "scripts/bundle.sh: $out takes $size KiB, more than 64 MiB" >&2
  exit 1
}

tar -C build/bundle -czf build/bundle/psgd.tar.gz psgd
du -sh $out build/bundle/psgd.tar.gz
echo "copy build/bundle/psgd.tar.gz to the machine, then: tar xzf psgd.tar.gz && source psgd/activate && ps-worker --help"
