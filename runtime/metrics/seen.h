/* SPDX-License-Identifier: BSD-3-Clause
 * The ranks of this node, as sluice-top and the writer of metrics see them: copies of their pages
 * (metrics/page_layout.h). Any process of the user could have written a page, so everything in it
 * is checked before it is used. */
#ifndef RUNTIME_SEEN_H
#define RUNTIME_SEEN_H
#include "metrics/page_layout.h"
#include <stddef.h>
#include <sys/types.h>

struct seen_rank {
	struct page_who who;
	struct page_wait wait;
	struct page_losses losses;
	struct page_note notes[PAGE_NOTES]; /* the oldest first */
	struct page_model models[PAGE_MODELS];
	struct page_numbers numbers[PAGE_MODELS];
	int busy;    /* number of blocks that could not be copied and are empty here */
	uint64_t ns; /* time of the copy */
	/* For pages that seen_find() has found: */
	pid_t pid;  /* as this process sees it */
	char state; /* state of the process in /proc/PID/stat: R, S, T for stopped, and so on */
	ino_t file; /* inode of the page, which identifies it at the next look */
};

/* Returns the time from then until the page was copied, or 0 if `then` is later. */
static inline double seconds_since(const struct seen_rank *rank, uint64_t then)
{
	return then < rank->ns ? (double)(rank->ns - then) / 1e9 : 0;
}

/* Checks a page of `bytes` bytes and copies it. Retries blocks that are being written, but not for
 * ever. Returns NULL, or why the page is not one. Control bytes of texts become question marks. */
const char *seen_copy(const void *page, size_t bytes, struct seen_rank *out);
/* Writes a page with these contents: sizeof(struct rank_page) bytes. */
void seen_page(const struct seen_rank *rank, void *page);

struct seen {
	struct seen_rank *ranks; /* by job, step, node and rank */
	size_t n;
	int refused;     /* number of files with the name of a page that are none */
	const char *why; /* why the last of them was refused */
};

/* Finds the pages of this user's processes on this machine. job: only those of this job, or of this
 * step (JOB.STEP); NULL: all. Returns 0, or -1 if there is no memory or no /proc; errno has the
 * reason. */
int seen_find(const char *job, struct seen *out);
void seen_free(struct seen *seen);
/* Brings the ranks into the order of struct seen. */
void seen_sort(struct seen *seen);
/* Returns 1 if both belong to the same step. */
int seen_together(const struct seen_rank *a, const struct seen_rank *b);
/* Returns the same rank in an earlier result, or NULL. */
const struct seen_rank *seen_before(const struct seen *seen, const struct seen_rank *rank);
#endif
