/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * check.c -- before anything is started: which hosts there are, what runs where, and whether the settings make a job
 */
#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/clock.h"
#include "cmd/cmd.h"
#include "cmd/device.h"
#include "cmd/durable.h"
#include "launch/parts.h"
#include "outlast.h"
#include "outlast_server.h"

enum {
	SLACK_MS = 2000,
	LOOK_MS = 50
};

static unsigned long variable_number(const char *name)
{
	const char *value = getenv(name);

	return value != NULL ? strtoul(value, NULL, 10) : 0;
}

/* One launcher a job: many of them would each start all of it. */
static int once_check(void)
{
	static const char *const counts[] = { "OMPI_COMM_WORLD_SIZE", "PMI_SIZE",
					      "SLURM_STEP_NUM_TASKS" };

	for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
		if (variable_number(counts[i]) > 1)
			return ol_cmd_error(
				OL_EXIT_USAGE, "launch", "was started many times at once",
				counts[i],
				"start it once, without mpirun or srun: it reaches the hosts of a "
				"Slurm allocation itself, those of a PBS or LSF job with --mpirun, and "
				"others with --hosts");
	}
	return 0;
}

/* --- hosts --------------------------------------------------------------------------------------------------- */

static void here_find(struct launch_hosts *hosts)
{
	char self[256] = "localhost";

	(void)gethostname(self, sizeof(self) - 1);
	for (uint32_t i = 0; i < hosts->count; i++) {
		struct launch_host *host = &hosts->list[i];
		size_t len = strcspn(self, ".");

		host->is_here = strcmp(host->name, self) == 0 ||
				strcmp(host->name, "localhost") == 0 ||
				(strlen(host->name) == len && strncmp(host->name, self, len) == 0);
	}
}

/* The file in which PBS or LSF names a job's hosts, a line each slot; NULL: there is none */
static const char *batch_file(void)
{
	const char *file = getenv("PBS_NODEFILE");

	return file != NULL ? file : getenv("LSB_DJOB_HOSTFILE");
}

/* The hosts that a batch system gave, if it did: 0, or an exit code after an error line */
static int given_find(struct launch *launch)
{
	const char *batch = launch->set.mpirun ? batch_file() : NULL;
	const char *nodes = getenv("SLURM_JOB_NODELIST"), *tasks = NULL;
	struct launch_hosts *hosts = &launch->hosts;
	char err[256] = "";

	if (batch != NULL) {
		if (launch_hosts_read(hosts, batch, err, sizeof(err)) != 0)
			return ol_settings_fail(&launch->settings, "mpirun", err);
		hosts->are_given = true;
		return 0;
	}
	/* hosts of a file to which a way by ssh was given: of no allocation */
	if (nodes == NULL || getenv("SLURM_JOB_ID") == NULL ||
	    (launch->set.hosts != NULL && launch->set.ssh != NULL))
		return 0;
	/* unless it was asked for tasks it says one a node, which nobody meant */
	if (getenv("SLURM_NTASKS") != NULL || getenv("SLURM_NTASKS_PER_NODE") != NULL)
		tasks = getenv("SLURM_TASKS_PER_NODE");
	if (launch_hosts_slurm(hosts, nodes, tasks, err, sizeof(err)) != 0)
		return ol_cmd_error(OL_EXIT_USAGE, "launch", err, NULL, NULL);
	if (!launch->set.mpirun)
		launch->way = LAUNCH_BY_SRUN;
	return 0;
}

static int hosts_find(struct launch *launch)
{
	struct launch_hosts *hosts = &launch->hosts;
	char err[256] = "", self[LAUNCH_NAME_MAX] = "localhost";
	int rc;

	launch->way = launch->set.mpirun ? LAUNCH_BY_MPIRUN : LAUNCH_BY_SSH;
	rc = given_find(launch);
	if (rc != 0)
		return rc;
	if (launch->set.hosts != NULL) {
		if (launch_hosts_read(hosts, launch->set.hosts, err, sizeof(err)) != 0)
			return ol_settings_fail(&launch->settings, "hosts", err);
	} else if (hosts->count == 0 && launch->set.mpirun) {
		return ol_settings_fail(&launch->settings, "mpirun",
					"leads to no host: give --hosts, or start it in a job of "
					"PBS, LSF or Slurm");
	} else if (hosts->count == 0) {
		(void)gethostname(self, sizeof(self) - 1);
		hosts->count = 1;
		hosts->list[0] = (struct launch_host){ .slots = LAUNCH_ANY, .servers = LAUNCH_ANY };
		snprintf(hosts->list[0].name, LAUNCH_NAME_MAX, "%s", self);
	}
	here_find(hosts);
	return 0;
}

static bool all_are_here(const struct launch *launch)
{
	for (uint32_t i = 0; i < launch->hosts.count; i++) {
		if (!launch->hosts.list[i].is_here)
			return false;
	}
	return true;
}

/* --- how many of what ---------------------------------------------------------------------------------------- */

/* As many as the slots; of hosts without a limit one each */
static uint32_t workers_default(const struct launch *launch)
{
	uint32_t workers = 0;

	for (uint32_t i = 0; i < launch->hosts.count; i++)
		workers +=
			launch->hosts.list[i].slots == LAUNCH_ANY ? 1 : launch->hosts.list[i].slots;
	return workers;
}

static int shape_make(struct launch *launch)
{
	const struct launch_set *set = &launch->set;
	struct launch_shape *shape = &launch->shape;
	bool has_coordinator = set->coord.coordinator != NULL || set->ensemble > 0;
	bool is_asked = set->durable.durability == OL_DURABILITY_CHAIN || has_coordinator ||
			ol_conf_is_set(launch->settings.conf, "replicas");

	*shape = (struct launch_shape){ .shards = set->servers,
					.replicas = is_asked ? set->chain.replicas : 1,
					.workers = set->workers != 0 ? set->workers
								     : workers_default(launch),
					.apart = (enum launch_apart)set->apart };
	launch->has_chains = shape->replicas > 1 || has_coordinator;
	if (shape->replicas > 1 && launch->hosts.count == 1 &&
	    !ol_conf_is_set(launch->settings.conf, "apart"))
		shape->apart = LAUNCH_APART_NONE;
	if (shape->workers == 0 || shape->workers > LAUNCH_WORKERS_MAX)
		return ol_settings_fail(&launch->settings, "workers",
					"makes none, or more than 1024: say how many");
	if (shape->shards * shape->replicas > LAUNCH_SERVERS_MAX)
		return ol_settings_fail(&launch->settings, "servers",
					"makes more than 512 servers with --replicas");
	return 0;
}

/* --- where they find each other ------------------------------------------------------------------------------ */

static int coordinator_find(struct launch *launch)
{
	const char *coordinator = launch->set.coord.coordinator;
	int rc;

	if (coordinator != NULL && strlen(coordinator) >= sizeof(launch->coordinator))
		return ol_settings_fail(&launch->settings, "coordinator", "is too long");
	if (coordinator != NULL && strncmp(coordinator, "dir:", 4) == 0 && !all_are_here(launch))
		return ol_settings_fail(&launch->settings, "coordinator",
					"is a folder of one machine, and there are several hosts: "
					"give zk:HOST:PORT,...");
	if (coordinator != NULL && strncmp(coordinator, "dir:", 4) == 0 &&
	    access(coordinator + 4, W_OK | X_OK) != 0)
		return ol_cmd_error(OL_EXIT_SERVER, "launch",
				    "cannot use the folder of --coordinator", coordinator + 4,
				    strerror(errno));
	if (coordinator != NULL) {
		snprintf(launch->coordinator, sizeof(launch->coordinator), "%s", coordinator);
		return 0;
	}
	if (!launch->has_chains || launch->set.dry_run)
		return 0;
	rc = ol_folder_make(&launch->own, LAUNCH_FOLDER);
	if (rc != 0)
		return ol_cmd_error(OL_EXIT_RESOURCES, "launch",
				    "cannot make a folder for views of chains", NULL,
				    strerror(-rc));
	snprintf(launch->coordinator, sizeof(launch->coordinator), "dir:%s", launch->own.path);
	return 0;
}

/* Ports that no client is given: it would meet itself there while the server is away */
static int ensemble_find(struct launch *launch)
{
	const struct launch_set *set = &launch->set;
	size_t len = 0;
	uint16_t drawn;

	if (set->coord.coordinator != NULL)
		return ol_settings_fail(
			&launch->settings, "ensemble",
			"is instead of a coordinator, and --coordinator names one: leave "
			"one of them out");
	if (set->ensemble % 2 == 0)
		return ol_settings_fail(
			&launch->settings, "ensemble",
			"is not 1, 3 or 5: most of an ensemble must be there, and an even "
			"number bears no more losses");
	if (getrandom(&drawn, sizeof(drawn), 0) != (ssize_t)sizeof(drawn))
		return ol_cmd_error(OL_EXIT_RESOURCES, "launch", "no random bytes for ports", NULL,
				    strerror(errno));
	launch->ports = set->ensemble_port != 0 ? set->ensemble_port : 10000U + drawn % 20000U;
	for (uint32_t i = launch->worker_end; i < launch->proc_count; i++) {
		const struct launch_proc *proc = &launch->procs[i];

		len += (size_t)snprintf(
			launch->coordinator + len, sizeof(launch->coordinator) - len, "%s%s:%u",
			len == 0 ? "zk:" : ",", launch_ensemble_host(launch, proc->host),
			launch->ports + proc->place * LAUNCH_ENSEMBLE_PORTS);
		if (len >= sizeof(launch->coordinator))
			return ol_settings_fail(&launch->settings, "ensemble",
						"has hosts whose names are too long together");
	}
	return 0;
}

static bool chain_lives(struct ol_chains *chains)
{
	struct ol_chain_info info;

	return ol_chains_get(chains, 0, &info) == 0 && (info.count > info.gone || info.waiting > 0);
}

/* Servers of a second launch would join the chains of the first one. What a dead one has left there goes with its lease. */
static int running_check(struct launch *launch)
{
	uint64_t now_ns = ol_clock_ns();
	uint64_t bound_ns = now_ns + (launch->set.lease.lease_ms + SLACK_MS) * OL_NS_PER_MS;
	struct ol_chains *chains = NULL;
	bool lives;
	char err[256];

	if (launch->set.dry_run || !launch->has_chains || launch->set.coord.coordinator == NULL ||
	    !ol_conf_is_set(launch->settings.conf, "job"))
		return 0;
	/* what is wrong with the coordinator servers say */
	if (ol_chains_open(launch->coordinator, launch->job, launch->key, launch->shape.shards,
			   SLACK_MS, &chains, err, sizeof(err)) != 0)
		return 0;
	lives = chain_lives(chains);
	if (lives)
		launch_note("job %s has servers already: are they of a launch that is dead?",
			    launch->job);
	while (lives && ol_clock_ns() < bound_ns) {
		(void)poll(NULL, 0, LOOK_MS);
		lives = chain_lives(chains);
	}
	ol_chains_close(chains);
	if (!lives)
		return 0;
	return ol_cmd_error(OL_EXIT_REFUSED, "launch", "the job is running already", launch->job,
			    "end it, or give another --job");
}

static int coordinator_check(struct launch *launch)
{
	if (launch->set.ensemble > 0)
		return ensemble_find(launch);
	if (launch->has_chains && launch->set.coord.coordinator == NULL && !all_are_here(launch))
		return ol_cmd_error(OL_EXIT_USAGE, "launch", "--coordinator is missing", NULL,
				    "replicas on several hosts need one, zk:HOST:PORT,..., or an "
				    "--ensemble of the job's own");
	return coordinator_find(launch);
}

static int transport_find(struct launch *launch)
{
	struct launch_set *set = &launch->set;
	char err[160] = "";
	int rc;

	if (set->transport.transport == OL_TRANSPORT_AUTO)
		set->transport.transport = all_are_here(launch) && set->address == NULL
						   ? OL_TRANSPORT_SHM
						   : OL_TRANSPORT_VERBS;
	if (set->address != NULL && strlen(set->address) >= LAUNCH_NAME_MAX)
		return ol_settings_fail(&launch->settings, "address", "is too long");
	for (uint32_t i = 0; i < launch->hosts.count; i++) {
		struct launch_host *host = &launch->hosts.list[i];

		if (!host->is_here || host->address[0] != '\0' ||
		    set->transport.transport == OL_TRANSPORT_SHM)
			continue;
		if (set->address != NULL) {
			snprintf(host->address, sizeof(host->address), "%s", set->address);
			continue;
		}
		rc = ol_device_host(set->link.device, 0, host->address, err, sizeof(err));
		if (rc != 0)
			return ol_cmd_error(OL_EXIT_DEVICE, "launch", err, NULL,
					    ol_cmd_remedy(-ENODEV));
	}
	return 0;
}

/* --- names and the key --------------------------------------------------------------------------------------- */

/* A name nobody else has, and a key unless there is one */
static int key_find(struct launch *launch)
{
	char credential[OL_CREDENTIAL_MAX];
	uint8_t bytes[36];
	int rc = ol_job_key_read("launch", &launch->set.key, launch->key);
	bool is_drawn = rc == 0 && launch->key[0] == '\0';

	if (rc != 0)
		return rc;
	if (getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes))
		return ol_cmd_error(OL_EXIT_RESOURCES, "launch", "no random bytes for the job key",
				    NULL, strerror(errno));
	for (size_t i = 0; i < 4; i++)
		snprintf(launch->tag + 2 * i, 3, "%02x", bytes[i]);
	for (size_t i = 0; is_drawn && i < 32; i++)
		snprintf(launch->key + 2 * i, 3, "%02x", bytes[i + 4]);
	rc = ol_credential(launch->key, OL_HOLDER_WORKER, 0, credential);
	explicit_bzero(credential, sizeof(credential));
	explicit_bzero(bytes, sizeof(bytes));
	if (rc != 0)
		return ol_cmd_error(OL_EXIT_USAGE, "launch",
				    "no credentials can be derived from it", "the key",
				    "give the job's key, or the servers' credential");
	if (ol_conf_is_set(launch->settings.conf, "job") &&
	    strlen(launch->set.coord.job) >= sizeof(launch->job))
		return ol_settings_fail(&launch->settings, "job", "is too long: 63 letters do");
	if (ol_conf_is_set(launch->settings.conf, "job"))
		snprintf(launch->job, sizeof(launch->job), "%s", launch->set.coord.job);
	else
		snprintf(launch->job, sizeof(launch->job), "launch-%s", launch->tag);
	return 0;
}

static int paths_find(struct launch *launch)
{
	const struct launch_set *set = &launch->set;
	ssize_t len;

	if ((set->program != NULL && strlen(set->program) >= sizeof(launch->program)) ||
	    (set->chdir != NULL && strlen(set->chdir) >= sizeof(launch->folder)))
		return ol_settings_fail(&launch->settings, set->chdir != NULL ? "chdir" : "program",
					"is too long");
	if (set->program != NULL) {
		snprintf(launch->program, sizeof(launch->program), "%s", set->program);
	} else {
		len = readlink("/proc/self/exe", launch->program, sizeof(launch->program) - 1);
		if (len <= 0)
			return ol_cmd_error(OL_EXIT_FAILED, "launch",
					    "cannot find this program's path", NULL,
					    "give --program");
	}
	if (set->chdir != NULL)
		snprintf(launch->folder, sizeof(launch->folder), "%s", set->chdir);
	else if (getcwd(launch->folder, sizeof(launch->folder)) == NULL)
		return ol_cmd_error(OL_EXIT_FAILED, "launch", "cannot find this folder", NULL,
				    "give --chdir");
	return 0;
}

/* The report is written at the end, perhaps after days: can it be? */
static int report_check(struct launch *launch)
{
	const char *path = launch->set.json;
	FILE *file = path != NULL && !launch->set.dry_run ? fopen(path, "a") : NULL;

	if (file == NULL && path != NULL && !launch->set.dry_run)
		return ol_cmd_error(OL_EXIT_USAGE, "launch", "cannot write --json", path,
				    strerror(errno));
	if (file != NULL)
		fclose(file);
	return 0;
}

/* --- all of it ----------------------------------------------------------------------------------------------- */

/* A job that begins anew beside checkpoints of another run would go on from those when it is started again */
static bool has_checkpoints(const char *path)
{
	DIR *folder = opendir(path);
	const struct dirent *entry;
	bool found = false;

	while (folder != NULL && !found && (entry = readdir(folder)) != NULL)
		found = strncmp(entry->d_name, "ckpt-", 5) == 0 ||
			strncmp(entry->d_name, "run-", 4) == 0;
	if (folder != NULL)
		closedir(folder);
	return found;
}

/* A name that is none is a mistake; one that has no value here may be one */
static int env_check(struct launch *launch)
{
	const char *at = launch->set.env;

	while (at != NULL && *at != '\0') {
		size_t len = strcspn(at, ",");
		char name[LAUNCH_NAME_MAX];

		snprintf(name, sizeof(name), "%.*s", (int)len, at);
		if (len == 0 || len >= sizeof(name) || strchr(name, '=') != NULL)
			return ol_settings_fail(&launch->settings, "env",
						"is not names of variables with commas between: "
						"their values are those of this process");
		if (getenv(name) == NULL)
			launch_note("--env: there is no variable %s here", name);
		at += len + (at[len] == ',');
	}
	return 0;
}

static int durable_check(struct launch *launch)
{
	struct launch_set *set = &launch->set;
	struct ol_ckpt_set ckpt;
	bool has_files;
	int rc;

	if (launch->has_chains && !ol_conf_is_set(launch->settings.conf, "durability"))
		set->durable.durability = OL_DURABILITY_CHAIN;
	rc = ol_settings_durable_check(&launch->settings, &set->durable, &ckpt);
	has_files = set->durable.durability == OL_DURABILITY_CHECKPOINT ||
		    (launch->has_chains && set->durable.checkpoint != NULL);
	if (rc != 0)
		return rc;
	if (set->durable.durability != OL_DURABILITY_CHAIN && launch->has_chains)
		return ol_settings_fail(
			&launch->settings, "durability",
			"is what a job without replicas has: leave it out, as replicas "
			"may have --checkpoint too; or give --replicas 1 and no "
			"--coordinator");
	if (has_files && ckpt.dir[0] == '\0')
		return ol_settings_fail(&launch->settings, "checkpoint",
					"names no folder: add dir=DIR");
	if (set->resume && !has_files)
		return ol_settings_fail(&launch->settings, "resume",
					launch->has_chains ? "needs --checkpoint"
							   : "needs --durability checkpoint");
	if (has_files && !set->resume && variable_number("SLURM_RESTART_COUNT") > 0) {
		set->resume = true;
		launch_note("Slurm has started this job again: it goes on from its checkpoints");
	}
	if (has_files && !set->resume && has_checkpoints(ckpt.dir))
		return ol_settings_fail(&launch->settings, "checkpoint",
					"names a folder with checkpoints of an earlier run: give "
					"--resume, or another folder");
	return 0;
}

static void proc_init(struct launch *launch, uint32_t index, uint32_t host)
{
	struct launch_proc *proc = &launch->procs[index];
	uint32_t replicas = launch->shape.replicas;

	*proc = (struct launch_proc){ .kind = LAUNCH_WORKER, .host = host };
	if (index >= launch->worker_end) {
		proc->kind = LAUNCH_KEEPER;
		proc->place = index - launch->worker_end;
		snprintf(proc->name, sizeof(proc->name), "zookeeper %u", proc->place);
		return;
	}
	if (index >= launch->server_count) {
		proc->place = index - launch->server_count;
		snprintf(proc->name, sizeof(proc->name), "worker %u", proc->place);
		return;
	}
	proc->kind = LAUNCH_SERVER;
	proc->shard = index / replicas;
	proc->place = index % replicas;
	if (launch->has_chains)
		snprintf(proc->name, sizeof(proc->name), "server %u.%u", proc->shard, proc->place);
	else
		snprintf(proc->name, sizeof(proc->name), "server %u", proc->shard);
}

static int places_find(struct launch *launch)
{
	uint32_t servers[LAUNCH_SERVERS_MAX], workers[LAUNCH_WORKERS_MAX];
	uint32_t keepers[LAUNCH_ENSEMBLE_MAX], ensemble = launch->set.ensemble;
	char err[256] = "";

	if (launch_place(launch->hosts.list, launch->hosts.count, &launch->shape, servers, workers,
			 err, sizeof(err)) != 0 ||
	    launch_place_ensemble(launch->hosts.list, launch->hosts.count, ensemble, keepers, err,
				  sizeof(err)) != 0)
		return ol_cmd_error(OL_EXIT_USAGE, "launch", err, NULL, NULL);
	launch->server_count = launch->shape.shards * launch->shape.replicas;
	launch->worker_end = launch->server_count + launch->shape.workers;
	launch->proc_count = launch->worker_end + ensemble;
	launch->procs = calloc(launch->proc_count, sizeof(*launch->procs));
	if (launch->procs == NULL)
		return ol_cmd_error(OL_EXIT_RESOURCES, "launch", "no memory", NULL, NULL);
	for (uint32_t i = 0; i < launch->proc_count; i++)
		proc_init(launch, i,
			  i < launch->server_count ? servers[i]
			  : i < launch->worker_end ? workers[i - launch->server_count]
						   : keepers[i - launch->worker_end]);
	return 0;
}

static int command_check(struct launch *launch)
{
	if (ol_conf_argument(launch->settings.conf, 0) != NULL)
		return ol_settings_rule_check(&launch->settings, &launch->set.rule,
					      launch->shape.workers, launch->shape.shards);
	return ol_cmd_error(OL_EXIT_USAGE, "launch", "the workers have no command", NULL,
			    "give it behind --, as in outlast launch --workers 2 -- outlast work");
}

int launch_check(struct launch *launch)
{
	static int (*const steps[])(struct launch *) = {
		env_check,     hosts_find,        shape_make,    command_check,
		durable_check, key_find,          paths_find,    transport_find,
		places_find,   coordinator_check, running_check, report_check
	};
	int rc = once_check();

	for (size_t i = 0; rc == 0 && i < sizeof(steps) / sizeof(steps[0]); i++)
		rc = steps[i](launch);
	return rc;
}
