/* Threads of a rank in tests. libgomp is not built with ThreadSanitizer, which cannot see its locks
 * and takes what a team does for races: there every rank has one thread. */
#ifndef TESTS_TEAM_H
#define TESTS_TEAM_H

#ifdef __SANITIZE_THREAD__
#define TEAM_OF(n) 1
#else
#define TEAM_OF(n) (n)
#endif

#endif
