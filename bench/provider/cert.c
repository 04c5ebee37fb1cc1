/*
 * See cert.h.
 */
#include "provider/cert.h"

#include <errno.h>
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

#include "base/file.h"
#include "base/id.h"
#include "base/mem.h"

enum {
    PEM_BYTES_MAX = 4096,
    DAY_S = 86400,
    CA_DAYS = 3650,
    LEAF_DAYS = 365,
};

static int rng(void *ctx, unsigned char *out, size_t len)
{
    (void)ctx;
    random_bytes(out, len);
    return 0;
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

/* Makes the certificate of `key` as PEM, signed by `issuer_key`. */
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

/* Makes the CA's certificate, the chain (the leaf's certificate, then the CA's) and the leaf's key.
 * The CA's key is not stored. */
static bool make_all(char ca_pem[PEM_BYTES_MAX], struct buf *chain, char key_pem[PEM_BYTES_MAX])
{
    mbedtls_pk_context ca, leaf;
    char pem[PEM_BYTES_MAX];
    mbedtls_pk_init(&ca);
    mbedtls_pk_init(&leaf);
    bool is_made = make_key(&ca) && make_key(&leaf) && make_cert(&ca, &ca, true, ca_pem) &&
                   make_cert(&leaf, &ca, false, pem) &&
                   !mbedtls_pk_write_key_pem(&leaf, (unsigned char *)key_pem, PEM_BYTES_MAX);
    mbedtls_pk_free(&ca);
    mbedtls_pk_free(&leaf);
    if (is_made)
        buf_printf(chain, "%s%s", pem, ca_pem);
    return is_made;
}

int cert_make(const char *dir, struct cert_files *files, struct err *err)
{
    static const char *const names[] = {"ca.pem", "cert.pem", "cert.key"};
    char *paths[] = {files->ca, files->cert, files->key};
    char whole[PATH_MAX]; /* an absolute path, since clients that read the ready file may run in
                             another folder */
    char ca_pem[PEM_BYTES_MAX], key_pem[PEM_BYTES_MAX];
    struct buf chain;
    if ((mkdir(dir, 0700) != 0 && errno != EEXIST) || !realpath(dir, whole))
        return err_set(err, ERR_IO, "cannot create the folder %s: %s", dir, strerror(errno));
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (snprintf(paths[i], CERT_PATH_MAX, "%s/%s", whole, names[i]) >= CERT_PATH_MAX)
            return err_set(err, ERR_LIMIT, "the path %s is too long", whole);
    buf_init(&chain, 2 * PEM_BYTES_MAX);
    int status = make_all(ca_pem, &chain, key_pem)
                     ? OK
                     : err_set(err, ERR_CRYPTO, "a key or a certificate cannot be made");
    if (status == OK)
        status = file_write_whole(files->key, slice_cstr(key_pem), 0600, err);
    if (status == OK)
        status = file_write_whole(files->cert, buf_slice(&chain), 0644, err);
    if (status == OK)
        status = file_write_whole(files->ca, slice_cstr(ca_pem), 0644, err);
    mem_wipe(key_pem, sizeof(key_pem));
    buf_deinit(&chain);
    return status;
}
