// SPDX-License-Identifier: Apache-2.0
//
// Jobs of random tasks and clients on virtual time. Tasks end in any way and order, their output comes out late or
// never, shells are lost; clients stop reading, lose their link within a message, and come back with any sequence
// number. At each moment what has been sent is what the rules of exits/notice.hpp say; in the end each client
// that reads on has the map of the job.
#include "catch.hpp"

#include "notice_reader.hpp"

#include <random>

#include "exits/notice.hpp"
#include "fewer.hpp"

using namespace nacre::exits;  // NOLINT
using nacre::value::Idset;
using nacre::value::WaitStatus;

namespace {

constexpr std::uint32_t kSeeds = nacre::kit::fewer(2000);
constexpr double kTick = 0.0001;  // seconds that a timer may be late

struct Client {
  kit::NoticeMap map;
  std::uint64_t seq = 0;
  bool reads = true;
};

class Simulation {
 public:
  explicit Simulation(std::uint32_t seed) : random_(seed) {
    tasks_ = below(16) == 0 ? 1 + below(400) : 1 + below(30);
    threshold_ = below(4) == 0 ? 1 + below(tasks_) : 1;
    notifier_.emplace(Notifier::Options{tasks_, Policy::max(), threshold_});
    clients_.resize(1 + below(3));
  }

  void run() {
    while (!left().empty() && below(400) != 0) step();
    end();
    for (Client& each : clients_) {
      read(each, true);
      REQUIRE(each.map.ended());
      REQUIRE(each.map.records() == truth_);
    }
  }

 private:
  std::uint32_t below(std::uint32_t most) { return static_cast<std::uint32_t>(random_() % most); }
  [[nodiscard]] Idset left() const { return Idset::range(0, tasks_ - 1) - ended_; }

  void step() {
    // Time goes on to the next event, so that no timer is late.
    double until = now_ + (below(3) == 0 ? 0.001 * below(3000) : 0.001 * below(50));
    for (auto due = notifier_->due(); due && *due <= until; due = notifier_->due()) {
      now_ = std::max(now_, *due) + kTick;
      Idset waited = notifier_->waiting();
      notifier_->tick(now_);
      released(waited - notifier_->waiting());
      look();
    }
    now_ = std::max(now_, until);
    switch (below(8)) {
      case 0: break;
      case 1: drain(); break;
      case 2: disturb(clients_[below(static_cast<std::uint32_t>(clients_.size()))]); break;
      case 3:
        if (below(20) == 0) lose();
        break;
      default: task_ends(); break;
    }
    look();
  }

  Record any_record() {
    switch (below(12)) {
      case 0: return Record::of(WaitStatus::killed(1 + static_cast<int>(below(15))));
      case 1: return Record::of(WaitStatus::exited(static_cast<int>(below(256))));
      case 2: return Record::victim(WaitStatus::killed(15));
      case 3: return Record::not_started(127);
      default: return Record::of(WaitStatus::exited(0));
    }
  }

  void task_ends() {
    Idset some = Idset::range(below(tasks_), below(tasks_) + below(5)) & Idset::range(0, tasks_ - 1);
    note(some, any_record());
  }

  void note(const Idset& ranks, const Record& record) {
    Idset fresh = ranks - ended_;
    notifier_->record(now_, ranks, record);
    if (fresh.empty()) return;
    ended_ = ended_ | fresh;
    truth_[record.str()] = truth_[record.str()] | fresh;
    if (record.code() == 0 || notifier_->waiting().contains(*fresh.first())) return;
    failed_ += fresh.size();
    if (failed_ >= threshold_ && !first_) first_ = now_;
  }

  void drain() {
    Idset waiting = notifier_->waiting();
    if (waiting.empty()) return;
    Idset some = below(2) == 0 ? waiting : Idset::range(*waiting.first(), *waiting.first());
    notifier_->drained(now_, some);
    released(some);
  }

  void released(const Idset& some) {
    failed_ += some.size();
    if (failed_ >= threshold_ && !first_) first_ = now_;
  }

  void lose() {
    std::uint32_t from = below(tasks_);
    Idset ranks = Idset::range(from, from + below(20)) & Idset::range(0, tasks_ - 1);
    Idset waited = notifier_->waiting() & ranks;
    notifier_->lost(now_, ranks);
    released(waited);
    note(ranks, Record::lost());
  }

  void disturb(Client& client) {
    switch (below(4)) {
      case 0: client.reads = !client.reads; break;
      case 1: client.seq = below(3) == 0 ? below(200) : client.seq; [[fallthrough]];
      case 2:  // the client's link breaks, and what it has is lost with that
        client.map = {};
        client.seq = 0;
        break;
      default: {  // another client's number
        auto wrong = notifier_->seq() + 1 + below(10);
        if (auto message = notifier_->next(wrong)) REQUIRE(kit::decode_notice(message->lines[0]).value().base);
      }
    }
  }

  // Sends what the rules demand.
  void look() {
    std::uint64_t seq = notifier_->seq();
    REQUIRE(seq - seen_ <= 1);
    if (seq != seen_) {
      REQUIRE(first_);
      REQUIRE(now_ - first_.value_or(0) >= 0);
      if (last_) REQUIRE(now_ - *last_ >= Notifier::kInterval - kTick);
      last_ = now_;
      seen_ = seq;
    }
    if (first_) REQUIRE((seen_ > 0 || now_ - *first_ <= 0.2));
    // A client that stalls for longer than messages are kept gets a snapshot.
    for (Client& each : clients_) {
      if (each.reads) read(each, false);
    }
  }

  void read(Client& client, bool all) {
    while (auto message = notifier_->next(client.seq)) {
      if (!all && below(50) == 0) return;
      for (const std::string& line : message->lines) {
        auto notice = kit::decode_notice(line);
        REQUIRE(notice);
        auto taken = client.map.take(*notice);
        INFO((taken ? "" : taken.error().message));
        REQUIRE(taken);
      }
      REQUIRE(client.map.seq() == message->seq);
      client.seq = message->seq;
    }
    REQUIRE(client.seq == notifier_->seq());
    REQUIRE((client.map.ranks() & notifier_->waiting()).empty());
  }

  void end() {
    notifier_->end(now_, 1);
    if (Idset rest = left(); !rest.empty()) truth_["c"] = truth_["c"] | rest;
    REQUIRE(notifier_->waiting().empty());
    REQUIRE_FALSE(notifier_->due());
  }

  std::mt19937 random_;
  std::uint32_t tasks_ = 0;
  std::uint64_t threshold_ = 1;
  std::optional<Notifier> notifier_;
  std::vector<Client> clients_;
  double now_ = 0;
  Idset ended_;
  Notice::Classes truth_;
  std::uint64_t failed_ = 0;     // failures whose output does not delay them
  std::optional<double> first_;  // when the failures reached the threshold
  std::optional<double> last_;   // the newest message
  std::uint64_t seen_ = 0;
};

}  // namespace

TEST_CASE("whatever clients do, the union of the notices is the map of the job") {
  for (std::uint32_t seed = 1; seed <= kSeeds; ++seed) {
    INFO("seed " << seed);
    Simulation(seed).run();
  }
}
