#!/usr/bin/python3
"""Links with a delay, for scripts/netns.sh where the kernel has no netem queue.

    netns_delay.py HOSTS DELAY        as 3 50ms

For host i it makes two devices: port<i>, and host<i>, which netns.sh moves to the host as eth0. Frames go
from each to the other, the delay later. It runs until it is killed, and the devices go with it.
"""
import collections
import fcntl
import os
import re
import select
import struct
import sys
import time

MOST_FRAME = 65536
TUNSETIFF = 0x400454CA
IFF_TAP, IFF_NO_PI = 0x0002, 0x1000


def tap(name):
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH", name.encode(), IFF_TAP | IFF_NO_PI))
    return device


def seconds(text):
    number, unit = re.fullmatch(r"([0-9.]+)(us|ms|s)", text).groups()
    return float(number) * {"us": 1e-6, "ms": 1e-3, "s": 1}[unit]


def main():
    delay = seconds(sys.argv[2])
    other = {}
    for host in range(1, int(sys.argv[1]) + 1):
        ends = [tap(f"port{host}"), tap(f"host{host}")]
        other.update(zip(ends, reversed(ends)))
    ready = select.epoll()
    for device in other:
        ready.register(device, select.EPOLLIN)
    on_its_way = collections.deque()  # due, device, frame; the delay is the same for all
    while True:
        wait = max(0, on_its_way[0][0] - time.monotonic()) if on_its_way else -1
        for device, _ in ready.poll(wait):
            try:
                while True:
                    on_its_way.append((time.monotonic() + delay, other[device], os.read(device, MOST_FRAME)))
            except BlockingIOError:
                pass  # there are no more frames
            except OSError:
                pass  # the device is not up yet
        now = time.monotonic()
        while on_its_way and on_its_way[0][0] <= now:
            _, device, frame = on_its_way.popleft()
            try:
                os.write(device, frame)
            except OSError:
                pass  # a link drops what a device does not take


if __name__ == "__main__":
    main()
