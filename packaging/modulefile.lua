-- SPDX-License-Identifier: BSD-3-Clause
-- Modulefile for Lmod. The installation is found relative to this file, so it may be moved as a
-- whole: module use PREFIX/share/sluice/modulefiles; module load sluice. The program man
-- finds the manual pages by PATH.
local prefix = myFileName():match("^(.*)/share/sluice/modulefiles/")

help([[Sluice: compressed data-parallel training over one-sided memory. See man sluice.]])
whatis("Name: sluice")
whatis("Version: " .. myModuleVersion())
whatis("Description: compressed data-parallel training over one-sided memory")
conflict("sluice")
prepend_path("PATH", pathJoin(prefix, "bin"))
prepend_path("CMAKE_PREFIX_PATH", prefix)
