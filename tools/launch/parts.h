/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * parts.h -- the parts of `outlast launch`, and what launcher and agents say to each other
 *
 * The launcher decides; an agent, one a host, acts: it starts processes and tells what becomes of them. Each message is
 * a line of JSON.
 *
 *	launcher to agent
 *	do: hello	chdir					the first; it goes to that folder
 *	do: start	index, start, words, env, server, keeper	a process; env has the key; a keeper begins with
 *							SIGTERM blocked, until it is ready to clean up
 *	do: signal	index, signal				to it and all that it started
 *	agent to launcher
 *	at: here	version					the answer to hello, or
 *	at: cannot	what, object
 *	at: started	index, start, pid
 *	at: ready	index, start, address			a server listens
 *	at: line	index, err, text			what it said
 *	at: ended	index, start, status			as wait() has it
 */
#ifndef LAUNCH_PARTS_H
#define LAUNCH_PARTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/folder.h"
#include "base/key.h"
#include "cmd/key.h"
#include "cmd/settings.h"
#include "launch/hosts.h"
#include "launch/life.h"
#include "launch/lines.h"
#include "launch/place.h"
#include "learn/blas.h"

enum {
	LAUNCH_READY_FD = 3, /* of a server: --ready-fd, --life-fd */
	LAUNCH_LIFE_FD = 4,
	LAUNCH_SHARDS_MAX = 64,
	LAUNCH_SERVERS_MAX = 512, /* of all shards */
	LAUNCH_WORKERS_MAX = 1024,
	LAUNCH_WORDS_MAX = 1024, /* of the workers' command */
	LAUNCH_ADDR_MAX = 512,
	LAUNCH_TAG_MAX = 9,
	LAUNCH_ENSEMBLE_MAX = 5,
	LAUNCH_ENSEMBLE_PORTS = 3, /* of a ZooKeeper server: clients, peers, elections */
	LAUNCH_JOB_MAX = 64, /* its name is part of addresses, which are short */
	LAUNCH_PATH_MAX = 1024,
	LAUNCH_AGENT_RESTARTS = 3 /* tries to reach a host again */
};

#define LAUNCH_SSH  "ssh -o BatchMode=yes -o ServerAliveInterval=15 -o ServerAliveCountMax=4"
#define LAUNCH_ENV  "PATH,LD_LIBRARY_PATH,PYTHONPATH,VIRTUAL_ENV"
#define LAUNCH_SRUN "srun --overlap --cpu-bind=none --kill-on-bad-exit=0"

/* one process on a host; it starts others, which are not to share its core */
#define LAUNCH_MPIRUN "mpirun -n 1 --bind-to none"

#define LAUNCH_BLAS_VARIABLE "OPENBLAS_NUM_THREADS=" LEARN_BLAS_THREADS

#define LAUNCH_FOLDER \
	"outlast-launch-" /* begins the names of folders that are removed at the end */

#define LAUNCH_CLASSPATH "/usr/share/java/zookeeper.jar:/usr/share/java/slf4j-simple.jar"

struct launch_set {
	uint32_t servers;
	uint32_t workers;
	const char *hosts;
	int apart; /* enum launch_apart */
	const char *address;
	const char *ssh;
	const char *srun;
	bool mpirun;
	const char *mpirun_command;
	const char *program;
	const char *chdir;
	const char *env;
	uint32_t restart_servers;
	uint32_t restart_workers;
	uint64_t grace;
	bool resume;
	bool requeue;
	bool dry_run;
	const char *json;
	uint64_t params;
	const char *init;
	const char *data_shape;
	uint32_t observers_max;
	bool weights_bf16;
	bool sandbox;
	struct ol_set_model model;
	struct ol_set_rule rule;
	struct ol_set_durable durable;
	struct ol_set_lease lease;
	struct ol_set_coord coord;
	uint32_t ensemble;
	uint32_t ensemble_port;
	const char *ensemble_classpath;
	struct ol_set_chain chain;
	struct ol_set_transport transport;
	struct ol_set_link link;
	struct ol_set_wire wire;
	struct ol_set_key key;
};

/* One server, worker, or keeper of a ZooKeeper server */
struct launch_proc {
	enum launch_kind kind;
	uint32_t shard, place; /* a server's; a worker's id and a keeper's index is `place` */
	uint32_t host;
	struct launch_life life;
	char name[32]; /* "server 0.1", "worker 3" */
	char address[LAUNCH_ADDR_MAX]; /* a server's, once it listened: it comes back there */
	pid_t pid; /* on its host */
	uint64_t first_ns, end_ns; /* its first start, its last end */
};

/* The way to a host */
struct launch_agent {
	pid_t pid; /* of what leads there: this program, ssh, srun or mpirun; 0: not started */
	int orders; /* its stdin; -1: closed */
	struct launch_lines lines; /* its stdout */
	struct launch_lines
		errors; /* its stderr: ssh and mpirun make theirs not to block, which is not to be ours */
	bool is_here; /* it has answered */
	struct launch_life life;
};

/* What leads to a host that is not this machine */
enum launch_way {
	LAUNCH_BY_SSH,
	LAUNCH_BY_SRUN, /* as a step of the Slurm allocation */
	LAUNCH_BY_MPIRUN /* as a process of an mpirun for each host */
};

enum launch_phase {
	LAUNCH_REACHES, /* agents are started */
	LAUNCH_FOUNDS, /* the job's own ensemble is started, and must serve; there may be none */
	LAUNCH_SERVES, /* servers are started, and must listen */
	LAUNCH_WORKS, /* workers are started, and work */
	LAUNCH_LEAVES, /* workers are asked to end */
	LAUNCH_ENDS, /* servers are asked to end */
	LAUNCH_CLOSES, /* the ensemble is asked to end */
	LAUNCH_OVER
};

struct launch {
	struct ol_settings settings;
	struct launch_set set;
	struct launch_hosts hosts;
	struct launch_agent agents[LAUNCH_HOSTS_MAX];
	struct launch_shape shape;
	struct launch_proc *procs; /* servers, shard by shard; then workers; then keepers */
	uint32_t server_count, worker_end, proc_count;
	struct launch_policy policies[LAUNCH_AGENT + 1]; /* by enum launch_kind */
	bool has_chains;
	enum launch_way way;
	struct ol_folder own; /* of views; fd -1: there is none */
	char coordinator[LAUNCH_ADDR_MAX]; /* "": none */
	uint32_t ports; /* the first one of the ensemble's */
	char job[LAUNCH_JOB_MAX];
	char tag[LAUNCH_TAG_MAX]; /* of this run */
	char key[OL_JOB_KEY_MAX];
	char program[LAUNCH_PATH_MAX];
	char folder[LAUNCH_PATH_MAX]; /* the processes' */
	int signal_fd;
	enum launch_phase phase;
	uint64_t begin_ns, end_ns;
	uint64_t kill_ns; /* LEAVES, ENDS: what still runs then is killed */
	int signal; /* that asked for the end; 0: none */
	uint64_t signal_ns; /* when */
	bool is_preempted; /* it was SIGUSR1 */
	bool is_hurried; /* a second one came */
	int exit_code; /* of what failed; 0: nothing did */
};

/* show.c: what a person sees */
void launch_note(const char *format, ...) __attribute__((format(printf, 1, 2)));
void launch_show_places(const struct launch *launch);
void launch_show_line(const struct launch_proc *proc, bool is_error, const char *text);
void launch_show_end(const struct launch *launch);
int launch_report(const struct launch *launch); /* --json; 0 or an exit code after an error line */
const char *launch_host_name(const struct launch *launch, uint32_t host);

/* words.c: of one process */
json_t *launch_words(struct launch *launch, const struct launch_proc *proc);
json_t *launch_env(struct launch *launch, const struct launch_proc *proc);

/* what other hosts, or processes of this one, reach a host's ZooKeeper at */
const char *launch_ensemble_host(const struct launch *launch, uint32_t host);

/* reach.c: agents */
int launch_agent_start(struct launch *launch, uint32_t host); /* 0, or -errno */
void launch_agent_order(struct launch *launch, uint32_t host, json_t *order);
void launch_agent_errors(struct launch *launch, uint32_t host); /* shows what it says on stderr */
void launch_agents_close(struct launch *launch); /* ends all, waits for them */

/* run.c: from the first agent to the last end; an exit code */
int launch_run(struct launch *launch);

/* check.c: settings, hosts, places */
int launch_check(struct launch *launch);

#endif /* LAUNCH_PARTS_H */
