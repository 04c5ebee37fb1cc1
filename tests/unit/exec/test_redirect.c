/*
 * Redirects: if an app's manifest allows it, a renamed object is requested at its new address,
 * once, on the same origin, and only if nothing is done twice. Otherwise the hint names the new
 * address.
 */
#include <stdio.h>

#include "exec/machine.h"
#include "seam/table.h"

enum { CONNECTION = 7 };

#define FOLLOWS ",\"redirects\":\"same-origin\""
#define READ    ACTION("get", "read", "\"method\":\"GET\",\"path\":\"/old\"", "")
#define ASK \
    ACTION("ask", "read", "\"method\":\"POST\",\"path\":\"/old\",\"body\":{\"json\":{\"q\":1}}", "")
#define WRITE                                                                                     \
    ACTION("put", "write", "\"method\":\"POST\",\"path\":\"/old\",\"body\":{\"json\":{\"q\":1}}", \
           "")
#define DELETE_ \
    ACTION("del", "delete", "\"method\":\"DELETE\",\"path\":\"/old\"", ",\"idempotent\":true")
#define ACTIONS READ "," ASK "," WRITE "," DELETE_
#define IN_QUERY                                                                                  \
    "{\"type\":\"api_key\",\"send\":{\"in\":\"query\",\"name\":\"key\",\"value\":\"${credential." \
    "api_"                                                                                        \
    "key}\"}}"

static const char app[] = APP("app", BEARER, FOLLOWS, ACTIONS);
static const char strict[] = APP("strict", BEARER, "", ACTIONS);
static const char keyed[] = APP("keyed", IN_QUERY, FOLLOWS, ACTIONS);

static int set_up(void **state)
{
    const char *const manifests[] = {app, strict, keyed, NULL};
    struct machine *m = machine_new(manifests, (struct seam_tuning){0});
    (void)machine_connect(m, "app", "bearer", CONNECTION, "{\"token\":\"t\"}");
    (void)machine_connect(m, "strict", "bearer", CONNECTION + 1, "{\"token\":\"t\"}");
    (void)machine_connect(m, "keyed", "api_key", CONNECTION + 2, "{\"api_key\":\"secret-key\"}");
    *state = m;
    return 0;
}

static int tear_down(void **state)
{
    return machine_free(*state);
}

#define NEW   "https://app.example/new"
#define AGAIN "The redirect leads to \"" NEW "\"."

struct row {
    const char *app, *action;
    unsigned status;
    const char *location;
    const char *second; /* the second request's first line; NULL: there is no second request */
    const char *words;  /* in the message of the error if the redirect is not followed */
};

static const struct row rows[] = {
    {"app", "get", 301, NEW, "GET " NEW "\n", NULL},
    {"app", "get", 302, NEW, "GET " NEW "\n", NULL},
    {"app", "get", 307, "/new", "GET " NEW "\n", NULL},
    {"app", "get", 308, "https://APP.example:443/new?a=%20b#part",
     "GET https://APP.example:443/new?a=%20b\n", NULL},
    {"app", "put", 307, NEW, "POST " NEW "\n", NULL},
    {"app", "put", 308, "/new", "POST " NEW "\n", NULL},
    {"app", "del", 308, "/new", "DELETE " NEW "\n", NULL},
    {"app", "ask", 307, "/new", "POST " NEW "\n", NULL},
    /* another method would be another request */
    {"app", "ask", 301, NEW, NULL, AGAIN},
    {"app", "put", 301, NEW, NULL, AGAIN},
    {"app", "put", 302, NEW, NULL, AGAIN},
    {"app", "get", 303, NEW, NULL, AGAIN},
    {"app", "get", 300, NEW, NULL, AGAIN},
    /* another origin must not get the credential, and a reply must not choose an arbitrary
     * address */
    {"app", "get", 301, "https://other.example/new", NULL, "https://other.example/new"},
    {"app", "get", 301, "http://app.example/new", NULL, "http://app.example/new"},
    {"app", "get", 301, "https://app.example:8443/new", NULL, "https://app.example:8443/new"},
    {"app", "get", 301, "https://t@app.example/new", NULL, "leads to"},
    {"app", "get", 301, "//other.example/new", NULL, "//other.example/new"},
    {"app", "get", 301, "https://app.example@other.example/", NULL, "leads to"},
    {"app", "get", 301, "https://app.example/a b", NULL, "leads to"},
    {"app", "get", 301, "https://app.example/old", NULL, "https://app.example/old"},
    {"app", "get", 301, "", NULL, "redirect"},
    /* a manifest that does not allow it, and a credential in the URL */
    {"strict", "get", 301, NEW, NULL, AGAIN},
    {"strict", "put", 308, NEW, NULL, AGAIN},
    {"keyed", "get", 301, NEW, NULL, AGAIN},
};

/* Runs up to the call; earlier queries are answered. */
static void go_to_call(struct machine *m)
{
    for (unsigned i = 0; i < 10 && !seam_call(m->node.http, 0); i++)
        seam_node_answer(&m->node, &m->store);
    (void)machine_call(m);
}

static void redirect(struct machine *m, unsigned status, const char *location)
{
    const char *const headers[] = {"Location", location, NULL};
    seam_call_reply_with(machine_call(m), status, headers, SLICE("{\"message\":\"Moved\"}"));
    seam_settle(m->node.loop);
}

static void check_row(struct machine *m, const struct row *row)
{
    char *first, *second = NULL;
    machine_begin(m, row->app, row->action, "{}");
    go_to_call(m);
    first = seam_call_text(machine_call(m));
    redirect(m, row->status, row->location);
    struct http_call *call = seam_call(m->node.http, 0);
    if (!call != !row->second)
        fail_msg("%s %s %u %s: %s", row->app, row->action, row->status, row->location,
                 call ? "followed" : "not followed");
    if (call) { /* everything but the URL is unchanged: method, credential, body */
        second = seam_call_text(call);
        if (strncmp(second, row->second, strlen(row->second)) != 0)
            assert_string_equal(second, row->second);
        assert_string_equal(strchr(first, '\n'), strchr(second, '\n'));
        machine_reply(m, 200, "{}");
    }
    enum exec_reason reason = machine_end_of(m, &m->run);
    assert_int_equal(reason, row->second ? EXEC_SUCCEEDED : EXEC_PROVIDER_ERROR);
    if (row->words)
        assert_slice_has(m->run.out.message, row->words);
    assert_int_equal(m->run.out.attempts, row->second ? 2 : 1);
    (void)machine_end(m);
    mem_free(first);
    mem_free(second);
}

static void a_redirect_is_followed_where_that_is_safe(void **state)
{
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        check_row(*state, &rows[i]);
}

static void it_is_followed_once(void **state)
{
    struct machine *m = *state;
    machine_begin(m, "app", "get", "{}");
    go_to_call(m);
    redirect(m, 301, NEW);
    redirect(m, 301, "https://app.example/newer");
    assert_int_equal(machine_end_of(m, &m->run), EXEC_PROVIDER_ERROR);
    assert_slice_has(m->run.out.message, "The redirect leads to \"https://app.example/newer\"");
    (void)machine_end(m);
}

/* The reply to the first attempt was lost, and the redirect of the second attempt proves nothing
 * about the first. */
static void a_write_in_doubt_is_not_sent_on(void **state)
{
    struct machine *m = *state;
    machine_begin(m, "app", "put", "{}");
    go_to_call(m);
    machine_call(m)->is_resent = true;
    redirect(m, 307, NEW);
    machine_assert_no_call(m);
    (void)machine_end_of(m, &m->run);
    assert_int_equal(m->run.out.effect, EXEC_EFFECT_UNKNOWN);
    (void)machine_end(m);
}

static void a_message_shows_no_secret(void **state)
{
    struct machine *m = *state;
    machine_begin(m, "keyed", "get", "{}");
    go_to_call(m);
    redirect(m, 301, "https://app.example/new?key=secret-key");
    (void)machine_end_of(m, &m->run);
    assert_slice_has(m->run.out.message, "https://app.example/new?key=***");
    (void)machine_end(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_redirect_is_followed_where_that_is_safe, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(it_is_followed_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_write_in_doubt_is_not_sent_on, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_message_shows_no_secret, set_up, tear_down),
    };
    return cmocka_run_group_tests_name("exec/redirect", tests, NULL, NULL);
}
