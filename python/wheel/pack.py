# SPDX-License-Identifier: BSD-3-Clause
"""Writes the wheel and the source distribution of libsluice, without any package. Called by `make wheel` and `make
sdist`, in a build folder.

    pack.py wheel SOURCE OUTPUT [FILE=PLACE]...     each FILE is carried at PLACE in the package
    pack.py sdist SOURCE OUTPUT TREE                TREE is what `make distdir` made

The tag of the wheel follows from the files that it carries: it is the newest glibc whose symbols one of them needs.
"""
import base64
import hashlib
import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile

NAME = "libsluice"
# What every Linux with glibc has: the list of the manylinux policies, without C++, X11 and GLib.
ALWAYS_THERE = r"(libc|libm|libdl|libpthread|librt)\.so\.\d+|ld-linux[-\w]*\.so\.\d+|ld64\.so\.\d+"
MACHINES = {21: "ppc64le", 22: "s390x", 62: "x86_64", 183: "aarch64", 243: "riscv64"}  # e_machine of ELF
DATE = (1980, 1, 1, 0, 0, 0)  # the same files make the same wheel


def version(source):
    with open(os.path.join(source, "python/sluice/_version.py"), encoding="utf-8") as file:
        return re.search(r'VERSION = "(.*)"', file.read()).group(1)


def metadata(source):
    with open(os.path.join(source, "README.md"), encoding="utf-8") as file:
        readme = file.read()
    return (f"Metadata-Version: 2.1\nName: {NAME}\nVersion: {version(source)}\n"
            "Summary: Data-parallel training that sends a small part of each gradient: libsluice and sluice.torch\n"
            "License: BSD-3-Clause\nLicense-File: COPYING\nRequires-Python: >=3.9\n"
            "Classifier: License :: OSI Approved :: BSD License\n"
            "Classifier: Operating System :: POSIX :: Linux\n"
            "Description-Content-Type: text/markdown\n\n" + readme)


def readelf(*arguments):
    return subprocess.run(["readelf", "-W", *arguments], stdout=subprocess.PIPE, check=True, text=True,
                          env={**os.environ, "LC_ALL": "C"}).stdout


def glibc_of(file):
    """Returns (2, 34) for a file that needs GLIBC_2.34. Refuses a file that needs a library which is not everywhere."""
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", readelf("-d", file))
    others = [library for library in needed if not re.fullmatch(ALWAYS_THERE, library)]
    if others:
        sys.exit(f"pack.py: {file} is linked with {', '.join(others)}, which other machines may lack: python/wheel/"
                 "libraries must name their functions")
    return max((tuple(map(int, found.split("."))) for found in
                re.findall(r"Name: GLIBC_([\d.]+)", readelf("-V", file))), default=(2, 5))[:2]


def tag_of(files):
    machines = set()
    for file in files:
        with open(file, "rb") as opened:
            machines.add(int.from_bytes(opened.read(20)[18:], sys.byteorder))
    if len(machines) != 1 or not machines <= set(MACHINES):
        sys.exit(f"pack.py: no tag is known for the processors of {', '.join(files)} (e_machine {machines})")
    major, minor = max(glibc_of(file) for file in files)
    return f"py3-none-manylinux_{major}_{minor}_{MACHINES[machines.pop()]}"


def modules(source):
    """Yields (file, place) of the Python files."""
    top = os.path.join(source, "python")
    for folder in ("sluice", "sluice/torch", "sluice/torch/integrations"):
        for name in sorted(os.listdir(os.path.join(top, folder))):
            if name.endswith((".py", ".typed")):
                yield os.path.join(top, folder, name), f"{folder}/{name}"


def digest(data):
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def write_wheel(source, output, carried):
    about = f"{NAME}-{version(source)}.dist-info"
    tag = tag_of(list(carried))
    path = os.path.join(output, f"{NAME}-{version(source)}-{tag}.whl")
    record = []

    def add(place, data, mode=0o644):
        entry = zipfile.ZipInfo(place, DATE)
        entry.external_attr = (0o100000 | mode) << 16
        entry.compress_type = zipfile.ZIP_DEFLATED
        archive.writestr(entry, data)
        record.append(f"{place},sha256={digest(data)},{len(data)}")

    with tempfile.TemporaryDirectory() as scratch, zipfile.ZipFile(path + ".part", "w") as archive:
        for file, place in modules(source):
            with open(file, "rb") as opened:
                add(place, opened.read())
        for file, place in carried.items():
            copy = os.path.join(scratch, os.path.basename(place))
            shutil.copyfile(file, copy)
            subprocess.run([os.environ.get("STRIP", "strip"), "--strip-unneeded", copy], check=True)
            with open(copy, "rb") as opened:
                add(f"sluice/{place}", opened.read(), 0o755)
        with open(os.path.join(source, "COPYING"), "rb") as opened:
            add(f"{about}/COPYING", opened.read())
        add(f"{about}/METADATA", metadata(source).encode())
        add(f"{about}/WHEEL", f"Wheel-Version: 1.0\nGenerator: pack.py of Sluice\nRoot-Is-Purelib: false\nTag: {tag}\n"
            .encode())
        place = f"{about}/RECORD"
        record.append(f"{place},,")
        archive.writestr(zipfile.ZipInfo(place, DATE), "\n".join(record) + "\n")
    os.replace(path + ".part", path)
    return path


def write_sdist(source, output, tree):
    name = f"{NAME}-{version(source)}"
    path = os.path.join(output, f"{name}.tar.gz")
    about = metadata(source).encode()
    with tarfile.open(path + ".part", "w:gz", format=tarfile.PAX_FORMAT) as archive:
        archive.add(tree, name)
        entry = tarfile.TarInfo(f"{name}/PKG-INFO")
        entry.size = len(about)
        archive.addfile(entry, io.BytesIO(about))
    os.replace(path + ".part", path)
    return path


def main(kind, source, output, *others):
    os.makedirs(output, exist_ok=True)
    if kind == "wheel":
        print(write_wheel(source, output, dict(pair.split("=", 1) for pair in others)))
    else:
        print(write_sdist(source, output, *others))


if __name__ == "__main__":
    main(*sys.argv[1:])
