// SPDX-License-Identifier: Apache-2.0
//
// Bulk data over the links of a World: each host has a group::BulkDriver, whose streams have the credit, the order
// and the times of a link. What is on its way when a link ends is lost. No cuts.
#pragma once

#include "cpu_time.hpp"
#include "group/bulk_driver.hpp"
#include "world.hpp"

namespace nacre::sim {

class BulkWorld {
 public:
  // All hosts exist already.
  explicit BulkWorld(World& world);
  BulkWorld(const BulkWorld&) = delete;
  BulkWorld& operator=(const BulkWorld&) = delete;
  ~BulkWorld();

  void stepped(Id id);  // of Watcher: which links its node has, and which node feeds it
  [[nodiscard]] bulk::Port& port(Id id);

  struct Counts {
    std::uint64_t writes = 0, grants = 0;  // how many messages of data and notes; how many of credit
    std::uint64_t bytes = 0;
    std::uint64_t to_leader = 0;  // bytes
  };
  Counts counts;
  CpuTime leader_cpu;  // of the leader's driver and the owners of its channels

 private:
  using Stream = std::pair<LinkName, bulk::StreamId>;
  struct Flow {
    std::size_t credit = 0;
    Time last{};  // when the last message arrives
  };
  struct Member final : public group::BulkStreams {
    Member(BulkWorld& bulk_world, Id id);
    std::size_t write(LinkName to, bulk::StreamId stream, std::string_view bytes) override;
    Result<void> grant(LinkName to, bulk::StreamId stream, std::size_t bytes) override;

    BulkWorld& all;
    Id self;
    std::map<LinkName, std::uint32_t> links;  // with the connection's number
    std::set<std::uint32_t> fed;              // the connections of `links`
    std::map<Stream, Flow> flows;
    std::uint64_t waits = 0;  // how often answers have begun to wait
    group::BulkDriver driver;
  };

  // Arrives at the peer, unless the link has ended there.
  template <typename Act>
  void send(Member& from, LinkName to, Time& last, std::size_t bytes, Act act);

  World& world_;
  std::vector<std::unique_ptr<Member>> members_;
};

}  // namespace nacre::sim
