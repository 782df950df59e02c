/* SPDX-License-Identifier: BSD-3-Clause */

/* ask.c -- ask.h: checks what is asked, and finds the back end; findings with their figures */

#include "replication/coord/ask_internal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
	TEXT_MAX = 512
};

static int fail(const struct ol_coord_ask *ask, int rc, const char *text, char *err,
		size_t err_bytes)
{
	if (err != NULL && err_bytes > 0)
		snprintf(err, err_bytes, "coordinator %s: %s", ask->addr != NULL ? ask->addr : "",
			 text);
	return rc;
}

/* The back end of the address; NULL after a line */
static const struct ol_coord_backend *backend_find(const struct ol_coord_ask *ask, bool job,
						   char *err, size_t err_bytes)
{
	const char *fault = ol_coord_addr_fault(ask->addr);

	if (fault == NULL && (job || ask->job != NULL))
		fault = ol_coord_job_fault(ask->job);
	if (fault == NULL)
		return ol_coord_backend_of(ask->addr);
	fail(ask, -EINVAL, fault, err, err_bytes);
	return NULL;
}

int ol_coord_list(const struct ol_coord_ask *ask, ol_kept_fn *tell, void *arg, char *err,
		  size_t err_bytes)
{
	const struct ol_coord_backend *backend = backend_find(ask, false, err, err_bytes);
	char why[OL_COORD_LINE_MAX] = "";
	int rc = backend != NULL ? backend->list(ask, tell, arg, why, sizeof(why)) : -EINVAL;

	return rc == 0 || backend == NULL ? rc : fail(ask, rc, why, err, err_bytes);
}

int ol_coord_remove(const struct ol_coord_ask *ask, char *err, size_t err_bytes)
{
	const struct ol_coord_backend *backend = backend_find(ask, true, err, err_bytes);
	char why[OL_COORD_LINE_MAX] = "";
	int rc = backend != NULL ? backend->remove(ask, why, sizeof(why)) : -EINVAL;

	return rc == 0 || backend == NULL ? rc : fail(ask, rc, why, err, err_bytes);
}

int ol_coord_make_root(const struct ol_coord_ask *ask, char *err, size_t err_bytes)
{
	const struct ol_coord_backend *backend = backend_find(ask, false, err, err_bytes);
	char why[OL_COORD_LINE_MAX] = "";
	int rc = backend != NULL ? backend->make_root(ask, why, sizeof(why)) : -EINVAL;

	return rc == 0 || backend == NULL ? rc : fail(ask, rc, why, err, err_bytes);
}

int ol_coord_examine(const struct ol_coord_ask *ask, uint32_t lease_ms, uint32_t rounds,
		     ol_coord_finding_fn *tell, void *arg, char *err, size_t err_bytes)
{
	const struct ol_coord_backend *backend = backend_find(ask, false, err, err_bytes);
	struct ol_asker asker = { .tell = tell, .arg = arg };
	char why[OL_COORD_LINE_MAX] = "";
	int rc = -EINVAL;

	if (backend == NULL)
		return rc;
	if (rounds == 0 || rounds > OL_ASK_ROUNDS_MAX)
		return fail(ask, -EINVAL, "rounds are not between 1 and 1000", err, err_bytes);
	rc = backend->examine(ask, lease_ms, rounds, &asker, why, sizeof(why));
	return rc == 0 ? rc : fail(ask, rc, why, err, err_bytes);
}

void ol_ask_figure(struct ol_asker *asker, const char *name, double value)
{
	if (asker->figure_count < OL_ASK_FIGURES_MAX)
		asker->figures[asker->figure_count++] =
			(struct ol_coord_figure){ .name = name, .value = value };
}

void ol_ask_find(struct ol_asker *asker, enum ol_coord_verdict verdict, const char *subject,
		 const char *remedy, const char *format, ...)
{
	char text[TEXT_MAX];
	struct ol_coord_finding finding = { .verdict = verdict,
					    .subject = subject,
					    .text = text,
					    .remedy = remedy,
					    .figures = asker->figures,
					    .figure_count = asker->figure_count };
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	asker->bad = asker->bad || verdict == OL_COORD_BAD;
	asker->warned = asker->warned || verdict == OL_COORD_WARN;
	asker->tell(asker->arg, &finding);
	asker->figure_count = 0;
}

static int time_compare(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

void ol_ask_latency(struct ol_asker *asker, const char *subject, const char *what,
		    uint64_t *times_ns, uint32_t count, uint64_t slow_ns, const char *remedy)
{
	bool slow;
	double ms[3];

	qsort(times_ns, count, sizeof(times_ns[0]), time_compare);
	slow = slow_ns != 0 && times_ns[count / 2] > slow_ns;
	ms[0] = (double)times_ns[0] / 1e6;
	ms[1] = (double)times_ns[count / 2] / 1e6;
	ms[2] = (double)times_ns[count - 1] / 1e6;
	ol_ask_figure(asker, "min_ms", ms[0]);
	ol_ask_figure(asker, "median_ms", ms[1]);
	ol_ask_figure(asker, "max_ms", ms[2]);
	ol_ask_find(asker, slow ? OL_COORD_WARN : OL_COORD_FINE, subject, slow ? remedy : NULL,
		    "%s: min %.2f ms, median %.2f ms, max %.2f ms of %u", what, ms[0], ms[1], ms[2],
		    count);
}

int64_t ol_ask_wall_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void job_count(struct ol_ask_jobs *jobs)
{
	if (jobs->last[0] == '\0')
		return;
	jobs->jobs++;
	jobs->dead += jobs->last_live == 0;
	jobs->open += jobs->last_open;
	if (jobs->last_live == 0 && jobs->a_dead[0] == '\0')
		memcpy(jobs->a_dead, jobs->last, sizeof(jobs->a_dead));
	if (jobs->last_open && jobs->an_open[0] == '\0')
		memcpy(jobs->an_open, jobs->last, sizeof(jobs->an_open));
}

void ol_ask_jobs_on_kept(void *arg, const struct ol_kept *kept)
{
	struct ol_ask_jobs *jobs = arg;

	if (strcmp(kept->job, jobs->last) != 0) {
		job_count(jobs);
		jobs->last_live = 0;
		jobs->last_open = false;
		snprintf(jobs->last, sizeof(jobs->last), "%s", kept->job);
	}
	jobs->last_live += kept->live;
	jobs->last_open = jobs->last_open || kept->access == OL_KEPT_OPEN;
}

void ol_ask_jobs_tell(struct ol_asker *asker, struct ol_ask_jobs *jobs, bool open)
{
	char remedy[192];

	job_count(jobs);
	ol_ask_figure(asker, "jobs", jobs->jobs);
	ol_ask_figure(asker, "dead", jobs->dead);
	if (open)
		ol_ask_figure(asker, "open", jobs->open);
	snprintf(
		remedy, sizeof(remedy),
		"outlast stat --views shows all; outlast coord --remove JOB removes one that is over, "
		"as %s",
		jobs->a_dead);
	ol_ask_find(asker, OL_COORD_FINE, "jobs", jobs->dead > 0 ? remedy : NULL,
		    "%" PRIu32 " are kept, %" PRIu32 " of them without a live server", jobs->jobs,
		    jobs->dead);
}
