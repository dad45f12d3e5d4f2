// SPDX-License-Identifier: Apache-2.0
#include "value/taskmap.hpp"

#include "base/invariant.hpp"
#include "base/json.hpp"
#include "base/text.hpp"

namespace nacre::value {

// ---- taskmap runs -----------------------------------------------------------------------
//
// A task map unrolled: the node of each task, from rank 0 to the last. Refers to the blocks, which must outlive it.

class TaskRuns {
 public:
  explicit TaskRuns(const std::vector<Taskmap::Block>& blocks) : blocks_(blocks) { enter(); }

  [[nodiscard]] bool more() const { return block_ < blocks_.size(); }
  // The node of the current run; only while there is more().
  [[nodiscard]] std::uint32_t node() const { return blocks_[block_].nodeid + index_; }
  [[nodiscard]] std::uint32_t count() const { return left_; }  // tasks left in it, at least 1

  // Advances by `count` tasks, at most count().
  void take(std::uint32_t count) {
    left_ -= count;
    if (left_ > 0) return;
    if (++index_ == blocks_[block_].nnodes) {
      index_ = 0;
      if (++round_ == blocks_[block_].repeat) {
        round_ = 0;
        ++block_;
      }
    }
    enter();
  }

 private:
  void enter() {
    if (more()) left_ = blocks_[block_].ppn;
  }

  const std::vector<Taskmap::Block>& blocks_;
  std::size_t block_ = 0;
  std::uint32_t round_ = 0;  // of the block's repeats
  std::uint32_t index_ = 0;  // of the block's nodes
  std::uint32_t left_ = 0;
};

// ---- taskmap ----------------------------------------------------------------------------

namespace {

using Block = Taskmap::Block;

std::uint64_t tasks_of(const Block& block) { return std::uint64_t{block.nnodes} * block.ppn * block.repeat; }

// On a single node, repeating is the same as having more tasks; the latter can join its neighbours.
Block plain(Block block) {
  if (block.nnodes == 1) {
    block.ppn *= block.repeat;
    block.repeat = 1;
  }
  return block;
}

// The one block that equals `a` followed by `b`, if there is one.
std::optional<Block> joined(const Block& a, const Block& b) {
  bool same_nodes = a.nodeid == b.nodeid && a.nnodes == b.nnodes;
  if (same_nodes && a.nnodes == 1) return Block{a.nodeid, 1, a.ppn + b.ppn, 1};
  if (a.ppn != b.ppn) return std::nullopt;
  if (same_nodes) return Block{a.nodeid, a.nnodes, a.ppn, a.repeat + b.repeat};
  bool adjacent = b.nodeid == a.nodeid + a.nnodes && a.repeat == 1 && b.repeat == 1;
  if (adjacent) return Block{a.nodeid, a.nnodes + b.nnodes, a.ppn, 1};
  return std::nullopt;
}

}  // namespace

Taskmap Taskmap::block(const std::vector<std::uint32_t>& tasks) {
  Taskmap map;
  std::uint32_t node = 0;
  for (std::uint32_t count : tasks) {
    if (count > 0) map.append({node, 1, count, 1});
    ++node;
  }
  return map;
}

Taskmap Taskmap::of(const std::vector<std::uint32_t>& node_of) {
  Taskmap map;
  for (std::size_t task = 0; task < node_of.size();) {
    std::uint32_t count = 0;
    std::uint32_t node = node_of[task];
    while (task < node_of.size() && node_of[task] == node) ++count, ++task;
    map.append({node, 1, count, 1});
  }
  return map;
}

Result<void> Taskmap::add(std::uint64_t nodeid, std::uint64_t nnodes, std::uint64_t ppn, std::uint64_t repeat) {
  if (nnodes == 0 || ppn == 0 || repeat == 0) {
    return invalid(
        fmt::format("expected nnodes, ppn and repeat of at least 1, got {}, {} and {}", nnodes, ppn, repeat));
  }
  if (nodeid >= kMaxNodes || nnodes > kMaxNodes - nodeid) {
    return invalid(
        fmt::format("{} nodes from node {} on go beyond the limit of {} nodes", nnodes, nodeid, kMaxNodes));
  }
  // Divided, not multiplied: the product of the three may not fit in 64 bits.
  std::uint64_t room = kMaxTasks - tasks_;
  if (ppn > room / nnodes || repeat > room / (nnodes * ppn)) {
    return invalid(fmt::format("more than the limit of {} tasks", kMaxTasks));
  }
  append({static_cast<std::uint32_t>(nodeid), static_cast<std::uint32_t>(nnodes), static_cast<std::uint32_t>(ppn),
          static_cast<std::uint32_t>(repeat)});
  return {};
}

void Taskmap::append(Block block) {
  INVARIANT(block.nodeid < kMaxNodes && block.nnodes <= kMaxNodes - block.nodeid);
  std::uint64_t start = tasks_;
  tasks_ += tasks_of(block);
  INVARIANT(tasks_ <= kMaxTasks);
  nodes_ = std::max(nodes_, block.nodeid + block.nnodes);
  block = plain(block);
  // A joined block may join the one before it: such as the second round of a cyclic map, once it is complete.
  while (!blocks_.empty()) {
    auto both = joined(blocks_.back(), block);
    if (!both) break;
    block = *both;
    start = starts_.back();
    blocks_.pop_back();
    starts_.pop_back();
  }
  blocks_.push_back(block);
  starts_.push_back(start);
}

Result<std::uint32_t> Taskmap::node_of(std::uint64_t task) const {
  if (task >= tasks_) return invalid(fmt::format("taskmap: there is no task {}, only {} tasks", task, tasks_));
  auto index = std::upper_bound(starts_.begin(), starts_.end(), task) - starts_.begin() - 1;
  const Block& block = blocks_[static_cast<std::size_t>(index)];
  std::uint64_t within = (task - starts_[static_cast<std::size_t>(index)]) / block.ppn % block.nnodes;
  return block.nodeid + static_cast<std::uint32_t>(within);
}

std::uint32_t Taskmap::tasks_on(std::uint32_t node) const {
  std::uint32_t count = 0;
  for (const Block& block : blocks_) {
    if (node >= block.nodeid && node - block.nodeid < block.nnodes) count += block.ppn * block.repeat;
  }
  return count;
}

Idset Taskmap::ranks_on(std::uint32_t node) const {
  Idset ranks;
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    const Block& block = blocks_[i];
    if (node < block.nodeid || node - block.nodeid >= block.nnodes) continue;
    auto first = static_cast<Idset::Id>(starts_[i]) + (node - block.nodeid) * block.ppn;
    for (std::uint32_t round = 0; round < block.repeat; ++round) {
      ranks.insert(first, first + block.ppn - 1);
      first += block.nnodes * block.ppn;
    }
  }
  return ranks;
}

Result<void> Taskmap::same_size(const Taskmap& other) const {
  if (tasks_ != other.tasks_) return invalid(fmt::format("got {} tasks, expected {}", tasks_, other.tasks_));
  if (nodes_ != other.nodes_) return invalid(fmt::format("got {} nodes, expected {}", nodes_, other.nodes_));
  return {};
}

bool Taskmap::operator==(const Taskmap& other) const {
  if (tasks_ != other.tasks_) return false;
  if (blocks_ == other.blocks_) return true;
  // the same map may be cut into blocks in several ways
  TaskRuns mine(blocks_);
  TaskRuns theirs(other.blocks_);
  while (mine.more()) {
    if (mine.node() != theirs.node()) return false;
    std::uint32_t count = std::min(mine.count(), theirs.count());
    mine.take(count);
    theirs.take(count);
  }
  return true;
}

// ---- taskmap text -----------------------------------------------------------------------
//
// The three text forms of a task map.

namespace {

constexpr std::int64_t kVersion = 1;

// One number of a block. Its path is only made for an error, as a map may have millions of numbers.
Result<std::uint64_t> block_number(const Json& block, std::size_t index) {
  const Json& value = block[index];
  if (value.is_number_unsigned()) return value.get<std::uint64_t>();
  auto checked = JsonAt::root(value, fmt::format("[{}]", index)).integer(0);
  if (!checked) return std::move(checked).error();
  return static_cast<std::uint64_t>(*checked);
}

// The tokens of the PMI form; skips blanks between them.
class PmiText {
 public:
  explicit PmiText(std::string_view text) : rest_(trim(text)) {}

  bool eat(std::string_view token) {
    if (rest_.substr(0, token.size()) != token) return false;
    rest_ = trim(rest_.substr(token.size()));
    return true;
  }

  Result<void> expect(std::string_view token) {
    if (eat(token)) return {};
    return invalid(fmt::format("expected '{}' before {}", token, in_quotes(rest_)));
  }

  Result<std::uint64_t> number() {
    std::size_t digits = std::min(rest_.find_first_not_of("0123456789"), rest_.size());
    auto value = parse_u64(rest_.substr(0, digits));
    if (!value) return invalid(fmt::format("expected a number of 64 bits before {}", in_quotes(rest_)));
    rest_ = trim(rest_.substr(digits));
    return *value;
  }

  [[nodiscard]] bool done() const { return rest_.empty(); }
  [[nodiscard]] std::string_view rest() const { return rest_; }

 private:
  std::string_view rest_;
};

struct PmiBlock {
  std::uint64_t nodeid, nnodes, ppn;
};

Result<PmiBlock> pmi_block(PmiText& text) {
  PmiBlock block{};
  CHECK_OK(text.expect("("));
  block.nodeid = TRY(text.number());
  CHECK_OK(text.expect(","));
  block.nnodes = TRY(text.number());
  CHECK_OK(text.expect(","));
  block.ppn = TRY(text.number());
  CHECK_OK(text.expect(")"));
  return block;
}

// Consecutive tasks that the raw form has on one node.
struct RawRange {
  Idset::Range tasks;
  std::uint32_t node;
};

Result<std::vector<RawRange>> raw_ranges(std::string_view text) {
  auto nodes = static_cast<std::uint64_t>(std::count(text.begin(), text.end(), ';')) + 1;
  if (nodes > Taskmap::kMaxNodes) {
    return invalid(fmt::format("{} nodes are more than the limit of {}", nodes, Taskmap::kMaxNodes));
  }
  std::vector<RawRange> ranges;
  std::uint64_t tasks = 0;
  std::uint32_t node = 0;
  for (std::string_view piece : split(text, ';')) {
    auto ids = TRY(in(fmt::format("node {}", node), Idset::parse(trim(piece))));
    tasks += ids.size();
    if (tasks > Taskmap::kMaxTasks)
      return invalid(fmt::format("more than the limit of {} tasks", Taskmap::kMaxTasks));
    for (Idset::Range range : ids.ranges()) ranges.push_back({range, node});
    ++node;
  }
  return ranges;
}

}  // namespace

Result<Taskmap> Taskmap::parse(std::string_view text) {
  if (text.size() > kMaxText) return invalid(fmt::format("taskmap: text longer than {} bytes", kMaxText));
  text = trim(text);
  if (text.empty()) return Taskmap();
  char first = text.front();
  if (first == '[' || first == '{') return from_json(TRY(in("taskmap", parse_json(text))));
  if (first == '(') return in("taskmap", from_pmi(text));
  if (first == ';' || (first >= '0' && first <= '9')) return in("taskmap", from_raw(text));
  return invalid(
      fmt::format("taskmap: expected [[nodeid,nnodes,ppn,repeat],...], (vector,...) or idsets parted by "
                  "';', got {}",
                  in_quotes(text)));
}

Result<Taskmap> Taskmap::from_json(const Json& json) {
  JsonAt at = JsonAt::root(json);
  if (json.is_object()) {
    CHECK_OK(in("taskmap", at.only_keys({"version", "map"})));
    JsonAt version = TRY(in("taskmap", at.at("version")));
    if (!version.json().is_number_integer() || version.json() != kVersion) {
      return in("taskmap", version.expected(std::to_string(kVersion)));
    }
    at = TRY(in("taskmap", at.at("map")));
  }
  if (!at.json().is_array()) return in("taskmap", at.expected("an array of blocks"));
  Taskmap map;
  for (std::size_t i = 0; i < at.json().size(); ++i) {
    const Json& block = at.json()[i];
    auto where = [&] { return fmt::format("taskmap: {}[{}]", at.path(), i); };
    if (!block.is_array() || block.size() != 4) {
      return JsonAt::root(block, where()).expected("four integers [nodeid,nnodes,ppn,repeat]");
    }
    std::uint64_t numbers[4];
    for (std::size_t k = 0; k < 4; ++k) {
      auto number = block_number(block, k);
      if (!number) return Error{EINVAL, where() + std::move(number).error().message};
      numbers[k] = *number;
    }
    auto added = map.add(numbers[0], numbers[1], numbers[2], numbers[3]);
    if (!added) return in(where(), std::move(added).error());
  }
  return map;
}

Result<Taskmap> Taskmap::from_pmi(std::string_view text) {
  PmiText rest(text);
  CHECK_OK(rest.expect("("));
  CHECK_OK(rest.expect("vector"));
  Taskmap map;
  for (std::size_t i = 0; !rest.eat(")"); ++i) {
    CHECK_OK(rest.expect(","));
    if (rest.eat(")")) break;
    std::string where = fmt::format("block {}", i);
    auto [nodeid, nnodes, ppn] = TRY(in(where, pmi_block(rest)));
    CHECK_OK(in(where, map.add(nodeid, nnodes, ppn, 1)));
  }
  if (!rest.done()) return invalid(fmt::format("expected the end before {}", in_quotes(rest.rest())));
  return map;
}

Result<Taskmap> Taskmap::from_raw(std::string_view text) {
  auto ranges = TRY(raw_ranges(text));
  std::sort(ranges.begin(), ranges.end(),
            [](const RawRange& a, const RawRange& b) { return a.tasks.first < b.tasks.first; });
  if (ranges.empty()) return invalid("no node has a task");
  Taskmap map;
  for (const RawRange& range : ranges) {
    if (range.tasks.first < map.tasks()) return invalid(fmt::format("task {} is given twice", range.tasks.first));
    if (range.tasks.first > map.tasks()) return invalid(fmt::format("task {} is on no node", map.tasks()));
    map.append({range.node, 1, range.tasks.last - range.tasks.first + 1, 1});
  }
  return map;
}

Json Taskmap::json() const {
  Json map = Json::array();
  for (const Block& b : blocks_) map.push_back(Json::array({b.nodeid, b.nnodes, b.ppn, b.repeat}));
  return Json{{"version", kVersion}, {"map", std::move(map)}};
}

std::string Taskmap::str() const {
  std::string out = "[";
  for (const Block& b : blocks_) {
    fmt::format_to(std::back_inserter(out), "{}[{},{},{},{}]", out.size() > 1 ? "," : "", b.nodeid, b.nnodes, b.ppn,
                   b.repeat);
  }
  return out + "]";
}

std::string Taskmap::raw() const {
  std::vector<Idset> ranks(nodes_);
  std::uint32_t task = 0;
  for (TaskRuns runs(blocks_); runs.more();) {
    std::uint32_t count = runs.count();
    ranks[runs.node()].insert(task, task + count - 1);
    task += count;
    runs.take(count);
  }
  std::string out;
  for (std::size_t node = 0; node < ranks.size(); ++node) {
    if (node > 0) out += ';';
    out += ranks[node].str();
  }
  return out;
}

std::string Taskmap::pmi() const {
  if (unknown()) return "";
  std::string out = "(vector";
  for (const Block& b : blocks_) {
    std::string one = fmt::format(",({},{},{})", b.nodeid, b.nnodes, b.ppn);
    for (std::uint32_t round = 0; round < b.repeat; ++round) out += one;
  }
  return out + ")";
}

}  // namespace nacre::value
