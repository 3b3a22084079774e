check_PROGRAMS += tests/fuzz/message_replay
tests_fuzz_message_replay_SOURCES = tests/fuzz/message_fuzz.c tests/fuzz/replay.c

# message_replay alone skips: it is the script that gives it the corpus.
TESTS += tests/fuzz/replay_corpus.sh
dist_check_SCRIPTS += tests/fuzz/replay_corpus.sh
EXTRA_DIST += tests/fuzz/run.sh tests/fuzz/corpus/message
