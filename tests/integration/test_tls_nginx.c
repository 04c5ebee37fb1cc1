/*
 * TLS with a peer that is not our own library: nginx with OpenSSL, TLS 1.2 and 1.3, RSA and ECDSA,
 * resumption with tickets and with session ids, and certificates that must be refused. nginx
 * reports in each body which protocol it used and whether it resumed.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/certs.h"
#include "support/http_caller.h"
#include "unit.h"

struct site {
    const char *cert, *protocols, *more; /* directives of its server block */
    const char *want;                    /* the protocol that it reports; NULL: must fail */
    const char *sentence;                /* the expected error if the connection fails */
    bool is_never_resumed;
    uint16_t port;
};

static struct site sites[] = {
    {"rsa", "TLSv1.2", "", "TLSv1.2", NULL, false, 0},
    {"ec", "TLSv1.2", "", "TLSv1.2", NULL, false, 0},
    {"rsa", "TLSv1.3", "", "TLSv1.3", NULL, false, 0},
    {"ec", "TLSv1.3", "", "TLSv1.3", NULL, false, 0},
    {"chained", "TLSv1.2 TLSv1.3", "", "TLSv1.3", NULL, false, 0},
    {"rsa", "TLSv1.2", "ssl_session_tickets off; ssl_session_cache shared:ids:1m;", "TLSv1.2", NULL,
     false, 0},
    {"ec", "TLSv1.3", "ssl_session_tickets off; ssl_session_cache shared:ids13:1m;", "TLSv1.3",
     NULL, false, 0},
    {"ec", "TLSv1.2", "ssl_session_tickets off; ssl_session_cache off;", "TLSv1.2", NULL, true, 0},
    /* nginx does not accept our key share and sends HelloRetryRequest */
    {"ec", "TLSv1.3", "ssl_ecdh_curve secp384r1;", "TLSv1.3", NULL, false, 0},
    {"rsa", "TLSv1.2", "ssl_ecdh_curve prime256v1; ssl_ciphers ECDHE-RSA-CHACHA20-POLY1305;",
     "TLSv1.2", NULL, false, 0},
    /* nginx asks for a certificate, which we do not have */
    {"ec", "TLSv1.3", "ssl_verify_client optional_no_ca;", "TLSv1.3", NULL, false, 0},
    {"rsa", "TLSv1.2", "ssl_verify_client optional_no_ca;", "TLSv1.2", NULL, false, 0},
    {"expired", "TLSv1.2 TLSv1.3", "", NULL, "has expired", false, 0},
    {"expired", "TLSv1.2", "", NULL, "has expired", false, 0},
    {"wrong", "TLSv1.2 TLSv1.3", "", NULL, "is not for host localhost but for other.test", false,
     0},
    {"wrong", "TLSv1.2", "", NULL, "is not for host localhost but for other.test", false, 0},
    {"self", "TLSv1.2 TLSv1.3", "", NULL, "is self-signed", false, 0},
    {"foreign", "TLSv1.2 TLSv1.3", "", NULL, "unknown issuer", false, 0},
    {"foreign", "TLSv1.2", "", NULL, "unknown issuer", false, 0},
    {"clientonly", "TLSv1.2 TLSv1.3", "", NULL, "not meant for a server", false, 0},
    {"rsa", "TLSv1.1", "ssl_ciphers DEFAULT@SECLEVEL=0;", NULL, "TLS", false, 0},
    {"rsa", "TLSv1.2", "ssl_ciphers AES256-GCM-SHA384;", NULL, "in common", false, 0},
    {"rsa", "TLSv1.2", "ssl_ciphers ECDHE-RSA-AES128-SHA256;", NULL, "in common", false, 0},
};

enum { LARGE_BYTES = 5 << 20 };

static struct certs *certs;
static pid_t nginx;

/* ---- nginx ---- */

/* Chooses different ports that are free now. Their sockets are closed again, so that nginx can bind
 * the ports. */
static void choose_ports(void)
{
    int fds[ARRAY_LEN(sites)];
    for (size_t i = 0; i < ARRAY_LEN(sites); i++) {
        struct sockaddr_in address = {.sin_family = AF_INET};
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        socklen_t len = sizeof(address);
        fds[i] = socket(AF_INET, SOCK_STREAM, 0);
        assert_true(fds[i] >= 0);
        assert_int_equal(bind(fds[i], (struct sockaddr *)&address, len), 0);
        assert_int_equal(getsockname(fds[i], (struct sockaddr *)&address, &len), 0);
        sites[i].port = ntohs(address.sin_port);
    }
    for (size_t i = 0; i < ARRAY_LEN(sites); i++)
        close(fds[i]);
}

static void write_site(FILE *out, const struct site *site)
{
    char pem[40], key[40];
    snprintf(pem, sizeof(pem), "%s.pem", site->cert);
    snprintf(key, sizeof(key), "%s.key", site->cert);
    fprintf(out,
            "server { listen 127.0.0.1:%u ssl; ssl_protocols %s; ssl_certificate %s;\n"
            "  ssl_certificate_key %s; %s\n"
            "  location = /keep { keepalive_timeout 60s; return 200 kept; }\n"
            "  location = /large.bin { root %s; }\n"
            "  location = /upload { error_log /dev/null;\n"
            "    proxy_pass http://unix:/nonexistent; error_page 502 =200 /counted; }\n"
            "  location = /counted { return 200 \"$request_length\"; }\n"
            "  location / { keepalive_timeout 0; return 200 \"$ssl_protocol $ssl_session_reused "
            "$ssl_server_name $ssl_alpn_protocol\"; } }\n",
            site->port, site->protocols, certs_path(certs, pem), certs_path(certs, key), site->more,
            certs_path(certs, ""));
}

static void write_config(const char *path)
{
    FILE *out = fopen(path, "w");
    assert_non_null(out);
    const char *dir = certs_path(certs, "");
    fprintf(out, "daemon off; master_process off; pid %snginx.pid; error_log stderr crit;\n", dir);
    fprintf(out, "events { worker_connections 256; }\n");
    fprintf(
        out,
        "http { access_log off; default_type text/plain; sendfile on; client_max_body_size 64m;\n");
    static const char *const temps[] = {"client_body", "proxy", "fastcgi", "uwsgi", "scgi"};
    for (size_t i = 0; i < ARRAY_LEN(temps); i++)
        fprintf(out, "%s_temp_path %stemp-%s;\n", temps[i], dir, temps[i]);
    choose_ports();
    for (size_t i = 0; i < ARRAY_LEN(sites); i++)
        write_site(out, &sites[i]);
    fprintf(out, "}\n");
    assert_int_equal(fclose(out), 0);
}

/* true once it listens (its pid file is written when all ports are bound), false if it ended. */
static bool nginx_start(const char *config)
{
    pid_t parent = getpid();
    fflush(NULL);
    nginx = fork();
    assert_true(nginx >= 0);
    if (nginx == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(1);
        execlp("nginx", "nginx", "-p", certs_path(certs, ""), "-e", "stderr", "-c", config,
               (char *)NULL);
        _exit(127);
    }
    while (access(certs_path(certs, "nginx.pid"), F_OK) != 0) {
        if (waitpid(nginx, NULL, WNOHANG) == nginx)
            return false;
        usleep(2000);
    }
    return true;
}

/* We may end only this process. certs_free removes its temporary folders. */
static void nginx_stop(void)
{
    kill(nginx, SIGKILL);
    waitpid(nginx, NULL, 0);
    static const char *const temps[] = {"client_body", "proxy", "fastcgi", "uwsgi", "scgi"};
    for (size_t i = 0; i < ARRAY_LEN(temps); i++) {
        char name[40];
        snprintf(name, sizeof(name), "temp-%s", temps[i]);
        rmdir(certs_path(certs, name));
    }
}

/* ---- calls ---- */

static const struct peer_script none[] = {{.then = PEER_DEAF}};

static void world_init(struct caller_world *world, const char *ca)
{
    struct err err;
    struct tls_config roots = {.ca_file = certs_path(certs, ca)};
    struct tls_context *tls = tls_context_new(&roots, &err);
    assert_non_null(tls);
    caller_world_init(world, NULL, NULL, tls, none, 1);
}

static void site_call(struct caller *caller, struct caller_world *world, const struct site *site,
                      const char *path)
{
    caller_init(caller, world, "/");
    snprintf(caller->url, sizeof(caller->url), "https://localhost:%u%s", site->port, path);
    caller->call.url = slice_cstr(caller->url);
}

static void site_get(struct caller *caller, struct caller_world *world, const struct site *site,
                     const char *path)
{
    site_call(caller, world, site, path);
    caller_start(caller, world, (size_t)16 << 20);
    caller_wait(caller);
}

static void check_good(struct caller_world *world, const struct site *site)
{
    uint64_t tls_ns[2] = {0, 0};
    for (int i = 0; i < 3; i++) {
        struct caller caller;
        bool is_resumed = i > 0 && !site->is_never_resumed;
        char want[100];
        site_get(&caller, world, site, "/");
        if (caller.call.result != HTTP_CALL_OK)
            fail_msg("%s %s %s: %s", site->cert, site->protocols, site->more, caller.call.err.text);
        snprintf(want, sizeof(want), "%s %s localhost http/1.1", site->want,
                 is_resumed ? "r" : ".");
        if (!slice_eq_cstr(caller.call.body, want))
            fail_msg("%s %s: \"%.*s\", not \"%s\"", site->protocols, site->more,
                     SLICE_ARG(caller.call.body), want);
        assert_int_equal(caller.call.is_resumed, is_resumed);
        assert_false(caller.call.is_reused);
        tls_ns[is_resumed] = caller.call.tls_ns;
        caller_deinit(&caller);
    }
    printf("# %-7s %-16s full %5.2f ms, resumed %5.2f ms %s\n", site->cert, site->protocols,
           (double)tls_ns[0] / 1e6, (double)tls_ns[1] / 1e6, site->more);
}

static void nginx_is_spoken_to_and_resumed(void **state)
{
    if (!*state)
        skip();
    struct caller_world world;
    world_init(&world, "ca.pem");
    for (size_t i = 0; i < ARRAY_LEN(sites); i++)
        if (sites[i].want)
            check_good(&world, &sites[i]);
    caller_world_deinit(&world);
}

static void bad_certificates_and_old_versions_are_refused(void **state)
{
    if (!*state)
        skip();
    struct caller_world world;
    world_init(&world, "ca.pem");
    for (size_t i = 0; i < ARRAY_LEN(sites); i++) {
        if (sites[i].want)
            continue;
        struct caller caller;
        site_get(&caller, &world, &sites[i], "/");
        if (caller.call.result != HTTP_CALL_TLS || !strstr(caller.call.err.text, sites[i].sentence))
            fail_msg("%s %s %s: %s: %s", sites[i].cert, sites[i].protocols, sites[i].more,
                     http_call_result_name(caller.call.result), caller.call.err.text);
        assert_false(caller.call.is_any_byte_sent);
        caller_deinit(&caller);
    }
    caller_world_deinit(&world);
    /* a certificate that is valid with one authority is refused with another */
    world_init(&world, "other.pem");
    for (size_t i = 0; i < 4; i++) {
        struct caller caller;
        site_get(&caller, &world, &sites[i], "/");
        assert_int_equal(caller.call.result, HTTP_CALL_TLS);
        assert_non_null(strstr(caller.call.err.text, "unknown issuer"));
        caller_deinit(&caller);
    }
    caller_world_deinit(&world);
}

static char large_byte(size_t i)
{
    return (char)(i * 2654435761u >> 11);
}

static void bodies_pass_both_ways_over_kept_connections(void **state)
{
    if (!*state)
        skip();
    struct caller_world world;
    char *bytes = mem_alloc(LARGE_BYTES);
    for (size_t i = 0; i < LARGE_BYTES; i++)
        bytes[i] = large_byte(i);
    world_init(&world, "ca.pem");
    for (size_t i = 0; i < 4; i++) {
        struct caller caller;
        site_get(&caller, &world, &sites[i], "/keep");
        assert_int_equal(caller.call.result, HTTP_CALL_OK);
        caller_deinit(&caller);
        site_get(&caller, &world, &sites[i], "/large.bin");
        if (caller.call.result != HTTP_CALL_OK)
            fail_msg("%s", caller.call.err.text);
        assert_true(caller.call.is_reused);
        assert_int_equal(caller.call.body.len, LARGE_BYTES);
        assert_memory_equal(caller.call.body.ptr, bytes, LARGE_BYTES);
        caller_deinit(&caller);
        site_call(&caller, &world, &sites[i], "/upload");
        slice body = slice_of(bytes, LARGE_BYTES);
        caller.call.method = SLICE("POST");
        caller.call.body_parts = &body;
        caller.call.body_part_count = 1;
        caller_start(&caller, &world, 1 << 20);
        caller_wait(&caller);
        if (caller.call.result != HTTP_CALL_OK)
            fail_msg("%s", caller.call.err.text);
        uint64_t counted; /* head and body, as nginx got them */
        if (!slice_to_u64(caller.call.body, UINT64_MAX, &counted))
            fail_msg("%u: %.*s", caller.call.status, SLICE_ARG(caller.call.body));
        assert_in_range(counted, LARGE_BYTES + 50, LARGE_BYTES + 1000);
        caller_deinit(&caller);
    }
    mem_free(bytes);
    caller_world_deinit(&world);
}

/* ---- groups ---- */

static void make_certs(void)
{
    static const struct cert_spec specs[] = {
        {.file = "ec", .dns = {"localhost"}},
        {.file = "rsa", .dns = {"localhost"}, .rsa_bits = 2048},
        {.file = "chained", .dns = {"localhost"}, .signer = CERT_BY_INTERMEDIATE},
        {.file = "expired", .dns = {"localhost"}, .to = "20210101000000"},
        {.file = "wrong", .dns = {"other.test"}},
        {.file = "self", .dns = {"localhost"}, .signer = CERT_BY_ITSELF},
        {.file = "foreign", .dns = {"localhost"}, .signer = CERT_BY_OTHER_CA},
        {.file = "clientonly", .dns = {"localhost"}, .is_client_only = true},
    };
    for (size_t i = 0; i < ARRAY_LEN(specs); i++)
        certs_add(certs, &specs[i]);
    FILE *out = fopen(certs_path(certs, "large.bin"), "w");
    for (size_t i = 0; i < LARGE_BYTES; i++)
        fputc((unsigned char)large_byte(i), out);
    fclose(out);
}

static int setup(void **state)
{
    loop_threads_init(4);
    certs = certs_new();
    *state = NULL;
    if (system("nginx -v >/dev/null 2>&1") != 0)
        return 0;
    make_certs();
    const char *config = certs_path(certs, "nginx.conf");
    for (int tries = 0; tries < 5; tries++) { /* another process may take a port first */
        write_config(config);
        if (nginx_start(config)) {
            *state = certs;
            return 0;
        }
    }
    return -1;
}

static int teardown(void **state)
{
    if (*state)
        nginx_stop();
    certs_free(certs);
    tls_library_deinit();
    return unit_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nginx_is_spoken_to_and_resumed),
        cmocka_unit_test(bad_certificates_and_old_versions_are_refused),
        cmocka_unit_test(bodies_pass_both_ways_over_kept_connections),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
