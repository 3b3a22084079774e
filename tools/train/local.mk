# SPDX-License-Identifier: BSD-3-Clause
# What needs no job is a library of its own, which the unit tests link too.
noinst_LTLIBRARIES += libtrain.la
libtrain_la_SOURCES = base/module.c base/module.h base/nearest.c base/nearest.h \
	runtime/recipe/methods.c runtime/recipe/methods.h tools/refused_option.h tools/step_of.h \
	tools/train/complaint.c tools/train/complaint.h \
	tools/train/compute.c tools/train/compute.h \
	tools/train/compute_cpu.c \
	tools/train/data.c tools/train/data.h \
	tools/train/folder.c tools/train/folder.h \
	tools/train/idx.c \
	tools/train/inner.c tools/train/inner.h \
	tools/train/input.c tools/train/input.h \
	tools/train/layers.c \
	tools/train/libsvm.c \
	tools/train/loss.h \
	tools/train/network.c tools/train/network.h \
	tools/train/options.c tools/train/options.h \
	tools/train/order.c tools/train/order.h \
	tools/train/text.c
libtrain_la_CPPFLAGS = $(AM_CPPFLAGS) $(BLAS_CFLAGS) $(ZLIB_CFLAGS)
libtrain_la_LIBADD = $(BLAS_LIBS) $(ZLIB_LIBS) -lm -ldl

bin_PROGRAMS += sluice-train
sluice_train_SOURCES = tools/train/agree.c tools/train/agree.h \
	tools/train/main.c \
	tools/train/metrics.c tools/train/metrics.h \
	tools/train/report.c tools/train/report.h \
	tools/train/signals.c tools/train/signals.h \
	tools/train/steps.c tools/train/steps.h \
	tools/train/training.c tools/train/training.h
sluice_train_LDFLAGS = $(AM_LDFLAGS) $(RPATH_LDFLAGS)
sluice_train_LDADD = libtrain.la libsluice.la -lm

# The module of --device cuda, so that sluice-train itself needs no CUDA. It also runs on the CPU, in tests/gpu.
train_cuda_c = tools/train/cuda_module.c tools/train/cuda_layers.h \
	tools/train/cuda_blas.c tools/train/cuda_blas.h \
	gpu/choose.c gpu/choose.h gpu/failure.c gpu/failure.h gpu/plan.c gpu/plan.h
if HAVE_CUDA
pkglib_LTLIBRARIES += libsluice_train_cuda.la
libsluice_train_cuda_la_SOURCES = $(train_cuda_c)
libsluice_train_cuda_la_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS)
libsluice_train_cuda_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared \
	-export-symbols-regex '^sluice_train_module$$'
libsluice_train_cuda_la_LIBADD = tools/train/cuda_layers.lo $(CUDA_LIBS)
endif
-include tools/train/cuda_layers.cu.d
CLEANFILES += tools/train/*.cu.d tools/train/*.ptxas
