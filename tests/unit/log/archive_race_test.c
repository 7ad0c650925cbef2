/*
 * archive_race_test: two machines at one archive at the same time, in every order. Goal: one of
 * them has it in the end, the other one is told so by name; every row that was there, or came by
 * the one who had it, is there once; what the other one had on its way counts for nothing, be it
 * segments, blocks, log.json, list.json or the floor. Method: a process stops at the Nth file of
 * the archive that it opens, before it reads it or begins to write it; the other one does all of
 * its work there, or a part of it: each way to cut the two in halves is tried. (The lock that makes
 * "is it still that version" and "replace it" one step is taken behind such a point.)
 */
// run: limit 400
#include <poll.h>
#include <stdarg.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "archive_help.h"

#include "log/archive_internal.h"
#include "log/log_internal.h"

#define JUMP (1ull << 20)

static const char *watched = shelf; /* opens below it are points */

enum points { ALL, WRITES };
static enum points points;
static bool hooked;
static long point_left, point_count;
static int told, waits; /* the ends of pipes */

/* Stops here until the other one is through. */
static void point(bool write)
{
	char c = '.';

	if (!hooked || (points == WRITES && !write))
		return;
	point_count++;
	if (--point_left != 0)
		return;
	CHECK(syscall(SYS_write, told, &c, 1) == 1);
	CHECK(syscall(SYS_read, waits, &c, 1) == 1);
}

static int open_it(int folder, const char *path, int flags, va_list args)
{
	mode_t mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(args, mode_t) : 0;

	if (hooked && folder == AT_FDCWD && !(flags & O_DIRECTORY) &&
	    !strncmp(path, watched, strlen(watched)))
		point(flags & O_CREAT);
	return (int)syscall(SYS_openat, folder, path, flags, mode);
}

#define OPENS(name) \
	int name(const char *path, int flags, ...) \
	{ \
		va_list args; \
		int fd; \
\
		va_start(args, flags); \
		fd = open_it(AT_FDCWD, path, flags, args); \
		va_end(args); \
		return fd; \
	}
#define OPENATS(name) \
	int name(int folder, const char *path, int flags, ...) \
	{ \
		va_list args; \
		int fd; \
\
		if (!strcmp(path, shelf)) /* a listing */ \
			point(false); \
		va_start(args, flags); \
		fd = open_it(folder, path, flags, args); \
		va_end(args); \
		return fd; \
	}
OPENS(open)
OPENS(open64)
OPENATS(openat)
OPENATS(openat64)

/* --- the two --- */

/* As sc-seal does it: --force --keep-archive --ship, or with --take-over; MORE rows come
 * meanwhile. */
static int archiver(const char *path, bool seize, size_t more)
{
	struct sc_keep keep = { .count = 2 };
	struct sc_archive_options o = { .arg = NULL };
	struct archiver a;
	int rc = archiver_open(path, seize ? SEIZES : OWNS, &a);

	if (rc == 0)
		rc = sc_archive_ship(a.archive, &o, &err);
	if (rc == 0)
		rc = seal_small(a.seal);
	if (rc == 0)
		rc = sc_archive_push(a.archive, &o, &err);
	if (rc == 0)
		rc = sc_archive_keep(a.archive, &keep, &o, &err);
	if (rc == 0 && more)
		rc = append_n(a.log, 5000, more, NULL);
	if (rc == 0)
		rc = sc_archive_ship(a.archive, &o, &err);
	archiver_close(&a);
	return rc;
}

static char other[500]; /* the log of the second one */

static char first_path[500];

static int first_archives(void)
{
	return archiver(log_path, false, 20);
}

static int first_archives_what_it_has(void)
{
	return archiver(log_path, false, 0);
}

static int second_archives(void)
{
	return archiver(other, false, 20);
}

static int second_seizes(void)
{
	return archiver(other, true, 20);
}

/* A log made anew goes on, and archives. */
static int made_anew(const char *path)
{
	struct sc_restore_options o = { .jump = 0 };
	struct sc_restore_report report;
	int rc = sc_log_restore(path, archive_url, &o, &report, &err);

	if (rc == 0)
		rc = grow(path, 7000, 7030, 10);
	return rc < 0 ? rc : work_on(path, &push_ship);
}

static int first_restores(void)
{
	return made_anew(first_path);
}

static int second_restores(void)
{
	return made_anew(other);
}

struct side {
	int (*run)(void);
	pid_t pid;
	int told, go; /* our ends */
	bool stopped;
	int rc; /* negative */
	long points;
	struct sc_err err;
};
struct word {
	int rc;
	long points;
	struct sc_err err;
};

/* Runs up to its Nth point, or to its end. */
static void start(struct side *s, long nth)
{
	int out[2], in[2];
	struct pollfd p;
	char c;

	CHECK(pipe(out) == 0 && pipe(in) == 0);
	fflush(stdout);
	s->pid = fork();
	CHECK(s->pid >= 0);
	if (s->pid == 0) {
		struct word word;

		close(out[0]);
		close(in[1]);
		told = out[1];
		waits = in[0];
		point_left = nth;
		hooked = true;
		word.rc = s->run();
		hooked = false;
		word.points = point_count;
		word.err = err;
		c = '!';
		if (syscall(SYS_write, told, &c, 1) != 1 ||
		    syscall(SYS_write, told, &word, sizeof(word)) != sizeof(word))
			_exit(1);
		_exit(0);
	}
	close(out[1]);
	close(in[0]);
	s->told = out[0];
	s->go = in[1];
	p = (struct pollfd){ .fd = s->told, .events = POLLIN };
	CHECK(poll(&p, 1, 60000) == 1 && read(s->told, &c, 1) == 1);
	s->stopped = c == '.';
}

/* ... and from there to its end. */
static void end(struct side *s)
{
	struct word word;
	int status;
	char c;

	if (s->stopped)
		CHECK(write(s->go, ".", 1) == 1 && read(s->told, &c, 1) == 1 && c == '!');
	CHECK(read(s->told, &word, sizeof(word)) == sizeof(word));
	CHECK(waitpid(s->pid, &status, 0) == s->pid && WIFEXITED(status));
	CHECK_INT(WEXITSTATUS(status), 0);
	close(s->told);
	close(s->go);
	s->rc = word.rc;
	s->points = word.points;
	s->err = word.err;
}

/* --- verify, while rows go --- */

static int verifies(void)
{
	struct sc_log_proof proof;

	return sc_log_verify(log_path, 0, 0, &proof, &err);
}

static int gives_up(void)
{
	struct sc_log *log = NULL;
	int rc = sc_log_open(log_path, SC_LOG_APPEND, &log, &err);

	if (rc == 0)
		rc = sc_log_trim(log, 450, &err);
	sc_log_close(log);
	return rc;
}

/* --- what must be then --- */

static bool file_has(const char *path, const char *text)
{
	struct sc_bytes bytes;
	bool has;

	sc_bytes_init(&bytes, 1u << 20);
	CHECK_OK(sc_read_file(path, &bytes, &err), &err);
	has = memmem(bytes.data, bytes.len, text, strlen(text)) != NULL;
	sc_bytes_done(&bytes);
	return has;
}

/* It was refused, and knows by whom, or that it has less; or it was through before. */
static void check_told(const struct side *s)
{
	if (s->rc == 0)
		return;
	if (s->rc == SC_E_REFUSED && strstr(s->err.fields, "\"ahead\"")) {
		CHECK(strstr(s->err.next, "restore"));
		return;
	}
	if (s->rc != SC_E_NOAUTH)
		FAIL("it ended with %d: %s %s: %s", s->rc, s->err.tried, s->err.object,
		     s->err.reason);
	CHECK(strstr(s->err.reason, " at ") || strstr(s->err.reason, " since "));
	CHECK(s->err.next[0]);
	/* two numbers that are the same would tell nothing */
	if (strstr(s->err.reason, "its epoch is"))
		CHECK(atoi(strstr(s->err.reason, "its epoch is") + 13) >
		      atoi(strstr(s->err.reason, "this log's was") + 15));
}

/* Is the archive that log's? By its owner, without a word to the archive. */
static bool has_it(const char *path)
{
	/* (a restore that is no log yet has it, too) */
	char owner[60], file[600];
	struct sc_bytes epoch;
	const char *at;

	sc_bytes_init(&epoch, 1u << 20);
	CHECK_OK(sc_read_file(shelved("epoch.json"), &epoch, &err), &err);
	at = memmem(epoch.data, epoch.len, "\"owner\":", 8);
	CHECK(at && epoch.data + epoch.len - at > 46);
	snprintf(owner, sizeof(owner), "%.46s", at);
	sc_bytes_done(&epoch);
	snprintf(file, sizeof(file), "%s/archive.json", path);
	return access(file, F_OK) == 0 && file_has(file, owner);
}

/* Of the rows that log and archive both hold. */
static uint64_t first_of_both(const char *path)
{
	struct sc_log_state state;
	struct sc_log *log = NULL;
	uint64_t first = archive_now().first_offset;

	CHECK_OK(sc_log_open(path, SC_LOG_READ, &log, &err), &err);
	CHECK_OK(sc_log_state(log, &state, &err), &err);
	sc_log_close(log);
	return first > state.first_offset ? first : state.first_offset;
}

/* log.json and list.json are that log's. */
static void check_words(const char *path)
{
	char file[600], epoch[40];
	struct sc_bytes ours, theirs;
	size_t len;

	snprintf(file, sizeof(file), "%s/log.json", path);
	sc_bytes_init(&ours, 1u << 20);
	sc_bytes_init(&theirs, 1u << 20);
	CHECK_OK(sc_read_file(file, &ours, &err), &err);
	CHECK_OK(sc_read_file(shelved("log.json"), &theirs, &err), &err);
	len = ours.len - 2; /* "}\n": there the epoch comes */
	CHECK(theirs.len >= ours.len && memcmp(ours.data, theirs.data, len) == 0);
	sc_bytes_done(&ours);
	sc_bytes_done(&theirs);
	snprintf(epoch, sizeof(epoch), "\"epoch\":%llu,", (unsigned long long)archive_now().epoch);
	CHECK(file_has(shelved("list.json"), epoch));
}

/* Who has it goes on, and it holds that log, from the floor on; from it a log can be made anew. */
static void check_holder(const char *path, const char *loser)
{
	struct sc_restore_options o = { .jump = 0 };
	struct sc_restore_report report;
	struct sc_log_proof ours, theirs;
	char third[600];
	struct sc_archive_state now;
	struct sc_archive *archive = NULL;

	/* also without another word of that one; but for rows that it had not shipped yet */
	CHECK(has_it(path));
	check_words(path);
	now = archive_now();
	CHECK_OK(sc_archive_open(log_url, NULL, &archive, &err), &err);
	CHECK_OK(sc_archive_verify(archive, first_of_both(path), now.next_offset, &theirs, &err),
		 &err);
	sc_archive_close(archive);
	CHECK_OK(sc_log_verify(path, theirs.first, theirs.last, &ours, &err), &err);
	if (strcmp(ours.hash, theirs.hash) != 0)
		FAIL("the log holds %llu rows from %llu to %llu there, the archive %llu from %llu "
		     "to %llu",
		     (unsigned long long)ours.rows, (unsigned long long)ours.first,
		     (unsigned long long)ours.last, (unsigned long long)theirs.rows,
		     (unsigned long long)theirs.first, (unsigned long long)theirs.last);
	/* and when both have tried again */
	if (loser) {
		CHECK_INT(work_on(loser, &push_ship), SC_E_NOAUTH);
		CHECK_INT(work_on(loser, &seal_push), SC_E_NOAUTH);
	}
	CHECK_OK(work_on(path, &push_ship), &err);
	same_rows(path, first_of_both(path));
	CHECK_OK(work_on(path, &seal_push), &err);
	same_rows(path, first_of_both(path));
	check_words(path);
	snprintf(third, sizeof(third), "%s/third/trades", log_dir);
	CHECK_OK(sc_log_restore(third, archive_url, &o, &report, &err), &err);
	same_rows(third, report.first);
	CHECK_INT(report.first, archive_now().first_offset);
}

/* What is there when they meet: 300 rows in segments, 200 that were shipped, 100 that were not,
 * and a log.json that is not the archive's. */
static char kept[500];

static void meet(bool archived, bool copied)
{
	struct sc_log *log;
	char folder[500];

	begin(4096);
	snprintf(kept, sizeof(kept), "%s.kept", log_dir);
	snprintf(first_path, sizeof(first_path), "%s%s", log_dir,
		 copied ? "/trades" : "/first/trades");
	snprintf(other, sizeof(other), "%s/other/trades", log_dir);
	CHECK_OK(grow(log_path, 1, 300, 10), &err);
	if (archived) {
		CHECK_OK(work_on(log_path, &seal_push), &err);
		CHECK_OK(grow(log_path, 301, 500, 10), &err);
		CHECK_OK(work_on(log_path, &push_ship), &err);
	}
	CHECK_OK(grow(log_path, archived ? 501 : 301, 600, 10), &err);
	log = open_log(SC_LOG_APPEND);
	CHECK_OK(sc_log_trim(log, 2, &err), &err);
	sc_log_close(log);
	if (copied) {
		snprintf(folder, sizeof(folder), "%s/other", log_dir);
		CHECK(mkdir(folder, 0777) == 0);
		copy_tree(log_path, other);
	}
	copy_tree(log_dir, kept);
}

static void as_they_met(void)
{
	copy_tree(kept, log_dir);
}

static void part(void)
{
	remove_tree(kept);
	log_done();
}

/* Every way: the first one up to a point, the second one up to a point, and both to the end,
 * this one or that one first. */
struct race {
	int (*first)(void), (*second)(void);
	bool archived, copied;
	void (*check)(struct side *first, struct side *second);
	long first_points, second_points; /* at least; a test that does nothing proves nothing */
};

/* The first one goes to its point I and the second one to its point J (0: to the end), then both to
 * the end; which of them begins, and which ends first. */
struct way {
	long i, j;
	bool second_begins, second_ends;
};
struct course {
	struct side a, b;
	long ways, refused[2];
};

static void go(const struct race *race, const struct way *way, struct course *c)
{
	struct side *sides[2] = { &c->a, &c->b };
	long points_of[2] = { way->i, way->j };

	c->a = (struct side){ .run = race->first };
	c->b = (struct side){ .run = race->second };
	as_they_met();
	for (int k = 0; k < 2; k++)
		start(sides[k ^ way->second_begins], points_of[k ^ way->second_begins]);
	for (int k = 0; k < 2; k++)
		end(sides[k ^ way->second_ends]);
	check_told(&c->a);
	check_told(&c->b);
	race->check(&c->a, &c->b);
	c->refused[0] += c->a.rc != 0;
	c->refused[1] += c->b.rc != 0;
	c->ways++;
}

static void run_race(const struct race *race)
{
	struct course c = { .ways = 0 };
	const long step = SC_SANITIZED ? 3 : 1; /* a third of the ways, other ones at each step */
	long most[2];

	meet(race->archived, race->copied);
	/* one stops before each file that it looks at or writes, and the other one does
	 * everything */
	points = ALL;
	for (int turn = 0; turn < 2; turn++) {
		struct side *stops = turn ? &c.b : &c.a;

		stops->stopped = true;
		for (long i = 1; stops->stopped; i++)
			go(race, &(struct way){ turn ? 0 : i, turn ? i : 0, turn, !turn }, &c);
		most[turn] = stops->points;
	}
	printf("# %ld and %ld points\n", most[0], most[1]);
	CHECK(most[0] >= race->first_points && most[1] >= race->second_points);
	/* both stop before a write */
	points = WRITES;
	c.a.stopped = true;
	for (long i = 1; c.a.stopped; i++) {
		c.b.stopped = true;
		for (long j = 1 + i % step; c.b.stopped; j += step)
			go(race, &(struct way){ i, j, false, !((i ^ j) & 1) }, &c);
	}
	printf("# %ld ways, %ld and %ld times refused\n", c.ways, c.refused[0], c.refused[1]);
	CHECK(c.ways > 20);
	part();
}

/* The second one has it, whatever happens. */
static void the_second_has_it(struct side *first, struct side *second)
{
	(void)first;
	if (second->rc < 0)
		FAIL("the second one ended with %d: %s", second->rc, second->err.reason);
	check_holder(other, log_path);
}

/* The one that says so was first: when both do, the one whose epoch it is. */
static void one_has_it(struct side *first, struct side *second)
{
	bool ours = has_it(first_path);
	char *loser = ours ? other : first_path, file[600];

	CHECK(first->rc == 0 || second->rc == 0);
	CHECK(ours ? first->rc == 0 : second->rc == 0);
	snprintf(file, sizeof(file), "%s/log.json", loser);
	if (access(file, F_OK) < 0) /* one that is no log, and will not be */
		loser = NULL;
	check_holder(ours ? first_path : other, loser);
}

TEST(a_restore_and_the_machine_that_was_lost)
{
	run_race(&(struct race){ first_archives, second_restores, .archived = true,
				 .check = the_second_has_it, .first_points = 25,
				 .second_points = 20 });
}

TEST(two_copies_that_come_first)
{
	run_race(&(struct race){ first_archives, second_archives, .copied = true,
				 .check = one_has_it, .first_points = 20, .second_points = 20 });
}

/* A copy that has all that is there takes it, and what the one before has on its way is the
 * same. */
TEST(a_copy_that_takes_over)
{
	run_race(&(struct race){ first_archives_what_it_has, second_seizes, .archived = true,
				 .copied = true, .check = the_second_has_it, .first_points = 25,
				 .second_points = 25 });
}

/* A copy that wants it when there is more than it has, or comes to be: it has what it knows of, or
 * the one before keeps it, and what it told to be there. */
static void who_has_more_keeps_it(struct side *first, struct side *second)
{
	if (second->rc == 0) {
		CHECK(first->rc != 0);
		check_holder(other, log_path);
		return;
	}
	CHECK_INT(second->rc, SC_E_REFUSED);
	CHECK(!has_it(other) || has_it(log_path)); /* (the copy has the name of the first one) */
	if (first->rc == 0)
		CHECK_INT(archive_now().next_offset, 621);
	check_holder(log_path, NULL);
}

TEST(a_copy_that_has_less)
{
	static const struct race race = {
		.first = first_archives,
		.second = second_seizes,
		.archived = true,
		.copied = true,
		.check = who_has_more_keeps_it,
		.first_points = 25,
		.second_points = 25,
	};

	run_race(&race);
}

TEST(two_restores)
{
	run_race(&(struct race){ first_restores, second_restores, .archived = true,
				 .check = one_has_it, .first_points = 20, .second_points = 20 });
}

/* Rows that are removed while they are proved are no damage: they are proved, or said to be
 * gone. */
TEST(verified_while_rows_go)
{
	static char segments[300];
	long refused = 0;
	struct side a, b;
	bool more = true;

	meet(true, false);
	CHECK_OK(work_on(log_path, &seal_push), &err);
	copy_tree(log_dir, kept);
	snprintf(segments, sizeof(segments), "%s/sealed", log_path);
	watched = segments;
	points = ALL;
	for (long i = 1; more; i++) {
		a = (struct side){ .run = verifies };
		b = (struct side){ .run = gives_up };
		as_they_met();
		CHECK_INT(verifies(),
			  0); /* and the copy has its index, which is made under a lock */
		start(&a, i);
		more = a.stopped;
		start(&b, 0);
		end(&b);
		end(&a);
		CHECK_INT(b.rc, 0);
		if (a.rc != 0 && (a.rc != SC_E_REFUSED || !strstr(a.err.fields, "evicted")))
			FAIL("verify ended with %d: %s: %s", a.rc, a.err.object, a.err.reason);
		refused += a.rc != 0;
		CHECK_INT(verifies(), 0);
	}
	watched = shelf;
	CHECK(refused >= 2);
	part();
}
