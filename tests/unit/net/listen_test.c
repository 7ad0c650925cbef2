/*
 * Goal    addresses become sockets as the contract says, and wrong ones name themselves.
 * Method  open, connect, look; no server.
 */
#include "net/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../check.h"

static struct sc_err err;
static struct sc_listen_list list;

static bool dial(int family, const char *host, int port)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
	struct sockaddr_in6 b = { .sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port) };
	int fd = socket(family, SOCK_STREAM, 0), rc;

	inet_pton(family, host, family == AF_INET ? (void *)&a.sin_addr : (void *)&b.sin6_addr);
	rc = family == AF_INET ? connect(fd, (struct sockaddr *)&a, sizeof(a))
			       : connect(fd, (struct sockaddr *)&b, sizeof(b));
	close(fd);
	return rc == 0;
}

TEST(ports_and_hosts)
{
	char want[64];

	CHECK_OK(sc_listen_add(&list, ":0", &err), &err);
	CHECK_OK(sc_listen_add(&list, "[::1]:0", &err), &err);
	CHECK_OK(sc_listen_add(&list, "0", &err), &err);
	CHECK_OK(sc_listen_add(&list, "*:0", &err), &err);
	CHECK_INT(list.count, 4);
	snprintf(want, sizeof(want), "127.0.0.1:%d", list.sockets[0].port);
	CHECK_STR(list.sockets[0].name, want);
	snprintf(want, sizeof(want), "[::1]:%d", list.sockets[1].port);
	CHECK_STR(list.sockets[1].name, want);
	CHECK(dial(AF_INET, "127.0.0.1", list.sockets[0].port));
	CHECK(!dial(AF_INET6, "::1", list.sockets[0].port));
	CHECK(dial(AF_INET6, "::1", list.sockets[1].port));
	CHECK(dial(AF_INET, "127.0.0.1", list.sockets[2].port));
	CHECK(dial(AF_INET, "127.0.0.1", list.sockets[3].port) &&
	      dial(AF_INET6, "::1", list.sockets[3].port));
	sc_listen_done(&list);
	CHECK_OK(sc_listen_add(&list, "localhost:0", &err), &err);
	for (size_t i = 1; i < list.count; i++)
		CHECK_INT(list.sockets[i].port, list.sockets[0].port);
	sc_listen_done(&list);
}

static void wrong(const char *address, int code)
{
	CHECK_INT(sc_listen_add(&list, address, &err), code);
	CHECK_INT(err.code, code);
	CHECK(strstr(err.object, address[0] ? address : "''"));
	CHECK_INT(list.count, 0);
}

TEST(wrong_addresses_name_themselves)
{
	wrong("", SC_E_CONFIG);
	wrong("127.0.0.1:65536", SC_E_CONFIG);
	wrong("127.0.0.1:x", SC_E_CONFIG);
	wrong("127.0.0.1", SC_E_CONFIG);
	wrong("::1:80", SC_E_CONFIG);
	wrong("unix:", SC_E_CONFIG);
	wrong("fd:x", SC_E_CONFIG);
	wrong("fd:999", SC_E_UNAVAILABLE);
	wrong("192.0.2.1:0", SC_E_UNAVAILABLE);
}

TEST(an_address_in_use_is_refused)
{
	struct sc_listen_list second = { 0 };
	char address[64];

	CHECK_OK(sc_listen_add(&list, "127.0.0.1:0", &err), &err);
	snprintf(address, sizeof(address), "127.0.0.1:%d", list.sockets[0].port);
	CHECK_INT(sc_listen_add(&second, address, &err), SC_E_UNAVAILABLE);
	CHECK_INT(err.errnum, EADDRINUSE);
	CHECK(strstr(err.next, "port"));
	sc_listen_done(&second);
	sc_listen_done(&list);
}

TEST(unix_sockets)
{
	char dir[] = "/tmp/sc-listen-XXXXXX", address[96], file[64];
	struct sc_listen_list second = { 0 };
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	int fd;

	CHECK(mkdtemp(dir));
	snprintf(address, sizeof(address), "unix:%s/s", dir);
	CHECK_OK(sc_listen_add(&list, address, &err), &err);
	CHECK_STR(list.sockets[0].name, address);
	CHECK(list.sockets[0].local);
	CHECK_INT(sc_listen_add(&second, address, &err), SC_E_UNAVAILABLE); /* it answers */
	CHECK_INT(access(address + 5, F_OK), 0);
	sc_listen_done(&list);
	CHECK(access(address + 5, F_OK) < 0);
	/* A file left by a killed server is replaced. */
	fd = socket(AF_UNIX, SOCK_STREAM, 0);
	strcpy(un.sun_path, address + 5);
	CHECK(bind(fd, (struct sockaddr *)&un, sizeof(un)) == 0);
	close(fd);
	CHECK_OK(sc_listen_add(&list, address, &err), &err);
	sc_listen_done(&list);
	/* Another file is not. */
	snprintf(file, sizeof(file), "%s/f", dir);
	close(open(file, O_CREAT | O_WRONLY, 0600));
	snprintf(address, sizeof(address), "unix:%s", file);
	CHECK_INT(sc_listen_add(&list, address, &err), SC_E_UNAVAILABLE);
	CHECK_INT(access(file, F_OK), 0);
	unlink(file);
	rmdir(dir);
	sc_listen_done(&list);
}

/* In a child, where descriptor 3 can be ours. */
static int passed_child(int fd)
{
	char pid[32];
	int one[2];

	if (fd != 3 && (dup2(fd, 3) != 3))
		return 1;
	snprintf(pid, sizeof(pid), "%d", (int)getpid());
	setenv("LISTEN_FDS", "1", 1);
	setenv("LISTEN_PID", "1", 1);
	if (sc_listen_add_passed(&list, &err) != 0 || list.count != 0)
		return 2; /* meant for another process */
	setenv("LISTEN_PID", pid, 1);
	if (sc_listen_add_passed(&list, &err) != 0 || list.count != 1 || list.sockets[0].fd != 3)
		return 3;
	if (getenv("LISTEN_FDS") || (fcntl(3, F_GETFD) & FD_CLOEXEC) == 0)
		return 4;
	sc_listen_done(&list);
	if (pipe(one) < 0 || dup2(one[0], 3) != 3)
		return 5;
	if (sc_listen_add(&list, "fd:3", &err) == 0)
		return 6; /* no socket */
	return 0;
}

TEST(passed_sockets)
{
	struct sc_listen_list own = { 0 };
	int status;
	pid_t child;

	CHECK_OK(sc_listen_add(&own, ":0", &err), &err);
	child = fork();
	CHECK(child >= 0);
	if (child == 0)
		_exit(passed_child(own.sockets[0].fd));
	CHECK(waitpid(child, &status, 0) == child);
	CHECK(WIFEXITED(status));
	CHECK_INT(WEXITSTATUS(status), 0);
	sc_listen_done(&own);
}
