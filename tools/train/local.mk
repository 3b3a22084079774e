# SPDX-License-Identifier: BSD-3-Clause
# What needs no job is a library of its own, which the unit tests link too.
noinst_LTLIBRARIES += libtrain.la
libtrain_la_SOURCES = tools/train/complaint.c tools/train/complaint.h \
	tools/train/data.c tools/train/data.h \
	tools/train/idx.c \
	tools/train/input.c tools/train/input.h \
	tools/train/layers.c \
	tools/train/libsvm.c \
	tools/train/loss.c \
	tools/train/methods.c tools/train/methods.h \
	tools/train/network.c tools/train/network.h \
	tools/train/options.c tools/train/options.h \
	tools/train/order.c tools/train/order.h
libtrain_la_CPPFLAGS = $(AM_CPPFLAGS) $(BLAS_CFLAGS) $(ZLIB_CFLAGS)
libtrain_la_LIBADD = $(BLAS_LIBS) $(ZLIB_LIBS) -lm

bin_PROGRAMS += sluice-train
sluice_train_SOURCES = tools/train/agree.c tools/train/agree.h \
	tools/train/main.c \
	tools/train/metrics.c tools/train/metrics.h \
	tools/train/report.c tools/train/report.h \
	tools/train/signals.c tools/train/signals.h \
	tools/train/steps.c tools/train/steps.h \
	tools/train/training.c tools/train/training.h
sluice_train_LDADD = libtrain.la libsluice.la -lm
