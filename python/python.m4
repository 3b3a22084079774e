# SPDX-License-Identifier: BSD-3-Clause
# SLUICE_CHECK_PYTHON: --with-python=no|yes|PROGRAM. Sets PYTHON, pythondir, WITH_PYTHON (conditional) and
# python_summary. Without it the package is still tested, and can be installed by pip.
AC_DEFUN([SLUICE_CHECK_PYTHON], [
	AC_ARG_WITH([python],
		[AS_HELP_STRING([--with-python=no|yes|PROGRAM], [let make install also install the Python package (no)])],
		[], [with_python=no])
	AS_CASE([$with_python],
		[no], [python_summary="no (pip install $srcdir/python does without; --with-python)"],
		[AS_CASE([$with_python], [yes], [], [PYTHON=$with_python])
		AM_PATH_PYTHON([3.9])
		python_summary="yes ($PYTHON $PYTHON_VERSION, $pythondir)"])
	AM_CONDITIONAL([WITH_PYTHON], [test "$with_python" != no])
])
