// SPDX-License-Identifier: Apache-2.0
//
// The first byte says what the rest is: a launch record, which if it is taken writes itself down to a line that
// reads back to the same, and so do its children's; or a launcher's stream. In a record PROTOCOL stands for this
// version's number of the protocol: with another one nothing behind it is read.
#include <fcntl.h>
#include <unistd.h>

#include "base/file.hpp"
#include "boot/make_resources.hpp"
#include "group/first_words.hpp"
#include "launch/record.hpp"
#include "launch/stream.hpp"
#include "require.hpp"

using nacre::fuzz::require;
using namespace nacre;          // NOLINT
using namespace nacre::launch;  // NOLINT

namespace {

void require_same(const LaunchRecord& record) {
  std::string line = record.line();
  require(line.find('\n') == line.size() - 1, "one line");
  auto again = LaunchRecord::parse(line);
  require(again && again->line() == line, "a line that reads back to the same: " + line);
}

constexpr std::string_view kPlaceholder = "PROTOCOL";

void read_record(std::string text) {
  if (auto at = text.find(kPlaceholder); at != std::string::npos)
    text.replace(at, kPlaceholder.size(), std::to_string(group::kProtocol));
  auto record = LaunchRecord::parse(text);
  if (!record) return require(record.error().message.starts_with("the launch record: "), record.error().message);
  require_same(*record);
  if (!record->rank) return;
  std::vector<group::Rank> children = record->children();
  require(children.size() <= record->arity, "no more children than the arity");
  for (group::Rank child : children) require(child > *record->rank && child < record->size, "a child of the tree");
  if (!children.empty()) require_same(record->of_child(children.back(), "n0:70"));
}

// What has come at once, and what comes later.
void read_stream(const std::string& bytes, std::size_t cut) {
  cut = std::min(cut, bytes.size());
  auto loop = event::Loop::create().value();
  Pipe pipe = make_pipe(O_CLOEXEC).value();
  std::size_t input = 0;
  int ends = 0;
  int gone = 0;
  LaunchStream::Callbacks callbacks;
  callbacks.on_signal = [&](int signum) {
    require(signum > 0 && signum <= SIGRTMAX && gone == 0, "a signal in time");
  };
  callbacks.on_end = callbacks.on_signal;
  callbacks.on_input = [&](std::string_view more) {
    require(ends == 0 && gone == 0, "input before its end");
    input += more.size();
  };
  callbacks.on_input_end = [&] { require(++ends == 1 && gone == 0, "one end of input"); };
  callbacks.on_gone = [&](const Error&) { require(++gone == 1, "gone once"); };
  std::unique_ptr<LaunchStream> stream;
  bool left = false;
  callbacks.on_detach = [&] {
    require(gone == 0 && !left, "a wish in time");
    left = cut % 2 == 1;
    if (left) stream->let_go();
  };
  stream = LaunchStream::create(*loop, std::move(pipe.read), bytes.substr(0, cut), std::move(callbacks)).value();
  // A pipe has room for this much.
  require(write_all(pipe.write.get(), std::string_view(bytes).substr(cut, 4096)) == 0, "room in a pipe");
  pipe.write.reset();
  loop->run_until([&] { return gone > 0 || left; });
  for (int i = 0; i < 3; ++i) loop->poll();
  require(gone == (left ? 0 : 1) && input <= bytes.size(), "no more input than came");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  if (size < 2) return 0;
  std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 3) {
    case 0: read_record(text); break;
    case 1: read_stream(text.substr(1), static_cast<unsigned char>(text[0])); break;
    default: {
      auto offer = boot::NodeOffer::parse(text);
      if (!offer)
        return require(offer.error().message.starts_with("what a shell offers: "), offer.error().message), 0;
      auto again = boot::NodeOffer::parse(offer->text());
      require(again && *again == *offer, "an offer that reads back to the same");
    }
  }
  return 0;
}
