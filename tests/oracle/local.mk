# The methods once more in numpy, compared with the library bit by bit.
if HAVE_CMOCKA
check_PROGRAMS += tests/oracle/processes
tests_oracle_processes_SOURCES = tests/oracle/processes.c $(ranks)
endif

# The program alone skips: it is the script that gives it what numpy computed.
# It compares values, which sanitizers do not change, in methods that the unit tests run with them.
if !WITH_SANITIZER
TESTS += tests/oracle/check.sh
endif
dist_check_SCRIPTS += tests/oracle/check.sh
EXTRA_DIST += tests/oracle/methods.py tests/oracle/oracle.py

# What was installed, by its own file; make distcheck does this too.
installcheck-local:
	top_srcdir=$(top_srcdir) $(SHELL) $(top_srcdir)/tests/oracle/check.sh \
		$(DESTDIR)$(libdir)/libsluice.so || test $$? = 77
