/*
 * struct tcp_stream, for tcp.c (streams) and listen.c (which fills in accepted streams).
 */
#ifndef LOOP_TCP_INTERNAL_H
#define LOOP_TCP_INTERNAL_H

#include "loop/internal.h"
#include "loop/tcp.h"

enum { TCP_WRITE_BYTES_DEFAULT = 1024 * 1024 };

struct tcp_out;

struct tcp_stream {
    struct stream base;
    union {
        uv_handle_t handle;
        uv_stream_t stream;
        uv_tcp_t tcp;
        uv_pipe_t pipe;
    } uv;
    struct tcp_out *out; /* NULL while nothing is pending */
    size_t write_bytes_max;
    const char *fail_what;
    int fail_status; /* a libuv error; 0: closed by this process */
    bool is_unix, is_connecting, is_closing, is_shutdown, is_eof, wants_read;
    _Atomic uint32_t *counted; /* decremented when the stream closes; NULL: not counted */
    struct loop_garbage garbage;
    enum read_class class; /* the stream's class unless its input is discarded */
    struct loop_reader reader;
    uint64_t read_turn; /* the loop's turn in which turn_bytes were read */
    size_t turn_bytes;
    uint8_t reports;   /* how often poll has reported the stream while it waits to be read */
    bool is_unwatched; /* poll does not report the stream until it is read */
};

/* Returns a stream without a socket and without events; NULL if out of memory. */
struct tcp_stream *tcp_stream_new(struct loop *loop, bool is_unix,
                                  enum read_class class) MUST_CHECK;

#endif
