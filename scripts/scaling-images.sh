#!/usr/bin/env bash
# Draws docs/images/scaling.svg, ps-sim's prediction of strong scaling, and prints its numbers.
# Takes a minute or two.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

topk='{topk: {density: 0.01}}'
build/release/bin/ps-sim configs/sim/alexnet.yaml --model configs/sim/titan_x.yaml \
  --workers 1,2,4,8,16,32,64,128,256,512,1024 --global-batch 1024 --clocks 10 --flows 512 --set compression.push=none \
  --also "1 % pushed: compression.push=$topk" \
  --also "1 % both ways: compression.push=$topk; compression.pull={delta: {codec: $topk}}" \
  --svg docs/images/scaling.svg
