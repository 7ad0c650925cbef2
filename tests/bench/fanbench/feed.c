/* feed.c: what comes on a connection, message by message, in the protocols that are compared. */
#include "fan.h"

/* ---- one message ----------------------------------------------------------- */

static inline bool get_u64(const unsigned char *p, const unsigned char *e, uint64_t *v)
{
	while (p < e && (*p == ' ' || *p == '\t' || *p == '\n'))
		p++;
	if (p == e || *p < '0' || *p > '9')
		return false;
	uint64_t x = 0;
	for (; p < e && *p >= '0' && *p <= '9'; p++)
		x = x * 10 + (uint64_t)(*p - '0');
	*v = x;
	return true;
}

static void look(struct worker *w, struct conn *c, const unsigned char *p, size_t n, uint64_t t)
{
	const unsigned char *e = p + n;
	if (check) {
		uint64_t v = 0;
		bool ok = false;
		if (check_key) {
			size_t kl = strlen(check_key);
			const unsigned char *q = memmem(p, n, check_key, kl);
			ok = q && get_u64(q + kl, e, &v);
		} else {
			const unsigned char *q = p;
			while (q < e && (*q == ' ' || *q == '\n'))
				q++;
			ok = q < e && *q == '[' && get_u64(q + 1, e, &v);
		}
		if (!ok)
			w->bad++;
		else {
			if (c->have_next && v != c->next) {
				if (v < c->next)
					w->back++;
				else
					w->gaps++;
			}
			c->have_next = true;
			c->next = v + 1;
			if (!w->have_first || v < w->first)
				w->first = v;
			w->have_first = true;
			if (v > w->last_off)
				w->last_off = v;
		}
	}
	if (latency) {
		uint64_t v;
		const unsigned char *q = memmem(p, n, "\"t_ns\":", 7);
		if (q && get_u64(q + 7, e, &v) && v <= t)
			hist_add(&w->lat, t - v);
		else
			w->bad++;
	}
}

static inline void message(struct worker *w, struct conn *c, const unsigned char *p, size_t n,
			   uint64_t t)
{
	if (greeting && !c->up) {
		conn_up(c);
		return;
	}
	c->frames++;
	if (parse_payload)
		look(w, c, p, n, t);
}

/* ---- protocols: each eats what is complete and returns where it stopped ------ */

void send_small(struct conn *c, const void *p, size_t n)
{
	if (write_all(c->fd, p, n))
		note_err("write", 5);
}

void send_text(struct conn *c, const char *s, size_t n)
{
	if (proto == P_NATSWS) {
		unsigned char h[16];
		struct buf b = { 0 };
		size_t l = ws_header(h, 2, n, true);
		buf_put(&b, h, l);
		buf_put(&b, s, n);
		send_small(c, b.p, b.n);
		free(b.p);
	} else
		send_small(c, s, n);
}

void conn_up(struct conn *c)
{
	if (!c->up) {
		c->up = true;
		atomic_fetch_add(&n_up, 1);
	}
}

static unsigned char *feed_nats(struct worker *w, struct conn *c, unsigned char *p,
				unsigned char *e, uint64_t t)
{
	while (p < e) {
		unsigned char *nl = memchr(p, '\n', (size_t)(e - p));
		if (!nl)
			break;
		if (e - p > 4 && (!memcmp(p, "MSG ", 4) || !memcmp(p, "HMSG", 4))) {
			bool h = *p == 'H';
			unsigned char *q = nl;
			while (q > p && (q[-1] == '\r' || q[-1] == '\n'))
				q--;
			unsigned char *le = q;
			while (q > p && q[-1] != ' ')
				q--;
			uint64_t len = 0;
			if (!get_u64(q, le, &len))
				len = 0;
			if ((uint64_t)(e - (nl + 1)) < len + 2)
				break;
			unsigned char *body = nl + 1;
			if (js_stream && !h && nl - p > 11 && !memcmp(p + 4, "fb.api ", 7)) {
				if (memmem(body, len, "\"error\"",
					   7)) /* the answer to our request */
					note_err((char *)body, len);
			} else if (!h)
				message(w, c, body, (size_t)len, t);
			else {
				/* HMSG subj sid [reply] hlen total; a status line (flow control)
				 * has no body */
				uint64_t hlen = 0;
				unsigned char *z = q - 1;
				while (z > p && z[-1] != ' ')
					z--;
				get_u64(z, q, &hlen);
				if (hlen < len || !(len > 11 && !memcmp(body, "NATS/1.0 1", 10)))
					message(w, c, body + hlen, (size_t)(len - hlen), t);
				else {
					/* fields between HMSG and hlen: subject sid [reply] */
					char line[512], *f[6], *sv = NULL;
					int k = 0;
					size_t ll = (size_t)(le - p);
					if (ll < sizeof line) {
						memcpy(line, p, ll);
						line[ll] = 0;
						for (char *s = strtok_r(line, " ", &sv); s && k < 6;
						     s = strtok_r(NULL, " ", &sv))
							f[k++] = s;
						if (k == 6) {
							char o[600];
							int ol = snprintf(o, sizeof o,
									  "PUB %s 0\r\n\r\n", f[3]);
							send_text(c, o, (size_t)ol);
						}
					}
				}
			}
			p = body + len + 2;
			continue;
		}
		if (e - p >= 4 && !memcmp(p, "PING", 4))
			send_text(c, "PONG\r\n", 6);
		else if (e - p >= 4 && !memcmp(p, "PONG", 4))
			conn_up(c);
		else if (*p == '-')
			note_err((char *)p, (size_t)(nl - p));
		p = nl + 1;
	}
	return p;
}

static unsigned char *feed_ws(struct worker *w, struct conn *c, unsigned char *p, unsigned char *e,
			      uint64_t t)
{
	for (;;) {
		uint64_t len;
		size_t hl = ws_head(p, e, &len);
		if (!hl)
			break;
		if (p[1] & 0x80 || p[0] & 0x70 || len > 1u << 30) {
			atomic_fetch_add(&errors_close[CL_PROTOCOL], 1);
			note_err("bad ws frame", 12);
			c->close_code = -1;
			return e;
		}
		if ((uint64_t)(e - p) < hl + len)
			break;
		unsigned char *b = p + hl;
		switch (p[0]) {
		case 0x81:
		case 0x82:
			if (proto == P_NATSWS) {
				if (c->l2.n) {
					buf_put(&c->l2, b, len);
					unsigned char *q = feed_nats(w, c, c->l2.p,
								     c->l2.p + c->l2.n, t);
					size_t left = (size_t)(c->l2.p + c->l2.n - q);
					memmove(c->l2.p, q, left);
					c->l2.n = left;
				} else {
					unsigned char *q = feed_nats(w, c, b, b + len, t);
					if (q < b + len)
						buf_put(&c->l2, q, (size_t)(b + len - q));
				}
			} else
				message(w, c, b, len, t);
			break;
		case 0x01:
		case 0x02:
		case 0x00:
			buf_put(&c->l2, b, len);
			break;
		case 0x80:
			buf_put(&c->l2, b, len);
			message(w, c, c->l2.p, c->l2.n, t);
			c->l2.n = 0;
			break;
		case 0x88:
			c->close_code = len >= 2 ? b[0] << 8 | b[1] : 1005;
			break;
		case 0x89: {
			unsigned char o[140];
			if (len <= 125) {
				size_t l = ws_header(o, 10, len, true);
				memcpy(o + l, b, len);
				send_small(c, o, l + len);
			}
			break;
		}
		default:
			break;
		}
		p = b + len;
	}
	return p;
}

static unsigned char *crlf(unsigned char *p, unsigned char *e)
{
	unsigned char *n = memchr(p, '\n', (size_t)(e - p));
	return n ? n + 1 : NULL;
}

static unsigned char *feed_redis(struct worker *w, struct conn *c, unsigned char *p,
				 unsigned char *e, uint64_t t)
{
	while (p < e) {
		unsigned char *s = p;
		if (*p == '-') {
			unsigned char *n = crlf(p, e);
			if (!n)
				break;
			note_err((char *)p, (size_t)(n - p));
			p = n;
			continue;
		}
		if (*p != '*') { /* simple replies */
			unsigned char *n = crlf(p, e);
			if (!n)
				break;
			p = n;
			continue;
		}
		uint64_t k = 0, len = 0;
		if (!(p = crlf(p, e)) || !get_u64(s + 1, p, &k))
			return s;
		unsigned char *kind = NULL, *last = NULL;
		size_t kl = 0, ll = 0;
		for (uint64_t i = 0; i < k; i++) {
			if (p >= e)
				return s;
			if (*p == '$') {
				unsigned char *n = crlf(p, e);
				if (!n)
					return s;
				if (p[1] == '-') {
					p = n;
					continue;
				}
				get_u64(p + 1, n, &len);
				if ((uint64_t)(e - n) < len + 2)
					return s;
				if (!i)
					kind = n, kl = len;
				last = n;
				ll = len;
				p = n + len + 2;
			} else {
				unsigned char *n = crlf(p, e);
				if (!n)
					return s;
				p = n;
			}
		}
		if (kl == 7 && !memcmp(kind, "message", 7))
			message(w, c, last, ll, t);
		else if (kl == 9 && !memcmp(kind, "subscribe", 9))
			conn_up(c);
	}
	return p;
}

void x_request(struct conn *c)
{
	char b[512], id[80];
	int n;
	if (!strcmp(xcmd, "xread"))
		n = snprintf(b, sizeof b, "XREAD COUNT %" PRIu64 " STREAMS %s %s\r\n", xcount,
			     subject, c->xid[0] ? c->xid : "0");
	else if (!strcmp(xcmd, "xrange")) {
		snprintf(id, sizeof id, c->xid[0] ? "(%s" : "-", c->xid);
		n = snprintf(b, sizeof b, "XRANGE %s %s + COUNT %" PRIu64 "\r\n", subject, id,
			     xcount);
	} else if (!c->xid[0])
		n = snprintf(b, sizeof b, "XRANGE %s - +\r\n", subject);
	else {
		c->xdone = true;
		return;
	}
	c->xpos = 0;
	send_small(c, b, (size_t)n);
}

/* 0 top, 1 "*2", 2 key, 3 "*N", 4 "*2" of an entry, 5 id, 6 "*2", 7 field, 8 value */
static unsigned char *feed_redisx(struct worker *w, struct conn *c, unsigned char *p,
				  unsigned char *e, uint64_t t)
{
	while (p < e) {
		unsigned char *n = crlf(p, e);
		if (!n)
			break;
		if (*p == '-') {
			note_err((char *)p, (size_t)(n - p));
			c->xdone = true;
			return n;
		}
		if ((*p == '*' || *p == '$') && p[1] == '-') {
			c->xdone = true;
			return n;
		}
		uint64_t v = 0;
		get_u64(p + 1, n, &v);
		if (*p == '*') {
			if (c->xpos == 0 && !strcmp(xcmd, "xread"))
				c->xpos = 1;
			else if (c->xpos == 1)
				c->xpos = 2;
			else if (c->xpos == 0 || c->xpos == 3) {
				c->xleft = v;
				if (!v) {
					c->xdone = true;
					return n;
				}
				c->xpos = 4;
			} else if (c->xpos == 4)
				c->xpos = 5;
			else if (c->xpos == 6)
				c->xpos = 7;
			p = n;
			continue;
		}
		if (*p != '$')
			die("redis: unexpected reply");
		if ((uint64_t)(e - n) < v + 2)
			break;
		if (c->xpos == 2)
			c->xpos = 3;
		else if (c->xpos == 5) {
			if (c->xleft == 1 && v < sizeof c->xid) {
				memcpy(c->xid, n, v);
				c->xid[v] = 0;
			}
			c->xpos = 6;
		} else if (c->xpos == 7)
			c->xpos = 8;
		else if (c->xpos == 8) {
			message(w, c, n, (size_t)v, t);
			c->xpos = 4;
			if (!--c->xleft)
				x_request(c);
		}
		p = n + v + 2;
	}
	return p;
}

static unsigned char *feed_mqtt(struct worker *w, struct conn *c, unsigned char *p,
				unsigned char *e, uint64_t t)
{
	while (e - p >= 2) {
		uint64_t len = 0;
		unsigned sh = 0;
		unsigned char *q = p + 1;
		bool done = false;
		while (q < e && sh <= 21) {
			len |= (uint64_t)(*q & 127) << sh;
			sh += 7;
			if (!(*q++ & 128)) {
				done = true;
				break;
			}
		}
		if (!done || (uint64_t)(e - q) < len)
			break;
		switch (*p >> 4) {
		case 3: {
			size_t tl = (size_t)q[0] << 8 | q[1];
			size_t o = 2 + tl + (*p & 6 ? 2 : 0);
			if (o <= len)
				message(w, c, q + o, len - o, t);
			break;
		}
		case 9:
			conn_up(c);
			break;
		case 2:
			if (q[1])
				note_err("mqtt connack refused", 20);
			break;
		default:
			break;
		}
		p = q + len;
	}
	return p;
}

unsigned char *feed(struct worker *w, struct conn *c, unsigned char *p, unsigned char *e,
		    uint64_t t)
{
	switch (proto) {
	case P_WS:
	case P_NATSWS:
		return feed_ws(w, c, p, e, t);
	case P_NATS:
		return feed_nats(w, c, p, e, t);
	case P_REDIS:
		return feed_redis(w, c, p, e, t);
	case P_REDISX:
		return feed_redisx(w, c, p, e, t);
	default:
		return feed_mqtt(w, c, p, e, t);
	}
}
