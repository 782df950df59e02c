/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * kill.c -- the schedule of --kill
 */
#include "cmd/kill.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	DURATION_MAX_S = 365 * 86400
};

/* Digits, perhaps with a point; nothing that strtod() would take besides. -EINVAL */
static int number_parse(const char *text, const char **ret_end, double *ret_value)
{
	size_t len = strspn(text, "0123456789.");
	char *end;

	if (len == 0 || len > 24)
		return -EINVAL;
	*ret_value = strtod(text, &end);
	if (end != text + len || !isfinite(*ret_value))
		return -EINVAL;
	*ret_end = end;
	return 0;
}

int ol_duration_parse(const char *text, uint64_t *ret_ns)
{
	static const struct {
		const char *unit;
		double seconds;
	} units[] = { { "s", 1.0 }, { "ms", 1e-3 }, { "us", 1e-6 }, { "min", 60.0 } };
	const char *end;
	double value;

	if (number_parse(text, &end, &value) != 0)
		return -EINVAL;
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		if (strcmp(end, units[i].unit) != 0)
			continue;
		value *= units[i].seconds;
		if (value > DURATION_MAX_S)
			return -EINVAL;
		*ret_ns = (uint64_t)llround(value * 1e9);
		return 0;
	}
	return -EINVAL;
}

/* Digits up to the end, below 2^32 */
static int index_parse(const char *text, uint32_t *ret_index)
{
	size_t len = strlen(text);
	unsigned long value;

	if (len == 0 || len > 9 || strspn(text, "0123456789") != len)
		return -EINVAL;
	value = strtoul(text, NULL, 10);
	*ret_index = (uint32_t)value;
	return 0;
}

static const char *const targets[] = {
	[OL_KILL_SERVER] = "server", [OL_KILL_WORKER] = "worker", [OL_KILL_HEAD] = "head",
	[OL_KILL_MIDDLE] = "middle", [OL_KILL_TAIL] = "tail",
};

/* NULL, or what is wrong with it */
static const char *target_parse(const char *text, struct ol_kill *kill)
{
	for (size_t i = 0; i < sizeof(targets) / sizeof(targets[0]); i++) {
		const char *number = text + strlen(targets[i]);

		if (strncmp(text, targets[i], strlen(targets[i])) != 0)
			continue;
		kill->target = (enum ol_kill_target)i;
		kill->index = 0;
		if ((ol_kill_of_chain(kill) && number[0] == '\0') ||
		    index_parse(number, &kill->index) == 0)
			return NULL;
	}
	return "begins with none of serverN, workerN, head, middle and tail";
}

const char *ol_kill_role(const struct ol_kill *kill)
{
	return ol_kill_of_chain(kill) ? targets[kill->target] : "";
}

static const char *when_parse(const char *text, struct ol_kill *kill)
{
	static const char below[] = "loss<";
	const char *end;
	size_t digits;

	if (strncmp(text, below, strlen(below)) == 0) {
		kill->when = OL_KILL_BELOW_LOSS;
		if (number_parse(text + strlen(below), &end, &kill->loss) == 0 && *end == '\0' &&
		    kill->loss > 0.0)
			return NULL;
		return "has no number above 0 behind loss<";
	}
	digits = strspn(text, "0123456789");
	if (digits > 0 && digits <= 18 && strcmp(text + digits, "steps") == 0) {
		kill->when = OL_KILL_AT_STEP;
		kill->at_step = strtoull(text, NULL, 10);
		return kill->at_step > 0 ? NULL : "has no step above 0";
	}
	kill->when = OL_KILL_AT_TIME;
	if (ol_duration_parse(text, &kill->at_ns) == 0)
		return NULL;
	return "needs a moment behind @: 30s, 1500ms, 200steps or loss<0.8";
}

static const char *option_parse(const char *text, struct ol_kill *kill)
{
	static const char down[] = "down=", signo[] = "signal=";

	if (strncmp(text, down, strlen(down)) == 0) {
		kill->down_set = true;
		if (ol_duration_parse(text + strlen(down), &kill->down_ns) == 0)
			return NULL;
		return "needs a duration such as 20s behind down=";
	}
	if (strncmp(text, signo, strlen(signo)) == 0) {
		kill->signo = 0;
		if (strcmp(text + strlen(signo), "KILL") == 0)
			kill->signo = SIGKILL;
		else if (strcmp(text + strlen(signo), "STOP") == 0)
			kill->signo = SIGSTOP;
		return kill->signo != 0 ? NULL : "needs KILL or STOP behind signal=";
	}
	return "has something else than down= and signal= behind a colon";
}

/* One entry; it is cut into its parts in `text`. */
static const char *entry_parse(char *text, struct ol_kill *kill)
{
	char *rest = text, *word = strsep(&rest, ":"), *when = word;
	const char *wrong;

	word = strsep(&when, "@");
	wrong = target_parse(word, kill);
	if (wrong != NULL)
		return wrong;
	if (when == NULL)
		return "needs a moment: server0@30s";
	wrong = when_parse(when, kill);
	while (wrong == NULL && (word = strsep(&rest, ":")) != NULL)
		wrong = option_parse(word, kill);
	if (wrong == NULL && kill->target == OL_KILL_WORKER && kill->signo == SIGSTOP &&
	    !kill->down_set)
		wrong = "needs down=: nothing takes the place of a worker that is stopped";
	return wrong;
}

int ol_kills_parse(const char *text, struct ol_kills *ret_kills, char *err, size_t err_bytes)
{
	struct ol_kills kills = { 0 };
	const char *at = text != NULL ? text : "";

	while (*at != '\0') {
		size_t len = strcspn(at, ",");
		struct ol_kill *kill = &kills.list[kills.count];
		char entry[OL_KILL_TEXT_MAX];
		const char *wrong;

		if (kills.count == OL_KILLS_MAX) {
			snprintf(err, err_bytes, "has more than %d entries", OL_KILLS_MAX);
			return -EINVAL;
		}
		if (len >= sizeof(entry)) {
			snprintf(err, err_bytes, "\"%.40s...\" is too long", at);
			return -EINVAL;
		}
		*kill = (struct ol_kill){ .signo = SIGKILL };
		snprintf(entry, sizeof(entry), "%.*s", (int)len, at);
		snprintf(kill->text, sizeof(kill->text), "%s", entry);
		wrong = entry_parse(entry, kill);
		if (wrong != NULL) {
			snprintf(err, err_bytes, "\"%s\" %s", kill->text, wrong);
			return -EINVAL;
		}
		kills.count++;
		at += len;
		if (*at == ',' && *++at == '\0') {
			snprintf(err, err_bytes, "ends with a comma");
			return -EINVAL;
		}
	}
	*ret_kills = kills;
	return 0;
}

bool ol_kill_due(const struct ol_kill *kill, uint64_t past_ns, uint64_t version, double loss,
		 double evaluated)
{
	switch (kill->when) {
	case OL_KILL_AT_TIME:
		return past_ns >= kill->at_ns;
	case OL_KILL_AT_STEP:
		return version >= kill->at_step;
	case OL_KILL_BELOW_LOSS:
		return loss < kill->loss || evaluated < kill->loss; /* a NAN is below nothing */
	}
	return false;
}
