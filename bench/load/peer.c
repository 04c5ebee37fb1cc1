/*
 * A connection under load.
 */
#include "load/peer.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "http/url.h"
#include "loop/tcp.h"

/* ---- address ---- */

/* Connects once before the load: the error for a wrong address is clearer than a series of
 * failures. */
static int try_connect(const struct sockaddr_storage *address, socklen_t len, slice base,
                       struct err *err)
{
    int fd = socket(address->ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool is_open = fd >= 0 && connect(fd, (const struct sockaddr *)address, len) == 0;
    int code = errno;
    if (fd >= 0)
        (void)close(fd);
    return is_open ? OK : err_set(err, ERR_IO, "%.*s: %s", SLICE_ARG(base), strerror(code));
}

int peer_target_init(struct peer_target *target, slice base, const char *ca_file, struct err *err)
{
    struct url url;
    struct addrinfo *found = NULL;
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    char port[8];
    *target = (struct peer_target){0};
    int status = url_parse(base, &url, err);
    if (status != OK)
        return status;
    if (url.target.len > 1 || (url.target.len == 1 && url.target.ptr[0] != '/'))
        return err_set(err, ERR_INVALID, "give the base URL without a path");
    (void)snprintf(port, sizeof(port), "%u", url.port);
    (void)snprintf(target->name, sizeof(target->name), "%.*s", SLICE_ARG(url.host));
    target->host = url.authority;
    int code = getaddrinfo(target->name, port, &hints, &found);
    if (code != 0)
        return err_set(err, ERR_NOTFOUND, "%s: %s", target->name, gai_strerror(code));
    memcpy(&target->address, found->ai_addr, found->ai_addrlen);
    status = try_connect(&target->address, found->ai_addrlen, base, err);
    freeaddrinfo(found);
    if (status != OK || !url.is_https)
        return status;
    status = tls_library_init(err);
    if (status != OK)
        return status;
    target->tls = tls_context_new(&(struct tls_config){.ca_file = ca_file}, err);
    return target->tls ? OK : ERR_CRYPTO;
}

void peer_target_deinit(struct peer_target *target)
{
    tls_context_unref(target->tls);
}

/* ---- replies ---- */

static struct peer *peer_of(llhttp_t *parser)
{
    return CONTAINER_OF(parser, struct peer, parser);
}

static int on_body(llhttp_t *parser, const char *at, size_t length)
{
    struct peer *peer = peer_of(parser);
    if (peer->keeps_body || parser->status_code >= 400) /* the body says what is wrong */
        buf_append(&peer->body, slice_of(at, length));
    return 0;
}

static int on_complete(llhttp_t *parser)
{
    struct peer *peer = peer_of(parser);
    if (parser->status_code < 200)
        return 0;
    peer->is_complete = true;
    peer->closes = !llhttp_should_keep_alive(parser);
    return HPE_PAUSED; /* nothing may follow: no pipelining */
}

static const llhttp_settings_t settings = {.on_body = on_body, .on_message_complete = on_complete};

static void drop_stream(struct peer *peer)
{
    if (!peer->stream)
        return;
    peer->stream->owner = NULL;
    stream_close(peer->stream);
    peer->stream = NULL;
    peer->is_open = false;
}

static void finish(struct peer *peer, unsigned status, const char *why)
{
    if (!peer->is_busy)
        return;
    peer->is_busy = false;
    buf_clear(&peer->waiting);
    peer->on_reply(peer, status, buf_slice(&peer->body), why);
}

static void fail(struct peer *peer, const char *why)
{
    drop_stream(peer);
    finish(peer, 0, why);
}

static void on_read(struct stream *stream, void *owner, slice bytes)
{
    struct peer *peer = owner;
    (void)stream;
    if (!peer)
        return;
    if (!peer->is_busy) {
        drop_stream(peer);
        return;
    }
    enum llhttp_errno code = llhttp_execute(&peer->parser, bytes.ptr, bytes.len);
    if (peer->is_complete) {
        if (peer->closes)
            drop_stream(peer);
        finish(peer, (unsigned)peer->parser.status_code, NULL);
    } else if (code != HPE_OK) {
        fail(peer, "the reply is not HTTP/1.1");
    }
}

static void on_eof(struct stream *stream, void *owner, bool is_clean)
{
    struct peer *peer = owner;
    (void)stream;
    (void)is_clean;
    if (!peer)
        return;
    if (peer->is_busy && peer->is_open && llhttp_finish(&peer->parser) == HPE_OK &&
        peer->is_complete) {
        drop_stream(peer);
        finish(peer, (unsigned)peer->parser.status_code, NULL);
        return;
    }
    fail(peer, "the server closed the connection");
}

static void on_closed(struct stream *stream, void *owner, const struct err *why)
{
    struct peer *peer = owner;
    char text[ERR_TEXT_MAX + 64];
    if (!peer || peer->stream != stream)
        return;
    bool was_open = peer->is_open;
    peer->stream = NULL;
    peer->is_open = false;
    (void)snprintf(text, sizeof(text), "the connection %s%s%s",
                   was_open ? "was reset" : "could not be opened", why->code != OK ? ": " : "",
                   why->code != OK ? why->text : "");
    finish(peer, 0, text);
}

/* ---- requests ---- */

static void write_request(struct peer *peer, slice request)
{
    llhttp_init(&peer->parser, HTTP_RESPONSE, &settings);
    peer->is_complete = false;
    peer->closes = false;
    buf_shrink(&peer->body, 64 * 1024);
    if (stream_write(peer->stream, &request, 1) == OK)
        return;
    peer->why = "the request could not be written";
    drop_stream(peer);
    loop_task_queue(peer->loop, &peer->failed);
}

static void on_open(struct stream *stream, void *owner)
{
    struct peer *peer = owner;
    (void)stream;
    if (!peer)
        return;
    peer->is_open = true;
    stream_read_start(peer->stream);
    if (peer->is_busy)
        write_request(peer, buf_slice(&peer->waiting));
}

static const struct stream_events open_events = {
    .on_open = on_open, .on_read = on_read, .on_eof = on_eof, .on_closed = on_closed};

/* Called when the TCP connection below a TLS session is open. */
static void on_tcp_open(struct stream *stream, void *owner)
{
    struct peer *peer = owner;
    if (!peer)
        return;
    const struct tls_client_config config = {.server_name = slice_cstr(peer->target->name),
                                             .write_bytes_max = PEER_WRITE_BYTES_MAX};
    struct stream *session =
        tls_client_start(peer->target->tls, stream, &config, &open_events, peer, NULL);
    if (!session) {
        fail(peer, "the TLS session could not be started");
        return;
    }
    peer->stream = session;
}

static const struct stream_events tcp_events = {
    .on_open = on_tcp_open, .on_read = on_read, .on_eof = on_eof, .on_closed = on_closed};

static void connect_peer(struct peer *peer)
{
    peer->is_open = false;
    peer->stream = tcp_connect(peer->loop, (const struct sockaddr *)&peer->target->address,
                               PEER_WRITE_BYTES_MAX * 2,
                               peer->target->tls ? &tcp_events : &open_events, peer, NULL);
    if (peer->stream)
        return;
    peer->why = "no socket could be made";
    loop_task_queue(peer->loop, &peer->failed);
}

static void run_failed(struct loop_task *task)
{
    struct peer *peer = CONTAINER_OF(task, struct peer, failed);
    finish(peer, 0, peer->why);
}

void peer_init(struct peer *peer, struct loop *loop, const struct peer_target *target, void *owner,
               void (*on_reply)(struct peer *peer, unsigned status, slice body, const char *why))
{
    *peer = (struct peer){.loop = loop, .target = target, .owner = owner, .on_reply = on_reply};
    buf_init(&peer->body, PEER_BODY_BYTES_MAX);
    buf_init(&peer->waiting, PEER_WRITE_BYTES_MAX);
    loop_task_init(&peer->failed, run_failed);
}

void peer_send(struct peer *peer, slice request, bool keeps_body)
{
    ASSERT(!peer->is_busy);
    peer->is_busy = true;
    peer->keeps_body = keeps_body;
    buf_clear(&peer->body);
    if (peer->stream && peer->is_open) {
        write_request(peer, request);
        return;
    }
    buf_clear(&peer->waiting);
    buf_append(&peer->waiting, request);
    if (!peer->stream)
        connect_peer(peer);
}

void peer_close(struct peer *peer)
{
    peer->is_busy = false;
    drop_stream(peer);
    loop_task_cancel(&peer->failed);
    buf_deinit(&peer->body);
    buf_deinit(&peer->waiting);
}
