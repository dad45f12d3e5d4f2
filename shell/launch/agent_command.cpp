// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <algorithm>
#include <string_view>

#include <fmt/format.h>

#include "base/text.hpp"
#include "launch/launcher.hpp"
#include "launch/own_sockets.hpp"

namespace nacre::launch {
namespace {

// Quotes it for any shell of the Bourne family.
std::string quoted_for_shell(const std::string& word) {
  bool plain = !word.empty() && std::all_of(word.begin(), word.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 ||
           std::string_view("_@%+=:,./-").find(static_cast<char>(c)) != std::string_view::npos;
  });
  if (plain) return word;
  std::string out = "'";
  for (char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

std::string_view short_name(std::string_view name) { return name.substr(0, name.find('.')); }

}  // namespace

// If a host becomes silent its ssh ends after 30 s, for as long as shells wait for their leader.
std::vector<std::string> ssh_agent() {
  return {"ssh",
          "-x",
          "-T",
          "-oBatchMode=yes",
          "-oConnectTimeout=10",
          "-oServerAliveInterval=10",
          "-oServerAliveCountMax=3"};
}

bool is_this_host(const std::string& host) {
  std::string own = own_host_name();
  return host == "localhost" ||
         (!own.empty() && (host == own || short_name(host) == own || host == short_name(own)));
}

Result<task::Command> agent_command(const std::vector<std::string>& agent, const std::string& host,
                                    const std::vector<std::string>& words) {
  task::Command command;
  command.env = job::Environment::own();
  if (agent.empty() || is_this_host(host)) {
    command.argv = words;
    return command;
  }
  if (host.empty() || host.front() == '-') return invalid(fmt::format("{} is no name of a host", in_quotes(host)));
  command.argv = agent;
  command.argv.push_back(host);
  for (const std::string& word : words) command.argv.push_back(quoted_for_shell(word));
  return command;
}

}  // namespace nacre::launch
