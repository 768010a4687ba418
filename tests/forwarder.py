"""Carries Ethernet frames between two TAP devices, late or not at all: a bad cable.

Run inside a network namespace as `forwarder.py NEAR FAR SEED`, which makes both devices there.
Each line on standard input is a JSON list of two objects, for frames from NEAR to FAR and for
those that come back: `{"delay": 0.002, "loss": 0.05}`, seconds and share. It answers `ok`, and
ends with its standard input. (Kernels without netem have nothing of the kind.)
"""

import fcntl
import heapq
import json
import os
import random
import select
import struct
import sys
import time
from itertools import count

TUNSETIFF = 0x400454CA
IFF_TAP = 0x0002
IFF_NO_PI = 0x1000
MAX_FRAME = 65536
MAX_HELD = 20_000
"""Frames under way; what comes beyond them is dropped, as a full queue does."""


def tap(name: str) -> int:
    """A new TAP device in this process's network namespace; its descriptor."""
    descriptor = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(descriptor, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TAP | IFF_NO_PI))
    return descriptor


def main() -> None:
    """Forwards until standard input ends."""
    near, peer = tap(sys.argv[1]), tap(sys.argv[2])
    chances = {near: random.Random(f"{sys.argv[3]} out"), peer: random.Random(f"{sys.argv[3]} in")}
    other = {near: peer, peer: near}
    ways = {near: {"delay": 0.0, "loss": 0.0}, peer: {"delay": 0.0, "loss": 0.0}}
    held: list[tuple[float, int, int, bytes]] = []
    order = count()
    print("ok", flush=True)
    while True:
        # select, not epoll: a wait for epoll is rounded up to a millisecond.
        wait = max(0.0, held[0][0] - time.monotonic()) if held else None
        ready, _, _ = select.select([near, peer, 0], [], [], wait)
        now = time.monotonic()
        for descriptor in ready:
            if descriptor == 0:
                line = sys.stdin.readline()
                if not line:
                    return
                ways[near], ways[peer] = json.loads(line)
                print("ok", flush=True)
                continue
            try:
                frame = os.read(descriptor, MAX_FRAME)
            except OSError:  # the device is down
                continue
            way = ways[descriptor]
            if chances[descriptor].random() >= way["loss"] and len(held) < MAX_HELD:
                entry = (now + way["delay"], next(order), other[descriptor], frame)
                heapq.heappush(held, entry)
        while held and held[0][0] <= time.monotonic():
            _, _, to, frame = heapq.heappop(held)
            try:
                os.write(to, frame)
            except OSError:  # down, or its queue is full
                continue


if __name__ == "__main__":
    main()
