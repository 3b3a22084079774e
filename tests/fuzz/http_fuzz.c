/* SPDX-License-Identifier: BSD-3-Clause
 * Fuzz target for requests to the port of metrics. Input: the bytes of a request. A page is given
 * only for GET and HEAD, and bytes after a request do not change its answer. */
#include "fuzz.h"
#include "metrics/http.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!size)
		return 0;

	char *bytes = get_memory(size);

	memcpy(bytes, data, size);
	const enum http_answer answer = http_decide(bytes, size);

	require(answer != HTTP_PAGE || !strncmp(bytes, "GET /", 5), "a page without GET");
	require(answer != HTTP_HEAD || !strncmp(bytes, "HEAD /", 6), "a header without HEAD");
	for (size_t n = 0; n < size; n++) {
		const enum http_answer part = http_decide(bytes, n);

		require(part == HTTP_MORE || part == answer || part == HTTP_TOO_LONG,
			"the answer changes with the bytes after the request");
	}
	free(bytes);
	return 0;
}
