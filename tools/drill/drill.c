/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * drill.c -- `outlast drill`: its settings; the Python program beside this file does the rest
 *
 * That program gets one JSON object: each setting with the beginning of an error line about it, all
 * settings in the form of a file, the words of the command line, and the path of this executable.
 */
#include <errno.h>
#include <jansson.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/cmd.h"
#include "cmd/settings.h"

enum {
	PRESETS = 3,
	PRESET_SETTINGS = 12,
	WORDS_MAX = 32 /* passed on to train */
};

/* A preset's values for settings that were not given, in the order of `preset_settings`. */
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
	{ "kills", 0 }, { "dbw", 1 }, { "scar", 2 }, { "mtbf", 3 }, { NULL, 0 }
};

#define ROW(kind, word, value, says) \
	.name = (word), .dflt = (value), .help = (says), .type = OL_CONF_##kind

static const struct ol_conf_field fields[] = {
	{ .type = OL_CONF_GROUP, .help = "what is compared" },
	{ ROW(CHOICE, "experiment", "kills",
	      "kills: strategies under a schedule of kills, as below; dbw: how many "
	      "gradients a synchronous step should wait for, under a virtual clock; scar: "
	      "what a lost part of the parameters costs in iterations, by what was saved "
	      "of it and how much is lost; mtbf: how much of the time is useful, by mean "
	      "time between failures, strategy and servers. These three work in this "
	      "process, and take of the other settings --preset, --trials, --seed, --live, "
	      "--out and --json"),
	  .choices = experiment_names },
	{ ROW(CHOICE, "preset", "quick",
	      "settings for what is not given: quick ends within two minutes; seed-paper "
	      "is the published protocol; short is that in a tenth of the time, with one "
	      "seed"),
	  .choices = preset_names },
	{ ROW(STR, "strategies", NULL,
	      "of none, checkpoint, checkpoint-norestore, stateless, stateless-mean, "
	      "stateless-published, mirror, chain, chain-periodic and chain-continue, with "
	      "commas; NAME/sync or NAME/async is one of both only") },
	{ ROW(STR, "consistency", NULL, "async, sync or both, with a comma") },
	{ ROW(STR, "kills", NULL,
	      "how often the server is killed in a run: numbers, with commas") },
	{ ROW(STR, "workers", NULL, "of a run: numbers, with commas") },
	{ ROW(STR, "seeds", NULL, "how many (5 is 1 to 5), or which: 7,11 or 3..9") },
	{ ROW(U32, "trials", "0",
	      "scar: failures of a model, 0: the preset's, 10, 30 and 100; dbw: seeds of "
	      "each setting, at most 100, 0: the preset's, 2, 5 and 5; mtbf: trainings of "
	      "each cell, 0: the preset's, 5, 20 and 100"),
	  .max = 2000 },
	{ ROW(U64, "seed", "1", "dbw, scar, mtbf: of all that is drawn") },
	{ ROW(BOOL, "live", "false",
	      "dbw: on real processes and the machine's own clock: four workers, one of "
	      "which becomes five times slower half-way; scar: also kill one of four "
	      "servers, 20 times for each of two models and ways of recovery; mtbf: also "
	      "measure what a loss costs, and kill servers and workers at random moments, "
	      "beside what the model says of the same moments") },
	{ ROW(STR, "job", NULL,
	      "mtbf: what is trained, instead of 1 to 1000 servers: of servers=64, workers=64, "
	      "params=16e6 (of a server), state=3 (numbers a parameter), step=2 (seconds), "
	      "network=12.5e9 (bytes a second, of a server), storage=5e9 (of all), down=10 "
	      "(seconds until a process is there again), host_down=120, hours=8 (useful ones "
	      "of the training) and everything=0 (share of failures that take all "
	      "processes), with commas between") },
	{ .type = OL_CONF_GROUP, .help = "a run; what is not given is as --preset has it" },
	{ ROW(F64, "seconds", "0", "of training; 0: the preset's"), .f64_max = 1e6 },
	{ ROW(F64, "kill_at", "0", "seconds from the beginning to the first kill; 0: the preset's"),
	  .f64_max = 1e6 },
	{ ROW(F64, "down", "0",
	      "seconds from a kill until the server is started again; 0: the preset's"),
	  .f64_max = 1e6 },
	{ ROW(F64, "again", "0", "seconds from that to the next kill; 0: the preset's"),
	  .f64_max = 1e6 },
	{ ROW(F64, "pace", "0", "gradients a second of each worker, at most; 0: no limit"),
	  .f64_max = 1e6 },
	{ ROW(F64, "scale", "1", "all times are divided, and the pace is multiplied, by this"),
	  .f64_min = 0.001, .f64_max = 1000.0 },
	{ ROW(F64, "eval_seconds", "1", "between two evaluations; after scaling at least 0.25"),
	  .f64_min = 0.01, .f64_max = 1e6 },
	{ ROW(U32, "checkpoint_every", "100", "steps between two checkpoints"), .min = 1 },
	{ ROW(STR, "model", "cnn", "as of outlast train") },
	{ ROW(BOOL, "final_relu", "false",
	      "a ReLU after the last layer too, as in the published code") },
	{ ROW(STR, "dataset", "fashion-mnist", "as of outlast train") },
	{ ROW(F64, "lr", "0.01", "learning rate"), .f64_max = 1e6 },
	{ ROW(U32, "batch", "32", "samples a gradient"), .min = 1 },
	{ ROW(STR, "transport", "shm", "as of outlast train") },
	{ ROW(STR, "address", NULL, "as of outlast train") },
	{ ROW(STR, "device", NULL, "as of outlast train") },
	{ .type = OL_CONF_GROUP, .help = "the report" },
	{ ROW(STR, "out", NULL,
	      "folder for it, made anew; without it outlast-drill- and the time") },
	{ ROW(STR, "json", NULL, "file for the tables and claims as one object") },
	{ ROW(STR, "report", NULL,
	      "the folder of a drill: its report is made anew, and nothing is run") },
	{ ROW(BOOL, "keep_going", "true",
	      "a run that fails is shown as failed, and the next one is made") },
	{ ROW(BOOL, "resume", "false",
	      "go on with the drill in the folder of --out: runs that are done stay as "
	      "they are, and the report is made anew") },
	{ ROW(F64, "price_server", "0.095", "of a server's machine, an hour; in any currency"),
	  .f64_max = 1e9 },
	{ ROW(F64, "price_worker", "0.095", "of a worker's machine, an hour"), .f64_max = 1e9 },
};

enum {
	FIELDS = sizeof(fields) / sizeof(fields[0])
};

/* The value of a row, in the order of the rows */
union cell {
	const char *text;
	double f64;
	uint64_t u64;
	uint32_t u32;
	int choice;
	bool flag;
};

static const char examples[] =
	"  outlast drill\n"
	"  outlast drill --strategies checkpoint,stateless --kills 0,1,2 --workers 1,2,4 --seeds 5 "
	"--out compared\n"
	"  outlast drill --preset seed-paper --scale 10\n"
	"  outlast drill --preset seed-paper --out paper --resume\n"
	"  outlast drill --report paper\n"
	"  outlast drill --preset short --pace 0 --lr 0.001 -- --optimizer adam\n"
	"  outlast drill --experiment dbw --preset seed-paper\n"
	"  outlast drill --experiment scar --preset seed-paper\n"
	"  outlast drill --experiment mtbf --preset short\n"
	"  outlast drill --experiment mtbf --job servers=16,params=50e6,step=0.5,down=30\n";

struct drill {
	struct ol_settings settings;
	union cell cells[FIELDS];
	json_t *story; /* for the program in Python */
};

/* Apply --preset to settings that were not given */
static void preset_fill(struct ol_conf *conf, const char *name)
{
	int preset = 0;

	while (strcmp(preset_names[preset].name, name) != 0)
		preset++;
	for (size_t i = 0; i < PRESET_SETTINGS; i++) {
		if (!ol_conf_is_set(conf, preset_settings[i]))
			(void)ol_conf_set(conf, preset_settings[i], presets[preset][i]);
	}
}

/* {"text": null if it is not set, "default", "given", "error": the beginning of an error line} */
static json_t *setting_json(struct drill *drill, size_t i)
{
	const struct ol_conf_field *field = &drill->settings.fields[i];
	struct ol_conf *conf = drill->settings.conf;
	char text[OL_VALUE_MAX];

	ol_conf_format(conf, i, text, sizeof(text));
	ol_conf_fail(conf, field->name, "");
	return json_pack("{s:s?, s:s?, s:b, s:s}", "text",
			 field->type == OL_CONF_STR ? drill->cells[i].text : text, "default",
			 field->dflt, "given", ol_conf_is_set(conf, field->name), "error",
			 ol_conf_error(conf));
}

static int story_tell(struct drill *drill, int argc, char **argv)
{
	struct ol_conf *conf = drill->settings.conf;
	json_t *settings = json_object(), *words = json_array(), *command = json_array();
	char *text = NULL;
	size_t bytes;
	FILE *out = open_memstream(&text, &bytes);
	const char *word;

	if (out != NULL) {
		ol_conf_print(conf, out);
		fclose(out);
	}
	for (size_t i = 0; i < FIELDS; i++) {
		if (fields[i].name != NULL)
			json_object_set_new(settings, fields[i].name, setting_json(drill, i));
	}
	for (unsigned i = 0; (word = ol_conf_argument(conf, i)) != NULL; i++)
		json_array_append_new(words, json_string(word));
	for (int i = 1; i < argc; i++)
		json_array_append_new(command, json_string(argv[i]));
	drill->story = json_pack("{s:o, s:o, s:o, s:s}", "settings", settings, "words", words,
				 "command", command, "file", text);
	free(text);
	if (drill->story != NULL && json_object_size(settings) + 3 == FIELDS &&
	    json_array_size(command) + 1 == (size_t)argc)
		return 0;
	return ol_cmd_error(OL_EXIT_RESOURCES, "drill", "no memory, or a word is not UTF-8", NULL,
			    NULL);
}

/* The folder with the program: beside this executable in a build folder, or where it was installed
 */
static bool program_find(const char *own, char path[PATH_MAX])
{
	static const char *const places[] = { "drill", OL_DRILL_PLACE };
	int folder = (int)(strrchr(own, '/') - own);

	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		snprintf(path, PATH_MAX, "%.*s/%s", folder, own, places[i]);
		if (access(path, X_OK) == 0)
			return true;
	}
	return false;
}

/* The second python3 if PATH has none, or has a script that finds none */
static const char start[] =
	"for python in python3 /usr/bin/python3; do\n"
	"	\"$python\" -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null &&\n"
	"		exec \"$python\" -B -X utf8 \"$@\"\n"
	"done\n"
	"echo 'outlast drill: there is no python3 of version 3.10 or later: apt-get install "
	"python3 python3-numpy python3-scipy python3-matplotlib' >&2\n"
	"exit 1\n";

/* Execute the program in this process. Returns an exit code only on failure. */
static int program_become(struct drill *drill)
{
	char own[PATH_MAX / 2], program[PATH_MAX];
	ssize_t len = readlink("/proc/self/exe", own, sizeof(own) - 1);
	char *story;

	own[len > 0 ? len : 0] = '\0';
	if (own[0] != '/' || !program_find(own, program))
		return ol_cmd_error(OL_EXIT_FAILED, "drill", "its program is not there", program,
				    "install all of outlast");
	json_object_set_new(drill->story, "outlast", json_string(own));
	story = json_dumps(drill->story, JSON_COMPACT);
	if (story != NULL)
		execl("/bin/sh", "sh", "-c", start, "sh", program, story, (char *)NULL);
	free(story);
	return ol_cmd_error(OL_EXIT_RESOURCES, "drill", "cannot start its program", program,
			    strerror(errno));
}

int cmd_drill(int argc, char **argv)
{
	struct drill *drill = calloc(1, sizeof(*drill));
	struct ol_settings *settings;
	char what[16], preset[16];
	int rc;

	if (drill == NULL)
		return ol_cmd_error(OL_EXIT_RESOURCES, "drill", "no memory", NULL, NULL);
	settings = &drill->settings;
	settings->cmd = "drill";
	settings->spec = (struct ol_conf_spec){
		.program = "outlast drill",
		.purpose = "Trains the same model again and again, kills the server by one "
			   "schedule, and compares strategies: tables, time lines, plots, costs, "
			   "and what became of the published claims, in a folder.",
		.arguments = "[-- OPTION OF TRAIN...]",
		.arguments_max = WORDS_MAX,
		.examples = examples,
	};
	for (size_t i = 0; i < FIELDS; i++)
		ol_settings_add(settings, (struct ol_rows){ &fields[i], 1 },
				i * sizeof(drill->cells[0]));
	if (ol_settings_load(settings, drill->cells, argc, argv, &rc)) {
		ol_settings_text(settings, "experiment", what, sizeof(what));
		if (strcmp(what, "kills") == 0)
			preset_fill(settings->conf,
				    ol_settings_text(settings, "preset", preset, sizeof(preset)));
		rc = story_tell(drill, argc, argv);
		if (rc == 0)
			rc = program_become(drill);
	}
	json_decref(drill->story);
	ol_settings_fini(settings);
	free(drill);
	return rc;
}
