/*
 * Goal: a write to a folder is whole or not there, whatever call fails, and leaves nothing behind.
 * Method: each write, sync, rename, unlink and allocation fails in turn (SC_FAULT, in a child),
 * then the folder is looked at, and the write done again.
 */
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../check.h"
#include "base/clock.h"
#include "base/file.h"
#include "store/digest.h"
#include "store/store.h"

static char root[] = "/tmp/sc-folder.XXXXXX", url[64];
static struct sc_err err;
static struct sc_store *store;

static void begin(void)
{
	if (!url[0]) {
		CHECK(mkdtemp(root));
		snprintf(url, sizeof(url), "file://%s", root);
	}
	sc_store_close(store);
	store = NULL;
	CHECK_OK(sc_store_open(url, NULL, &store, &err), &err);
}

static int remove_one(void *arg, const struct sc_store_item *item, struct sc_err *e)
{
	(void)arg;
	return sc_store_delete(store, item->key, e);
}

static void empty(void)
{
	static const struct sc_store_listing all;

	CHECK_OK(sc_store_list(store, &all, remove_one, NULL, &err), &err);
}

/* Files of a folder whose names begin with a dot, and are not the lock. */
static int hidden(const char *path)
{
	DIR *dir = opendir(path);
	struct dirent *entry;
	int count = 0;

	CHECK(dir);
	while ((entry = readdir(dir)))
		count += entry->d_name[0] == '.' && strcmp(entry->d_name, ".") &&
			 strcmp(entry->d_name, "..") && strcmp(entry->d_name, ".sc-lock");
	closedir(dir);
	return count;
}

static int holds(const char *key, const char *want)
{
	struct sc_bytes data;
	int same, rc;

	sc_bytes_init(&data, 1000);
	rc = sc_store_get(store, key, &data, NULL, &err);
	same = rc == 0 && data.len == strlen(want) &&
	       (!data.len || !memcmp(data.data, want, data.len));
	sc_bytes_done(&data);
	return rc < 0 ? rc : same;
}

/* Runs `child` in a process whose calls fail so. Returns its status. */
static int in_child(const char *fault, const char *how)
{
	int status;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		setenv("SC_FAULT", fault, 1);
		setenv("STORE_CHILD", how, 1);
		setenv("STORE_URL", url, 1);
		if (freopen("/dev/null", "w", stdout))
			execl("/proc/self/exe", "folder_test", "child", (char *)NULL);
		_exit(99);
	}
	CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
	CHECK(WIFEXITED(status));
	return WEXITSTATUS(status);
}

TEST(child)
{
	const char *how = getenv("STORE_CHILD");
	struct sc_store *own = NULL;
	int rc;

	if (!how)
		return;
	rc = sc_store_open(getenv("STORE_URL"), NULL, &own, &err);
	if (rc == 0 && !strcmp(how, "delete"))
		rc = sc_store_delete(own, "deep/er/key", &err);
	else if (rc == 0)
		rc = sc_store_put(own, "deep/er/key", "new words", 9,
				  !strcmp(how, "create") ? SC_STORE_ABSENT : NULL, NULL, &err);
	sc_store_close(own);
	/* an error has words, and names something */
	if (rc < 0 && (!err.tried[0] || !err.reason[0]))
		_exit(98);
	_exit(rc < 0 ? 1 : 0);
}

static void fails_in_turn(const char *how)
{
	static const char *const calls[] = { "pwrite", "fsync", "rename", "unlink", "malloc" };
	bool create = !strcmp(how, "create");
	char deep[100];

	begin();
	snprintf(deep, sizeof(deep), "%s/deep/er", root);
	for (size_t c = 0; c < sizeof(calls) / sizeof(calls[0]); c++)
		for (int n = 1, status = 1; status != 0 || n <= 3; n++) {
			char fault[64];
			int new;

			empty();
			if (!create)
				CHECK_OK(sc_store_put(store, "deep/er/key", "old", 3, NULL, NULL,
						      &err),
					 &err);
			snprintf(fault, sizeof(fault), "%s:%d:%s", calls[c], n,
				 c == 4 ? "ENOMEM" : "EIO");
			status = in_child(fault, how);
			if (status > 1)
				FAIL("%s: status %d under %s", how, status, fault);
			new = holds("deep/er/key", "new words");
			if (status == 0 && new != 1)
				FAIL("%s: said to be done under %s, and is not", how, fault);
			if (new != 1 &&
			    (create ? new != SC_E_NOLOG : holds("deep/er/key", "old") != 1))
				FAIL("%s: neither old nor new under %s", how, fault);
			/* only a failed unlink of the temporary itself may leave it, and then a
			 * sweep finds it */
			if (!access(deep, F_OK) && hidden(deep) > 0) {
				uint64_t removed = 0;

				if (c != 3)
					FAIL("%s: something is left under %s", how, fault);
				CHECK_OK(sc_store_sweep(store, "deep/", sc_wall_us() + 1000000,
							&removed, &err),
					 &err);
				CHECK_INT(removed, 1);
			}
			CHECK_INT(in_child("", create && new == 1 ? "over" : how), 0);
			CHECK_INT(holds("deep/er/key", "new words"), 1);
			CHECK(n < 200);
		}
}

TEST(a_create_is_whole_or_not_there)
{
	fails_in_turn("create");
}

TEST(a_replacement_is_new_or_old)
{
	fails_in_turn("over");
}

TEST(conditions_hold_within_one_tick)
{
	struct sc_store_info info, last;
	char etags[200][SC_STORE_ETAG_SIZE];

	begin();
	empty();
	CHECK_OK(sc_store_put(store, "k", "0", 1, SC_STORE_ABSENT, &info, &err), &err);
	for (int i = 0; i < 200; i++) {
		memcpy(etags[i], info.etag, sizeof(etags[i]));
		for (int j = 0; j < i; j++)
			CHECK(strcmp(etags[j], etags[i]) != 0);
		last = info;
		CHECK_OK(sc_store_put(store, "k", "1", 1, last.etag, &info, &err), &err);
		CHECK_INT(sc_store_put(store, "k", "2", 1, last.etag, NULL, &err), SC_E_BUSY);
	}
	CHECK_INT(sc_store_put(store, "k", "2", 1, "", NULL, &err), SC_E_USAGE);
	CHECK_INT(sc_store_put(store, "k", "2", 1, "a\r\nb", NULL, &err), SC_E_USAGE);
	CHECK_INT(holds("k", "1"), 1);
}

/* A version that is later has the later time, whatever the clock says: so no etag comes twice. */
TEST(versions_do_not_go_back_in_time)
{
	struct timespec ahead[2] = { { 0, UTIME_OMIT },
				     { (time_t)(sc_wall_us() / 1000000 + 3600), 999999999 } };
	struct sc_store_info before, after;
	char path[100];

	begin();
	empty();
	CHECK_OK(sc_store_put(store, "k", "0", 1, NULL, NULL, &err), &err);
	snprintf(path, sizeof(path), "%s/k", root);
	CHECK(utimensat(AT_FDCWD, path, ahead, 0) == 0);
	CHECK_OK(sc_store_head(store, "k", &before, &err), &err);
	CHECK_OK(sc_store_put(store, "k", "1", 1, before.etag, &after, &err), &err);
	CHECK(after.modified_us > before.modified_us);
	CHECK_OK(sc_store_head(store, "k", &before, &err), &err);
	CHECK_STR(after.etag, before.etag);
}

/* Threads that all want the same, each with its own handle. */
#define RIVALS 4
#define ROUNDS 40

static pthread_barrier_t barrier;
static int created[ROUNDS];

static void *create_rounds(void *arg)
{
	struct sc_store *own = NULL;
	char key[32], *words = arg;

	if (sc_store_open(url, NULL, &own, NULL) < 0)
		return "cannot open";
	for (int i = 0; i < ROUNDS; i++) {
		int rc;

		snprintf(key, sizeof(key), "race-%d", i);
		pthread_barrier_wait(&barrier);
		rc = sc_store_put(own, key, words, strlen(words), SC_STORE_ABSENT, NULL, NULL);
		if (rc == 0)
			__atomic_add_fetch(&created[i], 1, __ATOMIC_RELAXED);
		else if (rc != SC_E_BUSY)
			words = "another error";
	}
	sc_store_close(own);
	return words == arg ? NULL : words;
}

static void *count_up(void *arg)
{
	struct sc_store *own = NULL;
	struct sc_store_info info;
	struct sc_bytes data;
	void *result = NULL;

	(void)arg;
	if (sc_store_open(url, NULL, &own, NULL) < 0)
		return "cannot open";
	sc_bytes_init(&data, 100);
	for (int done = 0; done < ROUNDS / 2 && !result;) {
		char digits[24];
		uint64_t value = 0;
		int rc = sc_store_get(own, "count", &data, &info, NULL);

		if (rc == SC_E_BUSY) /* replaced between two reads of it */
			continue;
		if (rc < 0 || !sc_u64_parse(sc_span(data.data, data.len), &value)) {
			result = "cannot read";
			break;
		}
		rc = sc_store_put(own, "count", digits, sc_u64_digits(digits, value + 1), info.etag,
				  NULL, NULL);
		done += rc == 0;
		if (rc < 0 && rc != SC_E_BUSY)
			result = "cannot put";
	}
	sc_bytes_done(&data);
	sc_store_close(own);
	return result;
}

static void together(void *(*run)(void *arg))
{
	static char words[RIVALS][16];
	pthread_t ids[RIVALS];

	CHECK(pthread_barrier_init(&barrier, NULL, RIVALS) == 0);
	for (int i = 0; i < RIVALS; i++) {
		snprintf(words[i], sizeof(words[i]), "by %d", i);
		CHECK(pthread_create(&ids[i], NULL, run, words[i]) == 0);
	}
	for (int i = 0; i < RIVALS; i++) {
		void *wrong;

		pthread_join(ids[i], &wrong);
		if (wrong)
			FAIL("a rival: %s", (char *)wrong);
	}
	pthread_barrier_destroy(&barrier);
}

TEST(of_those_who_create_one_does)
{
	begin();
	empty();
	memset(created, 0, sizeof(created));
	together(create_rounds);
	for (int i = 0; i < ROUNDS; i++)
		CHECK_INT(created[i], 1);
	CHECK_INT(hidden(root), 0);
}

TEST(of_those_who_replace_a_version_one_does)
{
	char want[24];

	begin();
	empty();
	CHECK_OK(sc_store_put(store, "count", "0", 1, NULL, NULL, &err), &err);
	together(count_up);
	snprintf(want, sizeof(want), "%d", RIVALS * (ROUNDS / 2));
	CHECK_INT(holds("count", want), 1);
}

TEST(a_file_that_is_shorter_than_said_is_refused)
{
	int fd;

	begin();
	empty();
	fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	CHECK(fd >= 0);
	CHECK_INT(sc_store_put_fd(store, "k", fd, 0, UINT64_C(1) << 40, SC_STORE_ABSENT, NULL,
				  &err),
		  SC_E_DATA);
	CHECK_INT(sc_store_put_fd(store, "k", fd, UINT64_MAX, 1, SC_STORE_ABSENT, NULL, &err),
		  SC_E_USAGE);
	close(fd);
	CHECK_INT(holds("k", ""), SC_E_NOLOG);
	CHECK_INT(hidden(root), 0);
}

static bool stop_now(void *arg)
{
	(void)arg;
	return true;
}

TEST(a_call_ends_when_it_is_asked_to)
{
	struct sc_store_settings settings = { .stop = stop_now };
	struct sc_store *own = NULL;
	char place[64];

	begin();
	snprintf(place, sizeof(place), "%s", url);
	CHECK_OK(sc_store_open(place, &settings, &own, &err), &err);
	CHECK_INT(sc_store_put(own, "k2", "1", 1, NULL, NULL, &err), SC_E_TIMEOUT);
	sc_store_close(own);
	own = NULL;
	/* nobody answers there: without the stop this would be tried for minutes */
	CHECK_OK(sc_store_open("http://127.0.0.1:1/x", &settings, &own, &err), &err);
	CHECK_INT(sc_store_head(own, "k", NULL, &err), SC_E_TIMEOUT);
	sc_store_close(own);
	CHECK_INT(hidden(root), 0);
}

TEST(sums)
{
	struct sc_sums sums;
	char hex[65];

	CHECK_OK(sc_digest_data("abc", 3, &sums, &err), &err);
	sc_digest_hex(sums.sha256, 32, hex);
	CHECK_STR(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
	sc_digest_hex(sums.md5, 16, hex);
	CHECK_STR(hex, "900150983cd24fb0d6963f7d28e17f72");
}

TEST(null_errors_are_taken)
{
	struct sc_bytes data;
	struct sc_store *none = NULL;
	size_t len;

	begin();
	sc_bytes_init(&data, 10);
	CHECK_INT(sc_store_open("x", NULL, &none, NULL), SC_E_USAGE);
	CHECK_INT(sc_store_put(store, "n", "0123456789x", 11, SC_STORE_ABSENT, NULL, NULL), 0);
	CHECK_INT(sc_store_put(store, "n", "", 0, SC_STORE_ABSENT, NULL, NULL), SC_E_BUSY);
	CHECK_INT(sc_store_get(store, "n", &data, NULL, NULL), SC_E_DATA);
	CHECK_INT(sc_store_head(store, "none", NULL, NULL), SC_E_NOLOG);
	CHECK_INT(sc_store_range(store, "n", "\"other\"", 0, 0, NULL, &len, NULL, NULL), SC_E_BUSY);
	CHECK_INT(sc_store_delete(store, "/", NULL), SC_E_USAGE);
	CHECK_INT(sc_store_check_conditions(store, NULL), 0);
	sc_bytes_done(&data);
}

TEST(zz_clean)
{
	char path[100];

	begin();
	empty();
	snprintf(path, sizeof(path), "%s/deep/er", root);
	rmdir(path);
	snprintf(path, sizeof(path), "%s/deep", root);
	rmdir(path);
	snprintf(path, sizeof(path), "%s/.sc-lock", root);
	unlink(path);
	sc_store_close(store);
	store = NULL;
	CHECK(rmdir(root) == 0);
}
