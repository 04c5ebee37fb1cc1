/*
 * A scripted HTTP server in the test's own loop, for the outbound client: it reads whole requests
 * and answers each as its script says, correctly or not. Without TLS or with it.
 */
#ifndef TESTS_SUPPORT_HTTP_PEER_H
#define TESTS_SUPPORT_HTTP_PEER_H

#include "provider/tls_server.h"
#include "support/peers.h"

enum peer_then {
    PEER_KEEP,    /* waits for the next request */
    PEER_FIN,     /* close_notify and FIN */
    PEER_CUT,     /* FIN alone, also under TLS */
    PEER_RESET,   /* RST */
    PEER_ENDLESS, /* repeats the reply's last `repeat` bytes forever */
    PEER_DEAF,    /* stops reading, too */
};

struct peer_script {
    const char *reply; /* NULL: none */
    size_t reply_len;  /* 0: strlen */
    enum peer_then then;
    bool is_trickled;   /* one byte each turn */
    bool is_on_connect; /* does not wait for a request */
    bool is_on_head;    /* does not wait for the body */
    size_t repeat;
};

struct http_peer {
    struct loop *loop;
    struct tcp_listener *listener;
    struct tls_server *tls; /* counted; NULL: plain */
    const struct peer_script *scripts;
    size_t script_count; /* request n gets script n; the last script is repeated */
    unsigned connections, requests, handshakes;
    struct buf request; /* the newest complete request */
    struct list open;   /* connections */
    unsigned open_count;
};

void http_peer_init(struct http_peer *peer, struct loop *loop, const struct peer_script *scripts,
                    size_t script_count);
void http_peer_scripts(struct http_peer *peer, const struct peer_script *scripts, size_t count);
/* Closes all connections and waits for that. */
void http_peer_deinit(struct http_peer *peer);
uint16_t http_peer_port(const struct http_peer *peer);
/* Closes all its connections now: FIN, or RST. */
void http_peer_close_all(struct http_peer *peer, bool is_reset);

#endif
