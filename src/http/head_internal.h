/*
 * Shared by head.c and target.c alone.
 */
#ifndef HTTP_HEAD_INTERNAL_H
#define HTTP_HEAD_INTERNAL_H

#include "http/head.h"

/* "example.org:8080", "[::1]": a host name or address and an optional port. */
bool http_is_authority(slice text);
/* Fills path and query from target, method and host. false and *text: why not. */
bool http_target_read(struct http_head *head, const char **text) MUST_CHECK;

#endif
