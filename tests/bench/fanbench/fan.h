/*
 * tests/bench/fanbench/fan.h: what the parts of fanbench share: the subscribers, the threads that
 * read for them, and what the command line said.
 */
#ifndef SC_BENCH_FAN_H
#define SC_BENCH_FAN_H

#include <pthread.h>

#include "../bench.h"

enum proto { P_WS, P_NATS, P_NATSWS, P_REDIS, P_REDISX, P_MQTT };
extern const char *const proto_names[];

enum { CL_EOF, CL_RESET, CL_NOCODE, CL_REFUSED, CL_PROTOCOL, CL_NKIND };
extern const char *const cl_names[];

struct conn {
	int fd;
	int ix;
	bool up, closed, stall, counted_done;
	int close_code; /* 0: none seen */
	uint64_t frames, bytes, frames0, bytes0;
	uint64_t next; /* expected offset, when checking */
	bool have_next;
	struct buf in; /* bytes of an unfinished frame */
	struct buf l2; /* nats-ws: unfinished NATS text; ws: fragments */
	/* redis-stream reply state */
	int xpos;
	uint64_t xleft;
	char xid[64];
	bool xdone;
};

struct worker {
	pthread_t th;
	int ep, n0, n1;
	unsigned char *rb;
	size_t rcap;
	struct hist lat;
	uint64_t gaps, back, bad, first, last_off;
	bool have_first;
	_Atomic uint64_t min_recv;
	uint64_t t_first, t_last;
	double cpu0, cpu1;
	int ndone;
	uint64_t reads;
};

/* fanbench.c: the command line, and what the threads tell each other. */
extern enum proto proto;
extern const char *host, *path, *subject, *ready_file, *pub_cmd;
extern const char *credit_file, *js_stream, *xcmd, *check_key, *label, *subproto;
extern int port, nconns, nthreads, nstall, js_fc;
extern double secs, max_secs, idle_s, warmup;
extern uint64_t want_msgs, xcount;
extern bool check, greeting, latency, discard, parse_payload, quiet;
extern size_t rbsize, frame_bytes;
extern int rcvbuf;
extern struct conn *conns;
extern struct worker *workers;
extern struct credit *credit;
extern _Atomic int go_measure, stop_all, n_up, n_closed, n_done;
extern _Atomic uint64_t g_first, g_warm_done;
extern _Atomic uint64_t errors_close[CL_NKIND];
extern _Atomic uint64_t close_codes[5000];
extern char first_err[256];
extern pthread_mutex_t err_mx;
/* The first complaint of a server, for the result. */
void note_err(const char *s, size_t n);

/* feed.c: bytes of a connection to messages, counted and looked at. */
/* Eats what is complete of P to E, which came at T, and returns where it stopped. */
unsigned char *feed(struct worker *w, struct conn *c, unsigned char *p, unsigned char *e,
		    uint64_t t);
/* The subscription stands. */
void conn_up(struct conn *c);
/* Ask for the next entries of a Redis stream. */
void x_request(struct conn *c);
void send_small(struct conn *c, const void *p, size_t n);
void send_text(struct conn *c, const char *s, size_t n);

/* subscribe.c: connections, and the thread that reads a part of them. */
void *worker_main(void *arg);

#endif
