/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef BASE_WIRE_VERSION_H
#define BASE_WIRE_VERSION_H
/* Of all that ranks say to each other: cards, messages and what lies in shared memory. Ranks of
 * different versions refuse each other. */
#ifndef SLUICE_WIRE_VERSION
#define SLUICE_WIRE_VERSION 6
#endif
#endif
