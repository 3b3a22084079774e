/* SPDX-License-Identifier: BSD-3-Clause
 * Prints texts and numbers as JSON. */
#ifndef TOOLS_JSON_H
#define TOOLS_JSON_H
#include <math.h>
#include <stdio.h>

/* Prints the text in quotes. Bytes that are not printable ASCII become \u00xx, so the output is
 * valid whatever a file or a peer contains. */
static inline void json_text(FILE *to, const char *text)
{
	fputc('"', to);
	for (const unsigned char *c = (const unsigned char *)text; *c; c++)
		if (*c == '"' || *c == '\\')
			fprintf(to, "\\%c", *c);
		else if (*c < 0x20 || *c > 0x7e)
			fprintf(to, "\\u%04x", *c);
		else
			fputc(*c, to);
	fputc('"', to);
}

/* Writes a number, or null for NaN and infinity, which JSON does not have. */
static inline void json_number(FILE *to, double value)
{
	if (isfinite(value))
		fprintf(to, "%.6g", value);
	else
		fputs("null", to);
}
#endif
