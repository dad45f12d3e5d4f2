// SPDX-License-Identifier: Apache-2.0
//
// The port of PMI: who may connect, and how the first words are judged. Connections are real ones of this user.
#include "plugins/pmi/port.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "catch.hpp"

#include "base/text.hpp"

using namespace nacre;
using plugins::PmiPort;

namespace {

struct Caller {
  UniqueFd fd{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};

  explicit Caller(const PmiPort& port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const std::string& text = port.address();
    address.sin_port = htons(static_cast<std::uint16_t>(*parse_u64(text.substr(text.find(':') + 1))));
    REQUIRE(::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  }
  void say(std::string_view text) const {
    REQUIRE(::send(fd.get(), text.data(), text.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(text.size()));
  }
  [[nodiscard]] std::string hear() const {
    char buffer[1024];
    ssize_t size = ::recv(fd.get(), buffer, sizeof buffer, MSG_DONTWAIT);
    return size < 0 ? "nothing" : size == 0 ? "end" : std::string(buffer, static_cast<std::size_t>(size));
  }
};

struct PortWorld {
  explicit PortWorld(bool pmi2 = true)
      : port(PmiPort::open(*loop, pmi2, [this](const std::string& line) { refused.push_back(line); }).value()) {}

  std::int32_t expect(std::uint32_t rank, std::uint32_t size) {
    return port
        ->expect(rank, size,
                 [this, rank](UniqueFd connection, bool is_greeted, const std::string& text) {
                   admitted.push_back(std::move(connection));
                   said.push_back(fmt::format("{} {} {}", rank, is_greeted, text));
                 })
        .value();
  }

  std::unique_ptr<event::Loop> loop = event::Loop::create().value();
  std::vector<std::string> refused;
  std::vector<UniqueFd> admitted;
  std::vector<std::string> said;
  std::unique_ptr<PmiPort> port;
};

constexpr std::string_view kInit2 = "cmd=init pmi_version=2 pmi_subversion=0\n";

std::string fullinit_of(std::string_view key, std::int32_t id) {
  std::string body = fmt::format("cmd=fullinit;{}={};threaded=FALSE;", key, id);
  return fmt::format("{:<6}{}", body.size(), body);
}

}  // namespace

TEST_CASE("pmi port: PMI-1 introduces itself, and what follows is for the server") {
  PortWorld world;
  auto id = world.expect(5, 8);
  Caller caller(*world.port);
  caller.say("cmd=initack pmi");
  world.port->look();
  CHECK(world.said.empty());
  caller.say(fmt::format("id={}\ncmd=init pmi_v", id));
  world.port->look();
  CHECK(caller.hear() == "cmd=initack rc=0\ncmd=set size=8\ncmd=set rank=5\ncmd=set debug=0\n");
  CHECK(world.said == std::vector<std::string>{"5 false cmd=init pmi_v"});
  CHECK(world.refused.empty());
}

TEST_CASE("pmi port: PMI-2 is greeted first, and says who it is in fullinit") {
  for (const char* key : {"pmirank", "srcid"}) {
    PortWorld world;
    const std::string fullinit = fullinit_of(key, world.expect(5, 8)) + "12    cmd";
    Caller caller(*world.port);
    caller.say(kInit2);
    world.port->look();
    CHECK(caller.hear() == "cmd=response_to_init pmi_version=2 pmi_subversion=0 rc=0\n");
    caller.say(fullinit);
    world.port->look();
    CHECK(caller.hear() == "nothing");
    CHECK(world.said == std::vector<std::string>{"5 true " + std::string(kInit2) + fullinit});
  }
}

// The log line for a client that connects and sends this. {0} and {1}: wrong parts of the PMI_ID.
std::string refusal(std::string_view text, bool pmi2 = true) {
  PortWorld world(pmi2);
  const std::int64_t id = world.expect(0, 1);
  Caller caller(*world.port);
  caller.say(fmt::format(fmt::runtime(text), id ^ 1, id + (std::int64_t{1} << 32)));
  world.port->look();
  CHECK(world.said.empty());
  REQUIRE(world.refused.size() == 1);
  return world.refused[0].substr(world.refused[0].find("process"));
}

TEST_CASE("pmi port: who does not give the PMI_ID of one that may is refused with a line") {
  CHECK(refusal("cmd=initack pmiid={0}\n") == "process connects whose PMI_ID is not that of one that may: refused");
  CHECK(refusal("cmd=initack pmiid={1}\n") == "process connects whose PMI_ID is not that of one that may: refused");
  CHECK(refusal("cmd=initack pmiid=-1\n") == "process connects whose PMI_ID is not that of one that may: refused");
  CHECK(refusal("cmd=initack pmiid=me\n") ==
        "process connects: initack: pmiid: expected a number, got 'me': refused");
  CHECK(refusal("cmd=get_maxes\n") == "process connects: get_maxes: no field 'pmiid': refused");
  CHECK(refusal("GET / HTTP/1.0\n") == "process connects: expected cmd=NAME, got 'GET / HTTP/1.0': refused");
  CHECK(refusal(std::string(4096, 'a')) == "process connects, and gives no PMI_ID: refused");
  CHECK(refusal("cmd=init pmi_version=1 pmi_subversion=1\n") ==
        "process connects, and gives no PMI_ID in its first message: refused");
  CHECK(refusal(std::string(kInit2) + "20    cmd=fullinit;pmirank") ==
        "process connects: fullinit: pmirank: expected a number, got '': refused");
  CHECK(refusal(kInit2, false) == "process connects, and gives no PMI_ID in its first message: refused");
}

TEST_CASE("pmi port: a PMI_ID counts once, and not once it is forgotten") {
  PortWorld world;
  auto first = world.expect(0, 2);
  auto second = world.expect(1, 2);
  CHECK(first >= 0);
  CHECK(second >= 0);
  CHECK(first != second);
  world.port->forget(second);
  using Try = std::pair<std::int32_t, std::size_t>;
  for (auto [id, count] : {Try{second, 0}, Try{first, 1}, Try{first, 1}}) {
    Caller caller(*world.port);
    caller.say(fmt::format("cmd=initack pmiid={}\n", id));
    world.port->look();
    CHECK(world.said.size() == count);
  }
  CHECK(world.refused.size() == 1);  // the same line twice
}
