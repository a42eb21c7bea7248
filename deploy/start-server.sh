#!/bin/sh
# Starts the server of a run, or continues an earlier server, with the same command each time, as
# systemd and Kubernetes need it.
#
#   deploy/start-server.sh [--crash-only] [--show-finished PORT] RUN_DIR CONFIG.yaml [OPTION of ps-server...]
#
# RUN_DIR is empty or missing: starts a new run. The server died and has a journal: --recover from
# the journal's end. The server drained, or died without a journal: --resume from the newest
# checkpoint. It left neither: starts a new run, and moves the old files to RUN_DIR.before-1 and so
# on. The run has finished: exits with 0; with --show-finished, serves its pages until stopped, to
# everyone who reaches the port.
# SIGTERM drains the run, which also ends it for its workers. With --crash-only SIGTERM kills the
# server instead: with a journal nothing is lost, and workers wait (cluster.deadline) for the
# server.
set -eu

finished_port=
crash_only=
while :; do
  case ${1:-} in
    --crash-only) crash_only=1; shift ;;
    --show-finished) finished_port=${2:-}; shift 2 ;;
    *) break ;;
  esac
done
[ $# -ge 2 ] || { sed -n '5s/^# */usage: /p' "$0" >&2; exit 2; }
run_dir=$1
config=$2
shift 2

serve() {
  [ -n "$crash_only" ] || exec ps-server "$@"
  ps-server "$@" &
  child=$!
  trap 'kill -KILL "$child"' TERM INT
  status=0
  wait "$child" || status=$?
  wait "$child" 2> /dev/null || true  # it was a signal to this shell that ended the other wait
  exit "$status"
}

# These check for a journal and a checkpoint to continue from. The journal's shards have images
# before training begins, or continues from a checkpoint. Then verify finds no journal. If it cannot
# say, there may be one, which --resume would remove.
has_journal() {
  set -- "$run_dir"/server/journal/shard-*/image-*
  [ -d "$1" ] || return 1
  case $(ps-ctl verify "$run_dir" --json 2> /dev/null | tr -d ' \n') in
    *'"journal":[],"journal_note":""'*) return 1 ;;
  esac
}
has_checkpoint() {
  for manifest in "$run_dir"/server/checkpoint-*/manifest; do
    [ ! -e "$manifest" ] || return 0
  done
  return 1
}

summary=$run_dir/summary.json

if grep -qs '"status": "finished"' "$summary"; then
  echo "start-server.sh: the run in $run_dir has finished" >&2
  [ -n "$finished_port" ] || exit 0
  exec ps-ctl ui "$run_dir" --bind 0.0.0.0 --insecure --port "$finished_port"
fi

[ -e "$run_dir/config.yaml" ] || serve --config "$config" --run-dir "$run_dir" "$@"

# A server that ended in order left a summary; a later server that continues writes another.
if [ ! -e "$summary" ] && has_journal; then
  # The server listens at its old address, which the journal has, so these options are dropped.
  for option; do
    shift
    case $option in
      --bind | --advertise | --port | --set | --shards | --workers) skip=1 ;;
      --bind=* | --advertise=* | --port=* | --set=* | --shards=* | --workers=*) ;;
      *) if [ -n "${skip:-}" ]; then skip=; else set -- "$@" "$option"; fi ;;
    esac
  done
  serve --recover "$run_dir" "$@"
fi
if ! has_checkpoint; then
  number=1
  while [ -e "$run_dir.before-$number" ]; do number=$((number + 1)); done
  # A live server holds the lock of its directory.
  flock --nonblock "$run_dir" mv "$run_dir" "$run_dir.before-$number" || {
    echo "start-server.sh: cannot put $run_dir aside; does its run still go on in another ps-server?" >&2
    exit 1
  }
  echo "start-server.sh: the run in $run_dir ended before its first checkpoint and starts anew; what it left is in" \
    "$run_dir.before-$number" >&2
  serve --config "$config" --run-dir "$run_dir" "$@"
fi
[ ! -e "$summary" ] || mv "$summary" "$run_dir/summary.before.json"
serve --resume "$run_dir" "$@"
