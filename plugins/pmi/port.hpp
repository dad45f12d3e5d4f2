// SPDX-License-Identifier: Apache-2.0
//
// The option pmi.port: a port of the node's loopback for processes that lose descriptors on their way, as in a
// container. MPICH's clients take PMI_FD first, even if it is not open, so such a process has PMI_PORT and PMI_ID
// instead.
//
// A client has to belong to this shell's user, by the kernel's table of connections, and to give the PMI_ID of a
// process that has not connected yet. That is a random number of 31 bits, as MPICH reads it by atoi(3). Others are
// refused.
//
// PMI-1 begins with "cmd=initack pmiid=N". PMI-2 begins with a plain init, and N is in its fullinit: MPICH's
// clients give it as pmirank, Slurm's as srcid.
#pragma once

#include "event/loop.hpp"
#include "plugins/loopback_port.hpp"
#include "pmi/message.hpp"

namespace nacre::plugins {

class PmiPort : Noncopyable {
 public:
  // The process has connected, and has sent `said` for the server. `is_greeted`: the first answer, a line, was sent
  // already.
  using Admit = std::function<void(UniqueFd connection, bool is_greeted, std::string said)>;
  using Refused = std::function<void(const std::string& line)>;  // for the log

  // `pmi2`: PMI-2 is offered.
  static Result<std::unique_ptr<PmiPort>> open(event::Loop& loop, bool pmi2, Refused refused);

  [[nodiscard]] std::string address() const { return port_->address(); }  // 127.0.0.1:PORT
  // The PMI_ID of one process; `admit` is called once.
  Result<std::int32_t> expect(std::uint32_t rank, std::uint32_t size, Admit admit);
  void forget(std::int32_t id) { expected_.erase(id); }
  void look();  // takes what has come, without waiting

 private:
  struct Expected {
    std::uint32_t rank;
    std::uint32_t size;
    Admit admit;
  };
  struct Guest {  // it has connected, but not introduced itself yet
    UniqueFd fd;
    double since;
    pmi::Framer framer;
    std::string greeting;  // PMI-2: its first line
    std::optional<event::Poll> poll;
  };
  using Place = std::list<Guest>::iterator;

  PmiPort(event::Loop& loop, bool pmi2, Refused refused) : loop_(loop), pmi2_(pmi2), refused_(std::move(refused)) {}
  Result<void> listen();
  void take_in(UniqueFd fd);
  void read(Place guest);
  Result<bool> understand(Guest& guest);
  Result<bool> greet(Guest& guest, const pmi::PmiMessage& message);
  Result<bool> admit(Guest& guest, std::int64_t id, std::string said);
  void check_times();

  event::Loop& loop_;
  bool pmi2_;
  Refused refused_;
  std::unique_ptr<LoopbackPort> port_;
  std::optional<event::Timer> timer_;  // while there are guests
  std::map<std::int32_t, Expected> expected_;
  std::list<Guest> guests_;
};

}  // namespace nacre::plugins
