// SPDX-License-Identifier: Apache-2.0
#include "world.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include "base/file.hpp"
#include "base/text.hpp"

namespace nacre::transport {

std::unique_ptr<Credentials> credentials_of(char letter, const std::string& job) {
  return Credentials::create(job, Secret::from_hex(std::string(2 * Secret::kSize, letter)).value()).value();
}

void End::serve() {
  Link::Callbacks callbacks;
  callbacks.on_frame = [this](std::string_view frame) {
    after_closed += closed;
    ++frame_count;
    if (keeps) frames.emplace_back(frame);
    if (on_frame) on_frame(frame);
  };
  callbacks.on_bulk = [this](StreamId stream, std::string_view bytes) {
    after_closed += closed;
    if (bytes.empty()) ended.push_back(stream);
    if (keeps) bulk[stream] += bytes;
    bulk_bytes[stream] += bytes.size();
    if (regrants != 0 && !bytes.empty()) CHECK(link->grant(stream, bytes.size()));
    if (on_bulk) on_bulk(stream, bytes);
  };
  callbacks.on_room = [this] {
    after_closed += closed;
    if (on_room) on_room();
  };
  callbacks.on_credit = [this](StreamId stream, std::size_t room) {
    after_closed += closed;
    credited.push_back(stream);
    if (on_credit) on_credit(stream, room);
  };
  callbacks.on_finished = [this] {
    after_closed += closed;
    ++finished;
    if (finishes_itself) link->finish();
  };
  callbacks.on_closed = [this](const std::optional<Error>& error) {
    ++closed;
    why = error;
  };
  link->serve(std::move(callbacks));
}

World::World(Over kind, Listener::Options listen, Dialer::Options dialling)
    : over(kind), options(listen), dial_options(dialling) {
  Listener::Callbacks callbacks;
  callbacks.on_link = [this](OwnedLink link) { arrived.push_back(std::move(link)); };
  callbacks.on_refused = [this](const Error& error) { refused.push_back(error.message); };
  listener =
      over == Over::tcp
          ? Listener::create(*loop, *credentials, BoundSocket::tcp("", 0).value(), options, std::move(callbacks))
                .value()
          : Listener::create(*loop, *credentials, BoundSocket::local(folder.path("shell.0")).value(), options,
                             std::move(callbacks))
                .value();
}

Address World::address() const {
  if (over == Over::tcp) return {"127.0.0.1", listener->port(), ""};
  return {"", 0, folder.path("shell.0")};
}

Result<OwnedLink> World::dial(std::vector<Address> addresses, Credentials* other) {
  std::optional<Result<OwnedLink>> outcome;
  auto dialer = Dialer::create(*loop, other != nullptr ? *other : *credentials, std::move(addresses), dial_options,
                               [&](Result<OwnedLink> result) {
                                 CHECK(!outcome);
                                 outcome.emplace(std::move(result));
                               });
  if (!dialer) return Error(dialer.error());
  run_until([&] { return outcome.has_value(); });
  return std::move(*outcome);
}

Result<OwnedLink> World::dial(Credentials* other) { return dial({address()}, other); }

void World::connect_unserved() {
  Result<OwnedLink> link = dial();
  INFO((link ? "" : link.error().message));
  REQUIRE(link);
  a.link = std::move(*link);
  run_until([this] { return !arrived.empty(); });
  b.link = std::move(arrived.front());
  arrived.clear();
}

void World::connect() {
  connect_unserved();
  a.serve();
  b.serve();
}

UniqueFd World::raw_client() const {
  Address to = address();
  SocketAddress address = over == Over::tcp ? SocketAddress::from_numbers(to.host, to.port).value()
                                            : SocketAddress::from_path(to.path).value();
  UniqueFd socket(::socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
  REQUIRE(::connect(socket.get(), address.raw(), address.size()) == 0);
  return socket;
}

std::size_t open_descriptors() {
  std::size_t count = 0;
  for (const auto& each : std::filesystem::directory_iterator("/proc/self/fd")) count += !each.path().empty();
  return count;
}

std::size_t resident_bytes() {
  std::string statm = read_file("/proc/self/statm").value();
  return parse_u64(split(statm, ' ').at(1)).value() * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

}  // namespace nacre::transport
