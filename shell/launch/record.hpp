// SPDX-License-Identifier: Apache-2.0
//
// What a shell is told that another shell, or `nacre launch`, has started: one line of JSON, on its standard input, behind the
// line of the secret (transport/secret.hpp). nacre-boot(7) describes it for people.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "group/directory.hpp"
#include "launch/carriage.hpp"
#include "transport/secret.hpp"
#include "value/hostlist.hpp"
#include "value/jobid.hpp"

namespace nacre::launch {

struct LaunchRecord {
  static constexpr std::size_t kMaxLine = std::size_t{256} << 20;  // bytes, with its newline
  static constexpr std::size_t kMaxWord = std::size_t{128} << 10;  // bytes of an argument, a kernel's limit
  static constexpr std::size_t kMaxWords = 4096;                   // of a command line; of the options
  static constexpr std::uint32_t kMaxArity = 1024;
  static constexpr double kMaxTimeout = 86400;  // seconds

  std::string version;  // of the program that wrote it, for messages
  std::uint32_t protocol = 0;
  value::JobId job;
  std::optional<group::Rank> rank;  // none: the manager tells, as the same line goes to all shells
  std::uint32_t size = 1;
  std::uint32_t arity = 2;
  value::Hostlist hosts;                         // in the order of ranks; may be empty where there is no rank
  std::vector<std::string> agent;                // what starts a shell on another host; empty: no other host, fork
  std::vector<std::string> shell;                // path and options of nacre-shell, without --boot
  double timeout = 30;                           // seconds that a shell may take to join
  std::map<group::Rank, std::string> addresses;  // of the ancestors, joined by blanks
  bool makes_resources = true;                   // of what the shells offer, as the leader is given none
  // Of the leader.
  std::optional<std::string> jobspec;    // the text of the file
  std::optional<std::string> resources;  // the same
  std::vector<std::string> options;      // as those of -o
  bool input = false;                    // the launcher's stream has standard input
  bool remote = false;                   // an agent has started it: the launcher does not see its process
  std::optional<Carriage> carriage;      // what the launcher wants beside the output
  bool terminal = false;                 // the launcher's standard error, which this shell's ends at, is one

  // The line, with its newline. Errors say where: `the launch record: rank: expected ...`. A record of another protocol is
  // read no further: the error names both versions.
  [[nodiscard]] std::string line() const;
  static Result<LaunchRecord> parse(std::string_view line);

  // The ranks of the shells that this one starts. `rank` has to be set, for the next too.
  [[nodiscard]] std::vector<group::Rank> children() const;
  // What one of them is told; `address` is this shell's.
  [[nodiscard]] LaunchRecord of_child(group::Rank child, const std::string& address) const;
};

// What comes on standard input before the launcher's stream.
struct LaunchInput {
  transport::Secret secret;
  std::optional<LaunchRecord> record;  // none: the input has ended behind the secret
  std::string behind;                  // what was read and stands behind the record
};

// Takes both lines, and waits for `timeout` seconds.
Result<LaunchInput> read_launch_input(int fd, double timeout);

// Both lines.
[[nodiscard]] std::string launch_lines(const transport::Secret& secret, const LaunchRecord& record);

// Puts what was standard input elsewhere, and /dev/null in its place, so that no task reads what is for this shell.
Result<UniqueFd> take_input(int fd);

}  // namespace nacre::launch
