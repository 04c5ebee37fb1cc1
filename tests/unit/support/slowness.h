/*
 * How much slower than the release a build for tests may be (sanitizers, no optimisation,
 * coverage): bounds on CPU time are held to by the release build, and this many times looser by the
 * others.
 */
#ifndef TEST_SUPPORT_SLOWNESS_H
#define TEST_SUPPORT_SLOWNESS_H

#ifdef SLUICE_TEST_BUILD
#define BUILD_SLOWNESS 40
#else
#define BUILD_SLOWNESS 1
#endif

/* A host that stops the machine has some kernels charge that to whoever ran: what takes longer than
 * it may is measured again, so often, and is too slow when it was each time. */
enum { MEASURED_TIMES_MAX = 5 };

#endif
