/*
 * The version of the program, as `sluice version` prints it and an MCP client reads it.
 */
#ifndef BASE_VERSION_H
#define BASE_VERSION_H

#define SLUICE_VERSION "0.1.0"

#endif
