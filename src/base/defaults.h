/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * defaults.h -- values that options have by themselves: those that the library's structs and the
 * program's settings have in common
 */
#ifndef OL_BASE_DEFAULTS_H
#define OL_BASE_DEFAULTS_H

/* OL_DEFAULT_TEXT -- as a row of settings has it: "2000" */
#define OL_DEFAULT_TEXT(value)  OL_DEFAULT_TEXT_(value)
#define OL_DEFAULT_TEXT_(value) #value

#define OL_DEFAULT_LISTEN "@outlast"
#define OL_DEFAULT_JOB    "outlast"

/* Two: a gradient is computed while another travels. Each more is a gradient more of memory, at the
 * worker and at the server. */
#define OL_DEFAULT_WINDOW 2

/* So long does a job stand still whose server hangs. A loop that the machine holds up for longer is
 * taken for dead, and fences itself: 40 heartbeats. */
#define OL_DEFAULT_LEASE_MS 2000

#define OL_DEFAULT_SPIN_US         50
#define OL_DEFAULT_CONNECT_MS      10000
#define OL_DEFAULT_OUTAGE_S        60
#define OL_DEFAULT_QUEUE_MAX       64
#define OL_DEFAULT_WORKERS_MAX     8
#define OL_DEFAULT_CHECKPOINT_KEEP 3
#define OL_DEFAULT_REPLAY_CLIP     1

/* All but one may be lost: the fewest that survive one death while another is replaced */
#define OL_DEFAULT_REPLICAS 3

#define OL_DEFAULT_LR       0.01
#define OL_DEFAULT_MOMENTUM 0.9
#define OL_DEFAULT_BETA1    0.9
#define OL_DEFAULT_BETA2    0.999
#define OL_DEFAULT_EPSILON  1e-8

/* Of the library alone, as no setting has them */
enum {
	OL_DEFAULT_HEARTBEAT_MS = 50,
	OL_DEFAULT_RETRY_TIMEOUT_MS = 500,
};

#endif /* OL_BASE_DEFAULTS_H */
