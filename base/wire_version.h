/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef BASE_WIRE_VERSION_H
#define BASE_WIRE_VERSION_H
/* The version of everything that ranks exchange: records, messages and the contents of shared
 * memory. Ranks with different versions refuse each other. */
#ifndef SLUICE_WIRE_VERSION
#define SLUICE_WIRE_VERSION 12
#endif
#endif
