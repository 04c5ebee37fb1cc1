/*
 * The service; see event.h.
 */
#include "event/internal.h"

#include "base/ascii.h"
#include "base/mem.h"
#include "http/url.h"
#include "store/webhook.h"

enum {
    CONNECTIONS_MAX = 128,
    SHARE_MAX = 32, /* of one account */
    ORIGIN_MAX = 16,
    WAITING_MAX = 16, /* tests of endpoints that hang; deliveries have a limit of their own */
    WAITING_MS = 2000,
    IDLE_MAX = 2, /* kept for each origin */
    REPLY_BYTES_MAX = 64 * 1024,
};

/* The client keeps few idle connections: most endpoints get a message now and then. */
static int open_client(struct event_service *service, struct err *err)
{
    const struct event_config *config = &service->config;
    const struct http_client_config client = {
        .resolver = config->dns,
        .policy = service->policy,
        .proxy = config->proxy,
        .tls = config->tls,
        .user_agent = SLICE("sluice"),
        .calls_per_origin = CONNECTIONS_MAX, /* many accounts may use the same host */
        .share_of_origin = ORIGIN_MAX,
        .connections_max = CONNECTIONS_MAX,
        .share_of_all = SHARE_MAX,
        .waiting_max = WAITING_MAX,
        .waiting_ms = WAITING_MS,
        .idle_per_origin = IDLE_MAX,
        .response_bytes_max = REPLY_BYTES_MAX,
        .is_apart = true,
    };
    service->client = http_client_new(config->loop, &client, err);
    return service->client ? OK : (int)err->code;
}

struct event_service *event_service_new(const struct event_config *config, struct err *err)
{
    struct event_service *service = mem_zalloc(sizeof(*service));
    if (service)
        service->policy = address_policy_new();
    if (!service || !service->policy) {
        event_service_free(service);
        (void)err_set(err, ERR_NOMEM, "out of memory for events");
        return NULL;
    }
    service->config = *config;
    event_outbox_init(service);
    if (service->config.timeout_ms == 0)
        service->config.timeout_ms = EVENT_TIMEOUT_MS;
    int status = OK;
    for (size_t i = 0; status == OK && i < config->host_count; i++)
        if (address_policy_allow(service->policy, config->hosts[i], err) != OK)
            status = err_prefix(err, "webhook-host");
    if (status == OK && open_client(service, err) == OK)
        return service;
    event_service_free(service);
    return NULL;
}

void event_service_tls_set(struct event_service *service, struct tls_context *tls)
{
    if (service && service->client)
        http_client_tls_set(service->client, tls);
}

void event_service_close(struct event_service *service)
{
    if (!service || !service->client)
        return;
    http_client_free(service->client);
    service->client = NULL;
}

void event_service_free(struct event_service *service)
{
    if (!service)
        return;
    ASSERT(!service->client);
    if (service->config.loop)
        event_outbox_deinit(service);
    address_policy_free(service->policy);
    mem_free(service);
}

/* ---- URLs ---- */

/* A literal is an address already; a name may have another one each time it is resolved. */
static bool is_inside(const struct event_service *service, const struct url *url, struct err *err)
{
    struct sockaddr_storage address;
    return url->is_ip_literal && address_parse(url->host, &address) &&
           address_policy_check(service->policy, url->host, url->port,
                                (const struct sockaddr *)&address, err) != OK;
}

static slice without_dot(slice host)
{
    return slice_ends_with(host, SLICE(".")) ? slice_first(host, host.len - 1) : host;
}

/* A name with the root's dot is the same name. */
static bool is_same_origin(const struct url *a, const struct url *b)
{
    return a->is_https == b->is_https && a->port == b->port &&
           slice_eq_nocase(without_dot(a->host), without_dot(b->host));
}

int event_url_check(const struct event_service *service, slice url, slice public_url,
                    struct err *err)
{
    struct url parts, own;
    struct err cause;
    if (url.len > WEBHOOK_URL_MAX)
        return err_set(err, ERR_INVALID, "url must have at most %d bytes", WEBHOOK_URL_MAX);
    if (url_parse(url, &parts, &cause) != OK)
        return err_set(err, ERR_INVALID, "url cannot be used: %s", cause.text);
    if (!parts.is_https && !address_policy_is_host_allowed(service->policy, parts.host, parts.port))
        return err_set(err, ERR_INVALID,
                       "url must begin with https://; only hosts that the operator names in "
                       "webhook-host are reached without TLS");
    if (is_inside(service, &parts, &cause))
        return err_set(err, ERR_INVALID, "url cannot be used: %s", cause.text);
    if (url_parse(public_url, &own, NULL) == OK && is_same_origin(&parts, &own))
        return err_set(err, ERR_INVALID,
                       "url must not be sluice itself: an event would lead to further events");
    return OK;
}
