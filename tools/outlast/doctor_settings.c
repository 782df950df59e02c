/* SPDX-License-Identifier: BSD-3-Clause */

/* doctor_settings.c -- the table of `outlast doctor`: what verbs would use here, and why */

#include <stdio.h>

#include "cmd/settings.h"
#include "outlast/doctor.h"

enum {
	VALUE_BYTES = 96,
	SOURCE_BYTES = 128,
	INLINE_BYTES = 256, /* asked of each queue pair; an adapter may grant less */
};

static void row(json_t *rows, const char *name, const char *value, const char *source)
{
	printf("ok    %-16s %-22s %s\n", name, value, source);
	json_array_append_new(
		rows, json_pack("{s:s, s:s, s:s}", "name", name, "value", value, "source", source));
}

/* A timer that is set has its own source; one that is derived has that of the time */
static void timer_row(json_t *rows, const struct ol_settings *settings, const char *name,
		      const char *shown, bool is_set, const char *value)
{
	char source[SOURCE_BYTES], text[SOURCE_BYTES + 32];

	ol_settings_source(settings, is_set ? name : "retry_timeout_ms", source, sizeof(source));
	snprintf(text, sizeof(text), is_set ? "%s" : "from retry-timeout-ms (%s)", source);
	row(rows, shown, value, text);
}

static void timers_show(json_t *rows, const struct ol_settings *settings,
			const struct ol_set_wire *wire)
{
	struct ol_server_opts opts;
	char value[VALUE_BYTES], source[SOURCE_BYTES];
	double ack_ms;

	ol_server_opts_init(&opts);
	OL_SETTINGS_WIRE(wire, &opts);
	if (ol_server_opts_wire(&opts) != 0)
		return; /* the rows of the settings allow no such value */
	ack_ms = 4.096e-3 * (double)(UINT64_C(1) << opts.ack_timeout);
	snprintf(value, sizeof(value), "%.0f ms of silence", ack_ms * (opts.retries + 1));
	ol_settings_source(settings, "retry_timeout_ms", source, sizeof(source));
	row(rows, "retry-timeout-ms", value,
	    wire->ack_timeout != 0 || wire->retries != 0 ? "from ack-timeout and retries" : source);
	snprintf(value, sizeof(value), "%u (%.0f ms)", opts.ack_timeout, ack_ms);
	timer_row(rows, settings, "ack_timeout", "ack-timeout", wire->ack_timeout != 0, value);
	snprintf(value, sizeof(value), "%u", opts.retries);
	timer_row(rows, settings, "retries", "retries", wire->retries != 0, value);
	snprintf(value, sizeof(value), "%u", opts.rnr_timer);
	timer_row(rows, settings, "rnr_timer", "rnr-timer", wire->rnr_timer != 0, value);
	snprintf(value, sizeof(value), "%u", opts.rnr_retries);
	timer_row(rows, settings, "rnr_retries", "rnr-retries", wire->rnr_retries != 0, value);
}

static void place_show(json_t *rows, const struct doctor *doctor,
		       const struct ol_settings *settings)
{
	const bool none = doctor->chosen_device[0] == '\0';
	char value[VALUE_BYTES], source[SOURCE_BYTES];

	ol_settings_source(settings, "device", source, sizeof(source));
	row(rows, "device", none ? "none" : doctor->chosen_device, source);
	if (none)
		return;
	snprintf(value, sizeof(value), "%u", doctor->chosen_port);
	row(rows, "port", value, "of the address");
	if (doctor->chosen_gid >= 0) {
		snprintf(value, sizeof(value), "%d", doctor->chosen_gid);
		row(rows, "gid index", value, "of the address and the RoCE version");
	}
}

static void packets_show(json_t *rows, const struct doctor *doctor,
			 const struct ol_settings *settings, const struct ol_set_wire *wire)
{
	const bool less = wire->path_mtu != 0 &&
			  (doctor->chosen_mtu == 0 || wire->path_mtu < doctor->chosen_mtu);
	char value[VALUE_BYTES], source[SOURCE_BYTES];

	snprintf(value, sizeof(value), wire->traffic_class != 0 ? "%u" : "the system's",
		 wire->traffic_class);
	row(rows, "traffic-class", value,
	    ol_settings_source(settings, "traffic_class", source, sizeof(source)));
	row(rows, "service level", "-", "the kernel's, of the traffic class");
	snprintf(value, sizeof(value), less || doctor->chosen_mtu != 0 ? "%d" : "the path's",
		 less ? wire->path_mtu : doctor->chosen_mtu);
	ol_settings_source(settings, "path_mtu", source, sizeof(source));
	row(rows, "path-mtu", value, less ? source : "of the port");
	snprintf(value, sizeof(value), "%d", INLINE_BYTES);
	row(rows, "inline", value, "asked of the adapter, which may grant less");
}

static void memory_show(json_t *rows, const struct ol_settings *settings,
			const struct ol_set_wire *wire)
{
	static const char *const names[] = {
		[OL_CHOICE_AUTO] = "auto", [OL_CHOICE_ON] = "on", [OL_CHOICE_OFF] = "off"
	};
	char source[SOURCE_BYTES];

	row(rows, "relaxed-ordering", names[wire->relaxed_ordering],
	    ol_settings_source(settings, "relaxed_ordering", source, sizeof(source)));
	row(rows, "huge-pages", names[wire->huge_pages],
	    ol_settings_source(settings, "huge_pages", source, sizeof(source)));
}

/* The row of rails belongs behind these */
json_t *doctor_settings(const struct doctor *doctor, const struct ol_settings *settings,
			const struct ol_set_wire *wire)
{
	json_t *rows = json_array();

	if (rows == NULL)
		return NULL;
	place_show(rows, doctor, settings);
	packets_show(rows, doctor, settings, wire);
	timers_show(rows, settings, wire);
	memory_show(rows, settings, wire);
	return rows;
}
