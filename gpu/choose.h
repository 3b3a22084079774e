/* SPDX-License-Identifier: BSD-3-Clause
 * Which of a node's GPUs is this process's. */
#ifndef GPU_CHOOSE_H
#define GPU_CHOOSE_H
#include <stddef.h>

enum { BUS_ID_BYTES = 32 };

/* The only visible GPU, or SLURM_LOCALID modulo their number: each rank of a node its own. why:
 * "GPU 1 of 4 (name, 0000:1b:00.0), by SLURM_LOCALID=5". Does not make it current. 0, or -1
 * (failure.h). */
int choose_gpu(int *device, char *why, size_t cap);
/* "0000:1b:00.0": of the device that is current, unless that is the first one, which all processes
 * begin with: then of the one that choose_gpu() says. */
int choose_bus_id(char *text, size_t cap);
/* Makes it current. */
int choose_and_use(char *why, size_t cap);
/* How many can be used; 0 is a failure with its reason. */
int choose_count(int *n);
#endif
