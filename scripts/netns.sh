#!/usr/bin/env bash
# Hosts of a small network on this machine: network namespaces on one switch, with links as slow as
# asked for. For seeing what a slow network does, and for tests. Needs root, iproute2 and the kernel's
# tbf queue (a container needs CAP_NET_ADMIN). Without the kernel's netem queue netns_delay.py delays.
#
#   scripts/netns.sh up 3 100mbit [10ms]   hosts 1 to 3, 10.77.0.1 to 10.77.0.3; the delay is of one link,
#                                          one way: a round trip between two hosts takes 4 of them
#   scripts/netns.sh up 3                  links as fast as the machine
#   scripts/netns.sh run 2 ps-worker --cpu --server 10.77.0.1:7070
#   scripts/netns.sh run-fast 2 COMMAND    COMMAND sees an InfiniBand port that is up
#   scripts/netns.sh lossy 2 5 15           5 % of the packets to and from host 2 are lost, 15 % come late
#   scripts/netns.sh down
#
# PSGD_NETNS names another network than "psgd", so that two can be up at once.
set -euo pipefail

network=${PSGD_NETNS:-psgd}
switch=$network-switch
here=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")

usage() { sed -n '2,13s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2; exit 2; }

down() {
  local name
  for name in $(ip netns list | awk '{print $1}' | grep -E "^$network-([0-9]+|switch)$" || true); do
    ip netns pids "$name" | xargs -r kill 2> /dev/null || true
    ip netns del "$name"
  done
}

# Limits packets that leave `device` in `space` to $rate. The bucket holds a timer tick's worth.
limit() {
  local space=$1 device=$2 parent=root
  if [[ -n $delay && -z $relay ]]; then
    ip netns exec "$space" tc qdisc add dev "$device" root handle 1: netem delay "$delay" limit 100000
    parent='parent 1:1'
  fi
  [[ -n $rate ]] || return 0
  # shellcheck disable=SC2086  # parent is two words
  ip netns exec "$space" tc qdisc add dev "$device" $parent tbf rate "$rate" burst 256kb latency 200ms
}

# Loses `loss` percent of the packets that leave `device` in `space`, and delays `late` percent, so
# that later packets overtake them.
disturb() {
  local space=$1 device=$2 loss=$3 late=$4 all=4294967296
  local tc=(ip netns exec "$space" tc)
  if "${tc[@]}" qdisc replace dev "$device" root netem loss "$loss%" delay 5ms reorder "$((100 - late))%" 2> /dev/null; then
    return
  fi
  # For a kernel without netem: a filter draws a random number and drops, delays or passes a packet.
  "${tc[@]}" qdisc replace dev "$device" root handle 1: htb default 10 r2q 100000
  "${tc[@]}" class add dev "$device" parent 1: classid 1:10 htb rate 10gbit
  "${tc[@]}" class add dev "$device" parent 1: classid 1:20 htb rate 10gbit
  "${tc[@]}" class add dev "$device" parent 1: classid 1:30 htb rate 20mbit
  "${tc[@]}" qdisc add dev "$device" parent 1:20 handle 20: blackhole
  # Load a random number; below loss: 1:20; below loss + late: 1:30; otherwise the default.
  "${tc[@]}" filter add dev "$device" parent 1: protocol all prio 1 bpf bytecode \
    "6,32 0 0 4294963256,53 1 0 $((all * loss / 100)),6 0 0 65568,53 1 0 $((all * (loss + late) / 100)),6 0 0 65584,6 0 0 0"
}

# Whether the kernel has the netem queue.
has_netem() {
  ip netns exec "$switch" tc qdisc add dev lo root netem delay 1ms 2> /dev/null &&
    ip netns exec "$switch" tc qdisc del dev lo root
}

# Without netem a program delays the frames. It ends with the switch's other processes.
start_relay() {
  relay=yes
  ip netns exec "$switch" "$here/netns_delay.py" "$1" "$delay" < /dev/null > /dev/null 2>&1 &
  local tries
  for ((tries = 0; tries < 100; ++tries)); do
    ip netns exec "$switch" ip link show host"$1" > /dev/null 2>&1 && return
    sleep 0.1
  done
  echo "netns_delay.py made no links; a kernel without netem needs TUN (/dev/net/tun)" >&2
  return 1
}

up() {
  local hosts=$1 i space
  rate=${2:-} delay=${3:-} relay=
  down
  trap 'down' ERR
  ip netns add "$switch"
  ip netns exec "$switch" ip link add name switch type bridge
  ip netns exec "$switch" ip link set switch up
  if [[ -n $delay ]] && ! has_netem; then start_relay "$hosts"; fi
  for ((i = 1; i <= hosts; ++i)); do
    space=$network-$i
    ip netns add "$space"
    if [[ -n $relay ]]; then
      ip netns exec "$switch" ip link set host"$i" netns "$space" name eth0
    else
      ip link add name port"$i" netns "$switch" type veth peer name eth0 netns "$space"
    fi
    ip netns exec "$switch" ip link set port"$i" master switch up
    ip netns exec "$space" ip addr add 10.77.0."$i"/24 dev eth0
    ip netns exec "$space" ip link set eth0 up
    ip netns exec "$space" ip link set lo up
    limit "$space" eth0
    limit "$switch" port"$i"
  done
}

# Runs the command where /sys shows an adapter, which nothing drives: UCX uses TCP.
run_fast() {
  # shellcheck disable=SC2016  # the inner shell expands it
  exec ip netns exec "$1" bash -euc '
    mount -t tmpfs class /mnt
    mkdir -p /mnt/net /mnt/infiniband/shown0/ports/1
    echo "1: CA" > /mnt/infiniband/shown0/node_type
    echo "4: ACTIVE" > /mnt/infiniband/shown0/ports/1/state
    mount --bind /sys/class/net /mnt/net
    mount --rbind /mnt /sys/class
    exec "$@"' run-fast "${@:2}"
}

case ${1:-} in
  up) (($# >= 2 && $# <= 4)) || usage; up "${@:2}" ;;
  lossy)
    (($# == 4)) || usage
    disturb "$network-$2" eth0 "$3" "$4"
    disturb "$switch" port"$2" "$3" "$4"
    ;;
  run) (($# >= 3)) || usage; exec ip netns exec "$network-$2" "${@:3}" ;;
  run-fast) (($# >= 3)) || usage; run_fast "$network-$2" "${@:3}" ;;
  down) (($# == 1)) || usage; down ;;
  *) usage ;;
esac
