// SPDX-License-Identifier: Apache-2.0
#include "doctor/findings.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "base/escape.hpp"
#include "base/json.hpp"
#include "doctor/words.hpp"
#include "value/hostlist.hpp"

namespace nacre::doctor {
namespace {

using Kind = Verdict::Kind;

constexpr std::array<std::string_view, 12> kKinds = {"no-answer", "missing",   "stuck", "stopped", "pipe",  "input",
                                                     "spins",     "slow-node", "ended", "several", "alike", "fine"};

constexpr std::size_t kMostAlone = 4;        // shells without an answer that have a verdict each
constexpr std::size_t kMostHostsText = 200;  // bytes

bool has_a_process(const Fact& fact) { return fact.doing != Doing::over && fact.doing != Doing::not_started; }

bool reads_from_nobody(const Fact& fact) {
  if (fact.doing != Doing::sleeps) return false;
  return fact.writer == PipeWriter::nobody || fact.writer == PipeWriter::itself || fact.object == "FIFO";
}

// What a rule of its own names.
bool is_named(const Fact& fact) {
  return fact.doing == Doing::stuck || fact.doing == Doing::stopped || fact.doing == Doing::traced ||
         fact.doing == Doing::frozen || reads_from_nobody(fact);
}

// Tasks that are at the same place, as far as the facts show.
struct Place {
  value::Idset ranks;
  const TaskGroup* example = nullptr;  // the largest group in it
  bool moves = false;

  [[nodiscard]] const Fact& fact() const { return example->fact; }
  [[nodiscard]] bool waits() const {
    return !moves && !is_named(fact()) && (fact().doing == Doing::sleeps || fact().doing == Doing::busy);
  }
  [[nodiscard]] std::string text(bool several) const {
    if (fact().stack.empty()) return what(fact(), several);
    return fmt::format("{} in {}", several ? "are" : "is", escape_controls(fact().stack.back()));
  }
};

// Those that wait for others often do so in one of several calls by turns, so only the stack tells them apart.
std::string key_of(const Fact& fact) {
  if (fact.barrier != 0) return fmt::format("barrier {}", fact.barrier);
  if (is_named(fact)) return what(fact);
  std::string place = fmt::format("{}", fmt::join(fact.stack, "\n"));
  if (!place.empty()) return place;
  return fact.doing == Doing::busy ? "busy" : what(fact);
}

std::vector<Place> places_of(const Examination& examination) {
  std::map<std::string, Place> by_key;
  for (const TaskGroup& group : examination.groups) {
    if (!has_a_process(group.fact)) continue;
    Place& place = by_key[key_of(group.fact)];
    if (place.example == nullptr) place.example = &group;  // folded(): the largest comes first
    place.ranks.insert(group.ranks);
    place.moves = place.moves || group.fact.moves;
  }
  std::vector<Place> out;
  for (auto& [key, place] : by_key) out.push_back(std::move(place));
  std::sort(out.begin(), out.end(), [](const Place& a, const Place& b) {
    return a.ranks.size() != b.ranks.size() ? a.ranks.size() > b.ranks.size() : *a.ranks.first() < *b.ranks.first();
  });
  return out;
}

std::uint64_t count(const std::vector<Place>& places) {
  std::uint64_t out = 0;
  for (const Place& each : places) out += each.ranks.size();
  return out;
}

std::string counted(std::uint64_t number, std::string_view thing) {
  return fmt::format("{} {}{}", number, thing, number == 1 ? "" : "s");
}

class Judge {
 public:
  explicit Judge(const Examination& examination)
      : examination_(examination), places_(places_of(examination)), running_(count(places_)) {}

  std::vector<Verdict> judge() {
    for (bool is_lost : {false, true}) absent(is_lost);
    for (const Place& each : places_) named(each);
    compare();
    slow();
    ended();
    if (out_.empty()) out_.push_back({Kind::fine, {}, "nothing was found that hangs", ""});
    return std::move(out_);
  }

 private:
  void absent(bool is_lost) {
    std::vector<const Absent*> all;
    for (const Absent& each : examination_.absent) {
      if (each.is_lost == is_lost) all.push_back(&each);
    }
    if (all.size() > kMostAlone) return absent(all, is_lost);
    for (const Absent* each : all) absent(*each);
  }

  void absent(const std::vector<const Absent*>& all, bool is_lost) {
    value::Idset shells, ranks;
    value::Hostlist hosts;
    for (const Absent* each : all) {
      shells.insert(each->shell);
      ranks.insert(each->ranks);
      if (!each->host.empty()) hosts.append(each->host);
    }
    std::string where = hosts.empty() ? "" : " on " + escape_controls(hosts.str());
    if (where.size() > kMostHostsText) where.clear();
    std::string subject = fmt::format("shells {}{}", shells.str(), where);
    std::string tasks = counted(ranks.size(), "task") + (ranks.empty() ? "" : ", " + ranks.str());
    if (is_lost) return add(Kind::no_answer, ranks, subject + " are lost", "they had " + tasks);
    add(Kind::no_answer, ranks, subject + " have not answered in time",
        "they, their hosts, or a shell between them and the leader are stopped, or slow; they have " + tasks);
  }

  void absent(const Absent& absent) {
    std::string host = absent.host.empty() ? "" : " on " + escape_controls(absent.host);
    std::string ranks =
        absent.ranks.empty() ? "no task" : counted(absent.ranks.size(), "task") + ", " + absent.ranks.str();
    if (absent.is_lost)
      return add(Kind::no_answer, absent.ranks, fmt::format("shell {}{} is lost", absent.shell, host),
                 "it had " + ranks);
    add(Kind::no_answer, absent.ranks, fmt::format("shell {}{} has not answered in time", absent.shell, host),
        fmt::format("it is stopped, its host is, or is slow; it has {}", ranks));
  }

  // What is wrong with them whatever the others do.
  void named(const Place& place) {
    bool several = place.ranks.size() > 1;
    std::string subject = who(place.ranks, examination_) + ' ';
    const Fact& fact = place.fact();
    if (fact.doing == Doing::stuck)
      add(Kind::stuck, place.ranks, subject + what(fact, several),
          "at both looks; no signal ends that, so look at the host and its file systems");
    else if (fact.doing == Doing::stopped)
      add(Kind::stopped, place.ranks, subject + what(fact, several), "nacre kill -s CONT JOB lets them go on");
    else if (fact.doing == Doing::traced)
      add(Kind::stopped, place.ranks, subject + what(fact, several), "state t");
    else if (fact.doing == Doing::frozen)
      add(Kind::stopped, place.ranks, subject + what(fact, several), "no signal ends that, only who has frozen it");
    else if (reads_from_nobody(fact))
      add(Kind::pipe, place.ranks, subject + what(fact, several), "so nothing will ever come");
    else if (fact.is_input && fact.doing == Doing::sleeps && !fact.moves)
      add(Kind::input, place.ranks, subject + what(fact, several), "it waits for whoever gives the job its input");
  }

  void compare() {
    if (running_ < 2 || places_.empty()) return single();
    const Place& main = places_.front();
    if (main.ranks.size() == running_) return alike(main);
    if (main.ranks.size() * 2 <= running_) return several();
    std::vector<const Place*> odd;
    value::Idset elsewhere;
    for (const Place& each : places_) {
      if (&each == &main) continue;
      odd.push_back(&each);
      elsewhere.insert(each.ranks);
    }
    if (!main.waits()) return;
    std::string others =
        fmt::format("{} of {} {}", main.ranks.size(), examination_.tasks, main.text(main.ranks.size() > 1));
    if (main.fact().barrier != 0)
      return add(Kind::missing, elsewhere, not_there(elsewhere), others + ", which waits for all" + each_of(odd));
    bool all_named = std::all_of(odd.begin(), odd.end(), [](const Place* each) { return is_named(each->fact()); });
    bool is_few = elsewhere.size() * 2 <= main.ranks.size();
    if ((odd.size() == 1 || all_named) && is_few)
      return add(Kind::missing, elsewhere, not_there(elsewhere), others + each_of(odd));
    several();
  }

  [[nodiscard]] std::string not_there(const value::Idset& ranks) const {
    return fmt::format("{} {} not where the others are", who(ranks, examination_),
                       ranks.size() == 1 ? "is" : "are");
  }

  // "; rank 3 reads a pipe", of at most a few.
  [[nodiscard]] std::string each_of(const std::vector<const Place*>& odd) const {
    constexpr std::size_t kMost = 4;
    std::string out;
    for (std::size_t i = 0; i < odd.size() && i < kMost; ++i) {
      bool several = odd[i]->ranks.size() > 1;
      out += fmt::format("; {} {} {}", several ? "ranks" : "rank", odd[i]->ranks.str(), odd[i]->text(several));
    }
    return out;
  }

  void single() {
    if (running_ == 1) spins(places_.front());
  }

  void alike(const Place& main) {
    if (is_named(main.fact()) || (main.fact().is_input && !main.moves)) return;
    if (main.moves) return;
    add(Kind::alike, main.ranks,
        fmt::format("all {} are in the same place, so none is missing",
                    examination_.absent.empty() ? counted(running_, "task") + " that run"
                                                : counted(running_, "task") + " that are known"),
        "they " + main.text(true));
    if (main.fact().barrier == 0) spins(main);
  }

  void spins(const Place& place) {
    if (place.fact().doing != Doing::busy || place.moves || place.fact().barrier != 0) return;
    std::string silent = place.example->silent.count == 0
                             ? ""
                             : fmt::format(", silent for {}", time_words(place.example->silent.least));
    bool stack = !place.fact().stack.empty();
    add(Kind::spins, place.ranks,
        fmt::format("{} {} or {}", who(place.ranks, examination_), place.ranks.size() == 1 ? "spins" : "spin",
                    place.ranks.size() == 1 ? "computes" : "compute"),
        fmt::format("busy, and no i/o for {:g} s{}{}", examination_.interval, silent,
                    stack ? "" : "; --stacks shows where"));
  }

  void several() {
    bool all_move = std::all_of(places_.begin(), places_.end(), [](const Place& each) { return each.moves; });
    bool any_named =
        std::any_of(places_.begin(), places_.end(), [](const Place& each) { return is_named(each.fact()); });
    if (all_move || any_named) return;
    add(Kind::several, {},
        fmt::format("the tasks are in {} different places, and none of them can be blamed", places_.size()),
        fmt::format("{} of {} at most are in the same", places_.front().ranks.size(), running_));
    for (const Place& each : places_) spins(each);
  }

  void slow() {
    for (const SlowNode& each : slow_nodes(examination_.nodes)) {
      const NodePace& node = *each.node;
      std::string name =
          node.host.empty() ? fmt::format("the node of shell {}", node.shell) : escape_controls(node.host);
      add(Kind::slow_node, node.ranks,
          fmt::format("{} is slow: its {} get on more slowly than others", name,
                      counted(node.ranks.size(), "task")),
          each.evidence);
    }
  }

  void ended() {
    if (places_.empty() || examination_.ended_well.empty()) return;
    bool all_wait = std::all_of(places_.begin(), places_.end(),
                                [](const Place& each) { return each.waits() || is_named(each.fact()); });
    if (!all_wait || examination_.ended_well.size() * 2 > examination_.tasks) return;
    bool one = examination_.ended_well.size() == 1;
    add(Kind::ended, examination_.ended_well,
        fmt::format("{} {} ended well, and the others go on", who(examination_.ended_well, examination_),
                    one ? "has" : "have"),
        fmt::format("if they wait for {}, they wait for ever", one ? "it" : "these"));
  }

  void add(Kind kind, value::Idset ranks, std::string text, std::string evidence) {
    out_.push_back({kind, std::move(ranks), std::move(text), std::move(evidence)});
  }

  const Examination& examination_;
  std::vector<Place> places_;  // the largest first
  std::uint64_t running_;      // tasks in them
  std::vector<Verdict> out_;
};

}  // namespace

Json Absent::json() const { return {{"shell", shell}, {"host", host}, {"ranks", ranks.str()}, {"lost", is_lost}}; }

Result<Absent> Absent::parse(const Json& json) {
  JsonAt at = JsonAt::root(json);
  Absent out;
  out.shell = static_cast<std::uint32_t>(TRY(TRY(at.at("shell")).integer(0, UINT32_MAX)));
  out.host = TRY(TRY(at.at("host")).string());
  out.ranks = TRY(value::Idset::parse(TRY(TRY(at.at("ranks")).string())));
  out.is_lost = TRY(TRY(at.at("lost")).boolean());
  return out;
}

Json Examination::json() const {
  Json out{{"tasks", tasks},
           {"interval", interval},
           {"ended-well", ended_well.str()},
           {"ended-badly", ended_badly.str()},
           {"absent", Json::array()},
           {"notes", notes}};
  for (const Absent& each : absent) out["absent"].push_back(each.json());
  return out;
}

Result<Examination> Examination::parse(const Json& json) {
  JsonAt at = JsonAt::root(json);
  Examination out;
  out.tasks = static_cast<std::uint64_t>(TRY(TRY(at.at("tasks")).integer(0)));
  out.interval = TRY(TRY(at.at("interval")).number());
  out.ended_well = TRY(value::Idset::parse(TRY(TRY(at.at("ended-well")).string())));
  out.ended_badly = TRY(value::Idset::parse(TRY(TRY(at.at("ended-badly")).string())));
  for (const JsonAt& each : TRY(TRY(at.at("absent")).elements()))
    out.absent.push_back(TRY(Absent::parse(each.json())));
  out.notes = TRY(TRY(at.at("notes")).strings());
  return out;
}

std::string_view name_of(Kind kind) { return kKinds.at(static_cast<std::size_t>(kind)); }

Json Verdict::json() const {
  return {{"kind", name_of(kind)}, {"ranks", ranks.str()}, {"text", text}, {"evidence", evidence}};
}

Result<Verdict> Verdict::parse(const Json& json) {
  JsonAt at = JsonAt::root(json);
  Verdict out;
  auto kind = TRY(at.at("kind"));
  auto found = std::find(kKinds.begin(), kKinds.end(), TRY(kind.string()));
  if (found == kKinds.end()) return kind.error("no such kind of verdict");
  out.kind = static_cast<Kind>(found - kKinds.begin());
  out.ranks = TRY(value::Idset::parse(TRY(TRY(at.at("ranks")).string())));
  out.text = TRY(TRY(at.at("text")).string());
  out.evidence = TRY(TRY(at.at("evidence")).string());
  return out;
}

std::string Verdict::line() const {
  return fmt::format("=> {}{}{}", escape_controls(text), evidence.empty() ? "" : ": ", escape_controls(evidence));
}

std::vector<Verdict> verdicts(const Examination& examination) { return Judge(examination).judge(); }

}  // namespace nacre::doctor
