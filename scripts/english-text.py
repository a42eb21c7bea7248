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

from debian_package import unpacked

PACKAGE = "dict-gcide"
SEED = 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--megabytes", type=float, default=0, help="only so many; 0: all")
    arguments = parser.parse_args()
    with unpacked(PACKAGE) as folder:
        packed = (folder / "usr/share/dictd/gcide.dict.dz").read_bytes()
    text = gzip.decompress(packed).decode("utf-8", "replace")
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
