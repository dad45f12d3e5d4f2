// SPDX-License-Identifier: Apache-2.0
#include "doctor/words.hpp"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/text.hpp"
#include "doctor/stacks.hpp"

namespace nacre::doctor {
namespace {

constexpr std::size_t kMostHosts = 4;       // that are named
constexpr std::size_t kMostRanks = 60;      // bytes of a set of ranks in a sentence
constexpr std::size_t kMostRanksCell = 32;  // of one in a table
constexpr std::size_t kMostName = 64;       // bytes of a program, a function, a host
constexpr std::size_t kMostPath = 256;      // bytes

std::string plain(std::string_view text, std::size_t most = kMostName) {
  std::string out = escape_controls(text.substr(0, most));
  return text.size() > most ? out + "..." : out;
}

std::string cut_ranks(const value::Idset& ranks, std::size_t most) {
  std::string out = ranks.str();
  if (out.size() <= most) return out;
  std::size_t comma = out.rfind(',', most);
  return out.substr(0, comma == std::string::npos ? most : comma) + ",...";
}

bool is_one_of(std::string_view text, std::initializer_list<std::string_view> list) {
  return std::find(list.begin(), list.end(), text) != list.end();
}

// Who has the other end of the pipe: `does` to it, as `action`.
std::string end_text(PipeEnd end, std::string_view does, std::string_view action) {
  switch (end) {
    case PipeEnd::nobody: return fmt::format(" that nobody has open for {}", action);
    case PipeEnd::itself: return fmt::format(" that nobody else has open for {}", action);
    case PipeEnd::shell: return fmt::format(" that its shell {}", does);
    default: return "";
  }
}

std::string object_text(const Fact& fact) {
  std::string object = fact.object.empty() ? "a descriptor" : "a " + plain(fact.object);
  return (fact.is_input ? "its standard input, " + object : object) + end_text(fact.writer, "feeds", "writing") +
         end_text(fact.reader, "reads", "reading");
}

std::string waiting_text(const Fact& fact, bool several) {
  auto verb = [&](std::string_view one) { return std::string(one) + (several ? "" : "s"); };
  if (fact.locked == 1) return verb("wait") + " for a lock that only it could release (futex)";
  if (fact.locked > 1)
    return fmt::format("{} for locks or for its threads, as all of its {} threads do (futex)", verb("wait"),
                       fact.locked);
  const std::string& call = fact.call;
  if (is_one_of(call, {"read", "pread64", "readv", "recvfrom", "recvmsg"}))
    return verb("read") + " " + object_text(fact);
  if (is_one_of(call, {"write", "pwrite64", "writev", "sendto", "sendmsg"}))
    return fmt::format("{} to {}", several ? "write" : "writes", object_text(fact));
  if (call == "open" || call == "openat") {
    if (fact.object == "FIFO") return verb("open") + " a FIFO that nobody has open at its other end";
    return verb("open") + " a file";
  }
  if (call == "futex") return verb("wait") + " for a lock or a thread (futex)";
  if (is_one_of(call, {"wait4", "waitid"})) return fmt::format("{} for a child ({})", verb("wait"), call);
  if (is_one_of(call, {"poll", "ppoll", "select", "pselect6", "epoll_wait", "epoll_pwait"}))
    return fmt::format("{} for descriptors ({})", verb("wait"), call);
  if (is_one_of(call, {"nanosleep", "clock_nanosleep"})) return fmt::format("{} ({})", verb("sleep"), call);
  if (call == "restart_syscall") return verb("wait") + " in a call that has been interrupted before";
  if (!call.empty()) return fmt::format("{} in {}", verb("wait"), plain(call));
  if (!fact.where.empty()) return fmt::format("{} in the kernel, in {}", verb("wait"), plain(fact.where));
  return verb("sleep");
}

// "99 % cpu, silent for 9 min, in anon_pipe_read"
std::string details(const TaskGroup& group) {
  std::string out;
  auto add = [&](std::string_view text) { out += fmt::format("{}{}", out.empty() ? "" : ", ", text); };
  if (!group.fact.stack.empty()) add(what(group.fact));
  if (!group.fact.where.empty() && group.fact.doing == Doing::sleeps && !group.fact.call.empty())
    add("in " + plain(group.fact.where));
  if (group.fact.doing == Doing::sleeps && group.fact.moves) add("gets on");
  if (group.fact.wakes) add("wakes now and then");
  if (group.cpu.count > 0) {
    double least = group.cpu.least * 100;
    double most = group.cpu.most * 100;
    add(most - least < 1 ? fmt::format("{:.0f} % cpu", group.cpu.mean() * 100)
                         : fmt::format("{:.0f}-{:.0f} % cpu", least, most));
  }
  constexpr double kLeastSilence = 1;  // seconds worth a word
  if (group.silent.count > 0 && group.silent.least >= kLeastSilence)
    add("silent for " + time_words(group.silent.least));
  if (!group.path.empty()) add(plain(group.path, kMostPath));
  return out;
}

std::string subject(const TaskGroup& group) {
  const Fact& fact = group.fact;
  std::string program = fact.program.empty() ? "" : plain(fact.program) + " ";
  if (fact.stack.empty()) return program + what(fact);
  return escape_controls(path_text(fact.stack));
}

std::string hosts_text(const value::Idset& ranks, const Examination& examination) {
  return plain(fmt::format("{}", fmt::join(hosts_of(ranks, examination), ", ")), kMostHosts * kMostName);
}

void pad(std::string& text, std::size_t width) { text.resize(std::max(text.size(), width), ' '); }

}  // namespace

std::vector<std::string> hosts_of(const value::Idset& ranks, const Examination& examination) {
  std::vector<std::string> out;
  constexpr std::uint64_t kMostLooks = 4096;  // ranks
  if (ranks.size() > kMostLooks) return out;
  for (std::uint32_t rank : ranks.ids()) {
    std::string host = examination.host_of(rank);
    if (host.empty() || std::find(out.begin(), out.end(), host) != out.end()) continue;
    if (out.size() == kMostHosts) return {};
    out.push_back(std::move(host));
  }
  return out;
}

std::string time_words(double seconds) {
  constexpr double kMinute = 60;
  constexpr double kHour = 3600;
  if (seconds < 2 * kMinute) return fmt::format("{:.0f} s", seconds);
  if (seconds < 2 * kHour) return fmt::format("{:.0f} min", seconds / kMinute);
  return fmt::format("{:.1f} h", seconds / kHour);
}

std::string what(const Fact& fact, bool several) {
  std::string be = several ? "are" : "is";
  std::string where = fact.where.empty() ? "" : ", in " + plain(fact.where);
  switch (fact.doing) {
    case Doing::stuck: return fmt::format("{} stuck in the kernel{} (state D)", be, where);
    case Doing::stopped: return be + " stopped";
    case Doing::traced: return be + " held by a debugger";
    case Doing::frozen: return be + " frozen, by its cgroup";
    case Doing::over: return several ? "have just ended" : "has just ended";
    case Doing::not_started: return several ? "have not started" : "has not started";
    case Doing::busy:
    case Doing::sleeps: break;
  }
  if (fact.barrier != 0) return fmt::format("{} in PMI barrier {}", be, fact.barrier);
  if (fact.doing == Doing::busy)
    return be + (fact.moves                  ? " busy, and gets on"
                 : fact.steps == Steps::some ? " busy, and computes"
                                             : " busy, and neither reads nor writes");
  return waiting_text(fact, several);
}

std::string who(const value::Idset& ranks, const Examination& examination) {
  std::string hosts = hosts_text(ranks, examination);
  return fmt::format("{} {}{}", ranks.size() == 1 ? "rank" : "ranks", cut_ranks(ranks, kMostRanks),
                     hosts.empty() ? "" : fmt::format(" ({})", hosts));
}

std::string text_of(const Examination& examination, const std::vector<Verdict>& verdicts,
                    const TextOptions& options) {
  std::vector<std::array<std::string, 4>> rows;
  auto add = [&](const TaskGroup& group) {
    std::string count = fmt::format("{} of {}", group.ranks.size(), examination.tasks);
    std::string ranks = cut_ranks(group.ranks, kMostRanksCell);
    std::string hosts = hosts_text(group.ranks, examination);
    if (hosts.find(',') == std::string::npos && !hosts.empty()) ranks += fmt::format(" ({})", hosts);
    std::string more = details(group);
    rows.push_back({std::move(count), std::move(ranks), subject(group), more.empty() ? "" : "(" + more + ")"});
    for (const auto& each : group.fact.others)
      rows.push_back({"", "", "  and " + escape_controls(path_text(each)), ""});
  };
  for (const TaskGroup& each : examination.groups) add(each);
  std::array<std::size_t, 3> widths{};
  constexpr std::size_t kMostSubject = 72;  // a longer one does not move the others
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < widths.size(); ++i) {
      if (i != 2 || row.at(i).size() <= kMostSubject) widths.at(i) = std::max(widths.at(i), row.at(i).size());
    }
  }
  std::string out;
  for (auto& row : rows) {
    if (!options.by_rank) out += std::string(widths[0] - row[0].size(), ' ') + row[0] + "  ";
    pad(row[1], widths[1]);
    if (!row[3].empty()) pad(row[2], widths[2]);
    out += fmt::format("{}  {}{}{}\n", row[1], row[2], row[3].empty() ? "" : "  ", row[3]);
  }
  constexpr std::size_t kLeastForTree = 3;  // groups
  if (examination.groups.size() >= kLeastForTree && !options.by_rank) out += tree_of(examination.groups).text();
  for (const Verdict& each : verdicts) out += each.line() + '\n';
  for (const std::string& each : examination.notes) out += "note: " + plain(each, 4 * kMostPath) + '\n';
  return out;
}

}  // namespace nacre::doctor
