/*
 * The apps that the built-in templates call, with the features that these templates need: their
 * manifests and templates, the account's connections to them, the inputs that a client gives to
 * each template, and the apps' answers. Every text from a client, and every text built from it,
 * names the client: "client-12-".
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/embed.h"
#include "base/encode.h"
#include "base/mem.h"
#include "sim/sim.h"
#include "tls/tls.h"

static const char *const apps[] = {"gmail", "github", "notion", "slack"};
enum { TEXTS_MAX = 16, TOOLS_MAX = 4 };

/* ---- manifests and templates ---- */

static char *copy_of(const struct embed_file *file)
{
    char *text = malloc(file->len + 1);
    memcpy(text, file->data, file->len);
    text[file->len] = '\0';
    return text;
}

static void free_texts(const char **texts)
{
    for (size_t i = 0; texts[i]; i++)
        free((char *)texts[i]);
}

static bool is_wanted(const struct embed_file *file)
{
    for (size_t i = 0; i < ARRAY_LEN(apps); i++) {
        size_t len = strlen(apps[i]);
        if (strncmp(file->name, apps[i], len) == 0 && file->name[len] == '.')
            return true;
    }
    return false;
}

struct catalog *sim_apps_catalog(void)
{
    const char *texts[TEXTS_MAX] = {strdup(seam_demo_manifest)};
    size_t count = 1;
    for (size_t i = 0; i < embed_integrations_count; i++)
        if (is_wanted(&embed_integrations[i]))
            texts[count++] = copy_of(&embed_integrations[i]);
    ASSERT(count == 1 + ARRAY_LEN(apps));
    struct catalog *catalog = seam_catalog(texts);
    free_texts(texts);
    return catalog;
}

struct flow_template_set *sim_apps_templates(const struct catalog *catalog, const char *const *own)
{
    const char *texts[TEXTS_MAX] = {NULL};
    size_t count = 0;
    for (; own[count]; count++)
        texts[count] = strdup(own[count]);
    for (size_t i = 0; i < embed_templates_count; i++)
        texts[count++] = copy_of(&embed_templates[i]);
    ASSERT(count < TEXTS_MAX);
    struct flow_template_set *set = seam_templates(catalog, texts);
    free_texts(texts);
    return set;
}

/* ---- connections ---- */

struct vault_ring *sim_apps_ring(void)
{
    struct err err;
    int result = tls_library_init(&err);
    ASSERT(result == OK);
    struct vault_ring *ring =
        vault_ring_new(SLICE("MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="), &err);
    ASSERT(ring);
    return ring;
}

void sim_apps_connect(struct sim *sim)
{
    for (size_t i = 0; i < ARRAY_LEN(apps); i++) {
        struct vault_binding binding = {seam_account, (int64_t)i + 1};
        struct buf sealed;
        buf_init(&sealed, 1024);
        int result =
            vault_seal(sim->ring, &binding, SLICE("{\"access_token\":\"secret-token\"}"), &sealed);
        ASSERT(result == OK);
        *ROW_ADD(&sim->store, connections) = (struct connection){
            .account_id = seam_account,
            .id = (int64_t)i + 1,
            .integration_id = slice_cstr(apps[i]),
            .label = slice_cstr(apps[i]),
            .is_default = true,
            .auth_kind = SLICE("oauth2"),
            .sealed = seam_keep(&sim->store, buf_slice(&sealed)),
            .key_id = vault_ring_key_id(sim->ring),
            .rev = 1,
            .created_at = seam_store_now(),
            .updated_at = seam_store_now(),
        };
        buf_deinit(&sealed);
    }
}

/* ---- inputs of clients ---- */

static const struct {
    const char *key, *input; /* %zu: the client's number */
} inputs[] = {
    {"demo", "{\"of\":\"client-%zu-\",\"confirm\":true}"},
    {"fan", "{\"of\":\"client-%zu-\",\"confirm\":true}"},
    {"safe", "{\"of\":\"client-%zu-\",\"confirm\":true}"},
    {"paid", "{\"of\":\"client-%zu-\",\"confirm\":true}"},
    {"mail_with_reminder",
     "{\"to\":\"a@b.example\",\"subject\":\"client-%zu-\",\"text\":\"Hello.\","
     "\"remindAfter\":60}"},
    {"nudge_stale_issues", "{\"owner\":\"o\",\"repo\":\"r\",\"untouchedSince\":\"2026-05-01\","
                           "\"comment\":\"client-%zu-\"}"},
    {"unread_mail_summary", "{\"query\":\"client-%zu-\"}"},
    {"unread_mail_to_slack",
     "{\"query\":\"client-%zu-\",\"channel\":\"C0000000001\",\"confirm\":true}"},
    {"unread_mail_to_tasks",
     "{\"query\":\"client-%zu-\",\"taskParent\":\"0123456789abcdef0123456789abcdef\"}"},
};

void sim_apps_choose(struct sim_client *client)
{
    size_t which = seam_pick(ARRAY_LEN(inputs));
    client->name = inputs[which].key;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    (void)snprintf(client->input, sizeof(client->input), inputs[which].input, client->number);
#pragma GCC diagnostic pop
}

/* ---- the client that a text belongs to ---- */

static struct sim_client *named_in(struct sim *sim, slice text)
{
    ptrdiff_t at = slice_find(text, SLICE("client-"));
    uint64_t number;
    if (at < 0)
        return NULL;
    slice rest = slice_from(text, (size_t)at + 7);
    if (!slice_to_u64(slice_split(&rest, '-'), SIM_CLIENTS_MAX - 1, &number))
        return NULL;
    return &sim->clients[number];
}

/* A mail is base64url. */
struct sim_client *sim_client_in(struct sim *sim, slice text)
{
    struct sim_client *client = named_in(sim, text);
    ptrdiff_t at = slice_find(text, SLICE("\"raw\":\""));
    if (client || at < 0)
        return client;
    struct buf mail;
    slice rest = slice_from(text, (size_t)at + 7);
    buf_init(&mail, 64 * 1024);
    if (decode_base64url(&mail, slice_split(&rest, '"')) == OK)
        client = named_in(sim, buf_slice(&mail));
    buf_deinit(&mail);
    return client;
}

struct sim_client *sim_client_of(struct sim *sim, const struct http_call *call)
{
    struct sim_client *client = sim_client_in(sim, seam_call_body(call));
    return client ? client : named_in(sim, call->url);
}

/* ---- answers of the apps ---- */

static bool has(const struct http_call *call, const char *part)
{
    return slice_find(call->url, slice_cstr(part)) >= 0;
}

#define ISSUE(number)                                                                   \
    "{\"number\":" number ",\"title\":\"t\",\"html_url\":\"https://github.example/1\"," \
    "\"updated_at\":\"2026-01-01T00:00:00Z\"}"

static const struct {
    const char *part, *reply; /* part of a URL; the first match counts */
} replies[] = {
    {"/messages/send", "{\"id\":\"sent\",\"threadId\":\"thread\"}"},
    {"/threads/", "{\"id\":\"thread\",\"messages\":[{\"id\":\"sent\"}]}"},
    {"/v1/pages", "{\"object\":\"page\",\"id\":\"page\",\"url\":\"https://notion.example/page\","
                  "\"properties\":{}}"},
    {"chat.postMessage", "{\"ok\":true,\"channel\":\"C0000000001\",\"ts\":\"1.1\"}"},
    {"/search/issues",
     "{\"total_count\":2,\"incomplete_results\":false,\"items\":[" ISSUE("1") "," ISSUE("2") "]}"},
    {"/comments", "{\"id\":1,\"html_url\":\"https://github.example/1#1\"}"},
    {"/repos/o/r/issues/", ISSUE("1")}, /* what the ids of an approval mean */
    {"demo.example/get", "{\"items\":[\"a\",\"b\",\"c\"]}"},
    {"demo.example", "{\"id\":\"made\"}"},
};

/* Answers with mails: two for each client, whose names appear in later requests. */
static void answer_mail(struct sim *sim, struct http_call *call)
{
    char text[600];
    const struct sim_client *client = named_in(sim, call->url);
    size_t number = client ? client->number : 0;
    if (!has(call, "/messages/client-"))
        (void)snprintf(text, sizeof(text),
                       "{\"messages\":[{\"id\":\"client-%zu-a\"},{\"id\":\"client-%zu-b\"}]}",
                       number, number);
    else
        (void)snprintf(text, sizeof(text),
                       "{\"id\":\"client-%zu-%c\",\"threadId\":\"t\",\"snippet\":\"s\","
                       "\"internalDate\":\"1782892800000\",\"payload\":{\"headers\":[{\"name\":"
                       "\"Subject\",\"value\":\"client-%zu-%c\"}]}}",
                       number, has(call, "-a") ? 'a' : 'b', number, has(call, "-a") ? 'a' : 'b');
    seam_call_reply(call, 200, text);
}

void sim_apps_answer(struct sim *sim, struct http_call *call)
{
    for (size_t i = 0; i < ARRAY_LEN(replies); i++)
        if (has(call, replies[i].part)) {
            seam_call_reply(call, slice_eq_cstr(call->method, "GET") ? 200 : 201, replies[i].reply);
            return;
        }
    if (!has(call, "/messages"))
        sim_fail(sim, "no app answers %.*s %.*s", SLICE_ARG(call->method), SLICE_ARG(call->url));
    answer_mail(sim, call);
}
