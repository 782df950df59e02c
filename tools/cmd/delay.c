/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * delay.c -- the words of --delay, traces, draws
 */
#include "cmd/delay.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/kill.h"

enum {
	TRACE_STEP = 1009, /* lines between the beginnings of two workers */
	TRACE_ROOM_FIRST = 256
};

static const double mean_max_s = 3600.0, factor_max = 1e6, trace_max_ms = 3.6e6;

/* The whole of text is a number from low to high. */
static bool number(const char *text, double low, double high, double *ret_value)
{
	size_t len = strspn(text, "0123456789.");
	char *end;

	if (len == 0 || text[len] != '\0')
		return false;
	*ret_value = strtod(text, &end);
	return end == text + len && *ret_value >= low && *ret_value <= high;
}

static bool duration(const char *text, double *ret_s)
{
	uint64_t ns;

	if (ol_duration_parse(text, &ns) != 0)
		return false;
	*ret_s = (double)ns / 1e9;
	return true;
}

static const char *exp_word(const char *word, struct ol_delay *delay)
{
	if (strncmp(word, "mean=", 5) == 0)
		return duration(word + 5, &delay->mean_s) && delay->mean_s > 0.0 &&
				       delay->mean_s <= mean_max_s
			       ? NULL
			       : "needs a duration above 0, such as 20ms, behind mean=";
	if (strncmp(word, "alpha=", 6) == 0)
		return number(word + 6, 0.0, 1.0, &delay->alpha)
			       ? NULL
			       : "needs a number from 0 to 1 behind alpha=";
	return "is not exp:mean=20ms,alpha=0.5";
}

static const char *slow_word(const char *word, struct ol_delay *delay)
{
	double value;

	if (strcmp(word, "workers=half") == 0) {
		delay->slow_half = true;
		return NULL;
	}
	if (strncmp(word, "workers=", 8) == 0) {
		if (!number(word + 8, 1.0, 1024.0, &value) || value != floor(value))
			return "needs half or a number of workers behind workers=";
		delay->slow_half = false;
		delay->slow_workers = (uint32_t)value;
		return NULL;
	}
	if (strncmp(word, "factor=", 7) == 0)
		return number(word + 7, 1.0, factor_max, &delay->slow_factor)
			       ? NULL
			       : "needs a number from 1 on behind factor=";
	if (strncmp(word, "from=", 5) == 0)
		return duration(word + 5, &delay->slow_from_s)
			       ? NULL
			       : "needs a duration such as 60s behind from=";
	return "is not slow:workers=half,factor=5,from=60s";
}

/* Comma-separated words, each given to one of the functions above; words is cut up. */
static const char *words_parse(char *words, struct ol_delay *delay,
			       const char *(*parse)(const char *, struct ol_delay *))
{
	const char *wrong = NULL, *word;

	while (wrong == NULL && (word = strsep(&words, ",")) != NULL)
		wrong = parse(word, delay);
	return wrong;
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
	return len == 0 || number(text, 0.0, trace_max_ms, ret_ms);
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
				 at, trace_max_ms);
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
	const char *wrong = NULL;

	if (strncmp(part, "trace:", 6) == 0 && !base && part[6] != '\0')
		return trace_read(part + 6, delay, err, err_bytes);
	if (strncmp(part, "exp:", 4) == 0 && !base) {
		delay->alpha = 1.0;
		wrong = words_parse(part + 4, delay, exp_word);
		if (wrong == NULL && delay->mean_s <= 0.0)
			wrong = "needs a mean: exp:mean=20ms";
	} else if (strncmp(part, "slow:", 5) == 0 && !delay->slow) {
		delay->slow = true;
		wrong = words_parse(part + 5, delay, slow_word);
		if (wrong == NULL &&
		    ((!delay->slow_half && delay->slow_workers == 0) || delay->slow_factor < 1.0))
			wrong = "needs workers= and factor=";
	} else {
		wrong = base && delay->slow ? "has a part twice" : other;
	}
	if (wrong != NULL)
		snprintf(err, err_bytes, "%s", wrong);
	return wrong != NULL ? -EINVAL : 0;
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
