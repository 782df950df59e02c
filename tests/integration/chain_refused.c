/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * chain_refused.c -- invalid settings of chains, coordinators that do not answer, and servers and
 * workers of another job are refused with a code, and one line that names what and where
 */

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "support/check.h"
#include "support/crew.h"

enum {
	SHORT_MS = 300
};

static const char nobody[] = "dir:/tmp/ol-test-nobody-is-here";

/* One line, not empty, that names what it is about */
static void line_check(const char *err, const char *about)
{
	check_msg(err[0] != '\0' && strchr(err, '\n') == NULL && strstr(err, about) != NULL,
		  "\"%s\" is not one line about %s", err, about);
}

static void server_refused(const struct ol_server_opts *opts, int rc, const char *about)
{
	struct ol_server *server = NULL;
	static float weights[2 * TALLY_PARAMS];
	char err[256] = "";

	check_eq(ol_server_open(opts, weights, &server, err, sizeof(err)), rc);
	check(server == NULL);
	line_check(err, about);
}

static void worker_refused(const struct ol_worker_opts *opts, int rc, const char *about)
{
	struct ol_worker *worker = NULL;
	char err[256] = "";

	check_eq(ol_worker_open(opts, &worker, err, sizeof(err)), rc);
	check(worker == NULL);
	line_check(err, about);
}

static struct ol_server_opts server_opts(const struct job *job)
{
	struct ol_server_opts opts = job->opts;

	opts.listen = job->opts.transport[0] == 's' ? "@ol-test-refused" : "0.0.0.0:0";
	opts.coordinator = job->coordinator_addr;
	opts.coordinator_timeout_ms = SHORT_MS;
	return opts;
}

static int servers(const struct job *job, long unused)
{
	struct ol_server_opts good = server_opts(job), opts = good;

	(void)unused;
	opts.replicas = 0;
	server_refused(&opts, -EINVAL, "replicas");
	opts.replicas = 9;
	server_refused(&opts, -EINVAL, "replicas");
	opts = good;
	opts.lease_ms = 0;
	server_refused(&opts, -EINVAL, "lease_ms");
	opts = good;
	opts.coordinator = nobody;
	server_refused(&opts, -ENOENT, nobody);
	opts = good;
	opts.job_key = "another key of this job";
	server_refused(&opts, OL_E_GEOMETRY, "key");
	opts = good;
	opts.job = "no/name";
	server_refused(&opts, -EINVAL, "name");
	/* of another model, optimizer, period, under the name of a job whose chain is there */
	opts = good;
	opts.param_count = 2 * TALLY_PARAMS;
	server_refused(&opts, OL_E_GEOMETRY, job->coordinator_addr);
	opts = good;
	opts.rule.lr = 0.25f;
	server_refused(&opts, OL_E_GEOMETRY, "optimizer");
	opts = good;
	opts.replicate_every = 10;
	server_refused(&opts, OL_E_GEOMETRY, job->coordinator_addr);
	return 0;
}

static int workers(const struct job *job, long unused)
{
	struct ol_worker_opts good, opts;

	(void)unused;
	ol_worker_opts_init(&good);
	good.lease_ms = JOB_LEASE_MS;
	good.coordinator = job->coordinator_addr;
	good.transport = job_transport();
	good.outage = OL_OUTAGE_WAIT;
	good.connect_timeout_ms = SHORT_MS;
	opts = good;
	opts.coordinator = nobody;
	worker_refused(&opts, OL_E_NO_SERVER, nobody);
	opts = good;
	opts.outage = OL_OUTAGE_END;
	worker_refused(&opts, -EINVAL, "outage");
	opts = good;
	opts.servers = "@one";
	worker_refused(&opts, -EINVAL, "coordinator");
	opts = good;
	opts.job_key = "another key of this job";
	worker_refused(&opts, OL_E_AUTH, "key");
	opts = good;
	opts.job = "no/name";
	worker_refused(&opts, -EINVAL, "name");
	opts = good;
	opts.param_count = 2 * TALLY_PARAMS;
	worker_refused(&opts, OL_E_GEOMETRY, "shard 0");
	opts = good;
	opts.job = "of-nobody";
	worker_refused(&opts, OL_E_NO_SERVER, "of-nobody");
	opts = good;
	opts.worker = TALLY_WORKERS;
	worker_refused(&opts, OL_E_WORKER_ID, "workers_max");
	return 0;
}

/* What is no good where chains are, though the worker is */
static int calls(const struct job *job, long unused)
{
	struct ol_worker *worker = job_worker(job, 0);

	(void)unused;
	check_eq(ol_worker_redirect(worker, 0, "@elsewhere"), -EPERM);
	check_ok(job_push(worker, 1.0f));
	ol_worker_close(worker);
	return 0;
}

static int lookers(const struct job *job, long unused)
{
	struct ol_chains *chains = NULL;
	struct ol_chain_info info;
	char err[256] = "";

	(void)unused;
	check_eq(ol_chains_open(nobody, NULL, NULL, 1, SHORT_MS, &chains, err, sizeof(err)),
		 -ENOENT);
	line_check(err, nobody);
	check_eq(ol_chains_open(job->coordinator_addr, "no/name", NULL, 1, SHORT_MS, &chains, err,
				sizeof(err)),
		 -EINVAL);
	line_check(err, "name");
	check(chains == NULL);
	check_ok(ol_chains_open(job->coordinator_addr, NULL, NULL, 1, SHORT_MS, &chains, err,
				sizeof(err)));
	check_eq(ol_chains_get(chains, 1, &info), -EINVAL);
	check_ok(ol_chains_get(chains, 0, &info));
	check_eq(info.count, 2);
	ol_chains_close(chains);
	return 0;
}

int main(int argc, char **argv)
{
	struct ol_server_opts opts = crew_opts(0);
	struct job job;

	(void)havoc_seeds(argc, argv, 1);
	opts.replicas = 2;
	opts.lease_ms = 1000;
	opts.restore = OL_RESTORE_NONE;
	job_start_chain(&job, opts, 0.0f);
	job_join(job_fork(servers, &job, 0));
	printf("ok servers\n");
	job_join(job_fork(workers, &job, 0));
	printf("ok workers\n");
	job_join(job_fork(calls, &job, 0));
	printf("ok calls\n");
	job_join(job_fork(lookers, &job, 0));
	printf("ok who only looks\n");
	check_eq(job_chain(&job, 0, 2).epoch, 3); /* nobody has noticed */
	job_stop(&job);
	return 0;
}
