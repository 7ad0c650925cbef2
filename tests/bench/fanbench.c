/*
 * tests/bench/fanbench.c: N subscribers on loopback, counted and timed.
 *
 * One program for every server that is compared, so that the client's cost is the same in each row
 * of a table: WebSocket (sc-serve, limit, others), NATS (TCP and inside WebSocket), Redis pub/sub
 * and stream reads, MQTT 3.1.1.
 */
#include "fanbench/fan.h"
const char *const proto_names[] = {
	"ws", "nats", "nats-ws", "redis", "redis-stream", "mqtt", NULL
};
const char *const cl_names[] = { "eof", "reset", "nocode", "refused", "protocol" };

enum proto proto = P_WS;
const char *host = "127.0.0.1", *path = "/", *subject = "bench", *ready_file, *pub_cmd;
const char *credit_file, *js_stream, *xcmd = "xread", *check_key, *label, *subproto;
int port = 9001, nconns = 1, nthreads = 1, nstall = 0, js_fc = 1;
double secs = 0, max_secs = 60, idle_s = 3, warmup = 0;
uint64_t want_msgs = 0, xcount = 10000;
bool check, greeting, latency, discard, parse_payload, quiet;
size_t rbsize = 64 * 1024, frame_bytes = 0;
int rcvbuf = 0;
struct conn *conns;
struct worker *workers;
struct credit *credit;
_Atomic int go_measure, stop_all, n_up, n_closed, n_done;
_Atomic uint64_t g_first, g_warm_done;
_Atomic uint64_t errors_close[CL_NKIND];
_Atomic uint64_t close_codes[5000];
char first_err[256];
pthread_mutex_t err_mx = PTHREAD_MUTEX_INITIALIZER;

void note_err(const char *s, size_t n)
{
	pthread_mutex_lock(&err_mx);
	if (!first_err[0]) {
		size_t k = 0;
		for (size_t i = 0; i < n && k < sizeof first_err - 1; i++)
			if (s[i] >= ' ' && s[i] < 127 && s[i] != '"' && s[i] != '\\')
				first_err[k++] = s[i];
	}
	pthread_mutex_unlock(&err_mx);
}
static void help(void)
{
	puts("usage: fanbench [options]\n"
	     "N subscribers on loopback; prints one JSON line.\n"
	     "\n"
	     "what to connect to\n"
	     "  --proto P       ws | nats | nats-ws | redis | redis-stream | mqtt (ws)\n"
	     "  --host A        loopback IPv4 address (127.0.0.1)   --port N (9001)\n"
	     "  --path /x       WebSocket URL path (/); %d in it becomes the connection's number\n"
	     "  --subproto S    Sec-WebSocket-Protocol to ask for (none)\n"
	     "  --greeting      ws: a subscriber is ready when its greeting (sc-serve) came; it "
	     "counts as no message\n"
	     "  --subject S     NATS subject, Redis channel or stream key, MQTT topic (bench)\n"
	     "  --conns N       subscribers (1)   --threads N  client threads (1)\n"
	     "  --js-replay S   nats: replay JetStream stream S from its start (push, no acks)\n"
	     "  --js-fc 0|1     ... with flow control (1)\n"
	     "  --xcmd C        redis-stream: xread | xrange | xrange-all (xread)   --count N "
	     "(10000)\n"
	     "when to stop (whichever is first)\n"
	     "  --secs S        S seconds after the first message\n"
	     "  --msgs K        each connection has K messages\n"
	     "  --pub CMD       run CMD (sh -c) when all have subscribed; stop when it has ended "
	     "and\n"
	     "                  each connection has as many messages as its JSON's \"published\"\n"
	     "  --idle S        nothing came for S seconds after the first message (3)\n"
	     "  --max-secs S    in any case (60)\n"
	     "what to measure\n"
	     "  --warmup S      leave out the first S seconds after the first message (0)\n"
	     "  --check         the JSON pair's first number ([N,...) grows by one on each "
	     "connection\n"
	     "  --check-key K   the same for the member \"K\":N anywhere in the message\n"
	     "  --latency       now - \"t_ns\" of each message: CLOCK_MONOTONIC nanoseconds, an "
	     "integer\n"
	     "  --pid NAME=PID  CPU seconds of that process in the measured interval (repeatable)\n"
	     "  --discard       count bytes only and let the kernel drop them (no copy to user "
	     "space);\n"
	     "                  frames = bytes / --frame-bytes N\n"
	     "how\n"
	     "  --credit FILE   share what the slowest subscriber has received (pubbench "
	     "--credit)\n"
	     "  --stall K       the first K subscribers never read once they have subscribed\n"
	     "  --ready-file F  create F when all have subscribed\n"
	     "  --rbuf N        bytes per read (64k)   --rcvbuf N  SO_RCVBUF (kernel's own)\n"
	     "  --label S       copied into the result   --quiet  no progress on stderr");
	exit(0);
}
/* ---- main --------------------------------------------------------------------- */

static pid_t start_pub(int *out)
{
	int pp[2];
	if (pipe2(pp, O_CLOEXEC))
		die("pipe: %s", strerror(errno));
	pid_t p = fork();
	if (p < 0)
		die("fork: %s", strerror(errno));
	if (!p) {
		dup2(pp[1], 1);
		execl("/bin/sh", "sh", "-c", pub_cmd, (char *)NULL);
		_exit(127);
	}
	close(pp[1]);
	set_nonblock(pp[0]);
	*out = pp[0];
	return p;
}

static bool get_published(struct buf *b, uint64_t *v)
{
	*buf_room(b, 1) = 0;
	char *k = b->n ? strstr((char *)b->p, "\"published\":") : NULL;
	if (k)
		*v = strtoull(k + 12, NULL, 10);
	return k != NULL;
}

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		const char *a = argv[i], *v = i + 1 < argc ? argv[i + 1] : NULL;
		OPT("--help") help();
		else OPT("--proto") proto = (enum proto)word_arg(a, VAL, proto_names);
		else OPT("--host") host = VAL;
		else OPT("--port") port = (int)num_arg(a, VAL);
		else OPT("--path") path = VAL;
		else OPT("--subproto") subproto = VAL;
		else OPT("--subject") subject = VAL;
		else OPT("--conns") nconns = (int)num_arg(a, VAL);
		else OPT("--threads") nthreads = (int)num_arg(a, VAL);
		else OPT("--js-replay") js_stream = VAL;
		else OPT("--js-fc") js_fc = (int)num_arg(a, VAL);
		else OPT("--xcmd") xcmd = VAL;
		else OPT("--count") xcount = (uint64_t)num_arg(a, VAL);
		else OPT("--secs") secs = num_arg(a, VAL);
		else OPT("--msgs") want_msgs = (uint64_t)num_arg(a, VAL);
		else OPT("--pub") pub_cmd = VAL;
		else OPT("--idle") idle_s = num_arg(a, VAL);
		else OPT("--max-secs") max_secs = num_arg(a, VAL);
		else OPT("--warmup") warmup = num_arg(a, VAL);
		else OPT("--check") check = true;
		else OPT("--greeting") greeting = true;
		else OPT("--check-key")
		{
			char *k = NULL;
			check = true;
			if (asprintf(&k, "\"%s\":", VAL) < 0)
				die("out of memory");
			check_key = k;
		}
		else OPT("--latency") latency = true;
		else OPT("--pid") watch_arg(VAL);
		else OPT("--discard") discard = true;
		else OPT("--frame-bytes") frame_bytes = (size_t)num_arg(a, VAL);
		else OPT("--credit") credit_file = VAL;
		else OPT("--stall") nstall = (int)num_arg(a, VAL);
		else OPT("--ready-file") ready_file = VAL;
		else OPT("--rbuf") rbsize = (size_t)num_arg(a, VAL);
		else OPT("--rcvbuf") rcvbuf = (int)num_arg(a, VAL);
		else OPT("--label") label = VAL;
		else OPT("--quiet") quiet = true;
		else die("unknown option %s (see --help)", a);
	}
	if (nconns < 1 || nconns > 60000 || nthreads < 1 || nthreads > nconns || nstall >= nconns ||
	    rbsize < 4096)
		die("--conns, --threads, --stall or --rbuf makes no sense");
	if (discard && (check || latency))
		die("--discard cannot look into messages");
	parse_payload = check || latency;
	signal(SIGPIPE, SIG_IGN);
	raise_nofile();
	conns = calloc((size_t)nconns, sizeof *conns);
	workers = calloc((size_t)nthreads, sizeof *workers);
	if (!conns || !workers)
		die("out of memory");
	if (credit_file)
		credit = credit_open(credit_file, true);
	for (int i = 0; i < nconns; i++) {
		conns[i].ix = i;
		conns[i].stall = i < nstall;
	}
	uint64_t t_start = now_ns();
	for (int i = 0; i < nthreads; i++) {
		struct worker *w = &workers[i];
		w->n0 = (int)((long)nconns * i / nthreads);
		w->n1 = (int)((long)nconns * (i + 1) / nthreads);
		if (pthread_create(&w->th, NULL, worker_main, w))
			die("pthread_create");
	}
	while (atomic_load(&n_up) + atomic_load(&n_closed) < nconns) {
		usleep(500);
		if (now_ns() - t_start > 30000000000u) {
			atomic_store(&stop_all, 1);
			die("only %d of %d subscribed within 30 s (%s)", atomic_load(&n_up), nconns,
			    first_err);
		}
	}
	int up = atomic_load(&n_up);
	double setup_s = (double)(now_ns() - t_start) / 1e9;
	if (!quiet)
		fprintf(stderr, "fanbench: %d of %d subscribed in %.2f s\n", up, nconns, setup_s);
	watch_start();
	double cpu_total0 = self_cpu_s(), mb0, ms0, mb1, ms1;
	machine_cpu_s(&mb0, &ms0);
	atomic_store(&go_measure, 1);
	if (ready_file) {
		int fd = open(ready_file, O_CREAT | O_WRONLY | O_TRUNC, 0644);
		if (fd < 0)
			die("%s: %s", ready_file, strerror(errno));
		close(fd);
	}
	int pubfd = -1, pubstat = 0;
	pid_t pub = 0;
	bool pub_done = false;
	uint64_t pub_end = 0, published = 0;
	bool have_published = false;
	struct buf pubout = { 0 };
	struct rusage pubru = { 0 };
	if (pub_cmd)
		pub = start_pub(&pubfd);
	uint64_t t_go = now_ns(), last_sum = 0, t_change = 0;
	const char *why = "max-secs";
	bool warm = warmup <= 0;
	for (;;) {
		usleep(2000);
		uint64_t t = now_ns(), f = atomic_load(&g_first);
		watch_sample();
		if (!warm && f && t - f >= (uint64_t)(warmup * 1e9)) {
			warm = true;
			watch_start();
			cpu_total0 = self_cpu_s();
			machine_cpu_s(&mb0, &ms0);
			atomic_store(&g_warm_done, 1);
		}
		if (pub && !pub_done) {
			ssize_t r;
			while ((r = read(pubfd, buf_room(&pubout, 4096), 4096)) > 0)
				pubout.n += (size_t)r;
			if (wait4(pub, &pubstat, WNOHANG, &pubru) == pub) {
				while ((r = read(pubfd, buf_room(&pubout, 4096), 4096)) > 0)
					pubout.n += (size_t)r;
				pub_done = true;
				pub_end = t;
				have_published = get_published(&pubout, &published);
			}
		}
		uint64_t sum = 0;
		bool all = true;
		for (int i = 0; i < nconns; i++) {
			sum += conns[i].frames;
			if (!conns[i].closed && !conns[i].stall && conns[i].frames < published)
				all = false;
		}
		if (sum != last_sum) {
			last_sum = sum;
			t_change = t;
		}
		if (atomic_load(&n_closed) >= nconns) {
			why = "all closed";
			break;
		}
		if (secs > 0 && f && t - f >= (uint64_t)(secs * 1e9)) {
			why = "secs";
			break;
		}
		if (atomic_load(&n_done) >= up - nstall) {
			why = "msgs";
			break;
		}
		if (pub_done && have_published && all) {
			why = "published";
			break;
		}
		if (t_change && t - t_change > (uint64_t)(idle_s * 1e9) && (!pub || pub_done)) {
			why = "idle";
			break;
		}
		if (pub_done && !f && t - pub_end > (uint64_t)(idle_s * 1e9)) {
			why = "nothing came";
			break;
		}
		if (t - t_go > (uint64_t)(max_secs * 1e9))
			break;
	}
	watch_sample();
	double cpu_total = self_cpu_s() - cpu_total0;
	machine_cpu_s(&mb1, &ms1);
	if (credit)
		atomic_store(&credit->stop, 1);
	atomic_store(&stop_all, 1);
	for (int i = 0; i < nthreads; i++)
		pthread_join(workers[i].th, NULL);
	if (pub && !pub_done) { /* credit->stop ends pubbench; else end it ourselves */
		for (int i = 0; i < 200 && !pub_done; i++) {
			usleep(10000);
			ssize_t r;
			while ((r = read(pubfd, buf_room(&pubout, 4096), 4096)) > 0)
				pubout.n += (size_t)r;
			if (wait4(pub, &pubstat, WNOHANG, &pubru) == pub)
				pub_done = true;
		}
		if (!pub_done) {
			kill(pub, SIGTERM);
			wait4(pub, &pubstat, 0, &pubru);
		}
		have_published = get_published(&pubout, &published);
	}
	/* result */
	struct worker *m = &workers[0];
	uint64_t frames = 0, bytes = 0, fmin = UINT64_MAX, fmax = 0, t0 = 0, t1 = 0;
	double cpu_thr = m->cpu1 - m->cpu0;
	for (int i = 0; i < nthreads; i++) {
		struct worker *w = &workers[i];
		if (w->t_first && (!t0 || w->t_first < t0))
			t0 = w->t_first;
		if (w->t_last > t1)
			t1 = w->t_last;
		if (i) {
			hist_merge(&m->lat, &w->lat);
			m->gaps += w->gaps;
			m->back += w->back;
			m->bad += w->bad;
			if (w->have_first && (!m->have_first || w->first < m->first))
				m->first = w->first;
			if (w->last_off > m->last_off)
				m->last_off = w->last_off;
			m->reads += w->reads;
			cpu_thr += w->cpu1 - w->cpu0;
		}
	}
	uint64_t lost = 0;
	for (int i = 0; i < nconns; i++) {
		struct conn *c = &conns[i];
		if (c->stall)
			continue;
		uint64_t x = c->frames - c->frames0;
		frames += x;
		bytes += c->bytes - c->bytes0;
		if (x < fmin)
			fmin = x;
		if (x > fmax)
			fmax = x;
		if (have_published && c->frames < published)
			lost += published - c->frames;
	}
	double el = t1 > t0 ? (double)(t1 - t0) / 1e9 : 0;
	printf("{\"tool\":\"fanbench\",\"label\":\"%s\",\"proto\":\"%s\",\"conns\":%d,\"up\":%d,"
	       "\"stalled\":%d,\"setup_s\":%.3f,"
	       "\"end\":\"%s\",\"secs\":%.3f,\"frames\":%" PRIu64
	       ",\"frames_s\":%.0f,\"bytes\":%" PRIu64 ",\"mb_s\":%.2f,"
	       "\"total_s\":%.3f,\"per_conn_min\":%" PRIu64 ",\"per_conn_max\":%" PRIu64
	       ",\"reads\":%" PRIu64 ",",
	       label ? label : "", proto_names[proto], nconns, up, nstall, setup_s, why, el, frames,
	       el > 0 ? (double)frames / el : 0, bytes, el > 0 ? (double)bytes / el / 1e6 : 0,
	       t1 > t_go ? (double)(t1 - t_go) / 1e9 : 0, fmin == UINT64_MAX ? 0 : fmin, fmax,
	       m->reads);
	printf("\"closed\":%d,\"close_codes\":{", atomic_load(&n_closed));
	bool comma = false;
	for (int i = 1; i < 5000; i++)
		if (close_codes[i]) {
			printf("%s\"%d\":%" PRIu64, comma ? "," : "", i, (uint64_t)close_codes[i]);
			comma = true;
		}
	for (int i = 0; i < CL_NKIND; i++)
		if (errors_close[i]) {
			printf("%s\"%s\":%" PRIu64, comma ? "," : "", cl_names[i],
			       (uint64_t)errors_close[i]);
			comma = true;
		}
	printf("},");
	if (check)
		printf("\"check\":{\"gaps\":%" PRIu64 ",\"back\":%" PRIu64 ",\"bad\":%" PRIu64
		       ",\"first\":%" PRIu64 ",\"last\":%" PRIu64 "},",
		       m->gaps, m->back, m->bad, m->first, m->last_off);
	if (latency) {
		hist_json_us(stdout, "lat_us", &m->lat);
		printf(",");
	}
	if (first_err[0])
		printf("\"error\":\"%s\",", first_err);
	printf("\"client_cpu_s\":%.3f,\"client_sub_cpu_s\":%.3f,\"machine_busy_s\":%.2f,\"machine_"
	       "steal_s\":%.2f,",
	       cpu_total, cpu_thr, mb1 - mb0, ms1 - ms0);
	watch_json(stdout);
	if (pub_cmd) {
		/* the publisher's last line, if it looks like JSON */
		char *js = NULL;
		while (pubout.n && (pubout.p[pubout.n - 1] == '\n' || pubout.p[pubout.n - 1] == 0))
			pubout.n--;
		*buf_room(&pubout, 1) = 0;
		if (pubout.n) {
			js = strrchr((char *)pubout.p, '\n');
			js = js ? js + 1 : (char *)pubout.p;
		}
		printf(",\"published\":%" PRIu64 ",\"lost\":%" PRIu64
		       ",\"pub_status\":%d,\"pub_cpu_s\":%.3f,\"pub\":%s",
		       published, lost,
		       WIFEXITED(pubstat) ? WEXITSTATUS(pubstat) : 128 + WTERMSIG(pubstat),
		       (double)(pubru.ru_utime.tv_sec + pubru.ru_stime.tv_sec) +
			       (double)(pubru.ru_utime.tv_usec + pubru.ru_stime.tv_usec) / 1e6,
		       js && *js == '{' ? js : "null");
	}
	printf("}\n");
	return 0;
}
