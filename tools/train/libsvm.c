/* SPDX-License-Identifier: BSD-3-Clause
 * LIBSVM text: one row per line, "LABEL INDEX:VALUE INDEX:VALUE ...", '#' begins a comment. */
#include "tools/train/data.h"
#include "tools/train/input.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_CLASSES = 65536, FIRST_CAPACITY = 1024 };

/* The state of a set while rows are added. */
struct growth {
	size_t row_capacity, value_capacity;
	size_t values;
	uint32_t widest; /* largest index so far */
	uint64_t line;
};

static int resize(void **array, size_t count, size_t element_bytes)
{
	void *larger = realloc(*array, count * element_bytes);

	if (!larger)
		return -1;
	*array = larger;
	return 0;
}

/* Makes room for one more row. */
static int grow_rows(struct dataset *set, struct growth *growth, struct complaint *complaint)
{
	size_t capacity = growth->row_capacity ? 2 * growth->row_capacity : FIRST_CAPACITY;

	if (set->rows < growth->row_capacity)
		return 0;
	if (resize((void **)&set->row_start, capacity + 1, sizeof(*set->row_start)) ||
	    resize((void **)&set->label, capacity, sizeof(*set->label)) ||
	    resize((void **)&set->line, capacity, sizeof(*set->line)))
		return complain_memory(complaint, "the samples of the data file");
	growth->row_capacity = capacity;
	return 0;
}

/* Makes room for one more value. */
static int grow_values(struct dataset *set, struct growth *growth, struct complaint *complaint)
{
	size_t capacity = growth->value_capacity ? 2 * growth->value_capacity : FIRST_CAPACITY;

	if (growth->values < growth->value_capacity)
		return 0;
	if (resize((void **)&set->column, capacity, sizeof(*set->column)) ||
	    resize((void **)&set->value, capacity, sizeof(*set->value)))
		return complain_memory(complaint, "the values of the data file");
	growth->value_capacity = capacity;
	return 0;
}

static int refuse_line(const struct dataset *set, const struct growth *growth, const char *at,
		       const char *why, struct complaint *complaint)
{
	int length = (int)strcspn(at, " \t\r");

	return complain(complaint,
			"%.200s, line %llu does not parse: %s at \"%.*s\"; expected LABEL "
			"INDEX:VALUE ... with ascending indices",
			set->path, (unsigned long long)growth->line, why, length < 40 ? length : 40,
			at);
}

static int is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

/* Parses one finite number that starts at text. Returns the text after it, or NULL if there is no
 * number. Unlike strtof(), it skips no spaces. */
static char *parse_number(char *text, float *out)
{
	char *end;

	if (is_blank(*text))
		return NULL;
	*out = strtof(text, &end);
	return end == text || !isfinite(*out) ? NULL : end;
}

static int parse_pair(char **text, uint32_t previous, struct dataset *set, struct growth *growth,
		      size_t features, struct complaint *complaint)
{
	char *at = *text, *end;
	unsigned long index;
	float value;

	if (*at < '0' || *at > '9')
		return refuse_line(set, growth, at, "no index", complaint);
	errno = 0;
	index = strtoul(at, &end, 10);
	if (*end != ':' || errno || index < 1 || index > UINT32_MAX)
		return refuse_line(set, growth, at, "no index from 1 to 4294967295 before a colon",
				   complaint);
	if (index <= previous)
		return refuse_line(set, growth, at, "indices do not ascend", complaint);
	end = parse_number(end + 1, &value);
	if (!end || (*end && !is_blank(*end)))
		return refuse_line(set, growth, at, "no finite value", complaint);
	*text = end;
	growth->widest = (uint32_t)index;
	if (features && index > features) {
		set->dropped++;
		return 0;
	}
	if (grow_values(set, growth, complaint))
		return -1;
	set->column[growth->values] = (uint32_t)(index - 1);
	set->value[growth->values++] = value;
	return 0;
}

static int parse_line(char *text, struct dataset *set, struct growth *growth, size_t features,
		      struct complaint *complaint)
{
	uint32_t widest = growth->widest;
	char *at = text, *end;
	float label;

	text[strcspn(text, "#")] = '\0';
	at += strspn(at, " \t\r");
	if (!*at)
		return 0;
	end = parse_number(at, &label);
	if (!end || (*end && !is_blank(*end)))
		return refuse_line(set, growth, at, "no label", complaint);
	if (grow_rows(set, growth, complaint))
		return -1;
	if (growth->line > UINT32_MAX)
		return complain(complaint, "%s has more than 2^32 - 1 lines", set->path);
	set->row_start[set->rows] = growth->values;
	set->label[set->rows] = label;
	set->line[set->rows] = (uint32_t)growth->line;
	growth->widest = 0; /* largest index in this line so far */
	for (;;) {
		end += strspn(end, " \t\r");
		if (!*end)
			break;
		if (parse_pair(&end, growth->widest, set, growth, features, complaint))
			return -1;
	}
	growth->widest = growth->widest > widest ? growth->widest : widest;
	set->row_start[++set->rows] = growth->values;
	return 0;
}

static int compare_floats(const void *a, const void *b)
{
	float left = *(const float *)a, right = *(const float *)b;

	return (left > right) - (left < right);
}

/* Lists the distinct labels in ascending order. Makes no list if a label is not a whole number or
 * there are too many. */
static int list_classes(struct dataset *set, struct complaint *complaint)
{
	float *list = malloc(set->rows * sizeof(*list));
	size_t classes = 0;

	if (!list)
		return complain_memory(complaint, "the list of classes");
	memcpy(list, set->label, set->rows * sizeof(*list));
	qsort(list, set->rows, sizeof(*list), compare_floats);
	for (size_t i = 0; i < set->rows; i++) {
		if (list[i] != floorf(list[i]) || classes > MOST_CLASSES) {
			free(list);
			return 0;
		}
		if (!classes || list[i] != list[classes - 1])
			list[classes++] = list[i];
	}
	set->class_value = list;
	set->classes = classes;
	return 0;
}

int libsvm_load(const char *path, uint64_t limit, size_t features, struct dataset *set,
		struct complaint *complaint)
{
	struct growth growth = { 0 };
	struct input input;
	char *line;
	int more;

	snprintf(set->path, sizeof(set->path), "%s", path);
	if (input_open(&input, path, complaint))
		return -1;
	while ((more = input_line(&input, &line, complaint)) > 0) {
		growth.line++;
		if (parse_line(line, set, &growth, features, complaint)) {
			more = -1;
			break;
		}
		if (limit && set->rows == limit)
			break;
	}
	input_close(&input);
	if (more < 0)
		return -1;
	if (!set->rows)
		return complain(complaint, "%s holds no samples", path);
	set->features = features ? features : growth.widest;
	if (!set->features)
		return complain(complaint, "%s holds labels but no values", path);
	return list_classes(set, complaint);
}
