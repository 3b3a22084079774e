/* SPDX-License-Identifier: BSD-3-Clause
 * The directory of checkpoints: one directory per generation with a file per rank, and LATEST, the
 * text that names the valid generation. Apart from each rank's own file, only rank 0 changes
 * anything here.
 *
 *   DIR/LATEST                          DIR/step-000000001000-5be1f00d/rank-00000, rank-00001, ...
 *
 * A generation counts only once LATEST names it, and LATEST is replaced atomically after every file
 * of the generation is on disk: at any instant the old checkpoint or the new one is valid. */
#ifndef RUNTIME_CHECKPOINT_FOLDER_H
#define RUNTIME_CHECKPOINT_FOLDER_H
#include "checkpoint/checkpoint_file.h"
#include "checkpoint/durable.h"

/* The longest path of DIR, including its NUL. Such a path fits into a control message and into
 * DURABLE_PATH_BYTES. */
enum { CHECKPOINT_DIR_BYTES = 900 };

struct checkpoint_place {
	char dir[CHECKPOINT_DIR_BYTES]; /* an absolute path */
	uint64_t step;
	uint32_t generation; /* random, so that two attempts at the same step differ */
};

struct checkpoint_manifest {
	uint64_t step;
	uint32_t generation;
	uint32_t ranks;
	struct checkpoint_sum *sums; /* one per rank; freed by the manifest's owner */
};

/* Writes the absolute path of dir. With `make`, first creates dir and its parents. Fails with
 * SLUICE_EINVAL (too long) or SLUICE_EIO. */
int checkpoint_dir(const char *dir, int make, char absolute[CHECKPOINT_DIR_BYTES]);
/* Reserves dir, an absolute path, until checkpoint_unlock(), because two jobs that save into one
 * directory at the same time remove each other's files. Fails with SLUICE_EIO if another job has
 * reserved it. On NFS only jobs whose rank 0 is on the same node notice each other. *lock_out
 * becomes -1 if dir cannot be locked. */
int checkpoint_lock(const char *dir, int *lock_out);
void checkpoint_unlock(int *lock);
/* Creates the directory of a new generation and fills in place->generation. Returns 0 or
 * SLUICE_EIO. */
int checkpoint_begin(struct checkpoint_place *place);
/* Writes the path of a rank's file. */
void checkpoint_path(const struct checkpoint_place *place, uint32_t rank,
		     char path[DURABLE_PATH_BYTES]);

/* Makes this generation the valid one. After SLUICE_EIO the previous generation is still valid,
 * unless only the last synchronization failed: then this generation is. still() may be NULL. It is
 * called when everything is written, directly before LATEST is replaced. If it does not return 0,
 * LATEST is not replaced, and its value is returned. */
int checkpoint_manifest_write(const char *dir, const struct checkpoint_manifest *manifest,
			      int (*still)(void *context), void *context);
/* Fails with SLUICE_EIO if there is no manifest or it cannot be read, and with SLUICE_EWIRE if it
 * is damaged. The caller frees sums. */
int checkpoint_manifest_read(const char *dir, struct checkpoint_manifest *manifest_out);

/* Returns 1 if LATEST names another generation, which exists. A damaged LATEST names none. */
int checkpoint_replaced(const struct checkpoint_place *place);
/* Removes the remains of a failed checkpoint, unless LATEST names that checkpoint. Failures are
 * logged as warnings. */
void checkpoint_drop(const struct checkpoint_place *place);
/* Lists the other generations: the previous one, and the remains of interrupted checkpoints. Only
 * directories whose names have the form above are listed. The list is made before LATEST names this
 * generation, and the directories are removed afterwards. If this rank is stopped in between, the
 * others may continue without it and make new directories. When the rank resumes, it removes none
 * of these, because its list is older. Failures are logged as warnings. The generation that LATEST
 * names stays, even if another job made it in the same directory; this is logged, too. */
struct checkpoint_others *checkpoint_others(const struct checkpoint_place *place);
/* Frees the list. With `outdated`, first removes the listed generations. */
void checkpoint_clean(const struct checkpoint_place *place, struct checkpoint_others **list,
		      int outdated);
#endif
