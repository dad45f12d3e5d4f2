// SPDX-License-Identifier: Apache-2.0
//
// Which node runs which task. Text form: Flux RFC 34 (a JSON array of [nodeid, nnodes, ppn, repeat] blocks, bare or
// as the "map" of {"version":1,"map":[...]}). Also PMI-1's PMI_process_mapping "(vector,(nodeid,nnodes,ppn),...)"
// of RFC 13, and the raw form of RFC 34 (a semicolon-separated list of idsets, one for each node; empty: no task
// there).
//
// Tasks are counted in the order of the blocks: a block gives ppn tasks to each of its nodes in turn, repeat times.
// Blocks are merged with their neighbours if possible, so a regular map costs little for any number of tasks.
#pragma once

#include "base/json_fwd.hpp"
#include "value/idset.hpp"

namespace nacre::value {

class Taskmap {
 public:
  struct Block {
    std::uint32_t nodeid = 0;  // the first node
    std::uint32_t nnodes = 1;  // on how many nodes in a row
    std::uint32_t ppn = 1;     // tasks a node
    std::uint32_t repeat = 1;  // how many times all of it is repeated
    bool operator==(const Block&) const = default;
  };

  static constexpr std::uint64_t kMaxTasks = std::uint64_t{1} << 24;
  static constexpr std::uint32_t kMaxNodes = std::uint32_t{1} << 20;
  static constexpr std::size_t kMaxText = std::size_t{64} << 20;  // bytes

  Taskmap() = default;  // no tasks, no nodes
  // Parses any of the three text forms, which differ in their first character. A map without information ("", "[]"
  // or "(vector)") is unknown(). The PMI form may have blanks and a comma after its last block, as PMI servers
  // write it. Errors start with "taskmap: "; a map beyond the limits is refused before it is expanded.
  static Result<Taskmap> parse(std::string_view text);
  static Result<Taskmap> from_json(const Json& json);
  // The next two functions take at most kMaxTasks tasks and kMaxNodes nodes; callers have to ensure that
  // (asserted). block: tasks[i] tasks for node i, with consecutive ranks.
  static Taskmap block(const std::vector<std::uint32_t>& tasks);
  // node_of[rank] for each rank.
  static Taskmap of(const std::vector<std::uint32_t>& node_of);

  [[nodiscard]] bool unknown() const { return blocks_.empty(); }
  [[nodiscard]] std::uint64_t tasks() const { return tasks_; }
  [[nodiscard]] std::uint32_t nodes() const { return nodes_; }            // the largest node id + 1
  [[nodiscard]] Result<std::uint32_t> node_of(std::uint64_t task) const;  // an error if there is no such task
  [[nodiscard]] std::uint32_t tasks_on(std::uint32_t node) const;
  [[nodiscard]] Idset ranks_on(std::uint32_t node) const;
  [[nodiscard]] const std::vector<Block>& blocks() const { return blocks_; }

  // Appends a block: the next tasks. An error if it is empty or beyond the limits; then nothing changes.
  Result<void> add(std::uint64_t nodeid, std::uint64_t nnodes, std::uint64_t ppn, std::uint64_t repeat);

  [[nodiscard]] Json json() const;        // {"version":1,"map":[[...],...]}
  [[nodiscard]] std::string str() const;  // [[...],...]
  [[nodiscard]] std::string raw() const;  // 0-3;4-7
  // (vector,(0,2,4)); "" if unknown; a block is written once for each repeat
  [[nodiscard]] std::string pmi() const;
  // An error unless it has as many tasks and nodes as `other`; it names the difference, with `other` as the
  // expected side.
  [[nodiscard]] Result<void> same_size(const Taskmap& other) const;

  bool operator==(const Taskmap& other) const;  // the same node for each task

 private:
  static Result<Taskmap> from_raw(std::string_view text);
  static Result<Taskmap> from_pmi(std::string_view text);
  void append(Block block);  // merges it with the last block if possible

  std::vector<Block> blocks_;
  std::vector<std::uint64_t> starts_;  // the first task of each block
  std::uint64_t tasks_ = 0;
  std::uint32_t nodes_ = 0;
};

}  // namespace nacre::value
