/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * kill.c -- parses the schedule of --kill
 */
#include "cmd/kill.h"

#include <errno.h>
#include <float.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/conf.h"

static const struct ol_conf_field duration = { .type = OL_CONF_DURATION, .max = OL_DURATION_MAX },
				  shard = { .type = OL_CONF_U32, .max = 999999999 },
				  positive = { .type = OL_CONF_F64,
					       .f64_min = DBL_MIN,
					       .f64_max = DBL_MAX };

int ol_duration_parse(const char *text, uint64_t *ret_ns)
{
	return ol_conf_value_parse(&duration, text, ret_ns);
}

static const char *const targets[] = {
	[OL_KILL_SERVER] = "server", [OL_KILL_WORKER] = "worker", [OL_KILL_HEAD] = "head",
	[OL_KILL_MIDDLE] = "middle", [OL_KILL_TAIL] = "tail",
};

/* NULL, or the fault */
static const char *target_parse(const char *text, struct ol_kill *kill)
{
	for (size_t i = 0; i < sizeof(targets) / sizeof(targets[0]); i++) {
		const char *number = text + strlen(targets[i]);

		if (strncmp(text, targets[i], strlen(targets[i])) != 0)
			continue;
		kill->target = (enum ol_kill_target)i;
		kill->index = 0;
		if ((ol_kill_of_chain(kill) && number[0] == '\0') ||
		    ol_conf_value_parse(&shard, number, &kill->index) == 0)
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
	size_t digits;

	if (strncmp(text, below, strlen(below)) == 0) {
		kill->when = OL_KILL_BELOW_LOSS;
		return ol_conf_value_parse(&positive, text + strlen(below), &kill->loss) == 0
			       ? NULL
			       : "has no number above 0 behind loss<";
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

/* What a colon sets off */
static const struct ol_conf_choice signals[] = { { "KILL", SIGKILL },
						 { "STOP", SIGSTOP },
						 { NULL, 0 } };

static const struct ol_conf_field options[] = {
	{ .name = "down",
	  .type = OL_CONF_DURATION,
	  .offset = offsetof(struct ol_kill, down_ns),
	  .max = OL_DURATION_MAX },
	{ .name = "signal",
	  .type = OL_CONF_CHOICE,
	  .offset = offsetof(struct ol_kill, signo),
	  .choices = signals },
};

/* One entry; it is cut into its parts in `text`. */
static const char *entry_parse(char *text, struct ol_kill *kill, char *err, size_t err_bytes)
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
	while (wrong == NULL && (word = strsep(&rest, ":")) != NULL) {
		if (ol_conf_words(OL_FIELDS(options), word, kill, err, err_bytes) != 0)
			wrong = err;
		kill->down_set = kill->down_set || strncmp(word, "down=", 5) == 0;
	}
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
		char entry[OL_KILL_TEXT_MAX], why[160];
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
		wrong = entry_parse(entry, kill, why, sizeof(why));
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
