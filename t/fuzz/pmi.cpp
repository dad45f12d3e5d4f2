// SPDX-License-Identifier: Apache-2.0
//
// Whatever the clients of a PMI server say, in whatever pieces, and however they go: no barrier ends while one that
// is expected does not wait, who is dropped is told nothing more, what is told is whole messages, no more than were
// asked for, and pieces make no difference.
//
// The input is a byte of options, then records with '~' between them. The first byte of each says what happens:
// 0-3 a client says the rest, p-s as a line, w-z as a message of PMI-2; A-D it closes; E-H its process ends; ! the
// barrier is over; + those of groups are; * the oldest spawn is answered. Other bytes: a client says the rest.
#include "pmi/server.hpp"

#include "base/text.hpp"
#include "require.hpp"

using namespace nacre;
using namespace nacre::pmi;
using nacre::fuzz::require;

namespace {

constexpr std::uint32_t kClients = 4;
constexpr std::size_t kLeastRequest = 6;                          // bytes
constexpr std::size_t kMostAnswer = kMaxValue + kMaxSpawned * 3;  // of codes of one digit, and some words
constexpr std::size_t kMostSplit = 4096;                          // bytes of an input that is fed byte by byte too

constexpr std::uint64_t kMostKeys = 2000;  // bytes

ClientGroup group_of(unsigned char options, Quota& quota) {
  ClientGroup group;
  group.kvsname = "k";
  group.size = kClients;
  for (std::uint32_t rank = 0; rank < kClients; ++rank) group.ranks.push_back(rank);
  group.quota = &quota;
  group.pmi1 = (options & 3) != 1;
  group.pmi2 = (options & 3) != 2;
  if ((options & 8) != 0) group.takes_groups = [](std::uint32_t) { return true; };
  return group;
}

class Session {
 public:
  Session(unsigned char options, bool in_bytes)
      : in_bytes_(in_bytes), fails_((options & 4) != 0), server_(group_of(options, quota_), names_) {
    server_.set_attribute("map", "(vector,(0,1,4))");
  }

  void step(std::string_view record) {
    char what = record.empty() ? '!' : record[0];
    std::string_view rest = record.substr(record.empty() ? 0 : 1);
    auto client = static_cast<std::uint32_t>(what & 3);
    if (what == '!') {
      end_fence();
    } else if (what == '+') {
      end_groups();
    } else if (what == '*') {
      end_spawn();
    } else if (what >= 'A' && what <= 'D') {
      end_connection(static_cast<std::uint32_t>(what - 'A'), false);
    } else if (what >= 'E' && what <= 'H') {
      end_connection(static_cast<std::uint32_t>(what - 'E'), true);
    } else if (what >= 'p' && what <= 's') {
      say(static_cast<std::uint32_t>(what - 'p'), fmt::format("{}\n", rest));
    } else if (what >= 'w' && what <= 'z') {
      say(static_cast<std::uint32_t>(what - 'w'), fmt::format("{:<6}{}", rest.size(), rest));
    } else {
      say(client, rest);
    }
  }

  // All barriers that can end, end; then all go.
  void finish() {
    while (fencing_) end_fence();
    while (!groups_.empty()) end_groups();
    while (!spawns_.empty()) end_spawn();
    for (std::uint32_t client = 0; client < kClients; ++client) end_connection(client, true);
    end_fence();
  }

  [[nodiscard]] const std::string& told(std::uint32_t client) const { return seen_[client].told; }

 private:
  struct Seen {
    std::size_t asked = 0;    // bytes
    std::size_t answers = 0;  // messages
    std::string told;
    bool over = false;
    bool spawns = false;
    ClientStage stage = ClientStage::silent;
  };

  void say(std::uint32_t client, std::string_view bytes) {
    seen_[client].asked += bytes.size();
    std::size_t piece = in_bytes_ ? 1 : bytes.size();
    for (std::size_t at = 0; at < bytes.size(); at += piece) server_.receive(client, bytes.substr(at, piece));
    check();
  }
  void end_connection(std::uint32_t client, bool process) {
    process ? server_.ended(client) : server_.closed(client);
    check();
    seen_[client].over = true;
  }
  void end_fence() {
    if (!fencing_) return;
    fencing_ = false;
    if (fails_) {
      server_.fenced(invalid("no; not\tso"));
    } else {
      server_.fenced(Entries{{"other", "1"}});
    }
    check();
  }
  void end_groups() {
    for (const std::string& name : std::exchange(groups_, {})) {
      server_.group_fenced(name, fails_ ? Result<Entries>(invalid("no")) : Entries{{"other", "1"}});
    }
    check();
  }
  void end_spawn() {
    if (spawns_.empty()) return;
    auto [client, processes] = spawns_.front();
    spawns_.erase(spawns_.begin());
    seen_[client].spawns = false;
    if (fails_) {
      server_.spawned(client, invalid("no; not so"), {});
    } else {
      server_.spawned(client, std::string("k;2"), std::vector<int>(processes, 7));
    }
    check();
  }

  void check() {
    for (const Event& event : server_.take_events()) take(event);
    check_output();
    check_clients();
    require(quota_.used <= kMostKeys + 2 * Kvs::kEntryCost, "no more keys than may be");  // a fence's only
    for (std::uint32_t client : dropped_now_) seen_[client].over = true;
    dropped_now_.clear();
  }

  void take(const Event& event) {
    if (std::holds_alternative<Fence>(event)) {
      require(!fencing_, "one fence at a time");
      fencing_ = true;
      require(all_wait(), "a barrier ends when all that are expected wait");
    } else if (const auto* dropped = std::get_if<Dropped>(&event)) {
      require(!seen_.at(dropped->client).over, "dropped once, and not after it has gone");
      require(!dropped->why.empty() && dropped->why.find('\n') == std::string::npos, "why, in one line");
      dropped_now_.push_back(dropped->client);
    } else if (const auto* abort = std::get_if<Abort>(&event)) {
      require(!seen_.at(abort->client).over, "who has gone does not abort");
    } else if (const auto* full = std::get_if<Full>(&event)) {
      require(full->bytes > full->limit && !std::exchange(full_, true), "full once, and not before");
    } else if (const auto* part = std::get_if<GroupFence>(&event)) {
      require(!part->clients.empty(), "a group has a client here");
      groups_.push_back(part->group.name());
    } else {
      const auto& [client, spawn] = std::get<SpawnRequest>(event);
      require(!seen_.at(client).over && !std::exchange(seen_[client].spawns, true), "one spawn at a time");
      require(!spawn.programs.empty() && spawn.processes() <= kMaxSpawned, "a spawn within the limits");
      for (const SpawnProgram& each : spawn.programs) require(!each.argv.at(0).empty(), "a program has a name");
      spawns_.emplace_back(client, spawn.processes());
    }
  }

  void check_output() {
    server_.take_pending(pending_);
    require(std::set(pending_.begin(), pending_.end()).size() == pending_.size(), "each is named once");
    for (std::uint32_t client = 0; client < kClients; ++client) {
      bool is_named = std::find(pending_.begin(), pending_.end(), client) != pending_.end();
      std::string said = std::exchange(server_.output(client), {});
      require(is_named == !said.empty(), "who is told something is named");
      Seen& seen = seen_[client];
      require(said.empty() || !seen.over, "who has gone or was dropped is told nothing");
      seen.told += said;
      for (std::string_view rest = said; !rest.empty(); ++seen.answers) rest.remove_prefix(answer_size(rest));
      require(seen.answers <= seen.asked / kLeastRequest, "no more answers than requests");
    }
  }

  // The size of the first answer, of either protocol.
  static std::size_t answer_size(std::string_view bytes) {
    std::string_view text;
    std::size_t size = 0;
    if (bytes.starts_with("cmd=")) {
      size = bytes.find('\n') + 1;
      require(size > 0, "a whole line");
      text = bytes.substr(0, size - 1);
      require(PmiMessage::parse_line(text).has_value(), "a line that can be read");
    } else {
      auto length = parse_u64(trim(bytes.substr(0, kLengthSize)));
      require(length && kLengthSize + *length <= bytes.size(), "an answer of PMI-2 after its length");
      text = bytes.substr(kLengthSize, *length);
      size = kLengthSize + *length;
      auto answer = PmiMessage::parse_body(text);
      require(answer && answer->command().ends_with("-response") && answer->find("rc"), "an answer of PMI-2");
    }
    require(text.size() <= kMostAnswer, "an answer that is not long");
    return size;
  }

  [[nodiscard]] bool all_wait() const {
    return std::all_of(server_.clients().begin(), server_.clients().end(), [](const ClientProgress& each) {
      return each.waits || each.stage == ClientStage::finalized || each.stage == ClientStage::left;
    });
  }

  void check_clients() {
    bool someone_waits = false;
    bool someone_joined = false;
    for (std::uint32_t client = 0; client < kClients; ++client) {
      const ClientProgress& each = server_.clients()[client];
      require(!each.waits || each.stage == ClientStage::joined, "only who has joined waits");
      require(each.stage >= seen_[client].stage, "no way back");
      require(seen_[client].stage != ClientStage::finalized || each.stage == ClientStage::finalized,
              "finalized for ever");
      require(each.has_joined || each.stage != ClientStage::finalized, "joined before finalized");
      seen_[client].stage = each.stage;
      someone_waits = someone_waits || each.waits;
      someone_joined = someone_joined || each.has_joined;
    }
    require(server_.in_use() == someone_joined, "in use from the first init");
    require(fencing_ || !someone_waits || !all_wait(), "a barrier that all wait in is under way");
  }

  bool in_bytes_;
  bool fails_;
  Names names_;
  Quota quota_{kMostKeys};
  bool full_ = false;
  Server server_;
  bool fencing_ = false;
  std::array<Seen, kClients> seen_;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> spawns_;  // client and processes
  std::vector<std::string> groups_;                              // whose barriers are fenced
  std::vector<std::uint32_t> pending_;
  std::vector<std::uint32_t> dropped_now_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  if (size == 0) return 0;
  std::string_view input(reinterpret_cast<const char*>(data) + 1, size - 1);
  Session whole(data[0], false);
  Session in_bytes(data[0], true);
  bool both = size <= kMostSplit;
  for (std::string_view record : split(input, '~')) {
    whole.step(record);
    if (both) in_bytes.step(record);
  }
  whole.finish();
  if (!both) return 0;
  in_bytes.finish();
  for (std::uint32_t client = 0; client < kClients; ++client) {
    require(whole.told(client) == in_bytes.told(client), "pieces make no difference");
  }
  return 0;
}
