// SPDX-License-Identifier: Apache-2.0
#include "doctor.hpp"

#include "bulk/port.hpp"
#include "bulk_world.hpp"
#include "cpu_time.hpp"
#include "doctor/answers.hpp"
#include "doctor/findings.hpp"
#include "group/alone.hpp"
#include "plugin/questions.hpp"
#include "world.hpp"

namespace nacre::sim {
namespace {

using doctor::Doing;
using doctor::Fact;
using doctor::TaskGroup;
using doctor::Verdict;

constexpr Time kInterval = kSecond;            // between the two looks of a shell at its tasks
constexpr Time kMostAnswerTime = 2 * kSecond;  // beyond kInterval; as in the plugin doctor
constexpr Time kRest = kSecond / 10;           // in which all that belongs to a look is over
constexpr Time kAtRest = 10 * kSecond;         // for which the job is watched without a look
constexpr std::uint32_t kLeastShells = 20;     // so that the shell 1 has others below it
constexpr const char* kTopic = "doctor.ask";

double in_ms(Time time) { return static_cast<double>(time.count()) / 1e3; }

// A job whose tasks wait in a barrier, but for one that is stuck, one that spins and one that is stopped.
class SickJob {
 public:
  SickJob(std::uint32_t shells, std::uint32_t tasks_per_shell)
      : shells_(shells), tasks_per_shell_(tasks_per_shell) {}

  [[nodiscard]] std::uint32_t tasks() const { return shells_ * tasks_per_shell_; }
  [[nodiscard]] Idset tasks_of(Id shell) const {
    return Idset::range(shell * tasks_per_shell_, (shell + 1) * tasks_per_shell_ - 1);
  }
  [[nodiscard]] Id shell_of(Idset::Id rank) const { return rank / tasks_per_shell_; }
  [[nodiscard]] Idset::Id stuck() const { return shells_ / 4 * tasks_per_shell_; }
  [[nodiscard]] Idset::Id spins() const { return shells_ / 2 * tasks_per_shell_; }
  [[nodiscard]] Idset::Id stopped() const { return shells_ / 4 * 3 * tasks_per_shell_; }

  [[nodiscard]] Fact fact_of(Idset::Id rank) const {
    Fact out;
    out.program = "solver";
    out.pmi = "connected";
    if (rank == stuck()) {
      out.doing = Doing::stuck;
      out.where = "folio_wait_bit";
      out.call = "read";
      out.object = "file";
    } else if (rank == spins()) {
      out.doing = Doing::busy;
    } else if (rank == stopped()) {
      out.doing = Doing::stopped;
    } else {  // in one of several calls by turns
      constexpr std::pair<const char*, const char*> kCalls[] = {
          {"ep_poll", "epoll_wait"}, {"futex_wait_queue", "futex"}, {"do_poll", "poll"}};
      out.barrier = 3;
      std::tie(out.where, out.call) = kCalls[rank * std::uint64_t{2654435761} % 3];
    }
    return out;
  }

  // The tasks as a shell finds them.
  std::vector<TaskGroup> look_at(Id shell, Random& random) const {
    std::vector<TaskGroup> out;
    for (Idset::Id rank : tasks_of(shell).ids()) {
      TaskGroup& each = out.emplace_back();
      each.ranks.insert(rank);
      each.fact = fact_of(rank);
      if (rank == stuck()) each.path = "/scratch/input.h5";
      each.cpu.add(rank == spins() ? 0.99 : static_cast<double>(random.in(0, 1000)) / 1e5);
      each.ready.add(static_cast<double>(random.in(0, 1000)) / 1e6);
      each.silent.add(static_cast<double>(random.in(60'000, 70'000)) / 1e3);
      each.bytes.add(static_cast<double>(random.in(10'000, 12'000)));
    }
    return doctor::folded(std::move(out));
  }

 private:
  std::uint32_t shells_;
  std::uint32_t tasks_per_shell_;
};

struct Answer {
  Idset late;  // shells
  Time took{};
  doctor::Examination examination;
  std::vector<Verdict> verdicts;
};

class Doctor : private Watcher {
 public:
  Doctor(std::uint32_t shells, std::uint32_t tasks_per_shell)
      : job_(shells, tasks_per_shell), shells_(shells), world_(1, *this), announcements_(shells) {
    require(shells >= kLeastShells, fmt::format("{} shells at least", kLeastShells));
    world_.reserve(shells - 1);
    world_.bytes_per_ms = kFastNetwork;
    bulk_ = std::make_unique<BulkWorld>(world_);
    for (Id id = 0; id < shells; ++id) {
      records_.push_back(std::make_unique<bulk::RecordQueue>(bulk::up::kDoctor));
      records_[id]->serve(bulk_->port(id), [this](Id origin, std::string_view bytes) { take(origin, bytes); });
    }
    for (Id id = 0; id < shells; ++id) {
      OverlayOptions options;
      options.self = id;
      options.members = shells;
      world_.boot(id, options);
      world_.at_host(id, world_.now, [](Node& node) {
        require(node.enter("start", Merge::max, std::int64_t{0}).has_value(), "a collective that can be entered");
      });
    }
    wait([this] { return released_ == shells_; });
  }

  bool run(const DoctorLimits& limits) {
    world_.run_until(world_.now + 10 * kSecond);
    Costs before = costs();
    world_.run_until(world_.now + kAtRest);
    at_rest_ = costs() - before;
    bool is_within = look("all shells answer", {}, limits);
    is_within = look("a leaf is frozen", Idset::range(shells_ - 1, shells_ - 1), limits) && is_within;
    return look("a shell that feeds others is frozen", Idset::range(1, 1), limits) && is_within;
  }

 private:
  bool look(const char* story, const Idset& frozen, const DoctorLimits& limits) {
    world_.run_until(world_.now + 10 * kSecond);  // in this time all links come again
    require(world_.hosts[0].node->tree().size() == shells_, "no shell is lost");
    for (Id id : frozen.ids()) world_.freeze(id);
    Time begun = world_.now;
    Costs before = costs();
    Answer answer = examine();
    world_.run_until(world_.now + kRest);
    Costs all = costs() - before - at_rest(world_.now - begun);
    check(answer, with_those_below(frozen));
    for (Id id : frozen.ids()) world_.thaw(id);
    Time expected = kInterval + (frozen.empty() ? Time{} : kMostAnswerTime);
    return print(story, answer, answer.took - expected, all, limits);
  }

  // ---- the leader ------------------------------------------------------------------------------

  Answer examine() {
    std::optional<Answer> out;
    Time asked = world_.now;
    bulk_->leader_cpu.reset();
    reading_.reset();
    judging_.reset();
    std::uint64_t number = open_.next();
    open_.open(number, {Idset::range(0, shells_ - 1), {}, [&](Open::Answered all) {
                          out = judged(std::move(all));
                          out->took = world_.now - asked;
                        }});
    world_.at(asked + kInterval + kMostAnswerTime, [this, number] { open_.finish(number); });
    world_.at_host(0, asked, [number](Node& node) {
      std::string text = dump_json(
          {{"number", number},
           {"order", {{"interval", 1.0}, {"by-rank", false}, {"stacks", "none"}, {"only-silence", false}}}});
      auto pieces = group::pieces_of(kTopic, text, 0);
      for (Event& each : pieces.value())
        require(node.request(std::move(each)).has_value(), "an event that can be sent");
    });
    world_.at_process(0, asked + kInterval, [this, number] {
      doctor::Gathered* found = open_.find(number, 0);
      if (found == nullptr) return;
      found->add(0, {number, true, job_.look_at(0, world_.random), {}, {}});
      open_.complete(number, 0);
    });
    wait([&] { return out.has_value(); });
    return *std::move(out);
  }

  void take(Id shell, std::string_view bytes) {
    reading_.start();
    auto part = reader_.read(bytes);
    require(part.has_value(), "an answer can be read");
    doctor::Gathered* found = open_.find(part->number, shell);
    std::uint64_t number = part->number;
    bool is_last = part->is_last;
    if (found != nullptr) found->add(shell, *std::move(part));
    reading_.stop();
    if (found != nullptr && is_last) open_.complete(number, shell);
  }

  using Open = plugin::OpenAnswers<doctor::Gathered>;
  Answer judged(Open::Answered all) {
    auto host_of = [](Id shell) { return fmt::format("n{}", shell); };
    judging_.start();
    Answer out;
    out.late = all.late;
    out.examination.tasks = job_.tasks();
    out.examination.interval = 1;
    out.examination.host_of = [this, host_of](Idset::Id rank) { return host_of(job_.shell_of(rank)); };
    std::move(all.answer).put_into(out.examination, host_of);
    for (Id shell : all.late.ids())
      out.examination.absent.push_back({shell, host_of(shell), job_.tasks_of(shell), false});
    out.verdicts = doctor::verdicts(out.examination);
    judging_.stop();
    return out;
  }

  // ---- each shell ------------------------------------------------------------------------------

  void effect(Id host, const Effect& effect) override {
    if (std::holds_alternative<Released>(effect)) ++released_;
    const auto* delivered = std::get_if<Deliver>(&effect);
    if (delivered == nullptr || host == 0) return;
    const Entry* entry = world_.hosts[host].node->entry(delivered->seq);
    const auto* event = entry == nullptr ? nullptr : std::get_if<Event>(&entry->body);
    if (event == nullptr) return;
    auto announced = announcements_[host].take(*event);
    require(announced && announced->topic == kTopic, "the announcement is the question");
    auto number = parse_json(announced->bytes).value().at("number").get<std::uint64_t>();
    records_[host]->put(doctor::AnswerPart{number, false, {}, {}, {}}.text());  // this shell has begun to look
    world_.at_process(host, world_.now + kInterval, [this, host, number] { answer(host, number); });
  }
  void stepped(Id id) override { bulk_->stepped(id); }

  void answer(Id host, std::uint64_t number) {
    for (std::string& each : doctor::answer_of(number, job_.look_at(host, world_.random), {}))
      records_[host]->put(std::move(each));
  }

  // ---- what is found ---------------------------------------------------------------------------

  [[nodiscard]] Idset with_those_below(const Idset& shells) const {
    Idset out;
    std::vector<Id> left = shells.ids();
    while (!left.empty()) {
      Id id = left.back();
      left.pop_back();
      out.insert(id);
      for (Id child : world_.hosts[0].node->tree().children(id)) left.push_back(child);
    }
    return out;
  }

  void check(const Answer& answer, const Idset& silent) const {
    require(answer.late == silent, fmt::format("shells {} are late, not {}", answer.late.str(), silent.str()));
    std::map<std::string, Idset> expected, found;
    Idset absent;
    for (Id shell = 0; shell < shells_; ++shell) {
      if (silent.contains(shell)) {
        absent.insert(job_.tasks_of(shell));
        continue;
      }
      for (Idset::Id rank : job_.tasks_of(shell).ids()) expected[dump_json(job_.fact_of(rank).json())].insert(rank);
    }
    for (const TaskGroup& group : answer.examination.groups) {
      found[dump_json(group.fact.json())] = group.ranks;
      require(group.cpu.count == group.ranks.size(), "each task is counted once");
    }
    require(found == expected && answer.examination.groups.size() == found.size(),
            "the groups are the tasks of those that have answered, by what they do");
    Idset stuck = Idset::range(job_.stuck(), job_.stuck()) - absent;
    Idset stopped = Idset::range(job_.stopped(), job_.stopped()) - absent;
    Idset spins = Idset::range(job_.spins(), job_.spins()) - absent;
    require(named(answer, Verdict::Kind::no_answer) == absent, "the tasks of those that are late are named");
    require(named(answer, Verdict::Kind::stuck) == stuck, "the one that is stuck is named");
    require(named(answer, Verdict::Kind::stopped) == stopped, "the one that is stopped is named");
    require(named(answer, Verdict::Kind::missing) == (stuck | stopped), "those that others wait for are named");
    require(named(answer, Verdict::Kind::spins) == spins, "the one that spins or computes is named");
  }

  static Idset named(const Answer& answer, Verdict::Kind kind) {
    Idset out;
    for (const Verdict& each : answer.verdicts) {
      if (each.kind == kind) out.insert(each.ranks);
    }
    return out;
  }

  // ---- what it costs ---------------------------------------------------------------------------

  // Messages, including those that are sent in place of beats; bytes.
  struct Costs {
    std::int64_t overlay, bulk, credit, to_leader;

    Costs operator-(const Costs& other) const {
      return {overlay - other.overlay, bulk - other.bulk, credit - other.credit, to_leader - other.to_leader};
    }
  };
  [[nodiscard]] Costs costs() const {
    auto of = [](std::uint64_t count) { return static_cast<std::int64_t>(count); };
    const BulkWorld::Counts& bulk = bulk_->counts;
    return {of(world_.messages), of(bulk.writes), of(bulk.grants), of(bulk.to_leader)};
  }

  // `costs`: in addition to those of the same time without a look.
  [[nodiscard]] Costs at_rest(Time time) const {
    auto part = [time](std::int64_t all) { return all * time.count() / kAtRest.count(); };
    return {part(at_rest_.overlay), part(at_rest_.bulk), part(at_rest_.credit), part(at_rest_.to_leader)};
  }

  bool print(const char* story, const Answer& answer, Time took, const Costs& costs,
             const DoctorLimits& limits) const {
    double each = static_cast<double>(costs.overlay + costs.bulk) / shells_;
    std::string text = fmt::format(
        "{}: {:.1f} ms beside the {}, {} late shells, {} messages more than at rest ({:.2f} a shell: {} of the "
        "log, {} of bulk; and "
        "{} of "
        "credit), {:.2f} MB to the leader, {:.0f} ms of its cpu ({:.0f} to read the answers, {:.0f} to judge), "
        "{} groups of {} tasks, {} verdicts",
        story, in_ms(took), answer.late.empty() ? "interval of 1 s" : "3 s in which shells have to answer",
        answer.late.size(), costs.overlay + costs.bulk, each, costs.overlay, costs.bulk, costs.credit,
        static_cast<double>(costs.to_leader) / 1e6, bulk_->leader_cpu.milliseconds(), reading_.milliseconds(),
        judging_.milliseconds(), answer.examination.groups.size(), job_.tasks(), answer.verdicts.size());
    std::printf("%s\n", text.c_str());
    std::fflush(stdout);
    return (limits.most_ms == 0 || took <= limits.most_ms * kMs) &&
           (limits.most_messages_per_shell == 0 || each <= limits.most_messages_per_shell);
  }

  template <typename F>
  void wait(F done) {
    while (!done()) world_.run_until(world_.now + kMs / 5);
  }

  SickJob job_;
  std::uint32_t shells_;
  World world_;
  std::unique_ptr<BulkWorld> bulk_;
  std::vector<std::unique_ptr<bulk::RecordQueue>> records_;  // by shell
  std::vector<group::Announcements> announcements_;          // by shell
  Open open_;
  doctor::AnswerReader reader_;
  CpuTime reading_, judging_;
  Costs at_rest_{};  // of kAtRest
  std::uint64_t released_ = 0;
};

}  // namespace

bool run_doctor(std::uint32_t shells, std::uint32_t tasks_per_shell, const DoctorLimits& limits) {
  return Doctor(shells, tasks_per_shell).run(limits);
}

}  // namespace nacre::sim
