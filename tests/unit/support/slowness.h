/*
 * How much slower than the release build a test build may be (sanitizers, no optimisation,
 * coverage). The release build must keep the limits on CPU time. Other builds have limits that are
 * looser by this factor.
 */
#ifndef TEST_SUPPORT_SLOWNESS_H
#define TEST_SUPPORT_SLOWNESS_H

#ifdef SLUICE_TEST_BUILD
#define BUILD_SLOWNESS 40
#else
#define BUILD_SLOWNESS 1
#endif

/* If a host pauses the machine, some kernels charge that time to the running process. Work that
 * takes too long is measured again up to this many times, and fails if it is too slow each time. */
enum { MEASURED_TIMES_MAX = 5 };

#endif
