// CHECK: an invariant of ours that stays on in release builds.
//
// Where it does not hold the code is broken and what it would confirm cannot be trusted: the process aborts,
// and the slot makes the restart safe.
#pragma once

#include <cstdio>
#include <cstdlib>

#define CHECK(condition, what)                                                                             \
  do {                                                                                                     \
    if (!(condition)) [[unlikely]] {                                                                       \
      std::fprintf(stderr, "outbox-relay: broken invariant at %s:%d: %s (%s)\n", __FILE__, __LINE__, what, \
                   #condition);                                                                            \
      std::abort();                                                                                        \
    }                                                                                                      \
  } while (false)
