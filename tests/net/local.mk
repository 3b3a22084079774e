# Tests on four nodes that share nothing but a network; they need Slurm, and root to make the nodes.
EXTRA_DIST += tests/net/run tests/net/lib.sh tests/net/flipping_cable \
	tests/net/test_bare.sh \
	tests/net/test_bytes.sh \
	tests/net/test_digest.sh \
	tests/net/test_flips.sh \
	tests/net/test_incast.sh \
	tests/net/test_intruder.sh \
	tests/net/test_kill.sh \
	tests/net/test_link.sh \
	tests/net/test_ports.sh \
	tests/net/test_lossy.sh \
	tests/net/test_race.sh \
	tests/net/test_reset.sh \
	tests/net/test_stopped.sh \
	tests/net/test_strangers.sh \
	tests/net/test_top.sh

if HAVE_LIBFABRIC
noinst_PROGRAMS += tests/net/intruder
tests_net_intruder_SOURCES = tests/net/intruder.c
tests_net_intruder_LDADD = libinternal.la
else
EXTRA_DIST += tests/net/intruder.c
endif

# LIBFABRIC="system DIR...": with the library of the machine, and those in these folders.
.PHONY: check-net
check-net: all
	$(top_srcdir)/tests/net/run $(LIBFABRIC:%=--libfabric %) -b $(abs_builddir)
