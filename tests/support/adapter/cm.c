/* SPDX-License-Identifier: BSD-3-Clause */

/* cm.c -- the connection manager: what it says otherwise, and what it says of its own */
#include "support/adapter/adapter.h"

#include <errno.h>
#include <stdlib.h>

enum {
	REJECT_STALE = 10, /* IB_CM_REJ_STALE_CONN, IBTA volume 1, 12.6.7.2 */
	ACK_TIMEOUT = 14,
	RETRY_COUNT = 6,
	RNR_TIMER = 12,
};

struct cm_channel {
	struct cm_channel *next;
	struct rdma_event_channel *channel;
	struct ad_later later;
};

/* An identifier that connects, listens or was accepted */
struct cm_id {
	struct cm_id *next;
	struct rdma_cm_id *id;
	uint32_t qp_num; /* of what connects */
};

static struct cm_channel *channels;
static struct cm_id *ids;
static struct ad_event *told; /* events of ours that the program has not acknowledged */
static uint64_t stale_until_ns;

static struct cm_channel **channel_find(const struct rdma_event_channel *channel)
{
	struct cm_channel **at = &channels;

	while (*at != NULL && (*at)->channel != channel)
		at = &(*at)->next;
	return at;
}

AD_EXPORT struct rdma_event_channel *rdma_create_event_channel(void)
{
	struct rdma_event_channel *channel = ad_real.create_event_channel();
	struct cm_channel *ours;

	if (channel == NULL)
		return NULL;
	ours = calloc(1, sizeof(*ours));
	if (ours == NULL)
		abort();
	ours->channel = channel;
	ad_lock();
	if (ad_later_open(&ours->later, channel->fd) != 0)
		abort();
	ours->next = channels;
	channels = ours;
	ad_unlock();
	return channel;
}

AD_EXPORT void rdma_destroy_event_channel(struct rdma_event_channel *channel)
{
	struct cm_channel **at;
	struct cm_channel *ours;

	ad_lock();
	at = channel_find(channel);
	ours = *at;
	if (ours != NULL) {
		*at = ours->next;
		ad_later_close(&ours->later);
		free(ours);
	}
	ad_unlock();
	ad_real.destroy_event_channel(channel);
}

static struct cm_id **id_find(const struct rdma_cm_id *id)
{
	struct cm_id **at = &ids;

	while (*at != NULL && (*at)->id != id)
		at = &(*at)->next;
	return at;
}

static void id_add(struct rdma_cm_id *id, uint32_t qp_num)
{
	struct cm_id **at = id_find(id);

	if (*at == NULL) {
		*at = calloc(1, sizeof(**at));
		if (*at == NULL)
			abort();
	}
	(*at)->id = id;
	(*at)->qp_num = qp_num;
}

static bool event_matches(const struct ad_event *event, const void *id)
{
	return event->cm.id == id;
}

AD_EXPORT int rdma_destroy_id(struct rdma_cm_id *id)
{
	struct cm_channel *channel;
	struct cm_id **at;

	ad_lock();
	at = id_find(id);
	if (*at != NULL) {
		struct cm_id *gone = *at;

		*at = gone->next;
		free(gone);
	}
	channel = *channel_find(id->channel);
	if (channel != NULL)
		ad_later_drop(&channel->later, event_matches, id);
	ad_unlock();
	return ad_real.destroy_id(id);
}

static void cm_event(struct rdma_cm_id *id, enum rdma_cm_event_type type, int status)
{
	const struct ad_event event = { .cm = { .id = id, .event = type, .status = status } };
	struct cm_channel *channel = *channel_find(id->channel);

	if (channel != NULL)
		ad_later_add(&channel->later, &event, 0);
}

void ad_cm_removed(void)
{
	for (const struct cm_id *at = ids; at != NULL; at = at->next)
		cm_event(at->id, RDMA_CM_EVENT_DEVICE_REMOVAL, 0);
}

/*
 * The peer still has the last connection of this queue pair's number, in time wait: cm_match_req()
 * and cm_rep_handler() of the kernel's cm.c reject as stale.
 */
void ad_cm_qp_gone(void)
{
	if (ad_set.stale_ms > 0)
		stale_until_ns = ad_now_ns() + (uint64_t)ad_set.stale_ms * 1000000;
}

AD_EXPORT int rdma_connect(struct rdma_cm_id *id, struct rdma_conn_param *conn_param)
{
	uint32_t qp_num = id->qp != NULL ? id->qp->qp_num : 0;

	if (id->qp == NULL && conn_param != NULL)
		qp_num = conn_param->qp_num;
	ad_lock();
	id_add(id, qp_num);
	if (stale_until_ns == 0) /* the last program's connections are in time wait, too */
		ad_cm_qp_gone();
	if (ad_now_ns() < stale_until_ns) {
		cm_event(id, RDMA_CM_EVENT_REJECTED, REJECT_STALE);
		ad_unlock();
		return 0;
	}
	ad_unlock();
	return ad_real.connect(id, conn_param);
}

AD_EXPORT int rdma_accept(struct rdma_cm_id *id, struct rdma_conn_param *conn_param)
{
	ad_lock();
	id_add(id, 0);
	ad_unlock();
	return ad_real.accept(id, conn_param);
}

AD_EXPORT int rdma_listen(struct rdma_cm_id *id, int backlog)
{
	ad_lock();
	id_add(id, 0);
	ad_unlock();
	return ad_real.listen(id, backlog);
}

static int qp_step(struct ad_qp *qp, struct rdma_cm_id *id, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = { .qp_state = state };
	int mask = 0;

	if (ad_real.init_qp_attr(id, &attr, &mask) != 0)
		return -1;
	attr.min_rnr_timer = RNR_TIMER;
	attr.timeout = ACK_TIMEOUT;
	attr.retry_cnt = RETRY_COUNT;
	attr.rnr_retry = RETRY_COUNT;
	return ad_real.modify_qp(qp->qp, &attr, mask);
}

/*
 * ESTABLISHED where RoCE says CONNECT_RESPONSE: on iWARP the kernel moves the queue pair itself and
 * tells the program afterwards (cma_iw_handler() in cma.c, siw_connect() in siw_cm.c).
 */
static void response_handle(struct rdma_cm_event *event)
{
	const struct cm_id *id = *id_find(event->id);
	struct ad_qp *qp = id != NULL ? ad_qp_of_num(id->qp_num) : NULL;

	if (!ad_set.established || event->event != RDMA_CM_EVENT_CONNECT_RESPONSE || qp == NULL)
		return;
	if (qp_step(qp, event->id, IBV_QPS_RTR) != 0 || qp_step(qp, event->id, IBV_QPS_RTS) != 0 ||
	    ad_real.establish(event->id) != 0) {
		event->event = RDMA_CM_EVENT_CONNECT_ERROR;
		event->status = -EIO;
		return;
	}
	qp->moved = true;
	qp->connected = true;
	event->event = RDMA_CM_EVENT_ESTABLISHED;
}

AD_EXPORT int rdma_get_cm_event(struct rdma_event_channel *channel,
				struct rdma_cm_event **ret_event)
{
	struct cm_channel *ours;
	struct ad_event *event;
	int ready;
	int rc;

	ad_lock();
	ours = *channel_find(channel);
	ad_unlock();
	while (ours != NULL) {
		ad_lock();
		event = ad_later_take(&ours->later);
		if (event != NULL) {
			event->next = told;
			told = event;
		}
		ad_unlock();
		if (event != NULL) {
			*ret_event = &event->cm;
			return 0;
		}
		ready = ad_later_wait(&ours->later);
		if (ready == 1)
			break;
		if (ready < 0) {
			errno = EAGAIN;
			return -1;
		}
	}
	rc = ad_real.get_cm_event(channel, ret_event);
	ad_lock();
	if (rc == 0)
		response_handle(*ret_event);
	ad_unlock();
	return rc;
}

AD_EXPORT int rdma_ack_cm_event(struct rdma_cm_event *event)
{
	struct ad_event *own = NULL;

	ad_lock();
	for (struct ad_event **at = &told; *at != NULL; at = &(*at)->next) {
		if (&(*at)->cm != event)
			continue;
		own = *at;
		*at = own->next;
		break;
	}
	ad_unlock();
	if (own == NULL)
		return ad_real.ack_cm_event(event);
	free(own);
	return 0;
}
