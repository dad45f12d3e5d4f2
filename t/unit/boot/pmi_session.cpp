// SPDX-License-Identifier: Apache-2.0
//
// With servers that answer badly, late or never. Good ones are in t/e2e/pmi_managers.bats.
#include "boot/pmi_session.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <thread>

#include "catch.hpp"

using namespace nacre;        // NOLINT
using namespace nacre::boot;  // NOLINT

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
