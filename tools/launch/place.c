/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * place.c -- servers are spread so that each host has as few as can be, replicas of a shard apart
 */
#include "launch/place.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* What speaks against a host; compared from the first member on */
struct cost {
	uint32_t host_shared; /* it has a replica of the shard */
	uint32_t rack_shared; /* its rack has */
	uint32_t servers; /* that it has already */
	uint32_t heads; /* of these */
};

static bool cost_is_less(const struct cost *a, const struct cost *b)
{
	if (a->host_shared != b->host_shared)
		return a->host_shared < b->host_shared;
	if (a->rack_shared != b->rack_shared)
		return a->rack_shared < b->rack_shared;
	if (a->servers != b->servers)
		return a->servers < b->servers;
	return a->heads < b->heads;
}

static bool racks_are_one(const struct launch_host *a, const struct launch_host *b)
{
	return a == b || (a->rack[0] != '\0' && strcmp(a->rack, b->rack) == 0);
}

/* What a host costs for the server `index`, where servers[i] is LAUNCH_ANY for those without a place */
static struct cost cost_of(const struct launch_host *hosts, uint32_t host,
			   const struct launch_shape *shape, const uint32_t *servers,
			   uint32_t index)
{
	struct cost cost = { 0 };

	for (uint32_t i = 0; i < shape->shards * shape->replicas; i++) {
		bool is_of_shard = i / shape->replicas == index / shape->replicas;

		if (i == index || servers[i] == LAUNCH_ANY)
			continue;
		if (servers[i] == host) {
			cost.servers++;
			cost.heads += i % shape->replicas == 0;
			cost.host_shared += is_of_shard;
		}
		if (is_of_shard && racks_are_one(&hosts[servers[i]], &hosts[host]))
			cost.rack_shared++;
	}
	return cost;
}

uint32_t launch_place_server(const struct launch_host *hosts, uint32_t host_count,
			     const struct launch_shape *shape, const uint32_t *servers,
			     uint32_t index)
{
	struct cost best = { 0 };
	uint32_t found = LAUNCH_ANY, first = 0;

	/* of hosts that are as good the one behind its predecessor's: else the first ones get too many */
	if (index % shape->replicas != 0 && servers[index - 1] != LAUNCH_ANY)
		first = servers[index - 1] + 1;
	for (uint32_t i = 0; i < host_count; i++) {
		uint32_t host = (first + i) % host_count;
		struct cost cost = cost_of(hosts, host, shape, servers, index);

		if (hosts[host].is_lost || cost.servers >= hosts[host].servers)
			continue;
		if ((shape->apart == LAUNCH_APART_HOST && cost.host_shared > 0) ||
		    (shape->apart == LAUNCH_APART_RACK && cost.rack_shared > 0))
			continue;
		if (found == LAUNCH_ANY || cost_is_less(&cost, &best)) {
			found = host;
			best = cost;
		}
	}
	return found;
}

uint32_t launch_place_worker(const struct launch_host *hosts, uint32_t host_count,
			     const struct launch_shape *shape, const uint32_t *workers,
			     uint32_t index)
{
	uint32_t counts[LAUNCH_HOSTS_MAX] = { 0 }, found = LAUNCH_ANY;

	for (uint32_t i = 0; i < shape->workers; i++) {
		if (i != index && workers[i] != LAUNCH_ANY)
			counts[workers[i]]++;
	}
	for (uint32_t host = 0; host < host_count; host++) {
		if (hosts[host].is_lost || counts[host] >= hosts[host].slots)
			continue;
		if (found == LAUNCH_ANY || counts[host] < counts[found])
			found = host;
	}
	return found;
}

/* Why a server has no place, in words */
static void server_fault(const struct launch_host *hosts, uint32_t host_count,
			 const struct launch_shape *shape, char *err, size_t err_bytes)
{
	uint32_t takers = 0, racks = 0;

	for (uint32_t i = 0; i < host_count; i++) {
		bool is_new = hosts[i].servers > 0;

		takers += is_new;
		for (uint32_t j = 0; j < i && is_new; j++)
			is_new = hosts[j].servers == 0 || !racks_are_one(&hosts[i], &hosts[j]);
		racks += is_new;
	}
	if (shape->apart == LAUNCH_APART_HOST && takers < shape->replicas)
		snprintf(
			err, err_bytes,
			"%u replicas of a shard need %u hosts, and there are %u that take servers: "
			"--apart none lets them share a host",
			shape->replicas, shape->replicas, takers);
	else if (shape->apart == LAUNCH_APART_RACK && racks < shape->replicas)
		snprintf(
			err, err_bytes,
			"%u replicas of a shard need %u racks, and there are %u: --apart host lets "
			"them share a rack",
			shape->replicas, shape->replicas, racks);
	else
		snprintf(err, err_bytes,
			 "%u servers have no room: the hosts take fewer (servers=N in the file of "
			 "--hosts)",
			 shape->shards * shape->replicas);
}

static int servers_place(const struct launch_host *hosts, uint32_t host_count,
			 const struct launch_shape *shape, uint32_t *ret_servers, char *err,
			 size_t err_bytes)
{
	for (uint32_t i = 0; i < shape->shards * shape->replicas; i++)
		ret_servers[i] = LAUNCH_ANY;
	/* heads first, which have the most to do */
	for (uint32_t replica = 0; replica < shape->replicas; replica++) {
		for (uint32_t shard = 0; shard < shape->shards; shard++) {
			uint32_t index = shard * shape->replicas + replica;

			ret_servers[index] =
				launch_place_server(hosts, host_count, shape, ret_servers, index);
			if (ret_servers[index] != LAUNCH_ANY)
				continue;
			server_fault(hosts, host_count, shape, err, err_bytes);
			return -EINVAL;
		}
	}
	return 0;
}

int launch_place(const struct launch_host *hosts, uint32_t host_count,
		 const struct launch_shape *shape, uint32_t *ret_servers, uint32_t *ret_workers,
		 char *err, size_t err_bytes)
{
	uint32_t counts[LAUNCH_HOSTS_MAX] = { 0 }, next = 0;
	int rc = servers_place(hosts, host_count, shape, ret_servers, err, err_bytes);

	if (rc != 0)
		return rc;
	for (uint32_t i = 0; i < shape->workers; i++)
		ret_workers[i] = LAUNCH_ANY;
	for (uint32_t i = 0; i < shape->workers; i++) {
		ret_workers[i] = launch_place_worker(hosts, host_count, shape, ret_workers, i);
		if (ret_workers[i] == LAUNCH_ANY) {
			snprintf(err, err_bytes,
				 "%u workers, and the hosts take %u: give fewer --workers, or more "
				 "slots=N in the file of --hosts",
				 shape->workers, i);
			return -EINVAL;
		}
		counts[ret_workers[i]]++;
	}
	for (uint32_t host = 0; host < host_count; host++) { /* adjacent ids */
		for (uint32_t i = 0; i < counts[host]; i++)
			ret_workers[next++] = host;
	}
	return 0;
}

int launch_place_ensemble(const struct launch_host *hosts, uint32_t host_count, uint32_t servers,
			  uint32_t *ret_hosts, char *err, size_t err_bytes)
{
	if (host_count > 1 && host_count < servers) {
		snprintf(err, err_bytes, "%u servers of ZooKeeper need %u hosts, and there are %u",
			 servers, servers, host_count);
		return -EINVAL;
	}
	for (uint32_t i = 0; i < servers; i++) {
		struct cost best = { 0 };
		uint32_t found = LAUNCH_ANY;

		for (uint32_t host = 0; host < host_count; host++) {
			struct cost cost = { 0 };

			for (uint32_t j = 0; j < i; j++) {
				cost.host_shared += ret_hosts[j] == host;
				cost.rack_shared +=
					racks_are_one(&hosts[ret_hosts[j]], &hosts[host]);
			}
			if (found != LAUNCH_ANY && !cost_is_less(&cost, &best))
				continue;
			found = host;
			best = cost;
		}
		ret_hosts[i] = found;
	}
	return 0;
}
