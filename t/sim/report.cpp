// SPDX-License-Identifier: Apache-2.0
#include "report.hpp"

#include "world.hpp"

namespace nacre::sim {
namespace {

constexpr std::size_t kBroadcast = std::size_t{1} << 20;
constexpr std::size_t kExchanged = std::size_t{64} << 10;
// Each member keeps what it has received until all have. So that this can be simulated, each byte of data stands
// for as many, and values are cut into pieces smaller by that factor: there are as many messages.
constexpr std::uint64_t kScale = 4096;
constexpr std::size_t kPieceOfIt = kPiece / kScale;
// Ten times as many members would give more than a value can hold.
constexpr std::uint32_t kMostExchange = 10'000;
// Of 10,000 members 256 leave at once.
constexpr std::uint32_t kOfThose = 39;

class Report : private Watcher {
 public:
  explicit Report(std::uint32_t members) : members_(members), world_(1, *this) {
    world_.count_bytes = true;
    world_.bytes_per_ms = kFastNetwork;
    world_.reserve(members - 1);
  }

  void print() {
    begin();
    for (Id id = 0; id < members_; ++id) {
      world_.boot(id, options(id));
      enter(id, "first", Merge::max, std::int64_t{0});
    }
    end("first barrier", [&] { return released_ == members_; });
    barrier("a barrier", Merge::max, 0);
    world_.scale = kScale;
    broadcast();
    if (members_ <= kMostExchange) barrier("an exchange of 64 KiB each", Merge::set, kExchanged / kScale);
    world_.scale = 1;
    begin();
    world_.crash(1);
    Seq view = world_.hosts[0].node->applied() + 1;
    end("one lost member", [&] { return complete_ >= view; });
    leave();
  }

 private:
  [[nodiscard]] OverlayOptions options(Id id) const {
    OverlayOptions out;
    out.self = id;
    out.members = members_;
    out.piece = kPieceOfIt;
    return out;
  }
  void effect(Id id, const Effect& effect) override {
    if (std::holds_alternative<Released>(effect)) ++released_;
    if (const auto* entry = std::get_if<Deliver>(&effect)) delivered(id, entry->seq);
    if (std::holds_alternative<Leave>(effect))
      world_.at_host(id, world_.now, [](Node& node) { node.tasks_ended(); });
    if (const auto* all = std::get_if<Completed>(&effect)) complete_ = all->seq;
  }
  void stepped(Id /*id*/) override {}
  void delivered(Id id, Seq seq) {
    ++delivered_;
    if (id != 0) return;
    const Entry& entry = *world_.hosts[0].node->entry(seq);
    if (std::holds_alternative<View>(entry.body)) ++views_;
    if (const auto* campaign = std::get_if<Campaign>(&entry.body)) campaigns_.push_back(*campaign);
  }

  void enter(Id id, const char* name, Merge merge, Own part) {
    world_.at_host(id, world_.now, [name, merge, part = std::move(part)](Node& node) {
      require(node.enter(name, merge, part).has_value(), "a collective that can be entered");
    });
  }
  void barrier(const char* name, Merge merge, std::size_t size) {
    begin();
    released_ = 0;
    for (Id id = 0; id < members_; ++id) {
      Bytes part(size - std::min<std::size_t>(size, 1), 'x');                 // one byte goes before it
      if (size > 0) part.replace(0, 10, std::to_string(1'000'000'000 + id));  // no two alike
      enter(id, name, merge, merge == Merge::max ? Own(std::int64_t{0}) : Own(std::move(part)));
    }
    end(name, [&] { return released_ == members_; });
  }
  void broadcast() {
    begin();
    delivered_ = 0;
    world_.at_host(0, world_.now, [](Node& node) {
      for (std::size_t sent = 0; sent < kBroadcast; sent += kPiece) {
        require(node.request(Event{"data", Bytes(kPieceOfIt, 'x')}).has_value(), "an event that can be sent");
      }
    });
    end("a broadcast of 1 MiB", [&] { return delivered_ == members_ * (kBroadcast / kPiece); });
  }
  // One member in kOfThose leaves: first members all over the tree, also inner ones, then the last ones, as with
  // `nacre shrink --count`. Their tasks end at once.
  void leave() {
    Idset all_over;
    Idset last;
    for (Id id = members_ - 1; id > 1; id -= std::min(id, kOfThose)) all_over.insert(id);
    for (Id id = members_ - 1; last.size() < all_over.size(); --id) {
      if (!all_over.contains(id)) last.insert(id);
    }
    shrink("one member in 39 leaves", all_over);
    shrink("as many leave, the last ones", last);
  }
  // Runs until the leader answers that they have gone. Earlier actions are over by then, at all members.
  void shrink(const char* what, const Idset& leavers) {
    while (complete_ < world_.hosts[0].node->applied()) world_.run_until(world_.now + kMs);
    begin();
    views_ = 0;
    campaigns_.clear();
    world_.at_host(0, world_.now, [&leavers](Node& node) {
      require(node.request(Shrink{leavers}).has_value(), "a shrink that can be");
    });
    end(what, [&] { return !campaigns_.empty(); });
    require(views_ == 1 && campaigns_.size() == 1, "a shrink has one VIEW and one CAMPAIGN");
    require(campaigns_[0].done == leavers, "all that leave have gone when it is answered");
  }

  void begin() {
    began_ = world_.now;
    messages_ = world_.messages;
    bytes_ = world_.bytes;
  }
  template <typename F>
  void end(const char* what, F done) {
    constexpr Time kStep = kMs / 5;
    while (!done()) world_.run_until(world_.now + kStep);
    std::printf("| %s | %u | %llu | %.3f | %.1f |\n", what, members_,
                static_cast<unsigned long long>(world_.messages - messages_),
                static_cast<double>(world_.bytes - bytes_) / 1e6,
                static_cast<double>((world_.now - began_).count()) / 1e3);
    std::fflush(stdout);
  }

  std::uint32_t members_;
  World world_;
  std::uint64_t released_ = 0;
  std::uint64_t delivered_ = 0;
  int views_ = 0;
  std::vector<Campaign> campaigns_;
  Seq complete_ = 0;
  Time began_{};
  std::uint64_t messages_ = 0;
  std::uint64_t bytes_ = 0;
};

// A leader is lost whose job goes on without it. Rows as those of Report, from when the first other member knows
// that.
class LostLeader : private Watcher {
 public:
  LostLeader(std::uint32_t members, bool has_power) : members_(members), has_power_(has_power), world_(1, *this) {
    world_.count_bytes = true;
    world_.bytes_per_ms = kFastNetwork;
    world_.tells_refusals = true;
    world_.reserve(members - 1);
  }

  void print() {
    for (Id id = 0; id < members_; ++id) {
      OverlayOptions options;
      options.self = id;
      options.members = members_;
      options.hands_over = true;
      world_.boot(id, std::move(options));
      world_.at_host(id, world_.now, [](Node& node) {
        require(node.enter("first", Merge::max, std::int64_t{0}).has_value(), "a collective that can be entered");
      });
    }
    world_.run_until(kBetweenBeats);
    has_power_ ? world_.crash(0) : world_.darken(0);
    until([this] { return is_known_; });
    const Time known = world_.now;
    const std::uint64_t messages = world_.messages, bytes = world_.bytes;
    until([this] { return leads_; });
    std::printf(
        "| the leader %s, to the next one's first entry | %u | %llu | %.3f | %.1f |\n",
        has_power_ ? "ends" : "falls silent", members_, static_cast<unsigned long long>(world_.messages - messages),
        static_cast<double>(world_.bytes - bytes) / 1e6, static_cast<double>((world_.now - known).count()) / 1e3);
    std::fflush(stdout);
  }

 private:
  static constexpr Time kBetweenBeats = 7 * kSecond / 2;

  void effect(Id id, const Effect& effect) override {
    const auto* note = std::get_if<Note>(&effect);
    is_known_ = is_known_ || (note != nullptr && id != 0 && note->text.find("which leads") != std::string::npos);
  }
  void stepped(Id id) override { leads_ = leads_ || (id != 0 && world_.hosts[id].node->leads()); }
  template <typename F>
  void until(F done) {
    while (!done()) world_.run_until(world_.now + kMs / 5);
  }

  std::uint32_t members_;
  bool has_power_;
  World world_;
  bool is_known_ = false, leads_ = false;
};

}  // namespace

void print_report(const std::vector<std::uint32_t>& sizes) {
  std::printf(
      "Arity 16. Each host sends 10 Gbit/s, and each message takes 0.05 to 1.5 ms more; beats in between are "
      "counted.\n\n");
  std::printf("| what | members | messages | MB | virtual ms |\n|---|---|---|---|---|\n");
  for (std::uint32_t members : sizes) {
    Report(members).print();
    for (bool has_power : {true, false}) LostLeader(members, has_power).print();
  }
}

}  // namespace nacre::sim
