/* SPDX-License-Identifier: BSD-3-Clause
 * The node under examination: files below a root ("" is this machine; tests pass a directory
 * tree of their making) and, on this machine only, the output of programs. */
#ifndef INFO_NODE_H
#define INFO_NODE_H
#include <stddef.h>
#include <stdint.h>

enum { LINE_BYTES = 512, NAMES_MAX = 2048 };

struct node {
	const char *root;
	uint64_t memlock_need; /* bytes */
	int needs_verbs;       /* --need-verbs: missing RDMA is a failure */
	int ranks;             /* --ranks: number of ranks whose cards are shown, or 0 */
};

/* Reads the first line of a file below the root, without trailing spaces. Returns 0, or -1 if the
 * file is missing, empty, or unreadable. */
int node_line(const struct node *node, char line[LINE_BYTES], const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/* Finds the line of a file that begins with key, and skips spaces and a colon. Returns 0 or -1. */
int node_field(const struct node *node, const char *path, const char *key, char value[LINE_BYTES]);
int node_exists(const struct node *node, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
int node_may_open(const struct node *node, const char *path); /* checks for reading and writing */
/* Writes the path with the root in front, for fopen(). */
void node_path(const struct node *node, const char *path, char out[LINE_BYTES]);

struct names {
	char name[NAMES_MAX][64];
	size_t n;
};
/* Lists the entries of a directory in order (numbers by value), without hidden ones. If the
 * directory does not exist, the list is empty. */
void node_list(const struct node *node, struct names *names, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Returns the name of this machine: the name that Slurm gave the node, or otherwise the host
 * name. */
const char *node_name(void);

/* The result of running a program for at most five seconds. The output contains both of its
 * streams, up to capacity - 1 bytes. */
enum asked {
	ASKED_ANSWERED = 0, /* the program ended with status 0 */
	ASKED_ABSENT,       /* the program is not in PATH, or the root is not / */
	ASKED_FAILED,       /* the program failed, and the output has its error */
	ASKED_SILENT        /* the program was killed after five seconds, or did not start */
};
enum asked node_ask(const struct node *node, const char *const *arguments, char *out,
		    size_t capacity);
#endif
