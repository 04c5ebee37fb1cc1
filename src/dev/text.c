/*
 * The texts of `sluice dev`; see text.h.
 */
#include "dev/text.h"

#include <unistd.h>

#include "base/file.h"

enum { READY_BYTES_MAX = 16 * 1024, URL_MAX = 40 };

static void base_url(const struct dev_facts *facts, char out[URL_MAX])
{
    (void)snprintf(out, URL_MAX, "http://127.0.0.1:%u", (unsigned)facts->port);
}

static void print_curl(FILE *out, const char *url, const char *title, const char *body)
{
    (void)fprintf(out,
                  "# %s\n"
                  "curl -sw '\\n' %s/api/executions -H \"Authorization: Bearer $SLUICE_KEY\" \\\n"
                  "  -H 'Content-Type: application/json' -d '%s'\n\n",
                  title, url, body);
}

/* Prints the commands that start a flow, print it and approve it. The sleep gives the flow time to
 * reach its approval, which takes some milliseconds. */
static void print_flow(FILE *out, const char *url, slice page)
{
    static const char key[] = "-H \"Authorization: Bearer $SLUICE_KEY\"";
    (void)fprintf(out,
                  "# flow: unread mail becomes task pages; it waits for approval, and lists what "
                  "it will write\n"
                  "SLUICE_FLOW=$(curl -s %s/api/flows/start %s \\\n"
                  "  -H 'Content-Type: application/json' -d '{\"flowTemplate\": "
                  "\"unread_mail_to_tasks\",\n"
                  "   \"input\": {\"maxResults\": 3, \"taskParent\": {\"page_id\": \"%.*s\"}}}' |\n"
                  "  sed 's/{\"flowId\":\"\\([^\"]*\\)\".*/\\1/')\n"
                  "sleep 1; curl -sw '\\n' %s/api/flows/$SLUICE_FLOW %s\n\n",
                  url, key, SLICE_ARG(page), url, key);
    (void)fprintf(out,
                  "# approved, it creates the pages\n"
                  "curl -sw '\\n' -X POST %s/api/flows/$SLUICE_FLOW/approve %s\n\n",
                  url, key);
}

void dev_text_print(FILE *out, const struct dev_facts *facts)
{
    char url[URL_MAX], body[600];
    slice page = json_get_str(facts->task_parent, SLICE("page_id"));
    base_url(facts, url);
    (void)fprintf(out,
                  "\nsluice answers on %s. Demo mail and notes are connected. Paste:\n\n"
                  "SLUICE_KEY=%s\n\n",
                  url, facts->api_key);
    print_curl(out, url, "read: the unread mail of the last week",
               "{\"integration_id\": \"gmail\", \"action_id\": \"list_threads\",\n"
               "   \"input\": {\"query\": \"is:unread newer_than:7d\"}}");
    (void)snprintf(body, sizeof(body),
                   "{\"integration_id\": \"notion\", \"action_id\": \"create_page\",\n"
                   "   \"input\": {\"parent\": {\"page_id\": \"%.*s\"}, \"title\": \"Minutes\",\n"
                   "   \"content\": \"Present: Anna, Ben, Sam.\"}}",
                   SLICE_ARG(page));
    print_curl(out, url, "write: blocked, because it is not confirmed", body);
    (void)snprintf(body, sizeof(body),
                   "{\"integration_id\": \"notion\", \"action_id\": \"create_page\",\n"
                   "   \"confirm\": true,\n"
                   "   \"input\": {\"parent\": {\"page_id\": \"%.*s\"}, \"title\": \"Minutes\",\n"
                   "   \"content\": \"Present: Anna, Ben, Sam.\"}}",
                   SLICE_ARG(page));
    print_curl(out, url, "the same, confirmed", body);
    print_flow(out, url, page);
    (void)fprintf(out,
                  "`sluice catalog show gmail` and `sluice flow list` show what you can run. "
                  "Ctrl-C stops everything.\nOperator commands use this database with --data: "
                  "sluice accounts list --data %s\n",
                  facts->data_dir);
}

int dev_text_ready_write(const char *path, const struct dev_facts *facts, struct err *err)
{
    char url[URL_MAX], account[UUID_TEXT_LEN + 1];
    struct buf text;
    struct json_writer w;
    base_url(facts, url);
    uuid_format(facts->account_id, account);
    buf_init(&text, READY_BYTES_MAX);
    json_begin(&w, &text);
    json_open(&w, '{');
    json_member_str(&w, "base_url", slice_cstr(url));
    json_member_str(&w, "api_key", slice_cstr(facts->api_key));
    json_member_str(&w, "provider_url", facts->provider_url);
    json_member_str(&w, "provider_ca_file", facts->provider_ca_file);
    json_member_str(&w, "database_url", slice_cstr(facts->database_url));
    json_member_i64(&w, "pid", getpid());
    json_member_str(&w, "account_id", slice_cstr(account));
    json_member_open(&w, "demo", '{');
    json_member(&w, "task_parent", facts->task_parent);
    json_close(&w, '}');
    json_close(&w, '}');
    buf_append_char(&text, '\n');
    int result = buf_is_ok(&text) ? file_write_whole(path, buf_slice(&text), 0600, err)
                                  : err_set(err, ERR_LIMIT, "the ready file is too large");
    buf_deinit(&text);
    return result;
}
