// SPDX-License-Identifier: Apache-2.0
//
// Barriers of some processes over nodes: three shells that all receive what each announces, in one order.
#include "plugins/pmi/group_fences.hpp"

#include "catch.hpp"

#include "fake_host.hpp"

using namespace nacre;
using plugins::PmiGroupFences;
using plugins::PmiGroupParts;

namespace {

// Shell 0 has ranks 0 and 1, shell 1 has 2 and 3, shell 2 has 4 and 5, shell 3 has none.
constexpr std::uint32_t kShells = 4;

value::Idset ranks_on(std::uint32_t shell) {
  return shell == 3 ? value::Idset() : value::Idset::range(2 * shell, 2 * shell + 1);
}

struct GroupShells {
  GroupShells() {
    for (std::uint32_t shell = 0; shell < kShells; ++shell) {
      fences.push_back(std::make_unique<PmiGroupFences>(
          shell, kShells - 1,
          PmiGroupFences::Calls{
              [this, shell](const std::string& group, const pmi::EntryRefs& keys) -> Result<void> {
                if (fails) return Error{EPIPE, "cut off"};
                pmi::Entries copy;
                for (const auto* each : keys) copy.emplace_back(each->first, each->second);
                announced.push_back({shell, group, std::move(copy)});
                return {};
              },
              ranks_on, [this](const pmi::BarrierGroup&) { return !held; }}));
      fences.back()->when_awaited([this, shell](const pmi::BarrierGroup& group) {
        awaited.push_back(fmt::format("{} waits for {}", group.name(), shell));
      });
    }
  }

  void fence(std::uint32_t shell, const std::string& group, const std::string& key = "") {
    std::pair<const std::string, std::string> entry{key, "v"};
    pmi::EntryRefs keys;
    if (!key.empty()) keys.push_back(&entry);
    fences[shell]->fence(pmi::BarrierGroup::parse(group, 6).value(), keys, [this, shell, group](auto others) {
      std::string line = fmt::format("{} open on {}:", group, shell);
      if (!others) line += " " + others.error().message;
      if (others) {
        for (const auto& [name, value] : *others) line += " " + name;
      }
      opened.push_back(line);
    });
  }
  // All shells receive what was announced.
  void deliver() {
    while (!announced.empty()) {
      Part part = announced.front();
      announced.erase(announced.begin());
      for (auto& each : fences) each->part(part.shell, part.group, part.keys);
    }
  }
  std::vector<std::string> take_opened() { return std::exchange(opened, {}); }
  std::vector<std::string> take_awaited() { return std::exchange(awaited, {}); }

  struct Part {
    std::uint32_t shell;
    std::string group;
    pmi::Entries keys;
  };
  std::vector<Part> announced;
  std::vector<std::unique_ptr<PmiGroupFences>> fences;
  std::vector<std::string> opened, awaited;
  bool fails = false;
  bool held = false;
};

using Lines = std::vector<std::string>;

}  // namespace

TEST_CASE("group fences: one opens on the shells that have some of it, with the others' keys") {
  GroupShells job;
  job.fence(0, "0,1,5:1", "a");
  job.deliver();
  CHECK(job.take_opened().empty());
  CHECK(job.take_awaited() == Lines{"0-1,5:1 waits for 2"});
  job.fence(2, "0,1,5:1", "b");
  job.deliver();
  CHECK(job.take_opened() == Lines{"0,1,5:1 open on 0: b", "0,1,5:1 open on 2: a"});
  CHECK(job.take_awaited().empty());
}

TEST_CASE("group fences: of this shell alone nothing is announced") {
  GroupShells job;
  job.fence(0, "0,1:1", "a");
  job.fence(1, "NODE:1", "b");
  CHECK(job.announced.empty());
  CHECK(job.take_opened() == Lines{"0,1:1 open on 0:", "NODE:1 open on 1:"});
}

TEST_CASE("group fences: WORLD is of all that have processes") {
  GroupShells job;
  for (std::uint32_t shell : {2, 0, 1}) {
    CHECK(job.take_opened().empty());
    job.fence(shell, "WORLD:1");
    job.deliver();
  }
  CHECK(job.take_opened() == Lines{"WORLD:1 open on 0:", "WORLD:1 open on 1:", "WORLD:1 open on 2:"});
}

TEST_CASE("group fences: several at a time, and one again before the others have opened it") {
  GroupShells job;
  job.fence(0, "0,2:1", "a");
  job.fence(0, "0,2:2", "b");
  job.fence(1, "0,2:2");
  job.deliver();
  CHECK(job.take_opened() == Lines{"0,2:2 open on 0:", "0,2:2 open on 1: b"});
  job.take_awaited();
  job.fence(1, "0,2:1", "c");
  // Shell 0 receives first, and is in the next fence before shell 1 has opened this one.
  auto part = job.announced.front();
  job.announced.clear();
  job.fences[0]->part(1, part.group, part.keys);
  CHECK(job.take_opened() == Lines{"0,2:1 open on 0: c"});
  job.fence(0, "0,2:1", "d");
  job.fences[1]->part(1, part.group, part.keys);
  CHECK(job.take_opened() == Lines{"0,2:1 open on 1: a"});
  job.deliver();
  CHECK(job.take_awaited() == Lines{"0,2:1 waits for 1"});
  job.fence(1, "0,2:1");
  job.deliver();
  CHECK(job.take_opened() == Lines{"0,2:1 open on 0:", "0,2:1 open on 1: d"});
}

TEST_CASE("group fences: who has gone is not waited for, and nothing opens while that is to be decided") {
  GroupShells job;
  job.fence(0, "0,2,4:1");
  job.fence(1, "0,2,4:1");
  job.held = true;
  job.deliver();
  for (auto& each : job.fences) each->gone(2);
  CHECK(job.take_opened().empty());
  job.held = false;
  for (auto& each : job.fences) each->settle_all();
  CHECK(job.take_opened() == Lines{"0,2,4:1 open on 0:", "0,2,4:1 open on 1:"});
  job.fence(0, "0,4:1");
  job.deliver();
  CHECK(job.take_opened() == Lines{"0,4:1 open on 0:"});
}

TEST_CASE("group fences: an error of one is that of all, and who is cut off has its own") {
  GroupShells job;
  job.fence(0, "0,2:1", "a");
  job.fence(1, "0,2:1", "b");
  for (auto& each : job.fences) each->part(0, "0,2:1", Error{EMSGSIZE, "too many keys"});
  for (auto& each : job.fences) each->part(1, "0,2:1", pmi::Entries());
  CHECK(job.take_opened() == Lines{"0,2:1 open on 0: too many keys", "0,2:1 open on 1: too many keys"});
  job.announced.clear();
  job.fails = true;
  job.fence(0, "0,2:2");
  CHECK(job.take_opened() == Lines{"0,2:2 open on 0: cut off"});
}

TEST_CASE("group fences: what is no group, or of no shell, is passed over; who listens late is told") {
  GroupShells job;
  job.fences[0]->part(1, "nonsense", pmi::Entries());
  job.fences[0]->part(9, "0,2:1", pmi::Entries());
  CHECK(job.take_awaited().empty());
  PmiGroupFences late(1, kShells - 1, {nullptr, ranks_on});
  late.part(0, "0,2:1", pmi::Entries());
  std::string told;
  late.when_awaited([&](const pmi::BarrierGroup& group) { told += group.name(); });
  CHECK(told == "0,2:1");
}

TEST_CASE("group parts: those of an exchange that is not there yet wait for it") {
  kit::FakeHost host(1);
  PmiGroupParts parts(host);
  std::pair<const std::string, std::string> entry{"key", "a value"};
  REQUIRE(parts.announce("pmi.2", "0,2:1", {&entry}));
  REQUIRE(parts.announce("pmi", "0,2:2", {}));
  Lines got;
  auto receive = [&](std::uint32_t shell, const std::string& group, const Result<pmi::Entries>& keys) {
    got.push_back(
        fmt::format("{} {} {}", shell, group, keys ? std::to_string(keys->size()) : keys.error().message));
  };
  parts.listen("pmi.2", receive);
  CHECK(got == Lines{"0 0,2:1 1"});
  const std::pair<const std::string, std::string> large{"key", std::string(pmi::kMaxEntries, 'x')};
  REQUIRE(parts.announce("pmi.2", "0,2:1", {&large}));
  CHECK(got.back() == "0 0,2:1 too many keys");
  parts.ignore("pmi.2");
  REQUIRE(parts.announce("pmi.2", "0,2:3", {}));
  CHECK(got.size() == 2);
  host.announced("pmi.group", "nonsense");
  host.announced("pmi.other", "");
  CHECK(got.size() == 2);
}
