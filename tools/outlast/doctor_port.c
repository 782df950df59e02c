/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * doctor_port.c -- what a port has counted since its driver was loaded: what was sent again, refused
 * for want of a receive, lost, and the errors of the link
 *
 * Names are those of /sys/class/infiniband/DEVICE/ports/PORT/{counters,hw_counters}, as they differ
 * from driver to driver and an operator looks them up in its manual.
 */

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "outlast/doctor.h"

enum {
	PATH_BYTES = 256,
	LIST_BYTES = 384,
};

enum kind {
	AGAIN, /* sent again, or came out of order: costs time */
	NOT_READY, /* a message found no receive */
	BROKEN, /* connections ended, or the link is bad */
};

static const struct counter {
	const char *folder;
	const char *name;
	enum kind kind;
} counters[] = {
	/* mlx5, mlx4, hns: the kernel's names */
	{ "hw_counters", "local_ack_timeout_err", AGAIN },
	{ "hw_counters", "packet_seq_err", AGAIN },
	{ "hw_counters", "out_of_sequence", AGAIN },
	{ "hw_counters", "duplicate_request", AGAIN },
	{ "hw_counters", "implied_nak_seq_err", AGAIN },
	{ "hw_counters", "roce_adp_retrans", AGAIN },
	{ "hw_counters", "roce_slow_restart", AGAIN },
	{ "hw_counters", "rnr_nak_retry_err", NOT_READY },
	{ "hw_counters", "out_of_buffer", NOT_READY },
	{ "hw_counters", "req_transport_retries_exceeded", BROKEN },
	{ "hw_counters", "req_rnr_retries_exceeded", BROKEN },
	/* bnxt_re */
	{ "hw_counters", "to_retransmits", AGAIN },
	{ "hw_counters", "seq_err_naks_rcvd", AGAIN },
	{ "hw_counters", "rnr_naks_rcvd", NOT_READY },
	{ "hw_counters", "max_retry_exceeded", BROKEN },
	/* rdma_rxe */
	{ "hw_counters", "completer_retry_err", AGAIN },
	{ "hw_counters", "out_of_seq_request", AGAIN },
	{ "hw_counters", "rcvd_seq_err", AGAIN },
	{ "hw_counters", "rcvd_rnr_err", NOT_READY },
	{ "hw_counters", "send_rnr_err", NOT_READY },
	{ "hw_counters", "retry_exceeded_err", BROKEN },
	{ "hw_counters", "retry_rnr_exceeded_err", BROKEN },
	/* every port's: IBTA volume 1, 16.1.3.5 */
	{ "counters", "symbol_error", BROKEN },
	{ "counters", "link_error_recovery", BROKEN },
	{ "counters", "link_downed", BROKEN },
	{ "counters", "port_rcv_errors", BROKEN },
	{ "counters", "port_xmit_discards", BROKEN },
	{ "counters", "local_link_integrity_errors", BROKEN },
	{ "counters", "excessive_buffer_overrun_errors", BROKEN },
};

static bool counter_read(const char *device, uint32_t port, const struct counter *counter,
			 uint64_t *ret_value)
{
	char path[PATH_BYTES];
	FILE *file;
	bool got;

	snprintf(path, sizeof(path), "/sys/class/infiniband/%.64s/ports/%u/%s/%s", device, port,
		 counter->folder, counter->name);
	file = fopen(path, "re");
	if (file == NULL)
		return false;
	got = fscanf(file, "%" SCNu64, ret_value) == 1;
	fclose(file);
	return got;
}

void doctor_port_counters(struct doctor *doctor, const char *device, uint32_t port, json_t *ret_all)
{
	char list[LIST_BYTES] = "", subject[96];
	bool broken = false;
	size_t used = 0;

	for (unsigned i = 0; i < sizeof(counters) / sizeof(counters[0]); i++) {
		const struct counter *counter = &counters[i];
		uint64_t value;

		if (!counter_read(device, port, counter, &value))
			continue;
		json_object_set_new(ret_all, counter->name, json_integer((json_int_t)value));
		if (value == 0)
			continue;
		broken = broken || counter->kind == BROKEN;
		if (used < sizeof(list))
			used += (size_t)snprintf(list + used, sizeof(list) - used, "%s%s %" PRIu64,
						 used > 0 ? ", " : "", counter->name, value);
	}
	if (json_object_size(ret_all) == 0)
		return;
	snprintf(subject, sizeof(subject), "%.64s/%u", device, port);
	if (used == 0)
		doctor_find(doctor, DOCTOR_OK, subject, NULL,
			    "nothing was sent again, refused or lost since its driver was loaded");
	else
		doctor_find(doctor, broken ? DOCTOR_WARN : DOCTOR_OK, subject,
			    broken ? "if they grow while a job runs: check cable, switch (pause "
				     "frames, MTU) and whether peers died"
				   : NULL,
			    "since its driver was loaded: %s", list);
}
