/*
 * tests/fault/disk.h: what a power cut may leave of a folder, from a trace of record.so.
 *
 * The model: a file has durable content (as of its last sync) and pending writes; of these each
 * 512-byte sector may be there or not, at any stage of what was written to it, and the size may
 * have run ahead of the data. A name that was made, renamed or removed is durable once its folder
 * was synced; until then any choice of such changes may have reached the disk. Files of the index
 * (index.*) are never synced: any older or torn content of them may be found.
 *
 * Owns      the trace, until disk_done; a struct disk is one point in it and only moves on.
 * Errors    the trace must be whole: what it does not explain ends the test program.
 */
#ifndef SC_FAULT_DISK_H
#define SC_FAULT_DISK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trace.h"

#define SECTOR 512u

struct trace {
	char *data;
	size_t len;
	const struct rec **recs; /* each record's head */
	size_t count;
};
void trace_load(const char *path, struct trace *ret_trace);
void trace_done(struct trace *trace);
const char *rec_path(const struct rec *rec); /* not terminated */
const char *rec_data(const struct rec *rec);

struct piece {              /* a change to a file that is not synced */
	bool size_only;
	uint64_t at;
	uint32_t len;
	const char *data;
};
struct file {
	uint64_t ino;
	bool index;
	char *data;         /* durable */
	size_t size, cap;
	struct piece *pending;
	size_t count, count_cap;
	size_t plan_at;     /* its first unit in the plan */
};
struct name {
	char path[256];
	struct file *file;  /* NULL: a folder */
};
struct change {             /* to names, not synced */
	enum rec_kind kind;
	char path[256], to[256];
	struct file *file;
};
struct disk {
	struct file **files;
	size_t file_count;
	struct name *names;
	size_t name_count;
	struct change *changes;
	size_t change_count;
};
void disk_apply(struct disk *disk, const struct rec *rec);
void disk_done(struct disk *disk);

/* What may or may not be there, one unit a choice: a sector of a pending write (runs of zeros are
 * one), or a size. */
struct unit {
	struct file *file;
	size_t piece;
	uint64_t first, sectors;
	bool head;          /* the first one of its write */
};
struct plan {
	struct unit *units;
	size_t count, cap;
};
void disk_plan(struct disk *disk, struct plan *ret_plan);

enum index_choice { INDEX_NONE, INDEX_DURABLE, INDEX_ALL, INDEX_RANDOM, INDEX_GIVEN };
struct choice {
	unsigned char *units;   /* of the plan: 1 = there */
	unsigned char *changes; /* of disk->changes */
	bool size_ahead;
	enum index_choice index;
	uint64_t seed;          /* for INDEX_RANDOM */
};
/* Make FOLDER (emptied) what the disk holds by that choice. Returns a hash of all but the index. */
uint64_t disk_build(struct disk *disk, const struct plan *plan, const struct choice *choice,
		    const char *folder, bool write);
/* The index file called NAME (index.mdb) as a killed process leaves it: everything written. Heap;
 * NULL when there is none. */
char *disk_memory(const struct disk *disk, const char *name, size_t *ret_len, uint64_t *ret_ino);
void folder_empty(const char *folder);

uint64_t chance(uint64_t *seed); /* a repeatable random number */

#endif
