// SPDX-License-Identifier: Apache-2.0
//
// First words of clients that are no shells of this job.
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <random>

#include "allocated_bytes.hpp"
#include "base/file.hpp"
#include "fewer.hpp"
#include "transport/tls.hpp"
#include "transport/wire.hpp"
#include "world.hpp"

using namespace nacre;             // NOLINT
using namespace nacre::transport;  // NOLINT

namespace nacre::transport {

std::string hello_of_tls12();  // the first message of a client that knows TLS 1.2 only
std::string random_bytes(std::size_t size, unsigned seed);
std::string hello_with_secret(char letter, const std::string& job);  // the first message of a shell with this
                                                                     // secret
// All kinds of first words that prove nothing to a listener on TCP; `to_unix`: on a Unix socket.
std::vector<std::string> wrong_words(bool to_unix = false);

}  // namespace nacre::transport

namespace nacre::transport {
namespace {

std::string big_endian(std::size_t number, int bytes) {
  std::string out;
  for (int shift = 8 * (bytes - 1); shift >= 0; shift -= 8) out += static_cast<char>((number >> shift) & 0xff);
  return out;
}

std::string counted(int bytes, const std::string& text) { return big_endian(text.size(), bytes) + text; }

}  // namespace

std::string hello_of_tls12() {
  std::string groups = std::string("\x00\x0a", 2) + counted(2, counted(2, std::string("\x00\x1d\x00\x17", 4)));
  std::string algorithms = std::string("\x00\x0d", 2) + counted(2, counted(2, std::string("\x04\x03\x08\x04", 4)));
  std::string body = "\x03\x03" + std::string(32, 'r') + counted(1, "") +
                     counted(2, std::string("\xc0\x2f\xc0\x2b\x00\x9c", 6)) + counted(1, std::string("\0", 1)) +
                     counted(2, groups + algorithms);
  return "\x16\x03\x01" + counted(2, "\x01" + counted(3, body));
}

std::string random_bytes(std::size_t size, unsigned seed) {
  std::mt19937 random(seed);
  std::string out(size, '\0');
  for (char& byte : out) byte = static_cast<char>(random());
  return out;
}

std::string hello_with_secret(char letter, const std::string& job) {
  Secret secret = Secret::from_hex(std::string(2 * Secret::kSize, letter)).value();
  auto context = TlsContext::create(job, secret).value();
  auto tls = Tls::create(*context, Role::dials).value();
  REQUIRE_FALSE(tls->handshake().value());
  std::string out;
  tls->take_output(out);
  return out;
}

std::vector<std::string> wrong_words(bool to_unix) {
  std::string good = hello_with_secret('a', kJob);
  std::string changed = good;
  changed[good.size() - 1] = static_cast<char>(changed[good.size() - 1] ^ 1);  // of the bytes that prove the secret
  return {
      "GET / HTTP/1.1\r\nHost: here\r\n\r\n",
      "SSH-2.0-OpenSSH_9.2\r\n",
      std::string(5, '\0'),
      random_bytes(1, 1),
      random_bytes(300, 2),
      random_bytes(60000, 3),
      hello_of_tls12(),
      hello_with_secret('b', kJob),
      hello_with_secret('a', "another"),
      changed,
      good + random_bytes(500, 4),
      good.substr(0, good.size() / 2) + random_bytes(200, 5),
      std::string("\x16\x03\x01\x40\x00\x01\x00\x3f\xfc", 9) + std::string(20000, 'x'),  // a hello of 16 KiB
      std::string("\x16\x03\x03\xff\xff", 5) + std::string(70000, 'x'),
      std::string("\x15\x03\x03\x00\x02\x02\x28", 7),                 // an alert
      std::string("\x17\x03\x03\x00\x20", 5) + std::string(32, 'x'),  // data without a handshake
      "nacre/1 " + std::string(to_unix ? "other" : kJob) + "\n" +
          std::string("\0\0\0\6\1hello", 10),  // as on a Unix socket
      std::string("\0\0\0\6\1hello", 10),      // a frame, at once
  };
}

}  // namespace nacre::transport

// Connections that are not from shells of this job: each gets its own line in the log, and none a link.

namespace {

// All that the other end sends, until it has closed; the world's loop turns meanwhile.
std::string read_to_end(const World& world, int fd) {
  std::string out;
  bool over = false;
  auto poll = event::Poll::create(*world.loop, fd, [&](int) {
                char buffer[4096];
                ssize_t size = ::recv(fd, buffer, sizeof buffer, MSG_DONTWAIT);
                if (size > 0) out.append(buffer, static_cast<std::size_t>(size));
                over = size == 0 || (size < 0 && errno != EAGAIN);
              }).value();
  REQUIRE(poll.start(event::Poll::kReadable));
  world.run_until([&] { return over; });
  return out;
}

void say(int fd, std::string_view bytes) {
  REQUIRE(::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size()));
}

// The listener's line about a client that sends these words and waits.
std::string refusal_of(World& world, std::string_view words) {
  UniqueFd socket = world.raw_client();
  say(socket.get(), words);
  world.run_until([&] { return !world.refused.empty(); });
  REQUIRE(world.refused.size() == 1);
  CHECK(world.arrived.empty());
  read_to_end(world, socket.get());
  return std::exchange(world.refused, {}).front();
}

}  // namespace

TEST_CASE("a shell with another secret is refused, and both are told") {
  World world;
  auto other = credentials_of('b');
  Result<OwnedLink> link = world.dial(other.get());
  REQUIRE_FALSE(link);
  CHECK(link.error().message ==
        fmt::format("127.0.0.1:{}: has another secret than this shell; give all shells of a "
                    "job one file",
                    world.listener->port()));
  world.run_until([&] { return !world.refused.empty(); });
  CHECK(world.refused[0].starts_with("127.0.0.1:"));
  CHECK(contains(world.refused[0], ": has another secret than this shell"));
  CHECK(world.listener->pending() == 0);
}

TEST_CASE("a shell of another job is refused, and both are told") {
  World world(GENERATE(Over::tcp, Over::local));
  auto other = credentials_of('a', "ƒ3xyz");
  Result<OwnedLink> link = world.dial(other.get());
  REQUIRE_FALSE(link);
  CHECK(link.error().message.starts_with(world.address().text()));
  CHECK(contains(link.error().message,
                 world.over == Over::tcp ? "is not of job 'ƒ3xyz'" : "is of another job, 'ƒ2abc'"));
  world.run_until([&] { return !world.refused.empty(); });
  CHECK(contains(world.refused[0], "is of another job, 'ƒ3xyz'; this is 'ƒ2abc'"));
}

TEST_CASE("each kind of wrong client over TCP is named") {
  World world;
  CHECK(contains(refusal_of(world, "GET / HTTP/1.1\r\n\r\n"), "does not speak TLS: is it a shell of this job?"));
  CHECK(contains(refusal_of(world, "SSH-2.0-OpenSSH_9.2\r\n"), "does not speak TLS"));
  CHECK(contains(refusal_of(world, random_bytes(300, 1)), "does not speak TLS"));
  CHECK(contains(refusal_of(world, hello_of_tls12()), "speaks another version of TLS; 1.3 is needed"));
  CHECK(contains(refusal_of(world, hello_with_secret('b', kJob)), "has another secret"));
  CHECK(contains(refusal_of(world, hello_with_secret('a', "x")), "is of another job, 'x'"));
  std::string frame("\0\0\0\6\1hello", 10);
  CHECK(contains(refusal_of(world, frame), "is it a shell of this job?"));
  for (const std::string& words : wrong_words()) {
    if (words.size() < 5) continue;  // waits for more
    INFO(words.size());
    UniqueFd socket = world.raw_client();
    static_cast<void>(::send(socket.get(), words.data(), words.size(), MSG_NOSIGNAL | MSG_DONTWAIT));
    ::shutdown(socket.get(), SHUT_WR);
    world.run_until([&] { return !world.refused.empty(); });
    CHECK(world.refused.size() == 1);
    CHECK(world.refused[0].starts_with("127.0.0.1:"));
    CHECK_FALSE(contains(world.refused[0], "\n"));
    world.refused.clear();
  }
  CHECK(world.arrived.empty());
}

TEST_CASE("each kind of wrong client on a Unix socket is named") {
  World world(Over::local);
  CHECK(contains(refusal_of(world, "GET / HTTP/1.1\r\n\r\n"), "does not speak nacre's protocol"));
  CHECK(contains(refusal_of(world, "nacre/1 ƒ2abd\n"), "is of another job, 'ƒ2abd'"));
  CHECK(contains(refusal_of(world, "nacre/1 ƒ2abcd\n"), "is of another job, 'ƒ2abcd'"));
  CHECK(contains(refusal_of(world, "nacre/2 ƒ2abc\n"), "speaks another version of nacre's protocol"));
  CHECK(contains(refusal_of(world, "nacre/" + std::string(500, 'x')), "does not speak nacre's protocol"));
  CHECK(contains(refusal_of(world, std::string("\0\0\0\6\1hello", 10)), "does not speak nacre's protocol"));
  CHECK(world.arrived.empty());
}

TEST_CASE("one who never speaks is dropped in time, and so is one who stops in the middle") {
  Listener::Options options;
  options.handshake.time = event::Seconds(0.02);
  World world(GENERATE(Over::tcp, Over::local), options);
  UniqueFd silent = world.raw_client();
  world.run_until([&] { return world.refused.size() == 1; });
  CHECK(contains(world.refused[0], "timed out: it has not proved to be of this job within 0.02 s"));
  read_to_end(world, silent.get());
  UniqueFd halfway = world.raw_client();
  say(halfway.get(), world.over == Over::tcp ? hello_with_secret('a', kJob).substr(0, 60) : "nacre/1");
  world.run_until([&] { return world.refused.size() == 2; });
  CHECK(contains(world.refused[1], "timed out"));
  CHECK(world.listener->pending() == 0);
  CHECK(world.arrived.empty());
}

TEST_CASE("one who dials does not wait for ever for a peer that never speaks") {
  Dialer::Options options;
  options.handshake.time = event::Seconds(0.02);
  World world(GENERATE(Over::tcp, Over::local), {}, options);
  SocketAddress address = world.over == Over::tcp ? SocketAddress::from_numbers("127.0.0.1", 0).value()
                                                  : SocketAddress::from_path(world.folder.path("mute")).value();
  UniqueFd mute(::socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
  REQUIRE(::bind(mute.get(), address.raw(), address.size()) == 0);
  REQUIRE(::listen(mute.get(), 5) == 0);
  Address to = Address::parse(SocketAddress::local_of(mute.get()).text()).value();
  Result<OwnedLink> link = world.dial({to});
  REQUIRE_FALSE(link);
  CHECK(link.error().code == ETIMEDOUT);
  CHECK(link.error().message.starts_with(to.text() + ": timed out"));
}

TEST_CASE("one who sends much and proves nothing is dropped at a limit") {
  Listener::Options options;
  options.handshake.bytes = 2000;
  World world(Over::tcp, options);
  std::string hello = std::string("\x16\x03\x01\x40\x00\x01\x00\x3f\xfc", 9) + std::string(1990, 'x');
  CHECK(contains(refusal_of(world, hello + "x"), "has sent 2000 bytes without proving to be of this job"));
}

TEST_CASE("of those that prove nothing the oldest goes when too many come") {
  Listener::Options options;
  options.max_pending = 4;
  World world(GENERATE(Over::tcp, Over::local), options);
  std::vector<UniqueFd> silent;
  for (std::size_t i = 0; i < 10; ++i) {
    silent.push_back(world.raw_client());
    world.run_until([&] { return world.refused.size() + world.listener->pending() == i + 1; });
  }
  CHECK(world.listener->pending() == 4);
  REQUIRE(world.refused.size() == 6);
  CHECK(contains(world.refused[0], "dropped, as too many others came"));
  for (std::size_t i = 0; i < 6; ++i) read_to_end(world, silent[i].get());
  for (std::size_t i = 6; i < 10; ++i) {
    char byte;
    CHECK(::recv(silent[i].get(), &byte, 1, MSG_DONTWAIT | MSG_PEEK) != 0);
  }
  world.connect();  // this costs another client its place
  CHECK(world.refused.size() == 7);
  REQUIRE(world.a.link->send("hello"));
  world.run_until([&] { return world.b.frame_count == 1; });
}

TEST_CASE("another user is refused on a Unix socket") {
  World world(Over::local);
  if (::geteuid() != 0) {
    WARN("only root can be two users");
    return;
  }
  constexpr uid_t kOther = 65534;
  std::string path = world.folder.path("shell.0");
  REQUIRE(::chmod(world.folder.path("").c_str(), 0755) == 0);
  REQUIRE(::chmod(path.c_str(), 0777) == 0);
  SocketAddress address = SocketAddress::from_path(path).value();
  Pipe hold = make_pipe(O_CLOEXEC).value();
  pid_t pid = ::fork();
  REQUIRE(pid >= 0);
  if (pid == 0) {
    int socket = ::socket(AF_UNIX, SOCK_STREAM, 0);
    bool connected = ::setuid(kOther) == 0 && ::connect(socket, address.raw(), address.size()) == 0;
    hold.write.reset();
    char byte;
    static_cast<void>(::read(hold.read.get(), &byte, 1));
    ::_exit(connected ? 0 : 1);
  }
  world.run_until([&] { return world.refused.size() + world.arrived.size() == 1; });
  hold.write.reset();
  int status = -1;
  REQUIRE(::waitpid(pid, &status, 0) == pid);
  CHECK(status == 0);
  REQUIRE(world.refused.size() == 1);
  CHECK(world.refused[0] ==
        fmt::format("a client of unix:{}: belongs to user 65534; only shells of user 0 are of this "
                    "job",
                    path));
}

TEST_CASE("a listener lives on when descriptors run out") {
  World world(GENERATE(Over::tcp, Over::local));
  std::vector<UniqueFd> silent;
  for (int i = 0; i < 8; ++i) silent.push_back(world.raw_client());  // wait in the kernel's queue
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  rlimit little = before;
  auto allow = [&](int more) {  // descriptors above those that are open
    UniqueFd next(::dup(0));
    little.rlim_cur = static_cast<rlim_t>(next.get() + more);
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &little) == 0);
  };
  allow(2);
  world.run_until([&] { return world.refused.size() + world.listener->pending() == silent.size(); });
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &before) == 0);
  CHECK(world.listener->pending() == 2);
  CHECK(contains(world.refused.at(0), "dropped before it proved to be of this job: no descriptors are left"));

  silent.clear();
  world.run_until([&] { return world.listener->pending() == 0; });
  world.refused.clear();
  UniqueFd late = world.raw_client();
  allow(0);
  world.run_until([&] { return !world.refused.empty(); });
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &before) == 0);
  CHECK(contains(world.refused[0],
                 "cannot accept a connection (raise the limit with ulimit -n): Too many open files"));
  world.run_until([&] { return world.listener->pending() == 1; });
}

TEST_CASE("one of this job that breaks the rules ends its own link only") {
  World world(Over::local);
  world.connect();
  std::string greeting = world.credentials->greeting();
  auto [words, said] = GENERATE(table<std::string, std::string>({
      {std::string("\xff\xff\xff\xff\1", 5), "a frame of 4294967294 bytes; at most 16777216 are allowed"},
      {std::string("\0\0\0\0", 4) + "x", "a record of no bytes"},
      {std::string("\0\0\0\6\2\0\0\0\1x", 10), "1 bytes of stream 1, which has credit for 0"},
      {random_bytes(200, 7), "a record of unknown kind"},
      {std::string("\0\0\0\1\6\0\0\0\1\1", 10), "a record of kind 1 after the last one"},
  }));
  UniqueFd socket = world.raw_client();
  say(socket.get(), greeting + std::string("\0\0\0\3\1ok", 7) + words);
  world.run_until([&] { return !world.arrived.empty(); });
  End end;
  end.finishes_itself = false;
  end.link = std::move(world.arrived.front());
  end.serve();
  world.run_until([&] { return end.closed == 1; });
  CHECK(end.frames == std::vector<std::string>{"ok"});
  REQUIRE(end.why);
  CHECK(contains(end.why->message, said));
  CHECK(read_to_end(world, socket.get()).starts_with(greeting));
  REQUIRE(world.a.link->send("hello"));
  world.run_until([&] { return world.b.frame_count == 1; });
}

// Ten thousand connections that are not from shells of this job, while two shells of the job go on talking.

namespace {

// Connects, sends something wrong or nothing, and ends in one of several ways.
class Flood {
 public:
  explicit Flood(const World& world) : world_(world), words_(wrong_words(world.over == Over::local)) {}

  void add(std::size_t number) {
    UniqueFd socket = world_.raw_client();
    const std::string& words = words_[number % words_.size()];
    std::size_t size = number % 5 == 4 ? words.size() / 2 : words.size();
    if (number % 7 != 6) static_cast<void>(::send(socket.get(), words.data(), size, MSG_DONTWAIT | MSG_NOSIGNAL));
    if (number % 3 == 0) {  // without a proper end
      linger hard{1, 0};
      ::setsockopt(socket.get(), SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
    }
    if (number % 11 == 10) return;  // at once
    alive_.push_back(std::move(socket));
    if (alive_.size() > kAlive) alive_.pop_front();
  }
  void end() { alive_.clear(); }

 private:
  static constexpr std::size_t kAlive = 150;
  const World& world_;
  std::vector<std::string> words_;
  std::deque<UniqueFd> alive_;
};

}  // namespace

TEST_CASE("very many wrong clients neither reach a link nor disturb one, and leave nothing behind") {
  World world(GENERATE(Over::tcp, Over::local));
  world.connect();
  // Each end answers the other with the next number.
  auto answer = [](End& end) {
    return [&end](std::string_view frame) {
      REQUIRE(end.link->send(std::to_string(std::stoull(std::string(frame)) + 1)));
    };
  };
  world.a.keeps = world.b.keeps = false;
  std::uint64_t last = 0;
  world.a.on_frame = [&, reply = answer(world.a)](std::string_view frame) {
    last = std::stoull(std::string(frame));
    reply(frame);
  };
  world.b.on_frame = answer(world.b);
  REQUIRE(world.a.link->send("0"));

  constexpr std::size_t kClients = kit::fewer<std::size_t>(10000, 4);
  constexpr std::size_t kFirst = 1000;  // after which everything has its usual size
  Flood flood(world);
  std::size_t descriptors = 0;
  std::size_t memory = 0;
  std::size_t most_pending = 0;
  std::size_t refusals = 0;
  auto settle = [&] {
    flood.end();
    world.run_until([&] { return world.listener->pending() == 0; });
    refusals += std::exchange(world.refused, {}).size();
  };
  for (std::size_t i = 0; i < kClients; ++i) {
    if (i == kFirst) {
      settle();
      descriptors = open_descriptors();
      memory = kit::allocated_bytes();
    }
    std::size_t before = world.a.frame_count;
    flood.add(i);
    world.run_until([&] { return world.a.frame_count > before; });  // the link goes on
    most_pending = std::max(most_pending, world.listener->pending());
    refusals += std::exchange(world.refused, {}).size();
  }
  // Connections that are not yet accepted are still in the kernel's queue.
  settle();
  world.run_until([&] {
    settle();
    return refusals >= kClients;
  });
  CHECK(refusals == kClients);
  CHECK(world.arrived.empty());
  CHECK(most_pending <= world.options.max_pending);
  CHECK(open_descriptors() == descriptors);
  CHECK(kit::allocated_bytes() < memory + 300000);
  CHECK(last >= kClients);
  CHECK(last == 2 * world.a.frame_count - 1);  // every one arrived, and nothing else
  CHECK(world.a.closed + world.b.closed == 0);
  world.a.link->finish();
}
