/* The TLS server of the emulated provider, for tests that need a peer in the same loop. */
#include "../../../bench/provider/tls_server.c"
