/*
 * loan.c: bodies that are lent. A part that was copied is known by its length alone until all is
 * there: the body moves while it grows.
 */
#include "durable/engine_internal.h"

#define LEND_LEAST \
	8192u /* a shorter message is copied sooner than the system takes one more part */

bool sc_ds_loan_may(const struct sc_ds_loan *loan, struct sc_span message)
{
	/* for what is copied in front of it, itself, and what is copied from then on */
	return message.len >= LEND_LEAST && loan->count + 3 <= SC_DS_LOAN_PARTS;
}

void sc_ds_loan_lend(struct sc_ds_loan *loan, struct sc_span message)
{
	loan->parts[loan->count++] = (struct iovec){ .iov_base = (char *)(uintptr_t)message.data,
						     .iov_len = message.len };
	loan->bytes += message.len;
}

void sc_ds_loan_copied(struct sc_ds_loan *loan, size_t len)
{
	if (!loan->count || loan->parts[loan->count - 1].iov_base)
		loan->parts[loan->count++] = (struct iovec){ .iov_base = NULL };
	loan->parts[loan->count - 1].iov_len += len;
	loan->bytes += len;
}

bool sc_ds_loan_settle(struct sc_ds_loan *loan, const struct sc_bytes *body)
{
	size_t at = 0;

	if (!loan->count || loan->bytes == body->len) {
		loan->count = 0;
		return false;
	}
	for (size_t i = 0; i < loan->count; i++) {
		struct iovec *part = &loan->parts[i];

		if (part->iov_base)
			continue;
		part->iov_base = body->data + at;
		at += part->iov_len;
	}
	return true;
}

int sc_ds_loan_end(struct sc_ds_loan *loan, uint64_t taken, struct sc_ds_answer *answer)
{
	struct sc_bytes rest;
	int rc = 0;

	if (!loan->count)
		return 0;
	sc_bytes_init(&rest, answer->body.max);
	if (taken < loan->bytes)
		rc = sc_bytes_reserve(&rest, loan->bytes - taken);
	for (size_t i = 0; rc == 0 && i < loan->count; i++) {
		const struct iovec *part = &loan->parts[i];
		size_t skip = taken < part->iov_len ? (size_t)taken : part->iov_len;

		taken -= skip;
		rc = sc_bytes_put(&rest, (const char *)part->iov_base + skip, part->iov_len - skip);
	}
	sc_bytes_done(&answer->body);
	answer->body = rest;
	sc_kv_abort(&loan->txn);
	loan->count = 0;
	return rc;
}
