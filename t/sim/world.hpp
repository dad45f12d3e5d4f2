// SPDX-License-Identifier: Apache-2.0
//
// Nodes on virtual time: each host runs one overlay::Node, links between them are streams that keep their order,
// and the order between links is up to the seed. Processes crash, hosts lose power, freeze and thaw, links break or
// carry nothing for a while. Messages are never made up, doubled or changed.
#pragma once

#include <queue>

#include "broken.hpp"
#include "host.hpp"
#include "pool.hpp"
#include "random.hpp"

namespace nacre::sim {

constexpr std::uint64_t kFastNetwork = 1'250'000;  // World::bytes_per_ms of 10 Gbit/s

// What a simulation is about: it is told of each effect that is not about links, and after each call of a node. It
// must not call a node at once, but schedule the call.
class Watcher {
 public:
  virtual ~Watcher() = default;
  virtual void effect(Id host, const Effect& effect) = 0;
  virtual void stepped(Id host) = 0;
  virtual void calls(Id /*host*/, bool /*begins*/) {}  // before and after each call, with its effects
};

class World {
 public:
  World(std::uint64_t seed, Watcher& watcher) : random(seed), watcher_(watcher) {}

  void reserve(Id id);  // hosts up to this one exist, unborn
  void boot(Id id, OverlayOptions options);
  void crash(Id id);   // the process; its links end
  void darken(Id id);  // the host: its links go silent
  void freeze(Id id);
  void thaw(Id id);
  void set_in_handler(Id id, bool runs);
  void send_busy_beats(Id id);
  void reset_link(Id a, Id b);
  // Nothing passes between the two groups until `until`. Streams go on afterwards.
  void cut(std::vector<bool> one_side, Time until);
  void cut_pair(Id a, Id b, Time until);

  // Calls `what` at a time, or now plus a delay. With a host: only if it lives, and when it is not frozen.
  void at(Time when, std::function<void()> what);
  void at_host(Id id, Time when, std::function<void(Node&)> what);
  // As at_host(), for acts of its process, even if its node has ended.
  void at_process(Id id, Time when, std::function<void()> what);
  // Calls `what` at once, if the host lives; not from a Watcher.
  void on(Id id, const std::function<void(Node&)>& what);
  void inject(Id to, LinkName from, const Message& message);  // as if it came over this link

  // Runs until the time; false: nothing is left to do.
  bool run_until(Time end);

  [[nodiscard]] bool lives(Id id) const { return hosts[id].life == Life::up && !hosts[id].over; }

  Time now{};
  Random random;
  std::vector<Host> hosts;
  bool trace = false, count_bytes = false;
  bool over_the_wire = false;      // every message is encoded and decoded
  bool tells_refusals = false;     // a node learns that the leader's host takes no connections
  bool ends_late = false;          // processes of leaving members end later than their nodes
  std::uint64_t bytes_per_ms = 0;  // how much a host can send; 0: any. Beats overtake waiting messages
  std::uint64_t scale = 1;         // how many bytes each byte of data in a message stands for
  std::uint64_t messages = 0, bytes = 0, beats = 0;  // messages: beats too
  bool decodes = false;                      // each message is encoded by its sender, and decoded by its receiver
  std::uint64_t most_messages = UINT64_MAX;  // more is a storm, and breaks the run
  Time latency_least{50}, latency_most{1500};
  void say(const std::string& line) const;

 private:
  struct Conn {
    Id dialler = 0, dialled = 0;
    bool gone[2] = {false, false};         // 0: the dialler has let go of the link, 1: the dialled member has
    bool half_closed[2] = {false, false};  // nothing more is sent to this side
    bool greeted[2] = {false, false};      // HELLO, or its answer, has come to this side
    Time last[2] = {};                     // arrivals, to each side
    Time lost_after[2] = {Outbox::kNever, Outbox::kNever};
    Time unsent_after[2] = {Outbox::kNever, Outbox::kNever};  // later messages were never sent
  };
  enum class What : std::uint8_t { call, tick, dial, dialled, refused, message, end };
  struct Happening {
    Time at;
    std::uint64_t order;
    What what;
    std::uint8_t side;  // the side of the connection that is told
    Id host;
    std::uint32_t index;  // of a connection
    std::uint32_t load;   // of a message or a call
    bool operator>(const Happening& other) const { return at != other.at ? at > other.at : order > other.order; }
  };
  struct Cut {
    std::vector<bool> side;
    Id a, b;  // with an empty side
    Time until;
  };

  void push(Happening each);
  void happen(const Happening& each);
  void call(Id id, const std::function<void(Node&)>& what);
  void perform(Id id);
  void perform(Id id, Effect& effect);
  void send(Id id, LinkName to, Message message);
  void dial(Id id, Id peer);
  void arrive(std::uint32_t conn, std::uint8_t side, const Message& message);
  void ended(std::uint32_t conn, std::uint8_t side);
  void refused(std::uint32_t conn);
  void let_go(Id id, LinkName link, bool tell);
  void leave(Id id);
  void end_process(Id id);
  void transmit(std::uint32_t conn, std::uint8_t to_side, What what, std::uint32_t load);
  void transmit_beat(std::uint32_t conn, std::uint8_t to_side, std::uint32_t load);
  [[nodiscard]] Time latency();
  std::size_t size_of(const Message& message);
  void silence(Id id);
  [[nodiscard]] Time blocked_until(Id a, Id b) const;
  [[nodiscard]] std::uint32_t* find(Id id, LinkName link);

  Watcher& watcher_;
  std::vector<Conn> conns_;
  std::vector<Cut> cuts_;
  Pool<Message> loads_;
  Pool<std::function<void()>> calls_;
  std::priority_queue<Happening, std::vector<Happening>, std::greater<>> queue_;
  std::uint64_t order_ = 0;
};

}  // namespace nacre::sim
