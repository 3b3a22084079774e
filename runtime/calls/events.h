/* SPDX-License-Identifier: BSD-3-Clause
 * The models that are open in a job, and the events that the job passes to them (job/client.h). */
#ifndef RUNTIME_EVENTS_H
#define RUNTIME_EVENTS_H
#include "sluice.h"

/* After events_begin(), the job's events reach the model under the number model->id, until
 * events_end(). Token not held. */
void events_begin(sluice_model *model);
void events_end(sluice_model *model);
#endif
