// SPDX-License-Identifier: Apache-2.0
//
// What the user has requested: a jobspec. Source of the format: Flux RFC 25 (version 1), and the parts of RFC 14
// that it refers to. The text is JSON, or YAML (1.2 core schema) if it is no JSON.
//
// This accepts more than the text of RFC 25 where its schema, RFC 14 or common launchers do: `total` tasks may be
// more than the slots or fewer than the nodes, `per_slot` may exceed one, and attributes.system and its `duration`
// may be missing. Levels above nodes, and between nodes and slots, multiply what is in them; other resources of a
// slot, and vertices without a slot, have no effect; a slot may be a whole node; a count may be a range; a task has
// attributes. Refused are several slots or tasks, and unknown keys of a vertex, a task or `attributes`.
#pragma once

#include <nlohmann/json.hpp>

#include "base/json.hpp"
#include "job/resources.hpp"

namespace nacre::job {

// How many of a resource a jobspec asks for: a number, or those that Flux RFC 14 describes by an object {min, max,
// operator, operand}, an idset (RFC 22), or text as "2-8:2:*" (RFC 45).
class CountRange {
 public:
  // Errors name the place. No count is 0 or more than Jobspec::kMaxCount.
  static Result<CountRange> read(const JsonAt& count);
  CountRange(std::uint32_t number) : min_(number), max_(number) {}  // NOLINT: a number is such a range

  [[nodiscard]] std::uint32_t min() const { return min_; }
  [[nodiscard]] bool is_fixed() const { return !ids_ && max_ && *max_ == min_; }
  [[nodiscard]] bool contains(std::uint32_t count) const;
  // The largest count that is at most this; none: all are larger.
  [[nodiscard]] std::optional<std::uint32_t> largest(std::uint32_t most) const;
  [[nodiscard]] std::string str() const;  // "2:8"; "2:": no limit; "2-8:2:*", "1,3": not all numbers between

 private:
  CountRange(std::uint32_t min, std::optional<std::uint32_t> max) : min_(min), max_(max) {}
  static Result<CountRange> of_object(const JsonAt& count);
  static Result<CountRange> of_text(const JsonAt& count);
  static Result<void> check(const JsonAt& count, const CountRange& range);

  std::uint32_t min_;
  std::optional<std::uint32_t> max_;  // none: no limit
  char operator_ = '+';
  std::uint32_t operand_ = 1;
  std::optional<value::Idset> ids_;  // exactly these
};

struct Jobspec {
  // The limit for the nodes, the cores or gpus of a slot, all slots, and all tasks.
  static constexpr std::uint32_t kMaxCount = std::uint32_t{1} << 24;
  // Bytes of an argument, or of NAME=value, with the NUL at its end: MAX_ARG_STRLEN of Linux.
  static constexpr std::size_t kMaxArgument = std::size_t{128} << 10;

  enum class Count { per_slot, total };

  static constexpr int kDraftVersion = 999;  // of RFC 14's use cases

  int version = 1;
  // The requested resources, in sum.
  std::optional<std::uint32_t> nodes;           // none: no node vertex
  std::optional<std::uint32_t> slots_per_node;  // none: no node vertex
  std::uint32_t slots = 1;                      // in all
  std::uint32_t cores_per_slot = 1;
  std::uint32_t gpus_per_slot = 0;
  bool node_exclusive = false;
  // Set if counts are ranges; then `nodes`, `slots_per_node` and `slots` are the least until R is known.
  std::optional<CountRange> node_counts;
  std::optional<CountRange> slot_counts;  // on each node, if there is a node vertex
  // The one program.
  std::vector<std::string> command;  // not empty, and neither is its first element
  Count count = Count::per_slot;
  std::uint32_t count_value = 1;  // tasks a slot, or in all
  // attributes.system
  double duration = 0;             // seconds; 0: no limit
  std::optional<std::string> cwd;  // an absolute path
  // By name. Variables with null, which means unset, are left out: the job's environment starts empty.
  std::vector<std::pair<std::string, std::string>> environment;
  Json options = Json::object();  // shell.options
  Json document;                  // all of it, as JSON

  // Reads `text` as JSON, else as YAML. Errors have the path: `resources[0].count: expected a positive integer, got
  // -1`. If the text starts with '{' but is no JSON, they first say why it is no JSON, and then give the error as
  // YAML.
  static Result<Jobspec> parse(std::string_view text);
  static Result<Jobspec> from_json(Json document);

  // All tasks, before any per-resource option: the count, or count x slots.
  [[nodiscard]] std::uint64_t tasks() const;
};

inline constexpr std::size_t kMaxYaml = std::size_t{8} << 20;  // bytes of text
// Limits the bytes of a document's scalars, plus 64 for each value; an alias counts as much as what it refers to.
inline constexpr std::size_t kMaxYamlWeight = std::size_t{32} << 20;

// Converts YAML to JSON: one document; plain scalars have the types of the YAML 1.2 core schema; an empty text is
// null. The depth is limited as in JSON (kMaxJsonDepth). Refused are values that JSON does not have (infinity, NaN,
// keys that are no scalars), tags other than those of the core schema, and a key twice in a map. Errors start with
// `YAML: line L, column C`.
Result<Json> yaml_to_json(std::string_view text);

// Interprets the resources of a jobspec for a shell; see jobspec.hpp for what is read.

// Reads them into the requested resources of `spec`; returns the label of the slot. A count that is a range is its
// least until settle_counts().
Result<std::string> read_resources(const JsonAt& resources, Jobspec& spec);

// Chooses the counts that the jobspec leaves open: as many nodes, and slots, as R has. An error if it cannot use
// that many.
Result<void> settle_counts(const Resources& resources, Jobspec& spec);

}  // namespace nacre::job
