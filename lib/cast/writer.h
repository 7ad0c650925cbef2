/*
 * cast/writer.h: commits of publishers' rows, in a thread of their own, many publishers in one
 * commit.
 *
 * Owns      the thread, its log handle and the queue until sc_writer_close; a reply's text is good
 *           until the next sc_writer_next.
 * Units     sizes in bytes; rows.
 * Errors    SC_E_NOMEM; what a publisher did wrong is told in its reply.
 * Safety    everything here in the loop's thread. Only `wake` is called from the writer's thread.
 * Source    streamcast-wire 10; man/sc-wire.7, "PUBLISHING".
 *
 * Replies come in the order of each publisher's frames, and only after its rows are durable. Frames
 * of one publisher stay in order, and rows of one frame stay together, all or none.
 */
#ifndef SC_CAST_WRITER_H
#define SC_CAST_WRITER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"

#define SC_WRITER_BYTES_MAX (8u << 20) /* queued frames of a stream: then publishers wait */
#define SC_WRITER_ROWS_MAX 65536u      /* in one commit, unless one frame has more */
#define SC_WRITER_FRAMES_MAX 64u       /* of one publisher without a reply */

struct sc_writer;
struct sc_publisher;

/* WAKE(arg), from the writer's thread, when sc_writer_next has something. */
int sc_writer_open(const char *log_path, void (*wake)(void *arg), void *arg,
		   struct sc_writer **ret_writer, struct sc_err *err);
/* Commits what was accepted, ends the thread. All publishers must be freed before. */
void sc_writer_close(struct sc_writer *writer);
bool sc_writer_busy(const struct sc_writer *writer); /* frames without a reply */

/* PRODUCER empty: an ordinary one. ARG comes back with the replies. */
int sc_publisher_new(struct sc_writer *writer, struct sc_span producer, uint64_t epoch, void *arg,
		     struct sc_publisher **ret_publisher, struct sc_err *err);
/* Its frames are still committed; replies to them are dropped. */
void sc_publisher_free(struct sc_publisher *publisher);
struct sc_span sc_publisher_name(const struct sc_publisher *publisher); /* empty: no producer */
/* 0: taken. 1: taken, and stop reading from it until a reply says resume. */
int sc_publisher_frame(struct sc_publisher *publisher, struct sc_span frame, struct sc_err *err);

struct sc_writer_reply {
	void *arg;           /* of the publisher */
	struct sc_span text; /* the frame to send; empty when there is only a resume */
	bool resume;         /* read from it again */
};
bool sc_writer_next(struct sc_writer *writer, struct sc_writer_reply *ret_reply);

struct sc_writer_stats {
	uint64_t publishers, frames, rows, commits, duplicates, refused, failed, queued_bytes;
};
void sc_writer_stats(struct sc_writer *writer, struct sc_writer_stats *ret_stats);

#endif
