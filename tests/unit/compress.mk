check_PROGRAMS += \
	tests/unit/test_choose \
	tests/unit/test_estimate \
	tests/unit/test_histogram \
	tests/unit/test_histogram_messages \
	tests/unit/test_few_bits \
	tests/unit/test_uniform \
	tests/unit/test_select \
	tests/unit/test_selector \
	tests/unit/test_selector_calls \
	tests/unit/test_select_kernels \
	tests/unit/test_quantize \
	tests/unit/test_index_coding \
	tests/unit/test_random_mix \
	tests/unit/test_index_kernels \
	tests/unit/test_value_kernels \
	tests/unit/test_sketch \
	tests/unit/test_message \
	tests/unit/test_message_round_trip \
	tests/unit/test_hostile
topk_oracle = tests/unit/topk_oracle.c tests/unit/topk_oracle.h tests/unit/thinned.h tests/unit/vector_kinds.h \
	tests/unit/random.h
tests_unit_test_select_SOURCES = tests/unit/test_select.c $(topk_oracle)
tests_unit_test_selector_SOURCES = tests/unit/test_selector.c $(topk_oracle)
tests_unit_test_selector_calls_SOURCES = tests/unit/test_selector_calls.c
tests_unit_test_select_kernels_SOURCES = tests/unit/test_select_kernels.c tests/unit/vector_kinds.h tests/unit/random.h
tests_unit_test_quantize_SOURCES = tests/unit/test_quantize.c tests/unit/random.h
tests_unit_test_random_mix_SOURCES = tests/unit/test_random_mix.c tests/unit/random.h
tests_unit_test_index_kernels_SOURCES = tests/unit/test_index_kernels.c tests/unit/random.h
tests_unit_test_value_kernels_SOURCES = tests/unit/test_value_kernels.c tests/unit/random.h
tests_unit_test_sketch_SOURCES = tests/unit/test_sketch.c tests/unit/vector_kinds.h tests/unit/random.h
message_example = tests/unit/message_example.h tests/unit/random.h
index_layout = tests/unit/index_layout.c tests/unit/index_layout.h $(message_example)
tests_unit_test_message_SOURCES = tests/unit/test_message.c $(message_example)
tests_unit_test_message_round_trip_SOURCES = tests/unit/test_message_round_trip.c $(index_layout)
tests_unit_test_index_coding_SOURCES = tests/unit/test_index_coding.c $(index_layout)
tests_unit_test_hostile_SOURCES = tests/unit/test_hostile.c tests/unit/hostile.c \
	tests/unit/hostile_few_bits.c tests/unit/hostile_indices.c tests/unit/hostile.h
tests_unit_test_choose_SOURCES = tests/unit/test_choose.c tests/unit/random.h
bins = tests/unit/bins.h tests/unit/quiet.h tests/unit/random.h
tests_unit_test_histogram_LDADD = libestimate.la $(LDADD)
tests_unit_test_histogram_messages_LDADD = libestimate.la $(LDADD)
tests_unit_test_estimate_LDADD = libestimate.la $(LDADD)
tests_unit_test_histogram_SOURCES = tests/unit/test_histogram.c $(bins)
tests_unit_test_histogram_messages_SOURCES = tests/unit/test_histogram_messages.c $(bins)
tests_unit_test_estimate_SOURCES = tests/unit/test_estimate.c tests/unit/random.h
few_bits_values = tests/unit/few_bits_values.h tests/unit/random.h
tests_unit_test_few_bits_SOURCES = tests/unit/test_few_bits.c $(few_bits_values)
tests_unit_test_uniform_SOURCES = tests/unit/test_uniform.c $(few_bits_values)
