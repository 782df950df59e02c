/* SPDX-License-Identifier: BSD-3-Clause */

/* real.c -- the functions below, the lock, and the library's start */
#include "support/adapter/adapter.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct ad_real ad_real;

static pthread_mutex_t lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;

void ad_lock(void)
{
	pthread_mutex_lock(&lock);
}

void ad_unlock(void)
{
	pthread_mutex_unlock(&lock);
}

/* The child's only thread is not the one that the mutex knows as its owner. */
static void lock_renew(void)
{
	const pthread_mutex_t fresh = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;

	lock = fresh;
}

/*
 * A program that lacks a library finds none of its functions, and needs none. Without a version
 * dlsym() gives the newest; each of these has one above its 1.0 for programs of 2006.
 */
static void real_find(void)
{
	static const struct {
		void *to;
		const char *name;
	} all[] = {
		{ &ad_real.ack_cm_event, "rdma_ack_cm_event" },
		{ &ad_real.close_device, "ibv_close_device" },
		{ &ad_real.create_comp_channel, "ibv_create_comp_channel" },
		{ &ad_real.create_cq, "ibv_create_cq" },
		{ &ad_real.create_event_channel, "rdma_create_event_channel" },
		{ &ad_real.create_qp, "ibv_create_qp" },
		{ &ad_real.create_srq, "ibv_create_srq" },
		{ &ad_real.accept, "rdma_accept" },
		{ &ad_real.connect, "rdma_connect" },
		{ &ad_real.listen, "rdma_listen" },
		{ &ad_real.dereg_mr, "ibv_dereg_mr" },
		{ &ad_real.destroy_comp_channel, "ibv_destroy_comp_channel" },
		{ &ad_real.destroy_cq, "ibv_destroy_cq" },
		{ &ad_real.destroy_event_channel, "rdma_destroy_event_channel" },
		{ &ad_real.destroy_id, "rdma_destroy_id" },
		{ &ad_real.destroy_qp, "ibv_destroy_qp" },
		{ &ad_real.epoll_ctl, "epoll_ctl" },
		{ &ad_real.establish, "rdma_establish" },
		{ &ad_real.get_async_event, "ibv_get_async_event" },
		{ &ad_real.get_cm_event, "rdma_get_cm_event" },
		{ &ad_real.get_cq_event, "ibv_get_cq_event" },
		{ &ad_real.init_qp_attr, "rdma_init_qp_attr" },
		{ &ad_real.modify_qp, "ibv_modify_qp" },
		{ &ad_real.open_device, "ibv_open_device" },
		{ &ad_real.query_ece, "ibv_query_ece" },
		{ &ad_real.set_ece, "ibv_set_ece" },
		{ &ad_real.query_device, "ibv_query_device" },
		{ &ad_real.reg_mr_iova2, "ibv_reg_mr_iova2" },
		{ &ad_real.reg_dmabuf_mr, "ibv_reg_dmabuf_mr" },
		{ &ad_real.ack_async_event, "ibv_ack_async_event" },
		{ &ad_real.ack_cq_events, "ibv_ack_cq_events" },
	};

	for (unsigned i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		void *found = dlsym(RTLD_NEXT, all[i].name);

		memcpy(all[i].to, &found, sizeof(found));
	}
}

__attribute__((constructor)) static void start(void)
{
	const char *text = getenv("OL_ADAPTER");
	char why[128];

	real_find();
	pthread_atfork(ad_lock, ad_unlock, lock_renew);
	if (text == NULL || *text == '\0' || ad_settings_read(text, why, sizeof(why)))
		return;
	fprintf(stderr, "OL_ADAPTER=%s: %s\n", text, why);
	_exit(2);
}
