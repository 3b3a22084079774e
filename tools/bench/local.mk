# SPDX-License-Identifier: BSD-3-Clause
bin_PROGRAMS += sluice-bench
# Selection beside other libraries, a step beside MPI, pictures; not installed.
EXTRA_DIST += tools/bench/RESULTS.md tools/bench/peers.py tools/bench/allreduce.py tools/bench/select-plot tools/bench/timeline-plot \
	tools/bench/network.py tools/bench/race.py tools/bench/race_moves.py tools/bench/race_train.py tools/bench/touched.py
# What needs no job, for the unit tests too.
noinst_LTLIBRARIES += libbench.la
libbench_la_SOURCES = tools/bench/axes.c tools/bench/axes.h \
	tools/bench/options.c tools/bench/options.h \
	tools/bench/rivals.c tools/bench/rivals.h \
	tools/bench/samples.c tools/bench/samples.h \
	base/nearest.c base/nearest.h tools/refused_option.h tools/json.h
sluice_bench_SOURCES = tools/bench/main.c \
	tools/bench/codec.c tools/bench/codec.h \
	tools/bench/densities.c tools/bench/densities.h \
	tools/bench/gpu_vectors.c tools/bench/gpu_vectors.h \
	tools/bench/moves.c tools/bench/moves.h \
	tools/bench/pair.c tools/bench/pair.h \
	tools/bench/raw.c tools/bench/raw.h \
	tools/bench/reduce.c tools/bench/reduce.h \
	tools/bench/select.c tools/bench/select.h \
	tools/bench/select_gpu.c tools/bench/select_gpu.h \
	tools/bench/select_data.c tools/bench/select_data.h \
	tools/bench/step.c tools/bench/step.h \
	tools/bench/resident.c tools/bench/resident.h \
	tools/bench/step_limits.c tools/bench/step_limits.h \
	tools/bench/step_memory.c tools/bench/step_memory.h \
	tools/bench/table.c tools/bench/table.h \
	tools/bench/timeline.c tools/bench/timeline.h
# With private symbols: what codec and reduce measure is not exported.
sluice_bench_LDADD = libbench.la libinternal.la -lm
