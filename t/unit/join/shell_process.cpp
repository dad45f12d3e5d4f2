// SPDX-License-Identifier: Apache-2.0
#include "join/shell_process.hpp"
#include "redirected.hpp"
#include "transport/wire.hpp"

using namespace nacre;        // NOLINT
using namespace nacre::join;  // NOLINT
using namespace nacre::kit;   // NOLINT
using nacre::join::KeptSignals;

namespace {

// Returns what can be read on standard input now; `ended`: it has come to its end.
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
  // Sends as much as the stream takes now.
  void send() {
    ssize_t count = ::write(launcher.get(), records.data(), records.size());
    if (count > 0) records.erase(0, count);
  }
  void type(std::string_view text) {
    transport::append_bulk_head(records, launch::kInputStream, text.size());
    records += text;
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
  // No task reads: the stream has to wait.
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

namespace {

// What can be read after some turns, with a $ behind it if that is the end.
std::string next_of(Launched& it) {
  bool ended = false;
  it.turn();
  std::string out = read_input(ended);
  return ended ? out + "$" : out;
}

}  // namespace

TEST_CASE("a launcher that goes leaves the input open, or ends it if that is wanted") {
  for (bool ends : {false, true}) {
    Launched it;
    it.input->ends_with_owner(ends);
    it.type("typed");
    it.turn();
    it.input->let_go();
    it.stream->let_go();
    CHECK(next_of(it) == (ends ? "typed$" : "typed"));
    CHECK(it.input->has_ended() == ends);
    CHECK_FALSE(it.input->is_launchers());
  }
}

TEST_CASE("another owner follows the launcher, whose input is dropped from then on") {
  Launched it;
  it.type("first ");
  it.turn();
  CHECK(it.input->is_launchers());
  it.input->give([] {});
  CHECK_FALSE(it.input->is_launchers());
  it.type("dropped");
  transport::append_stream_record(it.records, transport::LinkRecordKind::end, launch::kInputStream);
  it.turn();
  CHECK(it.input->put("second"));
  CHECK(next_of(it) == "first second");
  it.input->leave();
  CHECK(next_of(it).empty());
  it.input->give([] {});
  it.input->put(" third");
  it.input->end_given();
  CHECK(next_of(it) == " third$");
  CHECK(it.input->has_ended());
}

TEST_CASE("what the launcher's stream held comes before what the next owner puts") {
  Launched it;
  std::string large(std::size_t{2} << 20, 'a');
  for (std::size_t at = 0; at < large.size(); at += 10000) it.type(std::string_view(large).substr(at, 10000));
  for (int i = 0; i < 20; ++i) it.turn();
  CHECK(it.taken < large.size());
  int rooms = 0;
  it.input->give([&rooms] { ++rooms; });
  CHECK_FALSE(it.input->put("b"));
  std::string read;
  bool ended = false;
  while (read.empty() || read.back() != 'b') {
    it.turn();
    read += read_input(ended);
  }
  CHECK(read == large + "b");
  CHECK(rooms > 0);
}

using Numbers = std::vector<int>;

TEST_CASE("signals are kept in their order, each once, at the place of its last") {
  KeptSignals kept;
  for (int signum : {SIGUSR1, SIGUSR2, SIGWINCH, SIGUSR1}) kept.keep(signum);
  CHECK(kept.take() == Numbers{SIGUSR2, SIGWINCH, SIGUSR1});
  CHECK(kept.take().empty());
}

TEST_CASE("SIGCONT takes away what would stop, and the other way round") {
  for (int stop : {SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU}) {
    KeptSignals kept;
    for (int signum : {stop, SIGUSR1, SIGCONT}) kept.keep(signum);
    CHECK(kept.take() == Numbers{SIGUSR1, SIGCONT});
    for (int signum : {SIGCONT, SIGUSR1, stop}) kept.keep(signum);
    CHECK(kept.take() == Numbers{SIGUSR1, stop});
  }
  KeptSignals kept;
  for (int signum : {SIGTSTP, SIGTTIN}) kept.keep(signum);
  CHECK(kept.take() == Numbers{SIGTSTP, SIGTTIN});
}
