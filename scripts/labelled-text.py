#!/usr/bin/env python3
"""Writes passages of English text, each with the manual that it is from, of Debian's package perl-doc.

    scripts/labelled-text.py OUT.tsv [--manuals 15] [--each 400]

Downloads the package with apt-get and unpacks it without installing it. The manuals are those of Perl
with the most passages, without lists of changes. A passage is some paragraphs of prose of at least 200
characters; examples of code are left out. Passages are shuffled, always in the same way, so that the
last part, which data.table.test_fraction keeps for the test, is like the rest. The file has a line of
names, and then a line for each passage: manual, tab, text.
"""

import argparse
import pathlib
import random
import re

from debian_package import unpacked

PACKAGE = "perl-doc"
SEED = 1
LEAST = 200  # characters of a passage


def prose(pod):
    """The paragraphs of a manual in Perl's format, without markup."""
    for paragraph in re.split(r"\n\s*\n", pod):
        if re.match(r"[=\s]", paragraph):
            continue  # a command, or code
        text = paragraph
        while (plain := re.sub(r"[A-Z]<+ ?([^<>]*?) ?>+", r"\1", text)) != text:
            text = plain
        text = re.sub(r"\s+", " ", text).replace('"', "'").strip()
        if text:
            yield text


def passages(pod):
    made = ""
    for paragraph in prose(pod):
        made = f"{made} {paragraph}".strip()
        if len(made) >= LEAST:
            yield made
            made = ""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--manuals", type=int, default=15)
    parser.add_argument("--each", type=int, default=400, help="at most so many passages of a manual")
    arguments = parser.parse_args()
    with unpacked(PACKAGE) as folder:
        pods = {path.stem: path.read_text(encoding="utf-8", errors="replace")
                for path in sorted(folder.glob("usr/share/perl/*/pod/perl*.pod"))}
    found = {name: list(passages(pod)) for name, pod in pods.items()
             if "delta" not in name and name not in ("perltoc", "perlhist")}
    names = sorted(found, key=lambda name: (-len(found[name]), name))[:arguments.manuals]
    chance = random.Random(SEED)
    rows = [(name, text) for name in names
            for text in chance.sample(found[name], min(arguments.each, len(found[name])))]
    chance.shuffle(rows)
    with arguments.out.open("w", encoding="utf-8") as out:
        out.write("manual\ttext\n")
        out.writelines(f"{name}\t{text}\n" for name, text in rows)
    print(f"{arguments.out}: {len(rows)} passages of {', '.join(names)} in {PACKAGE}")


if __name__ == "__main__":
    main()
