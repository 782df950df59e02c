/* SPDX-License-Identifier: BSD-3-Clause */

/* doctor.c -- `outlast doctor`: what this machine can do, its faults and their remedies */

#include "outlast/doctor.h"

#include <errno.h>
#include <numa.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/conf.h"
#include "base/defaults.h"
#include "bench/baseline.h"
#include "bench/bench.h"
#include "bench/host.h"
#include "cmd/cmd.h"
#include "cmd/key.h"
#include "outlast_server.h"

enum {
	CAP_IPC_LOCK_BIT = 14, /* linux/capability.h */
	NOFILE_WANTED = 1024,
};

struct doctor_conf {
	int transport; /* enum ol_transport_choice */
	const char *device;
	const char *json;
	const char *plan;
	const char *coordinator;
	uint32_t coordinator_rounds;
	struct ol_set_lease lease;
	uint64_t params;
	uint32_t workers;
	uint32_t window;
	uint32_t state_vectors;
	struct ol_set_wire wire;
	char key[OL_JOB_KEY_MAX]; /* of the coordinator's job */
};

static const struct ol_conf_field fields[] = {
	OL_ROW_CHOICE(doctor_conf, transport, "auto", ol_transports,
		      "verbs: what verbs lacks is an error, and the exit status 6"),
	OL_ROW_STR(doctor_conf, device, NULL, "look at this RDMA device only"),
	OL_ROW_U64(doctor_conf, params, "813258", 1, (uint64_t)1 << 40,
		   "parameters of the model that the memory is worked out for"),
	OL_ROW_U32(doctor_conf, workers, "4", 1, 1024, "workers that it is worked out for"),
	OL_ROW_U32(doctor_conf, window, OL_DEFAULT_TEXT(OL_DEFAULT_WINDOW), 1, 64,
		   "landing slots a worker that it is worked out for"),
	OL_ROW_U32(doctor_conf, state_vectors, "0", 0, 2,
		   "vectors of optimizer state: 0 sgd, 1 momentum, 2 adam"),
	OL_ROW_STR(doctor_conf, coordinator, NULL,
		   "can jobs keep their views there, how fast is it, and who else may change them? "
		   "dir:PATH, or zk:HOST:PORT,...[/CHROOT][?auth=FILE]; the job key is that of "
		   "OUTLAST_JOB_KEY"),
	OL_ROW_U32(doctor_conf, coordinator_rounds, "20", 1, 1000,
		   "how often it is written, read and synced"),
	OL_ROW_STR(
		doctor_conf, plan, NULL,
		"say only what such a job takes: params=7e9 and, with commas, servers, replicas, "
		"workers, window, optimizer, gradients, consistency=sync|async, readers, gbps, keep"),
	OL_ROW_STR(doctor_conf, json, NULL, "write the findings to this file"),
};

void doctor_find(struct doctor *doctor, enum doctor_verdict verdict, const char *subject,
		 const char *remedy, const char *format, ...)
{
	static const char *const words[] = { "ok", "warn", "BAD" };
	static const char *const keys[] = { "ok", "warn", "bad" };
	char text[DOCTOR_TEXT_MAX];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	doctor->bad += verdict == DOCTOR_BAD;
	printf("%-5s %-12s %s\n", words[verdict], subject, text);
	if (remedy != NULL)
		printf("      %-12s -> %s\n", "", remedy);
	json_array_append_new(doctor->findings,
			      json_pack("{s:s, s:s, s:s, s:s?}", "verdict", keys[verdict],
					"subject", subject, "text", text, "remedy", remedy));
}

static double mb(uint64_t bytes)
{
	return (double)bytes / 1e6;
}

static void cpu_look(struct doctor *doctor)
{
	int cpus = bench_cpus_allowed();
	char model[BENCH_LINE_MAX], quota[BENCH_LINE_MAX];

	bench_file_value("/proc/cpuinfo", "model name", model, sizeof(model));
	doctor_find(doctor, cpus > 1 ? DOCTOR_OK : DOCTOR_WARN, "cpu",
		    cpus > 1 ? NULL
			     : "a server and a worker want a core each; with one, set spin_us to 0",
		    "%d processor%s usable, update kernels %s, %s", cpus, cpus == 1 ? "" : "s",
		    bench_isa(), model[0] != '\0' ? model : "unknown model");
	bench_file_line("/sys/fs/cgroup/cpu.max", quota, sizeof(quota));
	if (quota[0] != '\0' && strncmp(quota, "max", 3) != 0)
		doctor_find(doctor, DOCTOR_WARN, "cgroup",
			    "raise the quota of the container (docker --cpus): a throttled server "
			    "stalls all workers",
			    "processor time is limited: cpu.max is %s", quota);
}

static void log_drop(void *ctx, enum ol_log_level level, const char *text)
{
	(void)ctx;
	(void)level;
	(void)text;
}

/* Opens a server and closes it; why it cannot be opened is said by the finding, and not by the log */
static void shm_look(struct doctor *doctor)
{
	static const float weights[1024];
	struct ol_server_opts opts;
	struct ol_server *server;
	char listen[48], err[256] = "";

	ol_server_opts_init(&opts);
	snprintf(listen, sizeof(listen), "@outlast-doctor-%d", (int)getpid());
	opts.listen = listen;
	opts.transport = "shm";
	opts.param_count = sizeof(weights) / sizeof(weights[0]);
	(void)ol_log_set(log_drop, OL_LOG_ERROR, NULL);
	doctor->shm_works = ol_server_open(&opts, weights, &server, err, sizeof(err)) == 0;
	if (doctor->shm_works)
		ol_server_close(server);
	(void)ol_log_set(NULL, OL_LOG_INFO, NULL);
	if (doctor->shm_works)
		doctor_find(doctor, DOCTOR_OK, "shm", NULL,
			    "memfd and local sockets work: training can run on this machine");
	else
		doctor_find(doctor, DOCTOR_BAD, "shm",
			    "allow memfd_create and AF_UNIX in the sandbox or container",
			    "shared memory cannot be set up: %s", err);
}

/* Memory that a job of one shard pins, by the layout of the server's memory */
struct pinned {
	uint64_t public_bytes; /* board and snapshots */
	uint64_t landing_bytes; /* a worker's slots */
	uint64_t worker_domain; /* total with one protection domain a worker */
	uint64_t job_domain; /* total with one domain a job */
};

static struct pinned pinned_make(const struct doctor_conf *conf)
{
	static const enum ol_optimizer with[] = { OL_OPTIMIZER_SGD, OL_OPTIMIZER_MOMENTUM,
						  OL_OPTIMIZER_ADAM };
	struct ol_server_sizes sizes = { 0 };
	struct pinned pinned;
	struct ol_server_opts opts;

	ol_server_opts_init(&opts);
	opts.param_count = conf->params;
	opts.workers_max = conf->workers;
	opts.window = conf->window;
	opts.rule.optimizer = with[conf->state_vectors];
	(void)ol_server_sizes(&opts, &sizes); /* the table's bounds are those of a shard */
	pinned = (struct pinned){ .public_bytes = sizes.snapshots, .landing_bytes = sizes.slots };
	pinned.job_domain = pinned.public_bytes + conf->workers * pinned.landing_bytes;
	pinned.worker_domain = conf->workers * (pinned.public_bytes + pinned.landing_bytes);
	return pinned;
}

static bool may_lock(void)
{
	char text[64];

	bench_file_value("/proc/self/status", "CapEff", text, sizeof(text));
	return (strtoull(text, NULL, 16) >> CAP_IPC_LOCK_BIT & 1) != 0;
}

static void memlock_look(struct doctor *doctor, const struct doctor_conf *conf,
			 const struct pinned *pinned)
{
	uint64_t each = pinned->public_bytes + pinned->landing_bytes;
	struct rlimit limit;

	if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0)
		return;
	if (may_lock() || limit.rlim_cur == RLIM_INFINITY) {
		doctor_find(doctor, DOCTOR_OK, "memlock", NULL, "locked memory is not limited%s",
			    limit.rlim_cur == RLIM_INFINITY ? "" : " (CAP_IPC_LOCK)");
		return;
	}
	if (limit.rlim_cur >= pinned->worker_domain)
		doctor_find(doctor, DOCTOR_OK, "memlock", NULL,
			    "%.1f MB may be locked; this job needs %.1f MB", mb(limit.rlim_cur),
			    mb(pinned->worker_domain));
	else
		doctor_find(
			doctor, doctor->verbs_wanted ? DOCTOR_BAD : DOCTOR_WARN, "memlock",
			"ulimit -l unlimited; for good: \"* - memlock unlimited\" in "
			"/etc/security/limits.conf, or LimitMEMLOCK=infinity in the unit",
			"%.1f MB may be locked, which on verbs is enough for %llu of %u workers "
			"(shm locks nothing)",
			mb(limit.rlim_cur), (unsigned long long)(limit.rlim_cur / each),
			conf->workers);
}

static void isolation_look(struct doctor *doctor, const struct doctor_conf *conf,
			   const struct pinned *pinned)
{
	doctor_find(doctor, DOCTOR_OK, "isolation", NULL,
		    "%llu parameters, %u workers: a protection domain a worker pins %.1f MB "
		    "(snapshots are counted once for each), --isolation job %.1f MB; with it a "
		    "worker's key is good on every connection of the job",
		    (unsigned long long)conf->params, conf->workers, mb(pinned->worker_domain),
		    mb(pinned->job_domain));
}

static void memory_look(struct doctor *doctor, const struct pinned *pinned)
{
	char text[BENCH_LINE_MAX];
	uint64_t free_bytes;

	bench_file_value("/proc/meminfo", "MemAvailable", text, sizeof(text));
	free_bytes = strtoull(text, NULL, 10) * 1024;
	bench_file_line("/sys/fs/cgroup/memory.max", text, sizeof(text));
	if (text[0] != '\0' && strncmp(text, "max", 3) != 0) {
		uint64_t most = strtoull(text, NULL, 10);

		if (most < free_bytes)
			free_bytes = most;
	}
	doctor_find(doctor, free_bytes > pinned->job_domain ? DOCTOR_OK : DOCTOR_BAD, "memory",
		    free_bytes > pinned->job_domain ? NULL
						    : "free memory, use more shards, or lower "
						      "--window",
		    "%.0f MB available; a server of this job takes %.1f MB", mb(free_bytes),
		    mb(pinned->job_domain));
}

static void pages_look(struct doctor *doctor)
{
	char text[BENCH_LINE_MAX], size[BENCH_LINE_MAX], thp[BENCH_LINE_MAX];
	char anon[BENCH_LINE_MAX];
	unsigned long long pages;

	bench_file_value("/proc/meminfo", "HugePages_Free", text, sizeof(text));
	bench_file_value("/proc/meminfo", "Hugepagesize", size, sizeof(size));
	pages = strtoull(text, NULL, 10);
	bench_file_line("/sys/kernel/mm/transparent_hugepage/shmem_enabled", thp, sizeof(thp));
	if (pages > 0) {
		doctor_find(doctor, DOCTOR_OK, "huge pages", NULL, "%llu free of %s", pages, size);
		return;
	}
	bench_file_line("/sys/kernel/mm/transparent_hugepage/enabled", anon, sizeof(anon));
	if (anon[0] != '\0' && strstr(anon, "[never]") == NULL)
		doctor_find(doctor, DOCTOR_OK, "huge pages", NULL,
			    "transparent ones are on for verbs (%s)", anon);
	else if (pages == 0 && doctor->verbs_works)
		doctor_find(doctor, DOCTOR_WARN, "huge pages",
			    "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled",
			    "transparent ones are off for verbs: registering is slower, and the "
			    "adapter looks up more pages");
	if (thp[0] != '\0' && strstr(thp, "[never]") == NULL && strstr(thp, "[deny]") == NULL) {
		doctor_find(doctor, DOCTOR_OK, "huge pages", NULL,
			    "none reserved; transparent ones for shared memory are on (%s)", thp);
		return;
	}
	doctor_find(doctor, DOCTOR_WARN, "huge pages",
		    "sysctl vm.nr_hugepages=N, or echo advise > "
		    "/sys/kernel/mm/transparent_hugepage/shmem_enabled",
		    "none reserved (%s each), and transparent ones for shared memory are off: "
		    "registering and large updates are slower",
		    size[0] != '\0' ? size : "size unknown");
}

static void numa_look(struct doctor *doctor)
{
	int nodes;

	if (numa_available() < 0) {
		doctor_find(doctor, DOCTOR_OK, "numa", NULL, "this kernel has no NUMA support");
		return;
	}
	nodes = numa_num_configured_nodes();
	if (nodes <= 1 || doctor->node < 0) {
		doctor_find(doctor, DOCTOR_OK, "numa", NULL, "%d node%s", nodes,
			    nodes == 1 ? "" : "s, and no adapter to be near to");
		return;
	}
	if (numa_bitmask_isbitset(numa_get_run_node_mask(), (unsigned)doctor->node))
		doctor_find(doctor, DOCTOR_OK, "numa", NULL,
			    "%d nodes; %s is on node %d, which this process may run on", nodes,
			    doctor->chosen_device, doctor->node);
	else
		doctor_find(doctor, DOCTOR_WARN, "numa",
			    "start servers with numactl --cpunodebind of the adapter's node",
			    "%d nodes; %s is on node %d, where this process may not run", nodes,
			    doctor->chosen_device, doctor->node);
}

static void limits_look(struct doctor *doctor)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
		return;
	doctor_find(doctor, limit.rlim_cur >= NOFILE_WANTED ? DOCTOR_OK : DOCTOR_WARN, "files",
		    limit.rlim_cur >= NOFILE_WANTED ? NULL : "ulimit -n 4096",
		    "%llu open files allowed; a connection takes up to eight",
		    (unsigned long long)limit.rlim_cur);
}

static int report_write(const struct doctor_conf *conf, const struct doctor *doctor,
			json_t *devices, json_t *rows, const struct pinned *pinned)
{
	json_t *report;
	int rc = 0;

	if (conf->json == NULL)
		return OL_EXIT_OK;
	report = json_pack("{s:o, s:O, s:O, s:O, s:b, s:b, s:{s:I, s:I, s:I, s:I}}", "environment",
			   bench_env_json(), "findings", doctor->findings, "devices", devices,
			   "settings", rows, "shm", doctor->shm_works, "verbs", doctor->verbs_works,
			   "memory", "snapshots_bytes", (json_int_t)pinned->public_bytes,
			   "landing_bytes_a_worker", (json_int_t)pinned->landing_bytes,
			   "pinned_isolation_worker", (json_int_t)pinned->worker_domain,
			   "pinned_isolation_job", (json_int_t)pinned->job_domain);
	if (report != NULL && doctor->verbs_works)
		json_object_set_new(report, "chosen",
				    json_pack("{s:s, s:s}", "device", doctor->chosen_device,
					      "address", doctor->chosen_address));
	errno = 0;
	if (report == NULL || json_dump_file(report, conf->json, JSON_INDENT(1)) != 0)
		rc = ol_cmd_error(OL_EXIT_FAILED, "doctor", "cannot write", conf->json,
				  errno != 0 ? strerror(errno) : "no memory");
	json_decref(report);
	return rc;
}

static int examine(const struct doctor_conf *conf, const struct ol_settings *settings)
{
	struct doctor doctor = { .findings = json_array(),
				 .verbs_wanted = conf->transport == OL_TRANSPORT_VERBS ||
						 conf->device != NULL };
	struct pinned pinned = pinned_make(conf);
	json_t *devices = json_array(), *rows;
	int code, coord = 0;

	if (doctor.findings == NULL || devices == NULL)
		return ol_cmd_error(OL_EXIT_RESOURCES, "doctor", "no memory", NULL, NULL);
	cpu_look(&doctor);
	shm_look(&doctor);
	memory_look(&doctor, &pinned);
	doctor_rdma(&doctor, conf->device, devices);
	memlock_look(&doctor, conf, &pinned);
	isolation_look(&doctor, conf, &pinned);
	pages_look(&doctor);
	numa_look(&doctor);
	limits_look(&doctor);
	if (conf->coordinator != NULL)
		coord = doctor_coordinator(&doctor, conf->coordinator, conf->key,
					   conf->lease.lease_ms, conf->coordinator_rounds);
	rows = doctor_settings(&doctor, settings, &conf->wire);
	code = rows != NULL ? report_write(conf, &doctor, devices, rows, &pinned)
			    : ol_cmd_error(OL_EXIT_RESOURCES, "doctor", "no memory", NULL, NULL);
	json_decref(rows);
	if (code == OL_EXIT_OK && doctor.verbs_wanted && !doctor.verbs_works)
		code = ol_cmd_error(OL_EXIT_DEVICE, "doctor", "verbs cannot work here", NULL,
				    "the lines above say why");
	else if (code == OL_EXIT_OK && !doctor.verbs_wanted && !doctor.shm_works)
		code = ol_cmd_error(OL_EXIT_FAILED, "doctor", "training cannot run here", NULL,
				    "the lines above say why");
	else if (code == OL_EXIT_OK && doctor.named_lack)
		code = ol_cmd_error(OL_EXIT_DEVICE, "doctor", "not every device can be used",
				    conf->device, "the lines above say why");
	else if (code == OL_EXIT_OK && coord != 0)
		code = ol_cmd_error(coord == -EINVAL ? OL_EXIT_USAGE : OL_EXIT_SERVER, "doctor",
				    "the coordinator cannot be used", conf->coordinator,
				    "the lines above say why");
	json_decref(doctor.findings);
	json_decref(devices);
	return code;
}

int cmd_doctor(int argc, char **argv)
{
	struct ol_settings settings = {
		.cmd = "doctor",
		.spec = { .program = "outlast doctor",
			  .purpose = "Says what this machine can do, what is wrong, and what to do "
				     "about it.",
			  .examples =
				  "  outlast doctor\n"
				  "  outlast doctor --transport verbs --params 25000000 "
				  "--workers 16\n"
				  "  outlast doctor --plan params=7e9,workers=256,replicas=3\n"
				  "  outlast doctor --coordinator zk:10.0.0.7:2181,10.0.0.8:2181,"
				  "10.0.0.9:2181/ml\n" }
	};
	struct doctor_conf conf;
	int code;

	bench_long_options(argc, argv);
	ol_settings_add(&settings, (struct ol_rows){ OL_FIELDS(fields) }, 0);
	ol_settings_add(&settings, ol_rows_lease, offsetof(struct doctor_conf, lease));
	ol_settings_add(&settings, ol_rows_wire, offsetof(struct doctor_conf, wire));
	if (ol_settings_load(&settings, &conf, argc, argv, &code)) {
		code = conf.plan != NULL ? doctor_plan(conf.plan, conf.json)
					 : ol_job_key_read("doctor", NULL, conf.key);
		if (code == 0 && conf.plan == NULL)
			code = examine(&conf, &settings);
		explicit_bzero(conf.key, sizeof(conf.key));
	}
	ol_settings_fini(&settings);
	return code;
}
