/*
 * Outbound calls; see outbound.h.
 */
#include "server/outbound.h"

static int add_override(struct http_client *client, slice item, struct err *err)
{
    ptrdiff_t equals = slice_find_char(item, '=');
    if (equals <= 0)
        return err_set(err, ERR_INVALID, "origin-override must be ORIGIN=URL, got \"%.*s\"",
                       SLICE_ARG(item));
    slice origin = slice_first(item, (size_t)equals), url = slice_from(item, (size_t)equals + 1);
    return http_client_override(client, origin, url, err);
}

int outbound_open(struct outbound *outbound, struct loop *loop, const struct config *config,
                  struct err *err)
{
    *outbound =
        (struct outbound){.dns = dns_resolver_new(loop, NULL), .policy = address_policy_new()};
    if (!outbound->dns || !outbound->policy)
        return err_set(err, ERR_NOMEM, "out of memory for the resolver");
    for (size_t i = 0; i < config->allow_host.count; i++)
        if (address_policy_allow(outbound->policy, config->allow_host.items[i], err) != OK)
            return err_prefix(err, "allow-host");
    struct tls_config tls = {.ca_file = config->ca_file.len > 0 ? config->ca_file.ptr : NULL};
    outbound->tls = tls_context_new(&tls, err);
    if (!outbound->tls)
        return err_prefix(err, "trust roots");
    struct http_client_config client = {
        .resolver = outbound->dns,
        .policy = outbound->policy,
        .proxy = config->https_proxy,
        .tls = outbound->tls,
        .user_agent = SLICE("sluice"),
        .calls_per_origin = config->origin_connections_max,
        .share_of_origin = config->account_origin_connections_max,
        .share_of_all = config->account_connections_max,
        .connections_max = config->outbound_connections_max,
        .waiting_max = config->executions_max,
        .idle_per_origin = config->origin_connections_max,
        .response_bytes_max = config->provider_response_bytes_max,
    };
    outbound->client = http_client_new(loop, &client, err);
    if (!outbound->client)
        return config->https_proxy.len > 0 && err->code == ERR_SYNTAX
                   ? err_prefix(err, "https-proxy")
                   : (int)err->code;
    for (size_t i = 0; i < config->origin_override.count; i++)
        if (add_override(outbound->client, config->origin_override.items[i], err) != OK)
            return (int)err->code;
    return OK;
}

void outbound_close(struct outbound *outbound)
{
    if (outbound->client)
        http_client_free(outbound->client);
    if (outbound->dns)
        dns_resolver_free(outbound->dns);
    outbound->client = NULL;
    outbound->dns = NULL;
}

void outbound_free(struct outbound *outbound)
{
    tls_context_unref(outbound->tls);
    address_policy_free(outbound->policy);
    *outbound = (struct outbound){.dns = NULL};
}
