/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * drill.c -- `outlast drill`: the same training under several strategies and one failure schedule
 */
#include "outlast/drill.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "outlast/cmd.h"
#include "outlast/drill_dbw.h"
#include "outlast/drill_scar.h"

extern char **environ;

enum {
	PRESETS = 3,
	PRESET_SETTINGS = 12
};

static const double eval_least_s = 0.25; /* an evaluation takes about so long */

/* What a preset says of the settings that nobody gave. The order is that of `preset_settings`. */
static const char *const preset_settings[PRESET_SETTINGS] = {
	"strategies", "consistency", "kills", "workers", "seeds", "seconds",
	"kill_at",    "down",        "again", "pace",    "scale", "eval_seconds"
};

#define EVERY \
	"none,checkpoint,checkpoint-norestore,stateless,stateless-mean,stateless-published,mirror," \
	"chain,chain-periodic,chain-continue"

static const char *const presets[PRESETS][PRESET_SETTINGS] = {
	/* quick */
	{ "none/async,checkpoint,stateless,chain/async", "async,sync", "1", "1", "1", "16", "5",
	  "4", "3", "50", "1", "0.5" },
	/* short: the next one in a tenth of the time, with one seed */
	{ EVERY, "async,sync", "0,1,2", "1", "1", "240", "30", "20", "30", "5", "10", "1" },
	/* seed-paper: published with one worker at about 5 gradients a second */
	{ EVERY, "async,sync", "0,1,2", "1", "5", "240", "30", "20", "30", "5", "1", "1" },
};

static const struct ol_conf_choice preset_names[] = {
	{ "quick", 0 }, { "short", 1 }, { "seed-paper", 2 }, { NULL, 0 }
};

static const struct ol_conf_choice experiment_names[] = {
	{ "kills", DRILL_KILLS }, { "dbw", DRILL_DBW }, { "scar", DRILL_SCAR }, { NULL, 0 }
};

#define AT(member) offsetof(struct drill_set, member)

static const struct ol_conf_field fields[] = {
	{ .type = OL_CONF_GROUP, .help = "what is compared" },
	{ .name = "experiment",
	  .dflt = "kills",
	  .help = "kills: strategies under a schedule of kills, as below; dbw: how many gradients a "
		  "synchronous step should wait for, under a virtual clock; scar: what a lost part "
		  "of the parameters costs in iterations, by what was saved of it and how much is "
		  "lost. These two work in this process, and take of the other settings --preset, "
		  "--trials, --seed, --out and --json",
	  .offset = AT(experiment),
	  .type = OL_CONF_CHOICE,
	  .choices = experiment_names },
	{ .name = "preset",
	  .dflt = "quick",
	  .help = "settings for what is not given: quick ends within two minutes; seed-paper is the "
		  "published protocol; short is that in a tenth of the time, with one seed",
	  .offset = AT(preset),
	  .type = OL_CONF_CHOICE,
	  .choices = preset_names },
	{ .name = "strategies",
	  .help = "of none, checkpoint, checkpoint-norestore, stateless, stateless-mean, "
		  "stateless-published, mirror, chain, chain-periodic and chain-continue, with "
		  "commas; NAME/sync or NAME/async is one of both only",
	  .offset = AT(strategies),
	  .type = OL_CONF_STR },
	{ .name = "consistency",
	  .help = "async, sync or both, with a comma",
	  .offset = AT(consistency),
	  .type = OL_CONF_STR },
	{ .name = "kills",
	  .help = "how often the server is killed in a run: numbers, with commas",
	  .offset = AT(kills),
	  .type = OL_CONF_STR },
	{ .name = "workers",
	  .help = "of a run: numbers, with commas",
	  .offset = AT(workers),
	  .type = OL_CONF_STR },
	{ .name = "seeds",
	  .help = "how many (5 is 1 to 5), or which: 7,11 or 3..9",
	  .offset = AT(seeds),
	  .type = OL_CONF_STR },
	{ .name = "trials",
	  .dflt = "0",
	  .help = "scar: failures of a model, 0: the preset's, 10, 30 and 100; dbw: seeds of each "
		  "setting, at most 100, 0: the preset's, 2, 5 and 5",
	  .offset = AT(trials),
	  .type = OL_CONF_U32,
	  .max = SCAR_TRIALS_MAX },
	{ .name = "seed",
	  .dflt = "1",
	  .help = "dbw, scar: of all that is drawn",
	  .offset = AT(seed),
	  .type = OL_CONF_U64 },
	{ .name = "live",
	  .dflt = "false",
	  .help = "dbw: on real processes and the machine's own clock: four workers, one of which "
		  "becomes five times slower half-way; scar: also kill one of four servers, 20 "
		  "times for each of two models and ways of recovery",
	  .offset = AT(live),
	  .type = OL_CONF_BOOL },
	{ .type = OL_CONF_GROUP, .help = "a run; what is not given is as --preset has it" },
	{ .name = "seconds",
	  .dflt = "0",
	  .help = "of training; 0: the preset's",
	  .offset = AT(seconds),
	  .type = OL_CONF_F64,
	  .f64_max = 1e6 },
	{ .name = "kill_at",
	  .dflt = "0",
	  .help = "seconds from the beginning to the first kill; 0: the preset's",
	  .offset = AT(kill_at),
	  .type = OL_CONF_F64,
	  .f64_max = 1e6 },
	{ .name = "down",
	  .dflt = "0",
	  .help = "seconds from a kill until the server is started again; 0: the preset's",
	  .offset = AT(down),
	  .type = OL_CONF_F64,
	  .f64_max = 1e6 },
	{ .name = "again",
	  .dflt = "0",
	  .help = "seconds from that to the next kill; 0: the preset's",
	  .offset = AT(again),
	  .type = OL_CONF_F64,
	  .f64_max = 1e6 },
	{ .name = "pace",
	  .dflt = "0",
	  .help = "gradients a second of each worker, at most; 0: no limit",
	  .offset = AT(pace),
	  .type = OL_CONF_F64,
	  .f64_max = 1e6 },
	{ .name = "scale",
	  .dflt = "1",
	  .help = "all times are divided, and the pace is multiplied, by this",
	  .offset = AT(scale),
	  .type = OL_CONF_F64,
	  .f64_min = 0.001,
	  .f64_max = 1000.0 },
	{ .name = "eval_seconds",
	  .dflt = "1",
	  .help = "between two evaluations; after scaling at least 0.25",
	  .offset = AT(eval_seconds),
	  .type = OL_CONF_F64,
	  .f64_min = 0.01,
	  .f64_max = 1e6 },
	{ .name = "checkpoint_every",
	  .dflt = "100",
	  .help = "steps between two checkpoints",
	  .offset = AT(checkpoint_every),
	  .type = OL_CONF_U32,
	  .min = 1 },
	{ .name = "model",
	  .dflt = "cnn",
	  .help = "as of outlast train",
	  .offset = AT(model),
	  .type = OL_CONF_STR },
	{ .name = "final_relu",
	  .dflt = "false",
	  .help = "a ReLU after the last layer too, as in the published code",
	  .offset = AT(final_relu),
	  .type = OL_CONF_BOOL },
	{ .name = "dataset",
	  .dflt = "fashion-mnist",
	  .help = "as of outlast train",
	  .offset = AT(dataset),
	  .type = OL_CONF_STR },
	{ .name = "lr",
	  .dflt = "0.01",
	  .help = "learning rate",
	  .offset = AT(lr),
	  .type = OL_CONF_F64,
	  .f64_max = 1e6 },
	{ .name = "batch",
	  .dflt = "32",
	  .help = "samples a gradient",
	  .offset = AT(batch),
	  .type = OL_CONF_U32,
	  .min = 1 },
	{ .name = "transport",
	  .dflt = "shm",
	  .help = "as of outlast train",
	  .offset = AT(transport),
	  .type = OL_CONF_STR },
	{ .name = "address",
	  .help = "as of outlast train",
	  .offset = AT(address),
	  .type = OL_CONF_STR },
	{ .name = "device",
	  .help = "as of outlast train",
	  .offset = AT(device),
	  .type = OL_CONF_STR },
	{ .type = OL_CONF_GROUP, .help = "the report" },
	{ .name = "out",
	  .help = "folder for it, made anew; without it outlast-drill- and the time",
	  .offset = AT(out),
	  .type = OL_CONF_STR },
	{ .name = "json",
	  .help = "file for the tables and claims as one object",
	  .offset = AT(json),
	  .type = OL_CONF_STR },
	{ .name = "report",
	  .help = "the folder of a drill: its report is made anew, and nothing is run",
	  .offset = AT(report),
	  .type = OL_CONF_STR },
	{ .name = "keep_going",
	  .dflt = "true",
	  .help = "a run that fails is shown as failed, and the next one is made",
	  .offset = AT(keep_going),
	  .type = OL_CONF_BOOL },
	{ .name = "resume",
	  .dflt = "false",
	  .help = "go on with the drill in the folder of --out: runs that are done stay as they "
		  "are, and the report is made anew",
	  .offset = AT(resume),
	  .type = OL_CONF_BOOL },
	{ .name = "price_server",
	  .dflt = "0.095",
	  .help = "of a server's machine, an hour; in any currency",
	  .offset = AT(price_server),
	  .type = OL_CONF_F64,
	  .f64_max = 1e9 },
	{ .name = "price_worker",
	  .dflt = "0.095",
	  .help = "of a worker's machine, an hour",
	  .offset = AT(price_worker),
	  .type = OL_CONF_F64,
	  .f64_max = 1e9 },
};

static const struct ol_rows rows = { fields, sizeof(fields) / sizeof(fields[0]) };

static const char examples[] =
	"  outlast drill\n"
	"  outlast drill --strategies checkpoint,stateless --kills 0,1,2 --workers 1,2,4 --seeds 5 "
	"--out compared\n"
	"  outlast drill --preset seed-paper --scale 10\n"
	"  outlast drill --preset seed-paper --out paper --resume\n"
	"  outlast drill --report paper\n"
	"  outlast drill --preset short --pace 0 -- --optimizer adam --lr 0.001\n"
	"  outlast drill --experiment dbw --preset seed-paper\n"
	"  outlast drill --experiment scar --preset seed-paper\n";

static int fail(struct drill *drill, const char *name, const char *why)
{
	return ol_settings_fail(&drill->settings, name, why);
}

static void preset_fill(struct drill *drill)
{
	struct ol_conf *conf = drill->settings.conf;
	bool given[PRESET_SETTINGS];

	for (size_t i = 0; i < PRESET_SETTINGS; i++)
		given[i] = ol_conf_is_set(conf, preset_settings[i]);
	for (size_t i = 0; i < PRESET_SETTINGS; i++) {
		if (!given[i])
			ol_conf_set(conf, preset_settings[i], presets[drill->set.preset][i]);
	}
}

static int settings_check(struct drill *drill)
{
	static const struct {
		const char *name;
		size_t offset;
	} times[] = { { "seconds", AT(seconds) },
		      { "kill_at", AT(kill_at) },
		      { "down", AT(down) },
		      { "again", AT(again) } };
	const struct drill_set *set = &drill->set;

	for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++) {
		double value;

		memcpy(&value, (const char *)set + times[i].offset, sizeof(value));
		if (value <= 0.0)
			return fail(drill, times[i].name, "should be above 0");
	}
	if (set->out != NULL && (set->out[0] == '\0' || strchr(set->out, ',') != NULL))
		return fail(drill, "out", "should be a path without a comma");
	if (set->live)
		return fail(drill, "live", "is of --experiment dbw and scar only");
	if (set->resume && set->out == NULL)
		return fail(drill, "resume", "needs the folder: --out");
	if (set->out != NULL && strlen(set->out) > DRILL_PATH_MAX / 2)
		return fail(drill, "out", "is too long");
	return 0;
}

static void scale_apply(struct drill_set *set)
{
	set->seconds /= set->scale;
	set->kill_at /= set->scale;
	set->down /= set->scale;
	set->again /= set->scale;
	set->pace *= set->scale;
	set->eval_seconds /= set->scale;
	if (set->eval_seconds < eval_least_s)
		set->eval_seconds = eval_least_s;
}

static void word_add(struct drill_text *text, const char *word)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				    "0123456789-_=./:,+@%";

	if (word[0] != '\0' && word[strspn(word, plain)] == '\0') {
		drill_add(text, " %s", word);
		return;
	}
	drill_add(text, " '");
	for (; *word != '\0'; word++)
		drill_add(text, *word == '\'' ? "'\\''" : "%c", *word);
	drill_add(text, "'");
}

/* argv[0] is the subcommand. */
static int command_note(struct drill *drill, int argc, char **argv)
{
	struct drill_text text = { 0 };

	drill_add(&text, "outlast drill");
	for (int i = 1; i < argc; i++)
		word_add(&text, argv[i]);
	drill->command = text.bytes;
	if (!text.failed)
		return 0;
	return ol_cmd_error(OL_EXIT_RESOURCES, "drill", "no memory", NULL, NULL);
}

/* Settings of the drill in the environment are not those of a run. */
static void environment_clear(void)
{
	bool found = true;

	while (found) {
		found = false;
		for (char **one = environ; *one != NULL && !found; one++) {
			char name[256];
			size_t len = strcspn(*one, "=");

			if (strncmp(*one, "OUTLAST_", 8) != 0 || len >= sizeof(name))
				continue;
			snprintf(name, sizeof(name), "%.*s", (int)len, *one);
			found = unsetenv(name) == 0;
		}
	}
}

/* What shapes a run; which runs there are may change from one --resume to the next. */
static const char *const run_settings[] = { "preset", "seconds",      "kill_at",
					    "down",   "again",        "pace",
					    "scale",  "eval_seconds", "checkpoint_every",
					    "model",  "final_relu",   "dataset",
					    "lr",     "batch",        "transport" };

static bool shapes_run(const char *line)
{
	for (size_t i = 0; i < sizeof(run_settings) / sizeof(run_settings[0]); i++) {
		size_t len = strlen(run_settings[i]);

		if (strncmp(line, run_settings[i], len) == 0 && line[len] == ' ')
			return true;
	}
	return false;
}

/* "name = value", up to the word on where the value is from */
static bool is_set(const char *text, const char *setting)
{
	size_t len = strlen(setting);

	for (const char *at = strstr(text, setting); at != NULL; at = strstr(at + 1, setting)) {
		if ((at == text || at[-1] == '\n') && strchr(" \n", at[len]) != NULL)
			return true;
	}
	return false;
}

/* --resume: runs of other settings than those that are there would be compared with them. */
static int settings_compare(const struct drill *drill, const char *text)
{
	char path[DRILL_PATH_MAX], line[OL_VALUE_MAX];
	FILE *in;
	int rc = 0;

	snprintf(path, sizeof(path), "%.900s/settings", drill->out);
	in = fopen(path, "r");
	if (in == NULL)
		return ol_cmd_error(OL_EXIT_FAILED, "drill", "cannot read", path, strerror(errno));
	while (rc == 0 && fgets(line, sizeof(line), in) != NULL) {
		line[strcspn(line, "#\n")] = '\0';
		for (size_t len = strlen(line); len > 0 && line[len - 1] == ' '; len--)
			line[len - 1] = '\0';
		if (!shapes_run(line) || is_set(text, line))
			continue;
		rc = ol_cmd_error(OL_EXIT_USAGE, "drill", "the runs in the folder were made with",
				  line, "give --resume the same");
	}
	fclose(in);
	return rc;
}

static int file_write(const struct drill *drill, const char *name, const struct drill_text *text)
{
	char path[DRILL_PATH_MAX];
	FILE *out;
	bool good;

	if (text->failed)
		return ol_cmd_error(OL_EXIT_RESOURCES, "drill", "no memory", NULL, NULL);
	snprintf(path, sizeof(path), "%.800s/%.200s", drill->out, name);
	out = fopen(path, "we");
	good = out != NULL && fwrite(text->bytes, 1, text->len, out) == text->len;
	if (out != NULL)
		good = fclose(out) == 0 && good;
	if (good)
		return 0;
	return ol_cmd_error(OL_EXIT_FAILED, "drill", "cannot write", path, strerror(errno));
}

static int settings_file_write(const struct drill *drill)
{
	struct drill_text text = { 0 };
	size_t bytes;
	FILE *out = open_memstream(&text.bytes, &bytes);
	int rc;

	if (out == NULL)
		return ol_cmd_error(OL_EXIT_RESOURCES, "drill", "no memory", NULL, NULL);
	ol_conf_print(drill->settings.conf, out);
	text.failed = fclose(out) != 0;
	text.len = bytes;
	rc = drill->set.resume && !text.failed ? settings_compare(drill, text.bytes) : 0;
	if (rc == 0)
		rc = file_write(drill, "settings", &text);
	drill_text_fini(&text);
	return rc;
}

static int folder_make(struct drill *drill)
{
	static const char *const parts[] = { "", "/runs" };
	size_t count = drill->set.experiment == DRILL_KILLS || drill->set.live ? 2 : 1;
	time_t now = time(NULL);
	struct tm when;
	char path[DRILL_PATH_MAX];

	if (drill->set.out != NULL)
		snprintf(drill->out, sizeof(drill->out), "%s", drill->set.out);
	else if (localtime_r(&now, &when) == NULL ||
		 strftime(drill->out, sizeof(drill->out), "outlast-drill-%Y-%m-%d-%H%M%S", &when) ==
			 0)
		snprintf(drill->out, sizeof(drill->out), "outlast-drill-%lld", (long long)now);
	snprintf(path, sizeof(path), "%.900s/settings", drill->out);
	if (drill->set.resume && access(path, R_OK) != 0)
		return ol_cmd_error(OL_EXIT_USAGE, "drill", "there is no drill to resume in",
				    drill->out, "give the folder of one that was begun");
	for (size_t i = 0; i < count; i++) {
		snprintf(path, sizeof(path), "%.900s%s", drill->out, parts[i]);
		if (mkdir(path, 0755) == 0 || (errno == EEXIST && drill->set.resume))
			continue;
		if (errno == EEXIST)
			return ol_cmd_error(OL_EXIT_USAGE, "drill", "the folder is there already",
					    path,
					    drill->set.experiment == DRILL_KILLS
						    ? "give another one with --out, or --resume"
						    : "give another one with --out");
		return ol_cmd_error(OL_EXIT_FAILED, "drill", "cannot make the folder", path,
				    strerror(errno));
	}
	return 0;
}

static void announce(const struct drill *drill)
{
	const struct drill_set *set = &drill->set;
	char kills[64 * DRILL_OUTAGES_MAX], left[64];
	unsigned most = 0;

	for (size_t i = 0; i < drill->plan.case_count; i++)
		most = drill->plan.cases[i].kills > most ? drill->plan.cases[i].kills : most;
	drill_schedule(set, drill->plan.cases[0].strategy, most, kills, sizeof(kills));
	drill_duration(drill_left_s(drill, 0, 0.0), left, sizeof(left));
	drill_say(drill, true, "%zu cases, %zu runs of %g s: about %s in all",
		  drill->plan.case_count, drill->plan.run_count, set->seconds, left);
	drill_say(drill, true, "%s on %s, kills: %s", set->model, set->dataset,
		  most > 0 ? kills : "none");
	drill_say(drill, true, "report in %s", drill->out);
}

/* 0, or an exit code that ends the drill without a report */
static int runs_make(struct drill *drill)
{
	for (size_t i = 0; i < drill->plan.run_count && drill->signal == 0; i++) {
		struct drill_run *run = &drill->plan.runs[i];
		int rc;

		if (drill->set.resume && drill_run_resume(drill, run))
			continue;
		rc = drill_run_go(drill, run, i);
		if (rc != 0)
			return rc;
		if (run->status == DRILL_FAILED && !drill->set.keep_going)
			break;
	}
	return 0;
}

static int report(const struct drill *drill)
{
	int rc = drill_record_write(drill);

	if (rc == 0)
		rc = drill_report_make(drill);
	return drill->signal != 0 ? OL_EXIT_SIGNAL + drill->signal : rc;
}

static int kills_go(struct drill *drill)
{
	char err[DRILL_ERR_MAX];
	const char *wrong;
	int rc;

	preset_fill(drill);
	rc = settings_check(drill);
	if (rc != 0)
		return rc;
	scale_apply(&drill->set);
	wrong = drill_plan_make(&drill->set, &drill->plan, err);
	if (wrong != NULL)
		return fail(drill, wrong, err[0] != '\0' ? err : "takes more memory than there is");
	rc = folder_make(drill);
	if (rc == 0)
		rc = settings_file_write(drill);
	if (rc == 0)
		rc = ol_cmd_signals("drill", &drill->signal_fd);
	if (rc != 0)
		return rc;
	environment_clear();
	announce(drill);
	rc = runs_make(drill);
	if (rc != 0)
		return rc;
	return report(drill);
}

/* Settings that every experiment has; the others are those of kills. */
static bool is_common(const char *name)
{
	static const char *const common[] = { "experiment", "preset", "trials", "seed",
					      "live",       "out",    "json" };

	for (size_t i = 0; i < sizeof(common) / sizeof(common[0]); i++) {
		if (strcmp(name, common[i]) == 0)
			return true;
	}
	return false;
}

static int experiment_check(struct drill *drill)
{
	for (size_t i = 0; i < rows.count; i++) {
		const struct ol_conf_field *field = &rows.fields[i];
		char value[OL_VALUE_MAX];

		if (field->name == NULL || is_common(field->name) ||
		    !ol_conf_is_set(drill->settings.conf, field->name))
			continue;
		/* the file `settings` of a report has them all */
		ol_settings_text(&drill->settings, field->name, value, sizeof(value));
		if (strcmp(value, field->dflt != NULL ? field->dflt : "") != 0)
			return fail(drill, field->name, "is of --experiment kills only");
	}
	if (drill->word_count > 0)
		return ol_cmd_error(OL_EXIT_USAGE, "drill", "no run of train is made",
				    drill->words[0], "give it to --experiment kills");
	return 0;
}

/* --report: a folder of any experiment, and no run */
static int report_again(struct drill *drill)
{
	if (strlen(drill->set.report) >= sizeof(drill->out))
		return fail(drill, "report", "is too long");
	snprintf(drill->out, sizeof(drill->out), "%s", drill->set.report);
	return drill_report_make(drill);
}

static int drill_go(struct drill *drill)
{
	int rc;

	if (drill->set.report != NULL)
		return report_again(drill);
	if (drill->set.experiment == DRILL_KILLS)
		return kills_go(drill);
	rc = experiment_check(drill);
	if (rc == 0)
		rc = folder_make(drill);
	if (rc == 0)
		rc = settings_file_write(drill);
	if (rc != 0)
		return rc;
	if (drill->set.live)
		environment_clear();
	if (drill->set.live && drill->set.experiment == DRILL_DBW) {
		rc = ol_cmd_signals("drill", &drill->signal_fd);
		return rc != 0 ? rc : drill_dbw_live_go(drill);
	}
	return drill->set.experiment == DRILL_DBW ? drill_dbw_go(drill) : drill_scar_go(drill);
}

/* What stands behind "--" is train's. */
static void words_take(struct drill *drill)
{
	const char *word;

	for (unsigned i = 0; (word = ol_conf_argument(drill->settings.conf, i)) != NULL; i++) {
		drill->words[i] = word;
		drill->word_count = i + 1;
	}
}

int cmd_drill(int argc, char **argv)
{
	struct drill *drill = calloc(1, sizeof(*drill));
	struct ol_settings *settings;
	int rc;

	if (drill == NULL)
		return ol_cmd_error(OL_EXIT_RESOURCES, "drill", "no memory", NULL, NULL);
	drill->signal_fd = -1;
	drill->tty = isatty(STDERR_FILENO) == 1;
	settings = &drill->settings;
	settings->cmd = "drill";
	settings->spec = (struct ol_conf_spec){
		.program = "outlast drill",
		.purpose = "Trains the same model again and again, kills the server by one "
			   "schedule, and compares strategies: tables, time lines, plots, costs, "
			   "and what became of the published claims, in a folder.",
		.arguments = "[-- OPTION OF TRAIN...]",
		.arguments_max = DRILL_WORDS_MAX,
		.examples = examples,
	};
	ol_settings_add(settings, rows, 0);
	rc = command_note(drill, argc, argv);
	if (rc == 0 && ol_settings_load(settings, &drill->set, argc, argv, &rc)) {
		words_take(drill);
		rc = drill_go(drill);
	}
	drill_plan_fini(&drill->plan);
	if (drill->signal_fd >= 0)
		close(drill->signal_fd);
	free(drill->command);
	ol_settings_fini(settings);
	free(drill);
	return rc;
}
