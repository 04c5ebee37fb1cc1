/*
 * Files in a call of the tool endpoint (src/api/README.md "Requests"). Their base64 is measured
 * before it is decoded. It is decoded once, directly into the request's body.
 *
 * Limits: CALL_FILES_MAX files per call, each up to the service's file_bytes_max; the action's
 * manifest may accept fewer and smaller files. Large files are hashed and decoded on a pool thread.
 */
#ifndef CALL_FILES_H
#define CALL_FILES_H

#include "base/arena.h"
#include "base/buf.h"
#include "catalog/catalog.h"

enum { CALL_FILES_MAX = 10, CALL_FILE_NAME_MAX = 255 };

struct call_file {
    slice field, name, content_type; /* SLICE_NONE if not given */
    slice data;                      /* standard base64 with padding; SLICE_NONE: missing */
    slice bytes;                     /* decoded; set by the execution */
    uint8_t hash[32];                /* hash of `data`; set by the execution */
};

/* Returns the file's type; application/octet-stream if none was given. */
slice call_file_type(const struct call_file *file);
/* Returns the decoded length of base64 with padding; reads only the end of the text. */
size_t call_file_size(slice data);
/* Returns the decoded length of all files together. */
size_t call_files_size(const struct call_file *files, size_t count);
/* Returns all faults of these files for this action, each with its JSON Pointer in the caller's
 * request ("/files/0: has no data; ..."), in the arena; SLICE_NONE if none can be found without
 * decoding. */
slice call_files_check(const struct catalog_action *action, const struct call_file *files,
                       size_t count, size_t file_bytes_max, struct arena *arena);
/* Returns a hint on what the caller can do about the fault; constant text. */
slice call_files_hint(const struct catalog_action *action, bool is_data_lacking);
/* Decodes the file's data into the arena. Returns OK, ERR_SYNTAX (not base64) or ERR_NOMEM. */
int call_file_decode(struct call_file *file, struct arena *arena) MUST_CHECK;
/* Writes the field, name, type and hash of each file; nothing if there are none, so that the
 * fingerprints of such calls stay the same. */
void call_files_write_fingerprint(const struct call_file *files, size_t count, struct buf *out);

#endif
