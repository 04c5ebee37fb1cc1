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

#endif
