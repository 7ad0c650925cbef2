/*
 * Goal: a listing of a server that says without end that there is more ends all the same. Method: a
 * server in a thread that answers each request with the same page.
 */
#include <arpa/inet.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../check.h"
#include "store/store.h"

static const char *page;
static atomic_int asked;

static void answer(int fd)
{
	char head[4096], reply[4096];
	size_t len = 0;
	int n;

	while (len < sizeof(head) - 1 && !memmem(head, len, "\r\n\r\n", 4)) {
		ssize_t got = read(fd, head + len, sizeof(head) - 1 - len);

		if (got <= 0)
			return;
		len += (size_t)got;
	}
	atomic_fetch_add(&asked, 1);
	n = snprintf(reply, sizeof(reply),
		     "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\nConnection: close\r\n\r\n%s",
		     strlen(page), page);
	CHECK(write(fd, reply, (size_t)n) == n);
}

static void *serve(void *arg)
{
	int listener = *(int *)arg, fd;

	while ((fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
		answer(fd);
		close(fd);
	}
	return NULL;
}

/* More than any test asks: then it would go on for ever. */
static bool enough(void *arg)
{
	(void)arg;
	return atomic_load(&asked) > 20;
}

static int take(void *arg, const struct sc_store_item *item, struct sc_err *err)
{
	(void)item;
	(void)err;
	++*(int *)arg;
	return 0;
}

TEST(a_listing_that_does_not_move_on_ends)
{
	static const char more[] =
		"<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>t"
		"</NextContinuationToken></ListBucketResult>";
	static const char uploads[] =
		"<ListMultipartUploadsResult><IsTruncated>true</IsTruncated><NextKeyMarker>k"
		"</NextKeyMarker><NextUploadIdMarker>u</NextUploadIdMarker>"
		"</ListMultipartUploadsResult>";
	struct sc_store_settings settings = { .anonymous = true, .stop = enough };
	struct sc_store_listing all = { .prefix = NULL };
	struct sockaddr_in address = { .sin_family = AF_INET };
	socklen_t size = sizeof(address);
	struct sc_store *store = NULL;
	struct sc_err err;
	uint64_t removed;
	char url[64];
	pthread_t thread;
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), count = 0;

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	CHECK(bind(listener, (struct sockaddr *)&address, size) == 0 && listen(listener, 8) == 0);
	CHECK(getsockname(listener, (struct sockaddr *)&address, &size) == 0);
	snprintf(url, sizeof(url), "http://127.0.0.1:%d", ntohs(address.sin_port));
	setenv("AWS_ENDPOINT_URL", url, 1);
	setenv("AWS_CONFIG_FILE", "/dev/null", 1);
	setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null", 1);
	page = more;
	CHECK(pthread_create(&thread, NULL, serve, &listener) == 0);
	CHECK_OK(sc_store_open("s3://bucket/x", &settings, &store, &err), &err);
	CHECK_INT(sc_store_list(store, &all, take, &count, &err), SC_E_PROTOCOL);
	CHECK(strstr(err.reason, "does not end"));
	CHECK_INT(atomic_load(&asked), 2);
	page = uploads;
	CHECK_INT(sc_store_sweep(store, "", INT64_MAX, &removed, &err), SC_E_PROTOCOL);
	CHECK(strstr(err.reason, "does not end"));
	CHECK_INT(atomic_load(&asked), 4);
	sc_store_close(store);
	shutdown(listener, SHUT_RDWR);
	pthread_join(thread, NULL);
	close(listener);
}
