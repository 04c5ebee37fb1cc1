/* loop/tcp: echo, back-pressure, half-close, reset, refusals, closing in every state. */
#include "tcp_pair.h"

#include <linux/sockios.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "loop/internal.h"

static void bytes_come_back(void **state)
{
    struct pair pair;
    pair_begin(&pair, *state);
    pair.server.echoes = true;
    slice parts[] = {SLICE("one "), SLICE(""), SLICE("two "), SLICE("three")};
    assert_int_equal(stream_write(pair.client.stream, parts, 4), OK);
    WAIT_UNTIL(pair.loop, pair.client.got.len == 13);
    assert_memory_equal(pair.client.got.ptr, "one two three", 13);
    assert_int_equal(pair.client.drained, 0); /* the socket took all bytes, so nothing was
                                               * pending */
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
    WAIT_UNTIL(pair.loop, pair.server.eofs);
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

/* More bytes than socket buffers can hold, in parts of odd sizes. The reader is paused at first. */
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
    WAIT_UNTIL(pair.loop, pair.server.eofs);
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
        if (before > BIG / 4 && before < BIG / 2) { /* a stop while it is paused is remembered */
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

/* ---- many that are ready at once ---- */

enum { READERS = 40, READ_NS = 50 * 1000 };

struct crowd {
    struct loop *loop;
    struct reader {
        struct crowd *crowd;
        struct stream *stream;
        int peer;
        size_t reads;
        bool sends_on;
    } readers[READERS];
    size_t reads, reads_in_turn, most_in_turn, closed;
    uint64_t turn;
};

static void send_byte(const struct reader *reader)
{
    assert_int_equal(write(reader->peer, "x", 1), 1);
}

static void wait_until_delivered(int fd)
{
    int unacknowledged;
    do
        assert_int_equal(ioctl(fd, SIOCOUTQ, &unacknowledged), 0);
    while (unacknowledged > 0);
}

/* Half of the peers send again as soon as their bytes were read. */
static void on_crowd_read(struct stream *stream, void *owner, slice bytes)
{
    struct reader *reader = owner;
    struct crowd *crowd = reader->crowd;
    (void)stream, (void)bytes;
    uint64_t turn = loop_stats(crowd->loop)->turns;
    crowd->reads_in_turn = turn == crowd->turn ? crowd->reads_in_turn + 1 : 1;
    crowd->turn = turn;
    if (crowd->reads_in_turn > crowd->most_in_turn)
        crowd->most_in_turn = crowd->reads_in_turn;
    crowd->reads++;
    reader->reads++;
    uint64_t until_ns = clock_mono_ns() + READ_NS;
    while (clock_mono_ns() < until_ns)
        continue;
    if (reader->sends_on)
        send_byte(reader);
}

static void on_crowd_eof(struct stream *stream, void *owner, bool is_clean)
{
    (void)stream, (void)owner, (void)is_clean;
}

static void on_crowd_closed(struct stream *stream, void *owner, const struct err *why)
{
    (void)stream, (void)why;
    ((struct reader *)owner)->crowd->closed++;
}

static const struct stream_events crowd_events = {
    NULL, on_crowd_read, on_crowd_eof, NULL, on_crowd_closed,
};

static void crowd_begin(struct crowd *crowd, struct loop *loop)
{
    struct sockaddr_in address = loopback(0);
    socklen_t len = sizeof(address);
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&address, len), 0);
    assert_int_equal(listen(listener, READERS), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &len), 0);
    *crowd = (struct crowd){.loop = loop};
    for (size_t i = 0; i < READERS; i++) {
        struct reader *reader = &crowd->readers[i];
        struct err err = {0};
        reader->crowd = crowd;
        reader->sends_on = i % 2;
        reader->stream =
            tcp_connect(loop, (struct sockaddr *)&address, 100, &crowd_events, reader, &err);
        assert_non_null(reader->stream);
        reader->peer = accept(listener, NULL, NULL);
        assert_true(reader->peer >= 0);
        stream_read_start(reader->stream);
    }
    close(listener);
}

static void crowd_end(struct crowd *crowd)
{
    for (size_t i = 0; i < READERS; i++) {
        stream_close(crowd->readers[i].stream);
        close(crowd->readers[i].peer);
    }
    WAIT_UNTIL(crowd->loop, crowd->closed == READERS);
}

static void many_that_are_ready_are_read_in_turns_and_all_of_them(void **state)
{
    static struct crowd crowd;
    crowd_begin(&crowd, *state);
    for (size_t i = 0; i < READERS; i++)
        send_byte(&crowd.readers[i]);
    for (size_t i = 0; i < READERS; i++) /* waits until all are ready, since a busy kernel
                                          * delivers later */
        wait_until_delivered(crowd.readers[i].peer);
    for (size_t i = 0; i < READERS; i++) /* however fast the others send */
        WAIT_UNTIL(crowd.loop, crowd.readers[i].reads > 0);
    assert_true(crowd.reads <= 2 * READERS);
    WAIT_UNTIL(crowd.loop, crowd.reads > 5 * READERS);
    assert_in_range(crowd.most_in_turn, 1, LOOP_READ_NS_MAX / READ_NS + 1);
    for (size_t i = 0; i < READERS; i++)
        assert_true(crowd.readers[i].sends_on ? crowd.readers[i].reads >= 4
                                              : crowd.readers[i].reads == 1);
    crowd_end(&crowd);
}

/* ---- a connection that stays while new connections keep coming ---- */

enum { GUESTS = 40, GUEST_TURNS = 200 };

struct inn {
    struct loop *loop;
    struct tcp_listener *listener;
    struct guest {
        struct inn *inn;
        struct stream *stream;
        int peer;
    } guests[GUESTS]; /* the first guest stays */
    size_t accepted, closed, reads, reads_of_first;
    bool is_over;
};

static void guest_comes(struct inn *inn, struct guest *guest)
{
    struct sockaddr_in address = loopback(tcp_listener_port(inn->listener));
    guest->inn = inn;
    guest->stream = NULL;
    guest->peer = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(guest->peer, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(write(guest->peer, "x", 1), 1);
}

static void on_guest_read(struct stream *stream, void *owner, slice bytes)
{
    struct guest *guest = owner;
    struct inn *inn = guest->inn;
    (void)bytes;
    uint64_t until_ns = clock_mono_ns() + READ_NS;
    while (clock_mono_ns() < until_ns)
        continue;
    inn->reads++;
    if (guest == &inn->guests[0]) {
        inn->reads_of_first++;
        assert_int_equal(write(guest->peer, "x", 1), 1);
        return;
    }
    stream_close(stream);
}

static void on_guest_closed(struct stream *stream, void *owner, const struct err *why)
{
    struct guest *guest = owner;
    (void)stream, (void)why;
    close(guest->peer);
    guest->inn->closed++;
    guest->stream = NULL;
    if (!guest->inn->is_over)
        guest_comes(guest->inn, guest);
}

static const struct stream_events guest_events = {
    NULL, on_guest_read, on_crowd_eof, NULL, on_guest_closed,
};

/* Connections are accepted in the order of arrival: finds the stream of that port that has none
 * yet. */
static void on_guest_accepted(struct stream *stream, void *owner)
{
    struct inn *inn = owner;
    struct sockaddr_in address = {0}, own;
    inn->accepted++;
    assert_int_equal(stream_peer(stream, (struct sockaddr *)&address, sizeof(address)), OK);
    for (size_t i = 0; i < GUESTS; i++) {
        struct guest *guest = &inn->guests[i];
        socklen_t len = sizeof(own);
        if (guest->stream || getsockname(guest->peer, (struct sockaddr *)&own, &len) != 0 ||
            own.sin_port != address.sin_port)
            continue;
        guest->stream = stream;
        stream_own(stream, &guest_events, guest);
        stream_read_start(stream);
        return;
    }
    fail();
}

static void new_streams_do_not_keep_another_from_its_turn(void **state)
{
    static struct inn inn;
    struct err err = {0};
    struct tcp_listen_config config = {.address = SLICE("127.0.0.1:0")};
    inn = (struct inn){.loop = *state};
    inn.listener = tcp_listen(inn.loop, &config, on_guest_accepted, &inn, &err);
    assert_non_null(inn.listener);
    for (size_t i = 0; i < GUESTS; i++)
        guest_comes(&inn, &inn.guests[i]);
    WAIT_UNTIL(inn.loop, inn.guests[0].stream && inn.accepted >= GUESTS);
    for (size_t i = 0; i < GUEST_TURNS; i++)
        loop_turn(inn.loop, true);
    size_t reads = inn.reads, reads_of_first = inn.reads_of_first;
    inn.is_over = true;
    tcp_listener_accept_all(inn.listener);
    for (size_t i = 0; i < GUESTS; i++)
        if (inn.guests[i].stream)
            stream_close(inn.guests[i].stream);
    WAIT_UNTIL(inn.loop, inn.closed == inn.accepted);
    tcp_listener_free(inn.listener);
    /* Reads are counted, not turns: on a busy machine a turn may have time for one read only. */
    assert_true(reads > 2 * GUESTS);
    assert_true(reads_of_first * 2 * GUESTS >= reads);
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
    assert_int_equal(stream_write_pending(pair.client.stream), pending); /* nothing was taken
                                                                          * over */
    part.len = 10;
    assert_int_equal(stream_write(pair.client.stream, &part, 1), OK);
    stream_read_start(pair.server.stream);
    WAIT_UNTIL(pair.loop, pair.client.drained);
    WAIT_UNTIL(pair.loop, pair.server.got.len == BIG + 10);
    mem_free(bytes);
    pair_end(&pair);
}

static void reading_continues_after_shutdown(void **state)
{
    struct pair pair;
    pair_begin(&pair, *state);
    assert_int_equal(write_text(pair.client.stream, "question"), OK);
    stream_shutdown(pair.client.stream);
    WAIT_UNTIL(pair.loop, pair.server.eofs);
    assert_int_equal(write_text(pair.server.stream, "answer"), OK);
    stream_close(pair.server.stream);
    WAIT_UNTIL(pair.loop, pair.client.eofs);
    assert_int_equal(pair.client.got.len, 6);
    assert_int_equal(pair.server.why.code, OK);
    pair_end(&pair);
}

static void a_reset_is_reported(void **state)
{
    struct pair pair;
    pair_begin(&pair, *state);
    stream_reset(pair.server.stream);
    WAIT_UNTIL(pair.loop, pair.client.closed);
    assert_int_equal(pair.client.eofs, 0);
    assert_int_equal(pair.client.why.code, ERR_CLOSED);
    assert_non_null(strstr(pair.client.why.text, "reset"));
    pair_end(&pair);
}

/* libuv alone would report an EOF: the bytes and the reset arrive together. */
static void a_reset_after_bytes_is_not_an_eof(void **state)
{
    struct pair pair;
    pair_begin(&pair, *state);
    stream_read_stop(pair.client.stream);
    assert_int_equal(write_text(pair.server.stream, "half of it"), OK);
    stream_reset(pair.server.stream);
    WAIT_UNTIL(pair.loop, pair.server.closed);
    stream_read_start(pair.client.stream);
    WAIT_UNTIL(pair.loop, pair.client.closed || pair.client.eofs);
    assert_int_equal(pair.client.eofs, 0);
    assert_int_equal(pair.client.why.code, ERR_CLOSED);
    pair_end(&pair);
}

static void a_refused_connect_is_reported_later(void **state)
{
    struct end end = {0};
    struct sockaddr_in address = loopback(0);
    socklen_t len = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM, 0); /* keeps the port reserved, but accepts no
                                               * connection */
    assert_int_equal(bind(fd, (struct sockaddr *)&address, len), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &len), 0);
    struct err err = {0};
    end.stream = tcp_connect(*state, (struct sockaddr *)&address, 100, &end_events, &end, &err);
    assert_non_null(end.stream);
    assert_int_equal(end.closed, 0);
    WAIT_UNTIL(*state, end.closed);
    close(fd);
    assert_int_equal(end.opened, 0);
    assert_int_equal(end.why.code, ERR_IO);
    assert_non_null(strstr(end.why.text, "refused"));
}

static void an_unreachable_address_is_reported_later(void **state)
{
    struct end end = {0};
    struct sockaddr_in address = loopback(1);
    address.sin_addr.s_addr = htonl(INADDR_BROADCAST); /* connect(2) fails at once */
    struct err err = {0};
    end.stream = tcp_connect(*state, (struct sockaddr *)&address, 100, &end_events, &end, &err);
    assert_non_null(end.stream);
    assert_int_equal(end.closed, 0);
    WAIT_UNTIL(*state, end.closed);
    assert_int_equal(end.why.code, ERR_IO);
}

static void writing_to_a_dead_peer_closes(void **state)
{
    struct pair pair;
    pair_begin(&pair, *state);
    stream_read_stop(pair.client.stream);
    stream_reset(pair.server.stream);
    WAIT_UNTIL(pair.loop, pair.server.closed);
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
            stream_close(pair.client.stream); /* may be called any number of times */
            assert_int_equal(write_text(pair.client.stream, "x"), ERR_CLOSED);
            stream_shutdown(pair.client.stream);
            stream_read_stop(pair.client.stream);
            stream_read_start(pair.client.stream);
            assert_int_equal(pair.client.closed, 0); /* it is never called inside the call */
            WAIT_UNTIL(loop, pair.client.closed);
            assert_int_equal(pair.client.got.len, got);
            assert_int_equal(pair.client.why.code, OK);
            if (how == 2) /* the listener is closed with a connection in its backlog */
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
        tcp_connect(pair.loop, (struct sockaddr *)&address, 100, &end_events, &pair.client, &err));
    assert_int_equal(err.code, ERR_NOMEM);
    mem_fail_at(0, 0);
    mem_free(bytes);
    WAIT_UNTIL(pair.loop, pair.client.closed);
    assert_int_equal(pair.client.why.code, ERR_NOMEM);
    pair_end(&pair);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(bytes_come_back),
        TEST(what_is_written_before_the_connect_is_sent),
        TEST(a_slow_reader_gets_all_in_order),
        TEST(a_fast_sender_leaves_turns_to_others),
        TEST(many_that_are_ready_are_read_in_turns_and_all_of_them),
        TEST(new_streams_do_not_keep_another_from_its_turn),
        TEST(the_queue_has_a_limit),
        TEST(reading_continues_after_shutdown),
        TEST(a_reset_is_reported),
        TEST(a_reset_after_bytes_is_not_an_eof),
        TEST(a_refused_connect_is_reported_later),
        TEST(an_unreachable_address_is_reported_later),
        TEST(writing_to_a_dead_peer_closes),
        TEST(closing_is_final_in_every_state),
        TEST(no_memory_closes_the_stream_only),
    };
    return cmocka_run_group_tests_name("loop/tcp", tests, NULL, NULL);
}
