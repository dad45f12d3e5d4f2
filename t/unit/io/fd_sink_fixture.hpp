// SPDX-License-Identifier: Apache-2.0
//
// An FdSink on a pipe with little room, and its reader.
#pragma once

#include <fcntl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "catch.hpp"

#include "io/sink.hpp"

using namespace nacre;      // NOLINT
using namespace nacre::io;  // NOLINT

inline constexpr std::size_t kPipe = 4096;

inline std::string pattern(std::size_t size, unsigned seed) {
  std::mt19937_64 random(seed);
  std::string bytes(size, 'x');
  for (std::size_t at = 0; at + 8 <= size; at += 8) {
    std::uint64_t word = random();
    std::memcpy(bytes.data() + at, &word, 8);
  }
  return bytes;
}

struct SinkFixture {
  std::unique_ptr<event::Loop> loop = event::Loop::create().value();
  UniqueFd read_end;
  UniqueFd write_end;
  std::unique_ptr<FdSink> sink;
  std::string given;
  std::string got;
  int rooms = 0;
  std::vector<Error> errors;
  std::vector<Error> spills;

  SinkFixture() { std::signal(SIGPIPE, SIG_IGN); }

  Result<void> attach(int fd, FdSink::Options options) {
    FdSink::Callbacks callbacks;
    callbacks.on_room = [this] {
      ++rooms;
      CHECK_FALSE(sink->full());
    };
    callbacks.on_error = [this](const Error& error) { errors.push_back(error); };
    callbacks.on_spill = [this](const Error& error) { spills.push_back(error); };
    sink = TRY(FdSink::create(*loop, fd, "the reader", std::move(options), std::move(callbacks)));
    return {};
  }
  void use_pipe(FdSink::Options options) {
    Pipe pipe = make_pipe(O_CLOEXEC).value();
    read_end = std::move(pipe.read);
    write_end = std::move(pipe.write);
    REQUIRE(::fcntl(read_end.get(), F_SETFL, O_NONBLOCK) == 0);
    REQUIRE(::fcntl(write_end.get(), F_SETPIPE_SZ, kPipe) == kPipe);
    REQUIRE(attach(write_end.get(), std::move(options)));
  }
  void use_socket(int flags) {
    std::array<int, 2> ends{};
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | flags, 0, ends.data()) == 0);
    write_end = UniqueFd(ends[0]);
    read_end = UniqueFd(ends[1]);
    REQUIRE(::fcntl(read_end.get(), F_SETFL, O_NONBLOCK) == 0);
    REQUIRE(attach(write_end.get(), {}));
  }
  void write(std::string_view bytes) {
    given += bytes;
    std::array<std::string_view, 3> pieces{bytes.substr(0, bytes.size() / 3), {}, bytes.substr(bytes.size() / 3)};
    REQUIRE(sink->write(pieces));
  }
  void write(std::size_t size) { write(pattern(size, static_cast<unsigned>(given.size()))); }
  Error write_error() {
    std::array<std::string_view, 1> pieces{"x"};
    auto result = sink->write(pieces);
    REQUIRE_FALSE(result);
    return result.error();
  }
  // The reader reads; then the sink may write.
  void read(std::size_t most = kPipe) {
    std::array<char, 1 << 16> part;  // NOLINT: left as it is, for speed
    ssize_t size = ::read(read_end.get(), part.data(), std::min(most, part.size()));
    if (size > 0) got.append(part.data(), static_cast<std::size_t>(size));
    loop->poll();
  }
  void read_all() {
    for (int round = 0; got.size() < given.size() && round < 10'000; ++round) read(1 << 16);
    CHECK(got.size() == given.size());
    CHECK((got == given));
    CHECK(sink->flushed());
    CHECK(sink->written() == given.size());
    CHECK_FALSE(loop->alive());
  }
  [[nodiscard]] std::size_t kept() const { return given.size() - sink->written(); }
  [[nodiscard]] int flags() const { return ::fcntl(write_end.get(), F_GETFL) & O_NONBLOCK; }
};
