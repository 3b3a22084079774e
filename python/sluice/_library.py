# SPDX-License-Identifier: BSD-3-Clause
"""Finds and loads libsluice, once, when the package is imported."""
from __future__ import annotations

import ctypes
import glob
import os
import re
import subprocess
from typing import List, Optional, Tuple

from . import _abi
from ._version import VERSION
from .errors import BY_CODE, Error

SONAME = "libsluice.so.0"
_HERE = os.path.dirname(os.path.abspath(__file__))
CARRIED = os.path.join(_HERE, "lib", SONAME)  # only a wheel has it


def _refuse_namesake() -> None:
    """Another project has the name sluice in the Python index, and its files go to the same directory."""
    for other in glob.glob(os.path.join(glob.escape(os.path.dirname(_HERE)), "sluice-[0-9]*-info")):
        raise ImportError(f"{other} belongs to another project of the name sluice, or to an installation of this one from "
                          "before it was named libsluice, and one has overwritten files of the other: uninstall both (pip uninstall sluice libsluice) and "
                          "install libsluice again, or keep them in separate environments")


def _by_pkg_config() -> Tuple[Optional[str], str]:
    """Returns the library of sluice's pkg-config file, or None and the reason why there is none."""
    try:
        answer = subprocess.run(["pkg-config", "--variable=libdir", "sluice"],
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                timeout=30)
    except (OSError, subprocess.TimeoutExpired) as error:
        return None, f"pkg-config did not run ({error})"
    if answer.returncode != 0:
        return None, "pkg-config knows no package sluice"
    return os.path.join(answer.stdout.strip(), SONAME), ""


class _LinkMap(ctypes.Structure):
    _fields_ = [("l_addr", ctypes.c_size_t), ("l_name", ctypes.c_char_p)]


def _file_of(library: ctypes.CDLL, name: str) -> str:
    """Returns the path of a loaded library."""
    found = ctypes.POINTER(_LinkMap)()
    request = 2  # RTLD_DI_LINKMAP
    try:
        dlinfo = ctypes.CDLL(None).dlinfo
    except AttributeError:
        return name
    dlinfo.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p]
    if dlinfo(library._handle, request, ctypes.byref(found)) or not found.contents.l_name:
        return name
    return os.path.realpath(os.fsdecode(found.contents.l_name))


def _open(name: str, exact: bool = False) -> Tuple[ctypes.CDLL, str, str]:
    """Loads a library of this package's version. Returns it, its path and the text of its version."""
    library = ctypes.CDLL(name)
    file = _file_of(library, name)
    if not hasattr(library, "sluice_version"):
        raise ImportError(f"{file} is not Sluice's library: it has no sluice_version")
    library.sluice_version.restype = ctypes.c_char_p
    text = library.sluice_version(None).decode()
    match = re.match(r"(\d+)\.(\d+)\.", text)
    wanted = VERSION.split(".")
    if not match or list(match.groups()) != wanted[:2]:
        raise ImportError(f"{file} is Sluice {text}, but this Python package was made for "
                          f"{wanted[0]}.{wanted[1]}.*: install the two from one version, or name the "
                          "right library in SLUICE_LIBRARY")
    if exact and text.split()[0] != VERSION:
        raise ImportError(f"{file} is Sluice {text}, and this package carries {VERSION}")
    try:
        _abi.declare(library)
    except AttributeError as error:
        raise ImportError(f"{file}, Sluice {text}, lacks a function of version {VERSION}: {error}; "
                          "install library and Python package from one version") from None
    return library, file, text


def _load() -> Tuple[ctypes.CDLL, str, str, str]:
    """Returns the library, its path, the text of its version, and how it was found."""
    named = os.environ.get("SLUICE_LIBRARY")
    if named:
        try:
            return (*_open(named), "named by SLUICE_LIBRARY")
        except OSError as error:
            raise ImportError(f"SLUICE_LIBRARY={named} cannot be loaded: {error}") from None
    # The C programs of this machine use the installed library, so it is preferred to the carried one.
    carries, tried = os.path.exists(CARRIED), []
    for how, find in (("found by the dynamic linker", lambda: (SONAME, "")),
                      ("found by pkg-config", _by_pkg_config),
                      ("carried by this package", lambda: (CARRIED if carries else None, ""))):
        name, why = find()
        if name is None:
            tried += [why] if why else []
            continue
        try:
            return (*_open(name, exact=carries), how)
        except OSError as error:
            tried.append(str(error))
        except ImportError as error:
            if not carries:
                raise
            refused.append(str(error))
    raise ImportError(f"no {SONAME}: {'; '.join(tried + refused)}. Install the wheel libsluice, or Sluice itself, and "
                      "name its lib directory in LD_LIBRARY_PATH, its pkgconfig directory in PKG_CONFIG_PATH, or the "
                      "library itself in SLUICE_LIBRARY.")


_refuse_namesake()
refused: List[str] = []  # why an installed library is not used
lib, path, version, origin = _load()


def setting(name: str) -> str:
    """Returns a setting such as SLUICE_RECIPE: from the environment, sluice.conf, or the default."""
    text = ctypes.create_string_buffer(1024)
    check(lib.sluice_setting(name.encode(), text, len(text)))
    return text.value.decode(errors="replace")


def failure(code: int) -> Error:
    """Returns the exception for a negative code of this thread's last call."""
    sentence = lib.sluice_last_error() or lib.sluice_strerror(code)
    error = BY_CODE.get(code, Error)(sentence.decode(errors="replace"))
    error.code = code
    return error


def check(code: int) -> None:
    """Raises an exception with the library's message if a call returned a negative code."""
    if code < 0:
        raise failure(code)
