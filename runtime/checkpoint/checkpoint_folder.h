/* SPDX-License-Identifier: BSD-3-Clause
 * The directory of checkpoints: one folder per generation with a file per rank, and LATEST, the
 * text that names the valid generation. Only rank 0 changes anything here but the ranks' own files.
 *
 *   DIR/LATEST                          DIR/step-000000001000-5be1f00d/rank-00000, rank-00001, ...
 *
 * A generation counts only once LATEST names it, and LATEST is replaced atomically after every file
 * of the generation is on disk: at any instant the old checkpoint or the new one is valid. */
#ifndef RUNTIME_CHECKPOINT_FOLDER_H
#define RUNTIME_CHECKPOINT_FOLDER_H
#include "checkpoint/checkpoint_file.h"
#include "checkpoint/durable.h"

/* Longest path of DIR, with its NUL: fits a mail and DURABLE_PATH_BYTES. */
enum { CHECKPOINT_DIR_BYTES = 900 };

struct checkpoint_place {
	char dir[CHECKPOINT_DIR_BYTES]; /* absolute */
	uint64_t step;
	uint32_t generation; /* random: two attempts at one step differ */
};

struct checkpoint_manifest {
	uint64_t step;
	uint32_t generation;
	uint32_t ranks;
	struct checkpoint_sum *sums; /* ranks; of the manifest's owner */
};

/* The absolute path of dir; make: created first, with its parents. SLUICE_EINVAL (too long),
 * SLUICE_EIO. */
int checkpoint_dir(const char *dir, int make, char absolute[CHECKPOINT_DIR_BYTES]);
/* Creates the folder of a new generation and fills in place->generation. SLUICE_EIO. */
int checkpoint_begin(struct checkpoint_place *place);
/* Path of a rank's file. */
void checkpoint_path(const struct checkpoint_place *place, uint32_t rank,
		     char path[DURABLE_PATH_BYTES]);

/* Makes the generation the valid one. After SLUICE_EIO the previous one is still valid (or, if only
 * the last synchronisation failed, this one: both are whole). still: asked when all is written,
 * right before LATEST is replaced; if not 0, it is not, and that is returned. NULL: it may always
 * be. */
int checkpoint_manifest_write(const char *dir, const struct checkpoint_manifest *manifest,
			      int (*still)(void *context), void *context);
/* SLUICE_EIO if there is none or it cannot be read, SLUICE_EWIRE if it is damaged. Free sums after
 * use. */
int checkpoint_manifest_read(const char *dir, struct checkpoint_manifest *manifest_out);

/* Removes what a failed checkpoint left, unless LATEST names it. Failures are warnings. */
void checkpoint_drop(const struct checkpoint_place *place);
/* The generations beside this one: the previous one and what interrupted checkpoints left. Only
 * folders named as above are. To be listed before LATEST names this one, and removed after: a rank
 * that was stopped between the two, and wakes up when the others have gone on without it, then
 * removes nothing of theirs. Failures are warnings. */
struct checkpoint_others *checkpoint_others(const struct checkpoint_place *place);
/* Frees the list; outdated: the generations on it are removed. */
void checkpoint_clean(const struct checkpoint_place *place, struct checkpoint_others **list,
		      int outdated);
#endif
