/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * consistency.c -- parses the value of --consistency
 */
#include "cmd/consistency.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char ol_consistency_help[] =
	"async: every gradient is a step; sync: a step takes one of every worker; sync:k=N: the "
	"first N; sync:dbw: N chosen for each step, for the fastest fall of the loss, sync:dbw-blind: "
	"for the most gradients a second; sync:adasync[,k=N]: N and more as the loss falls; "
	"sync:quorum,k=N[,grace=MS]: never fewer than N, and those that come within MS milliseconds of "
	"the N-th, 0 without it; what comes later is dropped, or, with late=next behind any of these, "
	"of the next step, late=aged: where it counts less, late=L: if it is not later than L steps; "
	"ssp:N: as async, but who is N gradients ahead of the slowest waits";

static const struct {
	const char *word;
	struct ol_consistency_set set;
	bool number; /* has to follow */
} forms[] = {
	{ .word = "async", .set = { .consistency = OL_CONSISTENCY_ASYNC } },
	{ .word = "sync", .set = { .consistency = OL_CONSISTENCY_SYNC, .wait = OL_WAIT_ALL } },
	{ .word = "sync:dbw", .set = { .consistency = OL_CONSISTENCY_SYNC, .wait = OL_WAIT_DBW } },
	{ .word = "sync:dbw-blind",
	  .set = { .consistency = OL_CONSISTENCY_SYNC, .wait = OL_WAIT_DBW_BLIND } },
	{ .word = "sync:adasync,k=", /* before the one that it begins with */
	  .set = { .consistency = OL_CONSISTENCY_SYNC, .wait = OL_WAIT_ADASYNC },
	  .number = true },
	{ .word = "sync:adasync",
	  .set = { .consistency = OL_CONSISTENCY_SYNC, .wait = OL_WAIT_ADASYNC, .k = 1 } },
	{ .word = "sync:quorum,k=",
	  .set = { .consistency = OL_CONSISTENCY_SYNC, .wait = OL_WAIT_QUORUM },
	  .number = true },
	{ .word = "sync:k=",
	  .set = { .consistency = OL_CONSISTENCY_SYNC, .wait = OL_WAIT_FIXED },
	  .number = true },
	{ .word = "ssp:", .set = { .consistency = OL_CONSISTENCY_SSP }, .number = true },
};

/* Reads digits up to the end; more than nine count as 10^9. False: no number */
static bool number(const char *text, uint32_t *ret_value)
{
	size_t len = strlen(text);

	if (len == 0 || strspn(text, "0123456789") != len)
		return false;
	*ret_value = len > 9 ? 1000000000 : (uint32_t)strtoul(text, NULL, 10);
	return true;
}

static int staleness_take(const char *text, struct ol_consistency_set *set, char *err,
			  size_t err_bytes)
{
	if (number(text, &set->staleness) && set->staleness <= OL_STALENESS_MAX)
		return 0;
	snprintf(err, err_bytes, "should have a number from 0 to %d behind ssp:, and no more",
		 OL_STALENESS_MAX);
	return -EINVAL;
}

/* Reads k: how many workers a step waits for */
static int k_take(const char *text, uint32_t workers, struct ol_consistency_set *set, char *err,
		  size_t err_bytes)
{
	char range[32] = "k=1";

	if (workers > 1)
		snprintf(range, sizeof(range), "k=1 to k=%u", workers);
	if (text[0] == '\0')
		snprintf(err, err_bytes, "should have a number behind k=: give %s", range);
	else if (!number(text, &set->k))
		snprintf(err, err_bytes, "should have a number behind k=, not \"%.20s\": give %s",
			 text, range);
	else if (set->k == 0)
		snprintf(err, err_bytes, "should wait for one worker at least: give %s", range);
	else if (set->k > workers)
		snprintf(err, err_bytes,
			 "should not wait for more workers than the %u of --workers: give %s",
			 workers, range);
	else
		return 0;
	return -EINVAL;
}

/* Cut text at its first comma; returns what is behind it, or NULL */
static char *rest_cut(char *text)
{
	char *comma = strchr(text, ',');

	if (comma != NULL)
		*comma++ = '\0';
	return comma;
}

/* What is behind word in text; NULL: text does not begin with it */
static const char *behind(const char *word, const char *text)
{
	size_t len = strlen(word);

	return strncmp(text, word, len) == 0 ? text + len : NULL;
}

/* One of the words that follow */
static int extra_take(const char *text, struct ol_consistency_set *set, char *err, size_t err_bytes)
{
	const bool quorum = set->wait == OL_WAIT_QUORUM;
	const char *value = behind("grace=", text);

	if (quorum && value != NULL && number(value, &set->grace_ms) &&
	    set->grace_ms <= OL_GRACE_MAX_MS)
		return 0;
	value = behind("late=", text);
	if (value != NULL && strcmp(value, "drop") == 0)
		return 0;
	set->late = OL_LATE_NEXT;
	if (value != NULL && strcmp(value, "aged") == 0) {
		set->late = OL_LATE_AGED;
		return 0;
	}
	if (value != NULL && (strcmp(value, "next") == 0 ||
			      (number(value, &set->late_steps) && set->late_steps > 0 &&
			       set->late_steps <= OL_LATE_STEPS_MAX)))
		return 0;
	snprintf(
		err, err_bytes,
		"should have %slate=drop, late=next, late=aged or late=1 to late=%d behind %s, not \"%.20s\"",
		quorum ? "grace=MS (up to a day), " : "", OL_LATE_STEPS_MAX,
		set->k > 0 ? "k=N" : "dbw", text);
	return -EINVAL;
}

/* What is behind a form of `sync`: its number, and words after commas */
static int backup_take(const char *text, bool has_number, uint32_t workers,
		       struct ol_consistency_set *set, char *err, size_t err_bytes)
{
	char part[64], *at = part, *rest;
	int rc = 0;

	snprintf(part, sizeof(part), "%s", text);
	rest = rest_cut(at);
	if (has_number)
		rc = k_take(at, workers, set, err, err_bytes);
	while (rc == 0 && rest != NULL) {
		at = rest;
		rest = rest_cut(at);
		rc = extra_take(at, set, err, err_bytes);
	}
	return rc;
}

/* True if this form is that of the text, whose rest is behind its word */
static bool form_is(const struct ol_consistency_set *set, bool has_number, const char *rest)
{
	if (has_number || rest[0] == '\0')
		return true;
	return rest[0] == ',' && set->consistency == OL_CONSISTENCY_SYNC &&
	       set->wait != OL_WAIT_ALL;
}

int ol_consistency_parse(const char *text, uint32_t workers, struct ol_consistency_set *ret_set,
			 char *err, size_t err_bytes)
{
	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
		struct ol_consistency_set set = forms[i].set;
		const char *rest = behind(forms[i].word, text);
		int rc;

		if (rest == NULL || !form_is(&set, forms[i].number, rest))
			continue;
		if (set.consistency == OL_CONSISTENCY_SSP)
			rc = staleness_take(rest, &set, err, err_bytes);
		else
			rc = backup_take(rest, forms[i].number, workers, &set, err, err_bytes);
		if (rc == 0)
			*ret_set = set;
		return rc;
	}
	snprintf(err, err_bytes,
		 "should be one of async, sync, ssp:N, or with [,late=L] at the end sync:k=N, "
		 "sync:dbw, sync:dbw-blind, sync:adasync[,k=N], sync:quorum,k=N[,grace=MS]");
	return -EINVAL;
}
