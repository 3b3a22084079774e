# SPDX-License-Identifier: BSD-3-Clause
# Unit tests of runtime/compress/.
check_PROGRAMS += \
	tests/unit/test_choose \
	tests/unit/test_dct \
	tests/unit/test_dense \
	tests/unit/test_few_bits \
	tests/unit/test_hostile \
	tests/unit/test_index_coding \
	tests/unit/test_index_kernels \
	tests/unit/test_message \
	tests/unit/test_message_round_trip \
	tests/unit/test_quantize \
	tests/unit/test_random_kernels \
	tests/unit/test_random_mix \
	tests/unit/test_select \
	tests/unit/test_select_kernels \
	tests/unit/test_selector \
	tests/unit/test_selector_calls \
	tests/unit/test_shared_messages \
	tests/unit/test_sketch \
	tests/unit/test_uniform \
	tests/unit/test_value_kernels
topk_oracle = tests/unit/compress/topk_oracle.c tests/unit/compress/topk_oracle.h tests/unit/thinned.h \
	tests/unit/vector_kinds.h tests/unit/random.h
message_example = tests/unit/compress/message_example.h tests/unit/random.h
index_layout = tests/unit/compress/index_layout.c tests/unit/compress/index_layout.h $(message_example)
few_bits_values = tests/unit/compress/few_bits_values.h tests/unit/random.h
tests_unit_test_choose_SOURCES = tests/unit/compress/test_choose.c tests/unit/random.h tests/unit/thinned.h
tests_unit_test_dct_SOURCES = tests/unit/compress/test_dct.c tests/unit/random.h
tests_unit_test_dense_SOURCES = tests/unit/compress/test_dense.c $(dense_values)
tests_unit_test_few_bits_SOURCES = tests/unit/compress/test_few_bits.c $(few_bits_values)
tests_unit_test_hostile_SOURCES = tests/unit/compress/test_hostile.c tests/unit/compress/hostile.c \
	tests/unit/compress/hostile_few_bits.c tests/unit/compress/hostile_indices.c tests/unit/compress/hostile.h
tests_unit_test_index_coding_SOURCES = tests/unit/compress/test_index_coding.c $(index_layout)
tests_unit_test_index_kernels_SOURCES = tests/unit/compress/test_index_kernels.c tests/unit/random.h
tests_unit_test_message_SOURCES = tests/unit/compress/test_message.c $(message_example)
tests_unit_test_message_round_trip_SOURCES = tests/unit/compress/test_message_round_trip.c $(index_layout)
tests_unit_test_quantize_SOURCES = tests/unit/compress/test_quantize.c tests/unit/random.h
tests_unit_test_random_kernels_SOURCES = tests/unit/compress/test_random_kernels.c tests/unit/random.h
tests_unit_test_random_mix_SOURCES = tests/unit/compress/test_random_mix.c tests/unit/random.h
tests_unit_test_select_SOURCES = tests/unit/compress/test_select.c $(topk_oracle)
tests_unit_test_select_kernels_SOURCES = tests/unit/compress/test_select_kernels.c tests/unit/vector_kinds.h tests/unit/random.h
tests_unit_test_selector_SOURCES = tests/unit/compress/test_selector.c $(topk_oracle)
tests_unit_test_selector_calls_SOURCES = tests/unit/compress/test_selector_calls.c
tests_unit_test_shared_messages_SOURCES = tests/unit/compress/test_shared_messages.c tests/unit/random.h tests/unit/thinned.h
tests_unit_test_sketch_SOURCES = tests/unit/compress/test_sketch.c tests/unit/vector_kinds.h tests/unit/random.h
tests_unit_test_uniform_SOURCES = tests/unit/compress/test_uniform.c $(few_bits_values)
tests_unit_test_value_kernels_SOURCES = tests/unit/compress/test_value_kernels.c tests/unit/random.h

# Programs for aarch64, if there is a cross compiler.
TESTS += tests/unit/compress/kernels_arm.sh
EXTRA_DIST += tests/unit/compress/kernels_arm.sh tests/unit/compress/bare/cases.h
