// SPDX-License-Identifier: Apache-2.0
#include "doctor/findings.hpp"

#include "base/text.hpp"
#include "doctor/stacks.hpp"
#include "value/hostlist.hpp"
#include "wire/json.hpp"

namespace nacre::doctor {
namespace {

using Kind = Verdict::Kind;

constexpr std::array<std::string_view, 15> kKinds = {"no-answer", "missing", "collective", "deadlock", "stuck",
                                                     "stopped",   "pipe",    "input",      "works",    "spins",
                                                     "slow-node", "ended",   "several",    "alike",    "fine"};

constexpr std::size_t kMostAlone = 4;        // shells without an answer that have a verdict each
constexpr std::size_t kMostHostsText = 200;  // bytes

bool has_a_process(const Fact& fact) { return fact.doing != Doing::over && fact.doing != Doing::not_started; }

bool is_nobody_else(PipeEnd end) { return end == PipeEnd::nobody || end == PipeEnd::itself; }

bool has_pipe_of_nobody(const Fact& fact) {
  if (fact.doing != Doing::sleeps) return false;
  return is_nobody_else(fact.writer) || is_nobody_else(fact.reader) || fact.object == "FIFO";
}

// Whether a rule of its own names the fact.
bool is_named(const Fact& fact) {
  return fact.doing == Doing::stuck || fact.doing == Doing::stopped || fact.doing == Doing::traced ||
         fact.doing == Doing::frozen || fact.locked != 0 || has_pipe_of_nobody(fact);
}

// Places in which the kernel waits for a disk, a file system, or a server of one.
bool is_of_storage(std::string_view where) {
  constexpr std::string_view kParts[] = {
      "nfs",   "rpc_",        "lustre", "ptlrpc", "fuse", "request_wait", "folio", "page",     "buffer",
      "inode", "io_schedule", "blk",    "bio",    "jbd2", "ext4",         "xfs",   "btrfs",    "cifs",
      "smb",   "ceph",        "gpfs",   "nvme",   "scsi", "dio",          "fsync", "writeback"};
  return std::any_of(std::begin(kParts), std::end(kParts),
                     [&](std::string_view each) { return where.find(each) != std::string_view::npos; });
}

// What the tasks at a place do, seen from the others.
enum class Part : std::uint8_t {
  waits,     // they wait, as far as is known for others
  sleeps,    // until a time
  works,     // they get on
  computes,  // they compute, or wait without sleeping, in a function of their own
  unsure,    // they compute, or wait without sleeping: there are no stacks
};

// Tasks that are at the same place, as far as the facts show.
struct Place {
  value::Idset ranks;
  const TaskGroup* example = nullptr;  // the largest group in it
  bool moves = false, wakes = false;
  Steps steps = Steps::unknown;
  Range cpu;

  [[nodiscard]] const Fact& fact() const { return example->fact; }
  [[nodiscard]] Part part() const {
    if (moves || steps == Steps::some) return Part::works;
    if (fact().barrier != 0) return Part::waits;
    if (fact().doing != Doing::busy) return fact().call.ends_with("nanosleep") ? Part::sleeps : Part::waits;
    if (fact().stack.empty()) return Part::unsure;
    return is_in_communication(fact().stack) ? Part::waits : Part::computes;
  }
  // Whether it does nothing, and does not wake by itself to check what it waits for.
  [[nodiscard]] bool is_still() const { return !wakes && (part() == Part::waits || part() == Part::sleeps); }
  [[nodiscard]] std::string text(bool several) const {
    if (fact().stack.empty()) return what(fact(), several);
    return fmt::format("{} in {}", several ? "are" : "is", escape_controls(fact().stack.back()));
  }
};

std::string stack_text(const std::vector<std::string>& stack) { return fmt::format("{}", fmt::join(stack, "\n")); }

// Tasks that wait for others are often in one of several calls by turns, so only the stacks tell them apart.
std::string key_of(const Fact& fact) {
  if (fact.barrier != 0) return fmt::format("barrier {}", fact.barrier);
  if (is_named(fact)) return what(fact);
  std::string place = stack_text(fact.stack);
  if (place.empty()) return fact.doing == Doing::busy ? "busy" : what(fact);
  if (fact.doing != Doing::busy) {
    for (const auto& each : fact.others) place += "\n\n" + stack_text(each);
  }
  return place;
}

std::vector<Place> places_of(const Examination& examination) {
  std::map<std::string, Place> by_key;
  for (const TaskGroup& group : examination.groups) {
    if (!has_a_process(group.fact)) continue;
    Place& place = by_key[key_of(group.fact)];
    if (place.example == nullptr) place.example = &group;  // folded(): the largest comes first
    place.ranks.insert(group.ranks);
    place.moves = place.moves || group.fact.moves;
    place.wakes = place.wakes || group.fact.wakes;
    place.steps = std::max(place.steps, group.fact.steps);
    place.cpu += group.cpu;
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

class Judge {
 public:
  explicit Judge(const Examination& examination)
      : examination_(examination),
        places_(places_of(examination)),
        running_(count(places_)),
        collective_(collective_findings(examination.collectives)) {}

  std::vector<Verdict> judge_absent() {
    for (bool is_lost : {false, true}) absent(is_lost);
    return std::move(out_);
  }

  std::vector<Verdict> judge() {
    for (bool is_lost : {false, true}) absent(is_lost);
    for (const Place& each : places_) named(each);
    for (const CollectiveFinding& each : collective_) collective(each);
    for (const RasFinding& each : examination_.ras) ras(each);
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
    std::string subject = fmt::format("shells {}{}", shells.short_str(), where);
    std::string tasks = counted(ranks.size(), "task") + (ranks.empty() ? "" : ", " + ranks.short_str());
    if (is_lost) return add(Kind::no_answer, ranks, subject + " are lost", "they had " + tasks);
    add(Kind::no_answer, ranks, subject + " have not answered in time",
        "they, their hosts, or a shell between them and the leader are stopped, or slow; they have " + tasks);
  }

  void absent(const Absent& absent) {
    std::string host = absent.host.empty() ? "" : " on " + escape_controls(absent.host);
    std::string ranks =
        absent.ranks.empty() ? "no task" : counted(absent.ranks.size(), "task") + ", " + absent.ranks.short_str();
    if (absent.is_lost)
      return add(Kind::no_answer, absent.ranks, fmt::format("shell {}{} is lost", absent.shell, host),
                 "it had " + ranks);
    add(Kind::no_answer, absent.ranks, fmt::format("shell {}{} has not answered in time", absent.shell, host),
        fmt::format("it is stopped, its host is, or is slow; it has {}", ranks));
  }

  // What is wrong with them in any case.
  void named(const Place& place) {
    bool several = place.ranks.size() > 1;
    std::string subject = who(place.ranks, examination_) + ' ';
    const Fact& fact = place.fact();
    auto say = [&](Kind kind, std::string_view evidence) {
      add(kind, place.ranks, subject + what(fact, several), std::string(evidence));
    };
    if (fact.doing == Doing::stuck) {
      say(Kind::stuck, is_of_storage(fact.where)
                           ? "at both looks; no signal ends that, so look at the host and its file systems"
                           : "at both looks; no signal ends that");
    } else if (fact.doing == Doing::stopped) {
      say(Kind::stopped, "nacre kill -s CONT JOB lets them go on");
    } else if (fact.doing == Doing::traced) {
      say(Kind::stopped, "state t");
    } else if (fact.doing == Doing::frozen) {
      say(Kind::stopped, "no signal ends that, only who has frozen it");
    } else if (fact.locked != 0) {
      say(Kind::deadlock, "nobody else can wake them");
    } else if (has_pipe_of_nobody(fact)) {
      say(Kind::pipe, fact.object == "FIFO"         ? "until another process opens it"
                      : is_nobody_else(fact.reader) ? "so nobody will ever read it"
                                                    : "so nothing will ever come");
    } else if (fact.is_input && fact.doing == Doing::sleeps && !fact.moves) {
      say(Kind::input, "it waits for whoever gives the job its input");
    }
  }

  void collective(const CollectiveFinding& found) {
    std::string torch = found.torch_ranks.empty() ? "" : fmt::format(", torch's {}", found.torch_ranks.short_str());
    add(Kind::collective, found.ranks,
        fmt::format("{}{} {} {}", who(found.ranks, examination_), torch, found.ranks.size() == 1 ? "is" : "are",
                    found.text),
        found.evidence);
  }

  void ras(const RasFinding& found) {
    std::string them = found.ranks.empty() ? found.process : who(found.ranks, examination_);
    add(Kind::collective, found.ranks, fmt::format("{}, {}, may keep others waiting", them, found.text),
        found.evidence);
  }

  void compare() {
    if (running_ < 2 || places_.empty()) return single();
    const Place& main = places_.front();
    if (main.ranks.size() == running_) return alike(main);
    const bool is_half = main.ranks.size() * 2 == running_;
    if (main.ranks.size() * 2 <= running_ && !(is_half && half_waits_for_others())) return several();
    if (main.part() == Part::works) return;
    Odd odd = odd_of(main);
    bool is_few = odd.all.size() * 2 <= main.ranks.size() || is_half;
    bool all_named = odd.still.empty() && odd.active.empty();
    bool in_barrier = main.fact().barrier != 0;
    if (all_named && (is_few || in_barrier)) return missing(main, odd, odd.named);
    if (!is_few && !in_barrier) return several();
    if (main.part() != Part::waits) return apart(main, odd);
    // A task that waits elsewhere may wait for the active ones.
    if (!odd.active.empty()) {
      if (!odd.named.empty()) missing(main, odd, odd.named);
      for (const Place* each : odd.active) active(main, *each);
    } else if (odd.places.size() == 1 || in_barrier) {
      missing(main, odd, odd.all);
    } else {
      several();
    }
  }

  // Whether exactly one half waits in a function of MPI, torch.distributed or the like, in one place, which comes
  // to be the first; and no other task is in such a function.
  bool half_waits_for_others() {
    auto in_communication = [](const Place& each) { return is_in_communication(each.fact().stack); };
    if (std::count_if(places_.begin(), places_.end(), in_communication) != 1) return false;
    auto half = std::find_if(places_.begin(), places_.end(), in_communication);
    if (half->ranks.size() * 2 != running_ || half->part() != Part::waits) return false;
    std::iter_swap(places_.begin(), half);
    return true;
  }

  // The tasks that are not where most are.
  struct Odd {
    std::vector<const Place*> places, active;
    value::Idset all, named, still;
  };
  [[nodiscard]] Odd odd_of(const Place& main) const {
    Odd out;
    for (const Place& each : places_) {
      if (&each == &main) continue;
      out.places.push_back(&each);
      out.all.insert(each.ranks);
      if (is_named(each.fact()))
        out.named.insert(each.ranks);
      else if (each.is_still())
        out.still.insert(each.ranks);
      else
        out.active.push_back(&each);
    }
    return out;
  }

  void missing(const Place& main, const Odd& odd, const value::Idset& ranks) {
    std::string others = most_of(main) + (main.fact().barrier == 0 ? "" : ", which waits for all");
    add(Kind::missing, ranks, not_there(ranks), others + each_of(odd.places));
  }

  // Most tasks are busy, and may wait without sleeping, or sleep until a time.
  void apart(const Place& main, const Odd& odd) {
    if (!odd.active.empty() || odd.still.empty()) return several();
    bool several = odd.still.size() > 1;
    std::string why = main.part() == Part::sleeps ? "a sleep ends by itself"
                                                  : "they compute, or wait for others without sleeping";
    if (main.part() == Part::unsure) why += "; --stacks tells which";
    add(Kind::several, odd.still,
        fmt::format("{} {}, and {}", who(odd.still, examination_), several ? "wait" : "waits", most_of(main)), why);
    if (!odd.named.empty()) missing(main, odd, odd.named);
  }

  void active(const Place& main, const Place& place) {
    bool several = place.ranks.size() > 1;
    std::string them = several ? "them" : "it";
    std::string where =
        fmt::format("; {} {} {}", several ? "ranks" : "rank", place.ranks.short_str(), place.text(several));
    const bool one = main.ranks.size() == 1;
    const std::string others = one ? fmt::format("rank {}", main.ranks.str()) : "they";
    auto say = [&](Kind kind, std::string_view does, std::string_view why) {
      add(kind, place.ranks,
          fmt::format("{} {}, and {} of {} {}, perhaps for {}", who(place.ranks, examination_), does,
                      main.ranks.size(), examination_.tasks, one ? "waits" : "wait", them),
          fmt::format("{} {}{}{}", others, main.text(!one), where, why));
    };
    if (place.steps == Steps::some)
      return say(Kind::works, several ? "compute" : "computes", ", and elsewhere a moment later");
    if (place.moves) return say(Kind::works, several ? "get on" : "gets on", ", and reads, writes, or is woken");
    if (place.wakes) return say(Kind::works, several ? "wake now and then" : "wakes now and then", "");
    say(Kind::spins, several ? "spin or compute" : "spins or computes",
        place.steps == Steps::none ? ", and in the same place a moment later" : "");
  }

  [[nodiscard]] std::string most_of(const Place& main) const {
    return fmt::format("{} of {} {}", main.ranks.size(), examination_.tasks, main.text(main.ranks.size() > 1));
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
      out +=
          fmt::format("; {} {} {}", several ? "ranks" : "rank", odd[i]->ranks.short_str(), odd[i]->text(several));
    }
    return out;
  }

  void single() {
    if (running_ == 1) spins(places_.front());
  }

  void alike(const Place& main) {
    if (is_named(main.fact()) || (main.fact().is_input && !main.moves)) return;
    if (main.part() == Part::works || !collective_.empty() || !examination_.ras.empty()) return;
    if (is_uneven(main.cpu))
      return add(Kind::several, {},
                 fmt::format("all {} are in the same place, but some of them run, and some do not",
                             counted(running_, "task")),
                 fmt::format("they {}, with {:.0f} to {:.0f} % cpu", main.text(true), main.cpu.least * 100,
                             main.cpu.most * 100));
    add(Kind::alike, main.ranks,
        fmt::format("all {} are in the same place, so none is missing",
                    examination_.absent.empty() ? counted(running_, "task") + " that run"
                                                : counted(running_, "task") + " that are known"),
        "they " + main.text(true));
    if (main.fact().barrier == 0) spins(main);
  }

  static bool is_uneven(const Range& cpu) {
    constexpr double kNone = 0.005;  // of one cpu
    constexpr double kSome = 0.05;
    return cpu.count > 1 && cpu.least < kNone && cpu.most >= kSome;
  }

  void spins(const Place& place) {
    if (place.fact().doing != Doing::busy || place.part() == Part::works || place.fact().barrier != 0) return;
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
    bool any_works =
        std::any_of(places_.begin(), places_.end(), [](const Place& each) { return each.part() == Part::works; });
    bool any_named =
        std::any_of(places_.begin(), places_.end(), [](const Place& each) { return is_named(each.fact()); });
    if (any_works || any_named) return;
    std::string shared = shared_by_most();
    add(Kind::several, {},
        fmt::format("the tasks are in {} different places, and none of them can be blamed", places_.size()),
        fmt::format("{} of {} at most are in the same{}", places_.front().ranks.size(), running_,
                    shared.empty() ? "" : "; the last function that most of them share is " + shared));
    for (const Place& each : places_) spins(each);
  }

  // The function farthest from main that is in the stacks of more than half of them; "": there is none.
  [[nodiscard]] std::string shared_by_most() const {
    StackTree tree = tree_of(examination_.groups);
    const StackTree* at = &tree;
    while (!at->below.empty() && at->below.front().ranks.size() * 2 > running_) at = &at->below.front();
    return escape_controls(at->frame);
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
                                [](const Place& each) { return each.is_still() || is_named(each.fact()); });
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
  std::vector<CollectiveFinding> collective_;
  std::vector<Verdict> out_;
};

}  // namespace

void fields(auto& io, wire::Of<Absent> auto& m) {
  io.has("shell", m.shell);
  io.has("host", m.host);
  io.has("ranks", m.ranks);
  io.has("lost", m.is_lost);
}

void fields(auto& io, wire::Of<Examination> auto& m) {
  io.has("tasks", m.tasks);
  io.has("interval", m.interval);
  io.has("ended-well", m.ended_well);
  io.has("ended-badly", m.ended_badly);
  io.has("absent", m.absent);
  io.has("notes", m.notes);
}

Json Examination::json() const { return wire::to_json(*this); }

Result<Examination> Examination::parse(const Json& json) { return wire::from_json<Examination>(json); }

void fields(auto& io, wire::Of<Verdict> auto& m) {
  io.has("kind", m.kind, wire::Words(kKinds, nullptr, "no such kind of verdict"));
  io.has("ranks", m.ranks);
  io.has("text", m.text);
  io.has("evidence", m.evidence);
}

Json Verdict::json() const { return wire::to_json(*this); }

Result<Verdict> Verdict::parse(const Json& json) { return wire::from_json<Verdict>(json); }

std::string Verdict::line() const {
  return fmt::format("=> {}{}{}", escape_controls(text), evidence.empty() ? "" : ": ", escape_controls(evidence));
}

std::vector<Verdict> verdicts_of_absent(const std::vector<Absent>& absent) {
  Examination examination;
  examination.absent = absent;
  return Judge(examination).judge_absent();
}

std::vector<Verdict> verdicts(const Examination& examination) { return Judge(examination).judge(); }

// ---- words ------------------------------------------------------------------------------

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
  if (group.fact.holds_lock) add("this thread has Python's lock, the GIL, and waits");
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
