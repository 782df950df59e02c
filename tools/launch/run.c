/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * run.c -- the job from the first agent to the last end: messages, signals, starts, restarts
 *
 * One thread, one loop: wait for messages, signals or a due start; then do whatever the phase has to do.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "cmd/cmd.h"
#include "launch/parts.h"
#include "outlast.h"

extern char **environ;

enum {
	TURN_MS = 1000, /* the longest wait */
	SECOND_MS = 1000, /* between two signals that are not one */
	PIECES = 64, /* of an agent's stream that are read before it is another's turn */
	HANG_MS = 20000 /* after the kill: from then on nobody is waited for */
};

static void ask(struct launch *launch, struct launch_proc *proc, int signo)
{
	launch_agent_order(launch, proc->host,
			   json_pack("{s:s, s:i, s:i}", "do", "signal", "index",
				     (int)(proc - launch->procs), "signal", signo));
}

static bool any_lives(const struct launch *launch, uint32_t from, uint32_t to)
{
	for (uint32_t i = from; i < to; i++) {
		if (launch_life_lives(&launch->procs[i].life))
			return true;
	}
	return false;
}

static bool all_are(const struct launch *launch, uint32_t from, uint32_t to,
		    enum launch_state state)
{
	for (uint32_t i = from; i < to; i++) {
		if (launch->procs[i].life.state != state)
			return false;
	}
	return true;
}

/* Ask these to end; those that wait for another start do not get it */
static void all_ask(struct launch *launch, uint32_t from, uint32_t to)
{
	for (uint32_t i = from; i < to; i++) {
		struct launch_proc *proc = &launch->procs[i];

		proc->life.is_asked = true;
		if (launch_life_lives(&proc->life))
			ask(launch, proc, SIGTERM);
	}
}

/* Keepers have folders to remove: they are killed as the last */
static void all_kill(struct launch *launch)
{
	bool are_last = launch->phase == LAUNCH_CLOSES && ol_clock_ns() >= launch->kill_ns;

	for (uint32_t i = 0; i < (are_last ? launch->proc_count : launch->worker_end); i++) {
		if (launch_life_lives(&launch->procs[i].life))
			ask(launch, &launch->procs[i], SIGKILL);
	}
}

/* --- phases -------------------------------------------------------------------------------------------------- */

static void phase_enter(struct launch *launch, enum launch_phase phase)
{
	launch->phase = phase;
	switch (phase) {
	case LAUNCH_LEAVES:
		all_ask(launch, launch->server_count, launch->worker_end);
		launch->kill_ns = ol_clock_ns() + launch->set.grace;
		break;
	case LAUNCH_ENDS:
		all_ask(launch, 0, launch->server_count);
		launch->kill_ns = ol_clock_ns() + launch->set.grace;
		break;
	case LAUNCH_CLOSES:
		all_ask(launch, launch->worker_end, launch->proc_count);
		launch->kill_ns = ol_clock_ns() + launch->set.grace;
		break;
	case LAUNCH_REACHES:
	case LAUNCH_FOUNDS:
	case LAUNCH_SERVES:
	case LAUNCH_WORKS:
	case LAUNCH_OVER:
		break;
	}
}

static void leave(struct launch *launch)
{
	if (launch->phase < LAUNCH_LEAVES)
		phase_enter(launch, LAUNCH_LEAVES);
}

static void fail(struct launch *launch, int exit_code)
{
	if (launch->exit_code == 0)
		launch->exit_code = exit_code;
	leave(launch);
}

/* --- ends, and what follows ---------------------------------------------------------------------------------- */

/* True if another server of its shard lives, or is to be started again */
static bool shard_has_others(const struct launch *launch, const struct launch_proc *proc)
{
	uint32_t first = proc->shard * launch->shape.replicas;

	for (uint32_t i = first; i < first + launch->shape.replicas; i++) {
		const struct launch_proc *other = &launch->procs[i];

		if (other != proc && other->life.state != LAUNCH_FAILED &&
		    other->life.state != LAUNCH_DONE)
			return true;
	}
	return false;
}

/* It is not started again: what that means for the job */
static void proc_failed(struct launch *launch, struct launch_proc *proc)
{
	char text[64], what[160];
	int status = proc->life.status, exit_code = OL_EXIT_CHILD;
	bool is_doubled;

	is_doubled = proc->kind == LAUNCH_SERVER && !proc->life.has_run && WIFEXITED(status) &&
		     WEXITSTATUS(status) == OL_EXIT_RESOURCES &&
		     ol_conf_is_set(launch->settings.conf, "job");
	launch_status_text(status, text, sizeof(text));
	if (proc->kind == LAUNCH_SERVER && launch->has_chains && proc->life.has_run &&
	    shard_has_others(launch, proc)) {
		launch_note("%s on %s %s, and is not started again: its chain goes on without it",
			    proc->name, launch_host_name(launch, proc->host), text);
		return;
	}
	if (proc->kind == LAUNCH_KEEPER && launch->phase > LAUNCH_FOUNDS) {
		launch_note(
			"%s on %s %s, and is not started again: the ensemble goes on while most of "
			"it is there",
			proc->name, launch_host_name(launch, proc->host), text);
		return;
	}
	if (!proc->life.has_run && WIFEXITED(status) && proc->kind != LAUNCH_WORKER)
		exit_code = WEXITSTATUS(status) != 0 ? WEXITSTATUS(status) : OL_EXIT_CHILD;
	snprintf(what, sizeof(what), "%s on %s %s", proc->name,
		 launch_host_name(launch, proc->host), text);
	(void)ol_cmd_error(exit_code, "launch", what, NULL,
			   proc->kind == LAUNCH_KEEPER
				   ? "see what it said: the host needs java and ZooKeeper (Debian: "
				     "apt-get install zookeeper); the job ends"
			   : is_doubled ? "is the job of that name running already? the job ends"
			   : proc->life.starts > 1 ? "it was started again in vain; the job ends"
						   : "the job ends");
	fail(launch, exit_code);
}

/* It was asked to end, and says that not all it had is saved: the job is not done */
static void server_unsaved(struct launch *launch, const struct launch_proc *proc)
{
	(void)ol_cmd_error(OL_EXIT_FAILED, "launch",
			   "its last checkpoint is not written, see what it said", proc->name,
			   "what was trained since the one before is lost");
	if (launch->exit_code == 0 && !launch->is_preempted)
		launch->exit_code = OL_EXIT_FAILED;
}

static void proc_ended(struct launch *launch, struct launch_proc *proc, int status)
{
	uint64_t now_ns = ol_clock_ns();
	char text[64];

	if (proc->kind == LAUNCH_SERVER && launch->phase == LAUNCH_WORKS && launch->has_chains &&
	    !proc->life.is_asked && status == 0 && shard_has_others(launch, proc)) {
		proc->life.is_asked = true; /* by an operator, with a signal or by outlast chain */
		launch_note("%s on %s was told to end: its chain goes on without it", proc->name,
			    launch_host_name(launch, proc->host));
	} else if (proc->kind == LAUNCH_SERVER && proc->life.is_asked &&
		   (WIFEXITED(status)
			    ? WEXITSTATUS(status) == OL_EXIT_FAILED
			    : launch->set.durable.durability == OL_DURABILITY_CHECKPOINT)) {
		server_unsaved(launch, proc);
	}
	launch_life_end(&proc->life, &launch->policies[proc->kind], proc->kind, status, now_ns);
	proc->end_ns = now_ns;
	proc->pid = 0;
	if (proc->life.state == LAUNCH_FAILED)
		proc_failed(launch, proc);
	else if (proc->life.state == LAUNCH_WAITS)
		launch_note("%s on %s %s; it is started again in %.1f s", proc->name,
			    launch_host_name(launch, proc->host),
			    launch_status_text(status, text, sizeof(text)),
			    (double)(proc->life.due_ns - now_ns) / 1e9);
}

/* Another host for one whose host is lost; false: there is none */
static bool proc_move(struct launch *launch, struct launch_proc *proc)
{
	uint32_t servers[LAUNCH_SERVERS_MAX], workers[LAUNCH_WORKERS_MAX], host;
	uint32_t index = (uint32_t)(proc - launch->procs);

	for (uint32_t i = 0; i < launch->server_count; i++)
		servers[i] = launch->procs[i].host;
	for (uint32_t i = launch->server_count; i < launch->worker_end; i++)
		workers[i - launch->server_count] = launch->procs[i].host;
	if (proc->kind == LAUNCH_KEEPER || (proc->kind == LAUNCH_SERVER && !launch->has_chains))
		return false; /* workers know its address, which is the host's */
	host = proc->kind == LAUNCH_SERVER
		       ? launch_place_server(launch->hosts.list, launch->hosts.count,
					     &launch->shape, servers, index)
		       : launch_place_worker(launch->hosts.list, launch->hosts.count,
					     &launch->shape, workers, proc->place);
	if (host == LAUNCH_ANY)
		return false;
	launch_note("%s moves from %s to %s", proc->name, launch_host_name(launch, proc->host),
		    launch_host_name(launch, host));
	proc->host = host;
	proc->address[0] = '\0';
	return true;
}

static void host_lost(struct launch *launch, uint32_t host)
{
	static const char *const remedies[] = {
		[LAUNCH_BY_SSH] = "does the command of --ssh work by hand, without a password, and "
				  "is outlast there (--program)?",
		[LAUNCH_BY_SRUN] = "does --srun start a step there by hand?",
		[LAUNCH_BY_MPIRUN] = "does --mpirun-command start a process there by hand, and is "
				     "outlast there (--program)?"
	};
	const char *name = launch_host_name(launch, host);

	launch->hosts.list[host].is_lost = true;
	if (launch->phase == LAUNCH_REACHES) {
		fail(launch, ol_cmd_error(OL_EXIT_SERVER, "launch", "cannot reach the host", name,
					  remedies[launch->way]));
		return;
	}
	launch_note("%s is lost: it cannot be reached any more", name);
	for (uint32_t i = 0; i < launch->proc_count; i++) {
		struct launch_proc *proc = &launch->procs[i];

		if (proc->host != host || proc->life.state != LAUNCH_WAITS || proc->life.is_asked)
			continue;
		if (proc_move(launch, proc))
			continue;
		proc->life.state = LAUNCH_FAILED;
		proc_failed(launch, proc);
	}
}

/* The way to a host has ended, and what ran there with it, or it ends by itself there */
static void agent_ended(struct launch *launch, uint32_t host)
{
	struct launch_agent *agent = &launch->agents[host];
	uint64_t now_ns = ol_clock_ns();
	int status = 0;
	char text[64];

	close(agent->orders);
	agent->orders = -1;
	if (agent->pid != 0) {
		(void)kill(agent->pid, SIGTERM); /* ssh may wait for who holds its streams */
		(void)waitpid(agent->pid, &status, 0);
	}
	agent->pid = 0;
	agent->life.has_run = agent->is_here;
	agent->is_here = false;
	launch_lines_fini(&agent->lines);
	launch_agent_errors(launch, host);
	launch_lines_fini(&agent->errors);
	agent->life.is_asked = launch->phase >= LAUNCH_LEAVES;
	launch_life_end(&agent->life, &launch->policies[LAUNCH_AGENT], LAUNCH_AGENT, status,
			now_ns);
	launch_note("the way to %s %s", launch_host_name(launch, host),
		    launch_status_text(status, text, sizeof(text)));
	for (uint32_t i = 0; i < launch->proc_count; i++) {
		struct launch_proc *proc = &launch->procs[i];

		if (proc->host == host && launch_life_lives(&proc->life))
			proc_ended(launch, proc, SIGKILL);
	}
	if (agent->life.state == LAUNCH_FAILED)
		host_lost(launch, host);
}

/* --- messages ------------------------------------------------------------------------------------------------ */

/* The process that a message is of; NULL: none, or of a start before this one */
static struct launch_proc *proc_of(struct launch *launch, uint32_t host, json_t *message)
{
	json_int_t index = json_integer_value(json_object_get(message, "index"));
	json_t *start = json_object_get(message, "start");
	struct launch_proc *proc;

	if (index < 0 || index >= (json_int_t)launch->proc_count)
		return NULL;
	proc = &launch->procs[index];
	if (proc->host != host ||
	    (start != NULL && json_integer_value(start) != (json_int_t)proc->life.starts))
		return NULL;
	return proc;
}

static void on_started(struct launch *launch, struct launch_proc *proc, json_t *message)
{
	proc->pid = (pid_t)json_integer_value(json_object_get(message, "pid"));
	if (proc->kind != LAUNCH_WORKER)
		return;
	launch_life_runs(&proc->life);
	launch_note("%s runs on %s, process %d", proc->name, launch_host_name(launch, proc->host),
		    (int)proc->pid);
}

static void on_ready(struct launch *launch, struct launch_proc *proc, json_t *message)
{
	const char *address = json_string_value(json_object_get(message, "address"));

	if (proc->kind == LAUNCH_WORKER || address == NULL || address[0] == '\0' ||
	    strlen(address) >= sizeof(proc->address))
		return;
	launch_life_runs(&proc->life);
	snprintf(proc->address, sizeof(proc->address), "%s", address);
	launch_note("%s listens on %s at %s, process %d", proc->name,
		    launch_host_name(launch, proc->host), address, (int)proc->pid);
}

static void on_here(struct launch *launch, uint32_t host, json_t *message)
{
	const char *version = json_string_value(json_object_get(message, "version"));
	char what[160];

	if (version == NULL || strcmp(version, ol_version(NULL)) != 0) {
		snprintf(what, sizeof(what), "outlast is of version %.20s there, and of %.20s here",
			 version != NULL ? version : "?", ol_version(NULL));
		fail(launch,
		     ol_cmd_error(OL_EXIT_REFUSED, "launch", what, launch_host_name(launch, host),
				  "install the same, or give --program"));
		return;
	}
	launch->agents[host].is_here = true;
	launch_life_runs(&launch->agents[host].life);
}

static void on_cannot(struct launch *launch, uint32_t host, json_t *message)
{
	const char *what = json_string_value(json_object_get(message, "what"));
	const char *object = json_string_value(json_object_get(message, "object"));
	char text[LAUNCH_NAME_MAX + 64];

	snprintf(text, sizeof(text), "cannot go to the folder on %s",
		 launch_host_name(launch, host));
	fail(launch, ol_cmd_error(OL_EXIT_USAGE, "launch", text, object, what));
}

static void message_take(struct launch *launch, uint32_t host, char *line)
{
	json_t *message = json_loads(line, 0, NULL);
	const char *at = json_string_value(json_object_get(message, "at"));
	struct launch_proc *proc = at != NULL ? proc_of(launch, host, message) : NULL;

	if (at == NULL)
		fprintf(stderr, "[%s] %s\n", launch_host_name(launch, host), line);
	else if (strcmp(at, "here") == 0)
		on_here(launch, host, message);
	else if (strcmp(at, "cannot") == 0)
		on_cannot(launch, host, message);
	else if (proc != NULL && strcmp(at, "line") == 0)
		launch_show_line(proc, json_is_true(json_object_get(message, "err")),
				 json_string_value(json_object_get(message, "text")));
	else if (proc != NULL && strcmp(at, "started") == 0 && launch_life_lives(&proc->life))
		on_started(launch, proc, message);
	else if (proc != NULL && strcmp(at, "ready") == 0 && launch_life_lives(&proc->life))
		on_ready(launch, proc, message);
	else if (proc != NULL && strcmp(at, "ended") == 0 && launch_life_lives(&proc->life))
		proc_ended(launch, proc,
			   (int)json_integer_value(json_object_get(message, "status")));
	json_decref(message);
}

static void agent_read(struct launch *launch, uint32_t host)
{
	struct launch_agent *agent = &launch->agents[host];
	char *line;

	for (unsigned i = 0; i < PIECES && launch_lines_read(&agent->lines); i++) {
		while ((line = launch_lines_take(&agent->lines)) != NULL)
			message_take(launch, host, line);
	}
	if (agent->lines.fd < 0)
		agent_ended(launch, host);
}

/* --- signals ------------------------------------------------------------------------------------------------- */

static void signal_take(struct launch *launch, int signo)
{
	bool is_first = launch->signal_ns == 0;
	uint64_t now_ns = ol_clock_ns();

	if (signo == SIGCHLD)
		return; /* a way that has ended closes its stream */
	if (signo == SIGUSR1) {
		if (launch->phase < LAUNCH_LEAVES) {
			launch->is_preempted = true;
			launch_note("SIGUSR1: servers save, and the job ends, to be started again");
		}
		leave(launch);
		return;
	}
	/* who signals a process and then its group, as timeout does, asks once */
	if (!is_first && now_ns - launch->signal_ns < SECOND_MS * OL_NS_PER_MS)
		return;
	launch->signal_ns = now_ns;
	if (is_first && launch->phase >= LAUNCH_LEAVES) {
		launch_note("signal %d: the job is ending already; another one kills", signo);
		return;
	}
	launch->signal = signo;
	if (!is_first) {
		launch_note("a second signal: everything is killed");
		launch->is_hurried = true;
		leave(launch);
		all_kill(launch);
		return;
	}
	launch_note("signal %d: workers are asked to end, then servers; another one kills", signo);
	leave(launch);
}

static int signals_open(struct launch *launch)
{
	sigset_t set;

	ol_cmd_signals_asking(&set);
	sigaddset(&set, SIGCHLD);
	sigaddset(&set, SIGUSR1);
	if (sigprocmask(SIG_BLOCK, &set, NULL) == 0)
		launch->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (launch->signal_fd < 0)
		return ol_cmd_error(OL_EXIT_RESOURCES, "launch", "cannot watch for signals", NULL,
				    strerror(errno));
	return 0;
}

/* --- starts -------------------------------------------------------------------------------------------------- */

static void proc_start(struct launch *launch, struct launch_proc *proc)
{
	json_t *words = launch_words(launch, proc), *env = launch_env(launch, proc);
	uint64_t now_ns = ol_clock_ns();

	launch_life_begin(&proc->life, now_ns);
	if (proc->first_ns == 0)
		proc->first_ns = now_ns;
	launch_agent_order(launch, proc->host,
			   json_pack("{s:s, s:i, s:i, s:b, s:b, s:o, s:o}", "do", "start", "index",
				     (int)(proc - launch->procs), "start", (int)proc->life.starts,
				     "server", proc->kind != LAUNCH_WORKER, "keeper",
				     proc->kind == LAUNCH_KEEPER, "words", words, "env", env));
}

static void procs_start(struct launch *launch, uint32_t from, uint32_t to, uint64_t now_ns)
{
	for (uint32_t i = from; i < to; i++) {
		struct launch_proc *proc = &launch->procs[i];

		if (launch_life_is_due(&proc->life, now_ns) && launch->agents[proc->host].is_here)
			proc_start(launch, proc);
	}
}

static void agents_start(struct launch *launch, uint64_t now_ns)
{
	for (uint32_t i = 0; i < launch->hosts.count; i++) {
		struct launch_agent *agent = &launch->agents[i];
		int rc;

		if (!launch_life_is_due(&agent->life, now_ns))
			continue;
		rc = launch_agent_start(launch, i);
		if (rc == 0)
			continue;
		fail(launch,
		     ol_cmd_error(OL_EXIT_DEVICE, "launch", "cannot start what leads to the host",
				  launch_host_name(launch, i), strerror(-rc)));
		agent->life.state = LAUNCH_FAILED;
	}
}

static bool agents_are_here(const struct launch *launch)
{
	for (uint32_t i = 0; i < launch->hosts.count; i++) {
		if (!launch->agents[i].is_here)
			return false;
	}
	return true;
}

/* Whatever the phase has to do now */
static void step(struct launch *launch)
{
	uint32_t servers = launch->server_count, workers = launch->worker_end;
	uint32_t all = launch->proc_count;
	uint64_t now_ns = ol_clock_ns();

	if (launch->phase <= LAUNCH_WORKS)
		agents_start(launch, now_ns);
	if (launch->phase == LAUNCH_REACHES && agents_are_here(launch))
		phase_enter(launch, LAUNCH_FOUNDS);
	if (launch->phase >= LAUNCH_FOUNDS && launch->phase < LAUNCH_CLOSES)
		procs_start(launch, workers, all, now_ns);
	if (launch->phase == LAUNCH_FOUNDS && all_are(launch, workers, all, LAUNCH_RUNS))
		phase_enter(launch, LAUNCH_SERVES);
	if (launch->phase == LAUNCH_SERVES || launch->phase == LAUNCH_WORKS)
		procs_start(launch, 0, servers, now_ns);
	if (launch->phase == LAUNCH_SERVES && all_are(launch, 0, servers, LAUNCH_RUNS))
		phase_enter(launch, LAUNCH_WORKS);
	if (launch->phase == LAUNCH_WORKS)
		procs_start(launch, servers, workers, now_ns);
	if (launch->phase == LAUNCH_WORKS && all_are(launch, servers, workers, LAUNCH_DONE))
		phase_enter(launch, LAUNCH_ENDS);
	if (launch->phase == LAUNCH_LEAVES && !any_lives(launch, servers, workers))
		phase_enter(launch, LAUNCH_ENDS);
	if (launch->phase == LAUNCH_ENDS && !any_lives(launch, 0, workers))
		phase_enter(launch, LAUNCH_CLOSES);
	if (launch->phase == LAUNCH_CLOSES && !any_lives(launch, 0, all))
		phase_enter(launch, LAUNCH_OVER);
	if (launch->phase < LAUNCH_LEAVES || launch->phase == LAUNCH_OVER)
		return;
	if (launch->is_hurried || now_ns >= launch->kill_ns)
		all_kill(launch);
	if (now_ns >= launch->kill_ns + HANG_MS * OL_NS_PER_MS)
		phase_enter(launch, LAUNCH_OVER); /* a host that says nothing any more */
}

static uint64_t due_before(const struct launch_life *life, uint64_t bound_ns)
{
	return life->state == LAUNCH_WAITS && life->due_ns < bound_ns ? life->due_ns : bound_ns;
}

/* Until the next start that is due, at most TURN_MS */
static int turn_ms(const struct launch *launch)
{
	uint64_t now_ns = ol_clock_ns(), bound_ns = now_ns + TURN_MS * OL_NS_PER_MS, later_ns;

	for (uint32_t i = 0; i < launch->proc_count; i++) {
		/* what waits for its phase, or for its agent, is due already */
		later_ns = due_before(&launch->procs[i].life, bound_ns);
		bound_ns = later_ns > now_ns ? later_ns : bound_ns;
	}
	for (uint32_t i = 0; i < launch->hosts.count; i++) {
		later_ns = due_before(&launch->agents[i].life, bound_ns);
		bound_ns = later_ns > now_ns ? later_ns : bound_ns;
	}
	return (int)((bound_ns - now_ns) / OL_NS_PER_MS) + 1;
}

static void turn(struct launch *launch)
{
	struct pollfd fds[2 * LAUNCH_HOSTS_MAX + 1];
	struct signalfd_siginfo info;
	uint32_t count = launch->hosts.count;

	for (uint32_t i = 0; i < count; i++) {
		const struct launch_agent *agent = &launch->agents[i];
		bool runs = agent->pid != 0;

		fds[2 * i] = (struct pollfd){ .fd = runs ? agent->lines.fd : -1, .events = POLLIN };
		fds[2 * i + 1] =
			(struct pollfd){ .fd = runs ? agent->errors.fd : -1, .events = POLLIN };
	}
	fds[2 * count] = (struct pollfd){ .fd = launch->signal_fd, .events = POLLIN };
	(void)poll(fds, 2 * count + 1, turn_ms(launch));
	while (read(launch->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info))
		signal_take(launch, (int)info.ssi_signo);
	for (uint32_t i = 0; i < count; i++) {
		if (launch->agents[i].pid != 0 && fds[2 * i + 1].revents != 0)
			launch_agent_errors(launch, i);
		if (launch->agents[i].pid != 0 && fds[2 * i].revents != 0)
			agent_read(launch, i);
	}
	step(launch);
}

/* --- the end ------------------------------------------------------------------------------------------------- */

static void requeue(struct launch *launch)
{
	const char *job = getenv("SLURM_JOB_ID");
	char *words[] = { (char[]){ "scontrol" }, (char[]){ "requeue" }, NULL, NULL };
	int status = 0, rc;
	pid_t pid;

	if (!launch->set.requeue)
		return;
	if (job == NULL) {
		launch_note("--requeue: there is no SLURM_JOB_ID: the exit status alone says it");
		return;
	}
	words[2] = strdup(job);
	rc = words[2] != NULL ? posix_spawnp(&pid, words[0], NULL, NULL, words, environ) : ENOMEM;
	if (rc == 0 && waitpid(pid, &status, 0) == pid && status == 0)
		launch_note("job %s is requeued", job);
	else
		(void)ol_cmd_error(OL_EXIT_FAILED, "launch", "scontrol requeue failed", job,
				   rc != 0 ? strerror(rc) : "it said why");
	free(words[2]);
}

static void policies_set(struct launch *launch)
{
	const struct launch_policy usual = { .pause_ns = 200 * OL_NS_PER_MS,
					     .pause_max_ns = 30 * OL_NS_PER_S,
					     .calm_ns = 600 * OL_NS_PER_S };

	for (unsigned i = 0; i <= LAUNCH_AGENT; i++)
		launch->policies[i] = usual;
	launch->policies[LAUNCH_SERVER].restarts = launch->set.restart_servers;
	launch->policies[LAUNCH_WORKER].restarts = launch->set.restart_workers;
	launch->policies[LAUNCH_KEEPER].restarts = launch->set.restart_servers;
	launch->policies[LAUNCH_AGENT].restarts = LAUNCH_AGENT_RESTARTS;
	launch->policies[LAUNCH_AGENT].pause_ns = OL_NS_PER_S;
}

int launch_run(struct launch *launch)
{
	int rc = signals_open(launch);

	if (rc != 0)
		return rc;
	policies_set(launch);
	for (uint32_t i = 0; i < launch->hosts.count; i++)
		launch->agents[i].orders = launch->agents[i].lines.fd =
			launch->agents[i].errors.fd = -1;
	launch->begin_ns = ol_clock_ns();
	while (launch->phase != LAUNCH_OVER)
		turn(launch);
	launch_agents_close(launch);
	launch->end_ns = ol_clock_ns();
	launch_show_end(launch);
	rc = launch_report(launch);
	if (launch->exit_code != 0)
		return launch->exit_code;
	if (launch->is_preempted) {
		requeue(launch);
		return OL_EXIT_REQUEUE;
	}
	return launch->signal != 0 ? OL_EXIT_SIGNAL + launch->signal : rc;
}
