// SPDX-License-Identifier: Apache-2.0
#include "record/bad_hosts.hpp"

#include "folder.hpp"

using namespace nacre::record;  // NOLINT
using nacre::kit::TemporaryFolder;

namespace {

constexpr double kNow = 1'800'000'000;
constexpr double kDay = 24 * 60 * 60;

}  // namespace

TEST_CASE("bad hosts are remembered for a week, and what is no note is passed over") {
  const std::string old = BadHostNote{kNow - 8 * kDay, "n1", "disk", "full"}.text();
  const std::string week = BadHostNote{kNow - 6 * kDay, "n2", "disk", "full"}.text();
  const std::string ahead = BadHostNote{kNow + kDay, "n3", "disk", "full"}.text();
  const auto read = BadHosts::parse(old + "\n" + week + "\n{\"host\":\"n9\"}\nnone\n" + ahead + "\n", kNow);
  REQUIRE(read.notes.size() == 1);
  CHECK(read.notes[0].text() == R"({"check":"disk","host":"n2","reason":"full","time":1799481600.0})");
}

TEST_CASE("notes of several jobs come together, the last of each host first in its summary") {
  TemporaryFolder folder;
  auto one = EntryDirectory::make(folder.path("one"));
  auto two = EntryDirectory::make(folder.path("two"));
  REQUIRE(one);
  REQUIRE(two);
  CHECK(BadHosts::read({folder.path("one"), folder.path("none")}, kNow).notes.empty());
  REQUIRE(BadHosts::add(*one, {{kNow - 30, "n1", "disk", "full"}, {kNow - 30, "n2", "gpu", "gone"}}, kNow));
  REQUIRE(BadHosts::add(*one, {{kNow - 10, "n1", "clock", "off"}}, kNow));
  REQUIRE(BadHosts::add(*two, {{kNow - 20, "n1", "memory", "short"}}, kNow));
  const auto read = BadHosts::read({folder.path("one"), folder.path("none"), folder.path("two")}, kNow);
  CHECK(read.notes.size() == 4);
  const auto hosts = read.by_host();
  REQUIRE(hosts.size() == 2);
  CHECK(hosts.at("n1").last.check == "clock");
  CHECK(hosts.at("n1").times == 3);
  CHECK(hosts.at("n2").last.reason == "gone");
  CHECK(one->names().empty());
}

TEST_CASE("a file of bad hosts that has grown long loses the oldest notes") {
  TemporaryFolder folder;
  auto directory = EntryDirectory::make(folder.path("jobs"));
  REQUIRE(directory);
  const std::string reason(2 * BadHosts::kMostReason, 'x');
  for (int i = 0; i < 40; ++i) {
    std::vector<BadHostNote> notes;
    for (int host = 0; host < 20; ++host)
      notes.push_back({kNow - 100 + i, "n" + std::to_string(host), "disk", reason});
    REQUIRE(BadHosts::add(*directory, notes, kNow));
  }
  auto text = directory->read_bad_hosts();
  REQUIRE(text);
  CHECK(text->size() <= BadHosts::kMostText);
  const auto read = BadHosts::read({folder.path("jobs")}, kNow);
  CHECK(read.notes.size() > 200);
  CHECK(read.notes.back().time == kNow - 61);
  CHECK(read.notes.back().reason.size() == BadHosts::kMostReason);
}
