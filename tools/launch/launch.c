/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * launch.c -- `outlast launch`: its settings, and the job from start to end
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/cmd.h"
#include "cmd/kill.h"
#include "launch/parts.h"

static const struct ol_conf_choice aparts[] = { { "none", LAUNCH_APART_NONE },
						{ "host", LAUNCH_APART_HOST },
						{ "rack", LAUNCH_APART_RACK },
						{ NULL, 0 } };

static const struct ol_conf_field launch_fields[] = {
	OL_ROW_GROUP("what runs where"),
	OL_ROW_U32(launch_set, servers, "1", 1, LAUNCH_SHARDS_MAX,
		   "shards, each held by a server, or by a chain of --replicas of them"),
	OL_ROW_U32(
		launch_set, workers, "0", 0, LAUNCH_WORKERS_MAX,
		"processes of the command; 0: as many as the hosts have slots, one on a host that "
		"says none"),
	OL_ROW_STR(
		launch_set, hosts, NULL,
		"file of hosts, a line each: HOST [slots=N] [servers=N] [rack=NAME] [address=ADDR]; "
		"slots: workers that it takes, servers: servers that it takes, address: that its "
		"servers listen at. Without it this machine. In an allocation of Slurm (PBS, LSF: with "
		"--mpirun) the hosts are the allocation's; the file says more of them, and may say it "
		"of a whole site; with --ssh it names hosts, there too"),
	OL_ROW_CHOICE(
		launch_set, apart, "host", aparts,
		"what the replicas of a shard do not share; racks they share only where there "
		"is no other place. On a single host: nothing"),
	OL_ROW_STR(launch_set, address, NULL,
		   "address of this machine that its servers listen at, where hosts do not say it; "
		   "without it shared memory, if this is the only host"),
	OL_ROW_STR(launch_set, ssh, NULL,
		   "command that leads to a host, whose name follows; without it " LAUNCH_SSH),
	OL_ROW_STR(
		launch_set, srun, NULL,
		"command that starts a step of the Slurm allocation, whose host follows; without "
		"it " LAUNCH_SRUN),
	OL_ROW_BOOL(
		launch_set, mpirun, "false",
		"reach the hosts by mpirun, one a host, where ssh does not lead to them: those of "
		"$PBS_NODEFILE, $LSB_DJOB_HOSTFILE or Slurm, else those of --hosts"),
	OL_ROW_STR(launch_set, mpirun_command, NULL,
		   "with --mpirun: command that starts one process on a host, to which --host HOST "
		   "is added; without it " LAUNCH_MPIRUN),
	OL_ROW_STR(launch_set, program, NULL,
		   "path of outlast on the hosts; without it that of this one"),
	OL_ROW_STR(launch_set, chdir, NULL,
		   "folder on the hosts that all processes start in; without it this one"),
	OL_ROW_STR(launch_set, env, NULL,
		   "variables of this process that servers and workers get, with commas between; "
		   "without it " LAUNCH_ENV
		   ". What srun passes on comes as well, and on this machine "
		   "all"),
	OL_ROW_BOOL(launch_set, dry_run, "false", "say what would run where, and end"),
	OL_ROW_GROUP("when something ends"),
	OL_ROW_U32(
		launch_set, restart_servers, "3", 0, 1000,
		"how often a server that dies is started again, each time after twice the pause; "
		"one that ran for ten minutes has all of them back"),
	OL_ROW_U32(launch_set, restart_workers, "3", 0, 1000,
		   "the same of a worker that is killed, or ends with another status than 0"),
	OL_ROW_DURATION(launch_set, grace, "30s", 0, OL_DURATION_MAX,
			"what was asked to end is killed after this time"),
	OL_ROW_BOOL(
		launch_set, resume, "false",
		"go on from the checkpoints in the folder of --checkpoint; a job that Slurm has "
		"started again does so by itself"),
	OL_ROW_BOOL(launch_set, requeue, "false",
		    "after SIGUSR1: have Slurm queue this job again (scontrol requeue)"),
	OL_ROW_STR(launch_set, json, NULL, "file for the report at the end"),
	OL_ROW_GROUP("what servers begin with, instead of a model: as of outlast serve"),
	OL_ROW_U64(launch_set, params, "0", 0, (uint64_t)1 << 40,
		   "how many parameters the job has"),
	OL_ROW_STR(
		launch_set, init, NULL,
		"file of the first weights, on every host that has a server; or worker: those of "
		"worker 0, with --params"),
	OL_ROW_STR(launch_set, data_shape, NULL,
		   "of a model: the shape of its data, so that servers do not read any"),
	OL_ROW_U32(launch_set, observers_max, "8", 0, 1024, "readers that a server takes"),
	OL_ROW_BOOL(launch_set, weights_bf16, "false", "keep the weights as bf16, too"),
	OL_ROW_BOOL(launch_set, sandbox, "false", "servers give up what they do not need"),
};

static const struct ol_rows launch_rows = OL_ROWS(launch_fields);

static const struct ol_conf_field ensemble_fields[] = {
	OL_ROW_U32(launch_set, ensemble, "0", 0, LAUNCH_ENSEMBLE_MAX,
		   "instead of --coordinator: begin ZooKeeper on 1, 3 or 5 of the hosts, for this "
		   "job alone; it goes on while most of them are there"),
	OL_ROW_U32(launch_set, ensemble_port, "0", 0, 65000,
		   "the first of three ports for each of these; 0: drawn"),
	OL_ROW_STR(
		launch_set, ensemble_classpath, NULL,
		"where ZooKeeper is on the hosts, as java takes it; without it " LAUNCH_CLASSPATH),
};

static const struct ol_rows ensemble_rows = OL_ROWS(ensemble_fields);

static const char examples[] =
	"  outlast launch --workers 2 --model mlp --consistency sync -- outlast work --until 300 --eval\n"
	"  outlast launch --hosts hosts --params 25557032 --init worker -- python3 train.py\n"
	"  outlast launch --replicas 3 --coordinator zk:10.0.0.7:2181 --workers 16 --init "
	"first.safetensors -- python3 train.py\n"
	"  salloc -N4 outlast launch --ensemble 3 --replicas 3 --model cnn -- outlast work\n"
	"  salloc -N4 outlast launch --servers 4 --durability checkpoint --checkpoint "
	"every=60s,dir=/scratch/ckpt --requeue -- python3 train.py\n";

static void settings_add(struct ol_settings *settings)
{
	ol_settings_add(settings, launch_rows, 0);
	ol_settings_add(settings, ol_rows_model, offsetof(struct launch_set, model));
	ol_settings_add(settings, ol_rows_rule, offsetof(struct launch_set, rule));
	ol_settings_add(settings, ol_rows_durable, offsetof(struct launch_set, durable));
	ol_settings_add(settings, ol_rows_restore_again, offsetof(struct launch_set, durable));
	ol_settings_add(settings, ol_rows_lease, offsetof(struct launch_set, lease));
	ol_settings_add(settings, ol_rows_coord, offsetof(struct launch_set, coord));
	ol_settings_add(settings, ensemble_rows, 0);
	ol_settings_add(settings, ol_rows_chain, offsetof(struct launch_set, chain));
	ol_settings_add(settings, ol_rows_link, offsetof(struct launch_set, link));
	ol_settings_add(settings, ol_rows_wire, offsetof(struct launch_set, wire));
	ol_settings_add(settings, ol_rows_transport, offsetof(struct launch_set, transport));
	ol_settings_add(settings, ol_rows_key, offsetof(struct launch_set, key));
}

static int launch_all(struct launch *launch)
{
	int rc = launch_check(launch);

	if (rc != 0)
		return rc;
	launch_show_places(launch);
	return launch->set.dry_run ? OL_EXIT_OK : launch_run(launch);
}

int cmd_launch(int argc, char **argv)
{
	struct launch *launch = calloc(1, sizeof(*launch));
	int rc;

	if (launch == NULL)
		return ol_cmd_error(OL_EXIT_RESOURCES, "launch", "no memory", NULL, NULL);
	launch->signal_fd = -1;
	launch->own.fd = -1;
	launch->settings = (struct ol_settings){
		.cmd = "launch",
		.spec = { .program = "outlast launch",
			  .purpose =
				  "Runs a job: servers, and workers that are processes of the "
				  "command, on the hosts of a file, of a Slurm allocation, or on "
				  "this machine; restarts what dies, and ends all when the "
				  "workers are done. On this machine alone, chains need no "
				  "--coordinator. Workers find the servers by OUTLAST_JOB, "
				  "and know who they are by OUTLAST_WORKER.",
			  .arguments = "-- COMMAND...",
			  .arguments_max = LAUNCH_WORDS_MAX,
			  .examples = examples },
	};
	settings_add(&launch->settings);
	if (ol_settings_load(&launch->settings, &launch->set, argc, argv, &rc))
		rc = launch_all(launch);
	ol_folder_drop(&launch->own);
	if (launch->signal_fd >= 0)
		close(launch->signal_fd);
	ol_settings_fini(&launch->settings);
	explicit_bzero(launch->key, sizeof(launch->key));
	free(launch->procs);
	free(launch);
	return rc;
}
