/* SPDX-License-Identifier: BSD-3-Clause
 * guard=warn: watches what this worker sends and what the shards publish, where a part of the
 * coordinates is selected and the rest waits, and warns once if the training diverges by it. The
 * first worker of the job speaks. */
#ifndef RUNTIME_GUARD_H
#define RUNTIME_GUARD_H
#include "worker/hooks.h"

extern const struct step_hooks guard_hooks;
#endif
