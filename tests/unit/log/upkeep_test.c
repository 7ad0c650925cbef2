/*
 * upkeep_test: trim, verify, reindex, follow, read-only users, file systems. Goal: each does what
 * log.h and follow.h say.
 */
#include <pthread.h>
#include <sys/wait.h>

#include "help.h"

#include "base/clock.h"
#include "log/follow.h"
#include "log/log_internal.h"

static struct sc_log *filled(uint64_t journal_bytes, uint64_t rows)
{
	struct sc_log *log;

	log_new(journal_bytes);
	log = open_log(SC_LOG_APPEND);
	for (uint64_t i = 1; i <= rows; i += 3)
		CHECK_OK(append_n(log, i, i + 2 <= rows ? 3 : rows - i + 1, NULL), &err);
	return log;
}

static size_t count_journals(void)
{
	DIR *dir = opendir(in_log("journal"));
	struct dirent *entry;
	size_t n = 0;

	while ((entry = readdir(dir)))
		n += entry->d_name[0] == '0';
	closedir(dir);
	return n;
}

TEST(trim_is_exact_and_lasts)
{
	struct sc_log *log = filled(4 << 10, 900), *other = open_log(SC_LOG_READ);
	struct sc_reader *reader = NULL, *late = NULL;
	struct sc_log_state state;
	size_t before = count_journals();

	CHECK_OK(sc_reader_open(other, 0, &late, &err), &err);
	static const uint64_t floors[] = { 2, 3, 40, 41, 300, 555, 900, 901 };

	for (size_t i = 0; i < sizeof(floors) / sizeof(floors[0]); i++) {
		uint64_t floor = floors[i];

		CHECK_OK(sc_log_trim(log, floor, &err), &err);
		for (int lost = 0; lost < 2; lost++) {
			CHECK_OK(sc_log_state(log, &state, &err), &err);
			CHECK_INT(state.first_offset, floor);
			CHECK_INT(state.next_offset, 901);
			CHECK_INT(state.rows, 901 - floor);
			check_holds(log, floor, 900);
			CHECK_INT(sc_reader_open(log, floor - 1, &reader, &err), SC_E_REFUSED);
			CHECK(strstr(err.fields, "\"why\":\"evicted\"") != NULL);
			CHECK_INT(state.journals, count_journals());
			sc_log_close(log);
			if (lost == 0)
				drop_index();
			log = open_log(SC_LOG_APPEND);
		}
	}
	CHECK(count_journals() < before && count_journals() >= 1);
	CHECK_INT(state.first_us, 0);
	/* an open reader that is left behind is told, not skipped ahead */
	{
		struct sc_run run;
		int rc;

		while ((rc = sc_reader_next(late, 0, &run, &err)) == 1)
			;
		CHECK_INT(rc, SC_E_REFUSED);
		CHECK(strstr(err.fields, "\"why\":\"evicted\"") != NULL);
	}
	CHECK_INT(sc_log_trim(log, 902, &err), SC_E_REFUSED);
	CHECK_OK(append_n(log, 901, 1, NULL), &err);
	check_holds(log, 901, 901);
	sc_reader_close(late);
	sc_log_close(other);
	sc_log_close(log);
	log_done();
}

TEST(trim_killed_before_unlink)
{
	struct sc_log *log = filled(4 << 10, 900);
	char kept[300];
	size_t before = count_journals();

	/* the floor is on disk, the journals are still there */
	snprintf(kept, sizeof(kept), "%s/kept", log_dir);
	CHECK_OK(sc_log_trim(log, 450, &err), &err);
	copy_file(in_log("log.json"), kept);
	sc_log_close(log);
	log_done();
	log = filled(4 << 10, 900);
	sc_log_close(log);
	{
		/* the same floor in this log's own log.json */
		struct sc_settings s;

		sc_settings_init(&s);
		CHECK_OK(sc_settings_read(log_path, &s, &err), &err);
		s.floor = (struct sc_floor){ 450, 449, 0 };
		CHECK_OK(sc_settings_write(log_path, &s, &err), &err);
		sc_settings_done(&s);
	}
	drop_index();
	CHECK_INT(count_journals(), before);
	log = open_log(SC_LOG_APPEND);
	check_holds(log, 450, 900);
	CHECK_OK(sc_log_trim(log, 451, &err), &err);
	CHECK(count_journals() < before);
	check_holds(log, 451, 900);
	sc_log_close(log);
	log_done();
}

TEST(verify_proves_and_finds)
{
	struct sc_log *log = filled(4 << 10, 900);
	struct sc_log_proof all, part, again;
	char hash[33];
	int fd;

	CHECK_OK(sc_log_verify(log_path, 0, 0, &all, &err), &err);
	CHECK_INT(all.rows, 900);
	CHECK_INT(all.first, 1);
	CHECK_INT(all.last, 900);
	CHECK_INT(strlen(all.hash), 32);
	CHECK_INT(all.orphans, 0);
	CHECK_OK(sc_log_verify(log_path, 100, 199, &part, &err), &err);
	CHECK_INT(part.rows, 100);
	CHECK(strcmp(part.hash, all.hash) != 0);
	/* the hash is of the lines alone: a log with other commits has the same */
	sc_log_close(log);
	snprintf(hash, sizeof(hash), "%s", all.hash);
	log_done();
	log_new(0);
	log = open_log(SC_LOG_APPEND);
	CHECK_OK(append_n(log, 1, 900, NULL), &err);
	CHECK_OK(sc_log_verify(log_path, 0, 0, &again, &err), &err);
	CHECK_STR(again.hash, hash);
	CHECK_OK(sc_log_verify(log_path, 100, 199, &again, &err), &err);
	CHECK_STR(again.hash, part.hash);
	fd = open(in_log("journal/stray"), O_CREAT | O_WRONLY, 0600);
	close(fd);
	CHECK_OK(sc_log_verify(log_path, 0, 0, &again, &err), &err);
	CHECK_INT(again.orphans, 1);
	sc_log_close(log);
	log_done();
}

TEST(verify_finds_every_flip)
{
	struct sc_log *log = filled(0, 9);
	struct sc_log_proof proof;
	struct sc_log_state state;
	int fd = open(last_journal(), O_RDWR);
	char byte;
	off_t at;

	CHECK_OK(sc_log_state(log, &state, &err), &err);
	for (at = 0; pread(fd, &byte, 1, at) == 1; at++) {
		char was = byte;

		if (at > 400 && !byte)
			break; /* the zeros behind the end */
		byte = (char)(byte ^ 4);
		CHECK(pwrite(fd, &byte, 1, at) == 1);
		CHECK_INT(sc_log_verify(log_path, 0, 0, &proof, &err), SC_E_DATA);
		CHECK(pwrite(fd, &was, 1, at) == 1);
	}
	CHECK_OK(sc_log_verify(log_path, 0, 0, &proof, &err), &err);
	close(fd);
	sc_log_close(log);
	log_done();
}

TEST(reindex_under_appenders)
{
	struct sc_log *log = filled(4 << 10, 30), *other;

	for (uint64_t i = 31; i < 60; i += 3) {
		CHECK_OK(sc_log_reindex(log_path, &err), &err);
		other = open_log(
			SC_LOG_APPEND); /* this one has the new index, the other handle still the old */
		CHECK_OK(append_n(other, i, 1, NULL), &err);
		CHECK_OK(append_n(log, i + 1, 1, NULL), &err);
		CHECK_OK(append_n(other, i + 2, 1, NULL), &err);
		check_holds(log, 1, i + 2);
		sc_log_close(other);
	}
	sc_log_close(log);
	log_done();
}

static void *append_soon(void *arg)
{
	struct sc_log *log = NULL;
	struct sc_err mine;

	(void)arg;
	usleep(30000);
	if (sc_log_open(log_path, SC_LOG_APPEND, &log, &mine) == 0)
		append_n(log, 100, 1, NULL);
	sc_log_close(log);
	return NULL;
}

/* Woken, not by the slow look: at one of ten tries, as the machine may be busy. */
static void check_woken(struct sc_follow *follow, int round)
{
	int64_t least = INT64_MAX;

	for (int try = 0; try < 10 && least >= 700000; try++) {
		pthread_t thread;
		int64_t start = sc_mono_us(), took;

		if (round == 3)
			CHECK_OK(sc_log_reindex(log_path, &err),
				 &err); /* the watched file is another one now */
		if (round == 4)
			drop_index();
		CHECK(pthread_create(&thread, NULL, append_soon, NULL) == 0);
		CHECK_INT(sc_follow_wait(follow, -1, 5000, &err), 1);
		took = sc_mono_us() - start;
		pthread_join(thread, NULL);
		least = took < least ? took : least;
	}
	CHECK(least < 700000);
}

TEST(follow_wakes)
{
	struct sc_log *log = filled(0, 3), *reader_log = open_log(SC_LOG_READ);
	struct sc_follow *follow = NULL;
	int pipe_fds[2];

	CHECK(pipe(pipe_fds) == 0);
	CHECK_OK(sc_follow_open(reader_log, &follow, &err), &err);
	CHECK(sc_follow_fd(follow) >= 0);
	CHECK_INT(sc_follow_wait(follow, -1, 0, &err), 0);
	CHECK_INT(sc_follow_wait(follow, -1, 20, &err), 0);
	for (int round = 0; round < 6; round++)
		check_woken(follow, round);
	CHECK(write(pipe_fds[1], "x", 1) == 1);
	CHECK_INT(sc_follow_wait(follow, pipe_fds[0], 5000, &err), 0);
	sc_follow_close(follow);
	close(pipe_fds[0]);
	close(pipe_fds[1]);
	sc_log_close(reader_log);
	sc_log_close(log);
	log_done();
}

/* A user who may read only: no index, then an index made by somebody else, then growth. */
static int read_as_nobody(uint64_t to, bool refuse_append)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		struct sc_log *log = NULL;
		struct sc_bytes got, want;
		uint64_t at;

		if (setgid(65534) < 0 || setuid(65534) < 0)
			_exit(77);
		sc_bytes_init(&got, 1 << 24);
		sc_bytes_init(&want, 1 << 24);
		want_lines(1, to, &want);
		if (sc_log_open(log_path, SC_LOG_READ, &log, &err) < 0 ||
		    read_all(log, 1, 0, &got) < 0)
			_exit(1);
		if (got.len != want.len || memcmp(got.data, want.data, got.len))
			_exit(2);
		if (sc_log_source(log, SC_SPAN("none"), &at, &err) != 0)
			_exit(3);
		if (sc_log_count_from(log, 5, &at, &err) < 0 || at != to - 4)
			_exit(4);
		sc_log_close(log);
		log = NULL;
		if (refuse_append &&
		    sc_log_open(log_path, SC_LOG_APPEND, &log, &err) != SC_E_NOAUTH)
			_exit(5);
		_exit(0);
	}
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void move(const char *from, const char *to)
{
	CHECK(rename(from, to) == 0);
}

/* The log's folder is moved away, and another copy of it, as a restore makes one, comes to its
 * path: whoever reads, follows or appends goes on there. Another log, or none, is told. */
TEST(another_copy_comes_to_its_path)
{
	static const uint64_t beyond[] = { 1000, 1001 };
	uint32_t lens[] = { 1, 1 };
	struct sc_log_rows jumped = {
		.text = SC_SPAN("12"), .lens = lens, .offsets = beyond, .count = 2
	};
	struct sc_log_settings plain = { .journal_bytes = 0 };
	struct sc_log *log = filled(4096, 30), *other, *seen = open_log(SC_LOG_READ);
	struct sc_follow *follow = NULL;
	struct sc_reader *reader = NULL;
	struct sc_log_commit commit;
	char away[300], copy[300], command[900];
	struct sc_run run;

	snprintf(away, sizeof(away), "%s/away", log_dir);
	snprintf(copy, sizeof(copy), "%s/copy", log_dir);
	snprintf(command, sizeof(command), "cp -a '%s' '%s'", log_path, copy);
	CHECK(system(command) == 0);
	CHECK_OK(append_n(log, 31, 10, NULL), &err);
	CHECK_OK(sc_follow_open(seen, &follow, &err), &err);
	CHECK_OK(sc_reader_open(seen, 0, &reader, &err), &err);
	while (sc_reader_next(reader, 0, &run, &err) == 1)
		;
	CHECK_INT(sc_reader_offset(reader), 41);
	/* moved only: who reads it has it still, and nothing is appended that nobody would find */
	move(log_path, away);
	log->looked_us = seen->looked_us = 0;
	CHECK_INT(sc_reader_next(reader, 0, &run, &err), 0);
	CHECK_INT(append_n(log, 41, 1, NULL), SC_E_NOLOG);
	CHECK(strstr(err.reason, "its folder is gone"));
	move(copy, log_path);
	other = open_log(SC_LOG_APPEND);
	CHECK_OK(sc_log_append(other, &jumped, &commit, &err), &err);
	/* nobody says so: it is seen within a second or so */
	while (sc_follow_wait(follow, -1, 10000, &err) == 0)
		;
	sc_follow_clear(follow);
	CHECK_INT(sc_reader_next(reader, 0, &run, &err), 1);
	CHECK_INT(run.first, 1000);
	CHECK_INT(run.last, 1001);
	log->looked_us = 0;
	CHECK_OK(append_n(log, 1, 1, &commit), &err);
	CHECK_INT(commit.first, 1002);
	CHECK_INT(sc_follow_wait(follow, -1, 10000, &err), 1);
	CHECK_INT(sc_reader_next(reader, 0, &run, &err), 1);
	CHECK_INT(run.first, 1002);
	sc_log_close(other);
	/* none any more; and another one */
	remove_tree(log_path);
	CHECK_INT(sc_reader_next(reader, 0, &run, &err), SC_E_NOLOG);
	CHECK(strstr(err.reason, "its folder is gone"));
	CHECK_INT(append_n(log, 1, 1, NULL), SC_E_NOLOG);
	CHECK_OK(sc_log_create(log_path, &plain, &err), &err);
	CHECK_INT(sc_reader_next(reader, 0, &run, &err), SC_E_NOLOG);
	CHECK(strstr(err.reason, "another log was made"));
	CHECK_INT(append_n(log, 1, 1, NULL), SC_E_NOLOG);
	sc_reader_close(reader);
	sc_follow_close(follow);
	sc_log_close(seen);
	sc_log_close(log);
	log_done();
}

/* A copy with the same files comes to its path while somebody stands in one of them: looked at
 * first or not, what comes next is read there, and appended there. */
TEST(the_same_journal_of_another_copy)
{
	struct sc_log *log = filled(1 << 20, 30), *other, *seen = open_log(SC_LOG_READ);
	struct sc_reader *reader = NULL;
	struct sc_log_commit commit;
	struct sc_log_state state;
	struct sc_log_proof proof;
	char away[300], copy[300], command[900];
	struct sc_run run;

	snprintf(away, sizeof(away), "%s/away", log_dir);
	CHECK_OK(sc_reader_open(seen, 0, &reader, &err), &err);
	while (sc_reader_next(reader, 0, &run, &err) == 1)
		;
	snprintf(copy, sizeof(copy), "%s/copy", log_dir);
	snprintf(command, sizeof(command), "cp -a '%s' '%s'", log_path, copy);
	CHECK(system(command) == 0);
	CHECK_OK(append_n(log, 931, 1, &commit), &err); /* what the copy does not have */
	move(log_path, away);
	move(copy, log_path);
	other = open_log(SC_LOG_APPEND);
	log->looked_us = seen->looked_us = 0;
	CHECK_OK(sc_log_state(log, &state, &err), &err);
	CHECK_OK(append_n(log, 31, 1, &commit), &err);
	CHECK_INT(commit.first, 31);
	CHECK_OK(append_n(other, 32, 1, &commit), &err);
	CHECK_INT(commit.first, 32);
	CHECK_INT(sc_reader_next(reader, 0, &run, &err), 1);
	CHECK_INT(run.first, 31);
	CHECK(memmem(run.lines.data, run.lines.len, "931", 3) == NULL);
	CHECK_OK(sc_log_verify(log_path, 0, 0, &proof, &err), &err);
	CHECK_INT(proof.rows, 32);
	sc_reader_close(reader);
	sc_log_close(other);
	sc_log_close(seen);
	sc_log_close(log);
	log_done();
}

/* "Put a good copy of the file back": somebody has the one that it replaces open. */
TEST(a_copy_of_the_journal_in_use)
{
	struct sc_log *log = filled(1 << 20, 30), *seen = open_log(SC_LOG_READ);
	struct sc_reader *reader = NULL;
	struct sc_log_commit commit;
	struct sc_log_proof proof;
	char journal[PATH_MAX], command[4 * PATH_MAX + 40];
	struct sc_run run;

	CHECK_OK(sc_reader_open(seen, 0, &reader, &err), &err);
	while (sc_reader_next(reader, 0, &run, &err) == 1)
		;
	sc_journal_path(log, 1, journal);
	snprintf(command, sizeof(command), "cp -a '%s' '%s.copy' && mv '%s.copy' '%s'", journal,
		 journal, journal, journal);
	CHECK(system(command) == 0);
	CHECK_OK(append_n(log, 31, 1, &commit), &err);
	CHECK_INT(commit.first, 31);
	CHECK_INT(sc_reader_next(reader, 0, &run, &err), 1);
	CHECK_INT(run.first, 31);
	CHECK_INT(sc_reader_next(reader, 0, &run, &err), 0);
	CHECK_OK(sc_log_verify(log_path, 0, 0, &proof, &err), &err);
	CHECK_INT(proof.rows, 31);
	sc_reader_close(reader);
	sc_log_close(seen);
	sc_log_close(log);
	log_done();
}

/* A file or a folder that is missing is damage, unless the log went as a whole, or is going. */
TEST(what_is_missing_of_a_log_that_went)
{
	struct sc_log *log = filled(4 << 10, 900), *seen = open_log(SC_LOG_READ);
	struct sc_names names = { NULL, 0 };
	struct sc_reader *reader = NULL;
	char away[300], journal[300], inside[300];
	struct sc_run run;
	int rc;

	snprintf(away, sizeof(away), "%s/away", log_dir);
	snprintf(journal, sizeof(journal), "%s/journal.away", log_dir);
	snprintf(inside, sizeof(inside), "%s", in_log("journal"));
	CHECK(count_journals() > 2);
	CHECK_OK(sc_reader_open(seen, 0, &reader, &err), &err);
	CHECK_INT(sc_reader_next(reader, 0, &run, &err), 1);
	move(inside, journal);
	CHECK_INT(sc_journal_list(seen, &names, NULL, &err), SC_E_DATA);
	CHECK(strstr(err.object, "journal"));
	CHECK_INT(sc_tier_missing(seen, 1, 2, &err), SC_E_DATA);
	CHECK_INT(sc_walk_damage(seen, 1, 0, 0, &err), SC_E_DATA);
	/* rm -r removes what it finds, in any order */
	move(in_log("log.json"), away);
	CHECK_INT(sc_journal_list(seen, &names, NULL, &err), SC_E_NOLOG);
	CHECK(strstr(err.reason, "there is no log.json"));
	CHECK_INT(sc_tier_missing(seen, 1, 2, &err), SC_E_NOLOG);
	CHECK_INT(sc_walk_damage(seen, 1, 0, 0, &err), SC_E_NOLOG);
	CHECK(strstr(err.reason, "there is no log.json"));
	move(away, in_log("log.json"));
	move(journal, inside);
	/* another folder is there, which has no such journal: nobody looked yet which one it is */
	move(log_path, away);
	CHECK(mkdir(log_path, 0755) == 0 && mkdir(inside, 0755) == 0);
	seen->looked_us = sc_mono_us();
	while ((rc = sc_reader_next(reader, 0, &run, &err)) == 1)
		;
	CHECK_INT(rc, SC_E_NOLOG);
	CHECK(strstr(err.reason, "its folder is gone"));
	remove_tree(log_path);
	CHECK_INT(sc_journal_list(seen, &names, NULL, &err), SC_E_NOLOG);
	CHECK(strstr(err.reason, "its folder is gone"));
	sc_reader_close(reader);
	sc_log_close(seen);
	sc_log_close(log);
	log_done();
}

TEST(read_only_user)
{
	struct sc_log *log;

	if (getuid() != 0)
		return; /* cannot become another user */
	log = filled(4 << 10, 300);
	chmod(log_dir, 0755);
	sc_log_close(log);
	CHECK_INT(read_as_nobody(300, true), 0);
	drop_index();
	CHECK_INT(read_as_nobody(300, true), 0);
	CHECK(access(in_log("index.mdb"), F_OK) < 0);
	log = open_log(SC_LOG_APPEND);
	CHECK_OK(append_n(log, 301, 3, NULL), &err);
	CHECK_INT(read_as_nobody(303, true), 0);
	sc_log_close(log);
	log_done();
}

TEST(network_file_systems)
{
	CHECK_STR(sc_netfs_name(0x6969), "NFS");
	CHECK_STR(sc_netfs_name(0xff534d42), "CIFS");
	CHECK_STR(sc_netfs_name(0xffffffffff534d42ull),
		  "CIFS"); /* f_type is signed on some machines */
	CHECK_STR(sc_netfs_name(0x65735546), "FUSE");
	CHECK(sc_netfs_name(0xef53) == NULL);     /* ext4 */
	CHECK(sc_netfs_name(0x01021994) == NULL); /* tmpfs */
	CHECK(sc_netfs_name(0x9123683e) == NULL); /* btrfs */
	CHECK(sc_netfs_name(0x58465342) == NULL); /* xfs */
	CHECK(sc_netfs_name(0x794c7630) == NULL); /* overlay */
}

TEST(create_refusals)
{
	struct sc_log *log = filled(0, 3);
	char path[300];

	sc_log_close(log);
	CHECK_INT(sc_log_create(log_path, &(struct sc_log_settings){ .message_max = 0 }, &err),
		  SC_E_CANTCREAT);
	CHECK(strstr(err.reason, "exists already") != NULL);
	log = open_log(SC_LOG_READ);
	check_holds(log, 1, 3);
	sc_log_close(log);
	log = NULL;
	snprintf(path, sizeof(path), "%s/nothing", log_dir);
	CHECK_INT(sc_log_open(path, SC_LOG_READ, &log, &err), SC_E_NOLOG);
	CHECK(strstr(err.next, "sc-log create") != NULL);
	CHECK_INT(sc_log_open(log_dir, SC_LOG_READ, &log, &err), SC_E_NOLOG);
	CHECK_INT(sc_log_create("/proc/none/a", &(struct sc_log_settings){ .message_max = 0 },
				&err),
		  SC_E_CANTCREAT);
	snprintf(path, sizeof(path), "%s/a/b", log_dir); /* folders on the way are made */
	CHECK_OK(sc_log_create(path, &(struct sc_log_settings){ .message_max = 0 }, &err), &err);
	snprintf(path, sizeof(path), "%s/bad", log_dir);
	CHECK_INT(sc_log_create(path, &(struct sc_log_settings){ .schema = SC_SPAN("{}") }, &err),
		  SC_E_CONFIG);
	CHECK(access(path, F_OK) < 0);
	log_done();
}

/* After a boot everybody opens at once: one makes the index, all go on. */
TEST(open_at_once_after_a_boot)
{
	enum { CHILDREN = 8 };
	struct sc_log *log = filled(4 << 10, 900);
	struct sc_log_state state;
	int go[2], status;
	pid_t pids[CHILDREN];

	sc_log_close(log);
	setenv("SC_BOOT_ID", "00000000-0000-4000-8000-000000000002", 1);
	CHECK(pipe(go) == 0);
	for (int i = 0; i < CHILDREN; i++) {
		pids[i] = fork();
		if (pids[i] == 0) {
			struct sc_log *mine = NULL;
			struct sc_bytes got;
			char c;

			close(go[1]);
			sc_bytes_init(&got, 1 << 24);
			if (read(go[0], &c, 1) != 0 ||
			    sc_log_open(log_path, i % 2 ? SC_LOG_APPEND : SC_LOG_READ, &mine,
					&err) < 0)
				_exit(1);
			if (i % 2 && append_n(mine, 901, 5, NULL) < 0)
				_exit(2);
			if (read_all(mine, 900, 0, &got) < 0)
				_exit(3);
			_exit(0);
		}
	}
	close(go[0]);
	close(go[1]); /* now */
	for (int i = 0; i < CHILDREN; i++) {
		waitpid(pids[i], &status, 0);
		CHECK_INT(status, 0);
	}
	log = open_log(SC_LOG_READ);
	CHECK_OK(sc_log_state(log, &state, &err), &err);
	CHECK_INT(state.rows, 900 + CHILDREN / 2 * 5);
	sc_log_close(log);
	unsetenv("SC_BOOT_ID");
	log_done();
}

TEST(golden_log_of_format_1)
{
	struct sc_log_proof proof;
	struct sc_log *log;
	uint64_t at = 0;

	golden_log("log-1");
	CHECK_OK(sc_log_verify(log_path, 0, 0, &proof, &err), &err);
	CHECK_INT(proof.rows, 310);
	CHECK_STR(proof.hash, "b69be25b6b293195b318c740771ebcae");
	log = open_log(SC_LOG_APPEND);
	CHECK_STR(sc_log_stream_id(log), "d157f9ed-ed98-4130-b85d-c7327ef983c7");
	check_holds(log, 1, 310);
	CHECK_INT(sc_log_source(log, SC_SPAN("up"), &at, &err), 1);
	CHECK_INT(at, 7310);
	CHECK_OK(append_n(log, 311, 1, NULL), &err);
	check_holds(log, 1, 311);
	sc_log_close(log);
	log_done();
}
