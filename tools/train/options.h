/* SPDX-License-Identifier: BSD-3-Clause
 * The command line of sluice-train: every option is parsed strictly and checked here, so that the
 * rest of the program never gets a value out of range. */
#ifndef TRAIN_OPTIONS_H
#define TRAIN_OPTIONS_H
#include "tools/train/complaint.h"
#include "tools/train/inner.h"

#include <stdint.h>

#define DEFAULT_DATA "/usr/share/datasets/fashion-mnist"

enum progress_kind { PROGRESS_AUTO, PROGRESS_ALWAYS, PROGRESS_NEVER };

struct options {
	const char *data; /* directory of IDX files, or a LIBSVM text file */
	const char *test; /* NULL: t10k-* next to the IDX files; for LIBSVM, no test set */
	const char *model;
	const char *recipe;                         /* NULL: the library uses SLUICE_RECIPE */
	const char *recipe_option;                  /* the option that gave it; NULL: none */
	const char *metrics;                        /* NULL: none */
	const char *checkpoint;                     /* NULL: none */
	const char *device;                         /* cpu, cuda, or cuda:FILE with the module */
	uint64_t epochs, limit, batch, every, seed; /* limit, every: 0 for none */
	int servers;
	int no_servers; /* 1: --servers 0 was given, which overrides SLUICE_SERVERS */
	int simulate;   /* number of ranks in this process; 0: a real job */
	int on_failure; /* SLUICE_ABORT, SLUICE_CONTINUE; 0: SLUICE_ON_FAILURE */
	uint32_t shards;
	float lr, lr_decay;
	float smoothness; /* 0: not given */
	int digest, measure, resume, quiet, accumulate;
	int plan;              /* 1: print the plan of the recipe, and do not train */
	enum inner_kind inner; /* INNER_NONE: not given */
	enum progress_kind progress;
	int64_t sleep_rank, nan_rank;  /* -1: no rank */
	uint64_t sleep_step, nan_step; /* steps count from 1 */
	double sleep_seconds;
};

enum options_action { OPTIONS_TRAIN, OPTIONS_HELP, OPTIONS_METHODS, OPTIONS_VERSION };

/* Fills *options and *action from the command line. Returns 0, or -1 with the complaint filled in;
 * *options has valid defaults even then. Its strings point to argv. */
int options_parse(int argc, char **argv, struct options *options, enum options_action *action,
		  struct complaint *complaint);

void options_print_help(void);
void options_print_methods(void);
#endif
