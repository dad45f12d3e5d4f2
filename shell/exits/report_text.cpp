// SPDX-License-Identifier: Apache-2.0
#include "exits/report_text.hpp"

#include "base/json.hpp"
#include "base/text.hpp"
#include "exits/blame.hpp"
#include "exits/record.hpp"

namespace nacre::exits {
namespace {

constexpr const char* kGone = "left by nacre shrink";
constexpr std::size_t kMostLines = 8;      // lines of what a task has written
constexpr std::size_t kMostColumns = 160;  // bytes of one line
constexpr std::size_t kMostClasses = 8;
constexpr std::size_t kMostRanks = 60;  // characters of an idset
constexpr std::size_t kMostProcesses = 4;
constexpr std::size_t kMostRehearsed = 4;  // events
constexpr std::size_t kMostSlow = 8;       // likewise

// A member's value as this type, or an empty value if it is missing or of another type.
template <typename T>
T member(const Json& of, const char* name, T otherwise = {}) {
  auto found = of.is_object() ? of.find(name) : of.end();
  if (!of.is_object() || found == of.end()) return otherwise;
  if constexpr (std::is_same_v<T, std::string>) return found->is_string() ? found->template get<T>() : otherwise;
  if constexpr (std::is_same_v<T, Json>) return *found;
  if constexpr (std::is_same_v<T, bool>) return found->is_boolean() ? found->template get<T>() : otherwise;
  if constexpr (std::is_arithmetic_v<T>) return found->is_number() ? found->template get<T>() : otherwise;
  return otherwise;
}

std::string plain(std::string_view line) {
  std::string out = escape_controls(line.substr(0, kMostColumns));
  return line.size() > kMostColumns ? out + "..." : out;
}

std::string seconds(double time) { return time < 10 ? fmt::format("{:.2f}", time) : fmt::format("{:.1f}", time); }

std::string on_host(const Json& task) {
  std::string host = member<std::string>(task, "host");
  return host.empty() ? "" : " on " + host;
}

std::string what_happened(const Json& cause, const Record& record) {
  switch (record.kind()) {
    case Record::Kind::ended: return record.status()->str();
    case Record::Kind::not_started: return record.code() == 126 ? "could not be executed" : "could not be started";
    case Record::Kind::over_time: return "ended because it was over the time limit";
    case Record::Kind::lost: return fmt::format("lost with shell {}", member<std::uint64_t>(cause, "shell"));
    case Record::Kind::gone: return kGone;
    case Record::Kind::victim: break;
  }
  return "ended with the job";
}

// What a running task has done to end the job: "called PMI_Abort with code 7", of a message that begins with its
// name.
std::string what_it_did(const Json& cause, std::string_view name) {
  std::string message = plain(member<std::string>(cause, "message"));
  constexpr std::string_view kHang = "no task has done anything";
  if (message.starts_with(kHang)) return "seems to be why the job hangs: " + message;
  std::string start = fmt::format("{} ", name);
  return message.starts_with(start) ? message.substr(start.size()) : "has ended the job: " + message;
}

// "rank 1 on n3 (pid 4711) killed by SIGSEGV (core dumped) 12.40 s after its start".
std::string cause_line(const Json& cause, const Record& record) {
  const std::string name = fmt::format("rank {}{}", member<std::uint64_t>(cause, "rank"), on_host(cause));
  std::string out = name;
  if (auto pid = member<std::int64_t>(cause, "pid"); pid != 0) out += fmt::format(" (pid {})", pid);
  // The way it has ended does not show why that ends the job.
  bool tells = record.kind() != Record::Kind::victim && record != Record::of(value::WaitStatus::exited(0));
  if (!tells) return out + " " + what_it_did(cause, name);
  out += " " + what_happened(cause, record);
  auto started = member<double>(cause, "started");
  auto ended = member<double>(cause, "ended");
  if (started > 0 && ended >= started) out += fmt::format(" {} s after its start", seconds(ended - started));
  auto others = value::Idset::parse(member<std::string>(cause, "after"));
  auto origin = origin_named(member<std::string>(cause, "origin"));
  return out + doubt_of(member<bool>(cause, "certain"), origin.value_or(Origin::unknown),
                        others.value_or(value::Idset()));
}

std::vector<std::string> last_lines(const std::string& text) {
  std::string_view lines = trim(text);
  std::vector<std::string> out;
  if (lines.empty()) return out;
  auto all = split(lines, '\n');
  std::size_t count = std::min(all.size(), kMostLines);
  for (auto each = all.end() - static_cast<std::ptrdiff_t>(count); each != all.end(); ++each) {
    std::string_view line = *each;
    if (line.ends_with('\r')) line.remove_suffix(1);
    out.push_back(plain(line));
  }
  return out;
}

std::string_view file_name(std::string_view path) { return path.substr(path.rfind('/') + 1); }

std::string core_line(const Json& core) {
  if (std::string file = member<std::string>(core, "file"); !file.empty()) {
    std::string module = member<std::string>(core, "module");
    return "core dump: " + file + (module.empty() ? "" : fmt::format(" (in {})", plain(file_name(module))));
  }
  if (std::string handler = member<std::string>(core, "handler"); !handler.empty())
    return "core dump: given to " + handler;
  if (std::string pattern = member<std::string>(core, "pattern"); !pattern.empty())
    return fmt::format("core dump: not found by the kernel's core_pattern, {}", in_quotes(pattern));
  return "";
}

std::string oom_line(const Json& oom) {
  auto kills = member<std::uint64_t>(oom, "kills");
  if (kills == 0) return "";
  auto limit = member<std::uint64_t>(oom, "limit");
  return fmt::format("{}: its cgroup has had {} kill{} by the kernel{}",
                     member<bool>(oom, "certain") ? "out of memory" : "perhaps out of memory", kills,
                     kills == 1 ? "" : "s", limit > 0 ? fmt::format(", limit {} MiB", limit >> 20) : "");
}

// The message that the program itself has written to its NACRE_ERROR_FILE; PyTorch nests it once more.
std::string error_line(const Json& error) {
  Json message = member<Json>(error, "message");
  if (message.is_object()) message = member<Json>(message, "message");
  std::string text = message.is_string() ? message.get<std::string>() : error.is_null() ? "" : dump_json(error);
  std::string_view line = trim(text);
  return line.empty() ? "" : "its error: " + plain(line.substr(0, line.find('\n')));
}

// How far the task was with PMI: "PMI-1: in barrier 3".
std::string pmi_line(const Json& pmi) {
  std::string by = plain(member<std::string>(pmi, "by"));
  std::string state = member<std::string>(pmi, "state");
  std::string last = plain(member<std::string>(pmi, "last"));
  if (auto barrier = member<std::uint64_t>(pmi, "barrier"); barrier > 0)
    return fmt::format("{}: in barrier {}", by, barrier);
  if (state == "none") return by + ": without init, which others have called";
  if (state == "finalized") return by + ": finalized";
  if (state == "aborted") return by + ": has called abort";
  if (state != "connected") return "";
  return fmt::format("{}: after init{}", by, last.empty() ? "" : ", its last request: " + last);
}

std::vector<std::string> details(const Json& cause) {
  std::vector<std::string> out;
  constexpr std::string_view kTail = "last of its stderr:   | ";
  constexpr std::string_view kRestart = "restart: ";
  // This says why the job has ended, not why the task has.
  if (std::string message = escape_controls(member<std::string>(cause, "message")); message.starts_with(kRestart))
    out.push_back("not started again: " + message.substr(kRestart.size()));
  if (std::string why = escape_controls(member<std::string>(cause, "hang")); !why.empty())
    out.push_back("killed by hang-watch: " + why);
  auto lines = last_lines(member<std::string>(cause, "stderr"));
  for (std::size_t i = 0; i < lines.size(); ++i)
    out.push_back(fmt::format("{:>{}}{}", i == 0 ? kTail : "| ", kTail.size(), lines[i]));
  if (const KnownReason* reason = reason_named(member<std::string>(cause, "reason")))
    out.push_back(fmt::format("this says: {}", reason->words));
  out.push_back(error_line(member<Json>(cause, "error")));
  out.push_back(oom_line(member<Json>(cause, "oom")));
  out.push_back(core_line(member<Json>(cause, "core")));
  out.push_back(pmi_line(member<Json>(cause, "pmi")));
  std::erase(out, "");
  return out;
}

std::string class_name(const Record& record) {
  switch (record.kind()) {
    case Record::Kind::ended:
      return record.status()->is_signal() ? value::signal_name(record.status()->signal())
                                          : fmt::format("exit code {}", record.status()->exit_code());
    case Record::Kind::not_started: return "not started";
    case Record::Kind::over_time: return "over the time limit";
    case Record::Kind::lost: return "lost";
    case Record::Kind::gone: return kGone;
    case Record::Kind::victim: break;
  }
  return "ended because of it";
}

// "SIGSEGV: 1 | lost: 7 | ended because of it: 0,2-6 | exit code 0: 8": failures first, then victims, then
// what is no failure.
std::string classes_line(const Json& classes) {
  std::vector<std::pair<std::string, value::Idset>> named;
  for (int pass = 0; pass < 3; ++pass) {
    for (const Json& each : classes) {
      auto record = Record::parse(member<std::string>(each, "record"));
      auto ranks = value::Idset::parse(member<std::string>(each, "ranks"));
      if (!record || !ranks) continue;
      int place = record->kind() == Record::Kind::victim ? 1 : record->code() == 0 ? 2 : 0;
      if (place != pass) continue;
      std::string name = class_name(*record);
      auto known = std::find_if(named.begin(), named.end(), [&](const auto& other) { return other.first == name; });
      if (known == named.end())
        named.emplace_back(name, *ranks);
      else
        known->second = known->second | *ranks;
    }
  }
  std::string out;
  for (std::size_t i = 0; i < std::min(named.size(), kMostClasses); ++i) {
    std::string ranks = named[i].second.str();
    if (ranks.size() > kMostRanks) ranks = fmt::format("{} tasks", named[i].second.size());
    out += fmt::format("{}{}: {}", i == 0 ? "" : " | ", named[i].first, ranks);
  }
  if (named.size() > kMostClasses) out += fmt::format(" | {} other ways", named.size() - kMostClasses);
  return out;
}

// A line for each of several classes of failures that have a last line or a module: "0-3: SIGSEGV in libm.so.6,
// after: it is broken".
std::vector<std::string> digest_lines(const Json& classes) {
  std::vector<std::string> out;
  for (const Json& each : classes) {
    auto record = Record::parse(member<std::string>(each, "record"));
    std::string last = plain(member<std::string>(each, "last"));
    std::string module = plain(file_name(member<std::string>(each, "module")));
    std::string ranks = member<std::string>(each, "ranks");
    if (!record || (last.empty() && module.empty())) continue;
    auto tasks = value::Idset::parse(ranks);
    if (tasks && ranks.size() > kMostRanks) ranks = fmt::format("{} tasks", tasks->size());
    out.push_back(fmt::format("{}: {}{}{}", ranks, class_name(*record), module.empty() ? "" : " in " + module,
                              last.empty() ? "" : ", after: " + last));
  }
  if (out.size() < 2) return {};
  if (out.size() > kMostClasses) {
    std::size_t more = out.size() - kMostClasses;
    out.resize(kMostClasses);
    out.push_back(fmt::format("{} other ways", more));
  }
  return out;
}

// "sleep (pid 4711, of task 3 on n1)".
std::string left_line(const Json& left) {
  Json processes = member<Json>(left, "processes");
  if (!processes.is_array() || processes.empty()) return "";
  std::string out;
  for (std::size_t i = 0; i < std::min(processes.size(), kMostProcesses); ++i) {
    const Json& each = processes[i];
    auto rank = each.is_object() ? each.find("rank") : each.end();
    bool is_known = each.is_object() && rank != each.end() && rank->is_number_integer();
    out += fmt::format("{}{} (pid {}{}{})", i == 0 ? "" : ", ", plain(member<std::string>(each, "name")),
                       member<std::int64_t>(each, "pid"),
                       is_known ? fmt::format(", of task {}", rank->get<std::int64_t>()) : "", on_host(each));
  }
  auto more = processes.size() - std::min(processes.size(), kMostProcesses) + member<std::uint64_t>(left, "more");
  if (more > 0) out += fmt::format(", and {} more", more);
  return "outlived their tasks, and were ended: " + out;
}

// "rehearsed: kill rank 3 with SIGSEGV at 4s".
std::string rehearsal_line(const Json& timeline) {
  std::vector<std::string> events;
  if (!timeline.is_array()) return "";
  for (const Json& each : timeline) {
    if (member<std::string>(each, "event") == "rehearsal")
      events.push_back(plain(member<std::string>(each, "done")));
  }
  if (events.empty()) return "";
  std::size_t more = events.size() - std::min(events.size(), kMostRehearsed);
  events.resize(events.size() - more);
  return fmt::format("rehearsed: {}{}", fmt::join(events, "; "),
                     more > 0 ? fmt::format("; and {} more", more) : "");
}

}  // namespace

// "while it ran: n3 is slow: its ranks 12-15 do 4.1 steps/min, the others 9.8 (3 windows of 30 s)".
std::string slow_lines(const Json& report) {
  std::string out;
  std::size_t more = 0, lines = 0;
  for (const Json& each : member<Json>(report, "timeline", Json::array())) {
    if (member<std::string>(each, "event") != "slow") continue;
    if (lines == kMostSlow) {
      ++more;
      continue;
    }
    ++lines;
    out += fmt::format("nacre: while it ran: {}\n", escape_controls(member<std::string>(each, "text")));
  }
  return more > 0 ? out + fmt::format("nacre: while it ran: {} more of this kind, see the report as JSON\n", more)
                  : out;
}

std::string last_line_of(std::string_view text) {
  std::string_view lines = trim(text);
  return std::string(lines.substr(lines.rfind('\n') + 1).substr(0, kMostColumns));
}

std::string report_text(const Json& report, std::string_view listed) {
  Json job = member<Json>(report, "job");
  Json cause = member<Json>(report, "cause");
  Json exit = member<Json>(report, "exit");
  std::string out;
  if (auto record = Record::parse(member<std::string>(cause, "record"))) {
    out += fmt::format("nacre: {} {}: {}\n", member<std::string>(job, "id"),
                       plain(member<std::string>(job, "name")), cause_line(cause, *record));
    for (const std::string& each : details(cause)) out += fmt::format("nacre:   {}\n", each);
  }
  Json classes = member<Json>(report, "classes");
  if (member<std::uint64_t>(job, "tasks") > 1 && classes.is_array()) {
    if (std::string line = classes_line(classes); !line.empty()) out += fmt::format("nacre: {}\n", line);
    for (const std::string& each : digest_lines(classes)) out += fmt::format("nacre:   {}\n", each);
  }
  if (std::string line = left_line(member<Json>(report, "left")); !line.empty())
    out += fmt::format("nacre: {}\n", line);
  if (std::string line = rehearsal_line(member<Json>(report, "timeline")); !line.empty())
    out += fmt::format("nacre: {}\n", line);
  out += slow_lines(report);
  std::string file = member<std::string>(report, "file");
  out += fmt::format("nacre: exit code {} (policy {}: {})", member<std::int64_t>(exit, "code"),
                     member<std::string>(exit, "policy"), member<std::string>(exit, "by"));
  if (!file.empty()) out += "; the report: " + file;
  if (!listed.empty()) out += fmt::format("; see it again: nacre report {}", listed);
  return out + '\n';
}

}  // namespace nacre::exits
