// SPDX-License-Identifier: Apache-2.0
//
// The collectives that tasks have called, as torch's Flight Recorder has recorded them, and what follows from the
// records of all tasks: one lags behind, or calls another collective than the others. Pure.
#pragma once

#include "base/json_fwd.hpp"
#include "value/idset.hpp"

namespace nacre::doctor {

// Reads a pickle of Python, protocols 2 to 4, as data: dicts, lists, tuples, texts, numbers, True, False and None.
// Nothing in it is run: a pickle that names a function or a class is refused.
struct PickleValue {
  enum class Kind : std::uint8_t { none, boolean, integer, number, text, list, dict };
  Kind kind = Kind::none;
  std::int64_t integer = 0;  // also of a boolean
  double number = 0;
  std::string_view text;
  std::vector<std::uint32_t> items;  // of a list or a tuple; of a dict keys and values by turns
};

class Pickle {
 public:
  static constexpr std::size_t kMostBytes = std::size_t{32} << 20;
  static constexpr std::size_t kMostValues = 1'000'000;
  static constexpr std::size_t kMostItems = 4'000'000;  // in all lists and dicts
  static constexpr std::size_t kMostDepth = 64;         // lists and dicts that are open at a time

  // `bytes` have to live as long as the pickle. An error names the place.
  static Result<Pickle> read(std::string_view bytes);

  [[nodiscard]] const PickleValue& root() const { return values_[root_]; }
  [[nodiscard]] const PickleValue& at(std::uint32_t index) const { return values_[index]; }
  // The value of a key of a dict; null: the dict does not have it, or it is no dict.
  [[nodiscard]] const PickleValue* member(const PickleValue& dict, std::string_view key) const;

 private:
  friend class PickleReader;
  std::vector<PickleValue> values_;
  std::uint32_t root_ = 0;
};

struct CollectiveCall {
  std::uint64_t number = 0;  // collective_seq_id: how many the process group has called up to it
  std::string name;          // "all_reduce"
  std::string sizes;         // of what goes in: "[[1024]]"
  std::string state;         // "scheduled", "started", "completed"

  bool operator==(const CollectiveCall&) const = default;
};

// The calls of one process group.
struct CollectiveGroup {
  std::string name;                  // "0 (default_pg)"
  std::string members;               // as torch has it: "[0, 1]"; "": unknown
  std::vector<CollectiveCall> last;  // the newest, by their numbers; empty: it has called none

  bool operator==(const CollectiveGroup&) const = default;
};

// The log of tasks whose records are equal.
struct CollectiveLog {
  static constexpr std::size_t kMostGroups = 8;
  static constexpr std::size_t kMostLast = 16;  // of a group
  static constexpr std::size_t kMostText = 64;  // bytes of each text

  value::Idset ranks;
  value::Idset torch_ranks;  // as torch counts them
  std::vector<CollectiveGroup> groups;
  std::optional<double> since;  // seconds since they called the newest; of the last task to do so

  [[nodiscard]] Json json() const;
  static Result<CollectiveLog> parse(const Json& json);
};

// Reads a dump, which is a pickle, without its ranks. `now`: seconds since 1970, when it was written.
[[nodiscard]] Result<CollectiveLog> collectives_in(std::string_view dump, double now);

// Logs with equal groups become one.
[[nodiscard]] std::vector<CollectiveLog> folded(std::vector<CollectiveLog> logs);

struct CollectiveFinding {
  value::Idset ranks;
  value::Idset torch_ranks;  // empty: as `ranks`
  std::string text;          // behind who it is: "at collective 41 in process group 0, and 7 others are at 42"
  std::string evidence;
};
// `logs` are folded. A finding is certain, or has lasted for kLeastLag seconds: no two dumps are of the same
// moment.
inline constexpr double kLeastLag = 10;
[[nodiscard]] std::vector<CollectiveFinding> collective_findings(const std::vector<CollectiveLog>& logs);

}  // namespace nacre::doctor
