/* SPDX-License-Identifier: BSD-3-Clause
 * The folder of --checkpoint, tried before training instead of after it. Called by training.c. */
#ifndef TRAIN_FOLDER_H
#define TRAIN_FOLDER_H
#include "tools/train/complaint.h"

/* Makes the folder and those above it where they are missing. 0 if this process may write into it;
 * -1 with the complaint filled in. */
int folder_prepare(const char *path, struct complaint *complaint);
#endif
