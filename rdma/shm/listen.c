/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * listen.c -- the listening socket, and the peers that connect to it
 */
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "rdma/fds.h"
#include "rdma/shm/shm.h"

enum {
	ACCEPTS_MAX = 16 /* peers accepted at one look */
};

/* socket_is_stale -- no process listens at this socket file */
static bool socket_is_stale(const struct sockaddr_un *addr, socklen_t addr_bytes)
{
	struct stat st;
	bool refused;
	int sock;

	if (lstat(addr->sun_path, &st) != 0 || !S_ISSOCK(st.st_mode))
		return false;
	sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (sock < 0)
		return false;
	refused = connect(sock, (const struct sockaddr *)addr, addr_bytes) != 0 &&
		  errno == ECONNREFUSED;
	close(sock);
	return refused;
}

/*
 * bind_replace -- bind at the place of a dead server's socket file
 *
 * The directory is locked meanwhile. Otherwise, if two servers start at once and find the same
 * stale file, the second would remove the first one's new file.
 */
static int bind_replace(int sock, const struct sockaddr_un *addr, socklen_t addr_bytes)
{
	char path[sizeof(addr->sun_path)];
	int rc = -EADDRINUSE;
	int dir;

	memcpy(path, addr->sun_path, sizeof(path));
	dir = open(dirname(path), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return -errno;
	if (flock(dir, LOCK_EX | LOCK_NB) != 0)
		goto out;
	if (!socket_is_stale(addr, addr_bytes))
		goto out;
	if (unlink(addr->sun_path) != 0 ||
	    bind(sock, (const struct sockaddr *)addr, addr_bytes) != 0)
		rc = -errno;
	else
		rc = 0;
out:
	close(dir);
	return rc;
}

/* bind_at -- bind; on failure log the remedy */
static int bind_at(const struct ol_shm_xport *xport, int sock, const char *text,
		   const struct sockaddr_un *addr, socklen_t addr_bytes)
{
	int rc = 0;

	if (bind(sock, (const struct sockaddr *)addr, addr_bytes) != 0)
		rc = -errno;
	if (rc == -EADDRINUSE && addr->sun_path[0] != '\0')
		rc = bind_replace(sock, addr, addr_bytes);
	if (rc == 0)
		return 0;
	if (rc == -EADDRINUSE)
		ol_xport_log(&xport->opts, OL_XPORT_LOG_ERROR,
			     "listen at %s: another process listens there or the file is no socket",
			     text);
	else if (rc == -ENOENT || rc == -ENOTDIR)
		ol_xport_log(&xport->opts, OL_XPORT_LOG_ERROR,
			     "listen at %s: its folder does not exist: make it", text);
	else
		ol_xport_log(&xport->opts, OL_XPORT_LOG_ERROR, "listen at %s: %s", text,
			     strerror(-rc));
	return rc == -ENOTDIR ? -ENOENT : rc;
}

/* listen_note -- remember the bound address: its text for connect(), its file for close() */
static int listen_note(struct ol_shm_xport *xport, int sock, char text[OL_XPORT_ADDR_MAX])
{
	struct sockaddr_un addr = { .sun_family = AF_UNSPEC };
	socklen_t bytes = sizeof(addr);
	struct stat st;

	if (getsockname(sock, (struct sockaddr *)&addr, &bytes) != 0)
		return -errno;
	xport->listen_addr = addr;
	if (addr.sun_path[0] == '\0') {
		bytes -= (socklen_t)offsetof(struct sockaddr_un, sun_path) + 1;
		snprintf(text, OL_XPORT_ADDR_MAX, "@%.*s", (int)bytes, addr.sun_path + 1);
		return 0;
	}
	if (lstat(addr.sun_path, &st) != 0)
		return -errno;
	xport->listen_dev = st.st_dev;
	xport->listen_ino = st.st_ino;
	snprintf(text, OL_XPORT_ADDR_MAX, "%s", addr.sun_path);
	return 0;
}

int ol_shm_listen(struct ol_xport *base, const char *text, char ret_addr[OL_XPORT_ADDR_MAX])
{
	struct ol_shm_xport *xport = ol_shm_xport(base);
	char found[OL_XPORT_ADDR_MAX];
	struct sockaddr_un addr;
	socklen_t addr_bytes;
	int sock;
	int rc;

	if (xport->listen_fd >= 0)
		return -EALREADY;
	rc = ol_shm_addr_parse(text, &addr, &addr_bytes);
	if (rc != 0) {
		ol_xport_log(
			&xport->opts, OL_XPORT_LOG_ERROR,
			"listen at \"%s\": an address is @name, or a path with a /, of at most "
			"%zu characters",
			text, sizeof(addr.sun_path) - 1);
		return rc;
	}
	sock = ol_fds_add(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
	if (sock < 0)
		return -errno;
	rc = bind_at(xport, sock, text, &addr, addr_bytes);
	if (rc != 0)
		goto err_sock;
	rc = listen(sock, OL_SHM_BACKLOG) != 0 ? -errno : 0;
	if (rc == 0)
		rc = listen_note(xport, sock, found);
	if (rc == 0)
		rc = ol_shm_watch(xport, sock, EPOLLIN, &xport->listen_fd);
	if (rc != 0)
		goto err_bound;
	xport->listen_fd = sock;
	memcpy(ret_addr, found, sizeof(found));
	return 0;

err_bound:
	if (addr.sun_path[0] != '\0')
		unlink(addr.sun_path);
err_sock:
	ol_fds_close(sock);
	return rc;
}

void ol_shm_listen_close(struct ol_shm_xport *xport)
{
	const char *path = xport->listen_addr.sun_path;
	struct stat st;

	if (xport->listen_fd < 0)
		return;
	ol_shm_close_fd(&xport->listen_fd);
	if (path[0] != '\0' && lstat(path, &st) == 0 && st.st_dev == xport->listen_dev &&
	    st.st_ino == xport->listen_ino)
		unlink(path);
}

/* peer_greet -- accept the peer behind sock; its hello comes next */
static void peer_greet(struct ol_shm_xport *xport, int sock)
{
	struct ol_shm_conn *conn = NULL;
	uid_t uid = 0;
	pid_t pid = 0;
	uint32_t i;
	int rc;

	rc = ol_shm_peer_check(sock, &pid, &uid);
	if (rc == -EACCES)
		ol_shm_log_rare(xport, OL_SHM_RARE_USER,
				"pid %ld of user %u turned away: neither our user nor root",
				(long)pid, uid);
	if (rc != 0)
		goto err_sock;
	/* All places are taken by silent peers: drop the one that has been silent longest. */
	for (i = 0; xport->greetings >= OL_SHM_GREETINGS_MAX && i < xport->conn_count; i++) {
		if (xport->conns[i]->state == OL_SHM_GREETING &&
		    (conn == NULL || xport->conns[i]->id < conn->id))
			conn = xport->conns[i];
	}
	if (conn != NULL)
		ol_shm_conn_down(conn, -ETIMEDOUT);
	rc = ol_shm_conn_create(xport, OL_SHM_GREETING, &conn);
	if (rc != 0)
		goto err_sock;
	ol_shm_conn_name(conn, pid);
	conn->sock = sock;
	ol_shm_ident_note(conn, true);
	rc = ol_shm_watch(xport, sock, EPOLLIN, conn);
	if (rc != 0) {
		ol_shm_conn_destroy(conn);
		return;
	}
	ol_shm_conn_deadline(conn, xport->opts.connect_timeout_ms);
	ol_shm_conn_read(conn);
	return;

err_sock:
	ol_fds_close(sock);
}

/* turn_away -- no descriptor is left: accept and close the peer with the spare one, as the listener
 * would stay readable for ever */
static void turn_away(struct ol_shm_xport *xport)
{
	int sock;

	ol_shm_log_rare(xport, OL_SHM_RARE_DESCRIPTORS,
			"peer turned away: no file descriptor left (raise the limit: ulimit -n)");
	ol_shm_close_fd(&xport->spare_fd);
	sock = accept4(xport->listen_fd, NULL, NULL, SOCK_CLOEXEC);
	if (sock >= 0)
		close(sock);
	xport->spare_fd = ol_fds_add(open("/dev/null", O_RDONLY | O_CLOEXEC));
}

void ol_shm_listen_ready(struct ol_shm_xport *xport)
{
	unsigned i;
	int sock;

	for (i = 0; i < ACCEPTS_MAX; i++) {
		sock = ol_fds_add(
			accept4(xport->listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC));
		if (sock >= 0)
			peer_greet(xport, sock);
		else if (errno == EMFILE || errno == ENFILE)
			turn_away(xport);
		else if (errno != EINTR && errno != ECONNABORTED)
			return;
	}
}
