/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * adapter.h -- a library between a program and libibverbs that behaves as a named adapter does
 *
 * settings.c reads OL_ADAPTER. real.c finds what is below. shadow.c remembers what the program has
 * made. The other files replace functions of libibverbs and librdmacm, one file a kind of object.
 * One lock guards everything.
 */
#ifndef OL_TESTS_SUPPORT_ADAPTER_ADAPTER_H
#define OL_TESTS_SUPPORT_ADAPTER_ADAPTER_H

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdint.h>

/* The name is seen by the program in place of the library's own. */
#define AD_EXPORT __attribute__((visibility("default")))

enum ad_last_wqe {
	AD_LAST_WQE_REAL, /* as the driver below does */
	AD_LAST_WQE_NOW,
	AD_LAST_WQE_LATE,
	AD_LAST_WQE_NEVER,
};

enum {
	AD_NONE = -1, /* a number that no quirk sets */
	AD_LATE_MS = 200,
	AD_PIECES_MAX = 4,
	AD_PIECE_BYTES = 64,
	AD_HELD_MAX = 4, /* plain writes that may overtake each other */
	AD_PARTS_MAX = AD_HELD_MAX * AD_PIECES_MAX,
	AD_SGES_MAX = 32,
	AD_INLINE_MAX = 512,
};

/* What OL_ADAPTER asks for; README.md says what each does. */
struct ad_settings {
	bool clean;
	bool no_srq;
	bool no_imm;
	bool pieces;
	bool ooo;
	bool unsent;
	bool established;
	bool ece;
	bool dmabuf;
	bool inline_refuse;
	bool device_lost; /* the death of the device takes the device away, too */
	int64_t last_wqe;
	int64_t inline_max;
	int64_t srq_max;
	int64_t sge_max;
	int64_t sge_read_max;
	int64_t rd_atomic;
	int64_t fatal_posts;
	int64_t delay_ms;
	int64_t stale_ms;
	int64_t reg_max;
	int64_t mr_max;
	int64_t port_ms;
	int64_t migrate_posts;
};

extern struct ad_settings ad_set;

/* settings.c */

/* ad_settings_read -- false: why says which word is wrong */
bool ad_settings_read(const char *text, char *why, size_t why_bytes);

/* real.c -- what the replaced functions are below us */

struct ad_real {
	int (*ack_cm_event)(struct rdma_cm_event *event);
	int (*close_device)(struct ibv_context *ctx);
	struct ibv_comp_channel *(*create_comp_channel)(struct ibv_context *ctx);
	struct ibv_cq *(*create_cq)(struct ibv_context *ctx, int cqe, void *cq_context,
				    struct ibv_comp_channel *channel, int vector);
	struct rdma_event_channel *(*create_event_channel)(void);
	struct ibv_qp *(*create_qp)(struct ibv_pd *pd, struct ibv_qp_init_attr *attr);
	struct ibv_srq *(*create_srq)(struct ibv_pd *pd, struct ibv_srq_init_attr *attr);
	int (*accept)(struct rdma_cm_id *id, struct rdma_conn_param *param);
	int (*connect)(struct rdma_cm_id *id, struct rdma_conn_param *param);
	int (*dereg_mr)(struct ibv_mr *mr);
	int (*destroy_comp_channel)(struct ibv_comp_channel *channel);
	int (*destroy_cq)(struct ibv_cq *cq);
	void (*destroy_event_channel)(struct rdma_event_channel *channel);
	int (*destroy_id)(struct rdma_cm_id *id);
	int (*destroy_qp)(struct ibv_qp *qp);
	int (*epoll_ctl)(int epfd, int op, int fd, void *event);
	int (*establish)(struct rdma_cm_id *id);
	int (*get_async_event)(struct ibv_context *ctx, struct ibv_async_event *event);
	int (*get_cm_event)(struct rdma_event_channel *channel, struct rdma_cm_event **event);
	int (*get_cq_event)(struct ibv_comp_channel *channel, struct ibv_cq **cq,
			    void **cq_context);
	int (*listen)(struct rdma_cm_id *id, int backlog);
	int (*init_qp_attr)(struct rdma_cm_id *id, struct ibv_qp_attr *attr, int *mask);
	int (*modify_qp)(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask);
	struct ibv_context *(*open_device)(struct ibv_device *device);
	int (*query_ece)(struct ibv_qp *qp, struct ibv_ece *ece);
	int (*set_ece)(struct ibv_qp *qp, struct ibv_ece *ece);
	int (*query_device)(struct ibv_context *ctx, struct ibv_device_attr *attr);
	struct ibv_mr *(*reg_mr_iova2)(struct ibv_pd *pd, void *addr, size_t bytes, uint64_t iova,
				       unsigned access);
	struct ibv_mr *(*reg_dmabuf_mr)(struct ibv_pd *pd, uint64_t offset, size_t bytes,
					uint64_t iova, int fd, int access);
	void (*ack_async_event)(struct ibv_async_event *event);
	void (*ack_cq_events)(struct ibv_cq *cq, unsigned count);
};

extern struct ad_real ad_real;

void ad_lock(void);
void ad_unlock(void);

/* later.c -- events of our own, beside those of a descriptor */

struct ad_event {
	struct ad_event *next;
	uint64_t due_ns;
	struct ibv_async_event async;
	struct rdma_cm_event cm;
};

/* The events of one descriptor. A program that watches the descriptor watches timer_fd as well. */
struct ad_later {
	struct ad_later *next;
	struct ad_event *first; /* by due_ns */
	int fd;
	int timer_fd;
	int epoll_fd; /* where the program watches fd; -1: nowhere */
};

uint64_t ad_now_ns(void);
int ad_later_open(struct ad_later *later, int fd);
void ad_later_close(struct ad_later *later);
/* Lets timer_fd be readable at due_ns; 0: not at all. */
void ad_later_wake(struct ad_later *later, uint64_t due_ns);
void ad_later_add(struct ad_later *later, const struct ad_event *event, uint64_t after_ms);
/* The first event that is due, taken out: to be freed by the caller; or NULL. */
struct ad_event *ad_later_take(struct ad_later *later);
/* Forgets the events that match() says are of object. */
void ad_later_drop(struct ad_later *later, bool (*match)(const struct ad_event *, const void *),
		   const void *object);
/* Waits until fd or timer_fd can be read. Returns 1: fd; 0: timer_fd; -1: neither, it may not wait. */
int ad_later_wait(const struct ad_later *later);

/* shadow.c -- what the program has made */

struct ad_ctx {
	struct ad_ctx *next;
	struct ibv_context *ctx;
	struct ibv_context_ops ops; /* the provider's own */
	int (*query_port)(struct ibv_context *ctx, uint8_t port, struct ibv_port_attr *attr,
			  size_t attr_bytes);
	struct ad_later async;
	bool dead;
	bool port_down;
};

/* A completion that the program has not seen yet */
struct ad_wc {
	struct ad_wc *next;
	uint64_t due_ns;
	struct ibv_wc wc;
};

struct ad_cq {
	struct ad_cq *hash_next;
	struct ad_cq *next;
	struct ibv_cq *cq;
	struct ad_ctx *ctx;
	struct ad_channel *channel;
	struct ad_wc *first;
	struct ad_wc **tail;
	bool armed;
};

/* A completion channel; there is one here only if completions are delayed. */
struct ad_channel {
	struct ad_channel *next;
	struct ibv_comp_channel *channel;
	struct ad_later later;
};

/* A request of the program inside a group */
struct ad_ask {
	uint64_t wr_id;
	bool signaled;
};

/*
 * Requests that were posted below together, whatever the order and in whatever pieces. The last of
 * them below is signaled if any of the program's is, and stands for all.
 */
struct ad_group {
	struct ad_group *next;
	uint32_t first_num; /* the number of the first request below */
	uint32_t parts; /* how many there are below */
	uint32_t count;
	bool failed;
	uint8_t part_ask[AD_PARTS_MAX]; /* which request a part is of */
	struct ad_ask asks[AD_HELD_MAX];
};

/* A request that was not posted yet */
struct ad_held {
	struct ibv_send_wr wr;
	struct ibv_sge sges[AD_SGES_MAX];
	uint8_t inlined[AD_INLINE_MAX];
};

struct ad_qp {
	struct ad_qp *hash_next;
	struct ad_qp *num_next;
	struct ibv_qp *qp;
	uint32_t qp_num;
	struct ad_ctx *ctx;
	bool has_srq;
	bool last_wqe_said;
	bool moved; /* the library has moved it to RTS for the program */
	bool connected; /* it was in RTS */
	uint32_t injected; /* events of it that we made and the program has not acknowledged */
	uint32_t inline_max;
	uint32_t sge_max;
	uint32_t ece;
	uint32_t posted; /* requests below, counted */
	struct ad_group *first;
	struct ad_group **tail;
	struct ad_held *held;
	uint32_t held_count;
	struct ad_held *last; /* the last request, if it waits */
	bool last_waits;
};

extern struct ad_ctx *ad_ctxs;
extern struct ad_cq *ad_cqs;
extern struct ad_channel *ad_channels;

struct ad_ctx *ad_ctx_find(const struct ibv_context *ctx);
/* Never NULL: what the program made by another call is remembered when it is first used. */
struct ad_cq *ad_cq_find(struct ibv_cq *cq);
void ad_cq_forget(struct ibv_cq *cq);
struct ad_qp *ad_qp_find(const struct ibv_qp *qp);
struct ad_qp *ad_qp_of_num(uint32_t qp_num);
struct ad_qp *ad_qp_add(struct ibv_qp *qp);
void ad_qp_forget(struct ad_qp *qp);
extern uint32_t ad_held_total; /* requests that all queue pairs hold back */

void ad_qps_each(void (*each)(struct ad_qp *qp, void *arg), void *arg);

/* cq.c */

int ad_poll_cq(struct ibv_cq *cq, int max, struct ibv_wc *wc);
int ad_req_notify_cq(struct ibv_cq *cq, int solicited_only);
/* Takes every completion from below, so that they can be looked at. */
void ad_cq_fill(struct ad_cq *cq);
void ad_cq_put(struct ad_cq *cq, const struct ibv_wc *wc);
/* Forgets the completions of a queue pair, in the program's queue and below. */
void ad_cq_clean(struct ad_cq *cq, uint32_t qp_num);

/* send.c */

int ad_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
/* Posts what is held back. */
void ad_send_flush(struct ad_qp *qp);
/* Puts into the queue what the program shall see of a completion; false: that is the completion as it is. */
bool ad_send_done(struct ad_cq *cq, const struct ibv_wc *wc);
void ad_send_forget(struct ad_qp *qp);
static inline bool ad_send_translates(void)
{
	return ad_set.pieces || ad_set.ooo;
}

/* device.c */

void ad_post_counted(struct ad_ctx *ctx, struct ad_qp *qp);
void ad_last_wqe_reached(struct ad_qp *qp);
int ad_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
int ad_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
void ad_device_events_drop(struct ad_qp *qp);
int ad_query_port(struct ibv_context *ctx, uint8_t port, struct ibv_port_attr *attr,
		  size_t attr_bytes);

/* dmabuf.c */

int ad_dereg_mr(struct ibv_mr *mr);

/* qp.c */

int ad_modify_qp(struct ad_qp *qp, enum ibv_qp_state state);

/* cm.c */

void ad_cm_removed(void);
void ad_cm_qp_gone(void);

#endif /* OL_TESTS_SUPPORT_ADAPTER_ADAPTER_H */
