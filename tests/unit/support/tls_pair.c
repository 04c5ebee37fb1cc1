/*
 * See tls_pair.h.
 */
#include "support/tls_pair.h"

#include <stdio.h>
#include <string.h>

static void on_accept(struct stream *stream, void *owner)
{
    struct pair *pair = owner;
    struct err err;
    pair->accepted.stream = stream;
    if (!pair->server) {
        stream_own(stream, &end_events, &pair->accepted);
        stream_read_start(stream);
        return;
    }
    pair->accepted.stream =
        tls_server_start(pair->server, stream, (size_t)8 << 20, &end_events, &pair->accepted, &err);
    assert_non_null(pair->accepted.stream);
    stream_read_start(pair->accepted.stream);
}

static void on_tcp_open(struct stream *stream, void *owner)
{
    struct pair *pair = owner;
    struct tls_client_config config = {.server_name = pair->name,
                                       .write_bytes_max = pair->write_bytes_max};
    pair->tcp = NULL;
    pair->client.stream = tls_client_start(pair->context, stream, &config, &end_events,
                                           &pair->client, &pair->start_err);
    if (pair->client.stream) {
        stream_read_start(pair->client.stream);
        return;
    }
    pair->tcp = stream;
    stream_close(stream);
}

static void on_tcp_closed(struct stream *stream, void *owner, const struct err *why)
{
    (void)stream;
    struct pair *pair = owner;
    end_events.on_closed(stream, &pair->client, why);
}

static const struct stream_events tcp_events = {on_tcp_open, NULL, NULL, NULL, on_tcp_closed};

void pair_init(struct pair *pair, struct certs *with, const char *server_cert,
               const struct tls_server_config *server, const struct tls_config *client)
{
    struct err err = {0};
    char file[80];
    memset(pair, 0, sizeof(*pair));
    pair->loop = loop_new(&err);
    assert_non_null(pair->loop);
    pair->listener = listen_local(pair->loop, on_accept, pair);
    pair->name = SLICE("localhost");
    pair->write_bytes_max = (size_t)4 << 20;
    end_init(&pair->client);
    end_init(&pair->accepted);
    struct tls_config client_config = client ? *client : (struct tls_config){0};
    if (!client_config.ca_file)
        client_config.ca_file = certs_path(with, "ca.pem");
    pair->context = tls_context_new(&client_config, &err);
    if (!pair->context)
        fail_msg("%s", err.text);
    if (!server_cert)
        return;
    struct tls_server_config config = server ? *server : (struct tls_server_config){0};
    snprintf(file, sizeof(file), "%s.pem", server_cert);
    config.cert_file = certs_path(with, file);
    snprintf(file, sizeof(file), "%s.key", server_cert);
    config.key_file = certs_path(with, file);
    pair->server = tls_server_new(&config, &err);
    if (!pair->server)
        fail_msg("%s", err.text);
}

void pair_connect(struct pair *pair)
{
    end_deinit(&pair->client);
    end_deinit(&pair->accepted);
    end_init(&pair->client);
    end_init(&pair->accepted);
    pair->tcp = connect_local(pair->loop, pair->listener, &tcp_events, pair);
}

void pair_close(struct pair *pair)
{
    if (pair->client.stream)
        stream_close(pair->client.stream);
    if (pair->accepted.stream)
        stream_close(pair->accepted.stream);
    WAIT_UNTIL(pair->loop,
               pair->client.closed && (pair->accepted.closed || !pair->accepted.stream));
}

void pair_deinit(struct pair *pair)
{
    end_deinit(&pair->client);
    end_deinit(&pair->accepted);
    tcp_listener_free(pair->listener);
    tls_server_unref(pair->server);
    tls_context_unref(pair->context);
    loop_free(pair->loop);
}

void pair_wait_open(struct pair *pair)
{
    WAIT_UNTIL(pair->loop, pair->client.opened || pair->client.closed);
    if (!pair->client.opened)
        fail_msg("%s", pair->client.why.text);
    WAIT_UNTIL(pair->loop, pair->accepted.opened);
}

void pair_send(struct stream *stream, const char *text)
{
    slice part = slice_cstr(text);
    assert_int_equal(stream_write(stream, &part, 1), OK);
}

char *pattern_new(size_t len)
{
    char *bytes = mem_alloc(len);
    assert_non_null(bytes);
    uint64_t x = 88172645463325252ull;
    for (size_t i = 0; i < len; i++) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        bytes[i] = (char)x;
    }
    return bytes;
}
