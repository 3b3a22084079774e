/* SPDX-License-Identifier: BSD-3-Clause
 * The settings of a process: from the environment, sluice.conf(5) and the defaults. */
#ifndef BASE_ENV_H
#define BASE_ENV_H
#include "base/env_table.h"
#include <stdio.h>

/* Fills *out from the environment, the files of sluice.conf(5) and the defaults, in this order of
 * precedence, and applies SLUICE_LOG by log_configure(). A variable that is set to "" counts as not
 * set. Returns SLUICE_EINVAL if a value cannot be parsed or is out of range; the message names the
 * variable or the line of the file, the value and the range. Returns SLUICE_EIO for a file that
 * cannot be read. For an unknown SLUICE_* name, logs a warning that names the most similar known
 * one. */
int env_load(struct settings *out);
/* Returns the text of a setting that the environment or a file gives, or NULL if neither does. For
 * code that reads one setting before a job or without one. The text is not checked. */
const char *env_text(const char *name);
/* Returns 1 if the word is in a setting that is a list with commas. */
int env_lists(const char *list, const char *word);
/* Reads a range of ports, such as "20000-20063". Returns 0, or -1 if the text is not one. */
int env_ports(const char *text, int *low, int *high);
/* Prints the effective settings in lines of the form "NAME=value (ORIGIN)", where the origin is
 * default, environment, "FILE line N" or attribute. "attribute" means that the value differs from
 * what the other origins give, so the application has chosen it. */
void env_dump(const struct settings *settings, FILE *to);
#endif
