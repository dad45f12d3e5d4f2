// SPDX-License-Identifier: Apache-2.0
#include "doctor/nccl_ras.hpp"

#include "base/text.hpp"
#include "wire/json.hpp"

namespace nacre::doctor {

// As the JSON of the RAS has it.
struct RasStatus {
  bool is_dead = false;
  bool is_silent = false;
};
struct RasRank {
  std::uint64_t rank = 0;
  RasProcess process;
  RasStatus status;
  std::map<std::string, std::uint64_t> counts;  // by operation
};
struct RasGroup {
  std::string hash;
  std::uint64_t size = 0;
  std::vector<RasRank> ranks, missing;
};
struct RasAnswer {
  std::vector<RasGroup> groups;
};

void fields(auto& io, wire::Of<RasStatus> auto& m) {
  io.may_lack("considered_dead", m.is_dead);
  io.may_lack("unresponsive", m.is_silent);
}

void fields(auto& io, wire::Of<RasRank> auto& m) {
  io.has("rank", m.rank);
  io.may_lack("host", m.process.host);
  io.may_lack("pid", m.process.pid);
  io.may_lack("status", m.status);
  io.may_lack("collective_counts", m.counts);
}

void fields(auto& io, wire::Of<RasGroup> auto& m) {
  io.has("hash", m.hash);
  io.may_lack("size", m.size);
  io.has("ranks", m.ranks);
  io.may_lack("missing_ranks", m.missing);
}

void fields(auto& io, wire::Of<RasAnswer> auto& m) { io.has("communicators", m.groups); }

namespace {

RasCommunicator communicator_of(const RasGroup& group) {
  RasCommunicator out;
  out.name = group.hash.substr(0, 32);
  out.size = group.size;
  for (const RasRank& each : group.missing) {
    if (!each.status.is_silent && !each.status.is_dead) continue;  // it has left, or has not joined yet
    out.silent[each.rank] = each.process;
    if (each.status.is_dead) out.dead.insert(each.rank);
  }
  for (const RasRank& each : group.ranks) {
    for (const auto& [operation, number] : each.counts) {
      RasCommunicator::Launched& launched = out.launched[operation][number];
      launched.ranks[each.rank] = each.process;
      ++launched.count;
    }
  }
  std::erase_if(out.launched, [](const auto& each) { return each.second.size() < 2; });
  return out;
}

// ---- the text -----------------------------------------------------------------------------

std::optional<std::uint64_t> count_behind(std::string_view line, std::string_view words) {
  std::size_t at = line.find(words);
  if (at == std::string_view::npos) return std::nullopt;
  std::string_view rest = line.substr(at + words.size());
  return parse_u64(rest.substr(0, rest.find_first_not_of("0123456789")));
}

// "Rank 3 -- GPU 3 managed by process 483075 on node 172.16.64.210"
RasProcess process_in(std::string_view line) {
  constexpr std::string_view kNode = " on node ";
  RasProcess out;
  out.pid = static_cast<std::int64_t>(count_behind(line, " by process ").value_or(0));
  std::size_t node = line.find(kNode);
  if (out.pid != 0 && node != std::string_view::npos) out.host = std::string(line.substr(node + kNode.size(), 64));
  if (out.pid == 0) out.pid = -1;
  return out;
}

// Of one communicator: "#0-0 (27a079b828ff1a75) MISMATCH", and the lines below it.
class RasTextReader {
 public:
  std::vector<RasCommunicator> read(std::string_view text) {
    for (std::string_view line : split(text, '\n')) take(trim(line));
    std::vector<RasCommunicator> out;
    for (auto& [name, each] : all_) {
      std::erase_if(each.launched, [](const auto& of) { return of.second.size() < 2; });
      if (!each.launched.empty() || !each.silent.empty()) out.push_back(std::move(each));
    }
    return out;
  }

 private:
  static constexpr std::string_view kCounts = "Communicator ranks have different ";

  void take(std::string_view line) {
    if (line.starts_with('#')) return begin(line);
    if (at_ == nullptr || line.empty()) return end_if(line.empty());
    if (line.starts_with(kCounts)) return begin_counts(line.substr(kCounts.size()));
    auto rank = line.starts_with("Rank ") ? count_behind(line, "Rank ") : std::nullopt;
    if (is_incomplete_) {
      if (!rank) rank = count_behind(line, "The missing rank: ");
      if (rank) at_->silent[*rank] = process_in(line);
      return;
    }
    if (!operation_) return;
    auto launched = count_behind(line, "launched up to operation ");
    if (line.find("not launched any operations") != std::string_view::npos) launched = 0;
    if (launched) number_ = *launched;
    auto& of = at_->launched[*operation_][number_];
    if (rank) of.ranks[*rank] = process_in(line);
    if (rank && launched) ++of.count;  // it has a line of its own
    if (!rank && launched) of.count += count_behind(line, "").value_or(0);
  }

  void end_if(bool ends) {
    if (ends) at_ = nullptr;
  }

  void begin(std::string_view line) {
    std::size_t open = line.find('('), close = line.find(')');
    at_ = nullptr;
    if (open == std::string_view::npos || close == std::string_view::npos || close < open) return;
    std::string name = "0x" + std::string(line.substr(open + 1, std::min<std::size_t>(close - open - 1, 30)));
    at_ = &all_[name];
    at_->name = name;
    is_incomplete_ = line.ends_with("INCOMPLETE");
    operation_.reset();
  }

  // "AllReduce operation counts"; before 2.26 "collective operation counts", of all of them.
  void begin_counts(std::string_view what) {
    operation_.reset();
    if (!what.ends_with(" operation counts")) return;
    std::string name(what.substr(0, what.find(' ')));
    operation_ = name == "collective" ? "" : name;
  }

  std::map<std::string, RasCommunicator> all_;
  RasCommunicator* at_ = nullptr;
  bool is_incomplete_ = false;
  std::optional<std::string> operation_;
  std::uint64_t number_ = 0;
};

// ---- what follows -------------------------------------------------------------------------

std::string communicator_text(const RasCommunicator& of) {
  return of.size == 0 ? "NCCL's communicator " + of.name
                      : fmt::format("NCCL's communicator {} of {} ranks", of.name, of.size);
}

RasFinding finding_of(const RasCommunicator::Ranks& ranks, std::uint64_t count, const RankOf& rank_of) {
  RasFinding out;
  for (const auto& [rank, process] : ranks) {
    if (auto found = rank_of.find(process); found != rank_of.end()) out.ranks.insert(found->second);
  }
  if (ranks.empty() || ranks.begin()->second.pid < 0)
    out.process = count == 1 ? "a process" : fmt::format("{} processes", count);
  else
    out.process = fmt::format("process {} on {}", ranks.begin()->second.pid, ranks.begin()->second.host);
  if (count > 1 && !ranks.empty() && ranks.begin()->second.pid >= 0)
    out.process += fmt::format(" and {} more", count - 1);
  return out;
}

std::string ranks_text(const RasCommunicator::Ranks& ranks, std::uint64_t count) {
  value::Idset known;
  constexpr std::uint64_t kMost = 1'000'000;
  for (const auto& [rank, process] : ranks) {
    if (rank < kMost) known.insert(static_cast<std::uint32_t>(rank));
  }
  if (known.size() != count) return fmt::format("{} ranks", count);
  return fmt::format("{} {}", count == 1 ? "rank" : "ranks", known.short_str());
}

void find_silent(const RasCommunicator& first, const RasCommunicator& second, const RankOf& rank_of,
                 std::vector<RasFinding>& out) {
  RasCommunicator::Ranks both;
  std::uint64_t dead = 0;
  for (const auto& [rank, process] : second.silent) {
    if (!first.silent.contains(rank)) continue;
    both[rank] = process;
    dead += second.dead.contains(rank) ? 1 : 0;
  }
  if (both.empty()) return;
  RasFinding found = finding_of(both, both.size(), rank_of);
  found.text = fmt::format("{} of {}", ranks_text(both, both.size()), communicator_text(second));
  found.evidence = "NCCL's RAS has twice had no answer from there";
  if (dead > 0) found.evidence += fmt::format(", and takes {} for dead", dead);
  out.push_back(std::move(found));
}

// What is the same at both answers does not go on.
void find_behind(const RasCommunicator& first, const RasCommunicator& second, const RankOf& rank_of,
                 std::vector<RasFinding>& out) {
  for (const auto& [operation, numbers] : second.launched) {
    auto before = first.launched.find(operation);
    if (before == first.launched.end() || before->second != numbers) continue;
    const auto& [most, ahead] = *numbers.rbegin();
    std::string what = operation.empty() ? "operations" : operation;
    for (const auto& [number, behind] : numbers) {
      if (number == most) continue;
      RasFinding found = finding_of(behind.ranks, behind.count, rank_of);
      found.text = fmt::format("{} of {}", ranks_text(behind.ranks, behind.count), communicator_text(second));
      found.evidence = fmt::format("by NCCL's RAS, twice, {} {} have been launched there, and {} by {} others",
                                   number, what, most, ahead.count);
      out.push_back(std::move(found));
    }
  }
}

}  // namespace

Result<std::vector<RasCommunicator>> ras_communicators(std::string_view text) {
  std::vector<RasCommunicator> out;
  if (!trim(text).starts_with('{')) {
    if (text.find("Communicators...") == std::string_view::npos) return invalid("it is no status of NCCL's RAS");
    return RasTextReader().read(text);
  }
  auto answer = TRY(wire::from_text<RasAnswer>(text));
  for (const RasGroup& each : answer.groups) out.push_back(communicator_of(each));
  return out;
}

std::vector<RasFinding> ras_findings(const std::vector<RasCommunicator>& first,
                                     const std::vector<RasCommunicator>& second, const RankOf& rank_of) {
  std::vector<RasFinding> out;
  for (const RasCommunicator& each : second) {
    auto before =
        std::find_if(first.begin(), first.end(), [&](const RasCommunicator& of) { return of.name == each.name; });
    if (before == first.end()) continue;
    find_silent(*before, each, rank_of, out);
    find_behind(*before, each, rank_of, out);
  }
  if (out.size() > kMostRasFindings) out.resize(kMostRasFindings);
  return out;
}

void fields(auto& io, wire::Of<RasFinding> auto& m) {
  io.may_have("ranks", m.ranks);
  io.has("process", m.process);
  io.has("text", m.text);
  io.has("evidence", m.evidence);
}

Json RasFinding::json() const { return wire::to_json(*this); }

Result<RasFinding> RasFinding::parse(const Json& json) { return wire::from_json<RasFinding>(json); }

std::vector<RasFinding> folded(const std::vector<RasFinding>& findings) {
  std::vector<RasFinding> out;
  for (const RasFinding& each : findings) {
    auto known = std::find_if(out.begin(), out.end(), [&](const RasFinding& of) {
      return of.text == each.text && of.evidence == each.evidence && of.process == each.process;
    });
    if (known == out.end())
      out.push_back(each);
    else
      known->ranks.insert(each.ranks);
  }
  return out;
}

}  // namespace nacre::doctor
