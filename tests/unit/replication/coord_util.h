/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * coord_util.h -- a coordinator in a thread, and clients that wait for what they should see
 */
#ifndef OL_TESTS_UNIT_REPLICATION_COORD_UTIL_H
#define OL_TESTS_UNIT_REPLICATION_COORD_UTIL_H

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "replication/coord/coord.h"
#include "replication/coordinator.h"
#include "support/check.h"
#include "unit/replication/coord_guest.h"

static _Atomic bool toy_mac_fails; /* as a crypto library does without memory */

/* A toy: keyed, and different for any two inputs that these tests have. */
static inline int toy_mac(void *arg, const void *bytes, size_t count,
			  uint8_t mac[OL_COORD_MAC_BYTES])
{
	const uint8_t *at = bytes;
	uint64_t hash = 1469598103934665603u;

	if (atomic_load(&toy_mac_fails))
		return -EIO;
	for (const char *c = arg; *c != '\0'; c++)
		hash = (hash ^ (uint64_t)*c) * 1099511628211u;
	for (size_t i = 0; i < count; i++)
		hash = (hash ^ at[i]) * 1099511628211u;
	for (unsigned i = 0; i < OL_COORD_MAC_BYTES; i++)
		mac[i] = (uint8_t)(hash >> 8 * (i % 8));
	return 0;
}

struct house {
	struct ol_coordd *coordd;
	pthread_t thread;
	char addr[OL_ENDPOINT_MAX + 160];
	atomic_uint views; /* that took effect, as its log says */
	atomic_uint cuts; /* clients that it cut off, as its log says */
	atomic_uint shortages; /* times that it had no file for a client */
};

static inline void house_log(void *arg, const char *text)
{
	struct house *house = arg;

	if (strstr(text, " epoch ") != NULL)
		atomic_fetch_add(&house->views, 1);
	if (strstr(text, "is cut off") != NULL)
		atomic_fetch_add(&house->cuts, 1);
	if (strstr(text, "no file") != NULL)
		atomic_fetch_add(&house->shortages, 1);
}

static inline void *house_run(void *arg)
{
	struct house *house = arg;

	check_ok(ol_coordd_run(house->coordd));
	return NULL;
}

static inline void house_open(struct house *house, const char *listen, char *secret)
{
	struct ol_coordd_opts opts = { .listen = listen,
				       .mac = secret != NULL ? toy_mac : NULL,
				       .mac_arg = secret,
				       .log = house_log,
				       .log_arg = house };
	char err[256] = "";
	int rc;

	atomic_store(&house->views, 0);
	atomic_store(&house->cuts, 0);
	atomic_store(&house->shortages, 0);
	rc = ol_coordd_open(&opts, &house->coordd, err, sizeof(err));
	check_msg(rc == 0, "%s", err);
	snprintf(house->addr, sizeof(house->addr), "%s", ol_coordd_addr(house->coordd));
	check_ok(pthread_create(&house->thread, NULL, house_run, house));
}

static inline void house_close(struct house *house)
{
	ol_coordd_stop(house->coordd);
	check_ok(pthread_join(house->thread, NULL));
	ol_coordd_close(house->coordd);
}

#endif /* OL_TESTS_UNIT_REPLICATION_COORD_UTIL_H */
