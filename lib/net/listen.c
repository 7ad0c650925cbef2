/* net/listen.c: addresses to sockets. */
#include "net/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/file.h"

static const char tried[] = "cannot listen on";

enum { BACKLOG = 4096, FIRST_PASSED = 3 };

void sc_listen_name(const struct sockaddr *address, socklen_t len, char *text, size_t size)
{
	char host[INET6_ADDRSTRLEN] = "";

	if (len >= sizeof(struct sockaddr_in) && address->sa_family == AF_INET) {
		const struct sockaddr_in *in = (const struct sockaddr_in *)address;

		inet_ntop(AF_INET, &in->sin_addr, host, sizeof(host));
		snprintf(text, size, "%s:%d", host, ntohs(in->sin_port));
	} else if (len >= sizeof(struct sockaddr_in6) && address->sa_family == AF_INET6) {
		const struct sockaddr_in6 *in = (const struct sockaddr_in6 *)address;

		if (IN6_IS_ADDR_V4MAPPED(&in->sin6_addr)) {
			inet_ntop(AF_INET, &in->sin6_addr.s6_addr[12], host, sizeof(host));
			snprintf(text, size, "%s:%d", host, ntohs(in->sin6_port));
		} else {
			inet_ntop(AF_INET6, &in->sin6_addr, host, sizeof(host));
			snprintf(text, size, "[%s]:%d", host, ntohs(in->sin6_port));
		}
	} else {
		snprintf(text, size, "unix");
	}
}

static int fail(struct sc_err *err, const char *address, int code, const char *reason)
{
	sc_err_set(err, code, tried, "%s", reason);
	sc_err_on(err, "address", address);
	return code;
}

static int fail_sys(struct sc_err *err, const char *address, int errnum)
{
	int code = errnum == EACCES || errnum == EPERM ? SC_E_NOAUTH : SC_E_UNAVAILABLE;

	sc_err_sys(err, code, errnum, tried);
	sc_err_on(err, "address", address);
	if (errnum == EADDRINUSE)
		sc_err_next(
			err,
			"stop the other program, or choose another port (port 0 takes a free one)");
	return err ? err->code : code;
}

/* Takes FD over, also on failure. */
static int add_fd(struct sc_listen_list *list, int fd, const char *address,
		  struct sc_listen_socket **ret_socket, struct sc_err *err)
{
	struct sockaddr_storage own;
	socklen_t len = sizeof(own);
	struct sc_listen_socket *more, *s;

	memset(&own, 0, sizeof(own));
	if (getsockname(fd, (struct sockaddr *)&own, &len) < 0 || sc_set_nonblock(fd, true) < 0) {
		int e = errno;

		close(fd);
		return fail_sys(err, address, e);
	}
	more = sc_realloc(list->sockets, (list->count + 1) * sizeof(*more));
	if (!more) {
		close(fd);
		return sc_err_nomem(err, tried);
	}
	list->sockets = more;
	s = &more[list->count++];
	*s = (struct sc_listen_socket){ .fd = fd, .local = own.ss_family == AF_UNIX };
	sc_listen_name((struct sockaddr *)&own, len, s->name, sizeof(s->name));
	if (own.ss_family == AF_INET)
		s->port = ntohs(((struct sockaddr_in *)&own)->sin_port);
	else if (own.ss_family == AF_INET6)
		s->port = ntohs(((struct sockaddr_in6 *)&own)->sin6_port);
	else if (len > offsetof(struct sockaddr_un, sun_path) &&
		 ((struct sockaddr_un *)&own)->sun_path[0])
		snprintf(s->name, sizeof(s->name), "unix:%.107s",
			 ((struct sockaddr_un *)&own)->sun_path);
	*ret_socket = s;
	return 0;
}

/* A socket's file whose server is gone can be replaced; one that answers, or another kind of file,
 * cannot. */
static int remove_stale(const struct sockaddr_un *un, const char *address, struct sc_err *err)
{
	struct stat st;
	int fd, rc;

	if (lstat(un->sun_path, &st) < 0)
		return 0;
	if (!S_ISSOCK(st.st_mode))
		return fail(err, address, SC_E_UNAVAILABLE,
			    "there is a file of that name that is no socket");
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return fail_sys(err, address, errno);
	rc = connect(fd, (const struct sockaddr *)un, sizeof(*un)) < 0 ? errno : 0;
	close(fd);
	if (rc != ECONNREFUSED)
		return fail_sys(err, address, EADDRINUSE);
	if (unlink(un->sun_path) < 0 && errno != ENOENT)
		return fail_sys(err, address, errno);
	return 0;
}

static int add_unix(struct sc_listen_list *list, const char *address, struct sc_err *err)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	const char *path = address + strlen("unix:");
	struct sc_listen_socket *s;
	int fd, rc;

	if (!*path)
		return fail(err, address, SC_E_CONFIG, "the path is missing");
	if (strlen(path) >= sizeof(un.sun_path))
		return fail(err, address, SC_E_CONFIG,
			    "the path of a unix socket has at most 107 bytes");
	memcpy(un.sun_path, path, strlen(path));
	rc = remove_stale(&un, address, err);
	if (rc < 0)
		return rc;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return fail_sys(err, address, errno);
	if (bind(fd, (struct sockaddr *)&un, sizeof(un)) < 0 || listen(fd, BACKLOG) < 0) {
		int e = errno;

		close(fd);
		return fail_sys(err, address, e);
	}
	rc = add_fd(list, fd, address, &s, err);
	if (rc < 0)
		unlink(path);
	else
		snprintf(s->unlink, sizeof(s->unlink), "%s", path);
	return rc;
}

static int add_inherited(struct sc_listen_list *list, int fd, const char *address,
			 struct sc_err *err)
{
	int listens = 0;
	socklen_t len = sizeof(listens);
	struct sc_listen_socket *s;

	if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &len) < 0)
		return fail_sys(err, address, errno);
	if (!listens)
		return fail(err, address, SC_E_CONFIG,
			    "that descriptor is a socket that does not listen");
	if (fcntl(fd, F_SETFD, FD_CLOEXEC) < 0)
		return fail_sys(err, address, errno);
	return add_fd(list, fd, address, &s, err);
}

int sc_listen_add_passed(struct sc_listen_list *list, struct sc_err *err)
{
	const char *pid = getenv("LISTEN_PID"), *fds = getenv("LISTEN_FDS");
	uint64_t n = 0, p = 0;
	int rc = 0;

	if (!pid || !fds || !sc_u64_parse(sc_span_str(pid), &p) || p != (uint64_t)getpid() ||
	    !sc_u64_parse(sc_span_str(fds), &n))
		return 0;
	unsetenv("LISTEN_PID");
	unsetenv("LISTEN_FDS");
	unsetenv("LISTEN_FDNAMES");
	for (uint64_t i = 0; i < n && i < 1024 && rc == 0; i++) {
		char name[32];

		snprintf(name, sizeof(name), "fd:%d", FIRST_PASSED + (int)i);
		rc = add_inherited(list, FIRST_PASSED + (int)i, name, err);
	}
	return rc;
}

static int open_one(const struct addrinfo *ai, uint16_t port, bool both, int *ret_fd)
{
	struct sockaddr_storage at;
	int one = 1, off = !both, fd;

	memcpy(&at, ai->ai_addr, ai->ai_addrlen);
	if (ai->ai_family == AF_INET6)
		((struct sockaddr_in6 *)&at)->sin6_port = htons(port);
	else
		((struct sockaddr_in *)&at)->sin_port = htons(port);
	fd = socket(ai->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return errno;
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) < 0 ||
	    (ai->ai_family == AF_INET6 &&
	     setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off)) < 0) ||
	    bind(fd, (struct sockaddr *)&at, ai->ai_addrlen) < 0 || listen(fd, BACKLOG) < 0) {
		int e = errno;

		close(fd);
		return e;
	}
	*ret_fd = fd;
	return 0;
}

/* Every address the name stands for, on one port; those this machine does not have are left out. */
static int add_resolved(struct sc_listen_list *list, const struct addrinfo *all, uint16_t port,
			bool both, const char *address, struct sc_err *err)
{
	size_t before = list->count;
	int failed = 0;

	for (const struct addrinfo *ai = all; ai; ai = ai->ai_next) {
		struct sc_listen_socket *s;
		int fd = -1, e, rc;

		if (ai->ai_family != AF_INET && ai->ai_family != AF_INET6)
			continue;
		e = open_one(ai, port, both, &fd);
		if (e == EADDRNOTAVAIL || e == EAFNOSUPPORT) {
			failed = e;
			continue;
		}
		if (e)
			return fail_sys(err, address, e);
		rc = add_fd(list, fd, address, &s, err);
		if (rc < 0)
			return rc;
		if (port == 0)
			port = (uint16_t)s->port;
		if (both)
			break;
	}
	return list->count > before ? 0 : fail_sys(err, address, failed ? failed : EADDRNOTAVAIL);
}

static int add_tcp(struct sc_listen_list *list, const char *address, const char *host,
		   uint16_t port, struct sc_err *err)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE }, *all = NULL;
	bool every = strcmp(host, "*") == 0;
	int rc;

	/* One socket for both families where the machine has IPv6. */
	rc = getaddrinfo(every ? "::" : host, NULL, &hints, &all);
	if (rc != 0) {
		sc_err_set(err, SC_E_CONFIG, tried, "the host cannot be found: %s",
			   gai_strerror(rc));
		return sc_err_on(err, "address", address);
	}
	rc = add_resolved(list, all, port, every, address, err);
	freeaddrinfo(all);
	if (rc < 0 && every && err && err->errnum == EAFNOSUPPORT) {
		sc_err_clear(err);
		return add_tcp(list, address, "0.0.0.0", port, err);
	}
	return rc;
}

int sc_listen_add(struct sc_listen_list *list, const char *address, struct sc_err *err)
{
	const char *colon = strrchr(address, ':'), *port_text;
	uint64_t port;
	char host[256] = "127.0.0.1";
	size_t len;

	if (strncmp(address, "unix:", 5) == 0)
		return add_unix(list, address, err);
	if (strncmp(address, "fd:", 3) == 0) {
		if (!sc_u64_parse(sc_span_str(address + 3), &port) || port > 1000000)
			return fail(err, address, SC_E_CONFIG,
				    "after fd: comes a descriptor's number");
		return add_inherited(list, (int)port, address, err);
	}
	len = colon ? (size_t)(colon - address) : 0;
	port_text = colon ? colon + 1 : address;
	if (!sc_u64_parse(sc_span_str(port_text), &port) || port > 65535)
		return fail(err, address, SC_E_CONFIG,
			    "it is not HOST:PORT, [IPV6]:PORT, :PORT or unix:PATH (ports are 0 to "
			    "65535)");
	if (len >= sizeof(host))
		return fail(err, address, SC_E_CONFIG, "the host is too long");
	if (len > 2 && address[0] == '[' && colon[-1] == ']')
		snprintf(host, sizeof(host), "%.*s", (int)len - 2, address + 1);
	else if (len && memchr(address, ':', len))
		return fail(err, address, SC_E_CONFIG,
			    "an IPv6 address stands in brackets: [::1]:8765");
	else if (len)
		snprintf(host, sizeof(host), "%.*s", (int)len, address);
	return add_tcp(list, address, host, (uint16_t)port, err);
}

void sc_listen_done(struct sc_listen_list *list)
{
	for (size_t i = 0; i < list->count; i++) {
		close(list->sockets[i].fd);
		if (list->sockets[i].unlink[0])
			unlink(list->sockets[i].unlink);
	}
	free(list->sockets);
	*list = (struct sc_listen_list){ 0 };
}

static int put_ready(const struct sc_listen_list *list, struct sc_span members,
		     struct sc_bytes *out)
{
	int port = 0, rc;

	for (size_t i = 0; i < list->count && !port; i++)
		port = list->sockets[i].port;
	rc = sc_bytes_putf(out, "{\"event\":\"ready\",\"pid\":%ld,\"port\":%d,\"addresses\":[",
			   (long)getpid(), port);
	for (size_t i = 0; rc == 0 && i < list->count; i++) {
		rc = i ? sc_bytes_putc(out, ',') : 0;
		if (rc == 0)
			rc = sc_bytes_put_json(out, sc_span_str(list->sockets[i].name));
	}
	if (rc == 0)
		rc = sc_bytes_putc(out, ']');
	if (rc == 0)
		rc = sc_bytes_put(out, members.data, members.len);
	return rc < 0 ? rc : sc_bytes_puts(out, "}\n");
}

int sc_listen_tell(const struct sc_listen_list *list, struct sc_span members, const char *about,
		   int ready_fd,
		   void (*say)(enum sc_level level, const char *fields, const char *format, ...),
		   struct sc_err *err)
{
	struct sc_bytes line;
	int rc = 0;

	sc_bytes_init(&line, 1 << 20);
	if (put_ready(list, members, &line) < 0) {
		rc = sc_err_nomem(err, "cannot tell that it is ready");
	} else if (ready_fd >= 0) {
		rc = sc_write_all(ready_fd, line.data, line.len, "ready", err);
		close(ready_fd);
	}
	if (rc == 0 && say) {
		/* the JSON line without its braces and newline is the message's fields */
		line.data[line.len - 2] = 0;
		for (size_t i = 0; i < list->count; i++)
			say(SC_NOTICE, i ? NULL : line.data + 1, "listening on %s%s",
			    list->sockets[i].name, about);
	}
	sc_bytes_done(&line);
	return rc;
}
