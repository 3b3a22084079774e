/* SPDX-License-Identifier: BSD-3-Clause
 * The models that are open in a job, and what the job tells them (job/client.h). */
#ifndef RUNTIME_EVENTS_H
#define RUNTIME_EVENTS_H
#include "sluice.h"

/* From now on the job's events reach the model, which is number model->id; no more. Token not
 * held. */
void events_begin(sluice_model *model);
void events_end(sluice_model *model);
#endif
