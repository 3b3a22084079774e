# SPDX-License-Identifier: BSD-3-Clause
"""``python -m sluice.info [OPTION]...``: runs sluice-info of the installation whose library is used."""
import os
import shutil
import sys

from ._library import path, version


def program() -> str:
    """The sluice-info that belongs to the loaded library, or else the one of PATH; "" without one."""
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
        loaded = {line.split(None, 5)[5].strip() for line in maps if "/libsluice.so" in line}
    for library in loaded:
        folder = os.path.dirname(os.path.realpath(library))
        for beside in ("../bin/sluice-info", "../../bin/sluice-info", "../sluice-info"):
            candidate = os.path.normpath(os.path.join(folder, beside))
            if os.access(candidate, os.X_OK):
                return candidate
    return shutil.which("sluice-info") or ""


def main() -> int:
    print(f"Sluice {version}, library {path}", flush=True)
    found = program()
    if not found:
        print("sluice.info: there is no sluice-info next to the library or in PATH: add the bin directory "
              "of the installation to PATH", file=sys.stderr)
        return 2
    os.execv(found, [found] + sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
