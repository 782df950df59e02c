/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * hosts.c -- reads files of hosts, and lists of hosts as Slurm writes them
 */
#include "launch/hosts.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/conf.h"

enum {
	FILE_MAX = 1 << 20,
	DIGITS_MAX = 9 /* of a number in a list of Slurm's */
};

static const struct ol_conf_field count_field = { .type = OL_CONF_U32, .max = 100000 };

/* A name is a word of a command line of ssh or srun: it must not look like an option, or more */
static bool name_is_good(const char *name)
{
	return name[0] != '\0' && name[0] != '-' && strlen(name) < LAUNCH_NAME_MAX &&
	       name[strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
				 "._-@:%[]")] == '\0';
}

/* A batch system may say the short name of what a file names in full, or the other way round */
static bool is_short_of(const char *a, const char *b)
{
	const size_t len = strlen(a) < strlen(b) ? strlen(a) : strlen(b);

	return strncmp(a, b, len) == 0 && (a[len] == '.' || b[len] == '.') &&
	       strspn(a, "0123456789.") < len; /* no address */
}

/* The host of that name, at the end of the list if it is new; NULL: there are too many, or it is none of those given */
static struct launch_host *host_find(struct launch_hosts *hosts, const char *name)
{
	for (uint32_t i = 0; i < hosts->count; i++) {
		if (strcmp(hosts->list[i].name, name) == 0 ||
		    (hosts->are_given && is_short_of(hosts->list[i].name, name)))
			return &hosts->list[i];
	}
	if (hosts->are_given || hosts->count == LAUNCH_HOSTS_MAX)
		return NULL;
	hosts->list[hosts->count] =
		(struct launch_host){ .slots = LAUNCH_ANY, .servers = LAUNCH_ANY };
	snprintf(hosts->list[hosts->count].name, LAUNCH_NAME_MAX, "%s", name);
	return &hosts->list[hosts->count++];
}

/* NULL, or the fault of a word behind the host's name */
static const char *word_take(const char *word, struct launch_host *host, uint32_t *slots)
{
	const char *value = strchr(word, '=');

	if (value == NULL)
		return "is none of slots=N, servers=N, rack=NAME, address=ADDR";
	value++;
	if (strncmp(word, "slots=", 6) == 0)
		return ol_conf_value_parse(&count_field, value, slots) == 0
			       ? NULL
			       : "has no number from 0 to 100000";
	if (strncmp(word, "servers=", 8) == 0)
		return ol_conf_value_parse(&count_field, value, &host->servers) == 0
			       ? NULL
			       : "has no number from 0 to 100000";
	if (!name_is_good(value))
		return "has no name behind it, of letters, digits and . _ - @ : %";
	if (strncmp(word, "address=@", 9) == 0)
		return "is no address that other hosts can reach; where all are this machine, give "
		       "--transport shm";
	if (strncmp(word, "rack=", 5) == 0)
		snprintf(host->rack, sizeof(host->rack), "%s", value);
	else if (strncmp(word, "address=", 8) == 0)
		snprintf(host->address, sizeof(host->address), "%s", value);
	else
		return "is none of slots=N, servers=N, rack=NAME, address=ADDR";
	return NULL;
}

/* NULL, or the fault; *ret_word is the word that has it; *ret_named: true from the first line on that is about a host
 * of the job */
static const char *line_take(struct launch_hosts *hosts, char *line, const char **ret_word,
			     bool *ret_named)
{
	uint32_t slots = LAUNCH_ANY, before = hosts->count;
	struct launch_host other = { .slots = 0 }, *host;
	const char *wrong = NULL;
	char *rest = line, *word;

	line[strcspn(line, "#\r")] = '\0';
	do
		word = strsep(&rest, " \t");
	while (word != NULL && word[0] == '\0');
	if (word == NULL)
		return NULL;
	*ret_word = word;
	if (!name_is_good(word))
		return "is no name of a host";
	host = host_find(hosts, word);
	if (host == NULL && !hosts->are_given)
		return "is one host too many: 256 can be given";
	*ret_named = host != NULL || *ret_named;
	if (host == NULL)
		host = &other;
	while (wrong == NULL && (word = strsep(&rest, " \t")) != NULL) {
		if (word[0] == '\0')
			continue;
		*ret_word = word;
		wrong = word_take(word, host, &slots);
	}
	if (hosts->are_given) {
		host->slots = slots < host->slots ? slots : host->slots;
		return wrong;
	}
	if (hosts->count != before) {
		host->slots = slots;
		return wrong;
	}
	/* again: a line without a number is a slot, the first one too */
	host->slots =
		(host->slots == LAUNCH_ANY ? 1 : host->slots) + (slots == LAUNCH_ANY ? 1 : slots);
	return wrong;
}

int launch_hosts_parse(struct launch_hosts *hosts, const char *name, const char *text, char *err,
		       size_t err_bytes)
{
	char *copy = strdup(text), *rest = copy, *line;
	const char *wrong = NULL, *word = "";
	unsigned number = 0;
	bool named = false;

	if (!hosts->are_given)
		hosts->count = 0;
	if (copy == NULL)
		wrong = "needs memory that is not there";
	while (wrong == NULL && (line = strsep(&rest, "\n")) != NULL) {
		number++;
		wrong = line_take(hosts, line, &word, &named);
	}
	if (wrong != NULL)
		snprintf(err, err_bytes, "%s:%u: \"%.80s\" %s", name, number, word, wrong);
	else if (!named)
		snprintf(err, err_bytes, "%s: names no host%s", name,
			 hosts->are_given ? " of the allocation" : "");
	free(copy);
	return wrong != NULL || !named ? -EINVAL : 0;
}

int launch_hosts_read(struct launch_hosts *hosts, const char *path, char *err, size_t err_bytes)
{
	FILE *in = fopen(path, "re");
	char *text = in != NULL ? malloc(FILE_MAX) : NULL;
	size_t got = text != NULL ? fread(text, 1, FILE_MAX - 1, in) : 0;
	int rc = in == NULL ? -errno : text == NULL ? -ENOMEM : ferror(in) ? -EIO : 0;

	if (rc != 0) {
		snprintf(err, err_bytes, "%s: %s", path, strerror(-rc));
	} else {
		text[got] = '\0';
		rc = launch_hosts_parse(hosts, path, text, err, err_bytes);
	}
	free(text);
	if (in != NULL)
		(void)fclose(in);
	return rc;
}

/* A number of a range, "007": moved past; false: there is none */
static bool number_take(const char **at, unsigned *ret_number, int *ret_digits)
{
	size_t digits = strspn(*at, "0123456789");

	if (digits == 0 || digits > DIGITS_MAX)
		return false;
	*ret_number = (unsigned)strtoul(*at, NULL, 10);
	*ret_digits = (int)digits;
	*at += digits;
	return true;
}

static const char *nodes_expand(struct launch_hosts *hosts, const char *head, size_t head_len,
				const char *rest);

/* "01-03,7]…": each number in the place of the brackets */
static const char *range_expand(struct launch_hosts *hosts, const char *head, size_t head_len,
				const char *range)
{
	const char *close = strchr(range, ']'), *wrong = NULL;
	char name[2 * LAUNCH_NAME_MAX];

	if (close == NULL)
		return "lacks a ]";
	if (close == range)
		return "lacks a number";
	while (wrong == NULL && range < close) {
		unsigned first, last;
		int digits, ignored;

		if (!number_take(&range, &first, &digits))
			return "lacks a number";
		last = first;
		if (*range == '-') {
			range++;
			if (!number_take(&range, &last, &ignored) || last < first)
				return "lacks a number";
		}
		if (*range == ',')
			range++;
		else if (range != close)
			return "has no , or ] behind a number";
		for (unsigned i = first; wrong == NULL && i <= last; i++) {
			int len = snprintf(name, sizeof(name), "%.*s%0*u", (int)head_len, head,
					   digits, i);

			wrong = len < LAUNCH_NAME_MAX
					? nodes_expand(hosts, name, (size_t)len, close + 1)
					: "has a name that is too long";
		}
	}
	return wrong;
}

/* One element of a list: `head`, which is done, and what follows, up to its end */
static const char *nodes_expand(struct launch_hosts *hosts, const char *head, size_t head_len,
				const char *rest)
{
	size_t plain = strcspn(rest, "[,");
	char name[2 * LAUNCH_NAME_MAX];

	if (head_len + plain >= LAUNCH_NAME_MAX)
		return "has a name that is too long";
	snprintf(name, sizeof(name), "%.*s%.*s", (int)head_len, head, (int)plain, rest);
	if (rest[plain] == '[')
		return range_expand(hosts, name, strlen(name), rest + plain + 1);
	if (!name_is_good(name))
		return "has a name that no host can have";
	return host_find(hosts, name) != NULL ? NULL : "names more than 256 hosts";
}

/* Where the next element begins; NULL: nowhere. A comma in brackets ends none. */
static const char *nodes_next(const char *at)
{
	bool inside = false;

	for (; *at != '\0' && (inside || *at != ','); at++)
		inside = *at == '[' || (inside && *at != ']');
	return *at == ',' ? at + 1 : NULL;
}

/* "2(x3),1": tasks of the first three hosts and of the fourth */
static const char *tasks_take(struct launch_hosts *hosts, const char *at)
{
	uint32_t host = 0;

	while (*at != '\0') {
		unsigned tasks, times = 1;
		int ignored;

		if (!number_take(&at, &tasks, &ignored))
			return "is not as Slurm writes it";
		if (strncmp(at, "(x", 2) == 0) {
			at += 2;
			if (!number_take(&at, &times, &ignored) || *at++ != ')')
				return "is not as Slurm writes it";
		}
		for (unsigned i = 0; i < times && host < hosts->count; i++)
			hosts->list[host++].slots = tasks;
		if (*at == ',')
			at++;
		else if (*at != '\0')
			return "is not as Slurm writes it";
	}
	return host == hosts->count ? NULL : "has fewer hosts than SLURM_JOB_NODELIST";
}

int launch_hosts_slurm(struct launch_hosts *hosts, const char *nodes, const char *tasks, char *err,
		       size_t err_bytes)
{
	const char *wrong = nodes[0] == '\0' ? "is empty" : NULL;

	hosts->count = 0;
	hosts->are_given = false;
	for (const char *at = nodes; wrong == NULL && at != NULL; at = nodes_next(at))
		wrong = nodes_expand(hosts, "", 0, at);
	if (wrong != NULL) {
		snprintf(err, err_bytes, "SLURM_JOB_NODELIST: \"%.80s\" %s", nodes, wrong);
		return -EINVAL;
	}
	if (tasks != NULL)
		wrong = tasks_take(hosts, tasks);
	if (wrong != NULL)
		snprintf(err, err_bytes, "SLURM_TASKS_PER_NODE: \"%.80s\" %s", tasks, wrong);
	hosts->are_given = true;
	return wrong != NULL ? -EINVAL : 0;
}
