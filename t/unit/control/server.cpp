// SPDX-License-Identifier: Apache-2.0
//
// Server and Client over real sockets. The clients run in another process, as they wait.
#include "control/server.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "control/client.hpp"
#include "event/clock.hpp"
#include "folder.hpp"

using namespace nacre::control;  // NOLINT
using nacre::Json;
using nacre::Result;
using nacre::UniqueFd;
using nacre::event::Seconds;
using nacre::kit::TemporaryFolder;

namespace {

// A server that answers `echo` with its arguments, `parts` in three parts, `much` with a megabyte, and `never` not
// at all; `cat` sends back the data that it gets, until the end of it; `overrun` sends more than the client takes.
struct World {
  explicit World(Seconds hello_time = ControlServer::kHelloTime) : loop(nacre::event::Loop::create().value()) {
    ControlServer::Callbacks callbacks;
    callbacks.on_request = [this](ControlServer::ClientId client, const ControlRequest& request) {
      if (request.action == "echo") {
        server->answer(client, request.id, request.arguments);
        ++answered;
      }
      if (request.action == "much") {
        ++much_asked;
        server->answer(client, request.id, Json(std::string(1000000, 'x')));
      }
      if (request.action == "cat") server->grant(client, request.id, 1000);
      if (request.action == "overrun") overrun(client, request);
      if (request.action != "parts") return;
      for (int part : {1, 2}) server->answer_part(client, request.id, part);
      server->answer(client, request.id, Json(3));
    };
    callbacks.on_gone = [this](ControlServer::ClientId) { ++gone; };
    callbacks.on_data = [this](ControlServer::ClientId client, StreamData data) {
      echoed += data.data;
      echo(client, data.id);
    };
    callbacks.on_end = [this](ControlServer::ClientId client, const StreamEnd& end) {
      is_last = true;
      echo(client, end.id);
    };
    callbacks.on_room = [this](ControlServer::ClientId client, std::uint64_t id) { echo(client, id); };
    server = ControlServer::create(*loop, folder.path(""), "2.0", std::move(callbacks), hello_time).value();
  }

  // Sends as much as there is room for.
  void echo(ControlServer::ClientId client, std::uint64_t id) {
    while (!echoed.empty()) {
      std::string piece = echoed.substr(0, std::max<std::size_t>(server->room(client, id), 1));
      if (!server->put(client, {id, "out", piece, {{"n", ++pieces}}})) return;
      server->grant(client, id, piece.size());
      echoed.erase(0, piece.size());
    }
    if (!is_last) return;
    server->put_end(client, {id, "out"});
    server->answer(client, id, Json(7));
  }
  void overrun(ControlServer::ClientId client, const ControlRequest& request) {
    REQUIRE(server->put(client, {request.id, "out", "12345"}));
    server->answer_part(client, request.id, 1);
  }

  // Runs `client` in another process, and the loop until that ends; returns its result.
  int run(const std::function<int(const std::string& address)>& client) {
    pid_t pid = ::fork();
    if (pid == 0) ::_exit(client(server->address()));
    int status = 0;
    bool ended = serve_until([&] { return ::waitpid(pid, &status, WNOHANG) == pid; });
    return ended && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  bool serve_until(const std::function<bool()>& done) {
    bool late = false;
    auto tick = nacre::event::Timer::create(*loop, [] {}).value();
    tick.start(Seconds(0.005), Seconds(0.005));
    auto limit = nacre::event::Timer::create(*loop, [&] { late = true; }).value();
    limit.start(Seconds(60));
    loop->run_until([&] { return late || done(); });
    return !late;
  }
  UniqueFd connected() const {
    auto fd = Client::connect(server->address());
    REQUIRE(fd);
    return std::move(*fd);
  }

  TemporaryFolder folder;
  std::unique_ptr<nacre::event::Loop> loop;
  std::unique_ptr<ControlServer> server;
  int gone = 0;
  int answered = 0;    // of `echo`
  int much_asked = 0;  // of `much`
  std::string echoed;  // not yet
  int pieces = 0;
  bool is_last = false;
};

}  // namespace

TEST_CASE("a client asks, and gets answers, parts and events", "[control]") {
  World world;
  CHECK(world.run([](const std::string& address) {
    auto client = Client::dial(address, "1.0");
    if (!client) return 10;
    auto echoed = client->ask("echo", {{"a", 1}});
    if (!echoed || *echoed != Json{{"a", 1}}) return 11;
    std::vector<Json> parts;
    auto last = client->ask("parts", Json::object(), [&](const Json& part) { parts.push_back(part); });
    if (!last || parts != std::vector<Json>{1, 2, 3}) return 12;
    return 0;
  }) == 0);
  CHECK(world.serve_until([&] { return world.server->clients() == 0; }));
  CHECK(world.gone == 1);
}

TEST_CASE("who is not answered in time gives up with clear words", "[control]") {
  World world;
  CHECK(world.run([](const std::string& address) {
    auto client = Client::dial(address, "1.0", Seconds(0.2));
    while (!client && client.error().code == ETIMEDOUT) client = Client::dial(address, "1.0", Seconds(0.2));
    if (!client) return 10;
    auto never = client->ask("never");
    return !never && never.error().code == ETIMEDOUT && never.error().message == "it does not answer within 0.2 s"
               ? 0
               : 11;
  }) == 0);
}

TEST_CASE("a server that stands still is given up", "[control]") {
  World world;
  auto client = Client::dial(world.server->address(), "1.0", Seconds(0.1));  // no loop serves the server
  REQUIRE_FALSE(client);
  CHECK(client.error().code == ETIMEDOUT);
}

TEST_CASE("all clients get the events", "[control]") {
  World world;
  pid_t pid = ::fork();
  if (pid == 0) {
    auto client = Client::dial(world.server->address(), "1.0");
    if (!client || !client->ask("echo")) ::_exit(10);
    auto event = client->next_event();
    bool good = event && *event && (*event)->name == "end" && (*event)->context["code"] == 3;
    auto over = client->next_event(nacre::event::clock_now() + Seconds(30));
    ::_exit(good && over && !*over ? 0 : 11);
  }
  REQUIRE(world.serve_until([&] { return world.answered == 1; }));  // the event comes behind that
  world.server->notify({1, "end", {{"code", 3}}});
  REQUIRE(world.serve_until([&] { return world.server->flushed(); }));
  world.server.reset();
  int status = 0;
  REQUIRE(::waitpid(pid, &status, 0) == pid);
  CHECK(WEXITSTATUS(status) == 0);
}

TEST_CASE("a client that is refused before it has sent its hello gets the reason", "[control]") {
  int ends[2];
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
  UniqueFd from(ends[0]);
  UniqueFd to(::dup(ends[0]));
  std::string line = line_of(ControlHello{"2.0", "full"});
  REQUIRE(::send(ends[1], line.data(), line.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(line.size()));
  REQUIRE(::close(ends[1]) == 0);
  auto client = Client::over(std::move(from), std::move(to), "1.0", Seconds(5));
  REQUIRE_FALSE(client);
  CHECK(client.error().code == ECONNREFUSED);
  CHECK(client.error().message == "full");
}

namespace {

// Sends `text` to `cat`, and takes what comes, `step` bytes of credit at a time. Returns what has come, or an
// error's text.
std::string through_cat(Client& client, std::string_view text, std::uint64_t step) {
  std::uint64_t id = client.begin("cat", Json::object(), step);
  std::string out;
  std::size_t sent = 0;
  bool is_ended = false;
  for (;;) {
    while (sent < text.size() && client.may_send(id) > 0) {
      std::string_view piece = text.substr(sent, client.may_send(id));
      if (client.put({id, "in", std::string(text) + "too much"})) return "it takes too much";
      if (!client.put({id, "in", std::string(piece)})) return "it does not take what it grants";
      sent += piece.size();
      if (sent == text.size()) client.put_end({id, "in"});
    }
    pollfd ready{client.receives_from(), static_cast<short>(client.has_unsent() ? POLLIN | POLLOUT : POLLIN), 0};
    if (::poll(&ready, 1, 30000) != 1) return "nothing comes";
    if (Result<void> good = client.exchange(); !good) return good.error().message;
    for (;;) {
      auto frame = client.take();
      if (!frame) return frame.error().message;
      if (!*frame) break;
      if (auto* data = std::get_if<StreamData>(&**frame)) {
        out += data->data;
        client.grant(id, data->data.size());
      }
      if (std::holds_alternative<StreamEnd>(**frame)) is_ended = true;
      if (auto* answer = std::get_if<Answer>(&**frame))
        return is_ended && answer->value == 7 ? out : "another answer";
    }
  }
}

}  // namespace

TEST_CASE("data goes both ways within its credit, and an answer comes after it", "[control]") {
  World world;
  CHECK(world.run([](const std::string& address) {
    auto client = Client::dial(address, "1.0");
    if (!client) return 10;
    std::string text;
    for (int i = 0; i < 30000; ++i) text += std::to_string(i) + '\xff';
    return through_cat(*client, text, 500) == text ? 0 : 11;
  }) == 0);
  CHECK(world.pieces > 300);
}

TEST_CASE("a client that waits for another answer keeps the frames of a stream", "[control]") {
  World world;
  CHECK(world.run([](const std::string& address) {
    auto client = Client::dial(address, "1.0");
    if (!client) return 10;
    std::uint64_t id = client->begin("overrun", Json::object(), 5);
    if (!client->ask("echo")) return 11;
    auto data = client->take();
    if (!data || !*data || std::get<StreamData>(**data) != StreamData{id, "out", "12345"}) return 12;
    auto part = client->take();
    return part && *part && std::get<Answer>(**part).more && !client->take().value() ? 0 : 13;
  }) == 0);
}

TEST_CASE("a leader that sends more than its credit, or to no request, has broken the protocol", "[control]") {
  for (const std::string& frames : {line_of(StreamData{1, "out", "12345"}), line_of(StreamData{2, "out", "1"}),
                                    line_of(StreamEnd{2, "out"}), line_of(StreamCredit{2, 1})}) {
    std::array<int, 2> ends{};
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()) == 0);
    UniqueFd leader(ends[0]);
    std::string sent = line_of(ControlHello{"1"}) + frames;
    REQUIRE(::write(leader.get(), sent.data(), sent.size()) == static_cast<ssize_t>(sent.size()));
    UniqueFd from(ends[1]);
    UniqueFd to(::dup(ends[1]));
    auto client = Client::over(std::move(from), std::move(to), "1", Seconds(30));
    REQUIRE(client);
    CHECK(client->begin("attach", Json::object(), 4) == 1);
    REQUIRE(client->exchange());
    CHECK(client->take().error().code == EPROTO);
  }
}

TEST_CASE("64 clients are served, one more is told why not", "[control]") {
  World world;
  std::vector<UniqueFd> clients;
  for (std::size_t i = 0; i < kMaxClients; ++i) clients.push_back(world.connected());
  REQUIRE(world.serve_until([&] { return world.server->clients() == kMaxClients; }));
  CHECK(world.run([](const std::string& address) {
    auto client = Client::dial(address, "1.0");
    return !client && client.error().code == ECONNREFUSED &&
                   client.error().message == "64 others are connected already"
               ? 0
               : 11;
  }) == 0);
  clients.pop_back();
  REQUIRE(world.serve_until([&] { return world.server->clients() == kMaxClients - 1; }));
  CHECK(world.run([](const std::string& address) { return Client::dial(address, "1.0") ? 0 : 11; }) == 0);
}

TEST_CASE("a client that says nothing is let go, though others connect all the time", "[control]") {
  World world(Seconds(0.5));
  UniqueFd silent = world.connected();
  std::vector<UniqueFd> others;
  double next = 0;
  CHECK(world.serve_until([&] {
    if (nacre::event::clock_now().count() >= next) {
      others.clear();
      others.push_back(world.connected());
      next = nacre::event::clock_now().count() + 0.1;
    }
    char byte = 0;
    while (::recv(silent.get(), &byte, 1, MSG_DONTWAIT) == 1) {
    }
    return ::recv(silent.get(), &byte, 1, MSG_DONTWAIT) == 0;
  }));
}

TEST_CASE("a client that asks on and takes nothing is let go, before it costs much", "[control]") {
  World world;
  UniqueFd greedy = world.connected();
  std::string asked = line_of(ControlHello{"1"});
  for (std::uint64_t id = 1; id <= 1000; ++id) asked += line_of(ControlRequest{id, "much"});
  REQUIRE(::send(greedy.get(), asked.data(), asked.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(asked.size()));
  CHECK(world.serve_until([&] { return world.gone == 1; }));
  CHECK(world.much_asked < 40);
}

TEST_CASE("a client that sends garbage loses its link, others do not", "[control]") {
  World world;
  UniqueFd good = world.connected();
  UniqueFd bad = world.connected();
  REQUIRE(world.serve_until([&] { return world.server->clients() == 2; }));
  std::string garbage(100000, '\xff');
  REQUIRE(::send(bad.get(), garbage.data(), garbage.size(), MSG_NOSIGNAL | MSG_DONTWAIT) > 0);
  REQUIRE(::send(bad.get(), "\n", 1, MSG_NOSIGNAL) == 1);
  CHECK(world.serve_until([&] { return world.server->clients() == 1; }));
}

TEST_CASE("a socket that somebody has removed is made again", "[control]") {
  World world;
  CHECK(world.server->restore().value() == false);
  std::string path = world.server->address().substr(5);
  REQUIRE(::unlink(path.c_str()) == 0);
  CHECK(world.server->restore().value() == true);
  CHECK(world.run([](const std::string& address) { return Client::dial(address, "1.0") ? 0 : 11; }) == 0);
}

TEST_CASE("another user is neither served nor trusted", "[control]") {
  if (::geteuid() != 0) {
    WARN("not tried: only root can become another user");
    return;
  }
  constexpr uid_t kNobody = 65534;
  World world;
  auto as_nobody = [](const std::function<int()>& act) {
    pid_t pid = ::fork();
    if (pid == 0) ::_exit(::setresuid(kNobody, kNobody, kNobody) < 0 ? 10 : act());
    int status = 0;
    REQUIRE(::waitpid(pid, &status, 0) == pid);
    return WEXITSTATUS(status);
  };
  SECTION("the directory keeps it out") {
    CHECK(as_nobody([&] {
            auto client = Client::dial(world.server->address(), "1.0");
            return !client && client.error().code == EACCES ? 0 : 11;
          }) == 0);
  }
  SECTION("a link that it has made all the same is refused") {
    // The sockets are made as nobody, and inherited here: the kernel tells who connected, or listened.
    std::string path = world.folder.path("open");
    REQUIRE(::chmod(world.folder.path("").c_str(), 0777) == 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    UniqueFd listener(::socket(AF_UNIX, SOCK_STREAM, 0));
    REQUIRE(::bind(listener.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
    REQUIRE(::chmod(path.c_str(), 0777) == 0);
    REQUIRE(::listen(listener.get(), 1) == 0);
    UniqueFd mine(::socket(AF_UNIX, SOCK_STREAM, 0));
    CHECK(as_nobody([&] {
            return ::connect(mine.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 ? 0 : 11;
          }) == 0);
    UniqueFd accepted(::accept(listener.get(), nullptr, nullptr));
    REQUIRE(accepted);
    CHECK(check_peer(accepted.get()).error().code == EPERM);
    CHECK(check_peer(mine.get()));  // root was the listener
  }
}
