# SPDX-License-Identifier: BSD-3-Clause
"""``python -m sluice.info [OPTION]...``: shows which library is used, and runs the sluice-info that belongs to it.

sluice-info shows what this node has, and names what is missing and how to install it.
"""
import os
import shutil
import sys
from importlib import metadata

from ._library import origin, path, refused, version


def program() -> str:
    """The sluice-info that belongs to the loaded library, or else the one of PATH; "" without one."""
    folder = os.path.dirname(path)
    for beside in ("../bin/sluice-info", "../../bin/sluice-info", "../sluice-info"):
        candidate = os.path.normpath(os.path.join(folder, beside))
        if os.access(candidate, os.X_OK):
            return candidate
    return shutil.which("sluice-info") or ""


def _package(name: str, without: str) -> str:
    try:
        return f"{name} {metadata.version(name)}"
    except metadata.PackageNotFoundError:
        return f"no {name} ({without})"


def lines() -> "list[str]":
    """What is known before sluice-info runs."""
    shown = [f"Sluice {version}, library {path} ({origin})"]
    shown += [f"  not used: {why}" for why in refused]
    python = ".".join(map(str, sys.version_info[:3]))
    shown.append(f"  Python {python}, {_package('torch', 'sluice.torch needs it')}, "
                 f"{_package('numpy', 'not needed')}")
    return shown


def main() -> int:
    found = program()
    # The output of --json is for programs.
    print("\n".join(lines()), file=sys.stderr if "--json" in sys.argv[1:] else sys.stdout, flush=True)
    if not found:
        print("sluice.info: there is no sluice-info next to the library or in PATH: add the bin directory "
              "of the installation to PATH", file=sys.stderr)
        return 2
    os.execv(found, [found] + sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
