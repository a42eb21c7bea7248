#!/usr/bin/env python3
"""Tells how many tests were skipped, and for what reasons, from what `ctest --output-junit` wrote.

    count-skips.py TESTS.xml ALLOWED

ALLOWED has a regular expression a line: reasons that are no fault (# begins a comment). A skip for any
other makes it fail. The reason is what a test of GoogleTest or unittest gives; of a program that is
skipped as a whole, its last line.
"""

import collections
import pathlib
import re
import sys
import xml.etree.ElementTree

# GoogleTest: "FILE:LINE: Skipped", then the reason in one or more lines, then another GoogleTest
# line.
SKIPPED = re.compile(r"^\S+:\d+: Skipped\n(.*?)^(?=\[)", re.MULTILINE | re.DOTALL)
# unittest: one line per skip in verbose mode, and always the number of skips.
NAMED = re.compile(r"^.* \.\.\. skipped ['\"](.+)['\"]$", re.MULTILINE)
COUNTED = re.compile(r"^(?:OK|FAILED) \(.*?skipped=(\d+)\)$", re.MULTILINE)


def reasons(output):
    """Of the tests in one program."""
    yield from (" ".join(found.split()) or "it gives no reason" for found in SKIPPED.findall(output))
    named = NAMED.findall(output)
    yield from named
    for _ in range(sum(map(int, COUNTED.findall(output))) - len(named)):
        yield "it gives no reason (unittest does with verbosity=2)"


def skips(path):
    """Yields (program, reason)."""
    for case in xml.etree.ElementTree.parse(path).getroot().iter("testcase"):
        output = case.findtext("system-out") or ""
        skipped = case.find("skipped")  # also of one that could not run, which fails
        if skipped is not None and skipped.get("message", "").startswith("SKIP_"):
            yield case.get("name"), (output.strip().splitlines() or ["it says nothing"])[-1]
        for reason in reasons(output):
            yield case.get("name"), reason


def main(arguments):
    if len(arguments) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    lines = pathlib.Path(arguments[1]).read_text(encoding="utf-8").splitlines()
    allowed = [re.compile(line) for line in lines if line.strip() and not line.startswith("#")]
    counts, programs = collections.Counter(), collections.defaultdict(set)
    for program, reason in skips(arguments[0]):
        counts[reason] += 1
        programs[reason].add(program)
    refused = 0
    for reason, count in counts.most_common():
        fine = any(pattern.search(reason) for pattern in allowed)
        refused += 0 if fine else count
        print(f"{count:5} skipped{'' if fine else ', NOT ALLOWED'}: {reason} "
              f"({', '.join(sorted(programs[reason]))})")
    if refused:
        print(f"{refused} skipped for reasons that {arguments[1]} does not name: give them what they "
              "lack, or name the reason there if it is no fault")
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
