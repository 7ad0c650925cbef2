/*
 * tests/unit/log/web_help.h: a folder behind a small web server of our own, to read archives from,
 * which answers when the test wants.
 *
 * web_hold(PART): requests whose path holds PART wait, after their head was sent, until
 * web_hold(NULL). web_fail(STATUS): all requests get that status, until web_fail(0).
 */
#ifndef SC_TESTS_LOG_WEB_HELP_H
#define SC_TESTS_LOG_WEB_HELP_H

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "../check.h"

static struct {
	char folder[300];
	int listener, port;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	char held[64];
	int status;
	unsigned asked, waiting, open; /* requests ever, held now; connections */
	bool ending;
} web = { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };

static inline bool web_send(int fd, const void *data, size_t len)
{
	const char *at = data;

	while (len) {
		ssize_t n = send(fd, at, len, MSG_NOSIGNAL);

		if (n <= 0)
			return false;
		at += n;
		len -= (size_t)n;
	}
	return true;
}

/* The status to give; waits while the path is held. */
static inline int web_gate(const char *path)
{
	int status;

	pthread_mutex_lock(&web.lock);
	web.asked++;
	web.waiting++;
	pthread_cond_broadcast(&web.changed);
	while (!web.ending && web.held[0] && strstr(path, web.held))
		pthread_cond_wait(&web.changed, &web.lock);
	web.waiting--;
	status = web.status;
	pthread_mutex_unlock(&web.lock);
	return status;
}

/* One answer. False: the connection is of no more use. */
static inline bool web_answer(int fd, char *head)
{
	char path[700], file[1024], text[256];
	unsigned long long from = 0, to = 0, size;
	char *range = strstr(head, "Range: bytes=");
	struct stat st;
	int status, in, n;
	bool ok;
	char *data;

	if (sscanf(head, "GET %600s", path) != 1)
		return false;
	status = web_gate(path);
	snprintf(file, sizeof(file), "%s%s", web.folder, path);
	in = open(file, O_RDONLY);
	if (status || in < 0 || fstat(in, &st) < 0) {
		if (in >= 0)
			close(in);
		n = snprintf(text, sizeof(text), "HTTP/1.1 %d no\r\nContent-Length: 0\r\n\r\n",
			     status ? status : 404);
		return web_send(fd, text, (size_t)n);
	}
	size = (unsigned long long)st.st_size;
	to = size - 1;
	if (range && range[13] == '-') {
		from = strtoull(range + 14, NULL, 10);
		from = from < size ? size - from : 0;
	} else if (range) {
		sscanf(range + 13, "%llu-%llu", &from, &to);
		to = to < size ? to : size - 1;
	}
	if (range)
		n = snprintf(text, sizeof(text),
			     "HTTP/1.1 206 ok\r\nContent-Range: bytes %llu-%llu/%llu\r\n"
			     "Content-Length: %llu\r\n\r\n",
			     from, to, size, to - from + 1);
	else
		n = snprintf(text, sizeof(text), "HTTP/1.1 200 ok\r\nContent-Length: %llu\r\n\r\n", size);
	data = malloc(size);
	ok = data && pread(in, data, size, 0) == (ssize_t)size && web_send(fd, text, (size_t)n) &&
	     web_send(fd, data + from, (size_t)(to - from + 1));
	free(data);
	close(in);
	return ok;
}

static inline void *web_connection(void *arg)
{
	int fd = (int)(intptr_t)arg;
	char head[4096];
	size_t len = 0;
	bool ok = true;

	while (ok) {
		ssize_t n = recv(fd, head + len, sizeof(head) - 1 - len, 0);

		if (n <= 0)
			break;
		len += (size_t)n;
		head[len] = 0;
		if (!strstr(head, "\r\n\r\n"))
			continue;
		ok = web_answer(fd, head);
		len = 0;
	}
	close(fd);
	pthread_mutex_lock(&web.lock);
	web.open--;
	pthread_cond_broadcast(&web.changed);
	pthread_mutex_unlock(&web.lock);
	return NULL;
}

static inline void *web_serve(void *arg)
{
	int listener = (int)(intptr_t)arg;

	for (;;) {
		int fd = accept(listener, NULL, NULL);
		pthread_t thread;

		if (fd < 0)
			return NULL;
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){ 1 }, sizeof(int));
		pthread_mutex_lock(&web.lock);
		web.open++;
		pthread_mutex_unlock(&web.lock);
		if (pthread_create(&thread, NULL, web_connection, (void *)(intptr_t)fd) != 0)
			abort();
		pthread_detach(thread);
	}
}

static inline void web_start(const char *folder)
{
	struct sockaddr_in at = { .sin_family = AF_INET };
	socklen_t size = sizeof(at);

	at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	snprintf(web.folder, sizeof(web.folder), "%s", folder);
	web.ending = false;
	web.asked = 0;
	web.listener = socket(AF_INET, SOCK_STREAM, 0);
	CHECK(web.listener >= 0 && bind(web.listener, (struct sockaddr *)&at, size) == 0);
	CHECK(listen(web.listener, 64) == 0 && getsockname(web.listener, (struct sockaddr *)&at, &size) == 0);
	web.port = ntohs(at.sin_port);
	CHECK(pthread_create(&web.thread, NULL, web_serve, (void *)(intptr_t)web.listener) == 0);
}

static inline void web_hold(const char *part)
{
	pthread_mutex_lock(&web.lock);
	snprintf(web.held, sizeof(web.held), "%s", part ? part : "");
	pthread_cond_broadcast(&web.changed);
	pthread_mutex_unlock(&web.lock);
}

static inline void web_fail(int status)
{
	pthread_mutex_lock(&web.lock);
	web.status = status;
	pthread_mutex_unlock(&web.lock);
}

static inline unsigned web_asked(void)
{
	unsigned asked;

	pthread_mutex_lock(&web.lock);
	asked = web.asked;
	pthread_mutex_unlock(&web.lock);
	return asked;
}

static inline unsigned web_held(void)
{
	unsigned waiting;

	pthread_mutex_lock(&web.lock);
	waiting = web.waiting;
	pthread_mutex_unlock(&web.lock);
	return waiting;
}

/* Until COUNT requests are held at once. */
static inline void web_await_held(unsigned count)
{
	pthread_mutex_lock(&web.lock);
	while (web.waiting < count)
		pthread_cond_wait(&web.changed, &web.lock);
	pthread_mutex_unlock(&web.lock);
}

/* After the clients closed their connections. */
static inline void web_stop(void)
{
	struct timespec until;
	unsigned left;

	web_hold(NULL);
	web_fail(0);
	shutdown(web.listener, SHUT_RDWR);
	pthread_join(web.thread, NULL);
	close(web.listener);
	pthread_mutex_lock(&web.lock);
	web.ending = true;
	pthread_cond_broadcast(&web.changed);
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += 20;
	while (web.open && pthread_cond_timedwait(&web.changed, &web.lock, &until) == 0)
		;
	left = web.open;
	pthread_mutex_unlock(&web.lock);
	CHECK_INT(left, 0);
}

#endif
