/*
 * See certs.h.
 */
#include "support/certs.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <mbedtls/oid.h>
#include <mbedtls/pk.h>
#include <mbedtls/psa_util.h>
#include <mbedtls/x509_crt.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "tls/tls.h"

enum { PEM_MAX = 16 * 1024, PATHS_MAX = 64 };

#define RANDOM mbedtls_psa_get_random, MBEDTLS_PSA_RANDOM_STATE

struct signer {
    mbedtls_pk_context key;
    char name[32]; /* "CN=..." */
    char pem[PEM_MAX];
};

struct certs {
    char dir[64];
    struct signer ca, other, intermediate;
    unsigned serial;
    char *paths[PATHS_MAX];
    size_t path_count;
};

const char *certs_path(struct certs *certs, const char *name)
{
    char text[160];
    snprintf(text, sizeof(text), "%s/%s", certs->dir, name);
    for (size_t i = 0; i < certs->path_count; i++)
        if (strcmp(certs->paths[i], text) == 0)
            return certs->paths[i];
    ASSERT(certs->path_count < PATHS_MAX);
    certs->paths[certs->path_count] = mem_strdup(text);
    ASSERT(certs->paths[certs->path_count]);
    return certs->paths[certs->path_count++];
}

static void write_text(struct certs *certs, const char *name, const char *suffix, const char *text,
                       const char *more)
{
    char path[160];
    snprintf(path, sizeof(path), "%s/%s%s", certs->dir, name, suffix);
    FILE *file = fopen(path, "w");
    ASSERT(file);
    ASSERT(fputs(text, file) >= 0 && fputs(more, file) >= 0);
    ASSERT(fclose(file) == 0);
}

static void make_key(mbedtls_pk_context *key, unsigned rsa_bits)
{
    mbedtls_pk_init(key);
    if (rsa_bits) {
        ASSERT(mbedtls_pk_setup(key, mbedtls_pk_info_from_type(MBEDTLS_PK_RSA)) == 0);
        ASSERT(mbedtls_rsa_gen_key(mbedtls_pk_rsa(*key), RANDOM, rsa_bits, 65537) == 0);
    } else {
        ASSERT(mbedtls_pk_setup(key, mbedtls_pk_info_from_type(MBEDTLS_PK_ECKEY)) == 0);
        ASSERT(mbedtls_ecp_gen_key(MBEDTLS_ECP_DP_SECP256R1, mbedtls_pk_ec(*key), RANDOM) == 0);
    }
}

struct issue {
    const struct signer *by; /* NULL: itself */
    mbedtls_pk_context *key;
    const char *name, *from, *to;
    mbedtls_x509_san_list *names;
    bool is_ca, is_client_only;
};

static void set_usage(mbedtls_x509write_cert *cert, bool is_client_only)
{
    mbedtls_asn1_sequence usage;
    memset(&usage, 0, sizeof(usage));
    const char *oid = is_client_only ? MBEDTLS_OID_CLIENT_AUTH : MBEDTLS_OID_SERVER_AUTH;
    usage.buf.tag = MBEDTLS_ASN1_OID;
    usage.buf.p = (unsigned char *)(uintptr_t)oid;
    usage.buf.len = strlen(oid);
    ASSERT(mbedtls_x509write_crt_set_ext_key_usage(cert, &usage) == 0);
}

static void issue(struct certs *certs, const struct issue *what, char pem[PEM_MAX])
{
    mbedtls_x509write_cert cert;
    mbedtls_x509write_crt_init(&cert);
    mbedtls_x509write_crt_set_version(&cert, MBEDTLS_X509_CRT_VERSION_3);
    mbedtls_x509write_crt_set_md_alg(&cert, MBEDTLS_MD_SHA256);
    unsigned char serial[2] = {0x11, (unsigned char)++certs->serial};
    ASSERT(mbedtls_x509write_crt_set_serial_raw(&cert, serial, sizeof(serial)) == 0);
    ASSERT(mbedtls_x509write_crt_set_validity(&cert, what->from ? what->from : "20200101000000",
                                              what->to ? what->to : "20991231235959") == 0);
    ASSERT(mbedtls_x509write_crt_set_subject_name(&cert, what->name) == 0);
    const char *issuer = what->by ? what->by->name : what->name;
    ASSERT(mbedtls_x509write_crt_set_issuer_name(&cert, issuer) == 0);
    mbedtls_x509write_crt_set_subject_key(&cert, what->key);
    mbedtls_x509write_crt_set_issuer_key(
        &cert, what->by ? (mbedtls_pk_context *)(uintptr_t)&what->by->key : what->key);
    ASSERT(mbedtls_x509write_crt_set_basic_constraints(&cert, what->is_ca, -1) == 0);
    if (!what->is_ca)
        set_usage(&cert, what->is_client_only);
    if (what->names)
        ASSERT(mbedtls_x509write_crt_set_subject_alternative_name(&cert, what->names) == 0);
    ASSERT(mbedtls_x509write_crt_pem(&cert, (unsigned char *)pem, PEM_MAX, RANDOM) == 0);
    mbedtls_x509write_crt_free(&cert);
}

static void make_ca(struct certs *certs, struct signer *signer, const char *name,
                    const struct signer *by)
{
    make_key(&signer->key, 0);
    snprintf(signer->name, sizeof(signer->name), "CN=%s", name);
    struct issue what = {.by = by, .key = &signer->key, .name = signer->name, .is_ca = true};
    issue(certs, &what, signer->pem);
    write_text(certs, name, ".pem", signer->pem, "");
}

struct certs *certs_new(void)
{
    struct err err;
    ASSERT(tls_library_init(&err) == OK);
    struct certs *certs = mem_zalloc(sizeof(*certs));
    ASSERT(certs);
    memcpy(certs->dir, "/tmp/sluice-certs-XXXXXX", 25);
    ASSERT(mkdtemp(certs->dir));
    make_ca(certs, &certs->ca, "ca", NULL);
    make_ca(certs, &certs->other, "other", NULL);
    make_ca(certs, &certs->intermediate, "intermediate", &certs->ca);
    return certs;
}

void certs_free(struct certs *certs)
{
    DIR *dir = opendir(certs->dir);
    ASSERT(dir);
    for (struct dirent *entry; (entry = readdir(dir));) {
        char path[400];
        snprintf(path, sizeof(path), "%s/%s", certs->dir, entry->d_name);
        if (entry->d_name[0] != '.')
            ASSERT(unlink(path) == 0);
    }
    closedir(dir);
    ASSERT(rmdir(certs->dir) == 0);
    for (size_t i = 0; i < certs->path_count; i++)
        mem_free(certs->paths[i]);
    mbedtls_pk_free(&certs->ca.key);
    mbedtls_pk_free(&certs->other.key);
    mbedtls_pk_free(&certs->intermediate.key);
    mem_free(certs);
}

/* Fills list (5 slots) with the names of spec. ips holds the bytes of literals. */
static mbedtls_x509_san_list *names_of(const struct cert_spec *spec, mbedtls_x509_san_list *list,
                                       unsigned char ips[2][16])
{
    size_t count = 0;
    memset(list, 0, 5 * sizeof(*list));
    for (size_t i = 0; i < ARRAY_LEN(spec->dns) && spec->dns[i]; i++, count++) {
        list[count].node.type = MBEDTLS_X509_SAN_DNS_NAME;
        list[count].node.san.unstructured_name.p = (unsigned char *)(uintptr_t)spec->dns[i];
        list[count].node.san.unstructured_name.len = strlen(spec->dns[i]);
    }
    for (size_t i = 0; i < ARRAY_LEN(spec->ip) && spec->ip[i]; i++, count++) {
        bool is_v4 = inet_pton(AF_INET, spec->ip[i], ips[i]) == 1;
        ASSERT(is_v4 || inet_pton(AF_INET6, spec->ip[i], ips[i]) == 1);
        list[count].node.type = MBEDTLS_X509_SAN_IP_ADDRESS;
        list[count].node.san.unstructured_name.p = ips[i];
        list[count].node.san.unstructured_name.len = is_v4 ? 4 : 16;
    }
    for (size_t i = 0; i + 1 < count; i++)
        list[i].next = &list[i + 1];
    return count ? list : NULL;
}

static const struct signer *signer_of(const struct certs *certs, enum cert_signer signer)
{
    switch (signer) {
    case CERT_BY_CA:
        return &certs->ca;
    case CERT_BY_OTHER_CA:
        return &certs->other;
    case CERT_BY_INTERMEDIATE:
        return &certs->intermediate;
    case CERT_BY_ITSELF:
        break;
    }
    return NULL;
}

void certs_add(struct certs *certs, const struct cert_spec *spec)
{
    static char pem[PEM_MAX];
    unsigned char ips[2][16];
    char name[80];
    mbedtls_pk_context key;
    mbedtls_x509_san_list list[5];
    make_key(&key, spec->rsa_bits);
    snprintf(name, sizeof(name), "CN=%s", spec->cn ? spec->cn : "test");
    struct issue what = {
        .by = signer_of(certs, spec->signer),
        .key = &key,
        .name = name,
        .from = spec->from,
        .to = spec->to,
        .names = names_of(spec, list, ips),
        .is_client_only = spec->is_client_only,
    };
    issue(certs, &what, pem);
    write_text(certs, spec->file, ".pem", pem,
               spec->signer == CERT_BY_INTERMEDIATE ? certs->intermediate.pem : "");
    ASSERT(mbedtls_pk_write_key_pem(&key, (unsigned char *)pem, PEM_MAX) == 0);
    write_text(certs, spec->file, ".key", pem, "");
    mbedtls_pk_free(&key);
}
