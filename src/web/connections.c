/*
 * The account's connections in pages, of all apps or of one app, oldest first.
 */
#include "serve/stored.h"
#include "web/app.h"

/* Connections of a removed app remain; they are listed by its id. */
static void put_app_name(struct web_request *request, struct json_writer *w, slice integration_id)
{
    const struct catalog_integration *app =
        catalog_find_integration(*request->web->config.catalog, integration_id, NULL);
    json_member_str(w, "app", app ? app->name : integration_id);
}

void view_connection_members(struct web_request *request, struct json_writer *w,
                             const struct connection *row)
{
    const struct connection given =
        serve_connection(&request->serve, *request->web->config.catalog, row);
    connect_write(w, &given);
    if (!row->is_shared)
        json_member_bool(w, "shared", false);
    put_app_name(request, w, row->integration_id);
}

static void name_app_of_row(struct web_request *request, struct json_writer *w,
                            const struct json *row)
{
    if (!JSON_GET(row, "shared"))
        json_member_bool(w, "shared", false);
    put_app_name(request, w, json_get_str(row, SLICE("integration_id")));
}

const struct web_view web_connections = {
    .file = "connections",
    .endpoint = &api_connections_list,
    .arguments = {{"integration_id", .from = "app"},
                  {"cursor", .from = "after"},
                  {"limit", .value = "50"}},
    .list = "connections",
    .row = name_app_of_row,
};
