// SPDX-License-Identifier: Apache-2.0
#include "job_clients.hpp"

#include <fmt/format.h>

namespace nacre::sim {
namespace {

double seconds(Time time) { return static_cast<double>(time.count()) / 1e6; }

std::uint64_t threshold(Random& random, std::uint64_t tasks) { return random.one_in(4) ? random.in(1, tasks) : 1; }

}  // namespace

JobClients::JobClients(std::uint64_t seed, std::uint64_t tasks, const exits::Policy& policy)
    : random_(seed ^ 0xc11eULL),
      notifier_({tasks, policy, threshold(random_, tasks)}),
      clients_(random_.in(1, 3)) {}

void JobClients::record(Time now, const Idset& ranks, const exits::Record& record) {
  notifier_.record(seconds(now), ranks, record);
  go_on(now);
}

void JobClients::lost(Time now, const Idset& ranks, const exits::Record& record) {
  notifier_.lost(seconds(now), ranks);
  this->record(now, ranks, record);
}

void JobClients::end(Time now, int code) {
  go_on(now);
  if (!notifier_.ended()) notifier_.end(seconds(now), code);
}

void JobClients::go_on(Time now) {
  if (random_.one_in(3)) notifier_.drained(seconds(now), notifier_.waiting());
  if (auto due = notifier_.due(); due && *due <= seconds(now)) notifier_.tick(seconds(now));
  for (Client& each : clients_) {
    if (random_.one_in(4)) disturb(each);
    if (each.reads) read(each);
    require((each.map.ranks() & notifier_.waiting()).empty(),
            "a client is told of a task whose output is still to come");
  }
}

void JobClients::disturb(Client& client) {
  switch (random_.in(0, 3)) {
    case 0: client.reads = !client.reads; break;
    case 1: client.older = client.map; break;
    case 2: client.map = client.older; break;
    default: client.map = {};
  }
}

void JobClients::read(Client& client) const {
  while (auto message = notifier_.next(client.map.seq())) {
    for (const std::string& line : message->lines) {
      auto notice = exits::Notice::decode(line);
      require(notice.has_value(), "a notice can be read");
      auto taken = client.map.take(*notice);
      require(taken.has_value(), taken ? "" : taken.error().message);
    }
    require(client.map.seq() == message->seq, "a message brings a client to its number");
  }
}

void JobClients::check(const exits::Outcomes& all, const Idset& tasks) {
  exits::Notice::Classes truth;
  for (const auto& [record, ranks] : all.classes()) truth[record.str()] = ranks;
  if (Idset rest = tasks - all.ranks(); !rest.empty()) truth["c"] = truth["c"] | rest;
  for (Client& each : clients_) {
    read(each);
    require(each.map.ended(), "a client has not been told that the job has ended");
    require(each.map.records() == truth, "what a client knows is not the map of the job");
  }
}

}  // namespace nacre::sim
