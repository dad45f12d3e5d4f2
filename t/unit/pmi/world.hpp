// SPDX-License-Identifier: Apache-2.0
//
// A server with its owner: what clients say goes in, what they are answered and what the server asks for comes back
// as text, to be compared.
#pragma once

#include "catch.hpp"

#include "pmi/key_exchange.hpp"
#include "pmi/server.hpp"

namespace nacre::pmi {

inline std::string text_of(const Entries& entries) {
  std::string out;
  for (const auto& [key, value] : entries) out += fmt::format(" {}={}", key, value);
  return out;
}

inline std::string text_of(const EntryRefs& entries) {
  std::string out;
  for (const auto* each : entries) out += fmt::format(" {}={}", each->first, each->second);
  return out;
}

inline std::string text_of(const Spawn& spawn) {
  std::string out;
  for (const SpawnProgram& each : spawn.programs) {
    out += fmt::format(" [{}:", each.processes);
    for (const std::string& word : each.argv) out += fmt::format(" '{}'", word);
    out += (each.info.empty() ? "" : " with" + text_of(each.info)) + "]";
  }
  return out + (spawn.preput.empty() ? "" : " preput" + text_of(spawn.preput));
}

inline std::string text_of(const Event& event) {
  if (const auto* fence = std::get_if<Fence>(&event)) return "fence" + text_of(fence->entries);
  if (const auto* abort = std::get_if<Abort>(&event)) {
    return fmt::format("abort {}: {} '{}'", abort->client, abort->exit_code, abort->message);
  }
  if (const auto* dropped = std::get_if<Dropped>(&event)) {
    return fmt::format("dropped {}: {}", dropped->client, dropped->why);
  }
  if (const auto* full = std::get_if<Full>(&event)) {
    return fmt::format("full {}: {} of {}", full->client ? fmt::format_int(*full->client).str() : "others",
                       full->bytes, full->limit);
  }
  if (const auto* part = std::get_if<GroupFence>(&event)) {
    return fmt::format("group {} of {}:{}", part->group.name(), fmt::join(part->clients, " "),
                       text_of(part->entries));
  }
  const auto& request = std::get<SpawnRequest>(event);
  return fmt::format("spawn {}:", request.client) + text_of(request.spawn);
}

// A message of PMI-2 on the wire.
inline std::string framed(std::string_view text) { return fmt::format("{:<6}{}", text.size(), text); }

class World {
 public:
  explicit World(std::uint32_t clients = 1) : World(group_of(clients)) {}
  explicit World(ClientGroup group) : server(std::move(group), names) {}
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  static ClientGroup group_of(std::uint32_t clients) {
    ClientGroup group;
    group.kvsname = "kvs_1";
    group.size = clients;
    for (std::uint32_t rank = 0; rank < clients; ++rank) group.ranks.push_back(rank);
    return group;
  }

  // Sends a line or a message of a client, and returns the answer.
  std::string say(std::uint32_t client, std::string_view text) {
    bool counted = server.clients()[client].version == 2;
    return raw(client, counted ? framed(text) : fmt::format("{}\n", text));
  }
  std::string raw(std::uint32_t client, std::string_view bytes) {
    server.receive(client, bytes);
    return heard(client);
  }
  // Answers to the client that were not taken yet, without newlines at the end and lengths.
  std::string heard(std::uint32_t client) {
    std::string bytes = std::exchange(server.output(client), {});
    std::string out;
    for (std::string_view rest = bytes; !rest.empty();) {
      if (!out.empty()) out += '\n';
      bool is_line = rest.starts_with("cmd=");
      std::size_t start = is_line ? 0 : kLengthSize;
      std::size_t size = is_line ? rest.find('\n') : std::stoul(std::string(rest.substr(0, kLengthSize)));
      REQUIRE(size <= rest.size() - start);
      out += rest.substr(start, size);
      rest.remove_prefix(start + size + (is_line ? 1 : 0));
    }
    return out;
  }
  // The server's requests to its owner since the last call, a line each.
  std::string events() {
    std::string out;
    for (const Event& event : server.take_events()) out += (out.empty() ? "" : "\n") + text_of(event);
    return out;
  }

  void join(std::uint32_t client, int version = 1) {
    REQUIRE(
        raw(client, fmt::format("cmd=init pmi_version={} pmi_subversion={}\n", version, version == 1 ? 1 : 0)) ==
        fmt::format("cmd=response_to_init pmi_version={} pmi_subversion={} rc=0", version, version == 1 ? 1 : 0));
    if (version == 2) REQUIRE(say(client, "cmd=fullinit;").starts_with("cmd=fullinit-response;rc=0;"));
    REQUIRE(stage(client) == ClientStage::joined);
  }
  void join_all(int version = 1) {
    for (std::uint32_t client = 0; client < server.clients().size(); ++client) join(client, version);
  }
  // The client comes into the barrier, and is not answered yet.
  void enter(std::uint32_t client) {
    REQUIRE(say(client, server.clients()[client].version == 2 ? "cmd=kvs-fence;" : "cmd=barrier_in").empty());
  }
  [[nodiscard]] ClientStage stage(std::uint32_t client) const { return server.clients()[client].stage; }

  Names names;
  Server server;
};

// All clients have called init.
class Joined : public World {
 public:
  explicit Joined(int version = 1, std::uint32_t clients = 1) : World(clients) { join_all(version); }
};

}  // namespace nacre::pmi
