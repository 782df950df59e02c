/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * defaults.h -- defaults that the library's structs and the program's settings share
 */
#ifndef OL_BASE_DEFAULTS_H
#define OL_BASE_DEFAULTS_H

/* OL_DEFAULT_TEXT -- as a row of settings has it: "2000" */
#define OL_DEFAULT_TEXT(value)  OL_DEFAULT_TEXT_(value)
#define OL_DEFAULT_TEXT_(value) #value

#define OL_DEFAULT_LISTEN "@outlast"
#define OL_DEFAULT_JOB    "outlast"

/* With two, a gradient is computed while another travels. Each more costs the memory of a gradient,
 * at the worker and at the server. */
#define OL_DEFAULT_WINDOW 2

/* If a server hangs, its job stands still for so long. A server whose loop stands still for longer
 * is taken for dead, and fences itself. It is longer than a network that is away for 3 s, and the
 * retransmission after that. */
#define OL_DEFAULT_LEASE_MS 5000

/* Seven tries a second apart, as UCX has them: a bond's failover, a pause storm or a sweep of a
 * subnet manager ends no connection. */
#define OL_DEFAULT_RETRY_TIMEOUT_MS 8000

#define OL_DEFAULT_SPIN_US         50
#define OL_DEFAULT_THREADS         1
#define OL_DEFAULT_CONNECT_MS      10000
#define OL_DEFAULT_OUTAGE_S        60
#define OL_DEFAULT_QUEUE_MAX       64
#define OL_DEFAULT_WORKERS_MAX     8
#define OL_DEFAULT_OBSERVERS_MAX   8
#define OL_DEFAULT_PIN_TIMEOUT_MS  2000
#define OL_DEFAULT_CHECKPOINT_KEEP 3
#define OL_DEFAULT_REPLAY_CLIP     1

/* All but one may be lost. Three is the fewest that survive a death while another is replaced */
#define OL_DEFAULT_REPLICAS 3

#define OL_DEFAULT_LR       0.01
#define OL_DEFAULT_MOMENTUM 0.9
#define OL_DEFAULT_BETA1    0.9
#define OL_DEFAULT_BETA2    0.999
#define OL_DEFAULT_EPSILON  1e-8

#define OL_DEFAULT_RULE_GROUPS 4
#define OL_DEFAULT_LR_GAMMA    0.1

/* Only of the library, as there are no settings for them */
enum {
	OL_DEFAULT_HEARTBEAT_MS = 50,
};

#endif /* OL_BASE_DEFAULTS_H */
