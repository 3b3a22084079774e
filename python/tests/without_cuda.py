# SPDX-License-Identifier: BSD-3-Clause
"""Lets the torch of the Python package index start without the CUDA libraries: without_cuda.py DIRECTORY

The wheel of torch is linked with CUDA libraries that take another 2 GB to download, and that a machine without a GPU never
uses. This writes libraries of the same names to DIRECTORY, which is the wheel's torch/lib. All their functions return 100,
the error "no device" of the CUDA runtime. It needs a C compiler and binutils. Only newer_torch uses it.
"""
import os
import re
import shlex
import subprocess
import sys
import tempfile

CUDA = "lib(?:cu(?!da\\.)|nv|nccl)[^]]*"  # not the driver, libcuda, which is loaded when it is used
SYMBOL = "(?:__)?(?:cu|nv|nccl)[A-Za-z0-9_]*"


def matches(pattern, *command):
    return re.findall(pattern, subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout)


def write(library, symbols, version):
    """Writes a library whose symbols have a version, or none if version is empty."""
    with tempfile.TemporaryDirectory() as folder:
        source, script = os.path.join(folder, "empty.c"), os.path.join(folder, "map")
        with open(source, "w", encoding="ascii") as file:
            file.writelines(f"int {symbol}(void);\nint {symbol}(void) {{ return 100; }}\n" for symbol in symbols)
        with open(script, "w", encoding="ascii") as file:
            file.write(f"{version} {{ global: *; }};\n")
        subprocess.run([*shlex.split(os.environ.get("CC") or "cc"), "-w", "-shared", "-fPIC", f"-Wl,-soname,{os.path.basename(library)}",
                        f"-Wl,--version-script={script}", "-o", library, source], check=True)


def main(folder):
    present = sorted(os.path.join(folder, name) for name in os.listdir(folder) if ".so" in name)
    needed, wanted = {}, {}  # the version of each missing library, and the symbols of each version
    for path in present:
        for library in matches(rf"\(NEEDED\).*\[({CUDA})\]", "readelf", "-d", path):
            needed.setdefault(library, "")
        for library, version in matches(rf"File: ({CUDA}?)\s[^\n]*\n[^\n]*Name: (\S+)", "readelf", "-VW", path):
            needed[library] = version
        for symbol, version in matches(rf"(?m)^ +U ({SYMBOL})(?:@(\S+))?$", "nm", "-D", path):
            wanted.setdefault(version, set()).add(symbol)
    unversioned = wanted.pop("", set())
    for library, version in sorted(needed.items()):
        if not os.path.exists(os.path.join(folder, library)):
            symbols = wanted.get(version, set()) if version else unversioned
            write(os.path.join(folder, library), sorted(symbols), version)


if __name__ == "__main__":
    main(sys.argv[1])
