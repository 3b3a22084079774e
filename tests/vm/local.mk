# SPDX-License-Identifier: BSD-3-Clause
# Tests on a real RDMA stack, in virtual machines; not part of check, because they need QEMU and minutes.
EXTRA_DIST += \
	tests/vm/boot tests/vm/cluster tests/vm/devices tests/vm/guest tests/vm/init tests/vm/kernel \
	tests/vm/lib.sh tests/vm/rank tests/vm/run tests/vm/run2 tests/vm/slurm \
	tests/vm/prepare_version.sh \
	tests/vm/test_attack.sh \
	tests/vm/test_bandwidth.sh \
	tests/vm/test_card.sh \
	tests/vm/test_digest.sh \
	tests/vm/test_huge.sh \
	tests/vm/test_incast.sh \
	tests/vm/test_kill.sh \
	tests/vm/test_limits.sh \
	tests/vm/test_link.sh \
	tests/vm/test_loss.sh \
	tests/vm/test_methods.sh \
	tests/vm/test_path.sh \
	tests/vm/test_posts.sh \
	tests/vm/test_rails.sh \
	tests/vm/test_rights.sh \
	tests/vm/test_stopped.sh \
	tests/vm/test_two_digest.sh \
	tests/vm/test_two_host.sh \
	tests/vm/test_two_route.sh \
	tests/vm/test_ud.sh \
	tests/vm/test_version.sh \
	tests/vm/test_wire.sh

# What the tests run; built by tests/vm/run on this machine, before the virtual one starts.
if HAVE_VERBS
EXTRA_PROGRAMS = tests/vm/attack tests/vm/classes tests/vm/illegal
tests_vm_attack_SOURCES = tests/vm/attack.c
tests_vm_attack_LDADD = libinternal.la $(VERBS_LIBS)
tests_vm_classes_SOURCES = tests/vm/classes.c
tests_vm_illegal_SOURCES = tests/vm/illegal.c tests/vm/hook.c tests/vm/hook.h
tests_vm_illegal_CFLAGS = $(AM_CFLAGS)
tests_vm_illegal_LDADD = libinternal.la $(VERBS_LIBS)
# librdmacm must find the program's ibv_open_device()
tests_vm_illegal_LDFLAGS = $(AM_LDFLAGS) -rdynamic

# Preloaded. -rpath makes libtool build a shared object also of what is never installed.
EXTRA_LTLIBRARIES = tests/vm/count_posts.la tests/vm/record_connect.la
tests_vm_count_posts_la_SOURCES = tests/vm/count_posts.c tests/vm/hook.c tests/vm/hook.h
tests_vm_count_posts_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared -rpath /nowhere
tests_vm_record_connect_la_SOURCES = tests/vm/record_connect.c
tests_vm_record_connect_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared -rpath /nowhere
CLEANFILES += $(EXTRA_PROGRAMS) $(EXTRA_LTLIBRARIES)
endif

.PHONY: vm-programs check-rdma
vm-programs: $(EXTRA_PROGRAMS) $(EXTRA_LTLIBRARIES)
check-rdma: all
	$(top_srcdir)/tests/vm/run -b $(abs_builddir)
	$(top_srcdir)/tests/vm/run2 -b $(abs_builddir)
