// SPDX-License-Identifier: Apache-2.0
#include "plugins/pmi/spawn_order.hpp"

#include <sys/resource.h>

#include <fmt/format.h>

#include "base/text.hpp"
#include "pmi/key_exchange.hpp"

namespace nacre::plugins {
namespace {

constexpr std::string_view kPreput = "preput ";  // before a key
constexpr std::string_view kInfo = "info ";      // likewise
constexpr std::string_view kLimit = "limit ";    // before its number

std::string decimal(std::uint64_t number) { return fmt::format_int(number).str(); }

Error malformed_order(std::string_view key) {
  return Error{EPROTO, fmt::format("an order to spawn: {} is wrong", in_quotes(key))};
}

Result<std::uint64_t> order_number(std::string_view key, std::string_view value, std::uint64_t most) {
  auto number = parse_u64(value);
  if (!number || *number > most) return malformed_order(key);
  return *number;
}

Result<task::ChildSetup::Limit> limit_in_order(std::string_view key, std::string_view value) {
  auto resource = order_number(key, key.substr(kLimit.size()), RLIM_NLIMITS - 1);
  auto parts = split(value, ' ');
  if (!resource || parts.size() != 2) return malformed_order(key);
  rlimit limit{};
  limit.rlim_cur = TRY(order_number(key, parts[0], RLIM_INFINITY));
  limit.rlim_max = TRY(order_number(key, parts[1], RLIM_INFINITY));
  return task::ChildSetup::Limit{static_cast<int>(*resource), limit};
}

void encode_setup(const task::ChildSetup& setup, pmi::Entries& out) {
  for (const auto& each : setup.limits) {
    out.emplace_back(fmt::format("{}{}", kLimit, each.resource),
                     fmt::format("{} {}", each.value.rlim_cur, each.value.rlim_max));
  }
  if (setup.oom_score_adj) out.emplace_back("oom", *setup.oom_score_adj);
  if (setup.scheduler) out.emplace_back("scheduler", decimal(static_cast<std::uint64_t>(*setup.scheduler)));
  if (setup.new_session) out.emplace_back("session", "");
}

// Whether it was one of these entries.
Result<bool> decode_setup(const std::string& key, const std::string& value, task::ChildSetup& setup) {
  if (key.starts_with(kLimit)) {
    setup.limits.push_back(TRY(limit_in_order(key, value)));
  } else if (key == "oom") {
    setup.oom_score_adj = value;
  } else if (key == "scheduler") {
    setup.scheduler = static_cast<int>(TRY(order_number(key, value, INT32_MAX)));
  } else if (key == "session") {
    setup.new_session = true;
  } else {
    return false;
  }
  return true;
}

// Whether it was an entry of the programs, which come last.
Result<bool> decode_program(const std::string& key, std::string& value, pmi::Spawn& spawn) {
  if (key == "program") {
    auto& program = spawn.programs.emplace_back();
    program.processes = static_cast<std::uint32_t>(TRY(order_number(key, value, pmi::kMaxSpawned)));
    return true;
  }
  if (spawn.programs.empty()) return false;
  pmi::SpawnProgram& program = spawn.programs.back();
  if (key == "argument") {
    program.argv.push_back(std::move(value));
  } else if (key.starts_with(kInfo)) {
    program.info.emplace_back(key.substr(kInfo.size()), std::move(value));
  } else {
    return false;
  }
  return true;
}

}  // namespace

std::string SpawnOrder::encode() const {
  pmi::Entries out{{"start", decimal(start)},
                   {"shell", decimal(shell)},
                   {"request", decimal(request)},
                   {"task", decimal(task)},
                   {"spawner", spawner}};
  if (!library.empty()) {
    out.emplace_back("library", library);
    out.emplace_back("client", decimal(client));
  }
  encode_setup(setup, out);
  for (const auto& [key, value] : spawn.preput) out.emplace_back(fmt::format("{}{}", kPreput, key), value);
  for (const pmi::SpawnProgram& program : spawn.programs) {
    out.emplace_back("program", decimal(program.processes));
    for (const std::string& argument : program.argv) out.emplace_back("argument", argument);
    for (const auto& [key, value] : program.info) out.emplace_back(fmt::format("{}{}", kInfo, key), value);
  }
  return pmi::encode_entries(out);
}

Result<SpawnOrder> SpawnOrder::decode(std::string_view bytes) {
  SpawnOrder out;
  for (auto& [key, value] : TRY(pmi::decode_entries(bytes))) {
    if (key == "start") {
      out.start = TRY(order_number(key, value, UINT32_MAX));
    } else if (key == "shell") {
      out.shell = static_cast<std::uint32_t>(TRY(order_number(key, value, UINT32_MAX)));
    } else if (key == "request") {
      out.request = TRY(order_number(key, value, UINT64_MAX));
    } else if (key == "task") {
      out.task = static_cast<std::uint32_t>(TRY(order_number(key, value, UINT32_MAX)));
    } else if (key == "spawner") {
      out.spawner = std::move(value);
    } else if (key == "library" && value == kPmixLibrary) {
      out.library = std::move(value);
    } else if (key == "client") {
      out.client = static_cast<std::uint32_t>(TRY(order_number(key, value, UINT32_MAX)));
    } else if (key.starts_with(kPreput)) {
      out.spawn.preput.emplace_back(key.substr(kPreput.size()), std::move(value));
    } else if (!TRY(decode_setup(key, value, out.setup)) && !TRY(decode_program(key, value, out.spawn))) {
      return malformed_order(key);
    }
  }
  for (const pmi::SpawnProgram& program : out.spawn.programs) {
    if (program.argv.empty()) return malformed_order("program");
  }
  if (out.spawn.programs.empty() || out.spawn.processes() > pmi::kMaxSpawned) return malformed_order("program");
  return out;
}

void copy_common_setup(const task::ChildSetup& model, task::ChildSetup& out) {
  out.limits = model.limits;
  out.oom_score_adj = model.oom_score_adj;
  out.scheduler = model.scheduler;
  out.new_session = model.new_session;
}

}  // namespace nacre::plugins
