/*
 * See peers.h.
 */
#include "support/peers.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>

enum { GOT_MAX = 64 * 1024 * 1024 };

void end_init(struct end *end)
{
    memset(end, 0, sizeof(*end));
    buf_init(&end->got, GOT_MAX);
}

void end_deinit(struct end *end)
{
    buf_deinit(&end->got);
}

static void on_open(struct stream *stream, void *owner)
{
    struct end *end = owner;
    end->stream = stream;
    end->opened++;
}

static void on_read(struct stream *stream, void *owner, slice bytes)
{
    struct end *end = owner;
    ASSERT(bytes.len > 0 && end->closed == 0);
    buf_append(&end->got, bytes);
    ASSERT(buf_is_ok(&end->got));
    if (end->pause_at && end->got.len >= end->pause_at)
        stream_read_stop(stream);
    if (end->is_close_on_read)
        stream_close(stream);
}

static void on_eof(struct stream *stream, void *owner, bool is_clean)
{
    (void)stream;
    struct end *end = owner;
    ASSERT(end->closed == 0);
    end->eofs++;
    end->is_clean = is_clean;
}

static void on_drained(struct stream *stream, void *owner)
{
    (void)stream;
    struct end *end = owner;
    end->drained++;
}

static void on_closed(struct stream *stream, void *owner, const struct err *why)
{
    (void)stream;
    struct end *end = owner;
    ASSERT(end->closed == 0);
    end->closed++;
    end->why = *why;
    end->stream = NULL;
}

const struct stream_events end_events = {on_open, on_read, on_eof, on_drained, on_closed};

struct tcp_listener *listen_local(struct loop *loop,
                                  void (*on_accept)(struct stream *stream, void *owner),
                                  void *owner)
{
    struct err err;
    struct tcp_listen_config config = {.address = SLICE("127.0.0.1:0"), .inherited_fd = -1};
    struct tcp_listener *listener = tcp_listen(loop, &config, on_accept, owner, &err);
    ASSERT(listener);
    return listener;
}

struct stream *connect_local(struct loop *loop, const struct tcp_listener *listener,
                             const struct stream_events *events, void *owner)
{
    struct err err;
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(tcp_listener_port(listener))};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    struct stream *stream =
        tcp_connect(loop, (struct sockaddr *)&to, (size_t)8 << 20, events, owner, &err);
    ASSERT(stream);
    return stream;
}
