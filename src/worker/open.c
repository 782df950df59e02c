/* SPDX-License-Identifier: BSD-3-Clause */

/* open.c -- a worker's life: options, connecting to every shard, another address, closing */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cancel.h"
#include "base/clock.h"
#include "base/defaults.h"
#include "base/key.h"
#include "base/log.h"
#include "base/sized.h"
#include "base/status.h"
#include "replication/coord/lease.h"
#include "wire/auth.h"
#include "wire/seq.h"
#include "wire/tensor.h"
#include "worker/worker_internal.h"

void ol_worker_opts_init_sized(struct ol_worker_opts *opts, size_t opts_bytes)
{
	const struct ol_worker_opts defaults = {
		.size = opts_bytes,
		.cancel_fd = -1,
		.connect_timeout_ms = OL_DEFAULT_CONNECT_MS,
		.op_timeout_ms = 30000,
		.retry_timeout_ms = OL_DEFAULT_RETRY_TIMEOUT_MS,
		.spin_us = OL_DEFAULT_SPIN_US,
		.pull_retries_max = 100,
		.outage_timeout_ms = OL_DEFAULT_OUTAGE_S * 1000,
		.lease_ms = OL_DEFAULT_LEASE_MS,
		.queue_max = OL_DEFAULT_QUEUE_MAX,
	};

	ol_sized_give(opts, opts_bytes, &defaults, sizeof(defaults));
}

static int fail(char *err, size_t err_bytes, int rc, const char *what)
{
	if (err != NULL && err_bytes > 0)
		snprintf(err, err_bytes, "%s", what);
	return rc;
}

/* Make a link for each address of "a,b,c" */
static int links_create(struct ol_worker *worker, const char *servers)
{
	const char *at = servers;
	uint32_t count = 1;
	int rc;

	for (const char *c = servers; *c != '\0'; c++)
		count += *c == ',';
	if (count > OL_SHARDS_MAX)
		return -EINVAL;
	rc = ol_links_make(worker, count);
	if (rc != 0)
		return rc;
	for (uint32_t i = 0; i < count; i++) {
		struct ol_peer *head = ol_link_head(&worker->links[i]);
		size_t bytes = strcspn(at, ",");
		const char *one = head->addrs;

		if (bytes == 0 || bytes >= sizeof(head->addrs))
			return -EINVAL;
		memcpy(head->addrs, at, bytes);
		do {
			size_t length = strcspn(one, "|");

			if (length == 0 || length >= sizeof(head->dial.addr))
				return -EINVAL;
			one += length;
		} while (*one++ == '|');
		at += bytes + 1;
	}
	return 0;
}

static int links_failed(const struct ol_worker *worker, bool *ret_all_live)
{
	*ret_all_live = true;
	for (uint32_t i = 0; i < worker->link_count; i++) {
		const struct ol_link *link = &worker->links[i];

		if (link->state == OL_LINK_FAILED)
			return link->status;
		if (link->state != OL_LINK_LIVE)
			*ret_all_live = false;
	}
	return 0;
}

/* Poll until every link is live, one fails, or it takes too long */
static int links_wait(struct ol_worker *worker)
{
	uint64_t bound_ns = ol_clock_ns() + worker->opts.connect_timeout_ms * OL_NS_PER_MS;
	bool all_live = false;
	int rc = 0;

	/* with chains the first poll finds the servers */
	for (uint32_t i = 0; worker->coord == NULL && i < worker->link_count; i++)
		ol_link_start(ol_link_head(&worker->links[i]), ol_clock_ns());
	while (rc >= 0) {
		rc = links_failed(worker, &all_live);
		if (rc != 0 || all_live)
			return rc;
		if (ol_cancelled(worker->opts.cancel_fd)) {
			snprintf(worker->err, sizeof(worker->err),
				 "called back by cancel_fd before all servers were connected");
			return -ECANCELED;
		}
		if (ol_clock_ns() >= bound_ns)
			break;
		rc = ol_worker_poll(worker);
		if (rc >= 0)
			rc = ol_worker_sleep(worker, 5 * OL_NS_PER_MS);
	}
	for (uint32_t i = 0; i < worker->link_count && rc >= 0; i++) {
		struct ol_link *link = &worker->links[i];
		const struct ol_peer *peer = link->reader;

		if (link->state == OL_LINK_LIVE)
			continue;
		if (peer->dial.state == OL_DIAL_LIVE)
			peer = ol_link_head(link);
		if (peer->refusal[0] != '\0') {
			snprintf(worker->err, sizeof(worker->err),
				 "server %.127s (shard %u): not let in within %u ms: %s",
				 peer->addrs, i, worker->opts.connect_timeout_ms, peer->refusal);
			return peer->refusal_status;
		}
		snprintf(
			worker->err, sizeof(worker->err),
			"server %.255s (shard %u): no answer within %u ms; is it running? If so, its log says why",
			peer->addrs, i, worker->opts.connect_timeout_ms);
		return OL_E_NO_SERVER;
	}
	return rc;
}

/* Check that all shards are of one job. They differ in place, and in epoch: a restarted server has a
 * newer one */
static int links_agree(struct ol_worker *worker)
{
	struct ol_link *first = &worker->links[0];

	for (uint32_t i = 1; i < worker->link_count; i++) {
		struct ol_link *link = &worker->links[i];

		if (link->geo.param_count == first->geo.param_count &&
		    link->geo.workers_max == first->geo.workers_max &&
		    link->geo.consistency == first->geo.consistency &&
		    !ol_tensors_digests_differ(link->geo.tensors_digest, first->geo.tensors_digest))
			continue;
		snprintf(worker->err, sizeof(worker->err),
			 "server %s (shard %u) is of another job than %s (shard 0): parameters, "
			 "tensors, workers or consistency differ",
			 ol_link_head(link)->dial.addr, i, ol_link_head(first)->dial.addr);
		return OL_E_GEOMETRY;
	}
	return 0;
}

/* Check that the job allows CONTINUE */
static int outage_check(struct ol_worker *worker)
{
	const struct ol_worker_opts *opts = &worker->opts;
	const char *why = NULL;

	if (opts->outage != OL_OUTAGE_CONTINUE || opts->observer)
		return 0;
	if (worker->window < 2)
		why = "outage continue needs a window of 2 gradient buffers or more";
	if (why == NULL)
		return 0;
	snprintf(worker->err, sizeof(worker->err), "%s", why);
	return -EINVAL;
}

static const char *opts_fault(const struct ol_worker_opts *opts)
{
	if (opts->coordinator == NULL && (opts->servers == NULL || opts->servers[0] == '\0'))
		return "no server address given";
	if (opts->coordinator != NULL && opts->servers != NULL)
		return "servers and a coordinator are given: the coordinator knows the servers of "
		       "chains; give the coordinator alone";
	if (opts->outage > OL_OUTAGE_CONTINUE || opts->queue > OL_QUEUE_WAIT ||
	    opts->observer > OL_OBSERVER_COUNTERS)
		return "outage, queue or observer has no such value";
	if (opts->gradient_format > OL_FORMAT_INT8)
		return "gradient_format has no such value";
	if (opts->own_buffers > 1)
		return "own_buffers is 0 or 1";
	if (opts->weights_format != OL_FORMAT_FP32 &&
	    (opts->weights_format != OL_FORMAT_BF16 || opts->observer != OL_OBSERVER_READS))
		return "weights_format is FP32, or an observer's of weights BF16: a worker computes at "
		       "the weights that the servers have";
	if (opts->coordinator != NULL && opts->outage == OL_OUTAGE_END)
		return "with a coordinator outage must be wait or continue";
	if (opts->queue_max == 0)
		return "queue_max is 0";
	if (opts->outage != OL_OUTAGE_END && opts->lease_ms != 0 && opts->lease_ms < OL_LEASE_BEATS)
		return "lease_ms is less than 4 heartbeats of 1 ms: give 4 times the servers' "
		       "heartbeat_ms, or more; 0: no lease";
	if (!ol_cancel_fd_is_good(opts->cancel_fd))
		return "cancel_fd is no open descriptor: give an eventfd, or -1";
	return ol_key_fault(opts->job_key);
}

/* A credential lets its holder speak as itself alone. */
static const char *key_fault(const struct ol_worker_opts *opts, uint32_t *ret_observer_id)
{
	const char *key = opts->job_key != NULL ? opts->job_key : "";
	enum ol_holder holder;

	if (ol_auth_holder(key, &holder, ret_observer_id) != 0)
		return "the job key begins as a credential and is none, as if cut off: copy it again, or make it anew (outlast keygen)";
	if (opts->observer)
		return NULL;
	if (holder == OL_HOLDER_OBSERVER)
		return "the job key is an observer's credential, which is good to look only: a worker needs its own (outlast keygen --worker ID)";
	if (holder == OL_HOLDER_WORKER && *ret_observer_id != opts->worker)
		return "the job key is the credential of a worker with another id: give this id's own (outlast keygen --worker ID), or that worker's id";
	return NULL;
}

/* Find the servers, and the transport that reaches them */
static int servers_find(struct ol_worker *worker)
{
	const struct ol_worker_opts *opts = &worker->opts;
	char addr[OL_ENDPOINT_MAX] = "";
	int rc;

	if (opts->coordinator != NULL) {
		rc = ol_route_open(worker, addr);
		if (rc != 0 && worker->err[0] == '\0')
			snprintf(worker->err, sizeof(worker->err), "coordinator %.128s: %s",
				 opts->coordinator, ol_strerror(rc));
	} else {
		addr[0] = opts->servers[0];
		rc = links_create(worker, opts->servers);
		if (rc != 0)
			snprintf(worker->err, sizeof(worker->err), "servers \"%.80s\": %s",
				 opts->servers,
				 rc == -EINVAL
					 ? "not a list of 1 to 64 addresses with commas between"
					 : ol_strerror(rc));
	}
	if (rc != 0)
		return rc;
	worker->ops = ol_xport_find(ol_xport_name(opts->transport, addr));
	if (worker->ops != NULL)
		return 0;
	snprintf(worker->err, sizeof(worker->err), "transport is neither \"verbs\" nor \"shm\"");
	return -ENODEV;
}

static bool tag_is_known(const struct ol_worker *worker, uint32_t tag)
{
	for (uint32_t i = 0; i < worker->link_count; i++) {
		for (uint32_t k = 0; k < OL_PEERS; k++) {
			if (ol_seq_tag(worker->links[i].peers[k].resolved_seq) == tag)
				return true;
		}
	}
	return false;
}

static void tag_next(struct ol_worker *worker)
{
	worker->tag = worker->tag % OL_SEQ_TAG_MAX + 1;
}

/* Draw the tag of this process's push numbers, which its hellos say */
static int tag_draw(struct ol_worker *worker)
{
	int rc = ol_auth_random(&worker->tag, sizeof(worker->tag));

	tag_next(worker);
	return rc;
}

/* All servers have said what they know of this worker id: numbers are to be of a tag that none does. It is seldom
 * another one than that of the hellos */
static void tag_settle(struct ol_worker *worker)
{
	while (tag_is_known(worker, worker->tag))
		tag_next(worker);
	for (uint32_t i = 0; i < worker->link_count; i++)
		worker->links[i].seq = ol_seq_make(worker->tag, 0);
}

static int worker_start(struct ol_worker *worker)
{
	char text[OL_STATUS_TEXT_MAX];
	int rc = ol_init_open(worker);

	if (rc == 0)
		rc = servers_find(worker);
	if (rc != 0)
		return rc;
	rc = ol_rails_open(worker);
	if (rc != 0) {
		snprintf(worker->err, sizeof(worker->err), "cannot open transport %s: %s",
			 worker->ops->name, ol_status_text(rc, text));
		return rc;
	}
	rc = tag_draw(worker);
	if (rc != 0) {
		snprintf(worker->err, sizeof(worker->err), "the system gave no random bytes");
		return rc;
	}
	rc = links_wait(worker);
	if (rc == 0)
		rc = links_agree(worker);
	if (rc != 0)
		return rc;
	tag_settle(worker);
	rc = ol_worker_memory_start(worker);
	if (rc == -ENODEV)
		rc = ol_rail_lost_early(worker);
	else if (rc != 0)
		snprintf(worker->err, sizeof(worker->err),
			 "no memory for gradients and weights: %s", ol_status_text(rc, text));
	if (rc == 0)
		rc = outage_check(worker);
	worker->started = rc == 0;
	return rc;
}

int ol_worker_open(const struct ol_worker_opts *opts, struct ol_worker **ret_worker, char *err,
		   size_t err_bytes)
{
	uint32_t observer_id = OL_NOBODY;
	struct ol_worker *worker;
	struct ol_worker_opts known;
	const char *fault;
	int rc;

	ol_worker_opts_init(&known);
	fault = ol_sized_take(&known, sizeof(known), opts, opts->size);
	if (fault != NULL) {
		if (err != NULL)
			snprintf(err, err_bytes, "worker option %s", fault);
		return -EINVAL;
	}
	fault = opts_fault(&known);
	if (fault == NULL)
		fault = key_fault(&known, &observer_id);
	if (fault != NULL)
		return fail(err, err_bytes, -EINVAL, fault);
	worker = calloc(1, sizeof(*worker));
	if (worker == NULL)
		return fail(err, err_bytes, -ENOMEM, "no memory for the worker");
	worker->opts = known;
	worker->observer_id = observer_id;
	worker->wake_fd = -1;
	ol_owner_take(&worker->owner);
	worker->job_key = strdup(known.job_key != NULL ? known.job_key : "");
	if (ol_rails_parse(known.device, &worker->rail_names) != 0)
		rc = fail(err, err_bytes, -EINVAL, "device: " OL_RAILS_HELP);
	else if (worker->job_key == NULL)
		rc = fail(err, err_bytes, -ENOMEM, "no memory for the worker");
	else
		rc = worker_start(worker);
	if (rc == 0) {
		/* these are the caller's, and no longer needed */
		worker->opts.init = NULL;
		worker->opts.init_tensors = NULL;
		worker->opts.servers = worker->opts.coordinator = worker->opts.job = NULL;
		worker->opts.device = worker->opts.job_key = NULL;
		*ret_worker = worker;
		return 0;
	}
	if (worker->err[0] != '\0')
		fail(err, err_bytes, rc, worker->err);
	ol_worker_close(worker);
	return rc;
}

int ol_worker_adopt(struct ol_worker *worker)
{
	if (!ol_owner_here(&worker->owner))
		return OL_E_THREAD;
	ol_owner_take(&worker->owner);
	return 0;
}

void ol_worker_close(struct ol_worker *worker)
{
	if (worker == NULL || !ol_owner_here(&worker->owner))
		return; /* in a child of a fork, which does not own the worker */
	if (!ol_worker_is_mine(worker)) {
		ol_log(OL_LOG_ERROR, "ol_worker_close(): the worker belongs to another thread; it "
				     "stays open");
		return;
	}
	ol_route_close(worker);
	worker->started = false; /* no connection is tried again */
	ol_push_fail(worker, -ECANCELED);
	ol_pull_fail(worker, -ECANCELED);
	for (uint32_t i = 0; worker->links != NULL && i < worker->link_count; i++)
		ol_link_free(&worker->links[i]);
	ol_worker_memory_free(worker);
	for (uint32_t i = 0; i < worker->rail_count; i++) {
		if (worker->rails[i].xport != NULL)
			worker->ops->close(worker->rails[i].xport);
	}
	free(worker->links);
	if (worker->job_key != NULL)
		explicit_bzero(worker->job_key, strlen(worker->job_key));
	free(worker->job_key);
	free(worker);
}

/* Is it one address of this worker's transport? `bytes` ends before a "|" */
static bool addr_fits(const struct ol_worker *worker, const char *addr, size_t bytes)
{
	const char *colon = memrchr(addr, ':', bytes), *end = addr + bytes;

	if (bytes == 0 || bytes >= OL_XPORT_ADDR_MAX || memchr(addr, ',', bytes) != NULL)
		return false;
	if (strcmp(worker->ops->name, ol_xport_name(NULL, "@")) == 0)
		return addr[0] == '@' ? bytes > 1 : memchr(addr, '/', bytes) != NULL;
	return addr[0] != '@' && addr[0] != '/' && colon != NULL && colon > addr &&
	       colon + 1 < end && colon + 1 + strspn(colon + 1, "0123456789") == end;
}

static bool addrs_fit(const struct ol_worker *worker, const char *addrs)
{
	size_t bytes = strcspn(addrs, "|");

	while (addr_fits(worker, addrs, bytes)) {
		if (addrs[bytes] == '\0')
			return true;
		addrs += bytes + 1;
		bytes = strcspn(addrs, "|");
	}
	return false;
}

int ol_worker_redirect(struct ol_worker *worker, uint32_t shard, const char *addr)
{
	struct ol_link *link;

	if (!ol_worker_is_mine(worker))
		return OL_E_THREAD;
	if (worker->opts.outage == OL_OUTAGE_END || worker->coord != NULL)
		return -EPERM;
	if (shard >= worker->link_count)
		return -EINVAL;
	link = &worker->links[shard];
	if (strlen(addr) >= sizeof(ol_link_head(link)->addrs) || !addrs_fit(worker, addr)) {
		ol_log(OL_LOG_ERROR,
		       "ol_worker_redirect(): shard %u: \"%.80s\" is no address of transport %s: " OL_XPORT_ADDR_HELP,
		       shard, addr, worker->ops->name);
		return -EINVAL;
	}
	if (link->state == OL_LINK_FAILED)
		return OL_E_NO_SERVER;
	memcpy(ol_link_head(link)->addrs, addr, strlen(addr) + 1);
	ol_link_move(link, ol_worker_now(worker));
	return 0;
}

void ol_worker_info_sized(const struct ol_worker *worker, struct ol_job_info *ret_info,
			  size_t info_bytes)
{
	const struct ol_geometry *geo = &worker->links[0].geo;
	uint64_t version = worker->links[0].version;
	struct ol_job_info info = { 0 };

	if (!ol_worker_is_mine(worker)) {
		ol_sized_give(ret_info, info_bytes, &info, sizeof(info));
		return;
	}
	for (uint32_t i = 1; i < worker->link_count; i++) {
		if (worker->links[i].version < version)
			version = worker->links[i].version;
	}
	info = (struct ol_job_info){
		.param_count = geo->param_count,
		.version = version,
		.shard_count = worker->link_count,
		.window = worker->window,
		.workers_max = geo->workers_max,
		.epoch = worker->links[0].epoch,
		.consistency = (enum ol_consistency)geo->consistency,
		.zero_copy = worker->zero_copy,
		.transport = worker->ops->name,
	};
	ol_sized_give(ret_info, info_bytes, &info, sizeof(info));
}
