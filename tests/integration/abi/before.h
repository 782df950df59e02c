/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * before.h -- the public headers as of an earlier version
 *
 * Each struct has only its first fields. This header never follows changes of src/include.
 */
#ifndef OL_ABI_BEFORE_H
#define OL_ABI_BEFORE_H

#include <stddef.h>
#include <stdint.h>

struct ol_worker;
struct ol_server;
struct ol_policy;

struct ol_worker_opts {
	size_t size;
	const char *servers;
	const char *transport;
	const char *device;
	const char *job_key;
	uint32_t worker;
	uint32_t observer;
	uint64_t param_count;
};

struct ol_job_info {
	uint64_t param_count;
	uint64_t version;
	uint32_t shard_count;
	uint32_t window;
};

struct ol_op {
	void *user;
	int level;
	int status;
	uint64_t version;
	uint64_t age_ns;
	uint8_t local;
	uint8_t done;
	uint64_t reserved[6];
};

struct ol_push_info {
	uint64_t base_version;
};

struct ol_link_stat {
	uint64_t pushed;
	uint64_t applied;
};

struct ol_server_stat {
	uint64_t version;
	uint64_t heartbeat;
	uint64_t applied;
};

struct ol_update_rule {
	int optimizer;
	float lr;
	float momentum;
	float beta1;
	float beta2;
	float epsilon;
	float weight_decay;
	uint32_t sum;
	uint32_t allow_nonfinite;
};

struct ol_server_opts {
	size_t size;
	const char *listen;
	const char *transport;
	const char *device;
	const char *job_key;
	uint64_t param_count;
	uint32_t shard;
	uint32_t shard_count;
	uint32_t epoch;
	int consistency;
	uint32_t workers;
	uint32_t workers_max;
	uint32_t observers_max;
	uint32_t window;
	struct ol_update_rule rule;
	uint32_t shared_domain;
};

struct ol_policy_opts {
	size_t size;
	int consistency;
	int wait;
	uint32_t workers;
	uint32_t workers_max;
};

struct ol_policy_stat {
	uint32_t k;
	uint32_t present;
	uint64_t late;
};

const char *ol_strerror(int code);
void ol_worker_opts_init_sized(struct ol_worker_opts *opts, size_t opts_bytes);
int ol_worker_open(const struct ol_worker_opts *opts, struct ol_worker **ret_worker, char *err,
		   size_t err_bytes);
void ol_worker_close(struct ol_worker *worker);
void ol_worker_info_sized(const struct ol_worker *worker, struct ol_job_info *ret_info,
			  size_t info_bytes);
int ol_worker_wait(struct ol_worker *worker, struct ol_op *op);
int ol_grad_acquire(struct ol_worker *worker, float **ret_grad);
int ol_push_sized(struct ol_worker *worker, float *grad, const struct ol_push_info *info,
		  size_t info_bytes, struct ol_op *op);
int ol_pull(struct ol_worker *worker, unsigned flags, struct ol_op *op);
const float *ol_weights(const struct ol_worker *worker, uint64_t *ret_version);
int ol_link_get_stat_sized(const struct ol_worker *worker, uint32_t shard,
			   struct ol_link_stat *ret_stat, size_t stat_bytes);
int ol_stat_sized(struct ol_worker *worker, uint32_t shard, struct ol_server_stat *ret_stat,
		  size_t stat_bytes);
void ol_server_opts_init_sized(struct ol_server_opts *opts, size_t opts_bytes);
int ol_server_open(const struct ol_server_opts *opts, const float *weights,
		   struct ol_server **ret_server, char *err, size_t err_bytes);
int ol_server_run(struct ol_server *server);
void ol_server_stop(struct ol_server *server);
void ol_server_get_stat_sized(const struct ol_server *server, struct ol_server_stat *ret_stat,
			      size_t stat_bytes);
void ol_server_close(struct ol_server *server);
void ol_policy_opts_init_sized(struct ol_policy_opts *opts, size_t opts_bytes);
int ol_policy_create(const struct ol_policy_opts *opts, struct ol_policy **ret_policy);
void ol_policy_get_stat_sized(const struct ol_policy *policy, struct ol_policy_stat *ret_stat,
			      size_t stat_bytes);
void ol_policy_destroy(struct ol_policy *policy);

#endif /* OL_ABI_BEFORE_H */
