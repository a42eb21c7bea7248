#!/usr/bin/env python3
"""Fails on C++ and CUDA sources that clang-format would write differently.

    check_format.py ROOT [--fix]

.clang-format has the style; lines have at most 100 columns but for text that cannot be broken.
"""

import pathlib
import re
import shutil
import subprocess
import sys

import check_architecture

VERSION = 14  # Debian 12's; others break lines at other places


def main(arguments):
    if not arguments or arguments[1:] not in ([], ["--fix"]):
        print(__doc__, file=sys.stderr)
        return 2
    root = pathlib.Path(arguments[0])
    tool = shutil.which(f"clang-format-{VERSION}") or shutil.which("clang-format")
    said = subprocess.run([tool, "--version"], capture_output=True, text=True).stdout if tool else ""
    if not re.search(rf"version {VERSION}\.", said):
        print(f"check_format.py needs clang-format {VERSION} and finds {said.strip() or 'none'}: "
              f"apt-get install clang-format-{VERSION}", file=sys.stderr)
        return 2
    paths = [path for path in check_architecture.sources(root)
             if pathlib.PurePosixPath(path).suffix in check_architecture.CODE]
    mode = ["-i"] if "--fix" in arguments else ["--dry-run", "-Werror", "--ferror-limit=1"]
    bad = False
    for i in range(0, len(paths), 50):
        bad |= subprocess.run([tool, *mode, *paths[i:i + 50]], cwd=root).returncode != 0
    print(f"{len(paths)} files")
    if bad:
        print("some are formatted differently: tests/architecture/check_format.py . --fix mends them", file=sys.stderr)
    return 1 if bad or not paths else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
