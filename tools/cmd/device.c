/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * device.c -- the network address of an RDMA device, from /sys
 *
 * RoCE: ports/1/gid_attrs/ndevs/N names the interface of GID N. InfiniBand: device/net/ holds it.
 */
#include "cmd/device.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/rails.h"

#define CLASS_DIR "/sys/class/infiniband"
#define VERBS_DIR "/sys/class/infiniband_verbs"

enum {
	PATH_BYTES = 512,
	GIDS_MAX = 16 /* GIDs that are read */
};

int ol_interface_host(const char *interface, char ret_host[OL_HOST_MAX])
{
	struct ifaddrs *list;
	int rc = -ENODEV;

	if (getifaddrs(&list) != 0)
		return -errno;
	for (const struct ifaddrs *at = list; at != NULL && rc != 0; at = at->ifa_next) {
		struct sockaddr_in in;

		if (at->ifa_addr == NULL || at->ifa_addr->sa_family != AF_INET ||
		    strcmp(at->ifa_name, interface) != 0)
			continue;
		memcpy(&in, at->ifa_addr, sizeof(in));
		if (inet_ntop(AF_INET, &in.sin_addr, ret_host, OL_HOST_MAX) != NULL)
			rc = 0;
	}
	freeifaddrs(list);
	return rc;
}

static int roce_host(const char *device, char ret_host[OL_HOST_MAX])
{
	char path[PATH_BYTES], interface[IF_NAMESIZE];
	int rc = -ENODEV;

	for (int gid = 0; gid < GIDS_MAX && rc != 0; gid++) {
		FILE *file;

		snprintf(path, sizeof(path), CLASS_DIR "/%.64s/ports/1/gid_attrs/ndevs/%d", device,
			 gid);
		file = fopen(path, "re");
		if (file == NULL)
			continue;
		if (fscanf(file, "%15s", interface) == 1)
			rc = ol_interface_host(interface, ret_host);
		fclose(file);
	}
	return rc;
}

static int infiniband_host(const char *device, char ret_host[OL_HOST_MAX])
{
	char path[PATH_BYTES];
	struct dirent *entry;
	int rc = -ENODEV;
	DIR *dir;

	snprintf(path, sizeof(path), CLASS_DIR "/%.64s/device/net", device);
	dir = opendir(path);
	while (dir != NULL && rc != 0 && (entry = readdir(dir)) != NULL) {
		if (entry->d_name[0] != '.')
			rc = ol_interface_host(entry->d_name, ret_host);
	}
	if (dir != NULL)
		closedir(dir);
	return rc;
}

static int one_host(const char *device, char ret_host[OL_HOST_MAX])
{
	int rc = roce_host(device, ret_host);

	return rc == 0 ? 0 : infiniband_host(device, ret_host);
}

/* True if programs can open it. One that is being removed is in CLASS_DIR until its users are gone */
static bool has_verbs(const char *device)
{
	char path[PATH_BYTES], name[PATH_BYTES];
	struct dirent *entry;
	DIR *dir = opendir(VERBS_DIR);
	bool has = dir == NULL; /* it cannot be seen: no sign */

	while (dir != NULL && !has && (entry = readdir(dir)) != NULL) {
		FILE *file;

		snprintf(path, sizeof(path), VERBS_DIR "/%.64s/ibdev", entry->d_name);
		file = fopen(path, "re");
		if (file == NULL)
			continue;
		has = fscanf(file, "%511s", name) == 1 && strcmp(name, device) == 0;
		fclose(file);
	}
	if (dir != NULL)
		closedir(dir);
	return has;
}

static int device_host(const char *device, char ret_host[OL_HOST_MAX], char *err, size_t err_bytes)
{
	struct dirent *entry;
	bool any = false, found = false;
	int rc = -ENODEV;
	DIR *dir = opendir(CLASS_DIR);

	while (dir != NULL && rc != 0 && (entry = readdir(dir)) != NULL) {
		if (entry->d_name[0] == '.' || !has_verbs(entry->d_name))
			continue;
		any = true;
		if (device != NULL && strcmp(device, entry->d_name) != 0)
			continue;
		found = true;
		rc = one_host(entry->d_name, ret_host);
	}
	if (dir != NULL)
		closedir(dir);
	if (rc == 0)
		return 0;
	if (!any)
		snprintf(err, err_bytes, "no RDMA device on this machine");
	else if (!found)
		snprintf(err, err_bytes, "no RDMA device named %.64s", device);
	else
		snprintf(
			err, err_bytes,
			"RDMA device %.64s: its interface has no IPv4 address (on InfiniBand that takes "
			"IPoIB): give another network's, as oob:HOST; outlast doctor says "
			"more",
			device != NULL ? device : "of this machine");
	return -ENODEV;
}

int ol_device_host(const char *list, uint32_t first, char ret_host[OL_HOST_MAX], char *err,
		   size_t err_bytes)
{
	struct ol_rails rails;
	int rc = ol_rails_parse(list, &rails);

	if (rc != 0) {
		snprintf(err, err_bytes, "device \"%.80s\": " OL_RAILS_HELP, list);
		return rc;
	}
	if (rails.count == 0)
		return device_host(NULL, ret_host, err, err_bytes);
	for (uint32_t i = 0; i < rails.count; i++) {
		rc = device_host(rails.names[(first + i) % rails.count], ret_host, err, err_bytes);
		if (rc == 0)
			break;
	}
	return rc;
}

int ol_device_listen(const char *listen, const char *list, uint32_t first, char room[OL_LISTEN_MAX],
		     const char **ret_listen, char *err, size_t err_bytes)
{
	char host[OL_HOST_MAX];
	int rc;

	*ret_listen = listen;
	if (listen[0] != ':')
		return 0;
	rc = ol_device_host(list, first, host, err, err_bytes);
	if (rc != 0)
		return rc;
	snprintf(room, OL_LISTEN_MAX, "%s%.15s", host, listen);
	*ret_listen = room;
	return 0;
}
