// SPDX-License-Identifier: Apache-2.0
//
// Those who are told how the tasks of a simulated job end, by the leader's exits::Notifier: they stop reading,
// vanish, and come back with what they had, or with nothing. Output comes out late, or never.
#pragma once

#include <vector>

#include "exits/notifier.hpp"
#include "random.hpp"
#include "world.hpp"

namespace nacre::sim {

class JobClients {
 public:
  JobClients(std::uint64_t seed, std::uint64_t tasks, const exits::Policy& policy);

  void record(Time now, const Idset& ranks, const exits::Record& record);
  void lost(Time now, const Idset& ranks, const exits::Record& record);
  void end(Time now, int code);

  // Each, once it has read on, has the map of the job: `all`, in which what has no record never started.
  void check(const exits::Outcomes& all, const Idset& tasks);

 private:
  struct Client {
    exits::NoticeMap map;
    exits::NoticeMap older;  // what it had some time before
    bool reads = true;
  };

  void go_on(Time now);
  void disturb(Client& client);
  void read(Client& client) const;

  Random random_;
  exits::Notifier notifier_;
  std::vector<Client> clients_;
};

}  // namespace nacre::sim
