#!/usr/bin/env python3
"""Reads every source file of the repository and fails on what the design does not allow.

    check_architecture.py ROOT

Checks: includes between rooms and between the rooms inside them, who may include gRPC, OpenSSL and YAML,
who may read the environment, who may wait for a GPU, words that promise work instead of doing it. Each
finding names file, line, the rule and what to do instead. Long files are listed and do not fail.
check_format.py checks columns.
"""

import pathlib
import re
import sys

# Room -> the other rooms that it may include. A room that is not listed may include every room.
ROOMS = {
    "common": set(),
    "proto": {"common"},
    "compression": {"common", "proto"},
    "optimizers": {"common", "proto"},
    "data": {"common", "proto"},
    "net": {"common", "proto"},
    "engine": {"common", "proto"},
    "server": {"common", "proto", "compression", "optimizers", "net"},
    "worker": {"common", "proto", "compression", "net"},
    "client": {"common", "proto", "compression", "optimizers", "net", "worker", "data", "include"},
    "include": set(),  # public headers, in C
    "train": {"common", "proto", "compression", "optimizers", "net", "worker", "data", "engine"},
}
# The rooms inside a room. Each may include the rooms before it. The outer room's own files may
# include all of them, and all may include these files.
SUB_ROOMS = {
    "server": ["shard", "durability", "coordinator", "cluster", "control"],
    "compression": ["dense", "sparse", "low_rank"],
    "engine": ["graph", "runtime"],
    "experiment": ["config", "record", "launch", "plan", "report", "sweep"],
}
OPEN_ROOMS = {"experiment", "simulate", "dashboard", "apps", "bench", "tests"}
ALL_ROOMS = set(ROOMS) | OPEN_ROOMS

CODE = {".cc", ".h", ".cu", ".cuh"}
SOURCES = CODE | {".proto", ".py", ".sh", ".cmake", ".txt", ".yaml"}
SKIPPED = {"build", ".git", ".github", ".ci", "third_party"}
LONG = 800  # lines: two ideas, perhaps

INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]')
GRPC_HEADER = re.compile(r"^grpc(pp)?/|\.grpc\.pb\.h$")
GRPC_USERS = re.compile(r"^(net/grpc[/_].*|net/grpc\.(h|cc)|net/etcd/etcd_client\.cc|server/control/control_service\.cc|worker/control_client\.cc|"
                        r"server/control/(peer_client\.cc|peer_service\.(h|cc)))$")
ENVIRONMENT = re.compile(r"\b(secure_)?getenv\s*\(|\benviron\b")
# Only these files outside of experiment/ may read it, each for its reason.
ENVIRONMENT_READERS = {
    "apps/command_line.h": "what OpenMP reads, which psgd must not overrule",
    "common/freed_memory.cc": "what glibc's malloc reads, which psgd must not overrule",
}
# Forbidden: waiting for a whole device. Copies outside of a stream do that, too.
WAITS_FOR_DEVICE = re.compile(
    r"\b(cudaDeviceSynchronize|cudaThreadSynchronize|cuCtxSynchronize|cudaMem(cpy|set)(2D|3D)?)\s*\(")
# Only these files may wait for a stream or an event, each for its reason.
WAITS = re.compile(r"\b(cuda(Stream|Event)Synchronize|cu(Stream|Event)Synchronize)\s*\(")
WAITERS = {
    "engine/cudnn/backend.cc": "reads the loss of a step, at its end",
    "engine/cudnn/device.cc": "until a gradient has come to the host; before memory in use is freed",
    "engine/cudnn/feed.cc": "until the copy of a batch has left the memory that the next one is written to",
    "engine/cudnn/convolution.cc": "measures plans, once, when a network is made",
    "engine/cudnn/recorded_step.cc": "before graphs that may still run are freed",
    "compression/cuda/device_codecs.cc": "until a payload has come to the host; state for checkpoints",
    "apps/doctor/gpus.cc": "measures GPUs",
}
# A constant or a type in an anonymous namespace.
OWN_NAME = re.compile(r"(?:inline |static )*(?:constexpr|const) [^;=({]*?\b(k[A-Z]\w*)\b|(?:struct|class|enum class|enum) (\w+)[^;]*$")
# Sources that are compiled by themselves, and rooms whose sources all are.
ALONE = re.compile(r"ALONE ([^)]*)\)")
APART = {"apps", "bench"}
# Headers that are compiled once. All rooms load them, so what they include allows no room anything.
COMPILED_ONCE = "common/precompiled.h"
OPENSSL_HEADER = re.compile(r"^openssl/")
PROMISES = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X|HA" r"CK)\b")


def room_of(path):
    return path.split("/", 1)[0]


def check_sub_rooms(path, included):
    """The rule between rooms inside a room that `included` breaks in `path`, or None."""
    here, there = path.split("/"), included.split("/")
    order = SUB_ROOMS.get(here[0], [])
    if here[0] != there[0] or len(here) < 3 or len(there) < 3:
        return None
    if here[1] not in order or there[1] not in order or order.index(there[1]) <= order.index(here[1]):
        return None
    before = ", ".join(order[:order.index(here[1])]) or "no other room of " + here[0]
    return f"includes {included}: {here[0]}/{here[1]}/ may include {before} only"


def check_include(path, included):
    """The rule that `included` breaks in `path`, or None."""
    room, target = room_of(path), room_of(included)
    inside = check_sub_rooms(path, included)
    if inside:
        return inside
    if room != "tests" and GRPC_HEADER.search(included) and not GRPC_USERS.match(path):
        return (f"includes {included}: gRPC stays behind net/grpc and the few files that talk "
                "control plane (GRPC_USERS); use their interfaces")
    if OPENSSL_HEADER.search(included) and room not in ("net", "tests"):
        return f"includes {included}: OpenSSL stays in net/; use net/credentials.h or net/tls_context.h"
    if included.startswith("yaml-cpp/") and room not in ("experiment", "tests"):
        return f"includes {included}: only experiment/ reads YAML; take a Config"
    if "/" not in included or target not in ALL_ROOMS or room not in ROOMS or target == room or path == COMPILED_ONCE:
        return None
    if target not in ROOMS[room]:
        allowed = ", ".join(sorted(ROOMS[room])) or "no other room"
        return f"includes {included}: {room}/ may include {allowed} only"
    return None


def own_names(text):
    """Constants and types of a source's anonymous namespace: (line, name)."""
    own = False
    for number, line in enumerate(text.splitlines(), 1):
        if line == "namespace {":
            own = True
        elif line.startswith("}") and line.endswith("// namespace"):
            own = False
        name = own and OWN_NAME.match(line)
        if name:
            yield number, name.group(1) or name.group(2)


def check_own_names(root, paths):
    """The sources of a room are compiled several at a time (cmake/Rooms.cmake): yields (path, line, finding)."""
    seen = {}
    for path in paths:
        room = room_of(path)
        if not path.endswith(".cc") or room not in ROOMS or room in APART:
            continue
        lists = root / room / "CMakeLists.txt"
        alone = ALONE.findall(lists.read_text(encoding="utf-8")) if lists.exists() else []
        if path.removeprefix(room + "/") in " ".join(alone).split():
            continue
        for number, name in own_names((root / path).read_text(encoding="utf-8", errors="replace")):
            other = seen.setdefault((room, name), path)
            if other != path:
                yield path, number, (f"{name} is also a name of {other}, with which this may be compiled: give one "
                                     "another name, or a place that both include")


def check_file(root, path):
    """Yields (line, finding)."""
    lines = (root / path).read_text(encoding="utf-8", errors="replace").splitlines()
    suffix = pathlib.PurePosixPath(path).suffix
    room = room_of(path)
    for number, line in enumerate(lines, 1):
        if PROMISES.search(line):
            yield number, "promises work: do it now or open an issue"
        if suffix not in CODE:
            continue
        include = INCLUDE.match(line)
        if include:
            finding = check_include(path, include.group(1))
            if finding:
                yield number, finding
        elif room != "tests" and WAITS_FOR_DEVICE.search(line):
            yield number, ("waits for a whole GPU: put the work on a stream, and wait for an event where "
                           "something is needed")
        elif room != "tests" and WAITS.search(line) and path not in WAITERS:
            yield number, ("waits for a GPU: order streams by events instead (Device::Order), or say in "
                           "WAITERS of check_architecture.py why the host needs to wait here")
        elif (room not in ("experiment", "tests") and path not in ENVIRONMENT_READERS
              and ENVIRONMENT.search(line)):
            yield number, "reads the environment: only experiment/ may; make it a field of Options"


def sources(root):
    for path in sorted(root.rglob("*")):
        relative = path.relative_to(root)
        if any(part in SKIPPED for part in relative.parts[:-1]) or not path.is_file():
            continue
        if path.suffix in SOURCES and relative.parts[0] not in SKIPPED:
            yield relative.as_posix()


def long_files(root):
    """(path, lines) of code that is longer than LONG."""
    for path in sources(root):
        lines = (root / path).read_text(encoding="utf-8", errors="replace").count("\n")
        if lines > LONG and pathlib.PurePosixPath(path).suffix in CODE:
            yield path, lines


def check_tree(root):
    """All findings as text, and how many files were read."""
    paths = list(sources(root))
    findings = [f"{path}:{line}: {finding}" for path in paths for line, finding in check_file(root, path)]
    findings += [f"{path}:{line}: {finding}" for path, line, finding in check_own_names(root, paths)]
    return findings, len(paths)


def main(arguments):
    if len(arguments) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    root = pathlib.Path(arguments[0])
    for path, lines in long_files(root):
        print(f"{path} has {lines} lines: is it two ideas?")
    findings, files = check_tree(root)
    for finding in findings:
        print(finding)
    print(f"{files} files, {len(findings)} findings")
    # A tree without sources is a wrong path, not a clean tree.
    return 1 if findings or files == 0 else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
