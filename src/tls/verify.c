/*
 * The checks that Mbed TLS leaves to its user. It compares DNS names itself
 * (mbedtls_ssl_set_hostname). This file compares IP literals with the certificate's IP addresses,
 * because the library would also send a literal as SNI, which RFC 6066 3 forbids. It also refuses a
 * certificate without any subjectAltName, since a common name is not a host name (RFC 9525 2).
 */
#include "tls/verify.h"

#include <arpa/inet.h>
#include <mbedtls/oid.h>
#include <stdio.h>
#include <string.h>

#include "base/ascii.h"
#include "base/ip.h"
#include "base/clock.h"

static bool is_verified_name_char(char c)
{
    return ascii_is_lower(c) || ascii_is_digit(c) || c == '-' || c == '_';
}

/* Checks that each label has 1 to 63 letters, digits, hyphens (and underscores, which are used
 * in practice). */
static bool is_host_name(const char *name)
{
    size_t label = 0;
    for (const char *p = name; *p; p++) {
        if (*p == '.') {
            if (label == 0)
                return false;
            label = 0;
        } else if (!is_verified_name_char(*p) || ++label > 63) {
            return false;
        }
    }
    return label > 0;
}

int tls_verify_init(struct tls_verify *verify, slice name, struct err *err)
{
    memset(verify, 0, sizeof(*verify));
    if (name.len && name.ptr[name.len - 1] == '.')
        name.len--;
    if (name.len == 0)
        return err_set(err, ERR_INVALID, "TLS needs the name of the host to verify");
    if (name.len > TLS_NAME_MAX)
        return err_set(err, ERR_INVALID, "the host name is longer than %d characters",
                       TLS_NAME_MAX);
    for (size_t i = 0; i < name.len; i++) {
        char c = name.ptr[i];
        verify->name[i] = ascii_lower(c);
    }
    verify->ip_len = (uint8_t)ip_parse(name, verify->ip);
    if (verify->ip_len == 0 && (strlen(verify->name) != name.len || !is_host_name(verify->name)))
        return err_set(err, ERR_INVALID, "\"%.*s\" is neither a host name nor an IP address",
                       SLICE_ARG(slice_first(name, 80)));
    return OK;
}

/* ---- reading the leaf ---- */

static int64_t unix_seconds(const mbedtls_x509_time *t)
{
    int64_t days = time_days_from_civil(t->year, (unsigned)t->mon, (unsigned)t->day);
    return days * 86400 + t->hour * 3600 + t->min * 60 + t->sec;
}

static int san_type(const mbedtls_x509_sequence *san)
{
    return san->buf.tag & MBEDTLS_ASN1_TAG_VALUE_MASK;
}

static bool has_ip(const struct tls_verify *verify, const mbedtls_x509_crt *cert)
{
    for (const mbedtls_x509_sequence *san = &cert->subject_alt_names; san; san = san->next)
        if (san->buf.p && san_type(san) == MBEDTLS_X509_SAN_IP_ADDRESS &&
            san->buf.len == verify->ip_len && memcmp(san->buf.p, verify->ip, san->buf.len) == 0)
            return true;
    return false;
}

/* Cleans a name from the peer's certificate for an error text: quotes and all characters that
 * are not printable are replaced. */
static size_t append_clean(char *out, size_t cap, const mbedtls_x509_buf *name)
{
    size_t len = 0;
    for (size_t i = 0; i < name->len && len + 1 < cap; i++) {
        unsigned char c = name->p[i];
        out[len++] = (char)(c > 0x20 && c < 0x7f && c != '"' ? c : '?');
    }
    return len;
}

static void note_names(struct tls_verify *verify, const mbedtls_x509_crt *cert)
{
    char *out = verify->cert_names;
    size_t len = 0;
    for (const mbedtls_x509_sequence *san = &cert->subject_alt_names; san; san = san->next) {
        char text[INET6_ADDRSTRLEN];
        mbedtls_x509_buf name = san->buf;
        if (!name.p)
            continue;
        if (san_type(san) == MBEDTLS_X509_SAN_IP_ADDRESS && (name.len == 4 || name.len == 16)) {
            inet_ntop(name.len == 4 ? AF_INET : AF_INET6, name.p, text, sizeof(text));
            name.p = (unsigned char *)text;
            name.len = strlen(text);
        } else if (san_type(san) != MBEDTLS_X509_SAN_DNS_NAME) {
            continue;
        }
        if (len + name.len + 8 > TLS_CERT_NAMES_MAX) {
            memcpy(out + len, " ...", 5);
            return;
        }
        if (len) {
            memcpy(out + len, ", ", 2);
            len += 2;
        }
        len += append_clean(out + len, TLS_CERT_NAMES_MAX - len, &name);
        out[len] = '\0';
    }
}

int tls_verify_on_cert(void *ctx, mbedtls_x509_crt *cert, int depth, uint32_t *flags)
{
    struct tls_verify *verify = ctx;
    verify->is_called = true;
    if (depth != 0)
        return 0;
    verify->valid_from_s = unix_seconds(&cert->valid_from);
    verify->valid_to_s = unix_seconds(&cert->valid_to);
    verify->is_self_signed =
        cert->subject_raw.len == cert->issuer_raw.len &&
        memcmp(cert->subject_raw.p, cert->issuer_raw.p, cert->subject_raw.len) == 0;
    note_names(verify, cert);
    bool has_san = mbedtls_x509_crt_has_ext_type(cert, MBEDTLS_OID_X509_EXT_SUBJECT_ALT_NAME);
    if (!has_san || (verify->ip_len && !has_ip(verify, cert)))
        *flags |= MBEDTLS_X509_BADCERT_CN_MISMATCH;
    return 0;
}

/* ---- sentences ---- */

static void explain_time(const struct tls_verify *verify, bool is_expired, struct err *err)
{
    char text[TIME_TEXT_LEN + 1];
    time_format((is_expired ? verify->valid_to_s : verify->valid_from_s) * 1000000, text);
    if (is_expired)
        err_set(err, ERR_CRYPTO, "the certificate of %s has expired (valid until %s)", verify->name,
                text);
    else
        err_set(err, ERR_CRYPTO, "the certificate of %s is not valid yet (valid from %s)",
                verify->name, text);
}

void tls_verify_explain(const struct tls_verify *verify, uint32_t flags, struct err *err)
{
    const uint32_t weak = MBEDTLS_X509_BADCERT_BAD_MD | MBEDTLS_X509_BADCERT_BAD_PK |
                          MBEDTLS_X509_BADCERT_BAD_KEY;
    if (flags & MBEDTLS_X509_BADCERT_NOT_TRUSTED && verify->is_self_signed)
        err_set(err, ERR_CRYPTO,
                "the certificate of %s is self-signed; pass its PEM with --ca-file to trust it",
                verify->name);
    else if (flags & MBEDTLS_X509_BADCERT_NOT_TRUSTED)
        err_set(err, ERR_CRYPTO,
                "the certificate of %s comes from an unknown issuer; pass the issuer's PEM with "
                "--ca-file to trust it",
                verify->name);
    else if (flags & MBEDTLS_X509_BADCERT_CN_MISMATCH)
        err_set(err, ERR_CRYPTO, "the certificate is not for host %s but for %s", verify->name,
                verify->cert_names[0] ? verify->cert_names : "no host at all (no subjectAltName)");
    else if (flags & (MBEDTLS_X509_BADCERT_EXPIRED | MBEDTLS_X509_BADCERT_FUTURE))
        explain_time(verify, flags & MBEDTLS_X509_BADCERT_EXPIRED, err);
    else if (flags & weak)
        err_set(err, ERR_CRYPTO,
                "the certificate of %s, or one above it, uses a key or hash that is too weak",
                verify->name);
    else if (flags & (MBEDTLS_X509_BADCERT_KEY_USAGE | MBEDTLS_X509_BADCERT_EXT_KEY_USAGE |
                      MBEDTLS_X509_BADCERT_NS_CERT_TYPE))
        err_set(err, ERR_CRYPTO, "the certificate of %s is not meant for a server", verify->name);
    else
        err_set(err, ERR_CRYPTO, "the certificate of %s was not accepted (flags 0x%x)",
                verify->name, (unsigned)flags);
}
