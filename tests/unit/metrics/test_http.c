/* SPDX-License-Identifier: BSD-3-Clause
 * The port of SLUICE_METRICS_PORT: what it answers to requests, also to hostile ones. */
#include "metrics/http.h"
#include "base/clock.h"
#include "cases.h"
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static const char get[] = "GET /metrics HTTP/1.1\r\nHost: localhost:9500\r\n\r\n";

TEST(request__of_each_kind__gets_its_answer)
{
	static const struct {
		const char *text;
		enum http_answer answer;
	} requests[] = {
		{ get, HTTP_PAGE },
		{ "GET / HTTP/1.0\r\n\r\n", HTTP_PAGE },
		{ "GET /metrics?x=1 HTTP/1.1\nhost: 127.0.0.1\n\n", HTTP_PAGE },
		{ "HEAD /metrics HTTP/1.1\r\nHOST:\t[::1]:80\r\nA: b\r\n\r\n", HTTP_HEAD },
		{ "GET /metric HTTP/1.1\r\n\r\n", HTTP_NO_PAGE },
		{ "GET /metrics/../../etc/passwd HTTP/1.1\r\n\r\n", HTTP_NO_PAGE },
		{ "POST /metrics HTTP/1.1\r\nContent-Length: 4\r\n\r\nabcd", HTTP_BAD_METHOD },
		{ "get /metrics HTTP/1.1\r\n\r\n", HTTP_BAD_METHOD },
		{ "GET /metrics HTTP/1.1\r\nHost: evil.example\r\n\r\n", HTTP_OTHER_HOST },
		{ "GET / HTTP/1.1\r\nHost: localhost.evil.example\r\n\r\n", HTTP_OTHER_HOST },
		{ "GET / HTTP/1.1\r\nHost: 127.0.0.1@evil\r\n\r\n", HTTP_OTHER_HOST },
		{ "GET /metrics\r\n\r\n", HTTP_BAD_REQUEST },
		{ "GET /metrics HTTP/2.0\r\n\r\n", HTTP_BAD_REQUEST },
		{ "GET metrics HTTP/1.1\r\n\r\n", HTTP_BAD_REQUEST },
		{ "GET  HTTP/1.1\r\n\r\n", HTTP_BAD_REQUEST },
		{ "\r\n\r\n", HTTP_BAD_REQUEST },
		{ "\n\n", HTTP_BAD_REQUEST },
		{ "GET /metrics HTTP/1.1\r\n", HTTP_MORE },
		{ "GET", HTTP_MORE },
		{ "", HTTP_MORE },
	};

	for (size_t i = 0; i < sizeof(requests) / sizeof(requests[0]); i++) {
		const size_t n = strlen(requests[i].text);
		char *bytes = malloc(n + !n); /* so that a sanitizer sees a read beyond it */

		assert_non_null(bytes);
		memcpy(bytes, requests[i].text, n);
		if (http_decide(bytes, n) != requests[i].answer)
			fail_msg("%s", requests[i].text);
		free(bytes);
	}
}

TEST(request__with_a_zero_or_without_an_end__is_refused)
{
	static char bytes[HTTP_REQUEST_BYTES];

	assert_int_equal(http_decide("GET /\0 HTTP/1.1\r\n\r\n", 19), HTTP_BAD_REQUEST);
	memset(bytes, 'x', sizeof(bytes));
	assert_int_equal(http_decide(bytes, sizeof(bytes) - 1), HTTP_MORE);
	assert_int_equal(http_decide(bytes, sizeof(bytes)), HTTP_TOO_LONG);
}

/* The time of the tests. The clock does not count, so a slow machine closes no connection. */
#define START ((uint64_t)1000000000)

/* ---- with sockets ------------------------------------------------------------------------ */

static char *give_page(void *context, size_t *bytes)
{
	++*(int *)context;
	*bytes = 6;
	return strdup("# EOF\n");
}

static int dial(const struct http *http)
{
	const struct sockaddr_in address = { .sin_family = AF_INET,
					     .sin_port = htons((uint16_t)http_port(http)),
					     .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	assert_int_equal(connect(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
	return fd;
}

/* Serves once, at this time. Returns the number of open connections before. */
static int serve(struct http *http, uint64_t now, int *pages)
{
	struct pollfd fds[HTTP_FDS];
	int n = 0;

	http_poll(http, fds, now);
	for (int i = 1; i < HTTP_FDS; i++)
		n += fds[i].fd >= 0;
	poll(fds, HTTP_FDS, 10);
	http_serve(http, fds, now, give_page, pages);
	return n;
}

/* Serves until the other side has closed. Returns the reply. */
static const char *reply_to(struct http *http, int fd, uint64_t now, int *pages)
{
	static char reply[1024];
	size_t used = 0;
	ssize_t n;

	do {
		serve(http, now, pages);
		n = recv(fd, reply + used, sizeof(reply) - 1 - used, MSG_DONTWAIT);
		used += n > 0 ? (size_t)n : 0;
	} while (n > 0 || (n < 0 && errno == EAGAIN));
	reply[used] = '\0';
	close(fd);
	return reply;
}

TEST(port__requests_in_pieces_and_bad_ones__are_answered)
{
	struct http *http;
	int pages = 0, fd;
	const char *reply;

	assert_int_equal(http_open(0, &http), 0);
	fd = dial(http);
	for (size_t i = 0; i < sizeof(get) - 1; i++) {
		assert_int_equal(send(fd, get + i, 1, 0), 1);
		serve(http, START, &pages);
	}
	reply = reply_to(http, fd, START, &pages);
	assert_non_null(strstr(reply, "HTTP/1.1 200 OK\r\n"));
	assert_non_null(strstr(reply, "application/openmetrics-text; version=1.0.0"));
	assert_non_null(strstr(reply, "Content-Length: 6\r\n"));
	assert_string_equal(strstr(reply, "\r\n\r\n"), "\r\n\r\n# EOF\n");
	assert_int_equal(pages, 1);
	fd = dial(http);
	assert_int_equal(send(fd, "PUT / HTTP/1.1\r\n\r\n", 18, 0), 18);
	reply = reply_to(http, fd, START, &pages);
	assert_non_null(strstr(reply, "405 Method Not Allowed\r\nAllow: GET, HEAD"));
	assert_int_equal(pages, 1);
	http_close(&http);
	assert_null(http);
}

/* More clients than connections, none of which asks: they are dropped at their time, and a client
 * in the queue is then served. */
TEST(port__full_of_silent_clients__serves_again_after_their_time)
{
	int silent[HTTP_CONNECTIONS], pages = 0, open = 0;
	const uint64_t now = START;
	struct http *http;

	assert_int_equal(http_open(0, &http), 0);
	for (int i = 0; i < HTTP_CONNECTIONS; i++)
		silent[i] = dial(http);
	while (open < HTTP_CONNECTIONS)
		open = serve(http, now, &pages);
	const int fd = dial(http);

	assert_int_equal(send(fd, get, sizeof(get) - 1, 0), sizeof(get) - 1);
	for (int i = 0; i < 10; i++)
		assert_int_equal(serve(http, now + 4000000000, &pages), HTTP_CONNECTIONS);
	serve(http, now + 6000000000, &pages);
	assert_non_null(strstr(reply_to(http, fd, now + 6000000000, &pages), "200 OK"));
	for (int i = 0; i < HTTP_CONNECTIONS; i++)
		close(silent[i]);
	http_close(&http);
}

TEST(port__in_use__is_an_error)
{
	struct http *first, *second;

	assert_int_equal(http_open(0, &first), 0);
	assert_int_equal(http_open(http_port(first), &second), EADDRINUSE);
	assert_null(second);
	http_close(&first);
}
