/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * http.h -- one page of text, served over HTTP by the thread that calls
 *
 * Nothing is authenticated, and nothing is encrypted.
 */
#ifndef OUTLAST_HTTP_H
#define OUTLAST_HTTP_H

#include <stdbool.h>
#include <stddef.h>

enum {
	HTTP_URL_MAX = 320
};

/* The page and the limits. All is set. */
struct http_opts {
	const char *cmd; /* subcommand, for error lines */
	const char *listen; /* "HOST:PORT", an IPv6 address in brackets; port 0: any that is free */
	const char *path; /* of the page */
	unsigned connections_max; /* half of them, rounded up, from one address */
	int signal_fd; /* readable: ended() is asked */
	bool (*ended)(void *arg);
	void (*ready)(void *arg, const char *url); /* it listens, and the page is at url */
	/* Called each turn of its loop; in how many milliseconds to call it again, at the latest; -1: whenever */
	int (*turn)(void *arg);
	/* Makes the page, and says its Content-Type; accept: of the request's header, or NULL. The caller
	   frees *ret_text. Returns 0, or a negative errno */
	int (*page)(void *arg, const char *accept, const char **ret_type, char **ret_text,
		    size_t *ret_bytes);
	void *arg;
};

/*
 * http_serve -- serve the page until ended() says so; logs the address
 *
 * Answers one request at a time. A client that is silent for 30 s is put off. Returns 0, or an exit
 * code after an error line.
 */
int http_serve(const struct http_opts *opts);

#endif /* OUTLAST_HTTP_H */
