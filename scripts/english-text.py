#!/usr/bin/env python3
"""Writes English text of some 40 MB, from the dictionary in Debian's package dict-gcide.

    scripts/english-text.py OUT.txt [--megabytes N]

Downloads the package with apt-get and unpacks it without installing it. The entries of the dictionary
(Webster 1913 and later additions: definitions and quotations) are shuffled, always in the same way, so
that the last part, which data.text.test_fraction keeps for the test, is like the rest.
"""

import argparse
import gzip
import pathlib
import random
import re
import subprocess
import sys
import tempfile

PACKAGE = "dict-gcide"
SEED = 1


def dictionary(folder):
    """The text of the package's dictionary."""
    try:
        subprocess.run(["apt-get", "download", PACKAGE], cwd=folder, check=True, stdout=subprocess.DEVNULL,
                       stderr=subprocess.PIPE, text=True)
    except subprocess.CalledProcessError as error:
        sys.exit(f"english-text.py: cannot download {PACKAGE}: {error.stderr.strip()}\n"
                 "Run apt-get update; the package is in Debian's main section")
    package = next(pathlib.Path(folder).glob("*.deb"))
    subprocess.run(["dpkg", "-x", package, folder], check=True)
    return gzip.decompress((pathlib.Path(folder) / "usr/share/dictd/gcide.dict.dz").read_bytes()).decode("utf-8", "replace")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--megabytes", type=float, default=0, help="only so many; 0: all")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        text = dictionary(folder)
    # An entry begins with a line that is not indented, behind an empty line.
    entries = re.split(r"\n\n(?=\S)", text)
    entries = [re.sub(r"[ \t]+", " ", entry).strip() for entry in entries if "\\" in entry]
    random.Random(SEED).shuffle(entries)
    text = "\n\n".join(entries) + "\n"
    if arguments.megabytes > 0:
        text = text.encode()[:int(arguments.megabytes * 1e6)].decode("utf-8", "ignore")
    arguments.out.write_text(text, encoding="utf-8")
    print(f"{arguments.out}: {len(text.encode()) / 1e6:.1f} MB, {len(entries)} entries of {PACKAGE}")


if __name__ == "__main__":
    main()
