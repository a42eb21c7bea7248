"""The files of a Debian package, for scripts that make text from them."""
import contextlib
import pathlib
import subprocess
import sys
import tempfile


@contextlib.contextmanager
def unpacked(package):
    """Downloads a package with apt-get, and gives the folder where it lies unpacked, not installed."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            subprocess.run(["apt-get", "download", package], cwd=folder, check=True, stdout=subprocess.DEVNULL,
                           stderr=subprocess.PIPE, text=True)
        except subprocess.CalledProcessError as error:
            sys.exit(f"cannot download {package}: {error.stderr.strip()}\n"
                     "Run apt-get update; the package is in Debian's main section")
        file = next(pathlib.Path(folder).glob("*.deb"))
        subprocess.run(["dpkg", "-x", file, folder], check=True)
        yield pathlib.Path(folder)
