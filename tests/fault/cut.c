/* cut.c: every power cut of a recorded run: what the disk may hold then, opened and checked. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/bytes.h"
#include "cut.h"
#include "disk.h"
#include "proof.h"

#define WORKERS 2
#define SNAPS_MAX 256
#define BOOT_AFTER "22222222-2222-4222-8222-222222222222"
#define FAILURES_SHOWN 5

static const char *top; /* the folder of the test */

/* --- the index at earlier moments --- */

struct snap {
	size_t when;
	char *mdb, *state;
	size_t mdb_len, state_len;
	uint64_t ino;
};

/* The state file vouches for one inode: make it vouch for the copy. */
static void state_moves(char *state, size_t len, uint64_t dev, uint64_t from_ino, uint64_t to_dev,
			uint64_t to_ino)
{
	uint64_t from[2] = { dev, from_ino }, to[2] = { to_dev, to_ino }, check;
	char *at = len > 24 ? memmem(state, len, from, sizeof(from)) : NULL;

	if (!at)
		return;
	memcpy(at, to, sizeof(to));
	check = XXH3_64bits(state, len - 8);
	memcpy(state + len - 8, &check, 8);
}

static bool write_whole(const char *path, const char *data, size_t len)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	bool good = fd >= 0 && write(fd, data, len) == (ssize_t)len;

	if (fd >= 0)
		close(fd);
	return good;
}

static bool put_snap(const struct snap *snap, const char *path, uint64_t run_dev)
{
	char name[800], *state = malloc(snap->state_len + 1);
	struct stat st;
	bool good;

	snprintf(name, sizeof(name), "%s/index.mdb", path);
	good = state && write_whole(name, snap->mdb, snap->mdb_len) && stat(name, &st) == 0;
	if (good) {
		memcpy(state, snap->state, snap->state_len);
		state_moves(state, snap->state_len, run_dev, snap->ino, (uint64_t)st.st_dev,
			    (uint64_t)st.st_ino);
		snprintf(name, sizeof(name), "%s/index.state", path);
		good = write_whole(name, state, snap->state_len);
	}
	free(state);
	return good;
}

/* --- one run of states --- */

struct shared {
	size_t states, opens, failures;
	char doing[400];
};

struct work {
	const struct cut *cut_of;
	struct trace trace;
	struct expect expect;
	struct disk disk;
	struct plan plan;
	struct moment moment;
	struct snap snaps[SNAPS_MAX];
	size_t snap_count, cut, cuts, budget;
	int number; /* of the worker */
	char folder[600], path[700];
	uint64_t run_dev, seed;
	uint64_t *seen; /* hashes of states at this cut */
	size_t seen_count;
	size_t shown, shown_cut; /* failures */
	struct shared *shared;
	struct choice choice;
};

static void report(struct work *w, const char *wrong)
{
	char kept[700], command[1600];

	w->shared->failures++;
	if (w->shown > FAILURES_SHOWN || w->shown_cut == w->cut)
		return; /* one for each moment tells enough */
	w->shown_cut = w->cut;
	w->shown++;
	snprintf(kept, sizeof(kept), "%s/kept-%d-%zu", top, w->number, w->shared->failures);
	if (getenv("SC_KEEP")) {
		snprintf(command, sizeof(command), "cp -a %s %s", w->folder, kept);
		if (system(command) != 0)
			printf("(cannot keep it)\n");
	}
	printf("%s\n    %s\n", wrong, w->shared->doing);
	fflush(stdout);
}

enum variant {
	NO_INDEX,
	TORN_INDEX,
	DURABLE_INDEX,
	FULL_INDEX,
	OLD_INDEX,
	OLD_INDEX_SAME_BOOT,
	VARIANTS
};
static const char *const variant_names[] = { "no index",        "torn index",
					     "index as synced", "index as in memory",
					     "older index",     "older index of this boot" };

static void describe(struct work *w, enum variant v, const char *kind)
{
	int n = snprintf(w->shared->doing, sizeof(w->shared->doing),
			 "before record %zu of %zu, acknowledged to %llu, %s, %s, units of %zu:",
			 w->cut, w->trace.count, (unsigned long long)w->moment.acked, kind,
			 variant_names[v], w->plan.count);

	for (size_t i = 0; i < w->plan.count && n > 0 && n < 380; i++)
		n += snprintf(w->shared->doing + n, sizeof(w->shared->doing) - (size_t)n, "%s%c",
			      i % 10 ? "" : " ", w->choice.units[i] ? '1' : '0');
	for (size_t i = 0; i < w->disk.change_count && n > 0 && n < 380; i++)
		n += snprintf(w->shared->doing + n, sizeof(w->shared->doing) - (size_t)n, "%s%c",
			      i ? "" : " names ", w->choice.changes[i] ? '1' : '0');
}

static void open_state(struct work *w, enum variant v, const char *kind)
{
	static const enum index_choice how[VARIANTS] = { INDEX_NONE, INDEX_RANDOM, INDEX_DURABLE,
							 INDEX_ALL,  INDEX_GIVEN,  INDEX_GIVEN };
	char wrong[1400];
	struct stat st;

	if ((v == OLD_INDEX || v == OLD_INDEX_SAME_BOOT) && w->snap_count == 0)
		v = TORN_INDEX;
	/* an index of this boot may be behind the files, but names none that are gone */
	if (v == OLD_INDEX_SAME_BOOT && w->expect.seals)
		v = OLD_INDEX;
	describe(w, v, kind);
	w->choice.index = how[v];
	w->choice.seed = chance(&w->seed);
	disk_build(&w->disk, &w->plan, &w->choice, w->folder, true);
	if (how[v] == INDEX_GIVEN && stat(w->path, &st) == 0) {
		/* the newest ones are the most tempting */
		size_t back = chance(&w->seed) % 2 ? chance(&w->seed) % 3
						   : chance(&w->seed) % w->snap_count;
		size_t i = w->snap_count - 1 - (back < w->snap_count ? back : 0);

		if (!put_snap(&w->snaps[i], w->path, w->run_dev))
			snprintf(w->shared->doing, sizeof(w->shared->doing),
				 "cannot write a snapshot");
	}
	setenv("SC_BOOT_ID", v == OLD_INDEX_SAME_BOOT ? BOOT_OF_RUN : BOOT_AFTER, 1);
	w->shared->opens++;
	if (w->cut_of->check)
		w->cut_of->check(w->path, &w->moment, wrong, sizeof(wrong));
	else
		proof_check(w->path, &w->expect, &w->moment, v == OLD_INDEX_SAME_BOOT, wrong,
			    sizeof(wrong));
	if (wrong[0])
		report(w, wrong);
}

/* The choice is made: open it without an index, and with one of the others in turn. */
static void try_choice(struct work *w, const char *kind)
{
	uint64_t hash = disk_build(&w->disk, &w->plan, &w->choice, w->folder, false);

	for (size_t i = 0; i < w->seen_count; i++)
		if (w->seen[i] == hash)
			return;
	w->seen[w->seen_count++] = hash;
	open_state(w, NO_INDEX, kind);
	open_state(w, (enum variant)(1 + w->shared->states % (VARIANTS - 1)), kind);
	w->shared->states++;
}

static void set_all(struct work *w, int units, int changes)
{
	memset(w->choice.units, units, w->plan.count);
	memset(w->choice.changes, changes, w->disk.change_count);
}

static void try_exhaustive(struct work *w)
{
	size_t bits = w->plan.count + w->disk.change_count;

	for (size_t mask = 0; mask < (size_t)1 << bits; mask++)
		for (int ahead = 0; ahead < 2; ahead++) {
			for (size_t i = 0; i < w->plan.count; i++)
				w->choice.units[i] = mask >> i & 1;
			for (size_t i = 0; i < w->disk.change_count; i++)
				w->choice.changes[i] = mask >> (w->plan.count + i) & 1;
			w->choice.size_ahead = ahead;
			try_choice(w, "every choice");
		}
}

/* Where to cut or lose first: heads of writes and what follows them, the last sectors; then an
 * even spread. */
static size_t interesting(const struct work *w, size_t *at, size_t max)
{
	size_t n = w->plan.count, count = 0;

	for (size_t i = 0; i < n && count < max / 2; i++) {
		if (w->plan.units[i].head)
			at[count++] = i;
		else if (i > 0 && w->plan.units[i - 1].head)
			at[count++] = i;
		else if (i + 1 == n || w->plan.units[i + 1].head)
			at[count++] = i;
	}
	for (size_t i = 0; i < max - count && n > max; i++)
		at[count + i] = i * n / (max - count);
	if (n > max)
		return max;
	for (size_t i = 0; i < n && count < max; i++)
		at[count++] = i;
	return count;
}

static void try_systematic(struct work *w)
{
	size_t at[256], third = w->budget / 4, max = third < 256 ? third : 256, n;

	n = interesting(w, at, max);
	for (size_t i = 0; i < n; i++) {
		set_all(w, 0, 1);
		memset(w->choice.units, 1, at[i]);
		w->choice.size_ahead = i % 2;
		try_choice(w, "cut short");
		set_all(w, 1, 1);
		w->choice.units[at[i]] = 0;
		try_choice(w, "one sector lost");
		set_all(w, 0, 1);
		w->choice.units[at[i]] = 1;
		w->choice.size_ahead = !(i % 2);
		try_choice(w, "one sector kept");
	}
	for (size_t i = 0; i < w->disk.change_count; i++) {
		set_all(w, 1, 0);
		memset(w->choice.changes, 1, i);
		try_choice(w, "names cut short");
		set_all(w, 1, 1);
		w->choice.changes[i] = 0;
		try_choice(w, "one name lost");
	}
}

static void try_random(struct work *w)
{
	for (size_t i = 0; i < w->budget / 4; i++) {
		uint64_t density = 1 + chance(&w->seed) % 9;

		for (size_t u = 0; u < w->plan.count; u++)
			w->choice.units[u] = chance(&w->seed) % 10 < density;
		for (size_t c = 0; c < w->disk.change_count; c++)
			w->choice.changes[c] = chance(&w->seed) % 10 < density;
		w->choice.size_ahead = chance(&w->seed) % 2;
		try_choice(w, "at random");
	}
}

/* All that is not synced is at stake here. */
static void cut_here(struct work *w)
{
	disk_plan(&w->disk, &w->plan);
	w->choice.units = realloc(w->choice.units, w->plan.count + 1);
	w->choice.changes = realloc(w->choice.changes, w->disk.change_count + 1);
	w->seen = realloc(w->seen,
			  (w->budget * 4 + 1024 + 8 * w->disk.change_count) * sizeof(*w->seen));
	if (!w->choice.units || !w->choice.changes || !w->seen)
		_exit(3);
	w->seen_count = 0;
	w->seed = w->cut * 7919 + 1;
	for (int i = 0; i < 8; i++) {
		set_all(w, i & 1, i >> 1 & 1);
		w->choice.size_ahead = i >> 2 & 1;
		try_choice(w, i & 1 ? "all kept" : "all lost");
	}
	if (w->plan.count + w->disk.change_count <= 6) {
		try_exhaustive(w);
	} else {
		try_systematic(w);
		try_random(w);
	}
}

static void take_snap(struct work *w)
{
	struct snap s = { .when = w->cut };
	uint64_t ino;

	if (w->snap_count == SNAPS_MAX) { /* keep every second one */
		for (size_t i = 0; i < SNAPS_MAX; i++) {
			if (i % 2) {
				free(w->snaps[i].mdb);
				free(w->snaps[i].state);
			} else {
				w->snaps[i / 2] = w->snaps[i];
			}
		}
		w->snap_count = SNAPS_MAX / 2;
	}
	s.mdb = disk_memory(&w->disk, "index.mdb", &s.mdb_len, &s.ino);
	s.state = disk_memory(&w->disk, "index.state", &s.state_len, &ino);
	if (s.mdb && s.state) {
		w->snaps[w->snap_count++] = s;
		return;
	}
	free(s.mdb);
	free(s.state);
}

static void work(struct work *w)
{
	size_t cuts = 0;

	for (w->cut = 0; w->cut < w->trace.count; w->cut++) {
		const struct rec *rec = w->trace.recs[w->cut];
		bool at_stake = rec->kind == REC_SYNC || rec->kind == REC_DIRSYNC ||
				w->cut + 1 == w->trace.count;

		if (at_stake && cuts++ % WORKERS == (size_t)w->number)
			cut_here(w);
		disk_apply(&w->disk, rec);
		moment_pass(&w->moment, &w->expect, &w->trace, w->cut);
		if (rec->kind == REC_ACK)
			take_snap(w);
	}
	w->cuts = cuts;
}

static void free_work(struct work *w)
{
	for (size_t i = 0; i < w->snap_count; i++) {
		free(w->snaps[i].mdb);
		free(w->snaps[i].state);
	}
	disk_done(&w->disk);
	free(w->plan.units);
	free(w->choice.units);
	free(w->choice.changes);
	free(w->seen);
}

static pid_t start_worker(struct work *w, int number, struct shared *shared)
{
	pid_t pid;

	w->number = number;
	w->shared = shared;
	snprintf(w->folder, sizeof(w->folder), "%s/disk-%d", top, number);
	snprintf(w->path, sizeof(w->path), "%s/log", w->folder);
	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		work(w);
		folder_empty(w->folder);
		free_work(w);
		expect_done(&w->expect);
		trace_done(&w->trace);
		exit(shared->failures != 0);
	}
	return pid;
}

static bool load(struct work *w, const struct cut *cut)
{
	const char *more = getenv("SC_STATES");
	char wrong[400];
	struct stat st;

	memset(w, 0, sizeof(*w));
	w->budget = more ? (size_t)strtoul(more, NULL, 10) : 96;
	if (stat(cut->run_folder, &st) < 0) {
		perror(cut->run_folder);
		return false;
	}
	w->run_dev = (uint64_t)st.st_dev;
	trace_load(cut->trace_path, &w->trace);
	expect_load(&w->trace, &w->expect, wrong, sizeof(wrong));
	w->expect.archived = cut->archived ? cut->run_folder : NULL;
	w->cut_of = cut;
	if (!wrong[0] && !cut->check && (!w->expect.last || w->expect.split < cut->splits))
		snprintf(wrong, sizeof(wrong), "%llu rows, %zu blocks inside a commit",
			 (unsigned long long)w->expect.last, w->expect.split);
	if (wrong[0])
		printf("%s: %s\n", cut->name, wrong);
	return !wrong[0];
}

bool cut_power(const struct cut *cut)
{
	struct shared *shared = mmap(NULL, WORKERS * sizeof(*shared), PROT_READ | PROT_WRITE,
				     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	size_t states = 0, opens = 0;
	pid_t pids[WORKERS];
	struct work w;
	bool loaded, good;

	top = cut->top;
	if (shared == MAP_FAILED)
		return false;
	good = loaded = load(&w, cut);
	for (int i = 0; loaded && i < WORKERS; i++)
		pids[i] = start_worker(&w, i, &shared[i]);
	for (int i = 0; loaded && i < WORKERS; i++) {
		int status;

		if (waitpid(pids[i], &status, 0) != pids[i])
			abort();
		states += shared[i].states;
		opens += shared[i].opens;
		if (status != 0)
			good = false;
		if (!WIFEXITED(status))
			printf("ended by signal %d\n    %s\n", WTERMSIG(status), shared[i].doing);
		else if (shared[i].failures)
			printf("%zu failures\n", shared[i].failures);
	}
	printf("%s: %llu rows, %zu records, %zu states, opened %zu times\n", cut->name,
	       (unsigned long long)w.expect.last, w.trace.count, states, opens);
	expect_done(&w.expect);
	trace_done(&w.trace);
	munmap(shared, WORKERS * sizeof(*shared));
	return good && states > 0;
}
