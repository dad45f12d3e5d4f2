// SPDX-License-Identifier: Apache-2.0
#include "base/process_stat.hpp"

#include <unistd.h>

#include "catch.hpp"

using nacre::ProcessStat;

TEST_CASE("the fields of /proc/PID/stat are counted from behind the name, which may be anything") {
  auto stat = ProcessStat::parse(
      "7 (a (b) R 9) S 3 7 7 0 -1 4194304 90 80 0 0 11 12 13 14 20 0 5 0 4711 8000 21 18446744073709551615\n");
  REQUIRE(stat);
  CHECK(stat->name == "a (b) R 9");
  CHECK(stat->state == 'S');
  CHECK(stat->parent == 3);
  CHECK(stat->own_ticks() == 23);
  CHECK(stat->children_ticks() == 27);
  CHECK(stat->threads == 5);
  CHECK(stat->start == 4711);
  CHECK(stat->pages == 21);
}

TEST_CASE("what is no /proc/PID/stat is none") {
  for (const char* text : {"", "7", "7 (a", "7 (a)", "7 (a) ", "7 (a) S 1", ") S ( 1",
                           "7 (a) S 3 7 7 0 -1 4194304 90 80 0 0 11 12 13 14 20 0 5 0 4711 8000"}) {
    CAPTURE(text);
    CHECK_FALSE(ProcessStat::parse(text));
  }
}

TEST_CASE("the stat of a process of this host") {
  auto own = ProcessStat::of(::getpid());
  REQUIRE(own);
  CHECK(own->state == 'R');
  CHECK(own->parent == ::getppid());
  CHECK(own->threads >= 1);
  CHECK_FALSE(ProcessStat::of(0));
}
