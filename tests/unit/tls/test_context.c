/*
 * Contexts: where trust roots come from, and the messages if they are missing.
 */
#include <unistd.h>

#include "tls/context.h"
#include "tls/tls.h"
#include "support/certs.h"
#include "unit.h"

static struct certs *certs;

static struct tls_context *context_of(const char *ca_file, struct err *err)
{
    struct tls_config config = {.ca_file = ca_file};
    return tls_context_new(&config, err);
}

static void the_systems_roots_are_the_default(void **state)
{
    (void)state;
    if (access("/etc/ssl/certs/ca-certificates.crt", R_OK) != 0)
        skip();
    struct err err;
    struct tls_context *context = tls_context_new(NULL, &err);
    assert_non_null(context);
    assert_true(tls_context_root_count(context) > 50);
    assert_int_equal(context->sessions.by_key.count, 0);
    assert_ptr_equal(tls_context_ref(context), context);
    tls_context_unref(context);
    tls_context_unref(context);
    tls_context_unref(NULL);
}

static void a_file_of_roots_is_read_whole(void **state)
{
    (void)state;
    const char *path = certs_path(certs, "both.pem");
    FILE *out = fopen(path, "w");
    static const char *const names[] = {"ca.pem", "other.pem"};
    for (size_t i = 0; i < 2; i++) {
        FILE *in = fopen(certs_path(certs, names[i]), "r");
        for (int c; (c = fgetc(in)) != EOF;)
            fputc(c, out);
        fclose(in);
    }
    fputs("-----BEGIN CERTIFICATE-----\nMIIBAA==\n-----END CERTIFICATE-----\n", out);
    fclose(out);
    struct err err;
    struct tls_context *context = context_of(path, &err);
    assert_non_null(context);
    assert_int_equal(tls_context_root_count(context), 2);
    tls_context_unref(context);
}

static void bad_files_are_named(void **state)
{
    (void)state;
    struct err err;
    assert_null(context_of("/nonexistent/roots.pem", &err));
    assert_int_equal(err.code, ERR_NOTFOUND);
    assert_non_null(strstr(err.text, "/nonexistent/roots.pem"));
    assert_null(context_of("/tmp", &err));
    assert_non_null(strstr(err.text, "/tmp is not a regular file"));
    assert_null(context_of("/dev/zero", &err));
    const char *path = certs_path(certs, "empty.pem");
    fclose(fopen(path, "w"));
    assert_null(context_of(path, &err));
    assert_int_equal(err.code, ERR_SYNTAX);
    assert_non_null(strstr(err.text, "has no certificate"));
    struct tls_config config = {.ca_file = certs_path(certs, "ca.pem"),
                                .version_min = TLS_VERSION_1_3,
                                .version_max = TLS_VERSION_1_2};
    assert_null(tls_context_new(&config, &err));
    assert_int_equal(err.code, ERR_INVALID);
}

static void failing_memory_leaves_nothing(void **state)
{
    (void)state;
    const char *path = certs_path(certs, "ca.pem");
    struct err err;
    uint64_t hits = 1;
    size_t before = mem_live_blocks();
    unsigned refused = 0;
    for (uint64_t nth = 1; hits; nth++) {
        mem_fail_at(nth, 1);
        struct tls_context *context = context_of(path, &err);
        hits = mem_fail_hits();
        mem_fail_at(0, 0);
        refused += !context;
        tls_context_unref(context);
        assert_int_equal(mem_live_blocks(), before);
    }
    assert_true(refused > 3);
}

static int setup(void **state)
{
    (void)state;
    certs = certs_new();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    certs_free(certs);
    tls_library_deinit();
    return unit_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_systems_roots_are_the_default),
        cmocka_unit_test(a_file_of_roots_is_read_whole),
        cmocka_unit_test(bad_files_are_named),
        cmocka_unit_test(failing_memory_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
