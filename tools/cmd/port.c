/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * port.c -- what a port has counted: what was sent again, refused for want of a receive, lost, and the
 * errors of the link
 */

#include "cmd/port.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	PATH_BYTES = 512,
	PORTS_MAX = 64
};

static const struct ol_port_counter counters[] = {
	/* mlx5, mlx4, hns: the kernel's names */
	{ "hw_counters", "local_ack_timeout_err", OL_PORT_AGAIN },
	{ "hw_counters", "packet_seq_err", OL_PORT_AGAIN },
	{ "hw_counters", "out_of_sequence", OL_PORT_AGAIN },
	{ "hw_counters", "duplicate_request", OL_PORT_AGAIN },
	{ "hw_counters", "implied_nak_seq_err", OL_PORT_AGAIN },
	{ "hw_counters", "roce_adp_retrans", OL_PORT_AGAIN },
	{ "hw_counters", "roce_slow_restart", OL_PORT_AGAIN },
	{ "hw_counters", "rnr_nak_retry_err", OL_PORT_NOT_READY },
	{ "hw_counters", "out_of_buffer", OL_PORT_NOT_READY },
	{ "hw_counters", "req_transport_retries_exceeded", OL_PORT_BROKEN },
	{ "hw_counters", "req_rnr_retries_exceeded", OL_PORT_BROKEN },
	/* bnxt_re */
	{ "hw_counters", "to_retransmits", OL_PORT_AGAIN },
	{ "hw_counters", "seq_err_naks_rcvd", OL_PORT_AGAIN },
	{ "hw_counters", "rnr_naks_rcvd", OL_PORT_NOT_READY },
	{ "hw_counters", "max_retry_exceeded", OL_PORT_BROKEN },
	/* rdma_rxe */
	{ "hw_counters", "completer_retry_err", OL_PORT_AGAIN },
	{ "hw_counters", "out_of_seq_request", OL_PORT_AGAIN },
	{ "hw_counters", "rcvd_seq_err", OL_PORT_AGAIN },
	{ "hw_counters", "rcvd_rnr_err", OL_PORT_NOT_READY },
	{ "hw_counters", "send_rnr_err", OL_PORT_NOT_READY },
	{ "hw_counters", "retry_exceeded_err", OL_PORT_BROKEN },
	{ "hw_counters", "retry_rnr_exceeded_err", OL_PORT_BROKEN },
	/* every port's: IBTA volume 1, 16.1.3.5 */
	{ "counters", "symbol_error", OL_PORT_BROKEN },
	{ "counters", "link_error_recovery", OL_PORT_BROKEN },
	{ "counters", "link_downed", OL_PORT_BROKEN },
	{ "counters", "port_rcv_errors", OL_PORT_BROKEN },
	{ "counters", "port_xmit_discards", OL_PORT_BROKEN },
	{ "counters", "local_link_integrity_errors", OL_PORT_BROKEN },
	{ "counters", "excessive_buffer_overrun_errors", OL_PORT_BROKEN },
};

static bool counter_read(const char *root, const char *device, uint32_t port,
			 const struct ol_port_counter *counter, uint64_t *ret_value)
{
	char path[PATH_BYTES];
	FILE *file;
	bool got;

	snprintf(path, sizeof(path), "%.256s/%.64s/ports/%u/%s/%s", root, device, port,
		 counter->folder, counter->name);
	file = fopen(path, "re");
	if (file == NULL)
		return false;
	got = fscanf(file, "%" SCNu64, ret_value) == 1;
	fclose(file);
	return got;
}

void ol_port_read(const char *root, const char *device, uint32_t port, ol_port_fn take, void *arg)
{
	for (unsigned i = 0; i < sizeof(counters) / sizeof(counters[0]); i++) {
		uint64_t value;

		if (counter_read(root, device, port, &counters[i], &value))
			take(arg, &counters[i], value);
	}
}

/* One port, by name */
struct place {
	char device[64];
	uint32_t port;
};

static int place_order(const void *a, const void *b)
{
	const struct place *one = a, *other = b;
	int order = strcmp(one->device, other->device);

	return order != 0 ? order : (one->port > other->port) - (one->port < other->port);
}

/* The ports of one device, behind the `count` that are known; how many there are now */
static uint32_t device_ports(const char *root, const char *device, struct place *places,
			     uint32_t count)
{
	char path[PATH_BYTES];
	const struct dirent *entry;
	DIR *dir;

	snprintf(path, sizeof(path), "%.256s/%.64s/ports", root, device);
	dir = opendir(path);
	if (dir == NULL)
		return count;
	while (count < PORTS_MAX && (entry = readdir(dir)) != NULL) {
		char *end;
		unsigned long port = strtoul(entry->d_name, &end, 10);

		if (entry->d_name[0] < '0' || entry->d_name[0] > '9' || *end != '\0' ||
		    port > UINT32_MAX)
			continue;
		snprintf(places[count].device, sizeof(places[count].device), "%s", device);
		places[count++].port = (uint32_t)port;
	}
	closedir(dir);
	return count;
}

static uint32_t places_find(const char *root, struct place places[PORTS_MAX])
{
	const struct dirent *entry;
	DIR *dir = opendir(root);
	uint32_t count = 0;

	if (dir == NULL)
		return 0;
	while ((entry = readdir(dir)) != NULL) {
		if (entry->d_name[0] != '.' && strlen(entry->d_name) < sizeof(places[0].device))
			count = device_ports(root, entry->d_name, places, count);
	}
	closedir(dir);
	qsort(places, count, sizeof(places[0]), place_order);
	return count;
}

/* A metric of one kind of counters */
static const struct family {
	const char *name, *help;
} families[] = {
	[OL_PORT_AGAIN] = { "outlast_port_again_total",
			    "Packets sent again or out of order at a port of the exporter's host." },
	[OL_PORT_NOT_READY] = { "outlast_port_not_ready_total",
				"Messages that found no receive at a port of the exporter's host." },
	[OL_PORT_BROKEN] = { "outlast_port_errors_total",
			     "Connections ended and errors of the link at a port of the exporter's host." },
};

struct writing {
	const struct ol_series *to;
	const struct ol_series_label *labels;
	const struct place *place;
	enum ol_port_kind kind;
	bool begun; /* the metric has its head */
};

static void counter_write(void *arg, const struct ol_port_counter *counter, uint64_t value)
{
	struct writing *writing = arg;
	const struct family *family = &families[writing->kind];
	char port[12];

	if (counter->kind != writing->kind)
		return;
	if (!writing->begun)
		ol_series_head(writing->to, family->name, OL_SERIES_COUNTER, family->help);
	writing->begun = true;
	snprintf(port, sizeof(port), "%u", writing->place->port);
	ol_series_begin(writing->to, family->name, writing->labels);
	ol_series_label(writing->to, "device", writing->place->device);
	ol_series_label(writing->to, "port", port);
	ol_series_label(writing->to, "counter", counter->name);
	ol_series_uint(writing->to, value);
}

void ol_ports_series(const char *root, const struct ol_series_label *labels,
		     const struct ol_series *to)
{
	struct place places[PORTS_MAX];
	const uint32_t count = places_find(root, places);

	for (unsigned kind = 0; kind < sizeof(families) / sizeof(families[0]); kind++) {
		struct writing writing = { .to = to,
					   .labels = labels,
					   .kind = (enum ol_port_kind)kind };

		for (uint32_t i = 0; i < count; i++) {
			writing.place = &places[i];
			ol_port_read(root, places[i].device, places[i].port, counter_write,
				     &writing);
		}
	}
}
