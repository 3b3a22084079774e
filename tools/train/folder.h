/* SPDX-License-Identifier: BSD-3-Clause
 * Checks the directory of --checkpoint before training begins. Called by training.c. */
#ifndef TRAIN_FOLDER_H
#define TRAIN_FOLDER_H
#include "tools/train/complaint.h"

/* Creates the directory and its missing parents. Returns 0 if this process may write to it,
 * otherwise -1 with the complaint filled in. */
int folder_prepare(const char *path, struct complaint *complaint);
#endif
