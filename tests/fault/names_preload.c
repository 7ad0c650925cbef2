/*
 * names_preload.c: an LD_PRELOAD shim that says what a host's name means.
 *
 * SC_NAMES=NAME=IPV4[,NAME=IPV4]...; other names are the system's. Each look-up of one of them is a
 * byte in the file SC_NAMES_LOG.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void note(void)
{
	const char *path = getenv("SC_NAMES_LOG");
	int fd = path ? open(path, O_WRONLY | O_CREAT | O_APPEND, 0644) : -1;

	if (fd < 0)
		return;
	if (write(fd, ".", 1) < 0)
		perror(path);
	close(fd);
}

int getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
		struct addrinfo **list)
{
	int (*real)(const char *, const char *, const struct addrinfo *, struct addrinfo **);
	const char *names = getenv("SC_NAMES"), *at = names && node ? names : NULL;
	size_t len = node ? strlen(node) : 0;
	char address[64];

	*(void **)&real = dlsym(RTLD_NEXT, "getaddrinfo");
	/* an address needs no look-up */
	if (hints && hints->ai_flags & AI_NUMERICHOST)
		at = NULL;
	while (at && (strncmp(at, node, len) != 0 || at[len] != '=')) {
		at = strchr(at, ',');
		at = at ? at + 1 : NULL;
	}
	if (!at)
		return real(node, service, hints, list);
	note();
	snprintf(address, sizeof(address), "%.*s", (int)strcspn(at + len + 1, ","), at + len + 1);
	return real(address, service, hints, list);
}
