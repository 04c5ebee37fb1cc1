/* loop/tcp, listen: echo, back-pressure, half-close, reset, refusals, descriptors running out,
 * Unix sockets, closing in every state. */
#include "testing.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/buf.h"
#include "loop/tcp.h"

enum { BIG = 8 << 20 };

/* One end of a connection, with what has happened to it. */
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

static void on_open(struct stream *stream, void *owner)
{
    (void)stream;
    ((struct end *)owner)->opened++;
}

static void on_read(struct stream *stream, void *owner, slice bytes)
{
    struct end *end = owner;
    assert_int_equal(end->closed, 0);
    buf_append(&end->got, bytes);
    if (end->echoes)
        assert_int_equal(stream_write(stream, &bytes, 1), OK);
}

static void on_eof(struct stream *stream, void *owner, bool is_clean)
{
    (void)stream;
    assert_true(is_clean);
    ((struct end *)owner)->eofs++;
}

static void on_drained(struct stream *stream, void *owner)
{
    assert_int_equal(stream_write_pending(stream), 0);
    ((struct end *)owner)->drained++;
}

static void on_closed(struct stream *stream, void *owner, const struct err *why)
{
    (void)stream;
    struct end *end = owner;
    end->closed++;
    end->why = *why;
    end->stream = NULL;
}

static const struct stream_events events = {on_open, on_read, on_eof, on_drained, on_closed};

static void on_accept(struct stream *stream, void *owner)
{
    struct pair *pair = owner;
    pair->accepted++;
    if (pair->server.stream) {
        stream_close(stream);
        return;
    }
    pair->server.stream = stream;
    stream_own(stream, &events, &pair->server);
    stream_read_start(stream);
}

static void pair_listen(struct pair *pair, struct loop *loop, slice address)
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

static struct sockaddr_in loopback(uint16_t port)
{
    return (struct sockaddr_in){
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

static void end_connect(struct pair *pair, struct end *end, size_t write_bytes_max)
{
    struct sockaddr_in address = loopback(tcp_listener_port(pair->listener));
    struct err err = {0};
    end->stream =
        tcp_connect(pair->loop, (struct sockaddr *)&address, write_bytes_max, &events, end, &err);
    assert_non_null(end->stream);
    assert_int_equal(end->opened, 0);
}

static void pair_begin(struct pair *pair, struct loop *loop)
{
    pair_listen(pair, loop, SLICE("127.0.0.1:0"));
    end_connect(pair, &pair->client, 2 * BIG);
    TURN_UNTIL(loop, pair->client.opened && pair->server.stream);
    stream_read_start(pair->client.stream);
}

static void pair_end(struct pair *pair)
{
    if (pair->client.stream)
        stream_close(pair->client.stream);
    if (pair->server.stream)
        stream_close(pair->server.stream);
    TURN_UNTIL(pair->loop, !pair->client.stream && !pair->server.stream);
    tcp_listener_free(pair->listener);
    buf_deinit(&pair->client.got);
    buf_deinit(&pair->server.got);
}

static int write_text(struct stream *stream, const char *text)
{
    slice part = slice_cstr(text);
    return stream_write(stream, &part, 1);
}

static void bytes_come_back(void **state)
{
    struct pair pair;
    pair_begin(&pair, *state);
    pair.server.echoes = true;
    slice parts[] = {SLICE("one "), SLICE(""), SLICE("two "), SLICE("three")};
    assert_int_equal(stream_write(pair.client.stream, parts, 4), OK);
    TURN_UNTIL(pair.loop, pair.client.got.len == 13);
    assert_memory_equal(pair.client.got.ptr, "one two three", 13);
    assert_int_equal(pair.client.drained, 0); /* the socket took all: nothing was pending */
    struct sockaddr_storage peer;
    assert_int_equal(stream_peer(pair.server.stream, (struct sockaddr *)&peer, sizeof(peer)), OK);
    assert_int_equal(peer.ss_family, AF_INET);
    pair_end(&pair);
}

static void what_is_written_before_the_connect_is_sent(void **state)
{
    struct pair pair;
    pair_listen(&pair, *state, SLICE("127.0.0.1:0"));
    end_connect(&pair, &pair.client, 100);
    assert_int_equal(write_text(pair.client.stream, "early"), OK);
    assert_int_equal(stream_write_pending(pair.client.stream), 5);
    stream_shutdown(pair.client.stream);
    assert_int_equal(write_text(pair.client.stream, "late"), ERR_CLOSED);
    TURN_UNTIL(pair.loop, pair.server.eofs);
    assert_int_equal(pair.server.got.len, 5);
    pair_end(&pair);
}

static char *pattern(size_t len)
{
    char *bytes = mem_alloc(len);
    for (size_t i = 0; i < len; i++)
        bytes[i] = (char)(i * 7 + i / 251);
    return bytes;
}

/* More than socket buffers take, in parts of odd sizes; the reader rests at first. */
static void a_slow_reader_gets_all_in_order(void **state)
{
    struct pair pair;
    pair_begin(&pair, *state);
    stream_read_stop(pair.server.stream);
    char *bytes = pattern(BIG);
    slice parts[100];
    size_t at = 0, count = 0;
    while (at < BIG) {
        size_t len = (at * 31 + 12345) % 200000;
        len = len > BIG - at ? BIG - at : len;
        parts[count++] = slice_of(bytes + at, len);
        at += len;
        if (count == ARRAY_LEN(parts) || at == BIG) {
            assert_int_equal(stream_write(pair.client.stream, parts, count), OK);
            count = 0;
        }
        at += len == 0; /* never stuck */
    }
    assert_true(stream_write_pending(pair.client.stream) > 0);
    stream_shutdown(pair.client.stream);
    assert_int_equal(write_text(pair.client.stream, "x"), ERR_CLOSED);
    stream_read_start(pair.server.stream);
    TURN_UNTIL(pair.loop, pair.server.eofs);
    assert_int_equal(pair.server.got.len, BIG);
    assert_memory_equal(pair.server.got.ptr, bytes, BIG);
    assert_int_equal(pair.client.drained, 1);
    mem_free(bytes);
    pair_end(&pair);
}

static void a_fast_sender_leaves_turns_to_others(void **state)
{
    struct pair pair;
    pair_begin(&pair, *state);
    stream_read_stop(pair.server.stream);
    char *bytes = pattern(BIG);
    slice part = slice_of(bytes, BIG);
    assert_int_equal(stream_write(pair.client.stream, &part, 1), OK);
    stream_shutdown(pair.client.stream);
    stream_read_start(pair.server.stream);
    size_t most = 0;
    while (!pair.server.eofs) {
        size_t before = pair.server.got.len;
        loop_turn(pair.loop, true);
        if (pair.server.got.len - before > most)
            most = pair.server.got.len - before;
        if (before > BIG / 4 && before < BIG / 2) { /* stopping while it rests is kept */
            stream_read_stop(pair.server.stream);
            loop_turn(pair.loop, false);
            size_t stopped = pair.server.got.len;
            loop_turn(pair.loop, false);
            assert_int_equal(pair.server.got.len, stopped);
            stream_read_start(pair.server.stream);
        }
    }
    assert_int_equal(pair.server.got.len, BIG);
    assert_memory_equal(pair.server.got.ptr, bytes, BIG);
    assert_in_range(most, 1, 256 * 1024 + 64 * 1024);
    mem_free(bytes);
    pair_end(&pair);
}

static void the_queue_has_a_limit(void **state)
{
    struct pair pair;
    pair_begin(&pair, *state);
    stream_read_stop(pair.server.stream);
    char *bytes = pattern(BIG);
    slice part = slice_of(bytes, BIG);
    assert_int_equal(stream_write(pair.client.stream, &part, 1), OK);
    size_t pending = stream_write_pending(pair.client.stream);
    assert_true(pending > 0);
    tcp_write_limit_set(pair.client.stream, pending + 10);
    part.len = 11;
    assert_int_equal(stream_write(pair.client.stream, &part, 1), ERR_LIMIT);
    assert_int_equal(stream_write_pending(pair.client.stream), pending); /* nothing taken */
    part.len = 10;
    assert_int_equal(stream_write(pair.client.stream, &part, 1), OK);
    stream_read_start(pair.server.stream);
    TURN_UNTIL(pair.loop, pair.client.drained);
    TURN_UNTIL(pair.loop, pair.server.got.len == BIG + 10);
    mem_free(bytes);
    pair_end(&pair);
}

static void reading_goes_on_after_shutdown(void **state)
{
    struct pair pair;
    pair_begin(&pair, *state);
    assert_int_equal(write_text(pair.client.stream, "question"), OK);
    stream_shutdown(pair.client.stream);
    TURN_UNTIL(pair.loop, pair.server.eofs);
    assert_int_equal(write_text(pair.server.stream, "answer"), OK);
    stream_close(pair.server.stream);
    TURN_UNTIL(pair.loop, pair.client.eofs);
    assert_int_equal(pair.client.got.len, 6);
    assert_int_equal(pair.server.why.code, OK);
    pair_end(&pair);
}

static void a_reset_is_told(void **state)
{
    struct pair pair;
    pair_begin(&pair, *state);
    stream_reset(pair.server.stream);
    TURN_UNTIL(pair.loop, pair.client.closed);
    assert_int_equal(pair.client.eofs, 0);
    assert_int_equal(pair.client.why.code, ERR_CLOSED);
    assert_non_null(strstr(pair.client.why.text, "reset"));
    pair_end(&pair);
}

/* libuv alone would call this an EOF: the bytes and the reset arrive together. */
static void a_reset_behind_bytes_is_no_eof(void **state)
{
    struct pair pair;
    pair_begin(&pair, *state);
    stream_read_stop(pair.client.stream);
    assert_int_equal(write_text(pair.server.stream, "half of it"), OK);
    stream_reset(pair.server.stream);
    TURN_UNTIL(pair.loop, pair.server.closed);
    stream_read_start(pair.client.stream);
    TURN_UNTIL(pair.loop, pair.client.closed || pair.client.eofs);
    assert_int_equal(pair.client.eofs, 0);
    assert_int_equal(pair.client.why.code, ERR_CLOSED);
    pair_end(&pair);
}

static void a_refused_connect_is_told_later(void **state)
{
    struct pair pair;
    pair_listen(&pair, *state, SLICE("127.0.0.1:0"));
    uint16_t port = tcp_listener_port(pair.listener);
    int fd = dup(tcp_listener_fd(pair.listener)); /* keeps the port ours, but answers nobody */
    tcp_listener_free(pair.listener);
    close(fd);
    struct sockaddr_in address = loopback(port);
    struct err err = {0};
    pair.client.stream =
        tcp_connect(pair.loop, (struct sockaddr *)&address, 100, &events, &pair.client, &err);
    assert_non_null(pair.client.stream);
    assert_int_equal(pair.client.closed, 0);
    TURN_UNTIL(pair.loop, pair.client.closed);
    assert_int_equal(pair.client.opened, 0);
    assert_int_equal(pair.client.why.code, ERR_IO);
    assert_non_null(strstr(pair.client.why.text, "refused"));
}

static void an_unreachable_address_is_told_later(void **state)
{
    struct end end = {0};
    struct sockaddr_in address = loopback(1);
    address.sin_addr.s_addr = htonl(INADDR_BROADCAST); /* connect(2) fails at once */
    struct err err = {0};
    end.stream = tcp_connect(*state, (struct sockaddr *)&address, 100, &events, &end, &err);
    assert_non_null(end.stream);
    assert_int_equal(end.closed, 0);
    TURN_UNTIL(*state, end.closed);
    assert_int_equal(end.why.code, ERR_IO);
}

static void writing_to_a_dead_peer_closes(void **state)
{
    struct pair pair;
    pair_begin(&pair, *state);
    stream_read_stop(pair.client.stream);
    stream_reset(pair.server.stream);
    TURN_UNTIL(pair.loop, pair.server.closed);
    while (!pair.client.closed) {
        int rc = pair.client.stream ? write_text(pair.client.stream, "hello?") : OK;
        assert_true(rc == OK || rc == ERR_CLOSED);
        loop_turn(pair.loop, false);
    }
    assert_int_equal(pair.client.why.code, ERR_CLOSED);
    pair_end(&pair);
}

static void closing_is_final_in_every_state(void **state)
{
    struct loop *loop = *state;
    for (size_t turns = 0; turns < 6; turns++) {
        for (size_t how = 0; how < 3; how++) {
            struct pair pair;
            pair_listen(&pair, loop, SLICE("127.0.0.1:0"));
            end_connect(&pair, &pair.client, 2 * BIG);
            char *bytes = pattern(BIG);
            slice part = slice_of(bytes, BIG);
            assert_int_equal(stream_write(pair.client.stream, &part, 1), OK);
            mem_free(bytes);
            for (size_t i = 0; i < turns; i++)
                loop_turn(loop, false);
            size_t got = pair.client.got.len;
            stream_read_start(pair.client.stream);
            if (how == 0)
                stream_close(pair.client.stream);
            else
                stream_reset(pair.client.stream);
            stream_close(pair.client.stream); /* any number of times */
            assert_int_equal(write_text(pair.client.stream, "x"), ERR_CLOSED);
            stream_shutdown(pair.client.stream);
            stream_read_stop(pair.client.stream);
            stream_read_start(pair.client.stream);
            assert_int_equal(pair.client.closed, 0); /* never from inside */
            TURN_UNTIL(loop, pair.client.closed);
            assert_int_equal(pair.client.got.len, got);
            assert_int_equal(pair.client.why.code, OK);
            if (how == 2) /* the listener goes with a connection in its backlog */
                tcp_listener_accept_all(pair.listener);
            pair_end(&pair);
            assert_int_equal(pair.client.closed, 1);
        }
    }
}

static void no_memory_closes_the_stream_only(void **state)
{
    struct pair pair;
    pair_begin(&pair, *state);
    stream_read_stop(pair.server.stream);
    char *bytes = pattern(BIG);
    slice part = slice_of(bytes, BIG);
    mem_fail_at(1, 1000);
    assert_int_equal(stream_write(pair.client.stream, &part, 1), ERR_CLOSED);
    struct err err = {0};
    struct sockaddr_in address = loopback(tcp_listener_port(pair.listener));
    assert_null(
        tcp_connect(pair.loop, (struct sockaddr *)&address, 100, &events, &pair.client, &err));
    assert_int_equal(err.code, ERR_NOMEM);
    mem_fail_at(0, 0);
    mem_free(bytes);
    TURN_UNTIL(pair.loop, pair.client.closed);
    assert_int_equal(pair.client.why.code, ERR_NOMEM);
    pair_end(&pair);
}

/* ---- listeners ---- */

static void the_backlog_can_be_taken_at_once(void **state)
{
    struct pair pair;
    pair_listen(&pair, *state, SLICE("127.0.0.1:0"));
    int fds[5];
    for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
        struct sockaddr_in address = loopback(tcp_listener_port(pair.listener));
        fds[i] = socket(AF_INET, SOCK_STREAM, 0);
        assert_int_equal(connect(fds[i], (struct sockaddr *)&address, sizeof(address)), 0);
    }
    assert_int_equal(pair.accepted, 0);
    tcp_listener_accept_all(pair.listener);
    assert_int_equal(pair.accepted, ARRAY_LEN(fds));
    for (size_t i = 0; i < ARRAY_LEN(fds); i++)
        close(fds[i]);
    pair_end(&pair);
}

static void running_out_of_descriptors_rests_and_recovers(void **state)
{
    struct pair pair;
    pair_listen(&pair, *state, SLICE("127.0.0.1:0"));
    int fds[3];
    for (size_t i = 0; i < ARRAY_LEN(fds); i++)
        fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    struct rlimit before, tight;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    tight = before;
    tight.rlim_cur = (rlim_t)dup(0); /* the lowest free one: none is left from here on */
    close((int)tight.rlim_cur);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &tight), 0);
    struct sockaddr_in address = loopback(tcp_listener_port(pair.listener));
    for (size_t i = 0; i < 2; i++)
        connect(fds[i], (struct sockaddr *)&address, sizeof(address));
    uint64_t turns = loop_stats(pair.loop)->turns;
    char byte;
    ssize_t got;
    do { /* the peer is told, not left hanging */
        loop_turn(pair.loop, true);
        got = recv(fds[1], &byte, 1, MSG_DONTWAIT);
    } while (got < 0 && errno == EAGAIN);
    assert_int_equal(pair.accepted, 0);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    connect(fds[2], (struct sockaddr *)&address, sizeof(address));
    TURN_UNTIL(pair.loop, pair.accepted);
    assert_true(loop_stats(pair.loop)->turns - turns < 20); /* it did not spin */
    for (size_t i = 0; i < ARRAY_LEN(fds); i++)
        close(fds[i]);
    pair_end(&pair);
}

static void listen_fails(struct loop *loop, slice address, enum err_code code, const char *text)
{
    struct err err = {0};
    struct tcp_listen_config config = {.address = address};
    assert_null(tcp_listen(loop, &config, on_accept, NULL, &err));
    assert_int_equal(err.code, code);
    if (!strstr(err.text, text))
        fail_msg("\"%s\" does not say \"%s\"", err.text, text);
}

static void bad_addresses_are_named(void **state)
{
    static const char *const bad[] = {
        "",        "8080",         ":8080",           "localhost:80",  "127.0.0.1:",
        "[::1]",   "127.0.0.1:x",  "127.0.0.1:65536", "[127.0.0.1]:1", "::1:80",
        "[]:8080", "127.0.0.1:-1", "1.2.3:80",
    };
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        listen_fails(*state, slice_cstr(bad[i]), ERR_INVALID, "is no address to listen on");
    struct pair pair;
    pair_listen(&pair, *state, SLICE("127.0.0.1:0"));
    char taken[32];
    snprintf(taken, sizeof(taken), "127.0.0.1:%u", tcp_listener_port(pair.listener));
    listen_fails(*state, slice_cstr(taken), ERR_IO, "address already in use");
    tcp_listener_free(pair.listener);
    struct err err = {0};
    struct tcp_listen_config config = {.address = SLICE("x"), .inherited_fd = 2};
    assert_null(tcp_listen(*state, &config, on_accept, NULL, &err));
    assert_non_null(strstr(err.text, "no listening socket"));
}

static void a_socket_can_be_inherited(void **state)
{
    struct pair pair;
    pair_listen(&pair, *state, SLICE("127.0.0.1:0"));
    struct tcp_listener *first = pair.listener;
    struct tcp_listen_config config = {
        .address = SLICE("127.0.0.1:0"),
        .inherited_fd = dup(tcp_listener_fd(first)),
    };
    uint16_t port = tcp_listener_port(first);
    tcp_listener_free(first);
    struct err err = {0};
    pair.listener = tcp_listen(*state, &config, on_accept, &pair, &err);
    assert_non_null(pair.listener);
    assert_int_equal(tcp_listener_port(pair.listener), port);
    end_connect(&pair, &pair.client, 100);
    TURN_UNTIL(pair.loop, pair.server.stream && pair.client.opened);
    pair_end(&pair);
}

static void on_accept_free(struct stream *stream, void *owner)
{
    struct pair *pair = owner;
    stream_close(stream);
    tcp_listener_free(pair->listener);
    pair->accepted++;
    pair->listener = NULL;
}

static void a_listener_may_go_while_it_accepts(void **state)
{
    struct pair pair;
    pair_listen(&pair, *state, SLICE("127.0.0.1:0"));
    tcp_listener_free(pair.listener);
    struct tcp_listen_config config = {.address = SLICE("127.0.0.1:0")};
    struct err err = {0};
    pair.listener = tcp_listen(*state, &config, on_accept_free, &pair, &err);
    end_connect(&pair, &pair.client, 100);
    TURN_UNTIL(pair.loop, pair.accepted);
    pair_end(&pair);
}

static void unix_sockets_work_too(void **state)
{
    char folder[] = "/tmp/sluice-test-XXXXXX";
    assert_non_null(mkdtemp(folder));
    char address[64];
    snprintf(address, sizeof(address), "unix:%s/s", folder);
    const char *path = address + 5;
    struct pair pair;
    pair_listen(&pair, *state, slice_cstr(address));
    assert_int_equal(tcp_listener_port(pair.listener), 0);
    struct stat file;
    assert_int_equal(stat(path, &file), 0);
    assert_int_equal(file.st_mode & 0777, 0660);
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    memcpy(un.sun_path, path, strlen(path));
    struct err err = {0};
    pair.client.stream =
        tcp_connect(*state, (struct sockaddr *)&un, 1000, &events, &pair.client, &err);
    assert_non_null(pair.client.stream);
    assert_int_equal(write_text(pair.client.stream, "hello"), OK);
    TURN_UNTIL(pair.loop, pair.server.got.len == 5);
    listen_fails(*state, slice_cstr(address), ERR_BUSY, "another process listens");
    struct sockaddr_storage peer;
    assert_int_equal(stream_peer(pair.server.stream, (struct sockaddr *)&peer, sizeof(peer)),
                     ERR_NOTFOUND);
    stream_reset(pair.client.stream); /* as a close here */
    TURN_UNTIL(pair.loop, pair.server.eofs || pair.server.closed);
    pair_end(&pair);
    assert_int_equal(access(path, F_OK), -1); /* the file is gone */

    int fd = socket(AF_UNIX, SOCK_STREAM, 0); /* a file that nobody answers at is replaced */
    assert_int_equal(bind(fd, (struct sockaddr *)&un, sizeof(un)), 0);
    close(fd);
    pair_listen(&pair, *state, slice_cstr(address));
    unlink(path); /* and one that a successor put there is left alone */
    fd = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&un, sizeof(un)), 0);
    pair_end(&pair);
    assert_int_equal(access(path, F_OK), 0);
    close(fd);
    unlink(path);
    FILE *plain = fopen(path, "w");
    fclose(plain);
    listen_fails(*state, slice_cstr(address), ERR_INVALID, "no socket");
    unlink(path);
    rmdir(folder);
    char longest[200];
    memset(longest, 'a', sizeof(longest));
    memcpy(longest, "unix:/", 6);
    listen_fails(*state, slice_of(longest, sizeof(longest)), ERR_INVALID, "1 to 107 bytes");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(bytes_come_back),
        TEST(what_is_written_before_the_connect_is_sent),
        TEST(a_slow_reader_gets_all_in_order),
        TEST(a_fast_sender_leaves_turns_to_others),
        TEST(the_queue_has_a_limit),
        TEST(reading_goes_on_after_shutdown),
        TEST(a_reset_is_told),
        TEST(a_reset_behind_bytes_is_no_eof),
        TEST(a_refused_connect_is_told_later),
        TEST(an_unreachable_address_is_told_later),
        TEST(writing_to_a_dead_peer_closes),
        TEST(closing_is_final_in_every_state),
        TEST(no_memory_closes_the_stream_only),
        TEST(the_backlog_can_be_taken_at_once),
        TEST(running_out_of_descriptors_rests_and_recovers),
        TEST(bad_addresses_are_named),
        TEST(a_socket_can_be_inherited),
        TEST(a_listener_may_go_while_it_accepts),
        TEST(unix_sockets_work_too),
    };
    return cmocka_run_group_tests_name("loop/tcp", tests, NULL, NULL);
}
