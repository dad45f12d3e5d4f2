// SPDX-License-Identifier: Apache-2.0
//
// By our own PMI server. Tests with other servers are in t/e2e.
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>

#include "catch.hpp"

#include "base/file.hpp"
#include "boot/boot.hpp"
#include "folder.hpp"
#include "pmi/server.hpp"
#include "transport/address.hpp"
#include "variables_of.hpp"

using namespace nacre;        // NOLINT
using namespace nacre::kit;   // NOLINT
using namespace nacre::boot;  // NOLINT

namespace {

pmi::ClientGroup group_of(std::uint32_t size) {
  pmi::ClientGroup group;
  group.kvsname = "kvs";
  group.size = size;
  for (std::uint32_t rank = 0; rank < size; ++rank) group.ranks.push_back(rank);
  return group;
}

// Shells, each in its own thread, and their server, in the test's thread.
class Shells {
 public:
  explicit Shells(std::uint32_t size) : server_(group_of(size), names_) {
    for (std::uint32_t rank = 0; rank < size; ++rank) {
      int pair[2];
      REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
      sockets_.emplace_back(pair[0]);
      clients_.push_back(pair[1]);
      boots_.push_back(invalid("not started"));
    }
  }

  // Returns what each shell has found out. `change` changes its environment and request.
  std::vector<Result<Boot>>& run(std::map<std::string, std::string> more,
                                 const std::function<void(std::uint32_t, BootRequest&)>& change = {}) {
    std::vector<std::thread> threads;
    for (std::uint32_t rank = 0; rank < sockets_.size(); ++rank) {
      auto environment = more;
      environment["PMI_FD"] = std::to_string(clients_[rank]);
      environment["PMI_RANK"] = std::to_string(rank);
      environment["PMI_SIZE"] = std::to_string(sockets_.size());
      BootRequest request;
      request.version = "0.1.0";
      request.arity = 2;
      request.variables = variables_of(environment);
      if (change) change(rank, request);
      threads.emplace_back([this, rank, request] { boots_[rank] = boot::boot(request); });
    }
    serve();
    for (std::thread& each : threads) each.join();
    return boots_;
  }

 private:
  void serve() {
    for (std::size_t open = sockets_.size(); open > 0;) {
      std::vector<pollfd> states;
      for (const UniqueFd& each : sockets_) states.push_back({each.get(), POLLIN, 0});
      ::poll(states.data(), states.size(), -1);
      for (std::uint32_t rank = 0; rank < sockets_.size(); ++rank) {
        if ((states[rank].revents & (POLLIN | POLLHUP)) == 0) continue;
        char bytes[4096];
        ssize_t got = ::read(sockets_[rank].get(), bytes, sizeof bytes);
        if (got > 0) {
          server_.receive(rank, {bytes, static_cast<std::size_t>(got)});
        } else {
          server_.closed(rank);
          sockets_[rank].reset();
          --open;
        }
        answer();
      }
    }
  }

  void answer() {
    for (const pmi::Event& event : server_.take_events()) {
      if (std::holds_alternative<pmi::Fence>(event)) server_.fenced(pmi::Entries());
    }
    std::vector<std::uint32_t> pending;
    server_.take_pending(pending);
    for (std::uint32_t rank : pending) {
      std::string bytes = std::exchange(server_.output(rank), {});
      if (!sockets_[rank]) continue;
      CHECK(::send(sockets_[rank].get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
            static_cast<ssize_t>(bytes.size()));
    }
  }

  pmi::Names names_;
  pmi::Server server_;
  std::vector<UniqueFd> sockets_;
  std::vector<int> clients_;  // the shells' own
  std::vector<Result<Boot>> boots_;
};

}  // namespace

TEST_CASE("shells that a PMI server has started find each other") {
  TemporaryFolder folder;
  Shells shells(8);
  auto& boots = shells.run({{"TMPDIR", folder.path("")}},
                           [](std::uint32_t rank, BootRequest& request) { request.arity = rank == 0 ? 2 : 5; });
  for (std::uint32_t rank = 0; rank < 8; ++rank) {
    INFO(rank);
    CHECK(error_of(boots[rank]) == "no error");
    REQUIRE(boots[rank]->membership);
    CHECK(boots[rank]->how == fmt::format("pmi: PMI_FD is set: shell {} of 8", rank));
    const group::Membership& me = *boots[rank]->membership;
    const group::Membership& leader = *boots[0]->membership;
    CHECK(me.rank == rank);
    CHECK(me.size == 8);
    CHECK(me.arity == 2);  // shell 0's
    CHECK(me.job == leader.job);
    CHECK(boots[rank]->id == leader.job);
    CHECK(me.secret.hex() == leader.secret.hex());
    for (std::uint32_t other = 0; other < 8; ++other) {
      bool above = false;
      for (std::uint32_t each = rank; each > 0;) above = (each = (each - 1) / 2) == other || above;
      std::string text;
      for (const auto& each : me.directory.find(other)) text += (text.empty() ? "" : " ") + each.text();
      CHECK(text == (above ? boots[other]->membership->address : ""));
    }
  }
}

TEST_CASE("one shell of a PMI server is alone; the job's id is the manager's or what was asked for") {
  Shells one(1);
  auto& boots = one.run({{"FLUX_JOB_ID", "f3"}});
  REQUIRE(boots[0]);
  CHECK_FALSE(boots[0]->membership);
  CHECK(boots[0]->id == value::JobId::parse("f3").value());
  Shells two(2);
  auto& asked =
      two.run({{"FLUX_JOB_ID", "f3"}}, [](std::uint32_t, BootRequest& request) { request.id = value::JobId(5); });
  REQUIRE(asked[1]);
  CHECK(asked[1]->id == value::JobId(5));
}
