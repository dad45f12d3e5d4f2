// SPDX-License-Identifier: Apache-2.0
//
// What tasks write, on its way to another shell: doc/protocol.md, "Output". WireFormat writes it, BatchReader reads
// it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "io/format.hpp"

namespace nacre::io {

inline constexpr std::size_t kMaxWireText = std::size_t{4} << 20;  // bytes of a batch, a label, an event

// Writes bytes for a BatchReader. A source is identified by its address until it ends.
class WireFormat final : public Format {
 public:
  // For sources of one stream: sources of the two streams get different numbers. `repeats`: each batch has its
  // source with it, so that a reader can begin with any of them.
  explicit WireFormat(Stream stream, bool repeats = false)
      : next_(static_cast<std::uint32_t>(stream)), repeats_(repeats) {}

  Pieces put(const Batch& batch) override;
  Pieces end(const Source& source, double time) override;
  Pieces notice(std::string_view message, double time) override;  // as an event "notice"

  // One line of an eventlog, without its newline.
  static std::string event(std::string_view line);
  // The task has ended, and so have its streams.
  static std::string complete(std::uint32_t rank);

 private:
  std::uint32_t introduce(const Source& source);

  std::map<const Source*, std::uint32_t> numbers_;
  std::uint32_t next_;
  bool repeats_;
  std::string head_;
};

class BatchReader {
 public:
  struct Take {
    std::function<Result<void>(const Source&)> source;  // a new source; an error refuses it
    std::function<void(const Batch&)> batch;
    std::function<void(const Source&, double time)> end;
    std::function<void(std::string_view line)> event;
    std::function<Result<void>(std::uint32_t rank)> complete;  // an error refuses it
  };

  explicit BatchReader(Take take) : take_(std::move(take)) {}

  // Bytes in any pieces. EPROTO: they are not what a WireFormat writes, and no more can be read.
  Result<void> add(std::string_view bytes);
  // Nothing more comes: ends all sources that are left.
  void end_all(double time);
  [[nodiscard]] std::size_t unread() const { return bytes_.size(); }

 private:
  Result<bool> take_one(std::string_view& bytes);
  Result<void> introduce(std::uint32_t number, std::string_view bytes);
  Result<const Source*> find(std::uint32_t number) const;

  Take take_;
  std::string bytes_;  // of a record that is not complete yet
  std::map<std::uint32_t, std::unique_ptr<Source>> sources_;
};

}  // namespace nacre::io
