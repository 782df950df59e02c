/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * place.h -- which host a server or a worker runs on: pure, hosts and numbers in, host indices out
 *
 * Server r of shard s has the index s * replicas + r. Replicas of a shard are kept apart: they share
 * no host (or rack) unless told otherwise. The
 * same hosts give the same places.
 */
#ifndef LAUNCH_PLACE_H
#define LAUNCH_PLACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	LAUNCH_HOSTS_MAX = 256,
	LAUNCH_NAME_MAX = 128, /* of a host, a rack or an address, with its end */
};

#define LAUNCH_ANY UINT32_MAX /* as many as there are; no host */

/* What of a host the placement asks for */
struct launch_host {
	char name[LAUNCH_NAME_MAX]; /* as ssh or srun takes it */
	char rack[LAUNCH_NAME_MAX]; /* "": a rack of its own */
	char address[LAUNCH_NAME_MAX]; /* that servers listen at; "": its name */
	uint32_t slots; /* workers that it takes */
	uint32_t servers; /* servers that it takes */
	bool is_here; /* this machine */
	bool is_lost; /* cannot be reached any more */
};

/* What the replicas of a shard do not share */
enum launch_apart {
	LAUNCH_APART_NONE, /* nothing, if there is no other way */
	LAUNCH_APART_HOST,
	LAUNCH_APART_RACK
};

struct launch_shape {
	uint32_t shards;
	uint32_t replicas;
	uint32_t workers;
	enum launch_apart apart;
};

/*
 * launch_place -- a host for each server and each worker; workers of one host have adjacent ids
 *
 * Errors: -EINVAL, with words in err: who has no place, and why
 */
int launch_place(const struct launch_host *hosts, uint32_t host_count,
		 const struct launch_shape *shape, uint32_t *ret_servers, uint32_t *ret_workers,
		 char *err, size_t err_bytes);

/* launch_place_server -- another host for one server whose host is lost, beside the others of `servers`;
 * LAUNCH_ANY: there is none */
uint32_t launch_place_server(const struct launch_host *hosts, uint32_t host_count,
			     const struct launch_shape *shape, const uint32_t *servers,
			     uint32_t index);

/* launch_place_worker -- the same for a worker */
uint32_t launch_place_worker(const struct launch_host *hosts, uint32_t host_count,
			     const struct launch_shape *shape, const uint32_t *workers,
			     uint32_t index);

/*
 * launch_place_ensemble -- hosts for ZooKeeper's servers: different ones, of different racks as far as there are any; on a
 * single host all of them
 *
 * Errors: -EINVAL, with words in err
 */
int launch_place_ensemble(const struct launch_host *hosts, uint32_t host_count, uint32_t servers,
			  uint32_t *ret_hosts, char *err, size_t err_bytes);

#endif /* LAUNCH_PLACE_H */
