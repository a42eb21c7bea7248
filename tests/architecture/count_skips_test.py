#!/usr/bin/env python3
"""What scripts/count-skips.py makes of what tests say."""

import pathlib
import subprocess
import sys
import tempfile
import unittest
from xml.sax.saxutils import escape

ROOT = pathlib.Path(__file__).resolve().parents[2]

GOOGLETEST = """[ RUN      ] Engine.Runs
[       OK ] Engine.Runs (1 ms)
[ RUN      ] Engine.OnAGpu
/tree/tests/engine_test.cc:20: Skipped
UNAVAILABLE: no CUDA device
can be used on this host
[  SKIPPED ] Engine.OnAGpu (0 ms)
[ RUN      ] Engine.OnAnother
/tree/tests/engine_test.cc:21: Skipped

[  SKIPPED ] Engine.OnAnother (0 ms)
"""
UNITTEST = """test_a (__main__.Files.test_a) ... ok
test_b (__main__.Files.test_b) ... skipped 'no lintian here'
----------------------------------------------------------------------
Ran 2 tests in 0.000s

OK (skipped=1)
"""


class CountSkips(unittest.TestCase):
    def run_on(self, cases, allowed):
        with tempfile.TemporaryDirectory() as folder:
            results, patterns = pathlib.Path(folder, "tests.xml"), pathlib.Path(folder, "allowed")
            results.write_text("<testsuite>" + "".join(
                f'<testcase name="{name}">{skipped}<system-out>{escape(output)}</system-out></testcase>'
                for name, skipped, output in cases) + "</testsuite>")
            patterns.write_text("# a comment\n\n" + "\n".join(allowed) + "\n")
            return subprocess.run([sys.executable, ROOT / "scripts/count-skips.py", results, patterns],
                                  capture_output=True, text=True)

    def test_reasons_are_counted(self):
        ended = self.run_on([("engine", "", GOOGLETEST), ("again", "", GOOGLETEST)], ["CUDA device", "no reason"])
        self.assertEqual(ended.returncode, 0, ended.stdout + ended.stderr)
        self.assertIn("    2 skipped: UNAVAILABLE: no CUDA device can be used on this host (again, engine)\n", ended.stdout)
        self.assertIn("    2 skipped: it gives no reason (again, engine)\n", ended.stdout)

    def test_others_fail(self):
        ended = self.run_on([("engine", "", GOOGLETEST)], ["^CUDA device"])
        self.assertEqual(ended.returncode, 1)
        self.assertIn("    1 skipped, NOT ALLOWED: UNAVAILABLE: no CUDA device can be used on this host (engine)", ended.stdout)
        self.assertIn("2 skipped for reasons that", ended.stdout)

    def test_programs_and_unittest(self):
        ended = self.run_on([("pages", '<skipped message="SKIP_RETURN_CODE=77"/>', "so:\nno Chromium\n"),
                             ("files", "", UNITTEST), ("short", "", "s.\nOK (skipped=1)\n"),
                             ("lost", '<skipped message="Unable to find executable"/>', "")], ["."])
        self.assertEqual(ended.returncode, 0)
        self.assertEqual(ended.stdout.count("skipped:"), 3)
        for line in ("no Chromium (pages)", "no lintian here (files)", "it gives no reason (unittest"):
            self.assertIn("    1 skipped: " + line, ended.stdout)

    def test_nothing_skipped_says_nothing(self):
        ended = self.run_on([("files", "", "OK\n")], [])
        self.assertEqual((ended.returncode, ended.stdout), (0, ""))

    def test_what_is_allowed_is_a_pattern(self):
        ended = self.run_on([("engine", "", GOOGLETEST)],
                            (ROOT / "scripts/allowed-skips.txt").read_text().splitlines())
        self.assertIn("1 skipped for reasons that", ended.stdout)  # the one without a reason


if __name__ == "__main__":
    unittest.main()
