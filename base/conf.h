/* SPDX-License-Identifier: BSD-3-Clause
 * The files of settings: sluice.conf(5). The site's file is read first, and then the user's, whose
 * values replace the site's; SLUICE_CONF names one file instead. This reader checks the form and
 * the names of the settings. env.c checks their values. */
#ifndef BASE_CONF_H
#define BASE_CONF_H
#include "base/env_table.h"

enum { CONF_FILES = 2, CONF_FILE_BYTES = 65536, CONF_WHY_BYTES = 512 };

/* The value of one setting. text is NULL if no file has the setting, and "" if a file resets it to
 * its default. */
struct conf_value {
	const char *text, *file;
	int line;
};

/* Reads the files again. Returns 0, or SLUICE_EINVAL, SLUICE_EIO or SLUICE_ENOMEM with a message
 * that names the file and the line; the values then remain as they were. A file that does not exist
 * is none. Logs a warning for each unknown name, which is ignored. */
int conf_load(void);
/* Returns the value that the files give to env_table[entry]. Reads the files if they were never
 * read; a file that conf_load() would refuse then counts as empty. The texts stay valid. Any thread
 * may call this. */
struct conf_value conf_value(size_t entry);
/* Receives the name, file and line of a setting that does not exist. */
typedef void (*conf_unknown_fn)(const struct conf_value *name);
/* Cuts bytes[0..n), whose byte n is 0, into texts, and adds their values. Calls unknown, if it is
 * not NULL, for each unknown name. Returns 0, or -1 and why. */
int conf_parse(char *bytes, size_t n, const char *file, struct conf_value values[ENV_ENTRIES_MAX],
	       conf_unknown_fn unknown, char why[CONF_WHY_BYTES]);
#endif
