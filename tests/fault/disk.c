/* disk.c: the model of a disk that loses power. */
#include "disk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

__attribute__((format(printf, 1, 2))) _Noreturn static void give_up(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	printf("\n");
	fflush(stdout);
	_exit(3);
}

static void *more(void *old, size_t size)
{
	void *p = realloc(old, size ? size : 1);

	if (!p)
		give_up("out of memory");
	return p;
}

uint64_t chance(uint64_t *seed)
{
	uint64_t z = *seed += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

/* --- the trace --- */

const char *rec_path(const struct rec *rec)
{
	return (const char *)(rec + 1);
}

const char *rec_data(const struct rec *rec)
{
	return (const char *)(rec + 1) + rec->path_len;
}

void trace_load(const char *path, struct trace *ret_trace)
{
	struct trace t = { NULL, 0, NULL, 0 };
	struct stat st;
	size_t pos = 0, raw_pos = 0, raw_len;
	char *raw;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0 || fstat(fd, &st) < 0)
		give_up("cannot read %s: %s", path, strerror(errno));
	raw_len = (size_t)st.st_size;
	raw = more(NULL, raw_len);
	for (size_t got = 0; got < raw_len;) {
		ssize_t n = read(fd, raw + got, raw_len - got);

		if (n <= 0)
			give_up("cannot read %s", path);
		got += (size_t)n;
	}
	close(fd);
	/* copied once, so that every head is aligned */
	t.data = more(NULL, raw_len * 2 + 64);
	while (raw_pos < raw_len) {
		struct rec head;
		size_t size;

		if (raw_len - raw_pos < sizeof(head))
			give_up("the trace is cut");
		memcpy(&head, raw + raw_pos, sizeof(head));
		size = sizeof(head) + head.path_len + head.data_len;
		if (size > raw_len - raw_pos || !head.kind || head.kind >= REC_KINDS)
			give_up("the trace is damaged");
		if (t.count % 1024 == 0)
			t.recs = more(t.recs, (t.count + 1024) * sizeof(*t.recs));
		memcpy(t.data + pos, raw + raw_pos, size);
		t.recs[t.count++] = (const struct rec *)(const void *)(t.data + pos);
		pos += (size + 7) & ~(size_t)7;
		raw_pos += size;
	}
	free(raw);
	t.len = pos;
	*ret_trace = t;
}

void trace_done(struct trace *trace)
{
	free(trace->data);
	free(trace->recs);
	memset(trace, 0, sizeof(*trace));
}

/* --- one point in the trace --- */

static bool is_index(const char *path)
{
	const char *base = strrchr(path, '/');

	return strncmp(base ? base + 1 : path, "index.", 6) == 0;
}

static void get_path(const struct rec *rec, char ret_path[256])
{
	if (rec->path_len >= 256)
		give_up("a path is too long");
	memcpy(ret_path, rec_path(rec), rec->path_len);
	ret_path[rec->path_len] = 0;
}

static struct file *file_by_ino(struct disk *d, uint64_t ino)
{
	/* the newest: an inode number is used again after its file was removed */
	for (size_t i = d->file_count; i-- > 0;)
		if (d->files[i]->ino == ino)
			return d->files[i];
	give_up("the trace changes a file (inode %llu) whose making it does not show",
		(unsigned long long)ino);
}

static struct file *file_new(struct disk *d, const struct rec *rec, const char *path)
{
	struct file *f = more(NULL, sizeof(*f));

	memset(f, 0, sizeof(*f));
	f->ino = rec->ino;
	f->index = is_index(path);
	d->files = more(d->files, (d->file_count + 1) * sizeof(struct file *));
	d->files[d->file_count++] = f;
	return f;
}

static void add_piece(struct file *f, const struct rec *rec)
{
	if (f->count == f->count_cap) {
		f->count_cap = f->count_cap ? f->count_cap * 2 : 16;
		f->pending = more(f->pending, f->count_cap * sizeof(*f->pending));
	}
	f->pending[f->count++] = (struct piece){ rec->kind == REC_SIZE, rec->at, rec->data_len,
						 rec_data(rec) };
}

static void resize(struct file *f, size_t size)
{
	if (size > f->cap) {
		size_t cap = size + size / 2 + 4096;

		f->data = more(f->data, cap);
		memset(f->data + f->cap, 0, cap - f->cap);
		f->cap = cap;
	}
	if (size < f->size)
		memset(f->data + size, 0, f->size - size);
	f->size = size;
}

static void settle(struct file *f)
{
	for (size_t i = 0; i < f->count; i++) {
		const struct piece *p = &f->pending[i];

		if (p->size_only) {
			resize(f, p->at);
			continue;
		}
		if (p->at + p->len > f->size)
			resize(f, p->at + p->len);
		memcpy(f->data + p->at, p->data, p->len);
	}
	f->count = 0;
}

static struct name *find_name(struct name *names, size_t count, const char *path)
{
	for (size_t i = 0; i < count; i++)
		if (!strcmp(names[i].path, path))
			return &names[i];
	return NULL;
}

/* One change to a list of names, which must have room for one more; false when it cannot be made
 * there. */
static bool change_names(struct name *names, size_t *count, const struct change *c)
{
	struct name *at = find_name(names, *count, c->path), *old;

	if (c->kind == REC_CREATE || c->kind == REC_LINK || c->kind == REC_MKDIR) {
		if (at)
			return false;
		at = &names[(*count)++];
		snprintf(at->path, sizeof(at->path), "%s", c->path);
		at->file = c->file;
		return true;
	}
	if (!at)
		return false;
	if (c->kind == REC_RENAME) {
		old = find_name(names, *count, c->to);
		if (old)
			*old = names[--*count];
		at = find_name(names, *count, c->path);
		if (!at) /* it was the last one, and took the old one's place */
			return false;
		snprintf(at->path, sizeof(at->path), "%s", c->to);
		return true;
	}
	*at = names[--*count];
	return true;
}

static void dir_of(const char *path, char ret_dir[256])
{
	const char *slash = strrchr(path, '/');

	if (slash)
		snprintf(ret_dir, 256, "%.*s", (int)(slash - path), path);
	else
		snprintf(ret_dir, 256, ".");
}

/* The folder was synced: the changes in it are for ever. */
static void settle_names(struct disk *d, const char *folder)
{
	size_t kept = 0;
	char dir[256];

	d->names = more(d->names, (d->name_count + d->change_count + 1) * sizeof(*d->names));
	for (size_t i = 0; i < d->change_count; i++) {
		dir_of(d->changes[i].path, dir);
		if (strcmp(dir, folder) != 0)
			d->changes[kept++] = d->changes[i];
		else if (!change_names(d->names, &d->name_count, &d->changes[i]))
			give_up("the names in the trace do not fit together at '%s'",
				d->changes[i].path);
	}
	d->change_count = kept;
}

static void add_change(struct disk *d, const struct rec *rec)
{
	struct change *c;

	d->changes = more(d->changes, (d->change_count + 1) * sizeof(*d->changes));
	c = &d->changes[d->change_count++];
	memset(c, 0, sizeof(*c));
	c->kind = (enum rec_kind)rec->kind;
	get_path(rec, c->path);
	if (c->kind == REC_CREATE)
		c->file = file_new(d, rec, c->path);
	if (c->kind == REC_LINK)
		c->file = file_by_ino(d, rec->ino);
	if (c->kind == REC_RENAME) {
		if (rec->data_len >= sizeof(c->to))
			give_up("a path is too long");
		memcpy(c->to, rec_data(rec), rec->data_len);
		c->to[rec->data_len] = 0;
	}
}

void disk_apply(struct disk *d, const struct rec *rec)
{
	char path[256];

	switch ((enum rec_kind)rec->kind) {
	case REC_CREATE:
	case REC_RENAME:
	case REC_LINK:
	case REC_UNLINK:
	case REC_MKDIR:
	case REC_RMDIR:
		/* the folder itself is where the model begins */
		if (rec->kind == REC_MKDIR && rec->path_len == 1 && *rec_path(rec) == '.')
			break;
		add_change(d, rec);
		break;
	case REC_WRITE:
	case REC_SIZE:
		add_piece(file_by_ino(d, rec->ino), rec);
		break;
	case REC_SYNC:
		settle(file_by_ino(d, rec->ino));
		break;
	case REC_DIRSYNC:
		get_path(rec, path);
		settle_names(d, path);
		break;
	case REC_ODD:
		give_up("the program did what the model does not know: %.*s", (int)rec->data_len,
			rec_data(rec));
	default:
		break;
	}
}

void disk_done(struct disk *d)
{
	for (size_t i = 0; i < d->file_count; i++) {
		free(d->files[i]->data);
		free(d->files[i]->pending);
		free(d->files[i]);
	}
	free(d->files);
	free(d->names);
	free(d->changes);
	memset(d, 0, sizeof(*d));
}

/* --- choices --- */

static bool all_zero(const char *data, size_t len)
{
	return len == 0 || (data[0] == 0 && memcmp(data, data + 1, len - 1) == 0);
}

/* The part of sector S that piece P writes. */
static void part_of(const struct piece *p, uint64_t s, uint64_t *ret_from, uint64_t *ret_to)
{
	uint64_t from = s * SECTOR, to = from + SECTOR;

	*ret_from = from > p->at ? from : p->at;
	*ret_to = to < p->at + p->len ? to : p->at + p->len;
}

static void add_unit(struct plan *plan, struct file *f, size_t piece, uint64_t first, bool head)
{
	if (plan->count == plan->cap) {
		plan->cap = plan->cap ? plan->cap * 2 : 64;
		plan->units = more(plan->units, plan->cap * sizeof(*plan->units));
	}
	plan->units[plan->count++] = (struct unit){ f, piece, first, 1, head };
}

static void plan_piece(struct plan *plan, struct file *f, size_t i)
{
	const struct piece *p = &f->pending[i];
	bool zeros_before = false, head = true;

	if (p->size_only || p->len == 0) {
		add_unit(plan, f, i, p->at / SECTOR, true);
		plan->units[plan->count - 1].sectors = 0;
		return;
	}
	for (uint64_t s = p->at / SECTOR; s * SECTOR < p->at + p->len; s++) {
		uint64_t from, to;
		bool zero;

		part_of(p, s, &from, &to);
		zero = all_zero(p->data + (from - p->at), (size_t)(to - from));
		if (zero && zeros_before)
			plan->units[plan->count - 1].sectors++;
		else
			add_unit(plan, f, i, s, head);
		zeros_before = zero;
		head = false;
	}
}

void disk_plan(struct disk *d, struct plan *plan)
{
	plan->count = 0;
	for (size_t i = 0; i < d->file_count; i++) {
		struct file *f = d->files[i];

		f->plan_at = plan->count;
		if (f->index)
			continue;
		for (size_t p = 0; p < f->count; p++)
			plan_piece(plan, f, p);
	}
}

struct content {
	char *data;
	size_t size, cap;
	uint32_t *stage; /* per sector: pieces below this number are in it */
	size_t stages;
};
static struct content content; /* reused: one thread */

static size_t size_in_memory(const struct file *f)
{
	size_t size = f->size;

	for (size_t i = 0; i < f->count; i++) {
		const struct piece *p = &f->pending[i];

		if (p->size_only)
			size = p->at;
		else if (p->at + p->len > size)
			size = p->at + p->len;
	}
	return size;
}

static size_t size_largest(const struct file *f)
{
	size_t size = f->size;

	for (size_t i = 0; i < f->count; i++)
		if (f->pending[i].at + f->pending[i].len > size)
			size = f->pending[i].at + f->pending[i].len;
	return size;
}

static void content_start(const struct file *f)
{
	size_t need = size_largest(f);

	if (need + SECTOR > content.cap) {
		content.cap = need + SECTOR + 65536;
		content.data = more(content.data, content.cap);
		content.stages = content.cap / SECTOR + 1;
		content.stage = more(content.stage, content.stages * sizeof(*content.stage));
	}
	if (f->size)
		memcpy(content.data, f->data, f->size);
	memset(content.data + f->size, 0, need + SECTOR - f->size);
	memset(content.stage, 0, (need / SECTOR + 1) * sizeof(*content.stage));
	content.size = f->size;
}

static void content_keep(const struct unit *u)
{
	for (uint64_t s = u->first; s < u->first + u->sectors; s++)
		if (content.stage[s] < u->piece + 1)
			content.stage[s] = (uint32_t)u->piece + 1;
}

/* A sector in the cache holds all that was written to it so far: a later write is never there
 * without the earlier ones. */
static void content_finish(const struct file *f, const unsigned char *sizes)
{
	for (size_t i = 0; i < f->count; i++) {
		const struct piece *p = &f->pending[i];

		if (p->size_only) {
			if (sizes[i]) {
				if (p->at < content.size)
					memset(content.data + p->at, 0, content.size - p->at);
				content.size = p->at;
			}
			continue;
		}
		for (uint64_t s = p->at / SECTOR; s * SECTOR < p->at + p->len; s++) {
			uint64_t from, to;

			if (content.stage[s] <= i)
				continue;
			part_of(p, s, &from, &to);
			memcpy(content.data + from, p->data + (from - p->at), (size_t)(to - from));
			if (to > content.size)
				content.size = to;
		}
	}
}

static void content_plain(const struct file *f, const struct plan *plan,
			  const struct choice *choice)
{
	unsigned char *sizes = more(NULL, f->count);

	memset(sizes, 0, f->count);
	content_start(f);
	for (size_t u = f->plan_at; u < plan->count && plan->units[u].file == f; u++) {
		if (!choice->units[u])
			continue;
		if (plan->units[u].sectors == 0)
			sizes[plan->units[u].piece] = 1;
		else
			content_keep(&plan->units[u]);
	}
	content_finish(f, sizes);
	free(sizes);
	if (choice->size_ahead && size_in_memory(f) > content.size)
		content.size = size_in_memory(f);
}

static void content_index(const struct file *f, const struct choice *choice)
{
	unsigned char *sizes = more(NULL, f->count);
	uint64_t seed = choice->seed ^ f->ino;

	content_start(f);
	for (size_t i = 0; i < f->count; i++) {
		const struct piece *p = &f->pending[i];
		bool kept = choice->index == INDEX_ALL ||
			    (choice->index == INDEX_RANDOM && chance(&seed) % 2);

		sizes[i] = kept;
		for (uint64_t s = p->at / SECTOR; kept && s * SECTOR < p->at + p->len; s++)
			content_keep(&(struct unit){ .piece = i, .first = s, .sectors = 1 });
	}
	content_finish(f, sizes);
	free(sizes);
}

static void write_file(const char *folder, const char *path)
{
	char full[1024];
	int fd;

	snprintf(full, sizeof(full), "%s/%s", folder, path);
	fd = open(full, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	if (fd < 0)
		give_up("cannot make %s: %s", full, strerror(errno));
	for (size_t done = 0; done < content.size;) {
		ssize_t n = write(fd, content.data + done, content.size - done);

		if (n <= 0)
			give_up("cannot write %s: %s", full, strerror(errno));
		done += (size_t)n;
	}
	close(fd);
}

static uint64_t mix(uint64_t hash, const void *data, size_t len)
{
	const char *p = data;
	uint64_t word;

	for (; len >= 8; len -= 8, p += 8) {
		memcpy(&word, p, 8);
		hash = (hash ^ word) * 0x9fb21c651e98df25u;
		hash ^= hash >> 29;
	}
	for (; len > 0; len--, p++)
		hash = (hash ^ (unsigned char)*p) * 0x100000001b3u;
	return hash ^ hash >> 32;
}

static int by_path(const void *a, const void *b)
{
	return strcmp(((const struct name *)a)->path, ((const struct name *)b)->path);
}

/* Is the folder of this name there too? */
static bool has_parent(const struct name *names, size_t count, const char *path)
{
	char dir[256];

	dir_of(path, dir);
	if (!strcmp(dir, "."))
		return true;
	for (size_t i = 0; i < count; i++)
		if (!strcmp(names[i].path, dir))
			return names[i].file == NULL && has_parent(names, count, dir);
	return false;
}

uint64_t disk_build(struct disk *d, const struct plan *plan, const struct choice *choice,
		    const char *folder, bool write)
{
	struct name *names = more(NULL, (d->name_count + d->change_count + 1) * sizeof(*names));
	size_t count = d->name_count;
	uint64_t hash = 1;

	if (count)
		memcpy(names, d->names, count * sizeof(*names));
	for (size_t i = 0; i < d->change_count; i++)
		if (choice->changes[i])
			change_names(names, &count, &d->changes[i]);
	qsort(names, count, sizeof(*names), by_path);
	if (write)
		folder_empty(folder);
	for (size_t i = 0; i < count; i++) {
		const struct name *n = &names[i];
		bool index = n->file && n->file->index;

		if (!has_parent(names, count, n->path) ||
		    (index &&
		     (choice->index == INDEX_NONE || choice->index == INDEX_GIVEN || !write)))
			continue;
		if (!index)
			hash = mix(hash, n->path, strlen(n->path) + 1);
		if (!n->file) {
			char full[1024];

			snprintf(full, sizeof(full), "%s/%s", folder, n->path);
			if (write && mkdir(full, 0777) < 0)
				give_up("cannot make %s: %s", full, strerror(errno));
			continue;
		}
		if (index)
			content_index(n->file, choice);
		else
			content_plain(n->file, plan, choice);
		if (!index)
			hash = mix(mix(hash, &content.size, sizeof(content.size)), content.data,
				   content.size);
		if (write)
			write_file(folder, n->path);
	}
	free(names);
	return hash;
}

char *disk_memory(const struct disk *d, const char *name, size_t *ret_len, uint64_t *ret_ino)
{
	static const struct choice all = { .index = INDEX_ALL };
	struct name *names = more(NULL, (d->name_count + d->change_count + 1) * sizeof(*names));
	size_t count = d->name_count;
	char *copy = NULL;

	if (count)
		memcpy(names, d->names, count * sizeof(*names));
	for (size_t i = 0; i < d->change_count; i++)
		change_names(names, &count, &d->changes[i]);
	for (size_t i = 0; i < count && !copy; i++) {
		const char *base = strrchr(names[i].path, '/');

		if (!names[i].file || strcmp(base ? base + 1 : names[i].path, name) != 0)
			continue;
		content_index(names[i].file, &all);
		copy = more(NULL, content.size);
		memcpy(copy, content.data, content.size);
		*ret_len = content.size;
		*ret_ino = names[i].file->ino;
	}
	free(names);
	return copy;
}

void folder_empty(const char *folder)
{
	DIR *dir = opendir(folder);
	struct dirent *entry;

	if (!dir) {
		if (errno == ENOENT && mkdir(folder, 0777) == 0)
			return;
		give_up("cannot open %s: %s", folder, strerror(errno));
	}
	while ((entry = readdir(dir))) {
		char path[1024];
		struct stat st;

		if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, ".."))
			continue;
		snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
		if (lstat(path, &st) == 0 && S_ISDIR(st.st_mode)) {
			folder_empty(path);
			rmdir(path);
		} else {
			unlink(path);
		}
	}
	closedir(dir);
}
