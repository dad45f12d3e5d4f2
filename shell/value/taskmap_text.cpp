// SPDX-License-Identifier: Apache-2.0
//
// The three text forms of a task map.
#include <algorithm>
#include <iterator>

#include <fmt/format.h>

#include "base/json.hpp"
#include "base/text.hpp"
#include "value/taskmap.hpp"
#include "value/taskmap_runs.hpp"

namespace nacre::value {
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
