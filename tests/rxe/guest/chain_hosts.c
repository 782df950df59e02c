/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * chain_hosts.c -- a chain whose hosts are cut off from each other, and lose power, has one history
 *
 *	chain_hosts agent ROLE          on every host: coordinator, server or none. Starts it,
 * starts a server again that was left out, obeys net_set() chain_hosts split CUT...        on the
 * worker's host: makes each of the cuts, heals it chain_hosts death REPEATS       on the worker's
 * host: takes the power of head after head
 *
 * Hosts: 0 the coordinator, 1 to 3 servers, 4 the worker; all share the directory OL_OUT, which
 * cuts do not affect. A cut names roles: "H|MT" is the head on one side, middle and tail on the
 * other; the coordinator (C) and the worker (W) reach all of them.
 *
 * There is one worker, so the history is known: version v is the sum of its first v gradients,
 * small whole numbers at learning rate 1. Every pull is compared with it, and so are the weights
 * of every server that ends.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "server/server.h"
#include "support/check.h"
#include "support/lab.h"

enum {
	HOSTS = 5,
	COORDINATOR = 0,
	WORKER = 4,
	REPLICAS = 3,
	LEN = 1000,
	MARKS = 61, /* gradient n has another value at every index that is n modulo this */
	PORT = 7471,
	WINDOW = 4,
	JOBS_MAX = 4,
	TICK_MS = 20, /* between two looks at the shared directory */
	WAIT_S = 300, /* for anything that must happen: five emulated machines may be busy */
	LEASE_MIN_MS = 1000, /* the machines hold it where nothing runs beside them … */
	LEASE_MAX_MS = 4000,
	LEASES_A_START = 40, /* … and ZooKeeper is there before so many of them have passed */
	EXIT_FENCED = 9,
};

/* A job, and so a chain, of its own for each of them, all on the same hosts */
static uint32_t leases[JOBS_MAX];
static unsigned jobs;

static const char *addr_of(unsigned host)
{
	char name[32];

	snprintf(name, sizeof(name), "OL_ADDR_%u", host);
	return getenv(name);
}

static const char *coordinator_addr(void)
{
	static char addr[64];

	snprintf(addr, sizeof(addr), "zk:%s:%u", addr_of(COORDINATOR), PORT);
	return addr;
}

/* Weight k of version v: gradients 1 … v are ones, and one more where k and n have the same mark */
static float weight_of(uint64_t version, unsigned k)
{
	uint64_t mark = k % MARKS;
	uint64_t more = (version + MARKS - mark) / MARKS - (mark == 0);

	return -(float)(version + more);
}

static bool weights_are(const float *weights, uint64_t version)
{
	for (unsigned k = 0; k < LEN; k++) {
		if (weights[k] != weight_of(version, k))
			return false;
	}
	return true;
}

/* ---- what runs on a host ---- */

static struct ol_server *server;

static volatile sig_atomic_t ending;

static void on_term(int number)
{
	(void)number;
	ending = 1;
	if (server != NULL)
		ol_server_stop(server);
}

static void term_handle(void)
{
	struct sigaction action = { .sa_handler = on_term };

	sigaction(SIGTERM, &action, NULL);
}

/* One ZooKeeper server, which is an ensemble; it ends with this process */
static int coordinate(void)
{
	static const char config[] = "/tmp/zk.cfg";
	FILE *file;
	pid_t pid;
	int status;

	check_ok(mkdir("/tmp/zk", 0700));
	file = fopen(config, "w");
	check(file != NULL);
	fprintf(file,
		"tickTime=50\nminSessionTimeout=100\nmaxSessionTimeout=60000\nmaxClientCnxns=0\n"
		"admin.enableServer=false\ndataDir=/tmp/zk\nclientPort=%u\n",
		PORT);
	check_ok(fclose(file));
	pid = fork();
	check(pid >= 0);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		execlp("java", "java", "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
		       "-XX:-UsePerfData", "-Dzookeeper.root.logger=WARN,CONSOLE", "-cp",
		       "/etc/zookeeper/conf:/usr/share/java/zookeeper.jar",
		       "org.apache.zookeeper.server.quorum.QuorumPeerMain", config, (char *)NULL);
		_exit(127);
	}
	term_handle();
	while (waitpid(pid, &status, WNOHANG) == 0 && !ending)
		poll(NULL, 0, TICK_MS);
	check_msg(ending, "ZooKeeper ends with status %#x", (unsigned)status);
	return 0;
}

/* The lease of all, where none was asked for: as long as these machines are slow. Nobody needs
 * ZooKeeper before it is there. */
static void lease_offer(void)
{
	struct ol_chains *chains;
	char err[256], text[32];
	uint64_t ms;
	int rc;

	rc = ol_chains_open(coordinator_addr(), "start", NULL, 1, WAIT_S * 1000, &chains, err,
			    sizeof(err));
	if (rc != 0)
		lab_write("done", "");
	check_msg(rc == 0, "%s", err);
	ol_chains_close(chains);
	ms = ol_clock_ns() / OL_NS_PER_MS / LEASES_A_START; /* the clock began with the machine */
	ms = ms < LEASE_MIN_MS ? LEASE_MIN_MS : ms > LEASE_MAX_MS ? LEASE_MAX_MS : ms;
	snprintf(text, sizeof(text), "%u", (unsigned)ms);
	lab_write("lease", text);
}

static void job_name(unsigned job, char name[32])
{
	snprintf(name, 32, "lease-%u-%u", leases[job], job);
}

static int serve(unsigned host, unsigned job)
{
	static float zero[LEN];
	struct ol_server_opts opts;
	char listen[64], name[32], err[256];
	uint64_t version;
	int rc;

	snprintf(listen, sizeof(listen), "%s:0", addr_of(host));
	job_name(job, name);
	ol_server_opts_init(&opts);
	opts.listen = listen;
	opts.transport = "verbs";
	opts.param_count = LEN;
	opts.workers_max = 1;
	opts.window = WINDOW;
	opts.rule.lr = 1.0f;
	opts.lease_ms = leases[job];
	opts.heartbeat_ms = leases[job] < 250 ? leases[job] / 5 : 50;
	opts.coordinator = coordinator_addr();
	opts.coordinator_timeout_ms = WAIT_S * 1000;
	opts.job = name;
	opts.replicas = REPLICAS;
	opts.rank = host;
	rc = ol_server_open(&opts, zero, &server, err, sizeof(err));
	check_msg(rc == 0, "server at host %u: %s", host, err);
	term_handle();
	rc = ol_server_run(server);
	version = server->store.version;
	check_msg(weights_are(ol_store_weights(&server->store), version),
		  "the server of host %u ends with version %llu: its weights are of no history",
		  host, (unsigned long long)version);
	if (rc != 0)
		printf("lease %u ms: ends at version %llu: %s\n", leases[job],
		       (unsigned long long)version, ol_strerror(rc));
	ol_server_close(server);
	return rc == OL_E_FENCED ? EXIT_FENCED : rc != 0;
}

static pid_t child_start(const char *role, unsigned host, unsigned job)
{
	pid_t pid = fork();
	sigset_t none;

	check(pid >= 0);
	if (pid != 0)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	exit(strcmp(role, "coordinator") == 0 ? coordinate() : serve(host, job));
}

/* What net_set() has asked for: packets to a host that is cut off go to an adapter that is not */
static void net_obey(unsigned host, unsigned *done, bool cut[HOSTS])
{
	char name[32], text[64], batch[512] = "";
	unsigned asked, mask;
	FILE *ip;

	snprintf(name, sizeof(name), "net.%u", host);
	if (!lab_read(name, text, sizeof(text)) || sscanf(text, "%u %u", &asked, &mask) != 2 ||
	    asked == *done)
		return;
	for (unsigned i = 0; i < HOSTS; i++) {
		bool now = (mask >> i & 1) != 0;
		size_t at = strlen(batch);

		if (now && !cut[i])
			snprintf(
				batch + at, sizeof(batch) - at,
				"neigh replace %s lladdr 02:00:00:00:00:fe nud permanent dev eth0\n",
				addr_of(i));
		else if (!now && cut[i])
			snprintf(batch + at, sizeof(batch) - at, "neigh del %s dev eth0\n",
				 addr_of(i));
		cut[i] = now;
	}
	ip = popen("ip -batch -", "w");
	check(ip != NULL && fputs(batch, ip) >= 0);
	check_ok(pclose(ip));
	*done = asked;
	snprintf(name, sizeof(name), "net.%u.done", host);
	snprintf(text, sizeof(text), "%u\n", asked);
	lab_write(name, text);
}

/* True if everything that ended may have, and is there again if it should */
static bool children_look(const char *role, unsigned host, pid_t *pids)
{
	for (unsigned i = 0; i < jobs; i++) {
		int status;

		if (pids[i] <= 0 || waitpid(pids[i], &status, WNOHANG) == 0)
			continue;
		if (!WIFEXITED(status) || WEXITSTATUS(status) != EXIT_FENCED) {
			printf("%s: ended by itself with status %#x\n", role, (unsigned)status);
			return false;
		}
		pids[i] = child_start(role, host, i);
	}
	return true;
}

static int agent(const char *role)
{
	unsigned host = (unsigned)strtoul(getenv("OL_HOST"), NULL, 10), done = 0;
	bool cut[HOSTS] = { false }, good = true;
	bool none = strcmp(role, "none") == 0;
	pid_t pids[JOBS_MAX] = { 0 };

	for (unsigned i = 0; i < (strcmp(role, "server") == 0 ? jobs : !none); i++)
		pids[i] = child_start(role, host, i);
	if (host == COORDINATOR)
		lease_offer();
	while (good && !lab_exists("done")) {
		poll(NULL, 0, TICK_MS);
		net_obey(host, &done, cut);
		good = children_look(role, host, pids);
	}
	for (unsigned i = 0; i < jobs; i++) {
		int status;

		if (pids[i] <= 0)
			continue;
		kill(pids[i], SIGTERM);
		while (waitpid(pids[i], &status, 0) < 0 && errno == EINTR)
			;
		/* a server that is just started again has no handler yet */
		good = good && (WIFEXITED(status) ? WEXITSTATUS(status) == 0 ||
							    WEXITSTATUS(status) == EXIT_FENCED
						  : WTERMSIG(status) == SIGTERM);
	}
	if (!good)
		lab_write("done", "");
	return !good;
}

/* ---- the worker ---- */

struct course {
	struct ol_worker *worker;
	struct ol_chains *chains;
	struct ol_op pushes[WINDOW];
	struct ol_op pull;
	bool busy[WINDOW];
	uint64_t pushed;
	uint64_t done; /* committed, as it was told */
	uint64_t done_ns; /* when it last was */
	uint64_t told; /* newest version that it was told is committed */
	uint64_t pulls;
	struct ol_chain_info info; /* as last seen */
	uint64_t epoch_ns; /* when that epoch was first seen */
};

static struct course courses[JOBS_MAX];

static void course_open(unsigned job)
{
	struct course *course = &courses[job];
	struct ol_worker_opts opts;
	char name[32], err[256];
	int rc;

	job_name(job, name);
	ol_worker_opts_init(&opts);
	opts.coordinator = coordinator_addr();
	opts.job = name;
	opts.transport = "verbs";
	opts.outage = OL_OUTAGE_WAIT;
	opts.outage_timeout_ms = 0;
	opts.lease_ms = leases[job];
	opts.connect_timeout_ms = WAIT_S * 1000;
	rc = ol_worker_open(&opts, &course->worker, err, sizeof(err));
	check_msg(rc == 0, "worker: %s", err);
	rc = ol_chains_open(opts.coordinator, name, NULL, 1, WAIT_S * 1000, &course->chains, err,
			    sizeof(err));
	check_msg(rc == 0, "chains: %s", err);
	course->pull.done = 1;
}

static void push_one(struct course *course, unsigned at)
{
	struct ol_push_info info = { .samples = 1, .loss = 1.0f };
	uint64_t n = course->pushed + 1;
	float *grad;

	if (ol_grad_try_acquire(course->worker, &grad) != 0)
		return;
	for (unsigned k = 0; k < LEN; k++)
		grad[k] = k % MARKS == n % MARKS ? 2.0f : 1.0f;
	ol_weights(course->worker, &info.base_version);
	course->pushes[at] = (struct ol_op){ .level = OL_LEVEL_COMMITTED };
	check_ok(ol_push(course->worker, grad, &info, &course->pushes[at]));
	course->busy[at] = true;
	course->pushed = n;
}

/* A pull is whole, of the one history, and not behind what was committed when it began */
static void pull_check(struct course *course)
{
	uint64_t version;
	const float *weights = ol_weights(course->worker, &version);

	check_ok(course->pull.status);
	check_msg(weights_are(weights, version),
		  "version %llu is not the sum of the first %llu pushes",
		  (unsigned long long)version, (unsigned long long)version);
	check_eq(ol_applied_grads(course->worker, 0, 0), version);
	check_msg(version >= course->told, "pulled version %llu, and %llu is committed",
		  (unsigned long long)version, (unsigned long long)course->told);
	course->told = version;
	course->pulls++;
}

static void chain_look(struct course *course)
{
	struct ol_chain_info info;

	check_ok(ol_chains_get(course->chains, 0, &info));
	if (info.epoch != course->info.epoch)
		course->epoch_ns = ol_clock_ns();
	course->info = info;
}

/* What can be done now */
static void course_turn(struct course *course)
{
	check(ol_worker_poll(course->worker) >= 0);
	for (unsigned i = 0; i < WINDOW; i++) {
		struct ol_op *op = &course->pushes[i];

		if (course->busy[i] && op->done) {
			check_ok(op->status);
			course->busy[i] = false;
			course->done++;
			course->done_ns = ol_clock_ns();
		}
		if (!course->busy[i])
			push_one(course, i);
	}
	if (course->pull.done && course->pull.status == 0 && course->pull.version > 0)
		pull_check(course);
	if (course->pull.done)
		check_ok(ol_pull(course->worker, 0, &course->pull));
	chain_look(course);
}

/* A step of all; it sleeps until something happens to the first one's pull, for a tick at most */
static void turn(void)
{
	for (unsigned i = 0; i < jobs; i++)
		course_turn(&courses[i]);
	if (!courses[0].pull.done)
		(void)ol_worker_wait_for(courses[0].worker, &courses[0].pull, TICK_MS);
}

static void turn_for(uint64_t ms)
{
	uint64_t until_ns = ol_clock_ns() + ms * OL_NS_PER_MS;

	while (ol_clock_ns() < until_ns)
		turn();
}

/* Turns until WHAT is so of every course; the bound is for what never comes */
static void turn_until(const char *what, bool (*so)(const struct course *, uint64_t), uint64_t arg)
{
	uint64_t bound_ns = ol_clock_ns() + WAIT_S * OL_NS_PER_S;
	bool all = false;

	while (!all) {
		all = true;
		turn();
		for (unsigned i = 0; i < jobs; i++)
			all = all && so(&courses[i], arg);
		check_msg(ol_clock_ns() < bound_ns, "not within %d s: %s; epoch %u, %u replicas",
			  WAIT_S, what, courses[0].info.epoch, courses[0].info.count);
		check_msg(!lab_exists("done"), "a host has given up");
	}
}

static bool is_whole(const struct course *course, uint64_t replicas)
{
	return course->info.connected && course->info.count == replicas && !course->info.joining &&
	       !course->info.waiting;
}

static bool has_done(const struct course *course, uint64_t count)
{
	return course->done >= count;
}

/* All that was pushed is committed, and in the weights once */
static void settle(struct course *course)
{
	struct ol_link_stat link;
	struct ol_op flush = { 0 }, pull = { 0 };
	uint64_t bound_ns = ol_clock_ns() + WAIT_S * OL_NS_PER_S;

	check_ok(ol_flush(course->worker, &flush));
	while (!flush.done || !course->pull.done) {
		(void)ol_worker_wait_for(course->worker, flush.done ? &course->pull : &flush,
					 TICK_MS);
		check_msg(ol_clock_ns() < bound_ns, "what was pushed is not done");
	}
	check_ok(flush.status);
	check_ok(ol_pull(course->worker, OL_PULL_NEWEST, &pull));
	while (!pull.done)
		(void)ol_worker_wait_for(course->worker, &pull, TICK_MS);
	check_ok(pull.status);
	check_eq(pull.version, course->pushed);
	check(weights_are(ol_weights(course->worker, NULL), course->pushed));
	check_ok(ol_link_get_stat(course->worker, 0, &link));
	check_eq(link.applied, course->pushed);
	check_eq(link.lost + link.pending + link.late + link.nonfinite, 0);
	course->pull = (struct ol_op){ .done = 1 };
	check_eq(course->info.founded, 1);
}

/* ---- faults ---- */

/* net_set -- from now on packets from host i reach host j unless bit j of cut[i] is set */
static void net_set(const unsigned cut[HOSTS])
{
	static unsigned number;
	char name[32], text[64];
	unsigned got;

	number++;
	for (unsigned i = 0; i < HOSTS; i++) {
		snprintf(name, sizeof(name), "net.%u", i);
		snprintf(text, sizeof(text), "%u %u\n", number, cut[i]);
		lab_write(name, text);
	}
	for (unsigned i = 0; i < HOSTS; i++) {
		snprintf(name, sizeof(name), "net.%u.done", i);
		got = 0;
		while (!lab_read(name, text, sizeof(text)) || sscanf(text, "%u", &got) != 1 ||
		       got != number) {
			check_msg(!lab_exists("done"), "a host has given up");
			poll(NULL, 0, 2);
		}
	}
}

static unsigned host_of(const char *addr)
{
	for (unsigned i = 0; i < HOSTS; i++) {
		const char *host = addr_of(i);

		if (strncmp(addr, host, strlen(host)) == 0 && addr[strlen(host)] == ':')
			return i;
	}
	check_msg(false, "%s is no host of this lab", addr);
	return 0;
}

static unsigned host_of_role(const struct course *course, char role)
{
	static const char order[] = "HMT";

	if (role == 'C')
		return COORDINATOR;
	if (role == 'W')
		return WORKER;
	check(strchr(order, role) != NULL);
	return host_of(course->info.addrs[strchr(order, role) - order]);
}

/* ---- split: cuts ---- */

struct split {
	unsigned cut[HOSTS];
	unsigned left; /* hosts named before the bar, as a mask … */
	unsigned right; /* … and behind it */
	bool goes_on; /* pushes are committed while it lasts */
	int alone; /* host that is off the network altogether, -1: none */
};

/* "H|MT" stands for what; a "+" behind it: pushes are committed meanwhile */
static struct split split_read(const struct course *course, const char *text)
{
	struct split split = { .goes_on = strchr(text, '+') != NULL, .alone = -1 };
	bool one_way = strchr(text, '>') != NULL, right = false;
	unsigned all = (1u << HOSTS) - 1;

	for (const char *c = text; *c != '\0' && *c != '+'; c++) {
		if (*c == '|' || *c == '>')
			right = true;
		else if (right)
			split.right |= 1u << host_of_role(course, *c);
		else
			split.left |= 1u << host_of_role(course, *c);
	}
	check(right && split.left != 0 && split.right != 0 && (split.left & split.right) == 0);
	for (unsigned i = 0; i < HOSTS; i++) {
		if (split.left >> i & 1)
			split.cut[i] = split.right;
		else if ((split.right >> i & 1) && !one_way)
			split.cut[i] = split.left;
		if (split.left == 1u << i && (split.left | split.right) == all && !one_way)
			split.alone = (int)i;
	}
	return split;
}

static void split_make(const struct split *split, bool heal)
{
	static const unsigned none[HOSTS];

	if (split->alone >= 0)
		lab_fault(heal ? "heal" : "cut", (unsigned)split->alone);
	else
		net_set(heal ? none : split->cut);
}

static const char *hosts_str(const struct ol_chain_info *info)
{
	static char text[64];
	size_t at = 0;

	text[0] = '\0';
	for (uint32_t i = 0; i < info->count; i++)
		at += (size_t)snprintf(text + at, sizeof(text) - at, "%s%u", i > 0 ? "-" : "",
				       host_of(info->addrs[i]));
	return text;
}

static void split_once(const char *text)
{
	struct course *course = &courses[0];
	uint64_t hold_ms = 4 * leases[0], since_ns, before, healed_ns;
	struct ol_chain_info was;
	struct split split;

	turn_until("the chain is whole", is_whole, REPLICAS);
	was = course->info;
	split = split_read(course, text);
	printf("%s: chain %s, epoch %u\n", text, hosts_str(&was), was.epoch);
	split_make(&split, false);
	since_ns = ol_clock_ns();
	turn_for(leases[0] / 4); /* what had arrived before is told of */
	before = course->done;
	turn_for(hold_ms);
	if (split.goes_on)
		turn_until("pushes are committed", has_done, before + 3);
	else
		check_msg(course->done == before, "%s: %llu pushes were committed meanwhile", text,
			  (unsigned long long)(course->done - before));
	printf("%s: cut for %.1f s: %llu pushes committed meanwhile; chain as the worker knows it "
	       "%s, epoch %u\n",
	       text, (double)(ol_clock_ns() - since_ns) / 1e9,
	       (unsigned long long)(course->done - before), hosts_str(&course->info),
	       course->info.epoch);
	split_make(&split, true);
	healed_ns = ol_clock_ns();
	turn_until("pushes are committed after the cut", has_done, course->done + 3);
	printf("%s: healed: pushes are committed after %.1f s", text,
	       (double)(ol_clock_ns() - healed_ns) / 1e9);
	turn_until("the chain is whole again", is_whole, REPLICAS);
	settle(course);
	printf("; after %.1f s whole: chain %s, epoch %u; all %llu pushes in it, once\n",
	       (double)(ol_clock_ns() - healed_ns) / 1e9, hosts_str(&course->info),
	       course->info.epoch, (unsigned long long)course->pushed);
}

/* ---- death ---- */

static void stat_of(const char *addr, struct ol_server_stat *ret_stat)
{
	struct ol_worker_opts opts;
	struct ol_worker *observer;
	char err[256];

	ol_worker_opts_init(&opts);
	opts.lease_ms = 5000;
	opts.servers = addr;
	opts.transport = "verbs";
	opts.observer = 1;
	check_msg(ol_worker_open(&opts, &observer, err, sizeof(err)) == 0, "observer: %s", err);
	check_ok(ol_stat(observer, 0, ret_stat));
	ol_worker_close(observer);
}

static bool is_led_by_another(const struct course *course, uint64_t host)
{
	return host_of(course->info.addrs[0]) != host;
}

static bool has_done_since(const struct course *course, uint64_t off_ns)
{
	return course->epoch_ns > off_ns && course->done_ns > course->epoch_ns;
}

static double ms_between(uint64_t from_ns, uint64_t to_ns)
{
	return (double)(int64_t)(to_ns - from_ns) / 1e6;
}

/* What came of it in one chain */
static void death_report(unsigned job, double power_ms, uint64_t off_ns, uint64_t commit_ns)
{
	struct course *course = &courses[job];
	double view_ms = ms_between(off_ns, course->epoch_ns);
	double commit_ms = ms_between(off_ns, commit_ns);
	unsigned left = course->info.count;
	struct ol_server_stat stat;

	stat_of(course->info.addrs[0], &stat);
	printf("lease %u ms, %u left: power off within %.0f ms; new view known after %.0f ms = %.2f "
	       "leases; its new head had it %.1f ms after asking; first "
	       "commit after %.0f ms = %.2f leases\n",
	       leases[job], left, power_ms, view_ms, view_ms / leases[job],
	       ms_between(stat.proposed_ns, stat.adopted_ns), commit_ms, commit_ms / leases[job]);
}

/* The power of the first chain's head. Chains that are led by another host are not looked at. */
static void death_once(void)
{
	uint64_t asked_ns, off_ns, commit_ns[JOBS_MAX] = { 0 };
	unsigned host = host_of(courses[0].info.addrs[0]);
	bool led[JOBS_MAX], all = false;

	for (unsigned i = 0; i < jobs; i++)
		led[i] = !is_led_by_another(&courses[i], host);
	asked_ns = ol_clock_ns();
	off_ns = lab_fault("poweroff", host);
	while (!all) {
		all = true;
		turn();
		for (unsigned i = 0; i < jobs; i++) {
			if (led[i] && commit_ns[i] == 0 && has_done_since(&courses[i], off_ns) &&
			    is_led_by_another(&courses[i], host))
				commit_ns[i] = courses[i].done_ns;
			all = all && (!led[i] || commit_ns[i] != 0);
		}
		check_msg(ms_between(off_ns, ol_clock_ns()) < WAIT_S * 1e3, "no commit any more");
	}
	for (unsigned i = 0; i < jobs; i++) {
		settle(&courses[i]);
		if (led[i])
			death_report(i, ms_between(asked_ns, off_ns), off_ns, commit_ns[i]);
	}
}

static void deaths(unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		turn_for(500);
		turn_until("chains are whole", is_whole, REPLICAS - i);
		death_once();
	}
}

static void leases_read(bool coordinator)
{
	char offered[32] = "1", *end;
	const char *text = getenv("OL_LEASES");

	if (text == NULL || *text == '\0') {
		while (!coordinator && !lab_read("lease", offered, sizeof(offered))) {
			check_msg(!lab_exists("done"), "a host has given up");
			poll(NULL, 0, TICK_MS);
		}
		text = offered;
	}
	while (text != NULL && *text != '\0' && jobs < JOBS_MAX) {
		leases[jobs++] = (uint32_t)strtoul(text, &end, 10);
		text = *end == ',' ? end + 1 : end;
	}
	check(jobs > 0);
}

int main(int argc, char **argv)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	leases_read(argc == 3 && strcmp(argv[2], "coordinator") == 0);
	if (getenv("OL_VERBOSE") != NULL)
		ol_log_level_set(OL_LOG_INFO);
	if (argc == 3 && strcmp(argv[1], "agent") == 0)
		return agent(argv[2]);
	check_msg(argc >= 3, "usage: chain_hosts agent ROLE | split CUT... | death COUNT");
	for (unsigned i = 0; i < jobs; i++)
		course_open(i);
	printf("lease of the first chain: %u ms\n", leases[0]);
	for (int i = 2; strcmp(argv[1], "split") == 0 && i < argc; i++)
		split_once(argv[i]);
	if (strcmp(argv[1], "death") == 0)
		deaths((unsigned)strtoul(argv[2], NULL, 10));
	for (unsigned i = 0; i < jobs; i++) {
		ol_chains_close(courses[i].chains);
		ol_worker_close(courses[i].worker);
	}
	printf("nothing lost, nothing doubled, one history\n");
	return 0;
}
