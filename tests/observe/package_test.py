#!/usr/bin/env python3
"""What is installed and packed: manual pages and completions that say what the programs say, and the
Debian packages. Exit code 77: there is no dpkg here."""

import gzip
import os
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

from fixture import BIN, folder_of, run

BUILD = pathlib.Path(os.environ.get("PSGD_BUILD", "build/release"))
PROGRAMS = ["ps-bench", "ps-ctl", "ps-doctor", "ps-run", "ps-server", "ps-sim", "ps-sweep", "ps-worker"]
# psgd has no copyright file or changelog in Debian's form.
KNOWN_TAGS = {"no-copyright-file", "no-changelog", "extended-description-is-empty"}

# Adds 1 to a weight in each of 8 steps.
PROGRAM = """
import array
import psgd
w = array.array("f", [1])
with psgd.Client() as run:
    run.add("w", w)
    run.commit(samples=64, epochs=1)
    for share in run.shares():
        for _ in share:
            run.pull({"w": w})
            w[0] += 1
            run.push({"w": w})
            run.end_step()
        run.pull({"w": w})
print(psgd.__path__[0], psgd._library._path(), w[0])
"""


def options_of(program, *command):
    """All that --help lists."""
    return set(re.findall(r"^  (?:-\w,)?(--[a-z-]+)", run(BIN / program, *command, "--help"), re.MULTILINE))


class SpokenTest(unittest.TestCase):
    def test_manual_pages_have_every_option_and_no_bad_line(self):
        for program in PROGRAMS:
            page = run(BIN / program, "--man")
            said = set(re.findall(r"--[a-z-]+", page.replace("\\-", "-")))
            self.assertLessEqual(options_of(program), said, program)
            self.assertIn(".SH EXAMPLES", page)
            if shutil.which("groff"):
                warned = subprocess.run(["groff", "-man", "-Tutf8", "-ww"], input=page, capture_output=True, text=True, check=True)
                self.assertEqual(warned.stderr, "", program)

    def complete(self, *words):
        """What bash offers for the last word."""
        script = run(BIN / words[0], "--completion", "bash")
        function = re.search(r"complete .* -F (\S+) ", script).group(1)
        lines = [script, f"COMP_WORDS=({' '.join(repr(word) for word in words)})", f"COMP_CWORD={len(words) - 1}", function,
                 'printf "%s\\n" "${COMPREPLY[@]}"']
        return set(run("bash", "-c", "\n".join(lines), cwd="/usr/share").split())

    def test_bash_completes(self):
        self.assertEqual(self.complete("ps-ctl", "che"), {"checkpoint", "checkpoints"})
        self.assertEqual(self.complete("ps-ctl", "drain", "--wor"), {"--worker"})
        self.assertEqual(self.complete("ps-worker", "--engine", ""), {"onednn", "reference"})
        self.assertIn("doc", self.complete("ps-run", "--run-dir", "do"))
        # Completes a command or a file, but not commands that are not for people.
        self.assertEqual(self.complete("ps-sweep", "rep"), {"report"})
        self.assertIn("doc", self.complete("ps-sweep", "do"))
        self.assertNotIn("attend", self.complete("ps-sweep", ""))
        self.assertEqual(self.complete("ps-sweep", "x.yaml", "--par"), {"--parallel"})
        self.assertEqual(self.complete("ps-sweep", "report", "--pn"), {"--png"})
        for program in PROGRAMS:
            self.assertLessEqual(options_of(program) - {"--help"}, self.complete(program, "--"))

    def test_other_shells_know_every_option(self):
        for shell, form in (("zsh", "*{}["), ("fish", "-l {} ")):
            for program in PROGRAMS:
                script = run(BIN / program, "--completion", shell)
                for option in options_of(program):
                    name = option if shell == "zsh" else option.removeprefix("--")
                    self.assertIn(form.format(name), script)
                if shutil.which(shell):
                    run(shell, "-n", "-c", script)


@unittest.skipUnless(shutil.which("dpkg-deb"), "no dpkg here")
class PackageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = folder_of(cls, "deb")
        run("cpack", "-G", "DEB", "-B", cls.folder, cwd=BUILD)
        cls.packages = {path.name.split("_")[0]: path for path in cls.folder.glob("*.deb")}

    def test_what_is_in_it(self):
        package = self.packages["psgd"]
        about = run("dpkg-deb", "-I", package)
        for wanted in ("Package: psgd\n", "Section: science", "Depends: ", "libgrpc++", "librocksdb",
                       "Recommends: openssl, python3\n", "Description: Asynchronous"):
            self.assertIn(wanted, about)
        self.assertNotIn("cuda", about.lower().split("description")[0])
        listed = run("dpkg-deb", "-c", package)
        for program in PROGRAMS:
            for file in (f"./usr/bin/{program}", f"./usr/share/man/man1/{program}.1.gz",
                         f"./usr/share/bash-completion/completions/{program}",
                         f"./usr/share/zsh/vendor-completions/_{program}", f"./usr/share/fish/vendor_completions.d/{program}.fish"):
                self.assertRegex(listed, rf"-r\S+ root/root .* {re.escape(file)}\n")
        self.assertIn("./usr/share/psgd/configs/fashion_mnist.yaml", listed)
        self.assertIn("./usr/lib/python3/dist-packages/psgd/py.typed", listed)
        self.assertNotIn("__pycache__", listed)
        for file in ("share/psgd/deploy/grafana/psgd.json", "share/psgd/deploy/kubernetes/run.yaml",
                     "share/psgd/deploy/kubernetes/kustomization.yaml", "share/psgd/deploy/systemd/program.conf",
                     "lib/systemd/system/ps-server@.service", "lib/systemd/system/ps-worker@.service", "lib/sysusers.d/psgd.conf"):
            self.assertIn(f"./usr/{file}", listed)
        # The program that the units start.
        self.assertRegex(listed, r"-rwxr-xr-x root/root .* ./usr/share/psgd/deploy/start-server.sh\n")
        self.assertIn("systemd-sysusers psgd.conf", run("dpkg-deb", "-I", package, "postinst"))

    def test_what_is_unpacked_runs(self):
        run("dpkg-deb", "-x", self.packages["psgd"], self.folder / "root")
        usr = self.folder / "root" / "usr"
        self.assertIn("psgd manual", gzip.decompress((usr / "share/man/man1/ps-ctl.1.gz").read_bytes()).decode())
        run(usr / "bin/ps-run", usr / "share/psgd/configs/mlp_synthetic.yaml", "--run-dir", self.folder / "run", "--quiet",
            "--set", "train.epochs=1")

    def test_python_programs_find_the_library_of_the_same_tree(self):
        run("dpkg-deb", "-x", self.packages["psgd"], self.folder / "python")
        usr = self.folder / "python" / "usr"
        environment = {name: value for name, value in os.environ.items() if name != "PSGD_LIBRARY"}
        environment["PYTHONPATH"] = str(usr / "lib/python3/dist-packages")
        config = self.folder / "program.yaml"
        config.write_text("name: program\nmodel: client\ndata: {batch: 8}\n")
        run(usr / "bin/ps-run", config, "--workers", "1", "--run-dir", self.folder / "program", "--quiet", "--",
            "python3", "-B", "-c", PROGRAM, env=environment, cwd=self.folder)
        said = (self.folder / "program/worker-0/worker.log").read_text()
        self.assertEqual(said.split(), [str(usr / "lib/python3/dist-packages/psgd"), str(usr / "lib/libpsgd.so.1"), "9.0"])

    def test_lintian(self):
        if not shutil.which("lintian"):
            self.skipTest("no lintian here")
        found = subprocess.run(["lintian", "--fail-on=none", str(self.packages["psgd"])], capture_output=True, text=True, check=False)
        bad = [line for line in found.stdout.splitlines()
               if line.startswith("E:") and line.split()[2] not in KNOWN_TAGS]
        self.assertEqual(bad, [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
