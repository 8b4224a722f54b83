/*
 * one_thread - what a test or a suite is described as that never has a second thread.
 *
 *     Test(sampler, breaks_ties_by_id, .description = ONE_THREAD)
 *     TestSuite(numerics, .description = ONE_THREAD);
 *
 * ThreadSanitizer has nothing to see there, and makes them ten times slower: its builds leave them out.
 * AddressSanitizer's builds fail such a test when another thread ran in its process.
 */
#pragma once

#define ONE_THREAD "runs in one thread"
