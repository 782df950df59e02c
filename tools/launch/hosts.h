/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * hosts.h -- the hosts of a job: out of a file, or out of the variables of a Slurm allocation
 */
#ifndef LAUNCH_HOSTS_H
#define LAUNCH_HOSTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "launch/place.h"

struct launch_hosts {
	struct launch_host list[LAUNCH_HOSTS_MAX];
	uint32_t count;
	bool are_given; /* by an allocation: a file adds none, its lines about others are passed over */
};

/*
 * launch_hosts_parse -- text of a file of hosts; `name` is that of the file, for err
 *
 *	HOST [slots=N] [servers=N] [rack=NAME] [address=ADDR]	# a comment
 *
 * A host that comes again has the slots of all its lines (as in $PBS_NODEFILE: a line without slots= is one then). Of hosts
 * that are given it says where they are, and what they take at most.
 *
 * Errors: -EINVAL, with words in err: line and fault, or that it names no host (of those given)
 */
int launch_hosts_parse(struct launch_hosts *hosts, const char *name, const char *text, char *err,
		       size_t err_bytes);

/* launch_hosts_read -- the same of a file; or -errno */
int launch_hosts_read(struct launch_hosts *hosts, const char *path, char *err, size_t err_bytes);

/*
 * launch_hosts_slurm -- of SLURM_JOB_NODELIST, "a,n[01-03,7]-x", and SLURM_TASKS_PER_NODE, "2(x3),1", or NULL: as
 * many workers as there are; these hosts are given
 *
 * Errors: -EINVAL, with words in err
 */
int launch_hosts_slurm(struct launch_hosts *hosts, const char *nodes, const char *tasks, char *err,
		       size_t err_bytes);

#endif /* LAUNCH_HOSTS_H */
