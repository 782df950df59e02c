/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * kill.h -- the schedule of --kill: which process of a job to kill or stop, when, for how long
 *
 *	TARGET@WHEN[:down=DURATION][:signal=KILL|STOP], a list of them with commas
 *
 *	TARGET     server0, worker3 …; of a chain head, middle, tail: those of shard 0, or with a
 *	           number (head1) of that shard; who that is, is found out at that moment
 *	WHEN       30s, 1500ms (of training); 200steps (the servers' version); loss<0.8 (of recent
 *	           gradients, or of the last evaluation)
 *	DURATION   KILL: until it is started again. STOP: until it is woken up. Without it: at once,
 *	           or once its replacement is there.
 *
 * Pure text and numbers; the caller keeps the clock.
 */
#ifndef CMD_KILL_H
#define CMD_KILL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	OL_KILLS_MAX = 64,
	OL_KILL_TEXT_MAX = 96 /* bytes of one entry with its end */
};

enum ol_kill_target {
	OL_KILL_SERVER,
	OL_KILL_WORKER,
	OL_KILL_HEAD, /* this and the next ones: of a shard's chain */
	OL_KILL_MIDDLE,
	OL_KILL_TAIL
};

enum ol_kill_when {
	OL_KILL_AT_TIME,
	OL_KILL_AT_STEP,
	OL_KILL_BELOW_LOSS
};

struct ol_kill {
	enum ol_kill_target target;
	enum ol_kill_when when;
	uint32_t index; /* of the server or worker; of a chain: the shard */
	uint64_t at_ns; /* AT_TIME: since training began */
	uint64_t at_step; /* AT_STEP */
	double loss; /* BELOW_LOSS */
	bool down_set;
	uint64_t down_ns;
	int signo; /* SIGKILL or SIGSTOP */
	char text[OL_KILL_TEXT_MAX]; /* as given */
};

struct ol_kills {
	uint32_t count;
	struct ol_kill list[OL_KILLS_MAX];
};

/*
 * ol_kills_parse -- NULL or "": none
 *
 * Errors: -EINVAL, with the entry and its expected form in err
 */
int ol_kills_parse(const char *text, struct ol_kills *ret_kills, char *err, size_t err_bytes);

/* ol_kill_of_chain -- its target is a role in a chain */
static inline bool ol_kill_of_chain(const struct ol_kill *kill)
{
	return kill->target >= OL_KILL_HEAD;
}

/* ol_kill_role -- "head", "middle" or "tail"; "": not of a chain */
const char *ol_kill_role(const struct ol_kill *kill);

/* ol_kill_due -- true once the moment has come; loss and evaluated NAN: not known */
bool ol_kill_due(const struct ol_kill *kill, uint64_t past_ns, uint64_t version, double loss,
		 double evaluated);

#define OL_DURATION_MAX (UINT64_C(365) * 86400 * 1000000000)

/* ol_duration_parse -- "20s", "1500ms", "0.5s", "2min" as nanoseconds, at most a year; -EINVAL */
int ol_duration_parse(const char *text, uint64_t *ret_ns);

#endif /* CMD_KILL_H */
