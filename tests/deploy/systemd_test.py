#!/usr/bin/env python3
"""The units: systemd understands them, and the programs their commands. Exit code 77: there is no systemd-analyze."""

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

from programs import BIN, DEPLOY, SKIPPED, check_command, seconds, value_of

UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
WORKER = "ps-worker@.service"
PROGRAM = DEPLOY / "systemd" / "program.conf"
if not shutil.which("systemd-analyze"):
    print("skipped: no systemd-analyze; apt-get install systemd")
    sys.exit(SKIPPED)


def settings(unit):
    """Of all sections; the last of each name."""
    return dict(re.findall(r"^(\w+)=(.*)$", unit.read_text(), re.MULTILINE))


def command(unit):
    words = settings(unit)["ExecStart"].split()
    self_made = {"$PSGD_OPTIONS": settings(unit)["Environment"].strip('"').partition("=")[2].split()}
    return [part for word in words for part in self_made.get(word, [word])]


def verify(text, name, program=""):
    """What systemd has to say of a unit whose programs are those of this build; `program`: settings that replace its own."""
    text = text.replace("/usr/share/psgd/deploy", str(DEPLOY)).replace("/usr/bin", str(BIN))
    with tempfile.TemporaryDirectory(prefix="psgd-units-") as folder:
        file = pathlib.Path(folder) / name.replace("@.", "@one.")
        file.write_text(text)
        if program:
            file.with_name(f"{name}.d").mkdir()
            (file.with_name(f"{name}.d") / PROGRAM.name).write_text(program)
        ended = subprocess.run(["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", file],
                               capture_output=True, text=True, check=False)
    return ended.stdout + ended.stderr


class UnitTest(unittest.TestCase):
    def test_systemd_understands_them(self):
        self.assertEqual([unit.name for unit in UNITS], ["ps-server@.service", WORKER])
        for unit in UNITS:
            self.assertEqual(verify(unit.read_text(), unit.name), "")

    def test_a_misspelt_setting_is_found(self):
        for unit in UNITS:
            said = verify(unit.read_text().replace("TimeoutStopSec", "TimeoutStoppSec"), unit.name)
            self.assertIn("'TimeoutStoppSec'", said)

    def test_a_worker_may_be_a_program(self):
        worker = (DEPLOY / "systemd" / WORKER).read_text()
        self.assertEqual(verify(worker, WORKER, PROGRAM.read_text()), "")
        said = verify(worker, WORKER, PROGRAM.read_text().replace("ExecStart=/", "ExecStartt=/"))
        self.assertIn("ExecStartt", said)

    def test_commands_are_understood(self):
        for unit in UNITS:
            self.assertIsNone(check_command(command(unit)), unit.name)
            for example in re.findall(r"^#   PSGD_OPTIONS=(.*)$", unit.read_text(), re.MULTILINE):
                self.assertIsNone(check_command(settings(unit)["ExecStart"].replace("$PSGD_OPTIONS", example).split()), example)

    def test_there_is_time_to_drain(self):
        server, worker = UNITS
        self.assertGreater(seconds(settings(worker)["TimeoutStopSec"]), seconds(value_of(command(worker), "--drain-deadline")))
        self.assertGreater(seconds(settings(server)["TimeoutStopSec"]), 60)  # cluster.deadline

    def test_what_another_start_does_not_mend_is_not_started_again(self):
        for unit in UNITS:
            wanted = {"Restart": "on-failure", "RestartPreventExitStatus": "2", "SuccessExitStatus": "3", "User": "psgd"}
            self.assertLessEqual(wanted.items(), settings(unit).items())
        self.assertIn("u psgd ", (DEPLOY / "systemd" / "psgd.sysusers").read_text())


if __name__ == "__main__":
    unittest.main()
