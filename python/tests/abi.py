# SPDX-License-Identifier: BSD-3-Clause
"""Compares sluice/_abi.py with the public headers; run by abi.sh.

layout FOLDER: prints a C program, which prints constants and layouts from the headers in FOLDER.
compare FOLDER FILE: compares _abi.py with FILE, the program's output, and with the prototypes in the headers.
"""
import ctypes
import glob
import os
import re
import sys

from sluice import _abi


def headers(folder):
    return sorted(glob.glob(os.path.join(folder, "sluice*.h")))


def text_of(folder):
    text = ""
    for header in headers(folder):
        with open(header, encoding="ascii") as file:
            text += re.sub(r"/\*.*?\*/", " ", file.read(), flags=re.DOTALL)
    return text


def members(folder, name):
    """Returns the members of a struct in the order of the header's text."""
    body = re.search(r"typedef struct %s \{(.*?)\}" % name, text_of(folder), re.DOTALL).group(1)
    found = []
    for line in body.split(";"):
        for part in line.split(","):
            callback = re.search(r"\(\*(\w+)\)", line)
            word = callback or re.search(r"(\w+)\s*(\[\w+\])?\s*$", part)
            if word and word.group(1) not in found:
                found.append(word.group(1))
            if callback:
                break
    return found


def layout(folder):
    for header in headers(folder):
        print(f'#include "{os.path.basename(header)}"')
    print('#include <stddef.h>\n#include <stdio.h>\nint main(void)\n{')
    for name in _abi.CONSTANTS:
        print(f'\tprintf("{name} %lld\\n", (long long){name});')
    for kind in _abi.STRUCTS:
        name = kind.__name__
        print(f'\tprintf("sizeof {name} %zu\\n", sizeof({name}));')
        for member in members(folder, name):
            print(f'\tprintf("{name}.{member} %zu %zu\\n", offsetof({name}, {member}), '
                  f'sizeof((({name} *)0)->{member}));')
    print("\treturn 0;\n}")


def layout_here():
    for name, value in _abi.CONSTANTS.items():
        yield f"{name} {value}"
    for kind in _abi.STRUCTS:
        yield f"sizeof {kind.__name__} {ctypes.sizeof(kind)}"
        for field in kind._fields_:
            at = getattr(kind, field[0])
            yield f"{kind.__name__}.{field[0]} {at.offset} {at.size}"


POINTERS = (ctypes.c_void_p, ctypes.c_char_p)
SCALARS = {"int": ctypes.c_int, "unsigned": ctypes.c_uint, "size_t": ctypes.c_size_t,
           "uint64_t": ctypes.c_uint64, "uint32_t": ctypes.c_uint32, "float": ctypes.c_float,
           "double": ctypes.c_double, "void": None}


def agrees(c, python):
    """Returns whether a ctypes type matches a C type. Pointers match pointers, and scalars must be equal."""
    if "*" in c:
        if c.replace(" ", "") == "constchar*":
            return python is ctypes.c_char_p
        return python in POINTERS or (isinstance(python, type) and issubclass(python, ctypes._Pointer))
    return SCALARS[c.replace("const ", "").strip()] is python


def wrong_prototypes(folder):
    text = text_of(folder)
    for name, (result, arguments) in _abi.PROTOTYPES.items():
        found = re.search(r"SLUICE_API\s+([\w\s]+?[\s*]+)%s\((.*?)\);" % name, text, re.DOTALL)
        if not found:
            yield f"{name} is not in any header"
            continue
        returns, given = (" ".join(part.split()) for part in found.groups())
        given = [] if given == "void" else given.split(",")
        if not agrees(returns, result):
            yield f"{name} returns {returns} in the header and {result} in _abi.py"
        if len(given) != len(arguments):
            yield f"{name} has {len(given)} arguments in the header and {len(arguments)} in _abi.py"
            continue
        for c, python in zip(given, arguments):
            c = c.strip()
            c = re.sub(r"(?<=[\s*])\w+$", "", c).strip()
            if not agrees(c, python):
                yield f"{name}: an argument is {c} in the header and {python} in _abi.py"


def compare(folder, file):
    with open(file, encoding="ascii") as lines:
        there = set(lines.read().splitlines())
    here = set(layout_here())
    wrong = [f"the headers have: {line}" for line in sorted(there - here)]
    wrong += [f"_abi.py has: {line}" for line in sorted(here - there)]
    wrong += wrong_prototypes(folder)
    print("\n".join(wrong) or
          f"{len(there)} constants, sizes and offsets and {len(_abi.PROTOTYPES)} prototypes agree")
    return bool(wrong)


if __name__ == "__main__":
    if sys.argv[1] == "layout":
        layout(sys.argv[2])
    else:
        sys.exit(compare(*sys.argv[2:]))
