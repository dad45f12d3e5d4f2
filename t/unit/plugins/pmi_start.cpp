// SPDX-License-Identifier: Apache-2.0
//
// What PMI tells of a job when its tasks start, and when all of them start again.
#include "catch.hpp"

#include "fake_host.hpp"
#include "plugins/pmi/start.hpp"

using namespace nacre;
using plugins::PmiOptions;
using plugins::PmiStart;

namespace {

// Two nodes with a core and a task each.
struct Two {
  explicit Two(std::uint32_t shell) : host(kit::jobspec_of(2), kit::fake_nodes(2, 1), shell) {}
  // A shell joins the job, with this many cores.
  void grow(std::uint32_t cores) {
    host.mutable_job().grow({{0, "later", value::Idset::range(0, cores - 1), {}, {}}});
  }
  void move(std::uint32_t rank, std::uint32_t from, std::uint32_t to) {
    host.mutable_job().move({value::Idset::range(rank, rank), from, to, 2});
  }

  kit::FakeHost host;
  pmi::Quota quota;
  pmi::Names names;
};

// What the first client is answered.
std::string ask(pmi::Server& server, std::string_view line) {
  server.output(0).clear();
  server.receive(0, fmt::format("{}\n", line));
  return server.output(0);
}

}  // namespace

TEST_CASE("the first start of a job's tasks: a shell that joins later takes no part in it") {
  Two two(1);
  two.host.start_tasks();
  PmiStart start = PmiStart::of_job(two.host);
  CHECK(start.takes_part);
  CHECK(start.last == 1);
  pmi::ClientGroup group = start.group(two.host, PmiOptions(), two.quota);
  CHECK(group.kvsname == two.host.job().f58());
  CHECK(group.ranks == std::vector<std::uint32_t>{1});
  CHECK(group.size == 2);
  CHECK_FALSE(group.universe_size);
  two.host.is_newcomer = true;
  start = PmiStart::of_job(two.host);
  CHECK_FALSE(start.takes_part);
  CHECK(start.group(two.host, PmiOptions(), two.quota).ranks.empty());
}

TEST_CASE("pmi.universe: a number, what the job has room for, or none") {
  Two two(0);
  auto with = [&two](const char* argument) {
    REQUIRE(two.host.options().set_from_argument(argument));
    return PmiStart::of_job(two.host).universe_size;
  };
  CHECK(with("pmi.universe=7") == 7U);
  CHECK(with("pmi.universe=system") == 2U);
  CHECK_FALSE(with("pmi.universe=infinite"));
  REQUIRE(two.host.options().set_from_argument("pmi.universe=many"));
  CHECK(PmiOptions::read(two.host.options()).error().message ==
        "pmi.universe: expected a number from 1 to 2147483647, system or infinite, got \"many\"");
}

TEST_CASE("all start again: those that have come from a lost shell by then are processes, and have its place") {
  Two two(1);
  two.host.start_tasks();
  two.grow(3);
  CHECK_FALSE(PmiStart::again(two.host).universe_size);  // a spare gives no room
  two.move(0, 0, 2);
  two.host.with_tasks = 2;
  two.host.mutable_job().start_again(value::Idset::range(0, 1));
  PmiStart start = PmiStart::again(two.host);
  two.move(1, 1, 2);  // a later move: no room until all start again once more
  CHECK(start.number == 3);
  CHECK(start.takes_part);
  CHECK(start.last == 2);
  CHECK(start.universe_size == 4U);
  pmi::ClientGroup group = start.group(two.host, PmiOptions(), two.quota);
  CHECK(group.kvsname.ends_with("_3"));
  CHECK(group.ranks == std::vector<std::uint32_t>{1});
  pmi::Server server(std::move(group), two.names);
  start.set_attributes(server, PmiOptions());
  ask(server, "cmd=init pmi_version=1 pmi_subversion=1");
  auto value_of = [&](std::string_view key) {
    return ask(server, fmt::format("cmd=get kvsname={} key={}", server.group().kvsname, key));
  };
  CHECK(value_of("PMI_process_mapping").ends_with("value=(vector,(1,1,1),(0,1,1))\n"));
  CHECK(value_of("flux.taskmap").ends_with("value=[[2,1,1,1],[1,1,1,1]]\n"));
}

TEST_CASE("all start again: a shell behind the last one with tasks takes no part") {
  Two two(1);
  two.host.with_tasks = 0;
  PmiStart start = PmiStart::again(two.host);
  CHECK_FALSE(start.takes_part);
  CHECK(start.ranks_here(two.host).empty());
}
