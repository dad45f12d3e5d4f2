// SPDX-License-Identifier: Apache-2.0
//
// Shells of a job with bulk data, all from one seed: trees that change, links that break and come back, shells that
// die with all they hold, newcomers, slow owners, tiny windows. Bytes travel in pieces, and what happens next is up
// to the seed. After each call bounds and credit are checked, and what an owner is told; at the end, that all has
// come.
#pragma once

#include <random>

#include "bulk/node.hpp"

namespace nacre::bulk {

struct Broken {
  std::string what;
};

inline constexpr Channel kChannels = 3;  // of data; the last records of each origin end them

inline Channel channel_of(Numbered number) { return static_cast<Channel>(number % kChannels); }

// The content of a record: it follows from the origin and the number, so that any mistake shows. 1 to `most` bytes.
std::string content_of(Id origin, Numbered number, std::size_t most);
inline constexpr Id kBroadcaster = 1'000'000;  // as an origin of contents

inline bool is_end(Numbered number, Numbered planned) { return number + kChannels > planned; }

class World {
 public:
  explicit World(std::uint64_t seed);
  void run();  // throws Broken

 private:
  // One direction of a stream.
  struct Flow {
    std::string waiting;  // bytes of a Write that are not yet taken
    bool busy = false;    // a Write has not been taken whole
    std::size_t credit = 0;
    std::string wire;  // bytes that are taken, and have not arrived
  };
  struct Conn {
    Id ends[2];  // 0: the child, 1: the parent
    bool open[2] = {true, false};
    bool accepted = false;    // the parent knows of it
    Flow flows[2][2];         // to the parent, to the child; notes, records
    std::size_t untaken = 0;  // leader: delivered bytes of this shell that the owner has not taken
  };
  struct View {
    std::map<Id, Id> parents;  // of all members but the leader
  };
  struct Pending {  // at the leader: delivered
    Id origin;
    Numbered number;
    std::size_t conn;
    std::size_t bytes;
  };
  struct Member {
    std::unique_ptr<BulkNode> node;  // none: it has died
    std::size_t view = 0;
    bool newcomer = false;
    bool leaves = false;  // lives on, but is in no later view
    // What the shell puts.
    Numbered planned = 0;
    Numbered put = 0;
    bool full = false;
    bool drained = true;
    bool waits = false;  // waits for answers of other shells
    // What the shell has been told of the broadcast.
    Numbered announced = 0;
    std::set<Channel> ended;
    Numbered heard = 0;
  };

  std::uint64_t any(std::uint64_t least, std::uint64_t most);
  bool chance(unsigned percent) { return any(1, 100) <= percent; }

  void boot(Id id, bool newcomer);
  View repaired(const View& before);
  void new_view();
  void tell_view(Id id);

  bool round(bool all);
  bool step_conn(std::size_t index);
  bool push(Conn& conn, int way, int stream);
  bool arrive(std::size_t index, int way, int stream);
  bool notice(std::size_t index, int side);
  bool accept(std::size_t index);
  bool step_member(Id id);
  bool connect(Id id);
  bool put(Id id);
  bool take();
  bool broadcast();
  bool hear(Id id);
  void fault();
  void kill(Id id);
  void cut(std::size_t index);
  void shut(std::size_t index, int side);

  void perform(Id id);
  void perform(Id id, const Write& write);
  void perform(Id id, const Grant& grant);
  void perform(Id id, const DeliverRecord& deliver);
  void perform(Id id, const Announce& announce);
  void check_bounds(Id id);
  void check_end();
  std::size_t find(Id id, LinkName link) const;  // kNone
  static void require(bool holds, const std::string& what);

  static constexpr std::size_t kNone = SIZE_MAX;
  std::mt19937_64 random_;
  Limits limits_;
  std::set<Channel> answers_;
  unsigned slow_leader_ = 0;  // how often an owner takes something, in percent
  unsigned slow_owners_ = 0;
  unsigned slow_writers_ = 0;
  int faults_ = 0;  // faults that may still happen
  std::map<Id, Member> members_;
  std::map<std::size_t, Conn> conns_;  // that an end has open
  std::size_t next_conn_ = 0;
  std::vector<View> views_;
  bool stale_view_ = false;  // a shell in the view has died
  std::map<Id, Numbered> delivered_;
  std::deque<Pending> pending_;
  std::size_t receiving_ = kNone;  // the connection whose bytes a node is given
  Numbered broadcasts_ = 0;        // planned
  Numbered broadcast_ = 0;         // done
  bool broadcast_full_ = false;
};

}  // namespace nacre::bulk
