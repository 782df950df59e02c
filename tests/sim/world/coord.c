/* SPDX-License-Identifier: BSD-3-Clause */

/* coord.c -- the coordinator, and its clients in place of replication/coord.c */

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "sim/world/cluster.h"
#include "sim/world/coord.h"
#include "sim/world/mutate.h"
#include "sim/world/net.h"
#include "sim/world/wrap.h"

enum {
	BEATS_A_LEASE = 4,
	SLOW_NEWS_PPM = 30000,
	FOREIGN_FOLDERS = 4, /* one of so many */
	FOREIGN_AHEAD = 4, /* their newest epoch, at most so many above the view's */
};

#define SILENCE_NS (100 * SIM_MS)

WRAP(int, ol_coord_open, const struct ol_coord_opts *opts, struct ol_coord **ret_coord, char *err,
     size_t err_bytes);
WRAP(void, ol_coord_close, struct ol_coord *coord);
WRAP(int, ol_coord_join, struct ol_coord *coord, uint32_t shard, const struct ol_member *member);
WRAP(uint64_t, ol_coord_generation, const struct ol_coord *coord);
WRAP(void, ol_coord_look, struct ol_coord *coord, uint32_t shard, struct ol_coord_state *ret_state);
WRAP(void, ol_coord_propose, struct ol_coord *coord, uint32_t shard, uint64_t version,
     const struct ol_view *next);

struct session {
	struct session *next;
	uint64_t lease_ns;
	uint64_t until_ns;
	bool over;
	bool member; /* it has registered one */
	uint32_t shard;
	struct ol_member self;
};

struct ol_coord {
	struct ol_coord *next;
	struct sim_process *process;
	struct ol_coord_opts opts;
	bool open;
	bool stale_view; /* there was news while its process stood still */
	bool stale_members;
	uint64_t silent_ns; /* until then it says nothing */
	uint64_t members_ns; /* when the members that it knows of were these */
	uint64_t lag_ns; /* of the follower that it is connected to */
	struct session *session; /* as the client knows */
	uint64_t heard_ns;
	int fd; /* open waits for it */
	bool settled;
	uint64_t generation;
	bool connected;
	uint64_t lease_ns;
	bool joined;
	uint32_t join_shard;
	struct ol_member join_member;
	bool proposed[COORD_SHARDS_MAX];
	uint64_t proposed_on[COORD_SHARDS_MAX];
	struct ol_view proposal[COORD_SHARDS_MAX];
	struct ol_coord_state states[COORD_SHARDS_MAX];
};

/* On its way to the coordinator */
struct letter {
	struct ol_coord *from;
	struct session *session;
	uint64_t sent_ns;
	uint32_t shard;
	uint64_t version;
	struct ol_view view;
};

/* What was so from a moment on: what a follower that lags still serves */
struct past {
	struct past *older;
	uint64_t at_ns;
	uint64_t versions[COORD_SHARDS_MAX];
	struct ol_view views[COORD_SHARDS_MAX];
	uint32_t member_counts[COORD_SHARDS_MAX];
	struct ol_member members[COORD_SHARDS_MAX][OL_MEMBERS_MAX];
};

static struct {
	bool away;
	bool forgot; /* it came back empty, which only a mutation makes it do */
	struct past *past; /* the newest */
	struct ol_coord *handles;
	struct session *sessions;
	uint64_t versions[COORD_SHARDS_MAX];
	struct ol_view views[COORD_SHARDS_MAX];
} coord;

void coord_begin(void)
{
	memset(&coord, 0, sizeof(coord));
}

const struct ol_view *coord_view(uint32_t shard)
{
	return shard < COORD_SHARDS_MAX && coord.versions[shard] != 0 ? &coord.views[shard] : NULL;
}

uint32_t coord_members(uint32_t shard, struct ol_member members[OL_MEMBERS_MAX])
{
	uint32_t count = 0;

	for (const struct session *s = coord.sessions; s != NULL; s = s->next) {
		if (!s->over && s->member && s->shard == shard && count < OL_MEMBERS_MAX)
			members[count++] = s->self;
	}
	return count;
}

uint32_t coord_member_count(uint32_t shard)
{
	struct ol_member members[OL_MEMBERS_MAX];

	return coord_members(shard, members);
}

uint64_t coord_version(uint32_t shard)
{
	return coord.versions[shard];
}

static uint64_t delay_ns(void)
{
	return sim_between(sim_nature.coord_ns / 4, sim_nature.coord_ns);
}

static bool hears(const struct ol_coord *handle)
{
	return !coord.away && !net_is_cut(COORD_PLACE, sim_process_place(handle->process));
}

static bool speaks(const struct ol_coord *handle)
{
	return !coord.away && !net_is_cut(sim_process_place(handle->process), COORD_PLACE);
}

static bool reaches(const struct ol_coord *handle)
{
	return hears(handle) && speaks(handle);
}

/* What the coordinator sends: on its way, who does not answer for a while is served nothing more */
static bool is_served(const struct ol_coord *handle)
{
	return cluster.scenario.age >= CLUSTER_AGE_FAULTS ? hears(handle) : reaches(handle);
}

/* What the client sends */
static bool is_heard(const struct ol_coord *handle)
{
	return cluster.scenario.age >= CLUSTER_AGE_FAULTS ? speaks(handle) : reaches(handle);
}

/* ---- what a client knows ---- */

static void changed(struct ol_coord *handle)
{
	handle->generation++;
	if (handle->opts.notify != NULL)
		handle->opts.notify(handle->opts.notify_arg);
}

/* Everything is written down when it changes; what is older than any follower is not kept */
static void past_add(void)
{
	struct past *past = sim_alloc(sizeof(*past));

	past->older = coord.past;
	past->at_ns = sim_now();
	memcpy(past->versions, coord.versions, sizeof(past->versions));
	memcpy(past->views, coord.views, sizeof(past->views));
	for (uint32_t i = 0; i < COORD_SHARDS_MAX; i++)
		past->member_counts[i] = coord_members(i, past->members[i]);
	coord.past = past;
}

/* NULL: nothing has happened yet */
static const struct past *past_of(const struct ol_coord *handle)
{
	const struct past *past = coord.past;

	while (past != NULL && past->at_ns + handle->lag_ns > sim_now())
		past = past->older;
	return past;
}

static void learn_view(struct ol_coord *handle, uint32_t shard, uint64_t version,
		       const struct ol_view *view)
{
	if (handle->states[shard].version == version)
		return;
	handle->states[shard].version = version;
	handle->states[shard].view = *view;
	changed(handle);
}

static void learn_views(struct ol_coord *handle)
{
	const struct past *past = handle->lag_ns != 0 ? past_of(handle) : NULL;

	for (uint32_t i = 0; i < handle->opts.shard_count; i++) {
		if (handle->lag_ns == 0 && (coord.versions[i] != 0 || !coord.forgot))
			learn_view(handle, i, coord.versions[i], &coord.views[i]);
		else if (past != NULL && past->versions[i] > handle->states[i].version)
			learn_view(handle, i, past->versions[i], &past->views[i]);
	}
}

static void learn_members(struct ol_coord *handle)
{
	const struct past *past = handle->lag_ns != 0 ? past_of(handle) : NULL;

	if (handle->lag_ns != 0 && (past == NULL || past->at_ns < handle->members_ns))
		return;
	handle->members_ns = past != NULL ? past->at_ns : sim_now();
	for (uint32_t i = 0; i < handle->opts.shard_count; i++) {
		struct ol_coord_state *state = &handle->states[i];
		struct ol_member now[OL_MEMBERS_MAX];
		const struct ol_member *members = past != NULL ? past->members[i] : now;
		uint32_t count = past != NULL ? past->member_counts[i] : coord_members(i, now);

		if (count == state->member_count &&
		    memcmp(members, state->members, count * sizeof(*members)) == 0)
			continue;
		state->member_count = count;
		memcpy(state->members, members, count * sizeof(*members));
		changed(handle);
	}
}

static void set_connected(struct ol_coord *handle, bool connected)
{
	if (handle->connected == connected)
		return;
	handle->connected = connected;
	if (!connected)
		memset(handle->proposed, 0, sizeof(handle->proposed));
	sim_say("%s %s the coordinator", sim_process_name(handle->process),
		connected ? "reaches" : "has lost");
	changed(handle);
}

static void news(void *arg, uint64_t of_members)
{
	struct ol_coord *handle = arg;

	if (!handle->open || !handle->connected || !is_served(handle))
		return; /* the next answer to a beat brings it */
	if (sim_process_stopped(handle->process)) {
		handle->stale_view = handle->stale_view || !of_members;
		handle->stale_members = handle->stale_members || of_members;
	} else if (of_members) {
		learn_members(handle);
	} else {
		learn_views(handle);
	}
}

static void tell_all(bool of_members)
{
	if (cluster.scenario.lags)
		past_add();
	for (struct ol_coord *handle = coord.handles; handle != NULL; handle = handle->next) {
		uint64_t after = delay_ns();

		if (sim_ppm(SLOW_NEWS_PPM))
			after += sim_between(0, 300 * SIM_MS);
		after += mutate_news_late_ns(handle->process);
		if (handle->open)
			sim_at(after + handle->lag_ns, news, handle, of_members);
	}
}

void coord_lags(const struct sim_process *process, uint64_t lag_ns)
{
	for (struct ol_coord *handle = coord.handles; handle != NULL; handle = handle->next) {
		if (handle->open && handle->process == process)
			handle->lag_ns = lag_ns;
	}
}

void coord_calm(void)
{
	for (struct ol_coord *handle = coord.handles; handle != NULL; handle = handle->next)
		handle->lag_ns = handle->silent_ns =
			0; /* the next answer to a beat brings what is new */
}

/* ---- sessions ---- */

static void session_end(struct session *session)
{
	if (session->over)
		return;
	session->over = true;
	if (session->member)
		tell_all(true);
}

static void session_look(void *arg, uint64_t tag)
{
	struct session *session = arg;

	(void)tag;
	if (session->over)
		return;
	if (coord.away || sim_now() < session->until_ns) {
		uint64_t left = sim_now() < session->until_ns ? session->until_ns - sim_now() : 0;

		sim_at(left + 5 * SIM_MS, session_look, session, 0);
		return;
	}
	sim_say("the session of %s ends", session->member ? session->self.addr : "a worker");
	session_end(session);
}

static struct session *session_make(struct ol_coord *handle)
{
	struct session *session = sim_alloc(sizeof(*session));

	session->lease_ns = handle->opts.lease_ms * SIM_MS;
	session->until_ns = sim_now() + session->lease_ns;
	session->next = coord.sessions;
	coord.sessions = session;
	sim_at(session->lease_ns, session_look, session, 0);
	return session;
}

void coord_expire(const struct sim_process *process)
{
	for (struct ol_coord *handle = coord.handles; handle != NULL; handle = handle->next) {
		if (!handle->open || handle->process != process || handle->session == NULL)
			continue;
		/* who leans on the lease of its session has it until it was silent for so long */
		if (cluster.scenario.age >= CLUSTER_AGE_FAULTS && cluster.scenario.refound)
			handle->silent_ns = sim_now() + handle->session->lease_ns + SILENCE_NS;
		else
			session_end(handle->session);
	}
}

/* What a coordinator without a memory does when it is started again: the first who comes says what
 * the view is */
static void forget(void)
{
	memset(coord.versions, 0, sizeof(coord.versions));
	memset(coord.views, 0, sizeof(coord.views));
	for (struct session *s = coord.sessions; s != NULL; s = s->next)
		s->over = true;
	coord.forgot = true;
}

void coord_away(bool away)
{
	if (coord.away && !away && mutation(MUTATE_FORGETS))
		forget();
	coord.away = away;
	for (struct session *s = coord.sessions; !away && s != NULL; s = s->next)
		s->until_ns = sim_now() + s->lease_ns;
}

/* ---- beats: what keeps a session, and brings what was missed ---- */

/* A mutation's: to one that has forgotten everything a client says what it knows */
static void offer(struct ol_coord *handle)
{
	for (uint32_t i = 0; coord.forgot && i < handle->opts.shard_count; i++) {
		if (coord.versions[i] != 0 || handle->states[i].version == 0)
			continue;
		sim_say("offers epoch %u", handle->states[i].view.epoch);
		coord.versions[i] = handle->states[i].version;
		coord.views[i] = handle->states[i].view;
		tell_all(false);
	}
}

static void beat_answered(void *arg, uint64_t tag)
{
	struct letter *letter = arg;
	struct ol_coord *handle = letter->from;

	(void)tag;
	if (!handle->open || sim_process_stopped(handle->process) || !is_served(handle))
		return;
	offer(handle);
	handle->session = letter->session;
	handle->heard_ns = sim_now();
	handle->lease_ns = sim_clock_of(sim_process_place(handle->process),
					letter->sent_ns + letter->session->lease_ns);
	set_connected(handle, true);
	learn_views(handle);
	learn_members(handle);
	if (handle->settled)
		return;
	handle->settled = true;
	*sim_fd_count(handle->fd) = 1;
	sim_fd_wake(handle->fd);
}

static void beat_arrived(void *arg, uint64_t tag)
{
	struct letter *letter = arg;
	struct ol_coord *handle = letter->from;

	(void)tag;
	if (!handle->open || !is_heard(handle))
		return;
	if (letter->session == NULL || letter->session->over) {
		/* one that another beat made already? */
		if (handle->session != NULL && !handle->session->over)
			letter->session = handle->session;
		else
			letter->session = handle->session = session_make(handle);
	}
	letter->session->until_ns = sim_now() + letter->session->lease_ns;
	if (handle->joined && !letter->session->member) {
		letter->session->member = true;
		letter->session->shard = handle->join_shard;
		letter->session->self = handle->join_member;
		tell_all(true);
	}
	sim_at(delay_ns(), beat_answered, letter, 0);
}

static void beat_send(struct ol_coord *handle)
{
	struct letter *letter;

	if (!is_heard(handle))
		return;
	letter = sim_alloc(sizeof(*letter));
	letter->from = handle;
	letter->session = handle->session;
	letter->sent_ns = sim_now();
	sim_at(delay_ns(), beat_arrived, letter, 0);
}

static void beat(void *arg, uint64_t tag)
{
	struct ol_coord *handle = arg;
	uint64_t lease_ns = handle->opts.lease_ms * SIM_MS;

	(void)tag;
	if (!handle->open)
		return;
	if (!sim_process_stopped(handle->process)) {
		if (handle->connected && sim_now() - handle->heard_ns > lease_ns * 2 / 3)
			set_connected(handle, false);
		if (sim_now() >= handle->silent_ns)
			beat_send(handle);
	}
	sim_at(lease_ns / BEATS_A_LEASE, beat, handle, 0);
}

void coord_process_continues(const struct sim_process *process)
{
	for (struct ol_coord *handle = coord.handles; handle != NULL; handle = handle->next) {
		if (!handle->open || handle->process != process)
			continue;
		if (handle->stale_view)
			sim_at(delay_ns(), news, handle, 0);
		if (handle->stale_members)
			sim_at(delay_ns(), news, handle, 1);
		handle->stale_view = handle->stale_members = false;
	}
}

void coord_process_gone(const struct sim_process *process)
{
	for (struct ol_coord *handle = coord.handles; handle != NULL; handle = handle->next) {
		if (handle->process == process)
			handle->open = false;
	}
}

/* ---- views ---- */

bool coord_set(uint32_t shard, const struct ol_view *view)
{
	if (coord.away)
		return false;
	coord.versions[shard]++;
	coord.views[shard] = *view;
	if (sim_tracing()) {
		char text[OL_VIEW_TEXT_MAX];

		ol_view_encode(view, text);
		for (char *at = text; *at != '\0'; at++)
			*at = *at == '\n' ? ' ' : *at;
		sim_say("view of shard %u: %.200s", shard, text);
	}
	tell_all(false);
	return true;
}

static void proposal_arrived(void *arg, uint64_t tag)
{
	struct letter *letter = arg;
	uint32_t shard = letter->shard;

	(void)tag;
	if (coord.away || letter->session == NULL || letter->session->over)
		return;
	if (letter->version != coord.versions[shard]) {
		sim_at(delay_ns(), news, letter->from, 0);
		return;
	}
	(void)coord_set(shard, &letter->view);
}

static void proposal_leaves(void *arg, uint64_t shard)
{
	struct ol_coord *handle = arg;
	struct letter *letter;

	if (!handle->open || !handle->proposed[shard] || sim_process_stopped(handle->process))
		return;
	handle->proposed[shard] = false;
	if (!reaches(handle))
		return;
	letter = sim_alloc(sizeof(*letter));
	letter->from = handle;
	letter->session = handle->session;
	letter->shard = (uint32_t)shard;
	letter->version = handle->proposed_on[shard];
	letter->view = handle->proposal[shard];
	sim_at(delay_ns(), proposal_arrived, letter, 0);
}

/* ---- replication/coord/coord.h ---- */

int __wrap_ol_coord_open(const struct ol_coord_opts *opts, struct ol_coord **ret_coord, char *err,
			 size_t err_bytes)
{
	struct ol_coord *handle = sim_alloc(sizeof(*handle));

	handle->process = sim_process_self();
	handle->opts = *opts;
	handle->open = true;
	handle->fd = sim_fd_open();
	handle->next = coord.handles;
	coord.handles = handle;
	beat(handle, 0);
	if (!sim_wait(&handle->fd, 1, opts->open_timeout_ms * SIM_MS)) {
		handle->open = false;
		sim_fd_close(handle->fd);
		snprintf(err, err_bytes, "coordinator %s: nobody answers", opts->addr);
		return -ETIMEDOUT;
	}
	*ret_coord = handle;
	return 0;
}

void __wrap_ol_coord_close(struct ol_coord *handle)
{
	if (handle == NULL)
		return;
	handle->open = false;
	if (reaches(handle) && handle->session != NULL)
		session_end(handle->session);
	sim_fd_close(handle->fd);
}

int __wrap_ol_coord_join(struct ol_coord *handle, uint32_t shard, const struct ol_member *member)
{
	if (handle->joined)
		return -EBUSY;
	handle->joined = true;
	handle->join_shard = shard;
	handle->join_member = *member;
	/* now and then its folder seems to have an abandoned history; its id tells, so that nothing else is drawn anew */
	if (member->id % FOREIGN_FOLDERS == 0)
		handle->join_member.folder_epoch =
			handle->states[shard].view.epoch +
			(uint32_t)(member->id / FOREIGN_FOLDERS % FOREIGN_AHEAD);
	beat_send(handle);
	return 0;
}

uint64_t __wrap_ol_coord_generation(const struct ol_coord *handle)
{
	return handle->generation;
}

void __wrap_ol_coord_look(struct ol_coord *handle, uint32_t shard, struct ol_coord_state *ret_state)
{
	if (shard >= handle->opts.shard_count) {
		memset(ret_state, 0, sizeof(*ret_state));
		return;
	}
	*ret_state = handle->states[shard];
	ret_state->connected = handle->connected;
	ret_state->lease_ns = mutation(MUTATE_SESSION_FOR_EVER) ? UINT64_MAX : handle->lease_ns;
	if (mutation(MUTATE_SESSION_LONG) && handle->lease_ns != 0)
		ret_state->lease_ns += 2 * handle->opts.lease_ms * SIM_MS;
}

void __wrap_ol_coord_propose(struct ol_coord *handle, uint32_t shard, uint64_t version,
			     const struct ol_view *next)
{
	if (shard >= handle->opts.shard_count || !handle->connected)
		return;
	sim_say("proposes epoch %u on version %llu", next->epoch, (unsigned long long)version);
	handle->proposed[shard] = true;
	handle->proposed_on[shard] = version;
	handle->proposal[shard] = *next;
	sim_at(sim_between(1, 50 * SIM_US), proposal_leaves, handle, shard);
}
