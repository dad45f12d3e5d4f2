// SPDX-License-Identifier: Apache-2.0
#include "join/launcher_input.hpp"

#include <array>

#include <fmt/format.h>
#include "redirected.hpp"
#include "transport/wire.hpp"

using namespace nacre;        // NOLINT
using namespace nacre::join;  // NOLINT
using namespace nacre::kit;   // NOLINT

namespace {

// What is there to read on standard input; `ended`: it has come to its end.
std::string read_input(bool& ended) {
  std::array<char, 65536> bytes{};
  std::string out;
  ::fcntl(STDIN_FILENO, F_SETFL, O_NONBLOCK);
  ssize_t count = 0;
  while ((count = ::read(STDIN_FILENO, bytes.data(), bytes.size())) > 0) out.append(bytes.data(), count);
  ended = count == 0;
  return out;
}

// A launcher's stream that ends in this process's standard input.
struct Launched {
  Launched() {
    input = LauncherInput::create(*loop).value();
    launch::LaunchStream::Callbacks callbacks;
    callbacks.on_input = [this](std::string_view bytes) {
      taken += bytes.size();
      input->take(bytes);
    };
    callbacks.on_input_end = [this] { input->end(); };
    Pipe pipe = make_pipe(O_CLOEXEC).value();
    ::fcntl(pipe.write.get(), F_SETFL, O_NONBLOCK);
    launcher = std::move(pipe.write);
    stream = launch::LaunchStream::create(*loop, std::move(pipe.read), "", std::move(callbacks)).value();
    input->hold_back(*stream);
  }
  // As much as the stream takes now.
  void send() {
    ssize_t count = ::write(launcher.get(), records.data(), records.size());
    if (count > 0) records.erase(0, count);
  }
  void turn() {
    for (int i = 0; i < 50; ++i) {
      send();
      loop->poll();
    }
  }

  Redirected saved{STDIN_FILENO};
  std::unique_ptr<event::Loop> loop = event::Loop::create().value();
  std::unique_ptr<LauncherInput> input;
  std::unique_ptr<launch::LaunchStream> stream;
  UniqueFd launcher;
  std::string records;  // to be sent
  std::size_t taken = 0;
};

}  // namespace

TEST_CASE("what the launcher reads comes out of this shell's standard input, whole and in order") {
  Launched it;
  std::string expected;
  for (int i = 0; expected.size() < (std::size_t{3} << 20); ++i) {
    std::string chunk = fmt::format("{}\n", i) + std::string(10000, static_cast<char>('a' + i % 26));
    transport::append_bulk_head(it.records, launch::kInputStream, chunk.size());
    it.records += chunk;
    expected += chunk;
  }
  transport::append_stream_record(it.records, transport::LinkRecordKind::end, launch::kInputStream);
  // Nobody reads: the stream has to wait.
  for (int i = 0; i < 20; ++i) it.turn();
  CHECK(it.taken < expected.size() / 2);
  bool ended = false;
  std::string read;
  while (!ended) {
    it.turn();
    read += read_input(ended);
  }
  CHECK(it.taken == expected.size());
  CHECK(read == expected);
}

TEST_CASE("an end without any input is an end") {
  Launched it;
  transport::append_stream_record(it.records, transport::LinkRecordKind::end, launch::kInputStream);
  it.turn();
  bool ended = false;
  CHECK(read_input(ended).empty());
  CHECK(ended);
}
