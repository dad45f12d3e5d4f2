// SPDX-License-Identifier: Apache-2.0
#include "start.hpp"

#include "world.hpp"

namespace nacre::sim {
namespace {

constexpr Time kAgentLeast = 150 * kMs, kAgentMost = 400 * kMs;  // until a shell runs on another host, by ssh
constexpr std::uint32_t kTimesSlower = 10;
constexpr Time kNoRoute = 3 * kSecond;     // until ssh says that the host is not there
constexpr Time kFreezesAfter = 5 * kMs;    // by then the shell has said who it is
constexpr Time kOthersToo = kSecond;       // for which the leader waits after a loss, as join.cpp has it
constexpr Time kMostWait = 120 * kSecond;  // for a start

struct Hosts {
  const char* what;
  bool some_slow;      // one in a hundred
  std::uint32_t dead;  // as many as these
  std::uint32_t frozen;
};

class Start : private Watcher {
 public:
  Start(std::uint32_t shells, std::uint64_t seed, const Hosts& hosts)
      : world_(seed, *this), shells_(shells), slow_(shells), dead_(shells), frozen_(shells) {
    world_.bytes_per_ms = kFastNetwork;
    world_.reserve(shells - 1);
    if (hosts.some_slow) draw(slow_, (shells + 99) / 100);
    draw(dead_, hosts.dead);
    draw(frozen_, hosts.frozen);
  }

  void run() {
    boot(0);
    while (released_ < shells_ && lost_at_ == Time::max()) step();
    while (lost_at_ != Time::max() && world_.now < lost_at_ + kOthersToo) step();
    check_named();
  }
  [[nodiscard]] Time took() const { return world_.now; }
  // Hosts that are dead or frozen, and those of them that the leader names.
  [[nodiscard]] std::uint32_t faulty() const { return faulty_; }
  [[nodiscard]] std::uint32_t named() const { return named_; }

 private:
  // So many hosts that have no fault yet. The leader has none: nobody else could tell of it.
  void draw(std::vector<bool>& faulty, std::uint32_t count) {
    for (std::uint32_t drawn = 0; drawn < count;) {
      const auto id = static_cast<Id>(world_.random.in(1, shells_ - 1));
      if (slow_[id] || dead_[id] || frozen_[id]) continue;
      faulty[id] = true;
      ++drawn;
    }
  }
  void step() {
    world_.run_until(world_.now + kMs);
    require(world_.now < kMostWait, "a start comes to its end");
  }
  void boot(Id id) {
    OverlayOptions options;
    options.self = id;
    options.members = shells_;
    if (slow_[id]) world_.hosts[id].delay = (kTimesSlower - 1) * (world_.latency_least + world_.latency_most) / 2;
    world_.boot(id, std::move(options));
    world_.at_host(id, world_.now, [](Node& node) {
      require(node.enter("join", Merge::max, std::int64_t{0}).has_value(), "a collective that can be entered");
    });
    for (Id child : world_.hosts[id].node->tree().children(id)) call_agent(id, child);
    if (frozen_[id]) world_.at(world_.now + kFreezesAfter, [this, id] { world_.freeze(id); });
  }
  void call_agent(Id parent, Id id) {
    Time takes{world_.random.in(kAgentLeast.count(), kAgentMost.count())};
    if (dead_[id]) return world_.at_host(parent, world_.now + kNoRoute, [id](Node& node) { node.suspect(id); });
    if (slow_[id]) takes *= kTimesSlower;
    world_.at_process(parent, world_.now + takes, [this, id] { boot(id); });
  }
  // Only hosts are named that are dead or frozen, or that nobody else could start.
  void check_named() {
    const Tree& tree = world_.hosts[0].node->tree();
    for (Id id = 1; id < shells_; ++id) {
      const bool is_faulty = dead_[id] || frozen_[id];
      faulty_ += is_faulty ? 1 : 0;
      if (tree.has(id)) continue;
      named_ += is_faulty ? 1 : 0;
      require(is_faulty || is_below(id), "a shell that is named as missing is missing");
    }
  }
  [[nodiscard]] bool is_below(Id id) const {
    for (Id above : Tree(shells_, OverlayOptions().arity).ancestors(id)) {
      if (dead_[above] || frozen_[above]) return true;
    }
    return false;
  }

  void effect(Id /*id*/, const Effect& effect) override {
    if (std::holds_alternative<Released>(effect)) ++released_;
  }
  void stepped(Id id) override {
    if (id == 0 && lost_at_ == Time::max() && world_.hosts[0].node->tree().size() < shells_) lost_at_ = world_.now;
  }

  World world_;
  std::uint32_t shells_;
  std::vector<bool> slow_, dead_, frozen_;
  std::uint64_t released_ = 0;
  std::uint32_t faulty_ = 0, named_ = 0;
  Time lost_at_ = Time::max();
};

void print_row(const Hosts& hosts, std::uint32_t shells, std::uint64_t first_seed, std::uint64_t last_seed) {
  constexpr double kMost = 0.999;
  std::vector<Time> took;
  std::uint64_t faulty = 0, named = 0;
  for (std::uint64_t seed = first_seed; seed <= last_seed; ++seed) {
    Start start(shells, seed, hosts);
    start.run();
    took.push_back(start.took());
    faulty += start.faulty();
    named += start.named();
  }
  std::sort(took.begin(), took.end());
  const auto seconds = [&took](double part) {
    const auto index = static_cast<std::size_t>(part * static_cast<double>(took.size() - 1));
    return static_cast<double>(took[index].count()) / 1e6;
  };
  std::printf("| %s | %u | %zu | %.2f | %.2f | %.2f | %llu of %llu |\n", hosts.what, shells, took.size(),
              seconds(0.5), seconds(kMost), seconds(1), static_cast<unsigned long long>(named),
              static_cast<unsigned long long>(faulty));
  std::fflush(stdout);
}

}  // namespace

void print_starts(std::uint32_t shells, std::uint64_t first_seed, std::uint64_t last_seed) {
  constexpr std::uint32_t kLeastShells = 100;
  require(shells >= kLeastShells && first_seed <= last_seed, "at least 100 shells, and one seed");
  std::printf(
      "| hosts | shells | starts | median, virtual s | 99.9th percentile | the last | dead and frozen ones named "
      "|\n"
      "|---|---|---|---|---|---|---|\n");
  constexpr Hosts kHosts[] = {{"all alike", false, 0, 0},
                              {"1 % are ten times slower", true, 0, 0},
                              {"the same, and 5 are dead: to the end", true, 5, 0},
                              {"the same, and one answers and freezes: to the end", true, 5, 1},
                              {"one answers and freezes: to the end", false, 0, 1}};
  for (const Hosts& each : kHosts) print_row(each, shells, first_seed, last_seed);
}

}  // namespace nacre::sim
