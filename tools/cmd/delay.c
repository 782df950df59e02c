/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * delay.c -- parses the value of --delay, reads traces, draws delays
 */
#include "cmd/delay.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/conf.h"

enum {
	TRACE_STEP = 1009, /* lines between the beginnings of two workers */
	TRACE_ROOM_FIRST = 256
};

/* What stands behind exp: and slow: */
struct words {
	uint64_t mean;
	uint64_t from;
	double alpha;
	double factor;
	const char *workers;
};

static const struct ol_conf_field exp_fields[] = {
	OL_ROW_DURATION(words, mean, NULL, 1, UINT64_C(3600) * OL_NS_PER_S, NULL),
	OL_ROW_F64(words, alpha, NULL, 0.0, 1.0, NULL),
};

static const struct ol_conf_field slow_fields[] = {
	OL_ROW_STR(words, workers, NULL, NULL),
	OL_ROW_F64(words, factor, NULL, 1.0, 1e6, NULL),
	OL_ROW_DURATION(words, from, NULL, 0, 0, NULL),
};

static const struct ol_conf_field trace_ms = { .type = OL_CONF_F64, .f64_max = 3.6e6 };

static int refuse(const char *why, char *err, size_t err_bytes)
{
	snprintf(err, err_bytes, "%s", why);
	return -EINVAL;
}

static int exp_parse(const char *text, struct ol_delay *delay, char *err, size_t err_bytes)
{
	struct words words = { .alpha = 1.0 };
	int rc = ol_conf_words(OL_FIELDS(exp_fields), text, &words, err, err_bytes);

	if (rc == 0 && words.mean == 0)
		rc = refuse("needs a mean: exp:mean=20ms", err, err_bytes);
	delay->mean_s = (double)words.mean / 1e9;
	delay->alpha = words.alpha;
	return rc;
}

static int slow_parse(const char *text, struct ol_delay *delay, char *err, size_t err_bytes)
{
	struct words words = { 0 };
	int rc = ol_conf_words(OL_FIELDS(slow_fields), text, &words, err, err_bytes), end = -1;

	if (rc != 0)
		return rc;
	if (words.workers == NULL || words.factor < 1.0)
		return refuse("needs workers= and factor=", err, err_bytes);
	delay->slow = true;
	delay->slow_half =
		strcspn(words.workers, ",") == 4 && strncmp(words.workers, "half", 4) == 0;
	if (!delay->slow_half &&
	    (sscanf(words.workers, "%4" SCNu32 "%n", &delay->slow_workers, &end) != 1 ||
	     strchr(",", words.workers[end]) == NULL || delay->slow_workers < 1 ||
	     delay->slow_workers > 1024))
		return refuse("should have half or a number of workers behind workers=", err,
			      err_bytes);
	delay->slow_factor = words.factor;
	delay->slow_from_s = (double)words.from / 1e9;
	return 0;
}

/* A line of a trace without its end: false: neither a delay nor blank nor a comment */
static bool trace_line(char *line, double *ret_ms, bool *ret_blank)
{
	char *text = line + strspn(line, " \t");
	size_t len = strcspn(text, "#\r\n");

	while (len > 0 && (text[len - 1] == ' ' || text[len - 1] == '\t'))
		len--;
	text[len] = '\0';
	*ret_blank = len == 0;
	return len == 0 || ol_conf_value_parse(&trace_ms, text, ret_ms) == 0;
}

static bool trace_add(struct ol_delay *delay, size_t *room, double ms)
{
	if (delay->trace_count == *room) {
		size_t more = *room == 0 ? TRACE_ROOM_FIRST : 2 * *room;
		double *grown = realloc(delay->trace_s, more * sizeof(*grown));

		if (grown == NULL)
			return false;
		delay->trace_s = grown;
		*room = more;
	}
	delay->trace_s[delay->trace_count++] = ms / 1e3;
	return true;
}

static int trace_lines(FILE *in, const char *path, struct ol_delay *delay, char *err,
		       size_t err_bytes)
{
	char line[256];
	size_t room = 0;

	for (size_t at = 1; fgets(line, sizeof(line), in) != NULL; at++) {
		double ms = 0.0;
		bool blank;

		if ((strchr(line, '\n') == NULL && !feof(in)) || !trace_line(line, &ms, &blank)) {
			snprintf(err, err_bytes,
				 "%.150s, line %zu: is no delay in milliseconds (0 to %.0f)", path,
				 at, trace_ms.f64_max);
			return -EINVAL;
		}
		if (blank)
			continue;
		if (delay->trace_count == OL_DELAY_TRACE_MAX) {
			snprintf(err, err_bytes, "%.150s: holds more than %d delays", path,
				 OL_DELAY_TRACE_MAX);
			return -EINVAL;
		}
		if (!trace_add(delay, &room, ms)) {
			snprintf(err, err_bytes, "%.150s: no memory", path);
			return -ENOMEM;
		}
	}
	if (ferror(in)) {
		snprintf(err, err_bytes, "%.150s: cannot be read", path);
		return -EIO;
	}
	if (delay->trace_count > 0)
		return 0;
	snprintf(err, err_bytes, "%.150s: holds no delay: a line each, in milliseconds", path);
	return -EINVAL;
}

static int trace_read(const char *path, struct ol_delay *delay, char *err, size_t err_bytes)
{
	FILE *in = fopen(path, "re");
	int rc;

	if (in == NULL) {
		rc = -errno;
		snprintf(err, err_bytes, "%.150s: %s", path, strerror(errno));
		return rc;
	}
	rc = trace_lines(in, path, delay, err, err_bytes);
	fclose(in);
	return rc;
}

/* One of the parts between two + */
static int part_parse(char *part, struct ol_delay *delay, char *err, size_t err_bytes)
{
	static const char other[] =
		"is none of exp:mean=20ms,alpha=0.5, trace:FILE and "
		"slow:workers=half,factor=5,from=60s, the last of which may follow a +";
	bool base = delay->mean_s > 0.0 || delay->trace_s != NULL;

	if (strncmp(part, "trace:", 6) == 0 && !base && part[6] != '\0')
		return trace_read(part + 6, delay, err, err_bytes);
	if (strncmp(part, "exp:", 4) == 0 && !base)
		return exp_parse(part + 4, delay, err, err_bytes);
	if (strncmp(part, "slow:", 5) == 0 && !delay->slow)
		return slow_parse(part + 5, delay, err, err_bytes);
	return refuse(base && delay->slow ? "has a part twice" : other, err, err_bytes);
}

int ol_delay_parse(const char *text, struct ol_delay *ret_delay, char *err, size_t err_bytes)
{
	struct ol_delay delay = { 0 };
	char *parts, *rest, *part;
	int rc = 0;

	if (text == NULL || text[0] == '\0') {
		*ret_delay = delay;
		return 0;
	}
	parts = rest = strdup(text);
	if (parts == NULL) {
		snprintf(err, err_bytes, "needs memory that is not there");
		return -ENOMEM;
	}
	while (rc == 0 && (part = strsep(&rest, "+")) != NULL)
		rc = part_parse(part, &delay, err, err_bytes);
	free(parts);
	if (rc != 0) {
		ol_delay_fini(&delay);
		return rc;
	}
	*ret_delay = delay;
	return 0;
}

void ol_delay_fini(struct ol_delay *delay)
{
	free(delay->trace_s);
	*delay = (struct ol_delay){ 0 };
}

double ol_delay_draw(const struct ol_delay *delay, const struct learn_key *key)
{
	struct learn_rng_block block;
	double uniform;

	if (delay->trace_s != NULL)
		return delay->trace_s[(key->step + (uint64_t)key->worker * TRACE_STEP) %
				      delay->trace_count];
	if (delay->mean_s <= 0.0)
		return 0.0;
	block = learn_rng_draw(key, LEARN_RNG_DELAY, 0);
	/* above 0 and at most 1, in steps of 2^-32 */
	uniform = ((double)block.word[0] + 1.0) * 0x1p-32;
	return delay->mean_s * (1.0 - delay->alpha - delay->alpha * log(uniform));
}

double ol_delay_factor(const struct ol_delay *delay, uint32_t worker, uint32_t workers, double t_s)
{
	uint32_t slow = delay->slow_half ? workers / 2 : delay->slow_workers;

	if (!delay->slow || t_s < delay->slow_from_s || (slow < workers && worker < workers - slow))
		return 1.0;
	return delay->slow_factor;
}
