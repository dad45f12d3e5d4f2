// SPDX-License-Identifier: Apache-2.0
#include "doctor/pace.hpp"

#include "base/text.hpp"
#include "wire/json.hpp"

namespace nacre::doctor {
namespace {

constexpr double kStarved = 0.6;           // of the cpu time that tasks could use
constexpr double kFarBehind = 0.7;         // of the output of others
constexpr double kLeastOutput = 4096;      // bytes for each task, to compare output
constexpr std::size_t kMostSlowOf = 3;     // one node of so many may be slow
constexpr std::size_t kLeastByOutput = 3;  // nodes

// The share that its tasks get of the cpu time that they could use; none: they want little.
std::optional<double> served(const NodePace& node) {
  double wanted = node.cpu.sum + node.ready.sum;
  bool is_measured = node.cpu.count > 0 && node.ready.count == node.cpu.count;
  if (!is_measured || wanted < kLeastWanted * static_cast<double>(node.cpu.count)) return std::nullopt;
  return node.cpu.sum / wanted;
}

std::string percent(double share) { return fmt::format("{:.0f} %", share * 100); }

std::string bytes_text(double least, double most) {
  auto number = [](double value) { return fmt::format("{:.0f}", value / 1024); };
  return number(least) == number(most) ? number(least) + " KiB"
                                       : fmt::format("{} to {} KiB", number(least), number(most));
}

std::vector<SlowNode> starved(const std::vector<NodePace>& nodes) {
  std::vector<SlowNode> out;
  double least = 1;
  std::size_t measured = 0;
  for (const NodePace& node : nodes) {
    auto share = served(node);
    if (!share) continue;
    ++measured;
    if (*share < kStarved)
      out.push_back({&node, percent(*share)});
    else
      least = std::min(least, *share);
  }
  if (!is_few(out.size(), measured) || least < kServed) return {};
  for (SlowNode& each : out)
    each.evidence = fmt::format(
        "they get {} of the cpu time that they could use, those of the other nodes at least {}, so others use its "
        "cpus too",
        each.evidence, percent(least));
  return out;
}

// All tasks of the node have written far less than any other task.
std::vector<SlowNode> behind(const std::vector<NodePace>& nodes) {
  if (nodes.size() < kLeastByOutput) return {};
  for (const NodePace& node : nodes) {
    if (node.bytes.count == 0 || node.bytes.count != node.ranks.size()) return {};
  }
  std::vector<const NodePace*> by_least;
  for (const NodePace& node : nodes) by_least.push_back(&node);
  std::sort(by_least.begin(), by_least.end(), [](auto* a, auto* b) { return a->bytes.most < b->bytes.most; });
  std::vector<double> least_from(by_least.size());  // of this node and those behind it
  for (std::size_t i = by_least.size(); i-- > 0;) {
    double own = by_least[i]->bytes.least;
    least_from[i] = i + 1 < by_least.size() ? std::min(own, least_from[i + 1]) : own;
  }
  double most = std::max(0.0, by_least.back()->bytes.most);
  std::vector<SlowNode> out;
  for (std::size_t slow = 1; is_few(slow, by_least.size()); ++slow) {
    double least = least_from[slow];
    bool is_clear = least >= kLeastOutput && by_least[slow - 1]->bytes.most <= kFarBehind * least;
    if (!is_clear) continue;
    for (std::size_t i = 0; i < slow; ++i) {
      const Range& own = by_least[i]->bytes;
      out.push_back({by_least[i], fmt::format("they have written {} each so far, those of the other nodes {}",
                                              bytes_text(own.least, own.most), bytes_text(least, most))});
    }
    return out;
  }
  return out;
}

}  // namespace

bool is_few(std::size_t slow, std::size_t nodes) {
  return slow > 0 && slow < nodes && (slow == 1 || slow * kMostSlowOf <= nodes);
}

void NodePace::add(const TaskGroup& group) {
  ranks.insert(group.ranks);
  cpu += group.cpu;
  ready += group.ready;
  bytes += group.bytes;
}

std::vector<SlowNode> slow_nodes(const std::vector<NodePace>& nodes) {
  std::vector<SlowNode> out = starved(nodes);
  return out.empty() ? behind(nodes) : out;
}

namespace {

constexpr double kParts = 1e4;                  // of a number on the wire
constexpr std::int64_t kMostParts = 1LL << 53;  // which a double has exactly
constexpr double kSigma = 1.4826;               // median absolute deviations of a normal distribution
constexpr double kDeviations = 4;               // times the usual distance between the others: how far is far
constexpr std::size_t kExactly = 8;  // up to this many hosts each one is compared with the others without itself
constexpr double kLeastWritten = 32 * 1024.0;  // bytes in a window: several buffers of a program that buffers its
                                               // output
constexpr double kSomeCpu = 0.05;              // the others get on

double median(std::vector<double> values) {
  auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 != 0) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

// The median, and how far a value is usually from it.
struct Usual {
  double value = 0, deviation = 0;

  static Usual of(const std::vector<double>& values) {
    Usual out{median(values), 0};
    std::vector<double> away;
    for (double each : values) away.push_back(std::abs(each - out.value));
    out.deviation = kSigma * median(std::move(away));
    return out;
  }
};

std::optional<double> value_of(const TaskPace& task, PaceMeasure measure) {
  switch (measure) {
    case PaceMeasure::number: return task.rate;
    case PaceMeasure::gpu: return task.gpu;
    case PaceMeasure::bytes: return task.bytes;
    case PaceMeasure::served:
    case PaceMeasure::busy: break;
  }
  if (!task.cpu || !task.ready) return std::nullopt;
  const double wanted = *task.cpu + *task.ready;
  if (measure == PaceMeasure::busy) return wanted;
  return wanted < kLeastWanted ? 1 : *task.cpu / wanted;
}

// "4.1", "120".
std::string digits(double value) {
  return value < 10 ? fmt::format("{:.1f}", value) : fmt::format("{:.0f}", value);
}

std::string share_text(double share) { return fmt::format("{:.0f} %", 100 * share); }

// "4.1 steps/min", "9.8".
std::pair<std::string, std::string> rates(double own, double others, std::string_view word) {
  constexpr std::array<std::pair<double, const char*>, 3> kUnits{{{1, "s"}, {60, "min"}, {3600, "h"}}};
  auto unit =
      std::find_if(kUnits.begin(), kUnits.end() - 1, [&](const auto& each) { return others * each.first >= 1; });
  return {fmt::format("{} {}{}/{}", digits(own * unit->first), word, word.ends_with('s') ? "" : "s", unit->second),
          digits(others * unit->first)};
}

}  // namespace

void elements(auto& io, wire::Of<TaskPace> auto& m) {
  constexpr wire::Scaled kNumber{kParts, kMostParts};
  io.are("[RANK, CPU, READY, GPU, BYTES, RATE]");
  io.has(m.rank, wire::Between{0, UINT32_MAX - 1});
  for (auto* each : {&m.cpu, &m.ready, &m.gpu, &m.bytes, &m.rate}) io.has(*each, kNumber);
}

void fields(auto& io, wire::Of<PaceWindow> auto& m) {
  io.has("seconds", m.seconds);
  io.has("tasks", m.tasks);
  io.expect(m.seconds > 0, "a window");
}

std::string PaceWindow::text() const { return wire::to_text(*this); }
Result<PaceWindow> PaceWindow::parse(std::string_view text) { return wire::from_text<PaceWindow>(text); }

std::string_view name_of(PaceMeasure measure) {
  constexpr std::array<std::string_view, 5> kNames{"number", "served", "gpu", "busy", "bytes"};
  return kNames.at(static_cast<std::size_t>(measure));
}

// ---- one window ------------------------------------------------------------------------

struct SlowFinder::Sense {
  PaceMeasure measure;
  bool is_high;                          // a slow one has more of it, and not less
  double least_own, least_others;        // with less the measure says nothing
  std::size_t least_nodes, least_ranks;  // hosts, and of each
  bool is_of_tasks;                      // a single task can be judged by it

  static const std::array<Sense, 5>& all() {
    static const std::array<Sense, 5> kAll{{{PaceMeasure::number, false, 0, 1e-9, 2, 1, true},
                                            {PaceMeasure::served, false, 0, kServed, 2, 1, true},
                                            {PaceMeasure::gpu, false, 0, kServed, 2, 1, true},
                                            {PaceMeasure::busy, true, kLeastWanted, kSomeCpu, 2, 2, false},
                                            {PaceMeasure::bytes, false, 0, kLeastWritten, 3, 1, false}}};
    return kAll;
  }
};

struct SlowFinder::Judged {
  double own, others;
  bool is_slow;
};

// Compares each with the others, or with all if there are many: then the median is the same.
std::map<SlowFinder::Subject, SlowFinder::Judged> SlowFinder::judge(
    const Sense& sense, const std::map<Subject, std::vector<double>>& of, std::size_t nodes) const {
  std::map<Subject, Judged> out;
  if (of.size() < nodes) return out;
  auto others_of = [&](const Subject* without) {
    std::vector<double> values;
    for (const auto& [subject, own] : of) {
      if (without == nullptr || subject != *without) values.insert(values.end(), own.begin(), own.end());
    }
    return Usual::of(values);
  };
  std::optional<Usual> all;
  if (of.size() > kExactly) all = others_of(nullptr);
  std::size_t slow = 0;
  for (const auto& [subject, own] : of) {
    const Usual others = all ? *all : others_of(&subject);
    auto is_far = [&](double value) {
      const double ahead = sense.is_high ? value - factor_ * others.value : others.value - factor_ * value;
      return ahead >= 0 && std::abs(value - others.value) > kDeviations * others.deviation;
    };
    const double middle = median(own);
    const auto far = static_cast<std::size_t>(std::count_if(own.begin(), own.end(), is_far));
    const bool tells = middle >= sense.least_own && others.value >= sense.least_others;
    const bool is_slow = tells && is_far(middle) && far * 2 > own.size();
    slow += is_slow ? 1 : 0;
    out.emplace(subject, Judged{middle, others.value, is_slow});
  }
  if (slow == 0 || is_few(slow, of.size())) return out;
  for (auto& [subject, each] : out) each.is_slow = false;
  return out;
}

// ---- windows ---------------------------------------------------------------------------

// The others may have become slower, or wait now: that does not mean that it is as fast as they are.
bool SlowFinder::is_better(const Sense& sense, double now, double before) const {
  const double by = 1 + (factor_ - 1) / 2;
  return sense.is_high ? now * by <= before : now >= before * by;
}

// Subjects that are not among them begin anew.
void SlowFinder::note(const Sense& sense, const std::map<Subject, Judged>& judged) {
  std::erase_if(streaks_, [&](auto& each) {
    return each.first.first == sense.measure && !judged.contains(each.first.second);
  });
  for (const auto& [subject, each] : judged) {
    Streak& streak = streaks_[{sense.measure, subject}];
    const auto told = told_.find(subject);
    const bool was_told = told != told_.end() && told->second.measure == sense.measure;
    const bool is_well = !each.is_slow && (!was_told || is_better(sense, each.own, told->second.own));
    const std::uint32_t well = is_well ? streak.well + 1 : 0;
    if (streak.slow == 0 || !each.is_slow) streak = {};
    streak.well = well;
    if (!each.is_slow) continue;
    ++streak.slow;
    streak.own += each.own;
    streak.others += each.others;
  }
}

std::vector<SlowFinding> SlowFinder::add(const std::map<std::uint32_t, Host>& shells) {
  for (const Sense& sense : Sense::all()) {
    std::map<Subject, std::vector<double>> hosts, tasks;
    for (const auto& [shell, host] : shells) {
      std::vector<double> values;
      for (const TaskPace& each : host.window.tasks) {
        const auto value = value_of(each, sense.measure);
        if (!value) continue;
        values.push_back(*value);
        tasks[{shell, each.rank}] = {*value};
      }
      if (values.size() >= sense.least_ranks) hosts[{shell, std::nullopt}] = std::move(values);
    }
    std::map<Subject, Judged> judged = judge(sense, hosts, sense.least_nodes);
    // A task that is alone on its host is judged as that, if there are several.
    const bool has_others = tasks.size() > hosts.size() || hosts.size() == 1;
    if (sense.is_of_tasks && has_others) judged.merge(judge(sense, tasks, 2));
    note(sense, judged);
  }
  return news(shells);
}

std::vector<SlowFinding> SlowFinder::news(const std::map<std::uint32_t, Host>& shells) {
  std::map<std::tuple<std::uint32_t, bool, bool, PaceMeasure>, SlowFinding> found;  // tasks of one host are one
  std::map<std::string, std::size_t> named;
  for (const auto& [shell, host] : shells) ++named[host.name];
  auto add = [&](const Subject& subject, PaceMeasure measure, const Streak& streak, bool is_over) {
    const Host& host = shells.at(subject.first);
    SlowFinding& out = found[{subject.first, is_over, !subject.second, measure}];
    const double windows = std::max<std::uint32_t>(streak.slow, 1);
    out.shell = subject.first;
    out.host = host.name;
    if (host.name.empty() || named[host.name] > 1)
      out.host = host.name.empty() ? fmt::format("shell {}", out.shell)
                                   : fmt::format("{} (shell {})", host.name, out.shell);
    out.is_host = !subject.second;
    out.is_over = is_over;
    out.measure = measure;
    out.own = streak.own / windows;
    out.others = streak.others / windows;
    out.window = host.window.seconds;
    for (const TaskPace& each : host.window.tasks) {
      if (out.is_host || each.rank == *subject.second) out.ranks.insert(each.rank);
    }
  };
  for (const auto& [key, streak] : streaks_) {
    const auto& [measure, subject] = key;
    Told& told = told_[subject];
    const auto whole = told_.find(Subject{subject.first, std::nullopt});
    const bool is_of_host =
        subject.second && whole != told_.end() && (whole->second.measure || whole->second.times == kMostTold);
    if (told.measure == measure && streak.well >= kWindows) {
      told.measure.reset();
      add(subject, measure, streak, true);
    } else if (!told.measure && !is_of_host && streak.slow >= kWindows && told.times < kMostTold) {
      ++told.times;
      told.measure = measure;
      told.own = streak.own / streak.slow;
      add(subject, measure, streak, false);
    }
  }
  std::vector<SlowFinding> out;
  for (auto& [key, finding] : found) out.push_back(std::move(finding));
  return out;
}

void SlowFinder::forget(std::uint32_t shell) {
  std::erase_if(streaks_, [shell](const auto& each) { return each.first.second.first == shell; });
  std::erase_if(told_, [shell](const auto& each) { return each.first.first == shell; });
}

// ---- in words --------------------------------------------------------------------------

std::string SlowFinding::text(std::string_view word) const {
  const bool one = ranks.size() == 1;
  const std::string tasks = fmt::format("{} {}", one ? "rank" : "ranks", ranks.short_str());
  const std::string who = escape_controls(is_host ? host : fmt::format("{} on {}", tasks, host));
  const std::string is = is_host || one ? "is" : "are";
  if (is_over) return fmt::format("{} {} as fast as the others again", who, is);
  auto verb = [one](const char* many, const char* single) { return one ? single : many; };
  const std::string whose = is_host ? "its " + tasks : one ? "it" : "they";
  std::string what;
  switch (measure) {
    case PaceMeasure::number: {
      const auto [mine, theirs] = rates(own, others, word);
      what = fmt::format("{} {} {}, the others {}", whose, verb("do", "does"), mine, theirs);
      break;
    }
    case PaceMeasure::served:
      what = fmt::format("{} {} {} of the cpu time that {} could use, the others {}", whose, verb("get", "gets"),
                         share_text(own), one ? "it" : "they", share_text(others));
      break;
    case PaceMeasure::gpu:
      what = fmt::format("the GPUs of {} are in use for {} of the time, those of the others for {}",
                         is_host ? whose
                         : one   ? "its"
                                 : "them",
                         share_text(own), share_text(others));
      break;
    case PaceMeasure::busy:
      what = fmt::format("{} keep {:.2f} cpus busy{}, the others {:.2f}, as they wait for them", whose, own,
                         one ? "" : " each", others);
      break;
    case PaceMeasure::bytes:
      what = fmt::format("{} {} {} KiB/s, the others {}", whose, verb("write", "writes"),
                         digits(own / window / 1024), digits(others / window / 1024));
      break;
  }
  return fmt::format("{} {} slow: {} ({} windows of {:g} s)", who, is, what, SlowFinder::kWindows,
                     std::round(window * 10) / 10);
}

Json SlowFinding::json(std::string_view word) const {
  Json out{{"host", host},     {"shell", shell},         {"ranks", ranks.str()}, {"of", is_host ? "host" : "tasks"},
           {"slow", !is_over}, {"by", name_of(measure)}, {"window", window},     {"text", text(word)}};
  if (!is_over) out.update({{"own", own}, {"others", others}});
  if (measure == PaceMeasure::number) out["word"] = word;
  return out;
}

}  // namespace nacre::doctor
