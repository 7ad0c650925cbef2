/*
 * tests/interop/storeprobe.c: one call of the store room from the command line, for the tests.
 *
 *     storeprobe [NAME=VALUE]... URL VERB [ARGUMENT]...
 *
 * put KEY FILE [absent|ETAG]   get KEY   range KEY AT LEN   tail KEY LEN   head KEY   copy KEY FILE
 * verify KEY FILE
 * list PREFIX [AFTER]   folders PREFIX [AFTER]   delete KEY   sweep PREFIX BEFORE_S   check
 *
 * Bytes go to stdout as they are, facts as "NAME VALUE" lines; an error as JSON to stderr, and its
 * status is the exit status. NAME: tries retry_for_ms backoff_ms backoff_max_ms connect_ms stall_ms
 * multipart part memory (put from memory) max (of get).
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "store/digest.h"
#include "store/store.h"

static uint64_t from_memory, get_max = 64 << 20;

static void show(const struct sc_store_info *info)
{
	char hex[65] = "-";

	if (info->hashed)
		sc_digest_hex(info->sha256, sizeof(info->sha256), hex);
	printf("size %" PRIu64 "\netag %s\nsha256 %s\ndated %d\n", info->size, info->etag, hex,
	       info->modified_us > 0);
}

static int put(struct sc_store *s, char **args, struct sc_err *err)
{
	const char *only_if = args[2] && !strcmp(args[2], "absent") ? SC_STORE_ABSENT : args[2];
	struct sc_store_info info;
	struct sc_bytes data;
	struct stat st;
	int fd = -1, rc;

	sc_bytes_init(&data, UINT32_MAX);
	if (from_memory) {
		rc = sc_read_file(args[1], &data, err);
		if (rc == 0)
			rc = sc_store_put(s, args[0], data.data, data.len, only_if, &info, err);
	} else {
		fd = open(args[1], O_RDONLY | O_CLOEXEC);
		if (fd < 0 || fstat(fd, &st) < 0)
			rc = sc_err_set(err, SC_E_NOLOG, "cannot open", "no such file");
		else
			rc = sc_store_put_fd(s, args[0], fd, 0, (uint64_t)st.st_size, only_if,
					     &info, err);
	}
	if (rc == 0)
		show(&info);
	sc_close(&fd);
	sc_bytes_done(&data);
	return rc;
}

static int get(struct sc_store *s, const char *key, struct sc_err *err)
{
	struct sc_bytes data;
	int rc;

	sc_bytes_init(&data, get_max);
	rc = sc_store_get(s, key, &data, NULL, err);
	if (rc == 0)
		fwrite(data.data ? data.data : "", 1, data.len, stdout);
	sc_bytes_done(&data);
	return rc;
}

static int range(struct sc_store *s, char **args, bool tail, struct sc_err *err)
{
	size_t len = strtoull(args[tail ? 1 : 2], NULL, 10), got = 0;
	char *data = malloc(len + 1);
	int rc;

	if (!data)
		return sc_err_nomem(err, "cannot read");
	rc = tail ? sc_store_tail(s, args[0], len, data, &got, NULL, err)
		  : sc_store_range(s, args[0], NULL, strtoull(args[1], NULL, 10), len, data, &got,
				   NULL, err);
	if (rc == 0)
		fwrite(data, 1, got, stdout);
	free(data);
	return rc;
}

static int verify(struct sc_store *s, char **args, struct sc_err *err)
{
	int fd = open(args[1], O_RDONLY | O_CLOEXEC), rc;
	struct sc_sums sums;
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return sc_err_set(err, SC_E_NOLOG, "cannot open", "no such file");
	rc = sc_digest_fd(fd, 0, (uint64_t)st.st_size, &sums, err);
	close(fd);
	return rc < 0 ? rc : sc_store_verify(s, args[0], (uint64_t)st.st_size, sums.sha256, err);
}

static int copy(struct sc_store *s, char **args, struct sc_err *err)
{
	int fd = open(args[1], O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666), rc;

	rc = sc_store_copy(s, args[0], fd, args[1], NULL, err);
	close(fd);
	return rc;
}

static int each(void *arg, const struct sc_store_item *item, struct sc_err *err)
{
	(void)arg;
	(void)err;
	printf("%s %" PRIu64 " %d\n", item->key, item->size,
	       item->modified_us > 0 && item->etag[0]);
	return 0;
}

static int head(struct sc_store *s, const char *key, struct sc_err *err)
{
	struct sc_store_info info;
	int rc = sc_store_head(s, key, &info, err);

	if (rc == 0)
		show(&info);
	return rc;
}

static int sweep(struct sc_store *s, char **args, struct sc_err *err)
{
	uint64_t removed;
	int rc = sc_store_sweep(s, args[0], sc_wall_us() - strtoll(args[1], NULL, 10) * 1000000,
				&removed, err);

	if (rc == 0)
		printf("removed %" PRIu64 "\n", removed);
	return rc;
}

static int run(struct sc_store *s, const char *verb, char **args, int count, struct sc_err *err)
{
	struct sc_store_listing what = { .prefix = count > 0 ? args[0] : "",
					 .after = count > 1 ? args[1] : "",
					 .folders = !strcmp(verb, "folders") };

	if (!strcmp(verb, "put") && count >= 2)
		return put(s, args, err);
	if (!strcmp(verb, "get") && count == 1)
		return get(s, args[0], err);
	if (!strcmp(verb, "range") && count == 3)
		return range(s, args, false, err);
	if (!strcmp(verb, "tail") && count == 2)
		return range(s, args, true, err);
	if (!strcmp(verb, "head") && count == 1)
		return head(s, args[0], err);
	if (!strcmp(verb, "copy") && count == 2)
		return copy(s, args, err);
	if (!strcmp(verb, "verify") && count == 2)
		return verify(s, args, err);
	if (!strcmp(verb, "list") || what.folders)
		return sc_store_list(s, &what, each, NULL, err);
	if (!strcmp(verb, "delete") && count == 1)
		return sc_store_delete(s, args[0], err);
	if (!strcmp(verb, "sweep") && count == 2)
		return sweep(s, args, err);
	if (!strcmp(verb, "check"))
		return sc_store_check_conditions(s, err);
	return sc_err_set(err, SC_E_USAGE, "cannot run", "no such verb, or not so many arguments");
}

static void setting(struct sc_store_settings *s, const char *name, size_t len, uint64_t value)
{
	struct {
		const char *name;
		int64_t *into;
	} times[] = {
		{ "retry_for_ms", &s->retry_for_ms },
		{ "backoff_ms", &s->backoff_ms },
		{ "backoff_max_ms", &s->backoff_max_ms },
		{ "connect_ms", &s->connect_ms },
		{ "stall_ms", &s->stall_ms },
	};
	struct {
		const char *name;
		uint64_t *into;
	} sizes[] = {
		{ "multipart", &s->multipart_bytes },
		{ "part", &s->part_bytes },
		{ "memory", &from_memory },
		{ "max", &get_max },
	};
	struct sc_span given = sc_span(name, len);

	if (sc_span_is(given, "tries"))
		s->tries = (unsigned)value;
	for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++)
		if (sc_span_is(given, times[i].name))
			*times[i].into = (int64_t)value;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		if (sc_span_is(given, sizes[i].name))
			*sizes[i].into = value;
}

int main(int argc, char **argv)
{
	struct sc_store_settings settings = { .tries = 0 };
	struct sc_store *store = NULL;
	struct sc_err err;
	char text[2048];
	int rc, i = 1;

	for (; i < argc && strchr(argv[i], '=') && !sc_store_is_url(argv[i]); i++)
		setting(&settings, argv[i], strcspn(argv[i], "="),
			strtoull(strchr(argv[i], '=') + 1, NULL, 10));
	if (argc - i < 2)
		return 64;
	sc_err_clear(&err);
	rc = sc_store_open(argv[i], &settings, &store, &err);
	if (rc == 0)
		rc = run(store, argv[i + 1], argv + i + 2, argc - i - 2, &err);
	sc_store_close(store);
	if (fflush(stdout) != 0)
		return 74;
	if (rc < 0) {
		sc_err_json(&err, text, sizeof(text));
		fprintf(stderr, "%s\n", text);
	}
	return sc_code_status(rc < 0 ? rc : 0);
}
