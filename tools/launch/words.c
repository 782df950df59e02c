/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * words.c -- the command line and the variables of a server and of a worker
 */
#include <arpa/inet.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/cmd.h"
#include "launch/parts.h"
#include "outlast.h"

/* A setting that was given, as a word; what was not given is the server's own default */
static void given_add(const struct ol_settings *settings, struct ol_args *args, const char *name)
{
	char value[OL_VALUE_MAX];

	if (!ol_conf_is_set(settings->conf, name))
		return;
	ol_settings_text(settings, name, value, sizeof(value));
	if (strlen(value) == sizeof(value) - 1)
		args->failed = true;
	ol_args_add(args, "--%s=%s", name, value);
}

static void rows_add(const struct ol_settings *settings, struct ol_args *args, struct ol_rows rows)
{
	for (size_t i = 0; i < rows.count; i++) {
		if (rows.fields[i].name != NULL)
			given_add(settings, args, rows.fields[i].name);
	}
}

/* The name that a batch system has for a host often leads to a network without RDMA: there a server looks for its device's
 * address itself. */
static const char *host_address(const struct launch *launch, const struct launch_host *host)
{
	struct in6_addr ignored;

	if (host->address[0] != '\0')
		return host->address;
	return launch->hosts.are_given && inet_pton(AF_INET, host->name, &ignored) != 1
		       ? ""
		       : host->name;
}

static void listen_add(const struct launch *launch, const struct launch_proc *proc,
		       struct ol_args *args)
{
	const struct launch_host *host = &launch->hosts.list[proc->host];

	if (proc->address[0] != '\0')
		ol_args_add(args, "--listen=%s", proc->address);
	else if (launch->set.transport.transport == OL_TRANSPORT_SHM)
		ol_args_add(args, "--listen=@%s-server%u.%u", launch->job, proc->shard,
			    proc->place);
	else
		ol_args_add(args, "--listen=%s:0", host_address(launch, host));
}

/* Where its weights come from: of the first start and of the others */
static void restore_add(const struct launch *launch, const struct launch_proc *proc,
			struct ol_args *args)
{
	char text[32];

	if (proc->life.starts > 0)
		ol_args_add(args, "--restore=%s",
			    ol_settings_text(&launch->settings, "restore", text, sizeof(text)));
	else if (launch->set.resume)
		ol_args_add(args, "--restore=checkpoint");
	else
		ol_args_add(args, "--restore=none");
	if (!launch->has_chains)
		ol_args_add(args, "--epoch=%u", proc->life.starts + 1);
}

static void server_words(struct launch *launch, const struct launch_proc *proc,
			 struct ol_args *args)
{
	static const char *const begins[] = { "params",        "init",         "data_shape",
					      "observers_max", "weights_bf16", "sandbox" };
	const struct ol_settings *settings = &launch->settings;
	const struct ol_rows groups[] = { ol_rows_model, ol_rows_rule, ol_rows_lease, ol_rows_link,
					  ol_rows_wire };
	static const char *const durables[] = { "checkpoint", "replay", "replay_clip" };

	ol_args_add(args, "%s", launch->program);
	ol_args_add(args, "serve");
	listen_add(launch, proc, args);
	ol_args_add(args, "--shard=%u", proc->shard);
	ol_args_add(args, "--servers=%u", launch->shape.shards);
	ol_args_add(args, "--workers=%u", launch->shape.workers);
	ol_args_add(args, "--ready-fd=%d", LAUNCH_READY_FD);
	ol_args_add(args, "--life-fd=%d", LAUNCH_LIFE_FD);
	restore_add(launch, proc, args);
	for (size_t i = 0; i < sizeof(begins) / sizeof(begins[0]); i++)
		given_add(settings, args, begins[i]);
	for (size_t i = 0; i < sizeof(groups) / sizeof(groups[0]); i++)
		rows_add(settings, args, groups[i]);
	for (size_t i = 0; i < sizeof(durables) / sizeof(durables[0]); i++)
		given_add(settings, args, durables[i]);
	if (launch->set.durable.durability == OL_DURABILITY_CHECKPOINT)
		ol_args_add(args, "--durability=checkpoint");
	if (ol_transport_name(launch->set.transport.transport) != NULL)
		ol_args_add(args, "--transport=%s",
			    ol_transport_name(launch->set.transport.transport));
	if (!launch->has_chains)
		return;
	/* by itself a server tells each change of its chain, for a person that has started it by hand */
	if (!ol_conf_is_set(settings->conf, "log"))
		ol_args_add(args, "--log=warn");
	ol_args_add(args, "--coordinator=%s", launch->coordinator);
	ol_args_add(args, "--job=%s", launch->job);
	ol_args_add(args, "--replicas=%u", launch->shape.replicas);
	ol_args_add(args, "--rank=%u", proc->place);
	ol_args_add(args, "--refound");
	given_add(settings, args, "replicate_every");
}

const char *launch_ensemble_host(const struct launch *launch, uint32_t host)
{
	const struct launch_host *at = &launch->hosts.list[host];

	if (launch->hosts.count == 1 && at->is_here)
		return "127.0.0.1";
	if (strncmp(at->address, "oob:", 4) == 0)
		return at->address + 4;
	return at->address[0] != '\0' ? at->address : at->name;
}

/* keeper.c reads them */
static void keeper_words(const struct launch *launch, const struct launch_proc *proc,
			 struct ol_args *args)
{
	const char *classpath = launch->set.ensemble_classpath;

	ol_args_add(args, "%s", launch->program);
	ol_args_add(args, "launch-zookeeper");
	ol_args_add(args, "%u", proc->place);
	ol_args_add(args, "%s", launch->tag);
	ol_args_add(args, "%d", proc->life.starts > 0);
	ol_args_add(args, "%s", classpath != NULL ? classpath : LAUNCH_CLASSPATH);
	for (uint32_t i = launch->worker_end; i < launch->proc_count; i++) {
		const struct launch_proc *at = &launch->procs[i];

		ol_args_add(args, "%s", launch_ensemble_host(launch, at->host));
		for (uint32_t j = 0; j < LAUNCH_ENSEMBLE_PORTS; j++)
			ol_args_add(args, "%u",
				    launch->ports + at->place * LAUNCH_ENSEMBLE_PORTS + j);
	}
}

json_t *launch_words(struct launch *launch, const struct launch_proc *proc)
{
	struct ol_args args = { 0 };
	json_t *words = json_array();
	const char *word;

	if (proc->kind == LAUNCH_SERVER)
		server_words(launch, proc, &args);
	if (proc->kind == LAUNCH_KEEPER)
		keeper_words(launch, proc, &args);
	for (size_t i = 0; i < args.count; i++)
		json_array_append_new(words, json_string(args.words[i]));
	for (unsigned i = 0; proc->kind == LAUNCH_WORKER &&
			     (word = ol_conf_argument(launch->settings.conf, i)) != NULL;
	     i++)
		json_array_append_new(words, json_string(word));
	if (args.failed)
		json_array_clear(words); /* the agent says that it cannot */
	ol_args_free(&args);
	return words;
}

static void env_add(json_t *env, const char *name, const char *value)
{
	json_object_set_new(env, name, json_string(value));
}

static void env_number(json_t *env, const char *name, uint32_t value)
{
	char text[16];

	snprintf(text, sizeof(text), "%u", value);
	env_add(env, name, text);
}

/* Those of this process that --env names */
static void env_here(const struct launch *launch, json_t *env)
{
	char name[LAUNCH_NAME_MAX];
	const char *at = launch->set.env != NULL ? launch->set.env : LAUNCH_ENV;

	while (*at != '\0') {
		size_t len = strcspn(at, ",");

		snprintf(name, sizeof(name), "%.*s", (int)len, at);
		if (getenv(name) != NULL)
			env_add(env, name, getenv(name));
		at += len + (at[len] == ',');
	}
}

/* So that the command finds outlast where the launcher has it, behind all other places */
static void path_add(const struct launch *launch, json_t *env)
{
	const char *path = json_string_value(json_object_get(env, "PATH"));
	const char *end = strrchr(launch->program, '/');
	char *longer = NULL;

	if (path == NULL || end == NULL ||
	    asprintf(&longer, "%s:%.*s", path, (int)(end - launch->program), launch->program) < 0)
		return;
	env_add(env, "PATH", longer);
	free(longer);
}

/* What servers were told and `outlast work` is to know as well */
static void env_given(const struct launch *launch, json_t *env)
{
	static const char *const names[] = { "model", "dataset", "seed", "final_relu", "lease_ms" };
	char value[OL_VALUE_MAX], name[OL_CONF_NAME_MAX + 16];

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (!ol_conf_is_set(launch->settings.conf, names[i]))
			continue;
		snprintf(name, sizeof(name), "OUTLAST_%s", names[i]);
		for (char *at = name; *at != '\0'; at++) {
			if (*at >= 'a' && *at <= 'z')
				*at = (char)(*at - 'a' + 'A');
		}
		env_add(env, name,
			ol_settings_text(&launch->settings, names[i], value, sizeof(value)));
	}
}

/* The servers' addresses, shard by shard */
static void addresses_add(const struct launch *launch, json_t *env)
{
	char list[LAUNCH_SHARDS_MAX * LAUNCH_ADDR_MAX];
	size_t len = 0;

	for (uint32_t i = 0; i < launch->server_count; i++)
		len += (size_t)snprintf(list + len, sizeof(list) - len, "%s%s", i > 0 ? "," : "",
					launch->procs[i].address);
	env_add(env, "OUTLAST_JOB", list);
}

static void worker_env(const struct launch *launch, const struct launch_proc *proc, json_t *env)
{
	uint32_t before = 0, beside = 0;

	for (uint32_t i = launch->server_count; i < launch->worker_end; i++) {
		if (launch->procs[i].host != proc->host)
			continue;
		before += launch->procs[i].place < proc->place;
		beside++;
	}
	env_given(launch, env);
	if (launch->has_chains) {
		env_add(env, "OUTLAST_JOB", launch->coordinator);
		env_add(env, "OUTLAST_JOB_NAME", launch->job);
	} else {
		addresses_add(launch, env);
	}
	env_number(env, "OUTLAST_WORKER", proc->place);
	env_number(env, "OUTLAST_WORKERS", launch->shape.workers);
	env_number(env, "OUTLAST_LOCAL_WORKER", before);
	env_number(env, "OUTLAST_LOCAL_WORKERS", beside);
}

json_t *launch_env(struct launch *launch, const struct launch_proc *proc)
{
	bool is_server = proc->kind == LAUNCH_SERVER;
	char credential[OL_JOB_KEY_MAX] = "";
	json_t *env = json_object();

	env_here(launch, env);
	path_add(launch, env);
	if (proc->kind == LAUNCH_KEEPER)
		return env; /* it has no part in the job */
	if (!is_server)
		worker_env(launch, proc, env);
	/* each gets what its role takes, and no more */
	if (ol_credential(launch->key, is_server ? OL_HOLDER_JOB : OL_HOLDER_WORKER,
			  is_server ? 0 : proc->place,
			  credential) == 0) /* else it can prove nothing */
		env_add(env, OL_JOB_KEY_VARIABLE, credential);
	explicit_bzero(credential, sizeof(credential));
	return env;
}
