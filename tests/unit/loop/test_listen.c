/* loop/listen: the backlog, exhausted descriptors, addresses, and inherited and Unix sockets. */
#include "tcp_pair.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

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
    tight.rlim_cur = (rlim_t)dup(0); /* the lowest free descriptor: all from here on are in use */
    close((int)tight.rlim_cur);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &tight), 0);
    struct sockaddr_in address = loopback(tcp_listener_port(pair.listener));
    for (size_t i = 0; i < 2; i++)
        connect(fds[i], (struct sockaddr *)&address, sizeof(address));
    uint64_t turns = loop_stats(pair.loop)->turns;
    char byte;
    ssize_t got;
    do { /* the peer's connection is closed and does not hang */
        loop_turn(pair.loop, true);
        got = recv(fds[1], &byte, 1, MSG_DONTWAIT);
    } while (got < 0 && errno == EAGAIN);
    assert_int_equal(pair.accepted, 0);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    connect(fds[2], (struct sockaddr *)&address, sizeof(address));
    WAIT_UNTIL(pair.loop, pair.accepted);
    assert_true(loop_stats(pair.loop)->turns - turns < 20); /* the loop did not spin */
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
        listen_fails(*state, slice_cstr(bad[i]), ERR_INVALID, "is not an address to listen on");
    struct pair pair;
    pair_listen(&pair, *state, SLICE("127.0.0.1:0"));
    char taken[32];
    snprintf(taken, sizeof(taken), "127.0.0.1:%u", tcp_listener_port(pair.listener));
    listen_fails(*state, slice_cstr(taken), ERR_IO, "address already in use");
    tcp_listener_free(pair.listener);
    struct err err = {0};
    struct tcp_listen_config config = {.address = SLICE("x"), .inherited_fd = 2};
    assert_null(tcp_listen(*state, &config, on_accept, NULL, &err));
    assert_non_null(strstr(err.text, "not a listening socket"));
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
    WAIT_UNTIL(pair.loop, pair.server.stream && pair.client.opened);
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
    WAIT_UNTIL(pair.loop, pair.accepted);
    pair_end(&pair);
}

/* One of the processes that accept from the same socket, in the loop's view. */
struct sharer {
    struct tcp_share share;
    struct tcp_listener *listener;
    struct stream *streams[64];
    size_t count;
};

static void on_accept_keep(struct stream *stream, void *owner)
{
    struct sharer *sharer = owner;
    sharer->streams[sharer->count++] = stream;
}

static void sharer_listen(struct sharer *sharer, struct loop *loop, int fd)
{
    struct err err = {0};
    struct tcp_listen_config config = {
        .address = SLICE("127.0.0.1:0"), .inherited_fd = fd, .share = &sharer->share};
    sharer->listener = tcp_listen(loop, &config, on_accept_keep, sharer, &err);
    assert_non_null(sharer->listener);
}

static void sharer_end(struct sharer *sharer)
{
    for (size_t i = 0; i < sharer->count; i++)
        stream_close(sharer->streams[i]);
    assert_int_equal(sharer->share.connections[sharer->share.self], 0);
    tcp_listener_free(sharer->listener);
}

enum { SHARED_CLIENTS = 40 };

static void connect_shared(int *fds, uint16_t port)
{
    struct sockaddr_in address = loopback(port);
    for (size_t i = 0; i < SHARED_CLIENTS; i++) {
        fds[i] = socket(AF_INET, SOCK_STREAM, 0);
        assert_int_equal(connect(fds[i], (struct sockaddr *)&address, sizeof(address)), 0);
    }
}

static void connections_are_shared_out(void **state)
{
    struct loop *loop = *state;
    struct err err = {0};
    struct tcp_bound bound;
    _Atomic uint32_t counts[2] = {0};
    struct sharer sharers[2] = {{.share = {counts, 2, 0}}, {.share = {counts, 2, 1}}};
    int fds[SHARED_CLIENTS];
    assert_int_equal(
        tcp_bind(&(struct tcp_listen_config){.address = SLICE("127.0.0.1:0")}, &bound, &err), OK);
    uint16_t port = tcp_port_of(bound.fd);
    sharer_listen(&sharers[0], loop, dup(bound.fd));
    sharer_listen(&sharers[1], loop, bound.fd);
    connect_shared(fds, port);
    WAIT_UNTIL(loop, sharers[0].count + sharers[1].count == SHARED_CLIENTS);
    for (size_t i = 0; i < 2; i++) {
        assert_in_range(sharers[i].count, SHARED_CLIENTS / 3, SHARED_CLIENTS * 2 / 3);
        assert_int_equal(counts[i], sharers[i].count);
    }
    for (size_t i = 0; i < SHARED_CLIENTS; i++)
        close(fds[i]);
    for (size_t i = 0; i < 2; i++)
        sharer_end(&sharers[i]);
}

static void one_that_takes_none_does_not_delay_others(void **state)
{
    struct loop *loop = *state;
    struct err err = {0};
    struct tcp_bound bound;
    _Atomic uint32_t counts[2] = {0};
    struct sharer sharer = {.share = {counts, 2, 0}};
    int fds[SHARED_CLIENTS];
    assert_int_equal(
        tcp_bind(&(struct tcp_listen_config){.address = SLICE("127.0.0.1:0")}, &bound, &err), OK);
    uint16_t port = tcp_port_of(bound.fd);
    sharer_listen(&sharer, loop, bound.fd);
    connect_shared(fds, port);
    uint64_t turns = loop_stats(loop)->turns;
    WAIT_UNTIL(loop, sharer.count == SHARED_CLIENTS);
    assert_true(loop_stats(loop)->turns - turns < SHARED_CLIENTS); /* the loop waited instead of
                                                                    * spinning */
    for (size_t i = 0; i < SHARED_CLIENTS; i++)
        close(fds[i]);
    sharer_end(&sharer);
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
        tcp_connect(*state, (struct sockaddr *)&un, 1000, &end_events, &pair.client, &err);
    assert_non_null(pair.client.stream);
    assert_int_equal(write_text(pair.client.stream, "hello"), OK);
    WAIT_UNTIL(pair.loop, pair.server.got.len == 5);
    listen_fails(*state, slice_cstr(address), ERR_BUSY, "another process listens");
    struct sockaddr_storage peer;
    assert_int_equal(stream_peer(pair.server.stream, (struct sockaddr *)&peer, sizeof(peer)),
                     ERR_NOTFOUND);
    stream_reset(pair.client.stream); /* like a close here */
    WAIT_UNTIL(pair.loop, pair.server.eofs || pair.server.closed);
    pair_end(&pair);
    assert_int_equal(access(path, F_OK), -1); /* the file does not exist any more */

    int fd = socket(AF_UNIX, SOCK_STREAM, 0); /* a file without a listener is replaced */
    assert_int_equal(bind(fd, (struct sockaddr *)&un, sizeof(un)), 0);
    close(fd);
    pair_listen(&pair, *state, slice_cstr(address));
    unlink(path); /* a file that a successor made is left alone */
    fd = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&un, sizeof(un)), 0);
    pair_end(&pair);
    assert_int_equal(access(path, F_OK), 0);
    close(fd);
    unlink(path);
    FILE *plain = fopen(path, "w");
    fclose(plain);
    listen_fails(*state, slice_cstr(address), ERR_INVALID, "not a socket");
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
        TEST(the_backlog_can_be_taken_at_once),
        TEST(running_out_of_descriptors_rests_and_recovers),
        TEST(bad_addresses_are_named),
        TEST(a_socket_can_be_inherited),
        TEST(a_listener_may_go_while_it_accepts),
        TEST(connections_are_shared_out),
        TEST(one_that_takes_none_does_not_delay_others),
        TEST(unix_sockets_work_too),
    };
    return cmocka_run_group_tests_name("loop/listen", tests, NULL, NULL);
}
