# SPDX-License-Identifier: BSD-3-Clause
# Unit tests of rdma/.
check_PROGRAMS += \
	tests/unit/test_card_choice \
	tests/unit/test_region \
	tests/unit/test_ring \
	tests/unit/test_self \
	tests/unit/test_shm \
	tests/unit/test_shm_death \
	tests/unit/test_shm_hostile \
	tests/unit/test_shm_processes \
	tests/unit/test_shm_sleep \
	tests/unit/test_stream
rdma_pair = tests/unit/rdma/rdma_pair.c tests/unit/rdma/rdma_pair.h
shm_trio = tests/unit/rdma/shm_trio.c tests/unit/rdma/shm_trio.h $(rdma_pair)
tests_unit_test_card_choice_SOURCES = tests/unit/rdma/test_card_choice.c
tests_unit_test_card_choice_LDADD = $(LDADD) $(HWLOC_LIBS)
tests_unit_test_region_SOURCES = tests/unit/rdma/test_region.c $(rdma_pair)
tests_unit_test_ring_SOURCES = tests/unit/rdma/test_ring.c
tests_unit_test_self_SOURCES = tests/unit/rdma/test_self.c $(rdma_pair)
tests_unit_test_shm_SOURCES = tests/unit/rdma/test_shm.c $(shm_trio)
tests_unit_test_shm_death_SOURCES = tests/unit/rdma/test_shm_death.c $(rdma_pair)
tests_unit_test_shm_hostile_SOURCES = tests/unit/rdma/test_shm_hostile.c $(shm_trio)
tests_unit_test_shm_processes_SOURCES = tests/unit/rdma/test_shm_processes.c $(rdma_pair)
tests_unit_test_shm_sleep_SOURCES = tests/unit/rdma/test_shm_sleep.c $(shm_trio)
tests_unit_test_stream_SOURCES = tests/unit/rdma/test_stream.c

if HAVE_LIBFABRIC
check_PROGRAMS += \
	tests/unit/test_auth \
	tests/unit/test_ofi \
	tests/unit/test_ofi_count \
	tests/unit/test_ofi_job \
	tests/unit/test_ofi_ports \
	tests/unit/test_ofi_proof \
	tests/unit/test_ofi_rules
tests_unit_test_auth_SOURCES = tests/unit/rdma/test_auth.c
tests_unit_test_ofi_SOURCES = tests/unit/rdma/test_ofi.c $(rdma_pair)
# libfabric, which is loaded at run time, is to find its connect().
tests_unit_test_ofi_LDFLAGS = $(AM_LDFLAGS) -Wl,--export-dynamic
tests_unit_test_ofi_count_SOURCES = tests/unit/rdma/test_ofi_count.c
tests_unit_test_ofi_job_SOURCES = tests/unit/rdma/test_ofi_job.c $(ranks)
tests_unit_test_ofi_ports_SOURCES = tests/unit/rdma/test_ofi_ports.c $(rdma_pair)
tests_unit_test_ofi_proof_SOURCES = tests/unit/rdma/test_ofi_proof.c $(rdma_pair)
tests_unit_test_ofi_rules_SOURCES = tests/unit/rdma/test_ofi_rules.c $(fake_ofi)
tests_unit_test_ofi_rules_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=dlopen -Wl,--wrap=dlsym -Wl,--wrap=dlclose -Wl,--wrap=getrandom
else
EXTRA_DIST += \
	tests/unit/rdma/test_auth.c \
	tests/unit/rdma/test_ofi.c \
	tests/unit/rdma/test_ofi_count.c \
	tests/unit/rdma/test_ofi_job.c \
	tests/unit/rdma/test_ofi_ports.c \
	tests/unit/rdma/test_ofi_proof.c \
	tests/unit/rdma/test_ofi_rules.c \
	$(fake_ofi)
endif

verbs_pair = tests/unit/rdma/verbs_pair.c tests/unit/rdma/verbs_pair.h $(fake_fabric)
verbs_two = tests/unit/rdma/verbs_two.c tests/unit/rdma/verbs_two.h $(verbs_pair)
if HAVE_VERBS
check_PROGRAMS += \
	tests/unit/test_connect_many \
	tests/unit/test_nearness \
	tests/unit/test_card_facts \
	tests/unit/test_verbs \
	tests/unit/test_verbs_broken \
	tests/unit/test_verbs_device \
	tests/unit/test_verbs_job \
	tests/unit/test_verbs_keys \
	tests/unit/test_verbs_memlock \
	tests/unit/test_verbs_path \
	tests/unit/test_verbs_proof \
	tests/unit/test_verbs_record \
	tests/unit/test_verbs_register \
	tests/unit/test_verbs_rights \
	tests/unit/test_verbs_ud \
	tests/unit/test_verbs_walk \
	tests/unit/test_verbs_windows
# Its own connection manager, queue pairs and clock.
tests_unit_test_connect_many_SOURCES = tests/unit/rdma/test_connect_many.c tests/unit/thinned.h
tests_unit_test_connect_many_LDFLAGS = $(AM_LDFLAGS) \
	-Wl,--wrap=clock_gettime -Wl,--wrap=qp_make -Wl,--wrap=qp_equip -Wl,--wrap=qp_end -Wl,--wrap=qp_number \
	-Wl,--wrap=qp_join -Wl,--wrap=qp_mtu -Wl,--wrap=qp_received -Wl,--wrap=qp_greeting \
	-Wl,--wrap=qp_replay -Wl,--wrap=qp_take_accept -Wl,--wrap=qp_send_ready -Wl,--wrap=qp_send_keys \
	-Wl,--wrap=qp_take_keys -Wl,--wrap=qp_start -Wl,--wrap=sendlog_watch -Wl,--wrap=sendlog_detach \
	-Wl,--wrap=sendlog_moved -Wl,--wrap=sendlog_credit_due -Wl,--wrap=sendlog_abandon -Wl,--wrap=rights_peer_end \
	-Wl,--wrap=verbs_port_active -Wl,--wrap=queues_look
tests_unit_test_nearness_SOURCES = tests/unit/rdma/test_nearness.c tests/unit/two_gpus.h tests/unit/scratch.h $(fake_fabric)
tests_unit_test_nearness_LDADD = $(LDADD) $(HWLOC_LIBS)
tests_unit_test_nearness_DEPENDENCIES = tests/unit/libcases.la libinternal.la libsluice_emulated.la
tests_unit_test_nearness_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=access
tests_unit_test_card_facts_SOURCES = tests/unit/rdma/test_card_facts.c $(verbs_two)
tests_unit_test_card_facts_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=access
tests_unit_test_verbs_SOURCES = tests/unit/rdma/test_verbs.c $(verbs_two)
tests_unit_test_verbs_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=access
tests_unit_test_verbs_broken_SOURCES = tests/unit/rdma/test_verbs_broken.c $(verbs_two)
tests_unit_test_verbs_broken_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=access
tests_unit_test_verbs_device_SOURCES = tests/unit/rdma/test_verbs_device.c $(verbs_two)
tests_unit_test_verbs_device_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=access
# Brings its own bootstrap: ranks are threads.
tests_unit_test_verbs_job_SOURCES = tests/unit/rdma/test_verbs_job.c $(fake_fabric)
tests_unit_test_verbs_job_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=access
tests_unit_test_verbs_keys_SOURCES = tests/unit/rdma/test_verbs_keys.c $(verbs_two)
tests_unit_test_verbs_keys_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=access
tests_unit_test_verbs_memlock_SOURCES = tests/unit/rdma/test_verbs_memlock.c $(verbs_two)
tests_unit_test_verbs_memlock_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=access -Wl,--wrap=fopen -Wl,--wrap=getrlimit
tests_unit_test_verbs_proof_SOURCES = tests/unit/rdma/test_verbs_proof.c $(verbs_two)
tests_unit_test_verbs_proof_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=access -Wl,--wrap=rdma_connect
tests_unit_test_verbs_path_SOURCES = tests/unit/rdma/test_verbs_path.c $(verbs_two)
tests_unit_test_verbs_path_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=access -Wl,--wrap=fopen
tests_unit_test_verbs_record_SOURCES = tests/unit/rdma/test_verbs_record.c
tests_unit_test_verbs_register_SOURCES = tests/unit/rdma/test_verbs_register.c $(verbs_pair)
tests_unit_test_verbs_register_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=access
tests_unit_test_verbs_rights_SOURCES = tests/unit/rdma/test_verbs_rights.c $(verbs_two)
tests_unit_test_verbs_rights_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=access
tests_unit_test_verbs_ud_SOURCES = tests/unit/rdma/test_verbs_ud.c $(verbs_two)
tests_unit_test_verbs_ud_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=access
tests_unit_test_verbs_walk_SOURCES = tests/unit/rdma/test_verbs_walk.c $(verbs_pair)
tests_unit_test_verbs_walk_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=access -Wl,--wrap=calloc
tests_unit_test_verbs_windows_SOURCES = tests/unit/rdma/test_verbs_windows.c $(verbs_two)
tests_unit_test_verbs_windows_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=access
else
EXTRA_DIST += \
	tests/unit/rdma/test_connect_many.c \
	tests/unit/rdma/test_card_facts.c \
	tests/unit/rdma/test_nearness.c \
	tests/unit/rdma/test_verbs.c \
	tests/unit/rdma/test_verbs_broken.c \
	tests/unit/rdma/test_verbs_device.c \
	tests/unit/rdma/test_verbs_job.c \
	tests/unit/rdma/test_verbs_keys.c \
	tests/unit/rdma/test_verbs_memlock.c \
	tests/unit/rdma/test_verbs_path.c \
	tests/unit/rdma/test_verbs_proof.c \
	tests/unit/rdma/test_verbs_record.c \
	tests/unit/rdma/test_verbs_register.c \
	tests/unit/rdma/test_verbs_rights.c \
	tests/unit/rdma/test_verbs_ud.c \
	tests/unit/rdma/test_verbs_walk.c \
	tests/unit/rdma/test_verbs_windows.c \
	tests/unit/two_gpus.h $(verbs_two)
endif
