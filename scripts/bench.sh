#!/usr/bin/env bash
# Measures the headline rows of ps-bench on this machine (three minutes), and appends them to a
# history, with date, machine and commit (and a + for changes that are not committed). `ps-bench
# history` shows it. It keeps five of the codecs. Close other programs first.
# scripts/bench.sh [FILE]                     default: docs/bench-history.jsonl
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

history=${1:-docs/bench-history.jsonl}
bench=build/release/bin/ps-bench
[[ -x $bench ]] || { echo "bench.sh: no $bench: run scripts/build.sh release programs first" >&2; exit 1; }

commit=$(git rev-parse --short=8 HEAD)
[[ -z $(git status --porcelain --untracked-files=no) ]] || commit+=+
machine="$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1), $(nproc) cores"
rows=$(mktemp)
folder=$(mktemp -d)
trap 'rm -rf "$rows" "$folder"' EXIT

run() { "$bench" "$@" --json >>"$rows"; }
for transport in auto zmq grpc; do
  run push-pull --transport "$transport" --slice 4KiB --count 1 --rounds 500 --optimizer momentum --copy
  run push-pull --transport "$transport" --slice 64KiB --count 16 --rounds 200 --optimizer momentum --copy
  run push-pull --transport "$transport" --slice 4MiB --count 16 --rounds 20 --optimizer momentum --copy
done
run apply --optimizer sgd --optimizer momentum --optimizer adam
run codec --codec none --codec fp16 --codec onebit --codec ternary --codec topk
run journal --folder "$folder"

python3 - "$machine" "$commit" "$rows" >>"$history" <<'PYTHON'
import datetime, json, sys
machine, commit, rows = sys.argv[1:]
# And every word, as settings are words: `ps-bench history` compares results with the same settings.
KEPT = ["gbps", "limit_gbps", "ratio", "in_flight"]
CODECS = ["none", "fp16", "onebit", "ternary", "topk"]
for line in open(rows):
    head = {"date": datetime.date.today().isoformat(), "machine": machine, "commit": commit}
    row = json.loads(line)
    codec, _, loops = row["case"].partition("/")
    if row["bench"] == "codec" and not (codec in CODECS and loops.endswith("simd")):
        continue
    kept = {key: value for key, value in row.items() if key in KEPT or isinstance(value, str)}
    print(json.dumps({key: round(value, 4) if isinstance(value, float) else value
                      for key, value in (head | kept).items()}))
PYTHON
"$bench" history "$history"
