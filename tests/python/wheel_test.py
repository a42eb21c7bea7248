"""The wheel trains without any library of this machine but glibc's and the compiler's.

wheel_test.py BIN_FOLDER SOURCE_FOLDER
"""

import importlib.util
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile

from servers import server

BIN, SOURCE = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
sys.path.insert(0, str(SOURCE / "scripts"))
import psgd_wheel  # noqa: E402

if not shutil.which("patchelf"):
    print("no patchelf for the wheel")
    sys.exit(77)

# Prints the libraries that only a run of psgd loads.
PROGRAM = """
import array, sys
import psgd
def loaded():
    return {line.split()[-1] for line in open("/proc/self/maps") if ".so" in line}
before = loaded()  # Python's own
w = array.array("f", [1, 2])
with psgd.Client(sys.argv[1]) as run:
    run.add("w", w)
    run.commit(8, 1)
    for share in run.shares():
        for _ in share:
            run.pull({"w": w})
            run.push({"w": array.array("f", [x + 1 for x in w])})
            run.end_step()
        run.pull({"w": w})
assert list(w) == [3, 4], w
print(*sorted(loaded() - before), sep="\\n")
"""


class Wheel(unittest.TestCase):
    def test_it_carries_what_it_needs(self):
        with tempfile.TemporaryDirectory() as folder, server() as at:
            name = psgd_wheel.build_wheel(folder, {"build": BIN.parent})
            self.assertRegex(name, r"^psgd-[0-9.]+-py3-none-manylinux_2_\d+_\w+\.whl$")
            wheel = pathlib.Path(folder) / name
            self.assertLess(wheel.stat().st_size, 25e6)
            if importlib.util.find_spec("pip"):
                subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--no-index",
                                "--no-compile", "--target", f"{folder}/there", wheel], check=True)
            else:
                with zipfile.ZipFile(wheel) as file:
                    file.extractall(f"{folder}/there")
            done = subprocess.run([sys.executable, "-c", PROGRAM, at], capture_output=True, text=True,
                                  env={"PYTHONPATH": f"{folder}/there"}, timeout=60)
            self.assertEqual(done.returncode, 0, done.stderr)
            libraries = [pathlib.Path(path) for path in done.stdout.split()]
            own = [path for path in libraries if f"{folder}/there/psgd" in str(path)]
            self.assertIn("libpsgd.so", [path.name for path in own])
            for path in set(libraries) - set(own):
                self.assertTrue(psgd_wheel.OF_THE_SYSTEM.match(path.name), path)
            symbols = subprocess.run(["nm", "-D", "--defined-only", f"{folder}/there/psgd/libpsgd.so"],
                                     capture_output=True, text=True, check=True).stdout
            for symbol in re.findall(r"\S+$", symbols, re.MULTILINE):
                self.assertTrue(symbol.startswith(("psgd_", "PSGD_")), symbol)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
