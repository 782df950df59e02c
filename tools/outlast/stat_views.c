/* SPDX-License-Identifier: BSD-3-Clause */

/* stat_views.c -- `outlast stat --views`: all that a coordinator keeps, of one job or of all */

#include "outlast/stat_views.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cmd/cmd.h"
#include "cmd/counters.h"

enum {
	CELL_MAX = 32,
	DEAD_MAX = 512, /* names of jobs without a server */
};

struct views {
	FILE *out; /* the table; NULL: JSON alone */
	json_t *jobs; /* a list, in the order in which they are told */
	json_t *shards; /* of the last job */
	int64_t now_ms;
	char job[OL_COORD_JOB_MAX]; /* the last one */
	uint32_t live, shard_count; /* of the same */
	char dead[DEAD_MAX];
};

/* "12 s", "3 h": of a time by another clock, which may be ahead */
static const char *age_text(const struct views *views, int64_t at_ms, char cell[CELL_MAX])
{
	static const struct {
		const char *name;
		int64_t seconds;
	} units[] = { { "d", 86400 }, { "h", 3600 }, { "min", 60 }, { "s", 1 } };
	int64_t seconds = (views->now_ms - at_ms) / 1000;
	unsigned unit = 0;

	if (at_ms == 0) {
		snprintf(cell, CELL_MAX, "-");
		return cell;
	}
	seconds = seconds > 0 ? seconds : 0;
	while (unit < 3 && seconds < 2 * units[unit].seconds)
		unit++;
	snprintf(cell, CELL_MAX, "%" PRId64 " %s", seconds / units[unit].seconds, units[unit].name);
	return cell;
}

static const char *const guards[] = {
	[OL_KEPT_OPEN] = "none",
	[OL_KEPT_GUARDED] = "yes",
	[OL_KEPT_CLOSED] = "other",
};

static const char *role_text(const struct ol_view *view, const struct ol_member *replica)
{
	return ol_chain_role_str(ol_view_role(view, replica->id));
}

static bool is_live(const struct ol_kept *kept, const struct ol_member *replica)
{
	return ol_members_have(kept->members, kept->member_count, replica->id);
}

static void shard_text(const struct views *views, const struct ol_kept *kept)
{
	const struct ol_view *view = &kept->view;
	char shard[CELL_MAX] = "-", chain[CELL_MAX] = "-", begun[CELL_MAX], changed[CELL_MAX];
	char epoch[CELL_MAX] = "-";

	if (kept->shard != OL_KEPT_NO_SHARD)
		snprintf(shard, sizeof(shard), "%" PRIu32, kept->shard);
	if (view->epoch != 0) {
		snprintf(epoch, sizeof(epoch), "%" PRIu32, view->epoch);
		snprintf(chain, sizeof(chain), "%" PRIu32 " of %" PRIu32, view->count,
			 view->wanted);
	}
	fprintf(views->out, "%-24s %5s %7s %8s %5" PRIu32 " %6" PRIu64 " %6s %8s %8s\n", kept->job,
		shard, epoch, chain, kept->live, kept->version, guards[kept->access],
		age_text(views, kept->changed_ms, changed), age_text(views, kept->begun_ms, begun));
	if (kept->damaged)
		fprintf(views->out, "    its view is damaged, or none: look at it\n");
	for (uint32_t i = 0; i < view->count + view->joining; i++)
		fprintf(views->out, "    %-8s %s%s\n", role_text(view, &view->replicas[i]),
			view->replicas[i].addr, is_live(kept, &view->replicas[i]) ? "" : ", gone");
	for (uint32_t i = 0; i < kept->member_count; i++)
		if (ol_view_find(view, kept->members[i].id) < 0)
			fprintf(views->out, "    %-8s %s\n", "waiting", kept->members[i].addr);
}

static json_t *server_json(const struct ol_member *member, const char *role, bool live)
{
	char id[CELL_MAX];

	snprintf(id, sizeof(id), "%016" PRIx64, member->id);
	return json_pack("{s:s, s:s, s:s, s:b}", "id", id, "address", member->addr, "role", role,
			 "live", live);
}

static json_t *shard_json(const struct views *views, const struct ol_kept *kept)
{
	const struct ol_view *view = &kept->view;
	json_t *servers = json_array();

	for (uint32_t i = 0; i < view->count + view->joining; i++)
		json_array_append_new(servers, server_json(&view->replicas[i],
							   role_text(view, &view->replicas[i]),
							   is_live(kept, &view->replicas[i])));
	for (uint32_t i = 0; i < kept->member_count; i++)
		if (ol_view_find(view, kept->members[i].id) < 0)
			json_array_append_new(servers,
					      server_json(&kept->members[i], "waiting", true));
	return json_pack("{s:i, s:i, s:I, s:i, s:i, s:i, s:i, s:b, s:I, s:f, s:o}", "shard",
			 (int)kept->shard, "epoch", (int)view->epoch, "views",
			 (json_int_t)kept->version, "wanted", (int)view->wanted, "every",
			 (int)view->every, "founded", (int)view->founded, "live", (int)kept->live,
			 "damaged", kept->damaged, "changed_ms", (json_int_t)kept->changed_ms,
			 "age_s", (double)(views->now_ms - kept->changed_ms) / 1e3, "servers",
			 servers);
}

/* The last job is whole */
static void job_end(struct views *views)
{
	size_t used = strlen(views->dead);
	json_t *job = json_array_get(views->jobs, json_array_size(views->jobs) - 1);

	if (views->job[0] == '\0')
		return;
	json_object_set_new(job, "live", json_integer((json_int_t)views->live));
	if (views->live == 0 && used < sizeof(views->dead))
		snprintf(views->dead + used, sizeof(views->dead) - used, "%s%s",
			 used > 0 ? ", " : "", views->job);
}

static void job_begin(struct views *views, const struct ol_kept *kept)
{
	job_end(views);
	snprintf(views->job, sizeof(views->job), "%s", kept->job);
	views->live = 0;
	views->shards = json_array();
	json_array_append_new(views->jobs,
			      json_pack("{s:s, s:s, s:I, s:o}", "job", kept->job, "guarded",
					guards[kept->access], "begun_ms",
					(json_int_t)kept->begun_ms, "shards", views->shards));
}

static void on_kept(void *arg, const struct ol_kept *kept)
{
	struct views *views = arg;

	if (strcmp(kept->job, views->job) != 0)
		job_begin(views, kept);
	views->live += kept->live;
	views->shard_count++;
	if (views->out != NULL && views->shard_count == 1)
		fprintf(views->out, "%-24s %5s %7s %8s %5s %6s %6s %8s %8s\n", "job", "shard",
			"epoch", "replicas", "live", "views", "guard", "changed", "begun");
	if (views->out != NULL)
		shard_text(views, kept);
	if (kept->shard != OL_KEPT_NO_SHARD)
		json_array_append_new(views->shards, shard_json(views, kept));
}

/* What is wrong with it, under the table */
static void end_text(const struct views *views)
{
	if (views->job[0] == '\0')
		fprintf(views->out, "no job is kept\n");
	if (views->dead[0] != '\0')
		fprintf(views->out,
			"no server lives: %s; if such a job is over, outlast coord --remove JOB removes it\n",
			views->dead);
}

int stat_views(const struct ol_coordinator *coordinator, FILE *out, json_t **ret_report)
{
	struct views views = { .out = out, .jobs = json_array() };
	struct timespec now;
	char err[256] = "";
	int rc;

	clock_gettime(CLOCK_REALTIME, &now);
	views.now_ms = (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
	if (views.jobs == NULL)
		return ol_cmd_error(OL_EXIT_RESOURCES, "stat", "no memory", NULL, NULL);
	rc = ol_coordinator_list(coordinator, on_kept, &views, err, sizeof(err));
	if (rc != 0) {
		json_decref(views.jobs);
		return ol_cmd_error(ol_cmd_exit_of_coord(rc), "stat", err, NULL, NULL);
	}
	job_end(&views);
	if (out != NULL)
		end_text(&views);
	*ret_report = json_pack("{s:s, s:o}", "coordinator", coordinator->addr, "jobs", views.jobs);
	return 0;
}
