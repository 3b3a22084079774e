library_sources += \
	runtime/compress/bit_pack.h \
	runtime/compress/candidates.c runtime/compress/candidates.h \
	runtime/compress/choose.c runtime/compress/choose.h \
	runtime/compress/choose_level.c runtime/compress/choose_seeded.c \
	runtime/compress/clip_rules.h \
	runtime/compress/counts.c runtime/compress/counts.h \
	runtime/compress/dct.c runtime/compress/dct.h \
	runtime/compress/dense.c runtime/compress/dense.h \
	runtime/compress/draw_rules.h \
	runtime/compress/few_bits.c runtime/compress/few_bits.h runtime/compress/few_bits_rules.h \
	runtime/compress/few_bits_round.c runtime/compress/few_bits_round.h \
	runtime/compress/gaussian_rules.h \
	runtime/compress/histogram.c runtime/compress/histogram.h \
	runtime/compress/index_coding.c runtime/compress/index_coding.h \
	runtime/compress/index_kernels.c runtime/compress/index_kernels.h runtime/compress/index_wide.h \
	runtime/compress/kernels.c runtime/compress/kernels.h \
	runtime/compress/message.c runtime/compress/message.h \
	runtime/compress/message_rules.h \
	runtime/compress/moments.c runtime/compress/moments.h \
	runtime/compress/philox.h \
	runtime/compress/quantize.c runtime/compress/quantize.h \
	runtime/compress/random.c runtime/compress/random.h \
	runtime/compress/random_avx2.c runtime/compress/random_kernels.h \
	runtime/compress/random_mix.h \
	runtime/compress/random_normal.c runtime/compress/random_wide.h \
	runtime/compress/rice.c runtime/compress/rice.h \
	runtime/compress/select.c runtime/compress/select.h \
	runtime/compress/select_each.c \
	runtime/compress/select_kernels.c runtime/compress/select_kernels.h \
	runtime/compress/select_rules.h \
	runtime/compress/select_sweep.c runtime/compress/select_sweep.h \
	runtime/compress/select_wide.h \
	runtime/compress/seeded_support.c \
	runtime/compress/sketch.c runtime/compress/sketch.h \
	runtime/compress/sketch_kernels.h runtime/compress/sketch_rules.h \
	runtime/compress/sketch_wide.h \
	runtime/compress/sparse.c runtime/compress/sparse.h \
	runtime/compress/topk.c \
	runtime/compress/value_codes.h \
	runtime/compress/value_kernels.c runtime/compress/value_kernels.h \
	runtime/compress/value_wide.h \
	runtime/compress/wide.h runtime/compress/wide_avx2.c runtime/compress/wide_avx512.c
