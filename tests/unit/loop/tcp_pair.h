/*
 * Two ends of a TCP connection within one loop, with the events of each; for the tests of tcp and
 * listen.
 */
#ifndef LOOP_TCP_PAIR_H
#define LOOP_TCP_PAIR_H

#include "testing.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include "base/buf.h"
#include "loop/tcp.h"

enum { BIG = 8 << 20 };

/* One end of a connection, with its events. */
struct end {
    struct stream *stream;
    struct buf got;
    size_t opened, eofs, drained, closed;
    struct err why;
    bool echoes;
};

struct pair {
    struct loop *loop;
    struct tcp_listener *listener;
    struct end client, server;
    size_t accepted;
    const struct stream_events *server_events;
};

static inline void on_open(struct stream *stream, void *owner)
{
    (void)stream;
    ((struct end *)owner)->opened++;
}

static inline void on_read(struct stream *stream, void *owner, slice bytes)
{
    struct end *end = owner;
    assert_int_equal(end->closed, 0);
    buf_append(&end->got, bytes);
    if (end->echoes)
        assert_int_equal(stream_write(stream, &bytes, 1), OK);
}

static inline void on_eof(struct stream *stream, void *owner, bool is_clean)
{
    (void)stream;
    assert_true(is_clean);
    ((struct end *)owner)->eofs++;
}

static inline void on_drained(struct stream *stream, void *owner)
{
    assert_int_equal(stream_write_pending(stream), 0);
    ((struct end *)owner)->drained++;
}

static inline void on_closed(struct stream *stream, void *owner, const struct err *why)
{
    (void)stream;
    struct end *end = owner;
    end->closed++;
    end->why = *why;
    end->stream = NULL;
}

static const struct stream_events end_events = {on_open, on_read, on_eof, on_drained, on_closed};

static inline void on_accept(struct stream *stream, void *owner)
{
    struct pair *pair = owner;
    pair->accepted++;
    if (pair->server.stream) {
        stream_close(stream);
        return;
    }
    pair->server.stream = stream;
    stream_own(stream, &end_events, &pair->server);
    stream_read_start(stream);
}

static inline void pair_listen(struct pair *pair, struct loop *loop, slice address)
{
    memset(pair, 0, sizeof(*pair));
    pair->loop = loop;
    buf_init(&pair->client.got, MEM_BLOCK_BYTES_MAX - 1);
    buf_init(&pair->server.got, MEM_BLOCK_BYTES_MAX - 1);
    struct err err = {0};
    struct tcp_listen_config config = {.address = address};
    pair->listener = tcp_listen(loop, &config, on_accept, pair, &err);
    assert_non_null(pair->listener);
}

static inline struct sockaddr_in loopback(uint16_t port)
{
    return (struct sockaddr_in){
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

static inline void end_connect(struct pair *pair, struct end *end, size_t write_bytes_max)
{
    struct sockaddr_in address = loopback(tcp_listener_port(pair->listener));
    struct err err = {0};
    end->stream = tcp_connect(pair->loop, (struct sockaddr *)&address, write_bytes_max, &end_events,
                              end, &err);
    assert_non_null(end->stream);
    assert_int_equal(end->opened, 0);
}

static inline void pair_begin(struct pair *pair, struct loop *loop)
{
    pair_listen(pair, loop, SLICE("127.0.0.1:0"));
    end_connect(pair, &pair->client, 2 * BIG);
    WAIT_UNTIL(loop, pair->client.opened && pair->server.stream);
    stream_read_start(pair->client.stream);
}

static inline void pair_end(struct pair *pair)
{
    if (pair->client.stream)
        stream_close(pair->client.stream);
    if (pair->server.stream)
        stream_close(pair->server.stream);
    WAIT_UNTIL(pair->loop, !pair->client.stream && !pair->server.stream);
    tcp_listener_free(pair->listener);
    buf_deinit(&pair->client.got);
    buf_deinit(&pair->server.got);
}

static inline int write_text(struct stream *stream, const char *text)
{
    slice part = slice_cstr(text);
    return stream_write(stream, &part, 1);
}

#endif
