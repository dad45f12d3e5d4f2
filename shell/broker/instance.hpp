// SPDX-License-Identifier: Apache-2.0
//
// The Flux instance whose job shell this process is: what it has told before the shells of the job were linked.
#pragma once

#include "broker/broker.hpp"
#include "broker/kvs.hpp"

namespace nacre::broker {

struct Instance {
  std::unique_ptr<Broker> broker;
  std::string kvs_namespace;  // the job's: others read its keys below `guest`
  std::string service;        // "UID-shell-JOBID": requests to it come to this shell
  std::uint32_t rank = 0;     // this broker's
  std::uint32_t leader = 0;   // the rank of shell 0's broker
  std::uint32_t owner = 0;    // its user id
  std::string path;           // of the instance's own job id: "/", "/ƒABC"
  std::string run_directory;  // the broker's own; empty: it does not say
  std::string initrc;         // a file, for the shells of its jobs; empty: it does not say
  std::string plugin_path;    // where they look for plugins, joined by colons; empty: it does not say
  std::string jobspec;        // only shell 0 uses it
  std::string resources;      // R
  UniqueFd input;             // shell 0's: the other end of the pipe that is its standard input
  // For an instance before 0.88, whose barriers are lines there: "enter" from a shell, "exit=0" to it.
  UniqueFd barrier_in, barrier_out;
  Broker::Asked resource_updates;  // the stream of R
  std::unique_ptr<EventlogWriter> eventlogs;

  using Receive = std::function<void(const BrokerMessage&)>;
  // Requests to the service by the first word of the method, such as "terminus" of SERVICE.terminus.list, before
  // anybody has checked what the sender may do.
  std::map<std::string, Receive, std::less<>> methods;
  // Other requests to the service that the plugin `instance` does not handle (if this is unset they fail), and all
  // events.
  Receive on_other_request, on_other_event;
};

}  // namespace nacre::broker
