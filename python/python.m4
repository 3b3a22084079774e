# SPDX-License-Identifier: BSD-3-Clause
# SLUICE_CHECK_PYTHON: --with-python=no|yes|PROGRAM. Sets PYTHON, pythondir, WITH_PYTHON (conditional) and
# python_summary, and PACKER, the Python of make wheel. Without it the package is still tested.
AC_DEFUN([SLUICE_CHECK_PYTHON], [
	AC_ARG_WITH([python],
		[AS_HELP_STRING([--with-python=no|yes|PROGRAM], [let make install also install the Python package (no)])],
		[], [with_python=no])
	AS_CASE([$with_python],
		[no], [python_summary="no (make wheel does without; --with-python)"],
		[AS_CASE([$with_python], [yes], [], [PYTHON=$with_python])
		AM_PATH_PYTHON([3.9])
		python_summary="yes ($PYTHON $PYTHON_VERSION, $pythondir)"])
	AC_SUBST([PACKER], [${PYTHON:-python3}])
	AM_CONDITIONAL([WITH_PYTHON], [test "$with_python" != no])
])
