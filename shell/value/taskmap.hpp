// SPDX-License-Identifier: Apache-2.0
//
// Which node runs which task. Text form: Flux RFC 34 (a JSON array of [nodeid, nnodes, ppn, repeat] blocks, bare or
// as the "map" of {"version":1,"map":[...]}). Also PMI-1's PMI_process_mapping "(vector,(nodeid,nnodes,ppn),...)"
// and the raw form of RFC 34 (a semicolon-separated list of idsets, one a node).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_fwd.hpp"
#include "base/result.hpp"
#include "value/idset.hpp"

namespace nacre::value {

class Taskmap {
 public:
  struct Block {
    std::uint32_t nodeid = 0;  // the first node
    std::uint32_t nnodes = 1;  // on how many nodes in a row
    std::uint32_t ppn = 1;     // tasks a node
    std::uint32_t repeat = 1;  // the whole, how many times
    bool operator==(const Block&) const = default;
  };

  static constexpr std::uint64_t kMaxTasks = std::uint64_t{1} << 24;
  static constexpr std::uint32_t kMaxNodes = std::uint32_t{1} << 20;

  Taskmap() = default;  // no tasks, no nodes
  // Parses any of the three text forms, told apart by their first character. A map with no information ("[]" or
  // "(vector)") is unknown().
  static Result<Taskmap> parse(std::string_view text);
  static Result<Taskmap> from_json(const Json& json);
  // tasks[i] tasks for node i, consecutive ranks: the block map.
  static Taskmap block(const std::vector<std::uint32_t>& tasks);
  // node_of[rank] for each rank.
  static Taskmap of(const std::vector<std::uint32_t>& node_of);

  [[nodiscard]] bool unknown() const { return blocks_.empty(); }
  [[nodiscard]] std::uint64_t tasks() const { return tasks_; }
  [[nodiscard]] std::uint32_t nodes() const { return nodes_; }  // the largest node id + 1
  [[nodiscard]] Result<std::uint32_t> node_of(std::uint64_t task) const;
  [[nodiscard]] std::uint32_t tasks_on(std::uint32_t node) const;
  [[nodiscard]] Idset ranks_on(std::uint32_t node) const;
  [[nodiscard]] const std::vector<Block>& blocks() const { return blocks_; }

  [[nodiscard]] Json json() const;           // {"version":1,"map":[[...],...]}
  [[nodiscard]] std::string str() const;     // [[...],...]
  [[nodiscard]] std::string raw() const;     // 0-3;4-7
  [[nodiscard]] std::string pmi() const;     // (vector,(0,2,4))
  // This map puts the same number of tasks on each node as `other` does; an error names the first difference.
  [[nodiscard]] Result<void> same_counts(const Taskmap& other) const;

  bool operator==(const Taskmap& other) const;  // the same node for each task

 private:
  void append(Block block);  // merges with the last block where it can

  std::vector<Block> blocks_;
  std::uint64_t tasks_ = 0;
  std::uint32_t nodes_ = 0;
};

}  // namespace nacre::value
