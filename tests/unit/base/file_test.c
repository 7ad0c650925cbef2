/* Files: atomic replacement, names of folders, times and ids as text. */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../check.h"
#include "base/clock.h"

static void replace_and_read(const char *path)
{
	struct sc_err err;
	struct sc_bytes b;

	sc_bytes_init(&b, 8);
	CHECK_OK(sc_replace_file(path, "old", 3, 0644, true, &err), &err);
	CHECK_OK(sc_replace_file(path, "newer", 5, 0644, false, &err), &err);
	CHECK_OK(sc_read_file(path, &b, &err), &err);
	CHECK_MEM(b.data, b.len, "newer");
	CHECK_OK(sc_replace_file(path, "123456789", 9, 0644, false, &err), &err);
	CHECK_INT(sc_read_file(path, &b, &err), SC_E_DATA);
	sc_bytes_done(&b);
	CHECK_INT(unlink(path), 0);
	CHECK_INT(sc_read_file(path, &b, &err), SC_E_NOLOG);
	CHECK_INT(err.errnum, ENOENT);
	sc_bytes_done(&b);
}

TEST(replaced_whole_or_not)
{
	char folder[] = "/tmp/sc-file-XXXXXX", path[64];

	CHECK(mkdtemp(folder) != NULL);
	snprintf(path, sizeof(path), "%s/x", folder);
	replace_and_read(path);
	CHECK_INT(rmdir(folder), 0); /* so no temporary was left either */
}

static void put(const char *folder, const char *name)
{
	char path[128];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	CHECK(fd >= 0 && close(fd) == 0);
}

/* Of all names in the folder, those that a killed writer of "x" left go, and no others. */
TEST(what_a_killed_writer_left_goes)
{
	static const char *const stay[] = { "x",      "x.tmp",     "x.12",    "x.12.tmp2",
					    "x..tmp", "xy.12.tmp", "x.1a.tmp" };
	char folder[] = "/tmp/sc-file-XXXXXX", path[64], name[128];

	CHECK(mkdtemp(folder) != NULL);
	for (size_t i = 0; i < 7; i++)
		put(folder, stay[i]);
	put(folder, "x.1.tmp");
	put(folder, "x.123456.tmp");
	snprintf(path, sizeof(path), "%s/x", folder);
	sc_replace_sweep(path);
	for (size_t i = 0; i < 7; i++) {
		snprintf(name, sizeof(name), "%s/%s", folder, stay[i]);
		CHECK_INT(unlink(name), 0);
	}
	CHECK_INT(rmdir(folder), 0);
	sc_replace_sweep("/nonexistent/x");
}

TEST(refused_where_there_is_no_folder)
{
	struct sc_err err;

	CHECK(sc_replace_file("/nonexistent/x", "a", 1, 0644, true, &err) < 0);
	CHECK(strstr(err.object, "/nonexistent/x") != NULL);
}

TEST(names_of_folders)
{
	char name[32];

	CHECK_INT(sc_path_base("a/b/", name, sizeof(name)), 0);
	CHECK_STR(name, "b");
	CHECK_INT(sc_path_base("b", name, sizeof(name)), 0);
	CHECK_STR(name, "b");
	CHECK_INT(sc_path_base("/tmp/.", name, sizeof(name)), 0);
	CHECK_STR(name, "tmp");
	CHECK_INT(sc_path_base("/", name, sizeof(name)), 0);
	CHECK_STR(name, "");
	CHECK_INT(sc_path_base("/a/..b", name, sizeof(name)), 0);
	CHECK_STR(name, "..b");
	CHECK_INT(sc_path_base("/a/0123456789012345678901234567890123456789", name, sizeof(name)),
		  -1);
}

TEST(times_as_text)
{
	char text[SC_TIME_TEXT], a[SC_UUID_TEXT], b[SC_UUID_TEXT];

	sc_time_text(1790038800123456, text);
	CHECK_STR(text, "2026-09-22T01:00:00.123456Z");
	sc_time_text(-1, text);
	CHECK_STR(text, "1969-12-31T23:59:59.999999Z");
	sc_time_text(INT64_MAX, text);
	CHECK_STR(text, "9999-12-31T23:59:59.999999Z");
	sc_uuid(a);
	sc_uuid(b);
	CHECK(strcmp(a, b) != 0);
	CHECK(a[14] == '4' && strlen(a) == 36);
	for (int i = 0; i < 1000; i++)
		CHECK(sc_random_below(7) < 7);
}

TEST(parents_are_made)
{
	char folder[] = "/tmp/sc-file-XXXXXX", path[96];
	struct stat st;
	struct sc_err err;

	CHECK(mkdtemp(folder) != NULL);
	snprintf(path, sizeof(path), "%s/a/b/c/", folder);
	CHECK_OK(sc_make_parents(path, true, &err), &err);
	CHECK_OK(sc_make_parents(path, true, &err), &err);
	snprintf(path, sizeof(path), "%s/a/b/c", folder);
	CHECK_INT(stat(path, &st), -1);
	*strrchr(path, '/') = 0;
	CHECK_INT(rmdir(path), 0);
	*strrchr(path, '/') = 0;
	CHECK_INT(rmdir(path), 0);
	CHECK_INT(rmdir(folder), 0);
	CHECK_INT(sc_make_parents("/proc/none/c/d", true, &err), SC_E_CANTCREAT);
}

/* A reader that begins late: 1 MiB through a pipe. */
static void *read_late(void *arg)
{
	static char buf[65536];
	size_t *got = arg;
	int fd = (int)*got;
	ssize_t n;

	usleep(50000);
	for (*got = 0; (n = read(fd, buf, sizeof(buf))) > 0;)
		*got += (size_t)n;
	return NULL;
}

TEST(all_is_written_where_writes_do_not_wait)
{
	static char data[1 << 20];
	struct sc_err err;
	pthread_t reader;
	int fds[2];
	size_t got;

	CHECK(pipe(fds) == 0);
	CHECK(sc_set_nonblock(fds[1], true) == 0);
	got = (size_t)fds[0];
	CHECK(pthread_create(&reader, NULL, read_late, &got) == 0);
	CHECK_OK(sc_write_all(fds[1], data, sizeof(data), "pipe", &err), &err);
	close(fds[1]);
	pthread_join(reader, NULL);
	CHECK_INT(got, sizeof(data));
	close(fds[0]);
	/* nobody reads any more: that is an error, and no wait */
	signal(SIGPIPE, SIG_IGN);
	CHECK(pipe(fds) == 0);
	CHECK(sc_set_nonblock(fds[1], true) == 0);
	close(fds[0]);
	CHECK_INT(sc_write_all(fds[1], data, sizeof(data), "pipe", &err), SC_E_IO);
	CHECK_INT(err.errnum, EPIPE);
	close(fds[1]);
}
