/* SPDX-License-Identifier: BSD-3-Clause */

/* trials.c -- `outlast trial`: calls the experiment of a description */

#include <signal.h>
#include <string.h>
#include <sys/prctl.h>

#include "cmd/cmd.h"
#include "drill/trial.h"

int cmd_trial(int argc, char **argv)
{
	const char *experiment = "";
	json_error_t error;
	json_t *of = json_loadf(stdin, JSON_DISABLE_EOF_CHECK, &error);
	int rc;

	(void)argc;
	(void)argv;
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* a killed drill leaves no process behind */
	if (of == NULL)
		return ol_cmd_error(OL_EXIT_USAGE, "trial", "description", error.text, NULL);
	rc = trial_unpack(of, "{s:s}", "experiment", &experiment);
	if (rc == 0)
		rc = strcmp(experiment, "dbw") == 0 ? dbw_trial(of) : scar_trial(of);
	json_decref(of);
	return rc;
}
