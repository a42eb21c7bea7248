"""Packs the Python package as a wheel, with the built libpsgd.so and the libraries that it needs.

    psgd_wheel.py [FOLDER [BUILD]]      into this folder, else dist/; scripts/wheel.sh builds libpsgd before

pip install . comes here too (pyproject.toml): these are the hooks of PEP 517. One wheel is for every
Python and every PyTorch, and for every Linux with the glibc of this machine or a newer one. Needs
patchelf and strip, and no Python package.
"""

import base64
import hashlib
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "python/psgd"
VERSION = re.search(r'__version__ = "(.*)"', (PACKAGE / "__init__.py").read_text())[1]
INFO = f"psgd-{VERSION}.dist-info"
METADATA = f"""Metadata-Version: 2.1
Name: psgd
Version: {VERSION}
Summary: Programs as workers of a psgd run: parameter-server SGD with compressed updates
Requires-Python: >=3.9
Provides-Extra: torch
Requires-Dist: torch>=1.13; extra == "torch"
"""
# Every machine with this glibc has them.
OF_THE_SYSTEM = re.compile(
    r"(libc|libm|libdl|librt|libpthread|libresolv|ld-linux.*|libstdc\+\+|libgcc_s)\.so")


def said(*command):
    return subprocess.run([str(part) for part in command], check=True, capture_output=True,
                          text=True).stdout


def tag():
    glibc = os.confstr("CS_GNU_LIBC_VERSION").split()[1]
    return f"py3-none-manylinux_{glibc.replace('.', '_')}_{platform.machine()}"


def built_library(build):
    # Another version's library would only fail later, in the program that loads it.
    path = build / f"bin/libpsgd.so.{VERSION}"
    if not path.exists():
        sys.exit(f"{path} is not built; first: scripts/install-packages.sh && scripts/build.sh "
                 f"{build.name} psgd_library")
    for tool in ("patchelf", "strip"):
        if not shutil.which(tool):
            sys.exit(f"{tool} is missing; first: scripts/install-packages.sh")
    return path


def needed(library):
    """Name -> path of all libraries that this one loads, directly or not."""
    pairs = re.findall(r"^\s*(\S+) => (/\S+)", said("ldd", library), re.MULTILINE)
    return {name: pathlib.Path(path).resolve() for name, path in pairs
            if not OF_THE_SYSTEM.match(name)}


def own_name(name, path):
    """A name that no other library of a process has: the loader takes those of one name for one."""
    stem, ending = name.split(".so", 1)
    return f"{stem}-{hashlib.sha256(path.read_bytes()).hexdigest()[:8]}.so{ending}"


def copy_libraries(library, folder):
    """psgd/libpsgd.so and psgd/lib/*.so, stripped, which find each other wherever they lie."""
    (folder / "lib").mkdir()
    carried = needed(library)
    names = {name: own_name(name, path) for name, path in carried.items()}
    replace = [word for name in names for word in ("--replace-needed", name, names[name])]
    for path, to, where in [(library, folder / "libpsgd.so", "$ORIGIN/lib")] + [
            (carried[name], folder / "lib" / names[name], "$ORIGIN") for name in carried]:
        said("strip", "-o", to, path)
        # Debian's patchelf does not do all of this in one call.
        for change in (replace, ["--set-soname", to.name], ["--set-rpath", where]):
            said("patchelf", *change, to)
        to.chmod(0o755)
    return carried.values()


def copy_licenses(libraries, folder):
    """What Debian's packages say about the libraries that the wheel carries."""
    # A library of /usr may be known by its name in /lib.
    owners = said("dpkg-query", "-S", *[f"*/{path.name}" for path in libraries])
    for owner in {line.split(":", 1)[0] for line in owners.splitlines()}:
        shutil.copy(f"/usr/share/doc/{owner}/copyright", folder / f"{owner}.txt")


def write_wheel(folder, path):
    """Zips a folder, with the list of its files that a wheel ends with."""
    record = []
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        def add(name, data, mode=0o644):
            entry = zipfile.ZipInfo(name)  # without the time: the same wheel comes out again
            entry.external_attr = (0o100000 | mode) << 16
            wheel.writestr(entry, data, zipfile.ZIP_DEFLATED, 9)

        for file in sorted(file for file in folder.rglob("*") if file.is_file()):
            name, data = file.relative_to(folder).as_posix(), file.read_bytes()
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            record.append(f"{name},sha256={digest},{len(data)}\n")
            add(name, data, file.stat().st_mode & 0o777)
        add(f"{INFO}/RECORD", "".join(record) + f"{INFO}/RECORD,,\n")


def finish(folder, to, wheel_tag, pure):
    info = folder / INFO
    info.mkdir(exist_ok=True)
    (info / "METADATA").write_text(METADATA)
    (info / "WHEEL").write_text("Wheel-Version: 1.0\nGenerator: psgd\nRoot-Is-Purelib: "
                                f"{str(pure).lower()}\nTag: {wheel_tag}\n")
    name = f"psgd-{VERSION}-{wheel_tag}.whl"
    write_wheel(folder, pathlib.Path(to) / name)
    return name


# ---- PEP 517 and 660 ----

def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    """pip install . -Cbuild=build/debug takes another build than build/release."""
    library = built_library(ROOT / (config_settings or {}).get("build", "build/release"))
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        package = folder / "psgd"
        shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__", "*.so"))
        carried = copy_libraries(library, package)
        licenses = folder / INFO / "licenses"
        licenses.mkdir(parents=True)
        copy_licenses(carried, licenses)
        return finish(folder, wheel_directory, tag(), pure=False)


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    """pip install -e .: the package of this clone. PSGD_LIBRARY or ps-run says where libpsgd is."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        (folder / "psgd.pth").write_text(f"{PACKAGE.parent}\n")
        return finish(folder, wheel_directory, "py3-none-any", pure=True)


def build_sdist(sdist_directory, config_settings=None):
    raise NotImplementedError("psgd has no source archive for pip; install from a clone")


if __name__ == "__main__":
    out = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "dist")
    build = {"build": sys.argv[2]} if len(sys.argv) > 2 else None
    out.mkdir(parents=True, exist_ok=True)
    print(out / build_wheel(out, build))
