/* SPDX-License-Identifier: BSD-3-Clause
 * One rank's checkpoint file in a scratch directory, saved, and the state that a reader fills: for
 * test_checkpoint_file.c and test_checkpoint_damage.c. */
#ifndef TESTS_RANK_FILE_H
#define TESTS_RANK_FILE_H
#include "checkpoint/checkpoint_folder.h"
#include "scratch.h"
#include "cases.h"

enum { COUNT = 13, SPAN = 7, SECTIONS = 6 };
#define RECIPE "up=topk(0.01) down=topk(0.05)"

/* One rank's state, as a writer has it and as a reader fills it. */
struct state {
	float residual[COUNT], velocity[COUNT], parameters[SPAN], shard_residual[SPAN];
	uint64_t lr, version;
};

struct fixture {
	char dir[SCRATCH_PATH], path[SCRATCH_PATH + 16];
	struct state saved, loaded, untouched;
	struct checkpoint_sum sum;
	uint8_t bytes[SCRATCH_FILE];
	size_t n;
};

/* Set up and tear down a test: *state is a fixture whose file is saved. */
int rank_file_open(void **state);
int rank_file_close(void **state);
#define CASE(name) TEST_OF(name, struct fixture *f, rank_file_open, rank_file_close)

struct checkpoint_identity identity(void);
void sections_of(struct state *s, struct checkpoint_section out[SECTIONS]);
/* Makes a state whose values depend on `from`. */
void fill_state(struct state *s, float from);
int save(struct fixture *f);
/* Opens the file and, if that works, loads it into f->loaded. */
int load_as(struct fixture *f, const struct checkpoint_identity *who);
int load(struct fixture *f);
void assert_nothing_stored(const struct fixture *f);
/* Checks that nothing was loaded or stored, and that the message names this part and the path. */
void assert_refused(struct fixture *f, int code, const char *part);
#endif
