/* SPDX-License-Identifier: BSD-3-Clause
 * A server of one page over HTTP, on the loopback interface only. It never blocks: its caller polls
 * the descriptors. Any user and any web page on the machine can send it bytes, so requests and
 * connections are few, short and limited in time, and a request can only read. */
#ifndef RUNTIME_HTTP_H
#define RUNTIME_HTTP_H
#include <poll.h>
#include <stddef.h>
#include <stdint.h>

enum { HTTP_REQUEST_BYTES = 4096, HTTP_CONNECTIONS = 8, HTTP_FDS = HTTP_CONNECTIONS + 1 };

/* The answers to a request. */
enum http_answer {
	HTTP_MORE, /* the request has not ended */
	HTTP_PAGE,
	HTTP_HEAD, /* the page's header */
	HTTP_BAD_REQUEST,
	HTTP_NO_PAGE,
	HTTP_BAD_METHOD,
	HTTP_OTHER_HOST, /* the request is for a server of another name */
	HTTP_TOO_LONG,
	HTTP_FAILED /* the page could not be made */
};
/* Decides about a request from its first n bytes. The page is at /metrics and at /. */
enum http_answer http_decide(const char *bytes, size_t n);

struct http;
/* Opens the port on 127.0.0.1. Returns 0, or the errno value of the failure. */
int http_open(int port, struct http **out);
void http_close(struct http **http);
/* Returns the port. */
int http_port(const struct http *http);
/* Fills the descriptors to poll, whose number is HTTP_FDS. Returns the time until a connection must
 * be closed in milliseconds, or -1. */
int http_poll(struct http *http, struct pollfd fds[HTTP_FDS], uint64_t now_ns);
/* Handles what poll() has found. page: returns the page's text, which is then freed, or NULL if
 * there is no memory. */
void http_serve(struct http *http, const struct pollfd fds[HTTP_FDS], uint64_t now_ns,
		char *(*page)(void *context, size_t *bytes), void *context);
#endif
