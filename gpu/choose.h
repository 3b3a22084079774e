/* SPDX-License-Identifier: BSD-3-Clause
 * Chooses which of a node's GPUs this process uses. */
#ifndef GPU_CHOOSE_H
#define GPU_CHOOSE_H
#include <stddef.h>

enum { BUS_ID_BYTES = 32 };

/* Chooses the only visible GPU, or the GPU whose number is SLURM_LOCALID modulo the number of GPUs,
 * so that the ranks of a node use different GPUs. why is for example "GPU 1 of 4 (name,
 * 0000:1b:00.0), by SLURM_LOCALID=5". Does not make the GPU current. Returns 0, or -1
 * (failure.h). */
int choose_gpu(int *device, char *why, size_t cap);
/* Writes a bus id, for example "0000:1b:00.0". Every new process has device 0 as its current
 * device. If that is still so, this is the id of the device that choose_gpu() chooses. Otherwise it
 * is the id of the current device. */
int choose_bus_id(char *text, size_t cap);
/* Chooses a GPU and makes it current. */
int choose_and_use(char *why, size_t cap);
/* Counts the usable GPUs. Fails with the reason if there is none. */
int choose_count(int *n);
#endif
