# SPDX-License-Identifier: BSD-3-Clause
# The module of GPUs, loaded when memory of one is first seen (base/device.c) from where base/module.c finds it. Its
# sources also run on the CPU, in tests/gpu/emulation.
AM_CPPFLAGS += -DSLUICE_MODULE_DIR=\"$(pkglibdir)\" -DSLUICE_LIB_DIR=\"$(libdir)\" -DSLUICE_BIN_DIR=\"$(bindir)\" \
	-DSLUICE_CONF_DIR=\"$(sysconfdir)\"

gpu_c = gpu/choose.c gpu/compressor.c gpu/context.c gpu/encoder.c gpu/failure.c gpu/memory.c gpu/module.c gpu/plan.c \
	gpu/selector.c gpu/sketcher.c
gpu_headers = gpu/apply.h gpu/change.h gpu/checksum.h gpu/choose.h gpu/compressor.h gpu/context.h gpu/encoder.h gpu/failure.h gpu/fold.h gpu/histogram.h gpu/in_order.h \
	gpu/kernel.h gpu/memory.h gpu/moments.h gpu/pack.h gpu/plan.h gpu/quantize.h gpu/sample.h gpu/selector.h \
	gpu/sketch.h gpu/sweep.h gpu/tile.h gpu/topk.h gpu/values.h
gpu_kernels = gpu/apply.cu gpu/block_topk.cu gpu/change.cu gpu/dense.cu gpu/draw.cu gpu/fold.cu gpu/gaussian.cu gpu/pack.cu gpu/parts.cu gpu/quantize.cu \
	gpu/sketch.cu gpu/topk.cu

pkglib_LTLIBRARIES =
if HAVE_CUDA
pkglib_LTLIBRARIES += libsluice_cuda.la
libsluice_cuda_la_SOURCES = $(gpu_c) $(gpu_headers)
libsluice_cuda_la_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS)
libsluice_cuda_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared \
	-export-symbols-regex '^sluice_device_(module|kernels)$$'
libsluice_cuda_la_LIBADD = gpu/apply.lo gpu/block_topk.lo gpu/change.lo gpu/dense.lo gpu/draw.lo gpu/fold.lo gpu/gaussian.lo gpu/pack.lo gpu/parts.lo gpu/quantize.lo \
	gpu/sketch.lo gpu/topk.lo $(CUDA_LIBS)
endif
EXTRA_DIST += $(gpu_kernels) $(gpu_c) $(gpu_headers) gpu/nvcc_libtool gpu/RESULTS.md \
	tools/train/cuda_layers.cu

# libtool asks for -fPIC and -DPIC; nvcc passes the first on.
.cu.lo:
	$(AM_V_GEN)$(MKDIR_P) $(@D) && $(LIBTOOL) $(AM_V_lt) --tag=CC --tag=disable-static --mode=compile \
		$(SHELL) $(top_srcdir)/gpu/nvcc_libtool $(NVCC) $(NVCCFLAGS) $(GENCODE) -I$(top_srcdir) \
		-Xptxas -v -MMD -MP -MF $(@:.lo=.cu.d) -MT $@ -c $< -o $@
-include gpu/apply.cu.d gpu/block_topk.cu.d gpu/change.cu.d gpu/dense.cu.d gpu/draw.cu.d gpu/fold.cu.d gpu/gaussian.cu.d gpu/pack.cu.d gpu/parts.cu.d gpu/quantize.cu.d \
	gpu/sketch.cu.d gpu/topk.cu.d
CLEANFILES += gpu/*.cu.d gpu/*.ptxas
SUFFIXES = .cu
