/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * zookeeper_storm.c -- 200 clients of one job, as many sessions, come at once, come and go; each of them sees the
 * view in force, also after two of three servers were killed and brought back, and no session is lost by that
 *
 *	zookeeper_storm			with an ensemble and a chain's views of its own
 *	zookeeper_storm ADDR JOB	on a job that runs, with the key of OUTLAST_JOB_KEY: come and go until
 *					standard input ends, then all see the view that a new client sees
 */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdatomic.h>
#include <sys/resource.h>

#include "support/ensemble.h"
#include "unit/replication/coord_guest.h"
#include "wire/auth.h"

enum {
	SERVERS = 3,
	OPENERS = 8, /* threads that open and close */
#if defined(__SANITIZE_THREAD__)
	CLIENTS = 64,
#else
	CLIENTS = 200,
#endif
	SESSION_MS = 20000, /* outlives the time for which there is no quorum */
	FAILOVERS = 4,
};

static struct ensemble ensemble;
static struct guest clients[CLIENTS];
static const char *addr, *job;
static char key[256];
static _Atomic bool ending;

static void client_open(struct guest *client)
{
	struct ol_coord_opts opts = guest_opts(client, addr);

	opts.job = job;
	opts.shard_count = 1;
	opts.lease_ms = SESSION_MS;
	opts.mac = ol_auth_coord_mac;
	opts.owner_mac = ol_auth_coord_owner_mac;
	opts.mac_arg = key;
	opts.keyless = key[0] == '\0';
	guest_enter(client, &opts);
}

/* Each opener has the clients whose number leaves its own as remainder */
static void *open_share(void *arg)
{
	for (struct guest *client = arg; client < clients + CLIENTS; client += OPENERS)
		client_open(client);
	return NULL;
}

static void *churn_share(void *arg)
{
	for (struct guest *client = arg; !atomic_load(&ending);) {
		guest_close(client);
		client_open(client);
		client += OPENERS;
		if (client >= clients + CLIENTS)
			client = arg;
	}
	return NULL;
}

static void *close_share(void *arg)
{
	for (struct guest *client = arg; client < clients + CLIENTS; client += OPENERS)
		guest_close(client);
	return NULL;
}

static pthread_t openers[OPENERS];

static void all_start(void *(*share)(void *arg))
{
	for (unsigned i = 0; i < OPENERS; i++)
		check_ok(pthread_create(&openers[i], NULL, share, &clients[i]));
}

static void all_end(void)
{
	for (unsigned i = 0; i < OPENERS; i++)
		check_ok(pthread_join(openers[i], NULL));
}

static bool has_reached(const struct ol_coord_state *state, uint64_t version)
{
	return state->connected && state->version >= version;
}

/* Every client has a connection and this version of the view; how many sessions were lost on the way */
static uint64_t all_reach(uint64_t version)
{
	struct ol_coord_state state;
	uint64_t losses = 0;

	for (unsigned i = 0; i < CLIENTS; i++) {
		guest_wait(&clients[i], 0, has_reached, version, "the view in force", &state);
		check(!ol_coord_is_lost(&state));
		losses += state.losses;
	}
	return losses;
}

/* What the head that is left does, until it is in force: what was sent when a connection broke is forgotten */
static void fail_over(struct guest *head, uint64_t version)
{
	struct ol_coord_state state;

	for (;;) {
		struct ol_view next = view_make((uint32_t)version, version, version + 1);

		next.shard_count = 1;
		ol_coord_look(head->coord, 0, &state);
		if (state.version >= version)
			return;
		if (state.connected)
			ol_coord_propose(head->coord, 0, version - 1, &next);
		(void)poll(NULL, 0, 5);
	}
}

static void on_an_ensemble_of_its_own(void)
{
	struct guest head;
	uint64_t start_ns, version = 0, losses;

	ensemble_start(&ensemble, SERVERS);
	addr = ensemble.addr;
	job = "storm";
	client_open(&head);
	fail_over(&head, ++version);
	start_ns = ol_coord_now_ns();
	all_start(open_share);
	all_end();
	(void)all_reach(version);
	printf("%d clients came within %" PRIu64 " ms\n", CLIENTS,
	       (ol_coord_now_ns() - start_ns) / 1000000);
	all_start(churn_share); /* they come and go, and heads die */
	for (unsigned i = 0; i < FAILOVERS; i++)
		fail_over(&head, ++version);
	atomic_store(&ending, true);
	all_end();
	losses = all_reach(version);
	check_eq(losses, 0);
	printf("%d failovers while they came and went: %" PRIu64 " ms after the start\n", FAILOVERS,
	       (ol_coord_now_ns() - start_ns) / 1000000);
	ensemble_kill(&ensemble, 0);
	ensemble_kill(&ensemble, 1);
	ensemble_restart(&ensemble, 0);
	ensemble_restart(&ensemble, 1);
	fail_over(&head, ++version); /* proposed while there is no quorum, and again */
	losses = all_reach(version);
	printf("two of three servers were killed and came back: %" PRIu64 " sessions were lost\n",
	       losses);
	check_eq(losses, 0);
	start_ns = ol_coord_now_ns();
	fail_over(&head, ++version);
	(void)all_reach(version);
	printf("%d clients saw a view within %" PRIu64 " ms\n", CLIENTS,
	       (ol_coord_now_ns() - start_ns) / 1000000);
	all_start(close_share);
	all_end();
	guest_close(&head);
	ensemble_stop(&ensemble);
}

static void on_a_job_that_runs(void)
{
	struct ol_coord_state state;
	struct guest last;
	char byte;

	all_start(open_share);
	all_end();
	printf("%d clients\n", CLIENTS);
	all_start(churn_share);
	while (read(STDIN_FILENO, &byte, 1) > 0 || errno == EINTR)
		;
	atomic_store(&ending, true);
	all_end();
	client_open(&last);
	ol_coord_look(last.coord, 0, &state);
	(void)all_reach(state.version);
	printf("all saw view %" PRIu64 "\n", state.version);
	guest_close(&last);
	all_start(close_share);
	all_end();
}

int main(int argc, char **argv)
{
	struct rlimit files;

	setvbuf(stdout, NULL, _IOLBF, 0);
	check_ok(getrlimit(RLIMIT_NOFILE, &files)); /* each client has a socket and a pipe */
	files.rlim_cur = files.rlim_max;
	(void)setrlimit(RLIMIT_NOFILE, &files);
	if (argc == 3) {
		const char *secret = getenv("OUTLAST_JOB_KEY");

		addr = argv[1];
		job = argv[2];
		snprintf(key, sizeof(key), "%s", secret != NULL ? secret : "");
		on_a_job_that_runs();
	} else {
		on_an_ensemble_of_its_own();
	}
	return 0;
}
