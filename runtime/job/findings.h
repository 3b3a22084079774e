/* SPDX-License-Identifier: BSD-3-Clause
 * Findings of ranks that join: a reason for which a rank cannot take part, and warnings, for
 * example about an unknown variable. Each rank puts them into its bootstrap record, and rank 0 logs
 * equal ones once with all ranks that have them. A wrong setting of a thousand ranks is therefore
 * one line. join.c calls these functions. */
#ifndef RUNTIME_FINDINGS_H
#define RUNTIME_FINDINGS_H
#include "base/error.h"
#include "slurm/bootstrap.h"

enum { FINDING_BYTES = ERROR_TEXT_BYTES };
extern const char findings_reason[8], findings_warnings[8]; /* names of entries of a record */

/* Logs the gathered errors, except the one with this text (NULL: all). With a text,
 * findings_log_records() logs that error. */
void findings_log_errors(const struct log_gathered *gathered, const char *except);
/* Logs the gathered warnings, if the records were not exchanged. */
void findings_log_warnings(const struct log_gathered *gathered);
/* Logs all gathered lines, if this rank cannot reach the others. */
void findings_log(const struct log_gathered *gathered);
/* Writes the gathered warnings to text[FINDING_BYTES], one per line, and returns their length. */
size_t findings_collect(const struct log_gathered *gathered, char text[FINDING_BYTES]);

/* On rank 0, logs the findings of all records. */
void findings_log_records(const sluice_job *job);
#endif
