/* msg/state.c: the state of a broker, written; the file as a file. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "msg/broker_internal.h"
#include "msg/pack.h"
#include "msg/state.h"
#include "msg/state_internal.h"

#define BUFFER 262144u /* bytes gathered before they are written */

/* Four bytes a step. */
uint32_t sc_state_crc(uint32_t crc, const void *data, size_t len)
{
	static uint32_t table[4][256];
	const unsigned char *p = data;

	if (!table[0][1]) {
		for (uint32_t i = 0; i < 256; i++) {
			uint32_t c = i;

			for (int bit = 0; bit < 8; bit++)
				c = c >> 1 ^ (c & 1 ? 0xedb88320u : 0);
			table[0][i] = c;
		}
		for (int t = 1; t < 4; t++) {
			for (int i = 0; i < 256; i++)
				table[t][i] = table[t - 1][i] >> 8 ^
					      table[0][table[t - 1][i] & 0xff];
		}
	}
	crc = ~crc;
	for (; len >= 4; len -= 4, p += 4) {
		crc ^= (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 |
		       (uint32_t)p[3] << 24;
		crc = table[3][crc & 0xff] ^ table[2][crc >> 8 & 0xff] ^
		      table[1][crc >> 16 & 0xff] ^ table[0][crc >> 24];
	}
	for (; len > 0; len--)
		crc = crc >> 8 ^ table[0][(crc ^ *p++) & 0xff];
	return ~crc;
}

/* Appends until something fails; then nothing more, and the failure is kept. */
struct out {
	struct sc_broker *b;
	int fd;
	const char *name;
	struct sc_bytes bytes;
	struct sc_bytes form; /* of a message that is not there in document order */
	uint32_t crc;
	uint64_t arrays, messages;
	int rc;
	struct sc_err *err;
};

static void flush(struct out *o)
{
	if (o->rc < 0)
		return;
	o->crc = sc_state_crc(o->crc, o->bytes.data, o->bytes.len);
	o->rc = sc_write_all(o->fd, o->bytes.data, o->bytes.len, o->name, o->err);
	sc_bytes_clear(&o->bytes);
}

static void packed(struct out *o, int rc)
{
	if (rc < 0 && o->rc == 0)
		o->rc = sc_err_nomem(o->err, "cannot write the state");
}

static void begin(struct out *o, const char *kind, uint32_t count)
{
	if (o->bytes.len > BUFFER)
		flush(o);
	o->arrays++;
	packed(o, sc_pack_array(&o->bytes, count + 1));
	packed(o, sc_pack_str(&o->bytes, sc_span_str(kind)));
}

static void put_size(struct out *o, bool sized, const struct sc_queue *q)
{
	packed(o, sized ? sc_pack_u64(&o->bytes, q->size) : sc_pack_nil(&o->bytes));
}

/* The wall time of a time of the other clock. */
static int64_t wall_ms(const struct sc_broker *b, int64_t mono_us)
{
	int64_t us = b->wall_us - (b->mono_us - mono_us);

	return us < 0 ? 0 : us / 1000; /* the wall clock may have been set to long ago */
}

/* Its bytes. A second form of its own would stay, of all messages at once. */
static struct sc_span form_of(struct out *o, const struct sc_parcel *p)
{
	struct sc_span form = p->forms[SC_MSG_DOCUMENT];

	if (form.data)
		return form;
	sc_bytes_clear(&o->form);
	if (sc_msg_write(&o->form, &p->msg, SC_MSG_DOCUMENT) < 0)
		return form;
	return sc_span(o->form.data, o->form.len);
}

static void put_message(struct out *o, struct sc_parcel *p)
{
	struct sc_span form = form_of(o, p);

	p->number = ++o->messages;
	begin(o, "message", 4);
	packed(o, form.data ? 0 : SC_E_NOMEM);
	packed(o, sc_pack_u64(&o->bytes, p->number));
	packed(o, sc_pack_u64(&o->bytes, p->seq));
	packed(o, sc_pack_i64(&o->bytes, wall_ms(o->b, p->accepted_us)));
	packed(o, sc_pack_bin(&o->bytes, form));
}

static int put_queued(void *arg, unsigned priority, struct sc_parcel *p)
{
	struct out *o = arg;

	if (p->number == 0)
		put_message(o, p);
	begin(o, "queued", 2);
	packed(o, sc_pack_u64(&o->bytes, priority));
	packed(o, sc_pack_u64(&o->bytes, p->number));
	return o->rc;
}

static int clear_number(void *arg, unsigned priority, struct sc_parcel *p)
{
	(void)arg;
	(void)priority;
	p->number = 0;
	return 0;
}

static void put_channels(struct out *o)
{
	const struct sc_broker_link *at = o->b->channel_list.next;

	for (; at != &o->b->channel_list; at = at->next) {
		const struct sc_broker_channel *c = SC_BROKER_OF(at, struct sc_broker_channel,
								 used);

		begin(o, "channel", 4);
		packed(o, sc_pack_str(&o->bytes, c->by_name.key));
		packed(o, sc_pack_bool(&o->bytes, c->kept));
		put_size(o, c->sized, &c->queue);
		packed(o, sc_pack_u64(&o->bytes, c->priority));
		(void)sc_queue_each(&c->queue, put_queued, o);
	}
}

static void put_subscriptions(struct out *o, const struct sc_broker_endpoint *e)
{
	const struct sc_broker_link *at = e->subscriptions.next;

	for (; at != &e->subscriptions; at = at->next) {
		const struct sc_broker_subject *s =
			SC_BROKER_OF(at, struct sc_broker_subscription, of_endpoint)->subject;

		begin(o, "subscription", 3);
		packed(o, sc_pack_str(&o->bytes, e->by_name.key));
		packed(o, sc_pack_str(&o->bytes, s->channel->entry.pattern));
		packed(o, sc_pack_str(&o->bytes, s->entry.pattern));
	}
	for (at = e->awaits.next; at != &e->awaits; at = at->next) {
		const struct sc_broker_await *a = SC_BROKER_OF(at, struct sc_broker_await,
							       of_endpoint);

		if (a->expires_us <= o->b->wall_us)
			continue;
		begin(o, "await", 4);
		packed(o, sc_pack_str(&o->bytes, e->by_name.key));
		packed(o, sc_pack_bin(&o->bytes, a->by_uid.key));
		packed(o, sc_pack_i64(&o->bytes, a->expires_us));
		packed(o, sc_pack_bool(&o->bytes, a->once));
	}
}

static void put_endpoints(struct out *o)
{
	const struct sc_broker_link *at = o->b->endpoint_list.next;

	for (; at != &o->b->endpoint_list; at = at->next) {
		const struct sc_broker_endpoint *e = SC_BROKER_OF(at, struct sc_broker_endpoint,
								  link);

		if (!e->kept && e->subscription_count == 0 && e->queue.count == 0)
			continue;
		begin(o, "endpoint", 3);
		packed(o, sc_pack_str(&o->bytes, e->by_name.key));
		packed(o, sc_pack_bool(&o->bytes, e->kept));
		put_size(o, e->sized, &e->queue);
		(void)sc_queue_each(&e->queue, put_queued, o);
		put_subscriptions(o, e);
	}
}

static void put_end(struct out *o)
{
	uint64_t arrays = o->arrays;

	flush(o);
	begin(o, "end", 2);
	packed(o, sc_pack_u64(&o->bytes, arrays));
	packed(o, sc_pack_u64(&o->bytes, o->crc));
	flush(o);
}

static void clear_numbers(struct sc_broker *b)
{
	struct sc_broker_link *at;

	for (at = b->channel_list.next; at != &b->channel_list; at = at->next)
		(void)sc_queue_each(&SC_BROKER_OF(at, struct sc_broker_channel, used)->queue,
				    clear_number, NULL);
	for (at = b->endpoint_list.next; at != &b->endpoint_list; at = at->next)
		(void)sc_queue_each(&SC_BROKER_OF(at, struct sc_broker_endpoint, link)->queue,
				    clear_number, NULL);
}

static int write_all(struct sc_broker *b, int fd, const char *name, struct sc_err *err)
{
	struct out o = { .b = b, .fd = fd, .name = name, .err = err };

	sc_bytes_init(&o.bytes, SIZE_MAX / 4);
	sc_bytes_init(&o.form, SIZE_MAX / 4);
	clear_numbers(b);
	begin(&o, SC_STATE_KIND, 2);
	packed(&o, sc_pack_u64(&o.bytes, SC_STATE_VERSION));
	packed(&o, sc_pack_i64(&o.bytes, b->wall_us / 1000));
	put_channels(&o);
	put_endpoints(&o);
	put_end(&o);
	sc_bytes_done(&o.bytes);
	sc_bytes_done(&o.form);
	return o.rc;
}

/* The file. */

static int failed(struct sc_err *err, int code, const char *tried, const char *path)
{
	sc_err_sys(err, code, errno, tried);
	sc_err_on(err, "state file", path);
	return err ? err->code : code;
}

/* The folder that holds it. */
static int folder_of(const char *path, char ret_folder[PATH_MAX], struct sc_err *err)
{
	const char *slash = strrchr(path, '/');
	size_t len = slash ? (size_t)(slash - path) : 1;

	if (len >= PATH_MAX) {
		sc_err_set(err, SC_E_CANTCREAT, "cannot keep the state", "the name is too long");
		return SC_E_CANTCREAT;
	}
	memcpy(ret_folder, slash ? path : ".", len);
	ret_folder[len] = '\0';
	if (len == 0)
		memcpy(ret_folder, "/", 2);
	return 0;
}

int sc_state_prepare(const char *path, struct sc_err *err)
{
	char folder[PATH_MAX];
	int rc = sc_make_parents(path, true, err);

	if (rc == 0)
		rc = folder_of(path, folder, err);
	if (rc == 0 && access(folder, W_OK | X_OK) < 0) {
		rc = failed(err, SC_E_CANTCREAT, "cannot keep", path);
		sc_err_next(err, "name another with --state, or give --no-state");
	}
	return rc;
}

/* A file of its own: the state file itself comes and goes. */
int sc_state_lock(const char *path, int *ret_lock, struct sc_err *err)
{
	char name[PATH_MAX];
	int n = snprintf(name, sizeof(name), "%s.lock", path), fd, rc;

	if (n < 0 || (size_t)n >= sizeof(name)) {
		sc_err_set(err, SC_E_CANTCREAT, "cannot keep the state", "the name is too long");
		return SC_E_CANTCREAT;
	}
	fd = open(name, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return failed(err, SC_E_CANTCREAT, "cannot open", name);
	if (flock(fd, LOCK_EX | LOCK_NB) == 0) {
		*ret_lock = fd;
		return 0;
	}
	if (errno == EWOULDBLOCK) {
		sc_err_set(err, SC_E_BUSY, "cannot use", "another broker will write it");
		sc_err_on(err, "state file", path);
		sc_err_next(err, "name another with --state, or give --no-state");
		rc = SC_E_BUSY;
	} else {
		rc = failed(err, SC_E_IO, "cannot lock", name);
	}
	close(fd);
	return rc;
}

int sc_state_remove(const char *path, struct sc_err *err)
{
	char folder[PATH_MAX];
	int rc = folder_of(path, folder, err);

	sc_replace_sweep(path);
	if (rc < 0)
		return rc;
	if (sc_sys_unlink(path) < 0) {
		if (errno == ENOENT)
			return 0;
		rc = failed(err, SC_E_IO, "cannot remove", path);
		sc_err_next(err, "its messages would be delivered again by the next start");
		return rc;
	}
	return sc_sync_dir(folder, err);
}

static int write_state(void *arg, int fd, const char *name, struct sc_err *err)
{
	return write_all(arg, fd, name, err);
}

int sc_state_write(const char *path, struct sc_broker *broker, struct sc_err *err)
{
	int rc = sc_replace_file_by(path, write_state, broker, 0600, true, err);

	if (rc < 0)
		sc_err_on(err, "state file", path);
	return rc;
}
