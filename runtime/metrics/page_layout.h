/* SPDX-License-Identifier: BSD-3-Clause
 * The layout of the page that a rank writes for sluice-top and for metrics: a sealed memory file of
 * the process, which other processes of its user find in /proc/PID/fd. job/page.c writes it, and
 * copy.c reads it. Change PAGE_VERSION with any change here.
 *
 * The page consists of blocks. Each block has a sequence number, which is odd while the block is
 * written, and its contents as words of 64 bits. The writer stores the words with release order,
 * and the reader loads them with acquire order. A reader that sees a new word therefore also sees
 * that the sequence number has changed. */
#ifndef RUNTIME_PAGE_LAYOUT_H
#define RUNTIME_PAGE_LAYOUT_H
#include "sluice.h"
#include <stdatomic.h>
#include <stdint.h>

#define PAGE_MAGIC UINT64_C(0x706f746369756c73)
#define PAGE_FILE  "sluice-top" /* the name of the file begins with this word and a colon */
enum {
	PAGE_VERSION = 2,
	PAGE_MODELS = 12,
	PAGE_LOSSES = 16,
	PAGE_NOTES = 8,
	PAGE_NAME_BYTES = 64,
	PAGE_TEXT_BYTES = 240,
	PAGE_REASON_BYTES = 112,
	PAGE_RECIPE_BYTES = 1024
};

/* Does not change. The other contents are valid only if these numbers are the reader's. */
struct page_head {
	uint64_t magic;
	uint32_t version;
	uint32_t bytes; /* of the page */
};

/* The contents of the blocks. All times are those of CLOCK_MONOTONIC in nanoseconds. Texts end with
 * a zero byte. */
struct page_who {
	char job[PAGE_NAME_BYTES]; /* the number of Slurm's job, or "" without Slurm */
	char step[PAGE_NAME_BYTES];
	char node[PAGE_NAME_BYTES];
	char transports[PAGE_NAME_BYTES]; /* the open transports, separated by commas */
	char library[PAGE_NAME_BYTES];    /* version of the library */
	int32_t rank, size, servers;
	int32_t pid; /* as the process itself sees it */
	uint64_t start_ns;
	uint64_t meeting; /* equal on all ranks of a job; two jobs almost surely differ */
};
struct page_wait {
	uint64_t since_ns; /* 0: no call of this rank waits */
	char text[2 * PAGE_TEXT_BYTES];
};
struct page_loss {
	int32_t rank;
	int32_t unused;
	uint64_t ns;
	char why[PAGE_REASON_BYTES];
};
struct page_losses {
	uint64_t count; /* may be larger than PAGE_LOSSES; then the last ones are missing */
	struct page_loss at[PAGE_LOSSES];
};
struct page_note {       /* a line of the log; entry `number` modulo PAGE_NOTES */
	uint64_t number; /* counted from 1; 0: no line yet */
	uint64_t ns;
	uint64_t level; /* 0: error, 1: warning */
	char text[PAGE_TEXT_BYTES];
};
struct page_model {
	uint64_t count; /* of parameters; 0: this entry has no model */
	uint32_t id, shards;
	int32_t group; /* color of the group, or -1 */
	int32_t unused;
	char recipe[PAGE_RECIPE_BYTES];
};
struct page_numbers {     /* of the model with the same index */
	uint64_t ns;      /* time at which this was written; 0: not yet */
	uint64_t version; /* number of steps; on a server, the version of its first shard */
	sluice_model_stats stats;
};

#define PAGE_BLOCK(contents)                                                                       \
	struct {                                                                                   \
		_Atomic uint64_t sequence;                                                         \
		_Atomic uint64_t words[sizeof(contents) / sizeof(uint64_t)];                       \
	}

struct rank_page {
	struct page_head head;
	PAGE_BLOCK(struct page_who) who;
	PAGE_BLOCK(struct page_wait) wait;
	PAGE_BLOCK(struct page_losses) losses;
	PAGE_BLOCK(struct page_note) notes[PAGE_NOTES];
	PAGE_BLOCK(struct page_model) models[PAGE_MODELS];
	PAGE_BLOCK(struct page_numbers) numbers[PAGE_MODELS];
};
#endif
