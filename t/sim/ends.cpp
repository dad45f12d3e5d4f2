// SPDX-License-Identifier: Apache-2.0
#include "ends.hpp"

#include "cpu_time.hpp"
#include "exits/job_end.hpp"
#include "exits/notice.hpp"
#include "group/codec.hpp"
#include "notice_reader.hpp"
#include "overlay/wire.hpp"
#include "world.hpp"

namespace nacre::sim {
namespace {

constexpr Time kSpread = 10 * kSecond;  // in which the tasks end
constexpr Time kLook{20'000};           // between looks at the output of tasks that have failed
constexpr int kCrash = 11;
constexpr std::uint64_t kExitCodes = 256;

enum class Story : std::uint8_t { crash, failures, codes };

const char* name_of(Story story) {
  switch (story) {
    case Story::crash: return "one crash, the others end because of it";
    case Story::failures: return "one failure on each shell";
    case Story::codes: return "all exit codes at random";
  }
  return "";
}

double in_seconds(Time time) { return static_cast<double>(time.count()) / 1e6; }

class Ends : private Watcher {
 public:
  Ends(Story story, std::uint32_t tasks, std::uint32_t shells)
      : story_(story), tasks_(tasks), shells_(shells), world_(1, *this), notifier_({tasks, {}, 1}) {
    world_.reserve(shells - 1);
    world_.decodes = true;
  }

  double run() {
    for (Id id = 0; id < shells_; ++id) {
      OverlayOptions options;
      options.self = id;
      options.members = shells_;
      world_.boot(id, options);
      world_.at_host(id, world_.now, [](Node& node) {
        require(node.enter("start", Merge::max, std::int64_t{0}).has_value(), "a collective that can be entered");
      });
    }
    wait([&] { return released_ == shells_; });
    start_ = world_.now + kSecond;
    for (Id id = 0; id < shells_; ++id) plan(id);
    world_.at(start_ + kLook, [this] { look(); });
    wait([&] { return records_.ranks().size() == tasks_; });
    finish();
    return cpu_.milliseconds();
  }

 private:
  // ---- the shells ------------------------------------------------------------------------------

  [[nodiscard]] Idset tasks_of(Id id) const {
    std::uint64_t first = std::uint64_t{tasks_} * id / shells_;
    std::uint64_t behind = std::uint64_t{tasks_} * (id + 1) / shells_;
    if (first == behind) return {};
    return Idset::range(static_cast<Idset::Id>(first), static_cast<Idset::Id>(behind - 1));
  }

  // The tasks of a shell end together, at any time; in a crash all tasks at once.
  void plan(Id id) {
    std::map<std::pair<Time, std::string>, Idset> ends;
    Idset tasks = tasks_of(id);
    auto failed = world_.random.in(0, tasks.empty() ? 0 : tasks.size() - 1);
    Time when(static_cast<std::int64_t>(world_.random.in(0, static_cast<std::uint64_t>(kSpread.count()))));
    std::uint64_t place = 0;
    for (Idset::Id rank : tasks.ids()) {
      auto record = record_of(rank, place++ == failed);
      Time at = story_ == Story::crash ? (rank == crashed() ? Time{} : kMs * 100) : when;
      ends[{at, record.str()}].insert(rank);
      truth_.add(Idset::range(rank, rank), record);
    }
    for (const auto& [what, ranks] : ends) {
      world_.at_host(id, start_ + what.first, [ranks = ranks, text = what.second](Node& node) {
        node.exited(ranks, group::encode(group::Ended{ranks, *exits::Record::parse(text)}));
      });
    }
  }

  [[nodiscard]] Idset::Id crashed() const { return tasks_ / 2; }

  exits::Record record_of(Idset::Id rank, bool fails) {
    if (story_ == Story::crash && rank == crashed()) return exits::Record::of(value::WaitStatus::killed(kCrash));
    if (story_ == Story::crash) return exits::Record::victim(value::WaitStatus::killed(15));
    std::uint64_t code = story_ == Story::codes ? world_.random.in(0, kExitCodes - 1) : fails ? 3 : 0;
    return exits::Record::of(value::WaitStatus::exited(static_cast<int>(code)));
  }

  // ---- the leader ------------------------------------------------------------------------------

  void calls(Id host, bool begins) override {
    if (host == 0) begins ? cpu_.start() : cpu_.stop();
  }

  void effect(Id host, const Effect& effect) override {
    if (std::holds_alternative<Released>(effect)) ++released_;
    const auto* reported = std::get_if<Reported>(&effect);
    if (reported == nullptr || host != 0) return;
    for (const TaskReport& each : reported->exited) {
      auto ended = group::decode(each);
      require(ended.has_value(), "a record can be read");
      Idset fresh = records_.add(ended->tasks, ended->record);
      require(fresh == ended->tasks, "each task is recorded once");
      notifier_.record(in_seconds(world_.now), fresh, ended->record);
    }
    ++reports_;
  }
  void stepped(Id /*id*/) override {}

  // Looks as the plugin exit-notify does, with output that has come out by then.
  void look() {
    cpu_.start();
    double now = in_seconds(world_.now);
    if (notifier_.is_waiting()) notifier_.drained(now, notifier_.waiting());
    if (auto due = notifier_.due(); due && *due <= now) notifier_.tick(now);
    auto message = notifier_.next(client_.seq());
    cpu_.stop();
    read(message);
    if (!over_) world_.at(world_.now + kLook, [this] { look(); });
  }

  void finish() {
    over_ = true;
    cpu_.start();
    code_ = exits::JobEnd().code(records_, exits::Policy::max());
    notifier_.end(in_seconds(world_.now), code_);
    auto message = notifier_.next(client_.seq());
    cpu_.stop();
    read(message);
    require(client_.ended(), "the client is told of the end");
    exits::Notice::Classes all;
    for (const auto& [record, ranks] : truth_.classes()) all[record.str()] = ranks;
    require(client_.records() == all, "the union of the notices is the map of the job");
    require(code_ == exits::Policy::max().code(truth_), "the code is that of the map");
  }

  void read(const std::optional<exits::Notifier::Message>& message) {
    if (!message) return;
    ++messages_;
    for (const std::string& line : message->lines) {
      bytes_ += line.size();
      auto notice = kit::decode_notice(line);
      require(notice.has_value() && client_.take(*notice).has_value(), "a client can read each notice");
    }
  }

  template <typename F>
  void wait(F done) {
    while (!done()) world_.run_until(world_.now + 10 * kMs);
  }

 public:
  void print() const {
    std::printf("%s: %.0f ms of the leader's cpu, exit code %d, %llu reports, %llu notices of %llu bytes\n",
                name_of(story_), cpu_.milliseconds(), code_, static_cast<unsigned long long>(reports_),
                static_cast<unsigned long long>(messages_), static_cast<unsigned long long>(bytes_));
    std::fflush(stdout);
  }

 private:
  Story story_;
  std::uint32_t tasks_;
  std::uint32_t shells_;
  World world_;
  CpuTime cpu_;
  Time start_{};
  exits::Outcomes truth_, records_;
  exits::Notifier notifier_;
  kit::NoticeMap client_;
  std::uint64_t released_ = 0, reports_ = 0, messages_ = 0, bytes_ = 0;
  int code_ = 0;
  bool over_ = false;
};

}  // namespace

bool run_ends(std::uint32_t tasks, std::uint32_t shells, std::uint32_t most_ms) {
  bool is_within = true;
  for (Story story : {Story::crash, Story::failures, Story::codes}) {
    Ends ends(story, tasks, shells);
    double ms = ends.run();
    ends.print();
    is_within = is_within && (most_ms == 0 || ms <= most_ms);
  }
  return is_within;
}

}  // namespace nacre::sim
