// SPDX-License-Identifier: Apache-2.0
//
// With servers that answer badly, late or never. Good ones are in t/e2e/pmi_managers.bats.
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>

#include "base/file.hpp"
#include "boot/boot.hpp"
#include "boot/pmi_session.hpp"
#include "folder.hpp"
#include "pmi/server.hpp"
#include "transport/address.hpp"
#include "variables_of.hpp"

using namespace nacre;        // NOLINT
using namespace nacre::boot;  // NOLINT
using namespace nacre::kit;   // NOLINT

namespace {

const std::vector<std::string> kGreetings{"cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n",
                                          "cmd=maxes kvsname_max=64 keylen_max=64 vallen_max=64\n",
                                          "cmd=my_kvsname kvsname=space\n"};

// Answers each line with the next of its answers; after the last one it closes the connection, or is silent.
class Server {
 public:
  Server(std::vector<std::string> answers, bool closes) {
    int pair[2];
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
    client_ = pair[0];
    thread_ =
        std::thread([this, fd = pair[1], answers = std::move(answers), closes] { serve(fd, answers, closes); });
  }
  ~Server() {
    if (thread_.joinable()) thread_.join();
  }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // The server's client, which closes the connection in the end.
  Result<PmiSession> open(double timeout = PmiSession::kTimeout) const {
    std::map<std::string, std::string> set{
        {"PMI_FD", std::to_string(client_)}, {"PMI_RANK", "1"}, {"PMI_SIZE", "2"}};
    return PmiSession::open([&](const char* name) { return std::optional(set.at(name)); }, timeout);
  }
  // Waits until the client has gone.
  std::vector<std::string> heard() {
    thread_.join();
    return heard_;
  }

 private:
  void serve(int fd, const std::vector<std::string>& answers, bool closes) {
    UniqueFd socket(fd);
    std::string line;
    std::size_t next = 0;
    for (char byte = 0; ::read(fd, &byte, 1) == 1;) {
      line += byte;
      if (byte != '\n') continue;
      heard_.push_back(std::exchange(line, {}));
      if (next == answers.size() && closes) return;
      if (next == answers.size()) continue;
      const std::string& answer = answers[next++];
      // In two pieces, as a stream may come.
      std::size_t half = answer.size() / 2;
      if (::send(fd, answer.data(), half, MSG_NOSIGNAL) < 0) return;
      if (::send(fd, answer.data() + half, answer.size() - half, MSG_NOSIGNAL) < 0) return;
    }
  }

  int client_ = -1;
  std::vector<std::string> heard_;
  std::thread thread_;
};

std::vector<std::string> greeted(std::vector<std::string> answers) {
  answers.insert(answers.begin(), kGreetings.begin(), kGreetings.end());
  return answers;
}

template <typename T>
std::string message_of(const Result<T>& result) {
  return result ? "no error" : result.error().message;
}

}  // namespace

TEST_CASE("a session knows its rank and size, puts and gets") {
  Server server(greeted({"cmd=put_result rc=0\n", "cmd=barrier_out\n", "cmd=get_result rc=0 value=v\n",
                         "cmd=finalize_ack\n"}),
                true);
  auto session = server.open();
  REQUIRE(session);
  CHECK(session->rank() == 1);
  CHECK(session->size() == 2);
  CHECK(session->put("k", "v"));
  CHECK(session->barrier());
  CHECK(session->get("k") == "v");
  CHECK(session->finalize());
}

TEST_CASE("a long value goes under several keys, each within the server's limit") {
  // A value has 64 bytes with the NUL: 56 digits, which are 28 bytes, and the number of parts.
  Server server(greeted({"cmd=put_result rc=0\n", "cmd=put_result rc=0\n", "cmd=put_result rc=0\n"}), true);
  {
    auto session = server.open();
    REQUIRE(session);
    REQUIRE(session->put_long("k", std::string(57, 'a')));
  }
  std::vector<std::string> heard = server.heard();
  REQUIRE(heard.size() == 6);
  std::string digits;
  for (int i = 0; i < 28; ++i) digits += "61";
  CHECK(heard[3] == fmt::format("cmd=put kvsname=space key=k.0 value=3:{}\n", digits));
  CHECK(heard[4] == fmt::format("cmd=put kvsname=space key=k.1 value={}\n", digits));
  CHECK(heard[5] == "cmd=put kvsname=space key=k.2 value=61\n");
}

TEST_CASE("a long value that is none is refused") {
  auto got = [](const std::string& first, const std::string& second) {
    Server server(
        greeted({"cmd=get_result rc=0 value=" + first + "\n", "cmd=get_result rc=0 value=" + second + "\n"}), true);
    return message_of(server.open()->get_long("k"));
  };
  CHECK(got("2:61", "62") == "no error");
  CHECK(got("61", "") == "PMI: k has no number of parts: '61'");
  CHECK(got("0:", "") == "PMI: k has no number of parts: '0:'");
  CHECK(got("4097:61", "") == "PMI: k has no number of parts: '4097:61'");
  CHECK(got("2:61", "6g") == "k: expected hexadecimal digits, got '616g'");
  CHECK(got("2:61", "6") == "k: expected hexadecimal digits, got '616'");
}

TEST_CASE("what the server refuses is said in its words, and the session goes on") {
  Server server(greeted({"cmd=get_result rc=-1 msg=no_such_key\n", "cmd=get_result rc=0 value=v\n"}), true);
  auto session = server.open();
  REQUIRE(session);
  CHECK_THAT(message_of(session->get("k")), Catch::Matchers::ContainsSubstring("no_such_key"));
  CHECK(session->get("k") == "v");
}

TEST_CASE("a server that is gone, or that says something else, is an error") {
  {
    Server server({}, true);
    CHECK_THAT(message_of(server.open()), Catch::Matchers::StartsWith("PMI: "));
  }
  {
    Server server({"hello\n"}, true);
    CHECK_THAT(message_of(server.open()), Catch::Matchers::StartsWith("PMI: "));
  }
  Server server(greeted({}), true);
  auto session = server.open();
  REQUIRE(session);
  CHECK_THAT(message_of(session->barrier()), Catch::Matchers::StartsWith("PMI: "));
  CHECK_THAT(message_of(session->barrier()), Catch::Matchers::StartsWith("PMI: "));
}

TEST_CASE("a server that does not answer is waited for only so long") {
  Server server({}, false);
  CHECK(message_of(server.open(0.05)) == "PMI: no answer within 0.05 s; have all shells of the job been started?");
}

TEST_CASE("a barrier ends before its time, and the job with it, where it is known that not all will come") {
  Server server(greeted({}), false);
  int asked = 0;
  {
    auto session = server.open();
    REQUIRE(session);
    auto doubt = [&asked]() { return ++asked < 2 ? std::nullopt : std::optional(Error{ECHILD, "one has ended"}); };
    CHECK(message_of(session->barrier(doubt)) == "one has ended");
  }
  CHECK(asked == 2);
  std::vector<std::string> heard = server.heard();
  REQUIRE(heard.size() == 5);
  CHECK_THAT(heard[4], Catch::Matchers::StartsWith("cmd=abort exitcode=1"));
}

TEST_CASE("a barrier with a doubt waits no longer than another") {
  Server server(greeted({}), false);
  auto session = server.open(0.05);
  REQUIRE(session);
  auto doubt = []() { return std::optional(Error{ECHILD, "never asked"}); };
  CHECK_THAT(message_of(session->barrier(doubt)), Catch::Matchers::ContainsSubstring("no answer within 0.05 s"));
}

// With command lines of mpiexec.hydra 4.0. The program itself: t/cluster/managers.bats.

namespace {

Words local(const std::string& id, const std::string& group = "0") {
  return {"/usr/bin/hydra_pmi_proxy", "--control-port", "node0:46167", "--pgid", group, "--proxy-id", id};
}

Words remote(const std::string& id, const std::string& host) {
  Words out{"/usr/bin/ssh", "-x", host, "\"/usr/bin/hydra_pmi_proxy\""};
  Words rest = local(id);
  out.insert(out.end(), rest.begin() + 1, rest.end());
  return out;
}

HydraProxies three() { return HydraProxies(3, 1, local("0")); }

}  // namespace

TEST_CASE("the number of proxies is that of the nodes in the mapping") {
  CHECK(proxies_in_mapping("(vector,(0,4,1))") == 4);
  CHECK(proxies_in_mapping("(vector,(0,4,2),(4,1,1))") == 5);
  CHECK(proxies_in_mapping("(vector,(0,1,8),(0,1,8))") == 1);
  for (const char* bad :
       {"", "(vector)", "(vector,(0,4", "(vector,(a,4,1))", "(vector,(0,99999999999,1))", "node0,node1"})
    CHECK_FALSE(proxies_in_mapping(bad));
}

TEST_CASE("a proxy that has ended is reported with its host once nothing has changed for a while") {
  HydraProxies proxies = three();
  CHECK_FALSE(proxies.ended({local("0"), remote("1", "node1"), remote("2", "node2")}, 10));
  CHECK_FALSE(proxies.ended({local("0"), remote("2", "node2")}, 11));
  CHECK_FALSE(proxies.ended({local("0"), remote("2", "node2")}, 12.5));
  auto said = proxies.ended({local("0"), remote("2", "node2")}, 13);
  REQUIRE(said);
  CHECK_THAT(*said, Catch::Matchers::ContainsSubstring("proxy 1 on node1"));
}

TEST_CASE("proxies that are still being started are not reported") {
  HydraProxies proxies = three();
  CHECK_FALSE(proxies.ended({local("0")}, 10));
  CHECK_FALSE(proxies.ended({local("0"), remote("1", "node1")}, 11.9));
  CHECK_FALSE(proxies.ended({local("0"), remote("1", "node1"), remote("2", "node2")}, 13.8));
  CHECK_FALSE(proxies.ended({local("0"), remote("1", "node1"), remote("2", "node2")}, 100));
}

TEST_CASE("what does not show each proxy tells nothing") {
  HydraProxies proxies = three();
  for (double now : {10.0, 20.0}) {
    CHECK_FALSE(proxies.ended({}, now));
    CHECK_FALSE(proxies.ended({{"srun", "-N", "3", "hydra_pmi_proxy", "--pgid", "0", "--proxy-id", "-1"}}, now));
    CHECK_FALSE(proxies.ended({local("0"), remote("1", "node1"), remote("7", "node2")}, now));
    CHECK_FALSE(proxies.ended({local("0", "1"), {"sleep", "9"}, {}}, now));
  }
}

TEST_CASE("only a proxy has proxies beside it") {
  CHECK_FALSE(HydraProxies::find(::getpid(), 3));
  CHECK_FALSE(HydraProxies::find(0, 3));
}

// By our own PMI server. Tests with other servers are in t/e2e.

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
