fuzz_targets = \
	tests/fuzz/message_replay \
	tests/fuzz/card_replay \
	tests/fuzz/checkpoint_replay \
	tests/fuzz/conf_replay \
	tests/fuzz/histogram_replay \
	tests/fuzz/http_replay \
	tests/fuzz/page_replay \
	tests/fuzz/peer_replay \
	tests/fuzz/recipe_replay \
	tests/fuzz/restore_replay \
	tests/fuzz/trace_replay
if HAVE_VERBS
fuzz_targets += tests/fuzz/frame_replay
endif
check_PROGRAMS += $(fuzz_targets)

fuzz_common = tests/fuzz/fuzz.h tests/fuzz/replay.c
tests_fuzz_message_replay_SOURCES = tests/fuzz/message_fuzz.c $(fuzz_common)
tests_fuzz_card_replay_SOURCES = tests/fuzz/card_fuzz.c $(fuzz_common)
tests_fuzz_checkpoint_replay_SOURCES = \
	tests/fuzz/checkpoint_fuzz.c tests/unit/reseal.h tests/unit/scratch.h $(fuzz_common)
tests_fuzz_conf_replay_SOURCES = tests/fuzz/conf_fuzz.c $(fuzz_common)
tests_fuzz_histogram_replay_LDADD = libestimate.la $(LDADD)
tests_fuzz_histogram_replay_SOURCES = tests/fuzz/histogram_fuzz.c $(fuzz_common)
tests_fuzz_recipe_replay_SOURCES = tests/fuzz/recipe_fuzz.c $(fuzz_common)
tests_fuzz_page_replay_LDADD = libtop.la $(LDADD)
tests_fuzz_page_replay_SOURCES = tests/fuzz/page_fuzz.c $(fuzz_common)
tests_fuzz_peer_replay_SOURCES = tests/fuzz/peer_fuzz.c tests/unit/scratch.h $(fuzz_common)
tests_fuzz_restore_replay_SOURCES = \
	tests/fuzz/restore_fuzz.c tests/unit/reseal.h tests/unit/scratch.h $(fuzz_common)
tests_fuzz_http_replay_SOURCES = tests/fuzz/http_fuzz.c $(fuzz_common)
tests_fuzz_trace_replay_SOURCES = tests/fuzz/trace_fuzz.c $(fuzz_common)
tests_fuzz_frame_replay_SOURCES = tests/fuzz/frame_fuzz.c $(fuzz_common)

# A replay program alone skips: it is the script that gives each its corpus.
TESTS += tests/fuzz/replay_corpus.sh
dist_check_SCRIPTS += tests/fuzz/replay_corpus.sh
EXTRA_DIST += tests/fuzz/run.sh tests/fuzz/frame_fuzz.c tests/fuzz/corpus
