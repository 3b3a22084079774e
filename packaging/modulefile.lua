-- SPDX-License-Identifier: BSD-3-Clause
-- Modulefile for Lmod. The installation is found relative to this file, so it may be moved as a
-- whole: module use PREFIX/share/sluice/modulefiles; module load sluice. The program man
-- finds the manual pages by PATH.
local prefix = myFileName():match("^(.*)/share/sluice/modulefiles/")
local lib = "@LIB@" -- "make install" writes it: below the prefix, or a full path
if lib:sub(1, 1) ~= "/" then lib = pathJoin(prefix, lib) end

help([[Sluice: compressed data-parallel training over one-sided memory. See man sluice.]])
whatis("Name: sluice")
whatis("Version: " .. myModuleVersion())
whatis("Description: compressed data-parallel training over one-sided memory")
conflict("sluice")
prepend_path("PATH", pathJoin(prefix, "bin"))
prepend_path("LD_LIBRARY_PATH", lib)
prepend_path("PKG_CONFIG_PATH", pathJoin(lib, "pkgconfig"))
prepend_path("CMAKE_PREFIX_PATH", prefix)
