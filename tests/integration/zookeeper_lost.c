/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * zookeeper_lost.c -- a client of ZooKeeper goes on when a host name is lost for a moment, or the
 * ensemble's disks for good; and refuses sessions that are shorter than its lease asks for
 */
#include <dlfcn.h>
#include <netdb.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "support/ensemble.h"
#include "support/folder.h"
#include "support/zk_raw.h"
#include "unit/replication/coord_guest.h"

enum {
	SHORT_MS = 400, /* a session that is to end */
	FAILURES = 5,
};

static struct ensemble ensemble; /* of one server */

/* What libzookeeper asks the system, which may fail for a moment */
static atomic_int lookups_fail;

__attribute__((visibility("default"))) int getaddrinfo(const char *host, const char *port,
						       const struct addrinfo *hints,
						       struct addrinfo **ret_list)
{
	union {
		void *object;
		int (*fn)(const char *, const char *, const struct addrinfo *, struct addrinfo **);
	} real = { dlsym(RTLD_NEXT, "getaddrinfo") };

	if (atomic_load(&lookups_fail) > 0) {
		atomic_fetch_sub(&lookups_fail, 1);
		return EAI_AGAIN;
	}
	return real.fn(host, port, hints, ret_list);
}

static void enter(struct guest *guest, const char *job, uint32_t lease_ms)
{
	struct ol_coord_opts opts = guest_opts(guest, ensemble.addr);

	opts.job = job;
	opts.lease_ms = lease_ms;
	guest_enter(guest, &opts);
}

static bool has_version(const struct ol_coord_state *state, uint64_t version)
{
	return state->version == version;
}

/* propose -- and wait until it is in force */
static void propose(struct guest *guest, uint64_t version, uint64_t head)
{
	struct ol_view view = view_make((uint32_t)version + 1, head, 0);
	struct ol_coord_state state;

	ol_coord_propose(guest->coord, 0, version, &view);
	guest_wait(guest, 0, has_version, version + 1, "a view", &state);
	check_eq(state.view.replicas[0].id, head);
}

static void a_failed_lookup_costs_no_session(void)
{
	struct ol_member member = server_make(71);
	struct ol_coord_state state;
	struct guest a, b;
	uint64_t lease_ns;

	enter(&a, "names", LONG_LEASE_MS);
	check_ok(ol_coord_join(a.coord, 0, &member));
	guest_wait(&a, 0, has_member, 71, "a member", &state);
	lease_ns = state.lease_ns;
	check(lease_ns != 0);
	ensemble_kill(&ensemble, 0);
	guest_wait(&a, 0, is_connected, 0, "the end of the connection", &state);
	atomic_store(&lookups_fail, FAILURES);
	while (atomic_load(&lookups_fail) > 0)
		poll(NULL, 0, 1);
	ol_coord_look(a.coord, 0, &state);
	check(state.lease_ns >= lease_ns);
	ensemble_restart(&ensemble, 0);
	guest_wait(&a, 0, is_connected, 1, "another connection", &state);
	enter(&b, "names", LONG_LEASE_MS);
	guest_wait(&b, 0, has_member, 71, "the member of the same session", &state);
	guest_close(&b);
	guest_close(&a);
}

/*
 * The disks of the ensemble are lost. Whoever holds what was committed is not told to begin anew:
 * its view stays, it registers with nobody, its lease does not end. Others begin another history.
 */
static void an_ensemble_that_forgets_ends_nobody(void)
{
	struct ol_member member = server_make(81);
	struct ol_coord_state state;
	struct guest a, b;
	char path[192];
	uint64_t version = 0;

	enter(&a, "lost", SHORT_MS);
	check_ok(ol_coord_join(a.coord, 0, &member));
	propose(&a, 0, 81);
	propose(&a, 1, 81);
	ensemble_kill(&ensemble, 0);
	snprintf(path, sizeof(path), "%s/0/version-2", ensemble.dir);
	check_ok(folder_drop(path));
	ensemble_restart(&ensemble, 0);
	ensemble_wait(&ensemble, 0);
	enter(&b, "lost", LONG_LEASE_MS);
	ol_coord_look(b.coord, 0, &state);
	check_eq(state.version, 0);
	/* the servers let nobody in who has seen later changes than they have made */
	do {
		propose(&b, version++, 82);
		ol_coord_look(a.coord, 0, &state);
	} while (state.lease_ns != UINT64_MAX);
	guest_wait_line(&a, "was lost, or deleted");
	check_eq(state.connected, 0);
	check_eq(state.version, 2);
	check_eq(state.view.replicas[0].id, 81);
	propose(&b, version, 83);
	ol_coord_look(b.coord, 0, &state);
	check_eq(state.member_count, 0);
	guest_close(&b);
	guest_close(&a);
}

/*
 * The ensemble goes back to an older state, as where disks are restored from a copy: what came
 * after the copy was in force, and is gone.
 */
static void an_ensemble_that_goes_back_ends_nobody(void)
{
	struct zk_raw *raw;
	struct ol_member member = server_make(91);
	struct ol_coord_state state;
	struct guest a;
	char disk[192], copy[192], command[512];

	enter(&a, "back", LONG_LEASE_MS);
	check_ok(ol_coord_join(a.coord, 0, &member));
	propose(&a, 0, 91);
	ensemble_kill(&ensemble, 0);
	snprintf(disk, sizeof(disk), "%s/0/version-2", ensemble.dir);
	snprintf(copy, sizeof(copy), "%s/0/copy", ensemble.dir);
	snprintf(command, sizeof(command), "cp -r %s %s", disk, copy);
	check_eq(system(command), 0);
	ensemble_restart(&ensemble, 0);
	guest_wait(&a, 0, is_connected, 1, "another connection", &state);
	propose(&a, 1, 92);
	propose(&a, 2, 93);
	ensemble_kill(&ensemble, 0);
	check_ok(folder_drop(disk));
	check_ok(rename(copy, disk));
	ensemble_restart(&ensemble, 0);
	ensemble_wait(&ensemble, 0);
	/* the servers let nobody in who has seen later changes than they have made */
	raw = zk_raw_open(ensemble.addr);
	zk_raw_create(raw, "/other", "");
	do {
		zk_raw_set(raw, "/other", "again");
		ol_coord_look(a.coord, 0, &state);
	} while (state.lease_ns != UINT64_MAX);
	guest_wait_line(&a, "an older one is back");
	check_eq(state.connected, 0);
	check_eq(state.version, 3);
	check_eq(state.view.replicas[0].id, 93);
	zk_raw_close(raw);
	guest_close(&a);
}

static void shorter_sessions_than_a_lease_asks_for_are_refused(void)
{
	struct guest a;
	struct ol_coord_opts opts = guest_opts(&a, ensemble.addr);
	char err[256] = "";

	opts.lease_ms = 90000; /* the ensemble grants a minute */
	opts.lease_whole = true;
	check_eq(ol_coord_open(&opts, &a.coord, err, sizeof(err)), -EINVAL);
	check_msg(strstr(err, "maxSessionTimeout") != NULL, "%s", err);
}

int main(void)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	ensemble_start(&ensemble, 1);
	a_failed_lookup_costs_no_session();
	printf("ok a failed lookup costs no session\n");
	shorter_sessions_than_a_lease_asks_for_are_refused();
	printf("ok shorter sessions than a lease asks for are refused\n");
	an_ensemble_that_forgets_ends_nobody();
	printf("ok an ensemble that forgets ends nobody\n");
	an_ensemble_that_goes_back_ends_nobody();
	printf("ok an ensemble that goes back ends nobody\n");
	ensemble_stop(&ensemble);
	return 0;
}
