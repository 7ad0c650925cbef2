/*
 * recover_test: logs that crashed. Goal: every acknowledged row is there once, nothing torn or
 * damaged is ever handed out, and the next open needs no manual step. Method: journals cut,
 * flipped and overwritten byte by byte; indexes deleted, stale, from another boot or plain
 * garbage; then the log is opened and read.
 */
#include "help.h"

#include "log/block.h"

static char kept[260];

/* A log of COMMITS commits with ROWS rows each, closed, and a copy of its journal. */
static uint64_t make_log(size_t commits, size_t rows)
{
	struct sc_log *log;
	uint64_t next = 1;

	log_new(0);
	log = open_log(SC_LOG_APPEND);
	for (size_t i = 0; i < commits; i++) {
		CHECK_OK(append_n(log, next, rows, NULL), &err);
		next += rows;
	}
	sc_log_close(log);
	snprintf(kept, sizeof(kept), "%s/kept", log_dir);
	copy_file(last_journal(), kept);
	return next - 1;
}

static off_t journal_used(void)
{
	char buf[4096];
	int fd = open(kept, O_RDONLY);
	off_t at = 0, used = 0;
	ssize_t n;

	while ((n = pread(fd, buf, sizeof(buf), at)) > 0) {
		for (ssize_t i = 0; i < n; i++)
			if (buf[i])
				used = at + i + 1;
		at += n;
	}
	close(fd);
	return used;
}

static void overwrite(off_t from, off_t to, char fill)
{
	char buf[4096];
	int fd = open(last_journal(), O_WRONLY);

	CHECK(fd >= 0);
	memset(buf, fill, sizeof(buf));
	while (from < to) {
		size_t n = to - from < (off_t)sizeof(buf) ? (size_t)(to - from) : sizeof(buf);

		CHECK(pwrite(fd, buf, n, from) == (ssize_t)n);
		from += (off_t)n;
	}
	close(fd);
}

/* The last commit is torn at every byte: what was before it stays, and appending goes on there. */
static void tear(size_t commits, size_t rows, off_t step, char fill)
{
	uint64_t last = make_log(commits, rows), before = last - rows;
	off_t used = journal_used();
	struct sc_log *log;

	/*
	 * where does the last commit begin? the lowest cut that leaves all before it, found by
	 * halves
	 */
	off_t low = 0, high = used;

	while (low + 1 < high) {
		off_t mid = (low + high) / 2;
		struct sc_log_state state;

		copy_file(kept, last_journal());
		overwrite(mid, used, 0);
		drop_index();
		log = NULL;
		if (sc_log_open(log_path, SC_LOG_READ, &log, &err) == 0 &&
		    sc_log_state(log, &state, &err) == 0 && state.next_offset > before)
			high = mid;
		else
			low = mid;
		sc_log_close(log);
	}
	CHECK(high < used - 90);
	for (off_t cut = high; cut < used; cut += step) {
		copy_file(kept, last_journal());
		overwrite(cut, used, fill);
		drop_index();
		log = open_log(SC_LOG_APPEND);
		check_holds(log, 1, before);
		CHECK_OK(append_n(log, before + 1, rows, NULL), &err);
		CHECK_OK(append_n(log, last + 1, 1, NULL), &err);
		check_holds(log, 1, last + 1);
		sc_log_close(log);
	}
	log_done();
}

TEST(recover_torn_one_row)
{
	tear(3, 1, 1, 0);
}

TEST(recover_torn_garbage)
{
	tear(3, 2, 5, '\xff');
}

TEST(recover_torn_commit_of_many_blocks)
{
	tear(2, 40000, 60011, 0);
}

TEST(recover_bit_flips)
{
	uint64_t last = make_log(5, 2);
	off_t used = journal_used();
	struct sc_bytes want, got;

	sc_bytes_init(&want, 1 << 20);
	sc_bytes_init(&got, 1 << 20);
	want_lines(1, last, &want);
	for (off_t at = 0; at < used; at++) {
		struct sc_log *log = NULL;
		char byte;
		int fd, rc;

		copy_file(kept, last_journal());
		fd = open(last_journal(), O_RDWR);
		CHECK(pread(fd, &byte, 1, at) == 1);
		byte = (char)(byte ^ 1 << at % 8);
		CHECK(pwrite(fd, &byte, 1, at) == 1);
		close(fd);
		/*
		 * without an index: damage is told, or the last commit is taken for a torn one;
		 * never wrong lines
		 */
		drop_index();
		rc = sc_log_open(log_path, SC_LOG_READ, &log, &err);
		if (rc == 0)
			rc = read_all(log, 1, 0, &got);
		CHECK(rc == 0 || rc == SC_E_DATA);
		if (rc == 0) {
			CHECK(got.len >= want.len * 4 / 5 - 2);
			CHECK(memcmp(got.data, want.data, got.len) == 0);
		}
		sc_log_close(log);
	}
	sc_bytes_done(&want);
	sc_bytes_done(&got);
	log_done();
}

TEST(recover_damage_is_never_handed_out)
{
	uint64_t last = make_log(5, 2);
	off_t used = journal_used();
	struct sc_log *log = open_log(SC_LOG_READ);
	struct sc_bytes want, got;
	off_t anchor;
	char head[1024];
	int kept_fd = open(kept, O_RDONLY);

	CHECK(read(kept_fd, head, sizeof(head)) == sizeof(head));
	close(kept_fd);
	anchor = (char *)memmem(head + 8, sizeof(head) - 8, head, 8) -
		 head; /* where the second block begins */

	sc_bytes_init(&want, 1 << 20);
	sc_bytes_init(&got, 1 << 20);
	want_lines(1, last, &want);
	for (off_t at = 0; at < used; at++) {
		char byte;
		int fd = open(last_journal(), O_RDWR), rc;

		CHECK(pread(fd, &byte, 1, at) == 1);
		byte = (char)(byte ^ 0x10);
		CHECK(pwrite(fd, &byte, 1, at) == 1);
		rc = read_all(log, 1, 0, &got);
		CHECK(got.len == 0 || memcmp(got.data, want.data, got.len) == 0);
		if (rc == 0) {
			/* the anchor is not on the way to the first row */
			CHECK(at < anchor && got.len == want.len);
		} else {
			CHECK_INT(rc, SC_E_DATA);
			CHECK(got.len < want.len && strstr(err.fields, "\"last_good\":") != NULL);
		}
		byte = (char)(byte ^ 0x10);
		CHECK(pwrite(fd, &byte, 1, at) == 1);
		close(fd);
	}
	sc_log_close(log);
	sc_bytes_done(&want);
	sc_bytes_done(&got);
	log_done();
}

/* index.mdb and index.state put back over themselves, as a backup does: older than the journals. */
TEST(recover_stale_index)
{
	char mdb[260], state[260];
	struct sc_log *log;

	log_new(16 << 10);
	snprintf(mdb, sizeof(mdb), "%s/mdb", log_dir);
	snprintf(state, sizeof(state), "%s/state", log_dir);
	log = open_log(SC_LOG_APPEND);
	CHECK_OK(append_n(log, 1, 10, NULL), &err);
	sc_log_close(log);
	for (int more = 1; more < 4000; more = more * 3 + 1) {
		uint64_t next;
		struct sc_log_state s;

		log = open_log(SC_LOG_APPEND);
		CHECK_OK(sc_log_state(log, &s, &err), &err);
		next = s.next_offset;
		sc_log_close(log);
		copy_file(in_log("index.mdb"), mdb);
		copy_file(in_log("index.state"), state);
		log = open_log(SC_LOG_APPEND);
		CHECK_OK(append_n(log, next, (size_t)more, NULL), &err);
		CHECK_OK(append_n(log, next + (uint64_t)more, 1, NULL), &err);
		sc_log_close(log);
		copy_file(mdb, in_log("index.mdb"));
		copy_file(state, in_log("index.state"));
		log = open_log(SC_LOG_APPEND);
		check_holds(log, 1, next + (uint64_t)more);
		CHECK_OK(append_n(log, next + (uint64_t)more + 1, 1, NULL), &err);
		check_holds(log, 1, next + (uint64_t)more + 1);
		sc_log_close(log);
		/* only the index is old, the record is not */
		copy_file(mdb, in_log("index.mdb"));
		log = open_log(SC_LOG_READ);
		check_holds(log, 1, next + (uint64_t)more + 1);
		sc_log_close(log);
	}
	log_done();
}

TEST(recover_other_boot)
{
	uint64_t last = make_log(20, 3);
	struct sc_log *log;
	struct sc_log_state state;
	int fd = open(in_log("index.mdb"), O_WRONLY);
	char junk[8192];

	memset(junk, 0x5a, sizeof(junk));
	CHECK(pwrite(fd, junk, sizeof(junk), 0) == (ssize_t)sizeof(junk));
	close(fd);
	setenv("SC_BOOT_ID", "00000000-0000-4000-8000-000000000001", 1);
	log = open_log(SC_LOG_READ);
	check_holds(log, 1, last);
	CHECK_OK(sc_log_state(log, &state, &err), &err);
	CHECK_INT(state.rows, last);
	sc_log_close(log);
	log = open_log(SC_LOG_APPEND);
	CHECK_OK(append_n(log, last + 1, 1, NULL), &err);
	sc_log_close(log);
	unsetenv("SC_BOOT_ID");
	log = open_log(SC_LOG_APPEND);
	check_holds(log, 1, last + 1);
	sc_log_close(log);
	log_done();
}

/*
 * Rows that were acknowledged are gone: told, and by hand given up without using an offset twice.
 */
TEST(recover_journal_cut)
{
	uint64_t last = make_log(20, 3);
	struct sc_log_commit commit;
	struct sc_log *log = NULL;
	off_t used = journal_used();

	overwrite(used - 400, used, 0);
	{
		struct sc_bytes got;
		int rc;

		sc_bytes_init(&got, 1 << 20);
		rc = sc_log_open(log_path, SC_LOG_APPEND, &log, &err);
		if (rc == 0)
			rc = read_all(log, 1, 0, &got);
		CHECK_INT(rc, SC_E_DATA);
		sc_bytes_done(&got);
	}
	sc_log_close(log);
	log = NULL;
	unlink(in_log("index.mdb"));
	CHECK_INT(sc_log_open(log_path, SC_LOG_APPEND, &log, &err), SC_E_DATA);
	CHECK(strstr(err.next, "sc-log reindex") != NULL);
	CHECK_OK(sc_log_reindex(log_path, &err), &err);
	log = open_log(SC_LOG_APPEND);
	CHECK_OK(append_n(log, last + 1, 1, &commit), &err);
	CHECK_INT(commit.first, last + 1);
	sc_log_close(log);
	log_done();
}

TEST(recover_missing_journal)
{
	struct sc_log *log;
	char first[300];
	DIR *dir;
	struct dirent *entry;

	log_new(4 << 10);
	log = open_log(SC_LOG_APPEND);
	for (uint64_t i = 1; i <= 300; i++)
		CHECK_OK(append_n(log, i, 1, NULL), &err);
	sc_log_close(log);
	drop_index();
	snprintf(first, sizeof(first), "%s", in_log("journal/00000000000000000001.journal"));
	CHECK(unlink(first) == 0);
	log = NULL;
	CHECK_INT(sc_log_open(log_path, SC_LOG_READ, &log, &err), SC_E_DATA);
	CHECK(strstr(err.object, "00000000000000000001.journal") != NULL);
	CHECK(strstr(err.next, "sc-log trim") != NULL);
	/* as the message says */
	{
		uint64_t give_up = strtoull(strstr(err.next, "--before ") + 9, NULL, 10);

		log = open_log(SC_LOG_REPAIR);
		CHECK_OK(sc_log_trim(log, give_up, &err), &err);
		sc_log_close(log);
		drop_index();
		log = open_log(SC_LOG_APPEND);
		check_holds(log, give_up, 300);
		CHECK_OK(append_n(log, 301, 1, NULL), &err);
		sc_log_close(log);
	}
	/* one in the middle */
	drop_index();
	dir = opendir(in_log("journal"));
	for (int i = 0; (entry = readdir(dir));)
		if (entry->d_name[0] == '0' &&
		    strcmp(entry->d_name, strrchr(last_journal(), '/') + 1) != 0 && i++ == 2) {
			snprintf(first, sizeof(first), "journal/%s", entry->d_name);
			unlink(in_log(first));
		}
	closedir(dir);
	log = NULL;
	CHECK_INT(sc_log_open(log_path, SC_LOG_READ, &log, &err), SC_E_DATA);
	log_done();
}

TEST(recover_foreign_journal)
{
	struct sc_log *log;
	char id[256], other[512];

	log_new(0);
	snprintf(id, sizeof(id), "%s/other", log_dir);
	CHECK_OK(sc_log_create(id, &(struct sc_log_settings){ .message_max = 0 }, &err), &err);
	log = open_log(SC_LOG_APPEND);
	CHECK_OK(append_n(log, 1, 5, NULL), &err);
	sc_log_close(log);
	snprintf(other, sizeof(other), "%s/log.json", id);
	copy_file(other, in_log("log.json"));
	log = NULL;
	CHECK_INT(sc_log_open(log_path, SC_LOG_READ, &log, &err), SC_E_DATA);
	CHECK(strstr(err.reason, "another stream") != NULL);
	log_done();
}

/* A new journal was being made when the machine stopped: an empty or torn file of the next name. */
TEST(recover_torn_new_journal)
{
	uint64_t last = make_log(4, 3);
	static const size_t sizes[] = { 0, 1, 87, 88, 200, 65536 };
	struct sc_log *log;
	char name[64];

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		for (int with_index = 0; with_index < 2; with_index++) {
			int fd;

			snprintf(name, sizeof(name), "journal/%020llu.journal",
				 (unsigned long long)last + 1);
			fd = open(in_log(name), O_WRONLY | O_CREAT, 0666);
			CHECK(ftruncate(fd, (off_t)sizes[i]) == 0);
			close(fd);
			if (!with_index)
				drop_index();
			log = open_log(SC_LOG_APPEND);
			check_holds(log, 1, last);
			CHECK_OK(append_n(log, last + 1, 1, NULL), &err);
			last++;
			check_holds(log, 1, last);
			sc_log_close(log);
		}
	log_done();
}

/* Blocks of one row each, of later commits than the log has, behind a hole at its end. */
static uint64_t put_blocks_behind(uint64_t first, size_t count)
{
	int fd = open(last_journal(), O_WRONLY);
	off_t at = journal_used() + 200;
	char data[SC_BLOCK_HEAD + 64];

	CHECK(fd >= 0);
	for (size_t i = 0; i < count; i++) {
		int len = snprintf(data + SC_BLOCK_HEAD, sizeof(data) - SC_BLOCK_HEAD,
				   "[%llu,{\"n\":1}]\n", (unsigned long long)first + i);
		struct sc_block block = {
			.first = first + i,
			.last = first + i,
			.appended_us = 1700000000000000,
			.commit = 100 + i,
			.rows = 1,
			.body_len = (uint32_t)len,
		};

		sc_block_seal(data, &block);
		CHECK(pwrite(fd, data, sc_block_size(&block), at) ==
		      (ssize_t)sc_block_size(&block));
		at += (off_t)sc_block_size(&block);
	}
	close(fd);
	return (uint64_t)at;
}

static uint64_t bytes_read(void)
{
	FILE *f = fopen("/proc/self/io", "r");
	unsigned long long count = 0;

	CHECK(f != NULL);
	CHECK(fscanf(f, "rchar: %llu", &count) == 1);
	fclose(f);
	return count;
}

/* By hand all blocks behind a damaged one are looked for: each is read a few times, not the rest
 * of the journal with each. No offset of them is given again. */
TEST(recover_many_blocks_behind_damage)
{
	const size_t count = 20000;
	struct sc_log_commit commit;
	struct sc_log *log;
	uint64_t size, before;

	make_log(2, 3);
	size = put_blocks_behind(50, count);
	drop_index();
	CHECK_INT(sc_log_open(log_path, SC_LOG_APPEND, &log, &err), SC_E_DATA);
	before = bytes_read();
	CHECK_OK(sc_log_reindex(log_path, &err), &err);
	CHECK(bytes_read() - before < 20 * size);
	log = open_log(SC_LOG_APPEND);
	CHECK_OK(append_n(log, 1, 1, &commit), &err);
	CHECK_INT(commit.first, 50 + count);
	sc_log_close(log);
	log_done();
}

/* Numbers of a header that only fit together when they wrap round. */
TEST(block_offsets_do_not_wrap)
{
	static const struct {
		uint64_t first, last;
		uint32_t rows;
		bool fits;
	} cases[] = {
		{ 1, 3, 3, true },
		{ 1, 9, 3, true },
		{ 1, 2, 3, false },
		{ 5, 4, 0, true },
		{ 5, 5, 0, false },
		{ 1, 0, 0, true },
		{ UINT64_MAX - 3, UINT64_MAX - 1, 3, true },
		{ UINT64_MAX - 2, UINT64_MAX - 1, 3, false },
		{ UINT64_MAX - 1, 1, 3, false },
		{ UINT64_MAX, 5, 3, false },
		{ UINT64_MAX - 1, UINT64_MAX - 2, 3, false },
		{ UINT64_MAX - 2, UINT64_MAX, 3, false },
		{ 9, 3, 3, false },
	};
	char data[SC_BLOCK_HEAD + 64] = { 0 };

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct sc_block block = { .first = cases[i].first,
					  .last = cases[i].last,
					  .rows = cases[i].rows,
					  .body_len = cases[i].rows * 8 };
		struct sc_block got;

		sc_block_seal(data, &block);
		CHECK_INT(sc_block_parse(data, &got), cases[i].fits);
	}
}

/* A disk that does not give a journal back: it is named. A folder in its place is read as little. */
TEST(a_journal_that_cannot_be_read_is_named)
{
	struct sc_log *log, *seen;
	struct sc_log_proof proof;
	char away[300];

	log_new(4096);
	log = open_log(SC_LOG_APPEND);
	CHECK_OK(append_n(log, 1, 300, NULL), &err);
	CHECK_OK(append_n(log, 301, 300, NULL), &err);
	sc_log_close(log);
	seen = open_log(SC_LOG_READ);
	snprintf(away, sizeof(away), "%s/away", log_dir);
	CHECK(rename(in_log("journal/00000000000000000001.journal"), away) == 0);
	CHECK(mkdir(in_log("journal/00000000000000000001.journal"), 0755) == 0);
	CHECK_INT(sc_log_verify(log_path, 0, 0, &proof, &err), SC_E_IO);
	CHECK(strstr(err.object, "journal '/") && strstr(err.object, "00001.journal'"));
	drop_index();
	CHECK_INT(sc_log_open(log_path, SC_LOG_APPEND, &log, &err), SC_E_IO);
	CHECK(strstr(err.object, "journal '/") && strstr(err.object, "00001.journal'"));
	sc_log_close(seen);
	CHECK(rmdir(in_log("journal/00000000000000000001.journal")) == 0);
	log_done();
}
