/*
 * The demo data of `sluice dev`: an account with an API key and connected demo apps. Each is
 * created if it is missing, replaced if it no longer works (another master key, a grant that was
 * marked dead), and left unchanged if it works.
 */
#ifndef DEV_DEMO_H
#define DEV_DEMO_H

#include "cli/session.h"
#include "dev/folder.h"
#include "json/json.h"
#include "vault/key.h"

struct dev_demo {
    struct uuid account_id;
    char key[VAULT_KEY_LEN + 1];
};

/* session: database, ring and catalog are open. tokens: an object of integration id -> access
 * token; each token gets a connection. The key is kept in the folder's file api_key. */
int dev_demo_make(struct dev_demo *demo, struct session *session, const struct dev_folder *folder,
                  const struct json *tokens) MUST_CHECK;

#endif
