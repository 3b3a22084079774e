/* SPDX-License-Identifier: BSD-3-Clause
 * See http.h. */
#include "metrics/http.h"
#include "base/clock.h"
#include "metrics/openmetrics.h"
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BACKLOG = 8, HEAD_BYTES = 256 };
/* The time limit of a whole connection, and the pause before the next accept() after one that
 * failed for lack of descriptors or memory. */
static const uint64_t limit_ns = 5000000000, rest_ns = 1000000000;

struct connection {
	int fd; /* -1: free */
	uint64_t end_ns;
	char request[HTTP_REQUEST_BYTES];
	size_t used;
	char *reply; /* NULL while the request is read */
	size_t bytes, sent;
};

struct http {
	int fd, port;
	uint64_t rest_until_ns;
	struct connection connections[HTTP_CONNECTIONS];
};

/* ---- the request ------------------------------------------------------------------------ */

/* Returns the length of the request with its empty line, or 0 if it has not ended. */
static size_t request_bytes(const char *bytes, size_t n)
{
	for (size_t i = 0; i + 1 < n; i++)
		if (bytes[i] == '\n' &&
		    (bytes[i + 1] == '\n' ||
		     (bytes[i + 1] == '\r' && i + 2 < n && bytes[i + 2] == '\n')))
			return i + 2;
	return 0;
}

/* Returns 1 if the line begins with the word, and moves after it. */
static int takes(const char **at, const char *end, const char *word)
{
	const size_t n = strlen(word);

	if ((size_t)(end - *at) < n || strncasecmp(*at, word, n) != 0)
		return 0;
	*at += n;
	return 1;
}

/* A page of the web can give its own name this machine's address, and then read from this port. The
 * browser still sends that name. */
static int is_other_host(const char *at, const char *end)
{
	static const char *const own[] = { "localhost", "127.0.0.1", "[::1]" };

	for (const char *line; at < end; at = line ? line + 1 : end) {
		line = memchr(at, '\n', (size_t)(end - at));
		if (!takes(&at, end, "host:"))
			continue;
		while (at < end && (*at == ' ' || *at == '\t'))
			at++;
		for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
			if (takes(&at, end, own[i]))
				return at < end && !strchr(":\r\n", *at);
		return 1;
	}
	return 0;
}

enum http_answer http_decide(const char *bytes, size_t n)
{
	const size_t length = request_bytes(bytes, n);
	const char *at = bytes, *end = bytes + length, *target;
	size_t target_bytes;
	int head;

	if (!length)
		return n >= HTTP_REQUEST_BYTES ? HTTP_TOO_LONG : HTTP_MORE;
	if (memchr(bytes, '\0', length))
		return HTTP_BAD_REQUEST;
	head = n > 5 && !strncmp(at, "HEAD ", 5);
	if (!head && (n < 4 || strncmp(at, "GET ", 4) != 0))
		return memchr(at, ' ', length) ? HTTP_BAD_METHOD : HTTP_BAD_REQUEST;
	target = at + (head ? 5 : 4);
	for (at = target; (at < end) && (*at > ' ') && *at != '?'; at++)
		;
	target_bytes = (size_t)(at - target);
	while ((at < end) && (*at > ' '))
		at++;
	if (!takes(&at, end, " HTTP/1.") || *target != '/')
		return HTTP_BAD_REQUEST;
	at = memchr(at, '\n', (size_t)(end - at));
	if (is_other_host(at + 1, end))
		return HTTP_OTHER_HOST;
	if (target_bytes != 1 && (target_bytes != 8 || strncmp(target, "/metrics", 8) != 0))
		return HTTP_NO_PAGE;
	return head ? HTTP_HEAD : HTTP_PAGE;
}

/* ---- the reply -------------------------------------------------------------------------- */

static const char *status_of(enum http_answer answer)
{
	switch (answer) {
	case HTTP_PAGE:
	case HTTP_HEAD: return "200 OK";
	case HTTP_NO_PAGE: return "404 Not Found";
	case HTTP_BAD_METHOD: return "405 Method Not Allowed\r\nAllow: GET, HEAD";
	case HTTP_OTHER_HOST: return "421 Misdirected Request";
	case HTTP_TOO_LONG: return "431 Request Header Fields Too Large";
	case HTTP_FAILED: return "500 Internal Server Error";
	case HTTP_BAD_REQUEST:
	case HTTP_MORE: break;
	}
	return "400 Bad Request";
}

static void make_reply(struct connection *c, enum http_answer answer, const char *page,
		       size_t bytes)
{
	const int has_page = answer == HTTP_PAGE || answer == HTTP_HEAD;
	int n;

	c->reply = malloc(HEAD_BYTES + bytes);
	if (!c->reply)
		return;
	n = snprintf(c->reply, HEAD_BYTES,
		     "HTTP/1.1 %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\n"
		     "Connection: close\r\n\r\n",
		     status_of(answer), has_page ? OPENMETRICS_TYPE : "text/plain", bytes);
	c->bytes = (size_t)n;
	if (answer == HTTP_PAGE)
		memcpy(c->reply + c->bytes, page, bytes);
	c->bytes += answer == HTTP_PAGE ? bytes : 0;
}

/* Forked children may hold copies of the descriptor, which closing does not end. */
static void end_socket(int fd)
{
	shutdown(fd, SHUT_RDWR);
	close(fd);
}

static void drop_connection(struct connection *c)
{
	end_socket(c->fd);
	free(c->reply);
	*c = (struct connection){ .fd = -1 };
}

static void send_reply(struct connection *c)
{
	const ssize_t n = send(c->fd, c->reply + c->sent, c->bytes - c->sent, MSG_NOSIGNAL);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	c->sent += n > 0 ? (size_t)n : 0;
	if (n < 0 || c->sent == c->bytes)
		drop_connection(c);
}

static void read_request(struct connection *c, char *(*page)(void *context, size_t *bytes),
			 void *context)
{
	const ssize_t n = recv(c->fd, c->request + c->used, sizeof(c->request) - c->used, 0);
	enum http_answer answer;
	char *text = NULL;
	size_t bytes = 0;

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		drop_connection(c);
		return;
	}
	c->used += (size_t)n;
	answer = http_decide(c->request, c->used);
	if (answer == HTTP_MORE)
		return;
	if (answer == HTTP_PAGE || answer == HTTP_HEAD)
		text = page(context, &bytes);
	if (!text && (answer == HTTP_PAGE || answer == HTTP_HEAD))
		answer = HTTP_FAILED;
	make_reply(c, answer, text, text ? bytes : 0);
	free(text);
	if (c->reply)
		send_reply(c);
	else
		drop_connection(c);
}

/* ---- the port --------------------------------------------------------------------------- */

int http_open(int port, struct http **out)
{
	const struct sockaddr_in address = { .sin_family = AF_INET,
					     .sin_port = htons((uint16_t)port),
					     .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	const int on = 1;
	struct sockaddr_in got;
	socklen_t n = sizeof(got);
	struct http *http = calloc(1, sizeof(*http));

	*out = NULL;
	if (!http)
		return ENOMEM;
	for (int i = 0; i < HTTP_CONNECTIONS; i++)
		http->connections[i].fd = -1;
	http->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (http->fd < 0 || setsockopt(http->fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) ||
	    bind(http->fd, (const struct sockaddr *)&address, sizeof(address)) ||
	    listen(http->fd, BACKLOG) || getsockname(http->fd, (struct sockaddr *)&got, &n)) {
		const int failed = errno;

		http_close(&http);
		return failed;
	}
	http->port = ntohs(got.sin_port);
	*out = http;
	return 0;
}

void http_close(struct http **http)
{
	if (!*http)
		return;
	for (int i = 0; i < HTTP_CONNECTIONS; i++)
		if ((*http)->connections[i].fd >= 0)
			drop_connection(&(*http)->connections[i]);
	if ((*http)->fd >= 0)
		end_socket((*http)->fd);
	free(*http);
	*http = NULL;
}

int http_port(const struct http *http)
{
	return http->port;
}

int http_poll(struct http *http, struct pollfd fds[HTTP_FDS], uint64_t now_ns)
{
	int any_free = 0, rest_ms = -1;

	for (int i = 0; i < HTTP_CONNECTIONS; i++) {
		const struct connection *c = &http->connections[i];

		fds[i + 1] = (struct pollfd){ c->fd, c->reply ? POLLOUT : POLLIN, 0 };
		if (c->fd < 0) {
			any_free = 1;
			continue;
		}
		const int ms = ms_until(c->end_ns, now_ns);

		rest_ms = rest_ms < 0 || ms < rest_ms ? ms : rest_ms;
	}
	const int rests = http->rest_until_ns > now_ns;

	if (rests && (rest_ms < 0 || rest_ms > ms_until(http->rest_until_ns, now_ns)))
		rest_ms = ms_until(http->rest_until_ns, now_ns);
	fds[0] = (struct pollfd){ any_free && !rests ? http->fd : -1, POLLIN, 0 };
	return rest_ms;
}

static void accept_all(struct http *http, uint64_t now_ns)
{
	for (int i = 0; i < HTTP_CONNECTIONS; i++) {
		struct connection *c = &http->connections[i];

		if (c->fd >= 0)
			continue;
		c->fd = accept4(http->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
		if (c->fd < 0) {
			if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
				http->rest_until_ns = now_ns + rest_ns;
			return;
		}
		c->end_ns = now_ns + limit_ns;
	}
}

void http_serve(struct http *http, const struct pollfd fds[HTTP_FDS], uint64_t now_ns,
		char *(*page)(void *context, size_t *bytes), void *context)
{
	for (int i = 0; i < HTTP_CONNECTIONS; i++) {
		struct connection *c = &http->connections[i];

		if (c->fd < 0 || c->fd != fds[i + 1].fd)
			continue;
		if (fds[i + 1].revents && c->reply)
			send_reply(c);
		else if (fds[i + 1].revents)
			read_request(c, page, context);
		if (c->fd >= 0 && c->end_ns <= now_ns)
			drop_connection(c);
	}
	if (fds[0].revents)
		accept_all(http, now_ns);
}
