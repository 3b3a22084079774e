# SPDX-License-Identifier: BSD-3-Clause
"""Builds the wheel for pip (PEP 517): `pip install .`, or pip with the source distribution.

Needs a C compiler, make and binutils, and no package of Python. A clone of the repository also needs autoconf,
automake and libtool; the source distribution has their output.

    pip install . --config-settings=configure="--with-cuda=no CC=gcc-13"
"""
import os
import shlex
import subprocess
import sys
import tempfile

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def run(*command, folder):
    try:
        status = subprocess.run(command, cwd=folder, stdout=sys.stderr).returncode
    except OSError as error:
        raise SystemExit(f"libsluice cannot be built, because {command[0]} does not run: {error}") from None
    if status:
        raise SystemExit(f"libsluice cannot be built: {' '.join(command)} failed in {folder} (status {status})")


def make(target, output, settings):
    """Configures a build folder, makes the target, and returns the name of its file in output."""
    if not os.path.exists(os.path.join(SOURCE, "configure")):
        run("./autogen.sh", folder=SOURCE)
    with tempfile.TemporaryDirectory(prefix="sluice-build-") as build:
        made = os.path.join(build, "made")
        run(os.path.join(SOURCE, "configure"), "--quiet", "--disable-static", "--disable-dependency-tracking",
            *shlex.split((settings or {}).get("configure", "")), folder=build)
        run("make", "-s", f"-j{len(os.sched_getaffinity(0))}", target, f"WHEEL_DIR={made}",
            f"PACKER={sys.executable}", folder=build)
        name, = os.listdir(made)
        with open(os.path.join(made, name), "rb") as file, open(os.path.join(output, name), "wb") as copy:
            copy.write(file.read())
    return name


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    return make("wheel", wheel_directory, config_settings)


def build_sdist(sdist_directory, config_settings=None):
    return make("sdist", sdist_directory, config_settings)
