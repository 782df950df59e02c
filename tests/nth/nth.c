/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * nth.c -- whichever call of the control path fails once, the product reports a status with a line,
 * leaks nothing, and the next try works
 *
 *	nth                             all scenarios; a table of the failures
 *	nth server                      those whose name begins so
 *	nth server calloc ENOMEM 7      one failure, with all output
 *	nth --every 4                   of four failures one
 */
#include "base/log.h"
#include "nth/frame/held.h"
#include "nth/scenarios.h"
#include "support/check.h"

static const struct run_scenario *const scenarios[] = {
	&nth_conf,
	&nth_data_idx,
	&nth_data_libsvm,
	&nth_data_synthetic,
	&nth_checkpoint_write,
	&nth_checkpoint_writer,
	&nth_checkpoint_read,
	&nth_xport,
	&nth_server,
	&nth_server_checkpoint,
	&nth_worker,
	&nth_worker_again,
	&nth_coord_session,
	&nth_chain_join,
	&nth_tools_help,
	&nth_tools_wrong,
	&nth_tools_doctor,
};

int main(int argc, char **argv)
{
	ol_log_level_set(OL_LOG_ERROR); /* of those that live through all runs */
	/* what leak checks look at is present in each run then: they took a third longer */
	held_check_leaks();
	return run_main(argc, argv, scenarios, sizeof(scenarios) / sizeof(scenarios[0]));
}
