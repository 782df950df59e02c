/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * zookeeper_shards.c -- with many shards of three servers over a real ensemble, and views of maximum
 * length, a worker and the servers of each shard see every view and every member while connections
 * break and servers die
 *
 *	zookeeper_shards [N]	N shards, 64 at most (8)
 */
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "support/ensemble.h"
#include "unit/replication/coord_guest.h"

enum {
	REPLICAS = 3,
	HEADS_LEASE_MS = 5000, /* until a head that was killed is gone */
};

static uint32_t shards = 8;
static struct ensemble ensemble; /* of three servers */
static struct guest servers[OL_COORD_SHARDS_MAX][REPLICAS];

static void enter(struct guest *guest, uint64_t watched, uint32_t lease_ms)
{
	struct ol_coord_opts opts = guest_opts(guest, ensemble.addr);

	opts.shard_count = shards;
	opts.watched = watched;
	opts.lease_ms = lease_ms;
	guest_enter(guest, &opts);
}

static void enter_servers(uint32_t replica, uint32_t lease_ms)
{
	for (uint32_t s = 0; s < shards; s++) {
		struct ol_member member = long_member(1 + s * 100 + replica);

		enter(&servers[s][replica], UINT64_C(1) << s, lease_ms);
		check_ok(ol_coord_join(servers[s][replica].coord, s, &member));
	}
}

/* The first server of every shard, all in one process, which is to be killed */
static pid_t heads_spawn(void)
{
	pid_t pid = fork();

	check(pid >= 0);
	if (pid != 0)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	enter_servers(0, HEADS_LEASE_MS);
	for (;;)
		pause();
}

/* Every shard has view `epoch`, which its second server offers again where a connection broke
 * meanwhile */
static void views_follow(uint32_t epoch)
{
	struct ol_coord_state seen;
	struct ol_view view;

	for (uint32_t s = 0; s < shards; s++) {
		ol_coord_look(servers[s][1].coord, s, &seen);
		while (seen.view.epoch != epoch) {
			guest_wait(&servers[s][1], s, is_connected, 1, "a connection", &seen);
			if (seen.view.epoch == epoch)
				break;
			long_view(&view, epoch, s);
			view.shard_count = shards;
			ol_coord_propose(servers[s][1].coord, s, seen.version, &view);
			poll(NULL, 0, 1);
			ol_coord_look(servers[s][1].coord, s, &seen);
		}
	}
}

static void views_check(struct guest *worker, uint32_t epoch, uint32_t members)
{
	for (uint32_t s = 0; s < shards; s++) {
		struct ol_coord_state seen;
		struct ol_view view;

		long_view(&view, epoch, s);
		view.shard_count = shards;
		guest_wait(worker, s, has_epoch, epoch, "a view", &seen);
		check(memcmp(&seen.view, &view, sizeof(view)) == 0);
		guest_wait(worker, s, has_count, members, "the members", &seen);
		guest_wait(&servers[s][2], s, has_epoch, epoch, "a view", &seen);
		guest_wait(&servers[s][2], s, has_count, members, "the members", &seen);
	}
}

int main(int argc, char **argv)
{
	struct guest worker, late;
	pid_t heads;
	char rest; /* behind the number: none */

	if (argc > 2 || (argc == 2 && (sscanf(argv[1], "%u%c", &shards, &rest) != 1 ||
				       shards == 0 || shards > OL_COORD_SHARDS_MAX))) {
		fprintf(stderr, "usage: zookeeper_shards [1..%d]\n", OL_COORD_SHARDS_MAX);
		return 2;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	ensemble_start(&ensemble, 3);
	heads = heads_spawn();
	enter(&worker, 0, LONG_LEASE_MS);
	for (uint32_t r = 1; r < REPLICAS; r++)
		enter_servers(r, LONG_LEASE_MS);
	views_follow(1);
	views_check(&worker, 1, REPLICAS);
	printf("ok %u shards of %d servers are seen by all\n", shards, REPLICAS);
	ensemble_kill(&ensemble, 0);
	views_follow(2);
	views_check(&worker, 2, REPLICAS);
	printf("ok views follow each other while a server of the ensemble is gone\n");
	ensemble_restart(&ensemble, 0);
	check_ok(kill(heads, SIGKILL));
	check_eq(waitpid(heads, NULL, 0), heads);
	views_follow(3);
	views_check(&worker, 3, REPLICAS - 1);
	enter(&late, 0, LONG_LEASE_MS);
	views_check(&late, 3, REPLICAS - 1);
	printf("ok the first server of every shard dies\n");
	guest_close(&late);
	for (uint32_t s = 0; s < shards; s++)
		for (uint32_t r = 1; r < REPLICAS; r++)
			guest_close(&servers[s][r]);
	guest_close(&worker);
	ensemble_stop(&ensemble);
	return 0;
}
