/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * addr.c -- "host:port" as text and as a socket address
 */
#include "rdma/verbs/addr.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>

bool ol_verbs_addr_is_oob(const char *text, const char **ret_text)
{
	const size_t chars = strlen(OL_VERBS_OOB_PREFIX);
	const bool is_oob = strncmp(text, OL_VERBS_OOB_PREFIX, chars) == 0;

	*ret_text = is_oob ? text + chars : text;
	return is_oob;
}

/* Splits at the last colon; one that belongs to an IPv6 address must be inside brackets. */
static int addr_split(const char *text, char *host, size_t host_bytes, const char **ret_port)
{
	const char *begin = text;
	const char *end = strrchr(text, ':');
	const char *port;

	if (end == NULL)
		return -EINVAL;
	port = end + 1;
	if (text[0] == '[') {
		if (end[-1] != ']')
			return -EINVAL;
		begin++;
		end--;
	} else if (memchr(text, ':', (size_t)(end - text)) != NULL) {
		return -EINVAL;
	}
	if (end <= begin || (size_t)(end - begin) >= host_bytes)
		return -EINVAL;
	memcpy(host, begin, (size_t)(end - begin));
	host[end - begin] = '\0';
	*ret_port = port;
	return 0;
}

static bool port_valid(const char *port)
{
	unsigned value = 0;

	if (port[0] == '\0')
		return false;
	for (; *port != '\0'; port++) {
		if (*port < '0' || *port > '9')
			return false;
		value = value * 10 + (unsigned)(*port - '0');
		if (value > UINT16_MAX)
			return false;
	}
	return true;
}

int ol_verbs_addr_parse(const char *text, union ol_verbs_addr *ret_addr)
{
	const struct addrinfo hints = {
		.ai_family = AF_UNSPEC,
		.ai_socktype = SOCK_STREAM,
		.ai_flags = AI_NUMERICSERV,
	};
	struct addrinfo *found;
	char host[NI_MAXHOST];
	const char *port;
	int rc;

	rc = addr_split(text, host, sizeof(host), &port);
	if (rc != 0)
		return rc;
	if (!port_valid(port))
		return -EINVAL;
	if (getaddrinfo(host, port, &hints, &found) != 0)
		return -EHOSTUNREACH;
	memset(ret_addr, 0, sizeof(*ret_addr));
	memcpy(ret_addr, found->ai_addr, found->ai_addrlen);
	freeaddrinfo(found);
	return 0;
}

void ol_verbs_addr_text(const struct sockaddr *addr, char ret_text[OL_XPORT_ADDR_MAX])
{
	const socklen_t bytes = addr->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
							    : sizeof(struct sockaddr_in);
	char host[INET6_ADDRSTRLEN + 32]; /* and a scope */
	char port[8];

	if (getnameinfo(addr, bytes, host, sizeof(host), port, sizeof(port),
			NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
		snprintf(ret_text, OL_XPORT_ADDR_MAX, "unknown");
		return;
	}
	snprintf(ret_text, OL_XPORT_ADDR_MAX, addr->sa_family == AF_INET6 ? "[%s]:%s" : "%s:%s",
		 host, port);
}

void ol_verbs_addr_oob_text(const struct sockaddr *addr, char ret_text[OL_XPORT_ADDR_MAX])
{
	char text[OL_XPORT_ADDR_MAX];

	ol_verbs_addr_text(addr, text);
	snprintf(ret_text, OL_XPORT_ADDR_MAX, "%s%.120s", OL_VERBS_OOB_PREFIX, text);
}

socklen_t ol_verbs_addr_bytes(const union ol_verbs_addr *addr)
{
	return addr->sa.sa_family == AF_INET6 ? sizeof(addr->in6) : sizeof(addr->in);
}

bool ol_verbs_addr_is_any(const union ol_verbs_addr *addr)
{
	if (addr->sa.sa_family == AF_INET6)
		return IN6_IS_ADDR_UNSPECIFIED(&addr->in6.sin6_addr);
	return addr->in.sin_addr.s_addr == htonl(INADDR_ANY);
}
