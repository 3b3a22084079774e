/* SPDX-License-Identifier: BSD-3-Clause
 * IDX files, the format of MNIST and its relatives: a magic number, big-endian sizes, bytes. */
#include "tools/train/data.h"
#include "tools/train/input.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAGIC_LABELS = 0x801, MAGIC_IMAGES = 0x803, MOST_DIMENSIONS = 3 };

/* Deflate compresses by at most about 1:1032, so a header that announces more is wrong. This is
 * checked before memory is allocated. */
enum { BEST_COMPRESSION = 1040 };

struct idx_header {
	uint32_t size[MOST_DIMENSIONS];
	size_t row_bytes;
};

/* Opens directory/name or, if that is missing, directory/name.gz. */
static int open_either(struct input *input, const char *folder, const char *name,
		       struct complaint *complaint)
{
	char path[sizeof(input->path)];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	if (access(path, F_OK) == 0)
		return input_open(input, path, complaint);
	snprintf(path, sizeof(path), "%s/%s.gz", folder, name);
	if (access(path, F_OK) == 0)
		return input_open(input, path, complaint);
	return complain(complaint,
			"%.250s holds neither %s nor %s.gz: not a directory of IDX files", folder,
			name, name);
}

/* Reads magic and sizes. row_bytes is the product of all sizes except the first. */
static int read_header(struct input *input, uint32_t magic, struct idx_header *header,
		       struct complaint *complaint)
{
	unsigned dimensions = magic & 0xff;
	uint8_t bytes[4 * (MOST_DIMENSIONS + 1)];
	uint32_t word[MOST_DIMENSIONS + 1];
	uint64_t row_bytes = 1;

	if (input_read(input, bytes, 4 * (dimensions + 1), complaint))
		return -1;
	for (unsigned i = 0; i <= dimensions; i++)
		word[i] = (uint32_t)bytes[4 * i] << 24 | (uint32_t)bytes[4 * i + 1] << 16 |
			  (uint32_t)bytes[4 * i + 2] << 8 | bytes[4 * i + 3];
	if (word[0] != magic)
		return complain(complaint, "%s has magic number 0x%08x where IDX %s have 0x%08x",
				input->path, word[0], magic == MAGIC_IMAGES ? "images" : "labels",
				magic);
	for (unsigned i = 0; i < dimensions; i++) {
		header->size[i] = word[i + 1];
		if (!word[i + 1] || (i && word[i + 1] > UINT16_MAX))
			return complain(complaint,
					"the header of %s gives dimension %u the size "
					"%u, which is out of range",
					input->path, i + 1, word[i + 1]);
		if (i)
			row_bytes *= word[i + 1];
	}
	if (row_bytes * word[1] > input->stored_bytes * BEST_COMPRESSION)
		return complain(complaint,
				"%s announces %u rows of %llu bytes, more than a file of its size "
				"can hold",
				input->path, word[1], (unsigned long long)row_bytes);
	header->row_bytes = (size_t)row_bytes;
	return 0;
}

static int refuse_more(struct input *input, struct complaint *complaint)
{
	int more = input_has_more(input, complaint);

	if (more > 0)
		return complain(complaint, "%s is longer than the sizes in its header say",
				input->path);
	return more;
}

/* Reads all labels even under a limit, because they determine the number of classes. */
static int read_labels(struct input *input, size_t limit, size_t *announced, struct dataset *set,
		       struct complaint *complaint)
{
	struct idx_header header;
	uint8_t *bytes, largest = 0;
	int rc = -1;

	if (read_header(input, MAGIC_LABELS, &header, complaint))
		return -1;
	*announced = header.size[0];
	set->rows = limit && limit < *announced ? limit : *announced;
	snprintf(set->path, sizeof(set->path), "%s", input->path);
	bytes = malloc(*announced);
	set->label = malloc(set->rows * sizeof(*set->label));
	set->class_value = malloc((UINT8_MAX + 1) * sizeof(*set->class_value));
	if (!bytes || !set->label || !set->class_value) {
		complain_memory(complaint, "the labels");
		goto out;
	}
	if (input_read(input, bytes, *announced, complaint) || refuse_more(input, complaint))
		goto out;
	for (size_t row = 0; row < *announced; row++) {
		largest = bytes[row] > largest ? bytes[row] : largest;
		if (row < set->rows)
			set->label[row] = bytes[row];
	}
	set->classes = (size_t)largest + 1;
	for (size_t i = 0; i < set->classes; i++)
		set->class_value[i] = (float)i;
	rc = 0;
out:
	free(bytes);
	return rc;
}

static int read_images(struct input *input, size_t announced, struct dataset *set,
		       struct complaint *complaint)
{
	struct idx_header header;

	if (read_header(input, MAGIC_IMAGES, &header, complaint))
		return -1;
	if (header.size[0] != announced)
		return complain(complaint,
				"sizes disagree: %.200s has %u images, but %.200s has %zu labels",
				input->path, header.size[0], set->path, announced);
	set->features = header.row_bytes;
	set->pixels = malloc(set->rows * set->features);
	if (!set->pixels)
		return complain_memory(complaint, "the images");
	if (input_read(input, set->pixels, set->rows * set->features, complaint))
		return -1;
	return set->rows == announced ? refuse_more(input, complaint) : 0;
}

int idx_load(const char *folder, const char *prefix, uint64_t limit, struct dataset *set,
	     struct complaint *complaint)
{
	struct input input = { 0 };
	char name[64];
	size_t announced;
	int rc;

	snprintf(name, sizeof(name), "%s-labels-idx1-ubyte", prefix);
	rc = open_either(&input, folder, name, complaint);
	if (!rc)
		rc = read_labels(&input, (size_t)limit, &announced, set, complaint);
	input_close(&input);
	if (rc)
		return rc;
	snprintf(name, sizeof(name), "%s-images-idx3-ubyte", prefix);
	rc = open_either(&input, folder, name, complaint);
	if (!rc)
		rc = read_images(&input, announced, set, complaint);
	input_close(&input);
	return rc;
}
