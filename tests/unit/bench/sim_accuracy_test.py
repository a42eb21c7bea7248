#!/usr/bin/env python3
"""What bench/sim_accuracy.py says of programs that predict well and badly."""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).parents[3] / "bench" / "sim_accuracy.py"
MEASURED = {"samples_per_second": 100, "staleness": {"mean": 1}, "push_staleness": {"mean": 1}, "bytes_pushed": 5,
            "bytes_pulled": 5}


class SimAccuracyTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="psgd-sim-accuracy-")
        self.addCleanup(folder.cleanup)
        self.bin = pathlib.Path(folder.name)
        self.write("ps-run", [MEASURED])

    def write(self, program, lines):
        path = self.bin / program
        path.write_text("#!/bin/sh\ncat <<'END'\n" + "".join(json.dumps(line) + "\n" for line in lines) + "END\n")
        path.chmod(0o755)

    def predict(self, *rates):
        self.write("ps-sim", [{"workers": n, "run_samples_per_second": rate, "staleness_mean": 1,
                               "push_staleness_mean": 1, "bytes_pushed": 5, "bytes_pulled": 5} for n, rate in zip((1, 2), rates)])

    def run_script(self, *more):
        # The machine may be busy, because nothing is measured here.
        return subprocess.run([sys.executable, SCRIPT, "--workers", "1,2", "--rounds", "1", "--calm", "9", "--bin", self.bin,
                               *more], capture_output=True, text=True, check=False)

    def test_what_is_further_off_than_the_bound_fails(self):
        self.predict(101, 80)
        for more in ([], ["--json"]):
            ended = self.run_script("--bound", "0.15", *more)
            self.assertEqual(ended.returncode, 1, ended.stderr)
            self.assertIn("the prediction for 2 workers is 20.0 % off, more than --bound allows (15 %)", ended.stderr)
        self.assertIn("0.800", self.run_script("--bound", "0.15").stdout)  # the table is there all the same

    def test_within_the_bound_or_without_one_it_ends_well(self):
        self.predict(101, 80)
        for more in (["--bound", "0.25"], []):
            ended = self.run_script(*more)
            self.assertEqual(ended.returncode, 0, ended.stderr)
            self.assertIn("worst median: 20.0 % off", ended.stdout)


if __name__ == "__main__":
    unittest.main()
