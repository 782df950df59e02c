/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * verbs_rc.h -- the error conventions of libibverbs and librdmacm, translated here and nowhere else
 */
#ifndef OL_RDMA_VERBS_VERBS_RC_H
#define OL_RDMA_VERBS_VERBS_RC_H

#include <errno.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

/* ibv_post_send(), ibv_modify_qp(): 0, or a positive errno */
static inline int ol_rc_positive(int rc)
{
	return rc > 0 ? -rc : rc;
}

/* rdma_connect(), rdma_listen(): 0, or -1 with errno set */
static inline int ol_rc_minus_one(int rc)
{
	if (rc == 0)
		return 0;
	return errno != 0 ? -errno : -EIO;
}

/* ibv_reg_mr(), ibv_create_cq(): an object, or NULL, mostly with errno set */
static inline int ol_rc_null(const void *object)
{
	if (object != NULL)
		return 0;
	return errno != 0 ? -errno : -EIO;
}

/* What a completion's status means to the caller of the post: the list of OL_XPORT_DONE. */
static inline int ol_rc_wc(enum ibv_wc_status status)
{
	switch (status) {
	case IBV_WC_SUCCESS:
		return 0;
	case IBV_WC_WR_FLUSH_ERR:
		return -ECONNABORTED;
	case IBV_WC_REM_ACCESS_ERR: /* the key, its rights or its range */
	case IBV_WC_REM_INV_REQ_ERR: /* the right is not the queue pair's */
		return -EACCES;
	case IBV_WC_RETRY_EXC_ERR:
	case IBV_WC_RNR_RETRY_EXC_ERR: /* it is there, but takes no doorbell */
	case IBV_WC_RESP_TIMEOUT_ERR:
		return -ETIMEDOUT;
	case IBV_WC_LOC_LEN_ERR:
	case IBV_WC_LOC_QP_OP_ERR:
	case IBV_WC_LOC_EEC_OP_ERR:
	case IBV_WC_LOC_PROT_ERR:
	case IBV_WC_MW_BIND_ERR:
	case IBV_WC_BAD_RESP_ERR:
	case IBV_WC_LOC_ACCESS_ERR:
	case IBV_WC_REM_OP_ERR:
	case IBV_WC_LOC_RDD_VIOL_ERR:
	case IBV_WC_REM_INV_RD_REQ_ERR:
	case IBV_WC_REM_ABORT_ERR:
	case IBV_WC_INV_EECN_ERR:
	case IBV_WC_INV_EEC_STATE_ERR:
	case IBV_WC_FATAL_ERR:
	case IBV_WC_GENERAL_ERR:
	case IBV_WC_TM_ERR:
	case IBV_WC_TM_RNDV_INCOMPLETE:
		return -EIO;
	}
	return -EIO; /* a status of a later libibverbs */
}

/*
 * Why a connection could not be made: the list of OL_XPORT_CONN_DOWN. status: that of the event,
 * a negative errno or, with REJECTED, a reason of the connection manager. 0: not a failure.
 */
static inline int ol_rc_cm(enum rdma_cm_event_type type, int status)
{
	switch (type) {
	case RDMA_CM_EVENT_ADDR_ERROR: /* also -ETIMEDOUT: nobody answers for the address */
	case RDMA_CM_EVENT_ROUTE_ERROR:
		return -EHOSTUNREACH;
	case RDMA_CM_EVENT_UNREACHABLE:
		return status == -ENETUNREACH || status == -EHOSTUNREACH ? -EHOSTUNREACH
									 : -ETIMEDOUT;
	case RDMA_CM_EVENT_REJECTED:
		/* IBTA volume 1, 12.6.7.2: 8 no such service, 28 by the peer's program; iWARP: an
		   errno. Any other reason, as a stale connection (10), says that the peer is there */
		return status == 8 || status == 28 || status < 0 ? -ECONNREFUSED : -EIO;
	case RDMA_CM_EVENT_CONNECT_ERROR:
		return status == -ETIMEDOUT ? -ETIMEDOUT : -EIO;
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		return -EIO;
	case RDMA_CM_EVENT_ADDR_RESOLVED:
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
	case RDMA_CM_EVENT_CONNECT_REQUEST:
	case RDMA_CM_EVENT_CONNECT_RESPONSE:
	case RDMA_CM_EVENT_ESTABLISHED:
	case RDMA_CM_EVENT_DISCONNECTED:
	case RDMA_CM_EVENT_MULTICAST_JOIN:
	case RDMA_CM_EVENT_MULTICAST_ERROR:
	case RDMA_CM_EVENT_ADDR_CHANGE:
	case RDMA_CM_EVENT_TIMEWAIT_EXIT:
		return 0;
	}
	return -EIO;
}

/* Why the socket of an "oob:" address could not be connected; error: an errno */
static inline int ol_rc_tcp(int error)
{
	switch (error) {
	case ECONNREFUSED:
		return -ECONNREFUSED;
	case ETIMEDOUT:
		return -ETIMEDOUT;
	case ENETUNREACH:
	case EHOSTUNREACH:
	case EADDRNOTAVAIL:
	case EINVAL: /* an address that nothing can connect to */
		return -EHOSTUNREACH;
	default:
		return -EIO;
	}
}

#endif /* OL_RDMA_VERBS_VERBS_RC_H */
