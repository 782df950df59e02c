/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * doctor.h -- findings of `outlast doctor`: a verdict, the finding, the remedy
 */
#ifndef OUTLAST_DOCTOR_H
#define OUTLAST_DOCTOR_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum doctor_verdict {
	DOCTOR_OK,
	DOCTOR_WARN, /* it works, but slower, or only in part */
	DOCTOR_BAD, /* something requested or needed cannot work */
};

enum {
	DOCTOR_TEXT_MAX = 512
};

struct doctor {
	json_t *findings; /* array */
	bool verbs_wanted; /* a fault of verbs is bad, not a warning */
	bool shm_works;
	bool verbs_works;
	bool named_lack; /* a device that was named is not there, or cannot be used */
	uint32_t bad; /* findings */
	char chosen_device[64]; /* verbs: "" if none */
	char chosen_address[64];
	uint32_t chosen_port;
	int chosen_mtu; /* bytes, of the port */
	int chosen_gid; /* index of the RoCE v2 entry of the address, else of IB; -1: none seen */
	int node; /* of the chosen adapter, -1: not known */
};

/*
 * doctor_find -- note and print a finding; remedy: one line, or NULL
 *
 * The text is a printf format.
 */
void doctor_find(struct doctor *doctor, enum doctor_verdict verdict, const char *subject,
		 const char *remedy, const char *format, ...) __attribute__((format(printf, 5, 6)));

/* doctor_rdma -- check devices, ports and GIDs, and which one would be chosen; fills devices */
void doctor_rdma(struct doctor *doctor, const char *device, json_t *devices);

/* doctor_coordinator -- whether jobs of this lease and key can use it: 0, or the library's error after findings */
int doctor_coordinator(struct doctor *doctor, const char *addr, const char *key, uint32_t lease_ms,
		       uint32_t rounds);

/* doctor_port_counters -- what a port has counted of trouble; ret_all: an object, filled with each
 * counter that the device has */
void doctor_port_counters(struct doctor *doctor, const char *device, uint32_t port,
			  json_t *ret_all);

/* doctor_settings -- print the table of what verbs would use, with the source of each; it is JSON's
 * "settings" too. NULL: no memory */
struct ol_settings;
struct ol_set_wire;
json_t *doctor_settings(const struct doctor *doctor, const struct ol_settings *settings,
			const struct ol_set_wire *wire);

/* doctor_plan -- print what a job of these words takes ("params=7e9,workers=256"), here or anywhere;
 * json: a file, or NULL. Returns an exit code, and has printed why */
int doctor_plan(const char *text, const char *json);

#endif /* OUTLAST_DOCTOR_H */
