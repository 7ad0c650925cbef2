/*
 * sign_test: signatures and digests against the vectors of their standards, and kinds of addresses.
 */
#include "net/sign.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include "../check.h"
#include "net/address.h"

static void hex(const char *text, unsigned char *ret_bytes, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		unsigned byte = 0;

		CHECK(sscanf(text + 2 * i, "%2x", &byte) == 1);
		ret_bytes[i] = (unsigned char)byte;
	}
}

TEST(rfc_8032_section_7_1)
{
	static const struct {
		const char *seed, *public, *text, *signature;
	} rows[] = {
		{ "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
		  "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a", "",
		  "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bac"
		  "c61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b" },
		{ "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
		  "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c", "\x72",
		  "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e"
		  "458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00" },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		unsigned char seed[32], public[32], want[64], got[64];
		struct sc_sign_key *key = NULL;
		struct sc_err err;

		hex(rows[i].seed, seed, 32);
		hex(rows[i].signature, want, 64);
		CHECK_OK(sc_sign_key_new(seed, &key, &err), &err);
		sc_sign_public(key, public);
		hex(rows[i].public, seed, 32);
		CHECK(memcmp(seed, public, 32) == 0);
		CHECK_OK(sc_sign(key, sc_span_str(rows[i].text), got, &err), &err);
		CHECK(memcmp(want, got, 64) == 0);
		sc_sign_key_free(key);
	}
	sc_sign_key_free(NULL);
}

TEST(hmac_and_digest)
{
	unsigned char key[32] = { 0 }, got[32], want[32];

	hex("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad", want, 32);
	CHECK(sc_sha256(SC_SPAN("abc"), got, NULL) == 0);
	CHECK(sc_same_secret(want, got, 32));
	/* a key with zeros behind it is the same key: RFC 4231, test 2, has the key "Jefe" */
	memcpy(key, "Jefe", 4);
	hex("5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843", want, 32);
	CHECK(sc_hmac(key, SC_SPAN("what do ya want for nothing?"), got, NULL) == 0);
	CHECK(sc_same_secret(want, got, 32));
	got[31] ^= 1;
	CHECK(!sc_same_secret(want, got, 32));
}

static struct sockaddr_storage address(const char *text)
{
	struct sockaddr_storage s = { .ss_family = AF_INET };

	if (inet_pton(AF_INET, text, &((struct sockaddr_in *)&s)->sin_addr) == 1)
		return s;
	s.ss_family = AF_INET6;
	CHECK(inet_pton(AF_INET6, text, &((struct sockaddr_in6 *)&s)->sin6_addr) == 1);
	return s;
}

TEST(which_addresses_are_public)
{
	static const char *const inner[] = {
		"0.0.0.0",
		"0.255.1.1",
		"10.0.0.1",
		"10.255.255.255",
		"100.64.0.1",
		"100.127.255.255",
		"127.0.0.1",
		"127.255.255.255",
		"169.254.0.1",
		"169.254.169.254",
		"172.16.0.1",
		"172.31.255.255",
		"192.0.0.8",
		"192.0.2.1",
		"192.88.99.1",
		"192.168.0.1",
		"198.18.0.1",
		"198.19.255.255",
		"198.51.100.1",
		"203.0.113.1",
		"224.0.0.1",
		"239.1.1.1",
		"240.0.0.1",
		"255.255.255.255",
		"::",
		"::1",
		"::ffff:10.0.0.1",
		"::ffff:127.0.0.1",
		"::10.0.0.1",
		"::8.8.8.8",
		"64:ff9b::a00:1",
		"64:ff9b:1::1",
		"100::1",
		"2001::1",
		"2001:db8::1",
		"2001:20::1",
		"2002:a00:1::1",
		"2002:7f00:1::",
		"3fff::1",
		"fc00::1",
		"fd12:3456::1",
		"fe80::1",
		"fec0::1",
		"ff02::1",
		"4000::1",
	};
	static const char *const outer[] = {
		"1.1.1.1",         "8.8.8.8",         "9.255.255.255",
		"11.0.0.0",        "100.63.255.255",  "100.128.0.0",
		"126.255.255.255", "128.0.0.1",       "169.253.255.255",
		"172.15.255.255",  "172.32.0.0",      "192.167.255.255",
		"192.169.0.0",     "198.17.255.255",  "198.20.0.0",
		"223.255.255.255", "2606:4700::1111", "2001:4860:4860::8888",
		"2a00::1",         "::ffff:8.8.8.8",  "64:ff9b::808:808",
		"2002:808:808::1",
	};

	for (size_t i = 0; i < sizeof(inner) / sizeof(*inner); i++) {
		struct sockaddr_storage s = address(inner[i]);

		if (sc_address_public((struct sockaddr *)&s))
			FAIL("%s is taken for public", inner[i]);
		CHECK_INT(sc_address_loopback((struct sockaddr *)&s),
			  strncmp(inner[i], "127.", 4) == 0 || strcmp(inner[i], "::1") == 0);
	}
	for (size_t i = 0; i < sizeof(outer) / sizeof(*outer); i++) {
		struct sockaddr_storage s = address(outer[i]);

		if (!sc_address_public((struct sockaddr *)&s))
			FAIL("%s is not taken for public", outer[i]);
		CHECK(!sc_address_loopback((struct sockaddr *)&s));
	}
	CHECK(!sc_address_public(&(struct sockaddr){ .sa_family = AF_UNIX }));
}
