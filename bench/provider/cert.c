/*
 * See cert.h.
 */
#include "provider/cert.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <mbedtls/ecp.h>
#include <mbedtls/pk.h>
#include <mbedtls/psa_util.h>
#include <mbedtls/x509_crt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/id.h"
#include "base/mem.h"

enum {
    PEM_BYTES_MAX = 4096,
    DAY_S = 86400,
    CA_DAYS = 3650,
    LEAF_DAYS = 365,
    LEAF_RENEW_DAYS = 7,
};

static int rng(void *ctx, unsigned char *out, size_t len)
{
    (void)ctx;
    random_bytes(out, len);
    return 0;
}

static int set_path(char out[CERT_PATH_MAX], const char *dir, const char *name, struct err *err)
{
    int len = snprintf(out, CERT_PATH_MAX, "%s/%s", dir, name);
    return len > 0 && len < CERT_PATH_MAX ? OK
                                          : err_set(err, ERR_LIMIT, "the path %s is too long", dir);
}

/* Whole or not at all: written to a temporary file and renamed. */
static int write_file(const char *path, const char *text, mode_t mode, struct err *err)
{
    char part[CERT_PATH_MAX + 16];
    (void)snprintf(part, sizeof(part), "%s.%d", path, (int)getpid());
    int fd = open(part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
    size_t len = strlen(text);
    if (fd < 0)
        return err_set(err, ERR_IO, "cannot create %s: %s", part, strerror(errno));
    bool is_ok = write(fd, text, len) == (ssize_t)len;
    is_ok &= close(fd) == 0;
    if (is_ok && rename(part, path) == 0)
        return OK;
    int code = errno;
    (void)unlink(part);
    return err_set(err, ERR_IO, "cannot write %s: %s", path, strerror(code));
}

static bool make_key(mbedtls_pk_context *key)
{
    return !mbedtls_pk_setup(key, mbedtls_pk_info_from_type(MBEDTLS_PK_ECKEY)) &&
           !mbedtls_ecp_gen_key(MBEDTLS_ECP_DP_SECP256R1, mbedtls_pk_ec(*key), rng, NULL);
}

static int set_validity(mbedtls_x509write_cert *cert, int days)
{
    char from[32], to[32];
    time_t now = time(NULL);
    time_t first = now - DAY_S, last = now + (time_t)days * DAY_S;
    struct tm tm;
    gmtime_r(&first, &tm);
    strftime(from, sizeof(from), "%Y%m%d%H%M%S", &tm);
    gmtime_r(&last, &tm);
    strftime(to, sizeof(to), "%Y%m%d%H%M%S", &tm);
    return mbedtls_x509write_crt_set_validity(cert, from, to);
}

static int set_names(mbedtls_x509write_cert *cert)
{
    static unsigned char v4[4] = {127, 0, 0, 1};
    static unsigned char v6[16] = {[15] = 1};
    static char host[] = "localhost";
    mbedtls_x509_san_list ip6 = {0}, ip4 = {0}, name = {0};
    ip6.node.type = ip4.node.type = MBEDTLS_X509_SAN_IP_ADDRESS;
    ip6.node.san.unstructured_name.p = v6;
    ip6.node.san.unstructured_name.len = sizeof(v6);
    ip4.node.san.unstructured_name.p = v4;
    ip4.node.san.unstructured_name.len = sizeof(v4);
    ip4.next = &ip6;
    name.node.type = MBEDTLS_X509_SAN_DNS_NAME;
    name.node.san.unstructured_name.p = (unsigned char *)host;
    name.node.san.unstructured_name.len = sizeof(host) - 1;
    name.next = &ip4;
    return mbedtls_x509write_crt_set_subject_alternative_name(cert, &name);
}

/* The certificate of `key` as PEM, signed by `issuer_key`. */
static bool make_cert(mbedtls_pk_context *key, mbedtls_pk_context *issuer_key, bool is_ca,
                      char pem[PEM_BYTES_MAX])
{
    static const char ca_name[] = "CN=sluice emulated provider CA,O=sluice";
    static const char leaf_name[] = "CN=localhost,O=sluice";
    unsigned char serial[16];
    mbedtls_x509write_cert cert;
    mbedtls_x509write_crt_init(&cert);
    random_bytes(serial, sizeof(serial));
    serial[0] &= 0x7f;
    serial[0] |= 0x40;
    mbedtls_x509write_crt_set_version(&cert, MBEDTLS_X509_CRT_VERSION_3);
    mbedtls_x509write_crt_set_md_alg(&cert, MBEDTLS_MD_SHA256);
    mbedtls_x509write_crt_set_subject_key(&cert, key);
    mbedtls_x509write_crt_set_issuer_key(&cert, issuer_key);
    bool is_ok = !mbedtls_x509write_crt_set_serial_raw(&cert, serial, sizeof(serial)) &&
                 !mbedtls_x509write_crt_set_subject_name(&cert, is_ca ? ca_name : leaf_name) &&
                 !mbedtls_x509write_crt_set_issuer_name(&cert, ca_name) &&
                 !set_validity(&cert, is_ca ? CA_DAYS : LEAF_DAYS) &&
                 !mbedtls_x509write_crt_set_basic_constraints(&cert, is_ca, is_ca ? 0 : -1) &&
                 !mbedtls_x509write_crt_set_key_usage(
                     &cert, is_ca ? MBEDTLS_X509_KU_KEY_CERT_SIGN | MBEDTLS_X509_KU_CRL_SIGN
                                  : MBEDTLS_X509_KU_DIGITAL_SIGNATURE) &&
                 !mbedtls_x509write_crt_set_subject_key_identifier(&cert) &&
                 !mbedtls_x509write_crt_set_authority_key_identifier(&cert) &&
                 (is_ca || !set_names(&cert)) &&
                 !mbedtls_x509write_crt_pem(&cert, (unsigned char *)pem, PEM_BYTES_MAX, rng, NULL);
    mbedtls_x509write_crt_free(&cert);
    return is_ok;
}

static int write_key(const char *path, mbedtls_pk_context *key, struct err *err)
{
    char pem[PEM_BYTES_MAX];
    int code = mbedtls_pk_write_key_pem(key, (unsigned char *)pem, sizeof(pem));
    int status = code ? err_set(err, ERR_CRYPTO, "a key cannot be written (-0x%04x)", -code)
                      : write_file(path, pem, 0600, err);
    mem_wipe(pem, sizeof(pem));
    return status;
}

static int make_ca(const struct cert_files *files, mbedtls_pk_context *ca_key,
                   char ca_pem[PEM_BYTES_MAX], struct err *err)
{
    if (!make_key(ca_key) || !make_cert(ca_key, ca_key, true, ca_pem))
        return err_set(err, ERR_CRYPTO, "a CA cannot be made");
    int status = write_key(files->ca_key, ca_key, err);
    return status == OK ? write_file(files->ca, ca_pem, 0644, err) : status;
}

static int make_leaf(const struct cert_files *files, mbedtls_pk_context *ca_key, const char *ca_pem,
                     struct err *err)
{
    char pem[PEM_BYTES_MAX], both[2 * PEM_BYTES_MAX];
    mbedtls_pk_context key;
    mbedtls_pk_init(&key);
    int status = make_key(&key) && make_cert(&key, ca_key, false, pem)
                     ? write_key(files->key, &key, err)
                     : err_set(err, ERR_CRYPTO, "a certificate cannot be made");
    mbedtls_pk_free(&key);
    if (status != OK)
        return status;
    (void)snprintf(both, sizeof(both), "%s%s", pem, ca_pem);
    return write_file(files->cert, both, 0644, err);
}

static bool is_lasting(const mbedtls_x509_crt *cert)
{
    struct tm tm = {.tm_year = cert->valid_to.year - 1900,
                    .tm_mon = cert->valid_to.mon - 1,
                    .tm_mday = cert->valid_to.day};
    return timegm(&tm) > time(NULL) + LEAF_RENEW_DAYS * DAY_S &&
           !mbedtls_x509_time_is_future(&cert->valid_from);
}

/* Reads the CA if it is still valid; false: a new one has to be made. */
static bool load_ca(const struct cert_files *files, mbedtls_x509_crt *ca,
                    mbedtls_pk_context *ca_key)
{
    return mbedtls_x509_crt_parse_file(ca, files->ca) == 0 && is_lasting(ca) &&
           mbedtls_pk_parse_keyfile(ca_key, files->ca_key, NULL, rng, NULL) == 0 &&
           mbedtls_pk_check_pair(&ca->pk, ca_key, rng, NULL) == 0;
}

static bool is_leaf_good(const struct cert_files *files, mbedtls_x509_crt *ca)
{
    mbedtls_x509_crt leaf;
    mbedtls_pk_context key;
    uint32_t flags = 0;
    mbedtls_x509_crt_init(&leaf);
    mbedtls_pk_init(&key);
    bool is_good = mbedtls_x509_crt_parse_file(&leaf, files->cert) == 0 && is_lasting(&leaf) &&
                   mbedtls_pk_parse_keyfile(&key, files->key, NULL, rng, NULL) == 0 &&
                   mbedtls_pk_check_pair(&leaf.pk, &key, rng, NULL) == 0 &&
                   mbedtls_x509_crt_verify(&leaf, ca, NULL, "localhost", &flags, NULL, NULL) == 0;
    mbedtls_x509_crt_free(&leaf);
    mbedtls_pk_free(&key);
    return is_good;
}

static int read_text(const char *path, char text[PEM_BYTES_MAX], struct err *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t len = fd < 0 ? -1 : read(fd, text, PEM_BYTES_MAX - 1);
    if (fd >= 0)
        (void)close(fd);
    if (len < 0)
        return err_set(err, ERR_IO, "cannot read %s: %s", path, strerror(errno));
    text[len] = 0;
    return OK;
}

static int ensure(const struct cert_files *files, mbedtls_x509_crt *ca, mbedtls_pk_context *ca_key,
                  struct err *err)
{
    char ca_pem[PEM_BYTES_MAX];
    if (load_ca(files, ca, ca_key)) {
        if (is_leaf_good(files, ca))
            return OK;
        int status = read_text(files->ca, ca_pem, err);
        return status == OK ? make_leaf(files, ca_key, ca_pem, err) : status;
    }
    mbedtls_pk_free(ca_key);
    mbedtls_pk_init(ca_key);
    int status = make_ca(files, ca_key, ca_pem, err);
    return status == OK ? make_leaf(files, ca_key, ca_pem, err) : status;
}

int cert_ensure(const char *dir, struct cert_files *files, struct err *err)
{
    mbedtls_x509_crt ca;
    mbedtls_pk_context ca_key;
    if (mkdir(dir, 0700) != 0 && errno != EEXIST)
        return err_set(err, ERR_IO, "cannot make the folder %s: %s", dir, strerror(errno));
    char whole[PATH_MAX]; /* clients that read the ready file may run elsewhere */
    if (!realpath(dir, whole))
        return err_set(err, ERR_IO, "cannot find the folder %s: %s", dir, strerror(errno));
    dir = whole;
    if (set_path(files->ca, dir, "ca.pem", err) != OK ||
        set_path(files->ca_key, dir, "ca.key", err) != OK ||
        set_path(files->cert, dir, "cert.pem", err) != OK ||
        set_path(files->key, dir, "cert.key", err) != OK)
        return err->code;
    mbedtls_x509_crt_init(&ca);
    mbedtls_pk_init(&ca_key);
    int status = ensure(files, &ca, &ca_key, err);
    mbedtls_x509_crt_free(&ca);
    mbedtls_pk_free(&ca_key);
    return status;
}
