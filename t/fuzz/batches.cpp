// SPDX-License-Identifier: Apache-2.0
//
// Whatever another shell says of its tasks' output: it is refused, or it reads the same in any pieces, and so does
// what a WireFormat makes of it.

#include "io/format.hpp"
#include "require.hpp"

using namespace nacre;      // NOLINT
using namespace nacre::io;  // NOLINT
using nacre::fuzz::require;

namespace {

// A line for each thing that was read; and the same written again.
struct Ear {
  std::vector<std::string> lines;
  std::string again;
  WireFormat out{Stream::out};
  WireFormat err{Stream::err};
  BatchReader reader{take()};

  BatchReader::Take take() {
    BatchReader::Take to;
    to.source = [](const Source&) { return Result<void>(); };
    to.batch = [this](const Batch& batch) {
      lines.push_back(fmt::format("{} {} {} {} {} {}", name(*batch.source), batch.time, batch.body, batch.continues,
                                  batch.open, batch.source->label));
      add(of(*batch.source).put(batch));
    };
    to.end = [this](const Source& source, double time) {
      lines.push_back(fmt::format("{} ends {}", name(source), time));
      add(of(source).end(source, time));
    };
    to.event = [this](std::string_view line) {
      lines.push_back(fmt::format("event {}", line));
      again += WireFormat::event(line);
    };
    to.complete = [this](std::uint32_t rank) {
      lines.push_back(fmt::format("{} is complete", rank));
      again += WireFormat::complete(rank);
      return Result<void>();
    };
    return to;
  }
  static std::string name(const Source& source) {
    return fmt::format("{} {} {}", source.rank, name_of(source.stream), source.is_part);
  }
  WireFormat& of(const Source& source) { return source.stream == Stream::out ? out : err; }
  void add(const Pieces& pieces) {
    for (std::string_view piece : pieces) again += piece;
  }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  std::string_view input(reinterpret_cast<const char*>(data), size);
  Ear whole;
  bool taken = whole.reader.add(input).has_value();
  Ear pieces;
  bool goes_on = true;
  for (std::size_t at = 0; at < input.size() && goes_on; at += 3) {
    goes_on = pieces.reader.add(input.substr(at, 3)).has_value();
  }
  require(taken == goes_on && whole.lines == pieces.lines, "pieces make no difference");
  require(whole.reader.unread() <= size, "no more is held than has come");
  Ear second;
  require(second.reader.add(whole.again).has_value(), "what is written can be read");
  require(second.lines == whole.lines, "and says the same");
  return 0;
}
