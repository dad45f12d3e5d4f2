// SPDX-License-Identifier: Apache-2.0
//
// Requests between the shells of a job, and their responses. A request whose topic begins with the job's service
// goes to the shell that its nodeid names. A shell that has not run shell.init keeps requests that no handler
// takes.
//
// A message is: the kind (1 byte: 'q' a request, 's' a response), matchtag, flags, errnum (4 each, the highest byte
// first), the topic and a NUL, and the payload.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "flux/message.hpp"
#include "plugin/host.hpp"

namespace nacre::flux {

class Runtime;

class RemoteCalls {
 public:
  explicit RemoteCalls(Runtime& runtime) : runtime_(runtime) {}

  void begin();  // messages of other shells are received from now on
  // The rank, even if there is no such shell, of the other one that this request is for; none: it is for this one.
  [[nodiscard]] std::optional<std::uint32_t> target_of(const flux_msg& request) const;
  // Errors as of ShellMessages::send, but EHOSTUNREACH for no such shell. Of a response that is too large the other
  // shell gets the error.
  Result<void> send(std::uint32_t to, const flux_msg& msg);

 private:
  void receive(plugin::ShellMessages::Message& message);

  Runtime& runtime_;
  std::string service_;  // and a dot
  plugin::Registration messages_;
  plugin::Registration unreachable_;
};

}  // namespace nacre::flux
