/*
 * Dispatch of a stream's calls to the class below it.
 */
#include "loop/stream.h"

void stream_read_start(struct stream *stream)
{
    stream->class->read_start(stream);
}

void stream_read_stop(struct stream *stream)
{
    stream->class->read_stop(stream);
}

int stream_write(struct stream *stream, const slice *parts, size_t count)
{
    return stream->class->write(stream, parts, count);
}

size_t stream_write_pending(const struct stream *stream)
{
    return stream->class->write_pending(stream);
}

void stream_shutdown(struct stream *stream)
{
    stream->class->shutdown(stream);
}

void stream_close(struct stream *stream)
{
    stream->class->close(stream);
}

void stream_reset(struct stream *stream)
{
    stream->class->reset(stream);
}

int stream_peer(const struct stream *stream, struct sockaddr *out, size_t cap)
{
    return stream->class->peer(stream, out, cap);
}
