// SPDX-License-Identifier: Apache-2.0
//
// PMI-1.1. The answer to each request has a name of its own. An error is rc=-1 and msg=, with '_' for blanks, since
// clients end a value at the first blank.
#include <algorithm>
#include <cstdint>

#include <fmt/format.h>

#include "base/text.hpp"
#include "pmi/server.hpp"

namespace nacre::pmi {
namespace {

struct Command {
  std::string_view name;
  std::string_view answer;
};

constexpr Command kCommands[] = {
    {"get_maxes", "maxes"},
    {"get_appnum", "appnum"},
    {"get_universe_size", "universe_size"},
    {"get_my_kvsname", "my_kvsname"},
    {"put", "put_result"},
    {"mput", "mput_result"},
    {"get", "get_result"},
    {"getbyidx", "getbyidx_results"},
    {"barrier_in", "barrier_out"},
    {"publish_name", "publish_result"},
    {"unpublish_name", "unpublish_result"},
    {"lookup_name", "lookup_result"},
    {"spawn", "spawn_result"},
    {"finalize", "finalize_ack"},
    {"abort", ""},
};

// Codes of <pmi.h>. Flux's libpmi2 asks again after kNoKey, where it is to wait for a key; others only look whether
// a code is 0.
constexpr int kFail = -1;
constexpr int kNoKey = 4;  // PMI_ERR_INVALID_KEY

void write_error(std::string& out, std::string_view answer, std::string message, int code = kFail) {
  std::replace(message.begin(), message.end(), ' ', '_');
  out += fmt::format("cmd={} rc={} msg={}\n", answer, code, message);
}

// A client of PMI-2 may have put a value of several lines; a client of PMI-1 would take the second line for another
// answer.
Result<std::string_view> one_line(std::string_view value) {
  if (value.find('\n') != std::string_view::npos) return invalid("its value has several lines");
  return value;
}

}  // namespace

Result<void> Server::take_v1(std::uint32_t client, const PmiMessage& message) {
  ClientProgress& asker = clients_[client];
  const auto* command = std::find_if(std::begin(kCommands), std::end(kCommands),
                                     [&](const Command& each) { return each.name == message.command(); });
  if (command == std::end(kCommands)) {
    return invalid(fmt::format("unknown command {}", in_quotes(message.command())));
  }
  if (command->name == "abort") return abort(client, message), Result<void>();
  asker.last_command = message.command();
  Result<void> answered = asker.stage == ClientStage::joined ? answer_v1(client, message)
                          : asker.stage == ClientStage::finalized
                              ? invalid(fmt::format("{} after finalize", message.command()))
                              : invalid(fmt::format("{} before init", message.command()));
  if (answered || command->name == "barrier_in") return answered;
  write_error(reply(client), command->answer, answered.error().message);
  return {};
}

// PMI_KVS_Iter_first and _next: all keys, one by one, until there are no more.
Result<void> Server::answer_by_index(std::uint32_t client, const PmiMessage& message) {
  const std::string_view text = TRY(message.word("idx"));
  auto index = parse_u64(text);
  if (!index || *index > INT32_MAX) return invalid(fmt::format("idx is no index: {}", text));
  const auto* entry = keys_.at(*index);
  if (entry == nullptr) {
    reply(client) += "cmd=getbyidx_results rc=-1 reason=no_more_keyvals\n";
    return {};
  }
  const std::string_view value = TRY(one_line(entry->second));
  reply(client) +=
      fmt::format("cmd=getbyidx_results rc=0 nextidx={} key={} val={}\n", *index + 1, entry->first, value);
  return {};
}

Result<void> Server::answer_v1(std::uint32_t client, const PmiMessage& message) {
  std::string_view command = message.command();
  if (command == "get" || command == "getbyidx" || command == "put" || command == "mput") {
    auto space = message.find("kvsname");
    if (space && *space != group_.kvsname) return invalid(fmt::format("there is no space {}", *space));
  }
  if (command == "get") {
    std::string_view key = TRY(message.word("key"));
    const std::string* value = keys_.get(key);
    if (value == nullptr)
      return write_error(reply(client), "get_result", fmt::format("there is no key {}", key), kNoKey),
             Result<void>();
    std::string_view line = TRY(one_line(*value));
    reply(client).append("cmd=get_result rc=0 value=").append(line).append("\n");
  } else if (command == "getbyidx") {
    return answer_by_index(client, message);
  } else if (command == "put") {
    CHECK_OK(keys_.put(client, TRY(message.word("key")), TRY(message.text("value"))));
    reply(client) += "cmd=put_result rc=0\n";
  } else if (command == "mput") {
    for (const PmiMessage::Field& each : message.fields()) {
      if (each.key != "kvsname") CHECK_OK(keys_.put(client, each.key, each.value));
    }
    reply(client) += "cmd=mput_result rc=0\n";
  } else if (command == "barrier_in") {
    return enter_barrier(client);
  } else if (command == "get_maxes") {
    reply(client) +=
        fmt::format("cmd=maxes rc=0 kvsname_max={} keylen_max={} vallen_max={}\n", kMaxName, kMaxKey, kMaxValue);
  } else if (command == "get_my_kvsname") {
    reply(client) += fmt::format("cmd=my_kvsname rc=0 kvsname={}\n", group_.kvsname);
  } else if (command == "get_appnum") {
    reply(client) += fmt::format("cmd=appnum rc=0 appnum={}\n", group_.appnum(client));
  } else if (command == "get_universe_size") {
    reply(client) += fmt::format("cmd=universe_size rc=0 size={}\n",
                                 group_.universe_size ? static_cast<std::int64_t>(*group_.universe_size) : -1);
  } else if (command == "publish_name") {
    CHECK_OK(keys_.publish(client, TRY(message.word("service")), TRY(message.word("port"))));
    reply(client) += "cmd=publish_result rc=0 msg=success\n";
  } else if (command == "unpublish_name") {
    CHECK_OK(keys_.names().unpublish(TRY(message.word("service"))));
    reply(client) += "cmd=unpublish_result rc=0 msg=success\n";
  } else if (command == "lookup_name") {
    std::string_view port = TRY(one_line(TRY(keys_.names().look_up(TRY(message.word("service"))))));
    reply(client) += fmt::format("cmd=lookup_result rc=0 port={} msg=success\n", port);
  } else {
    return answer_v1_process(client, message);
  }
  return {};
}

// Requests about processes: their end, and new ones.
Result<void> Server::answer_v1_process(std::uint32_t client, const PmiMessage& message) {
  std::string_view command = message.command();
  if (command == "finalize") {
    CHECK_OK(finalize(client));
    reply(client) += "cmd=finalize_ack rc=0\n";
  } else {
    Spawn& spawn = connections_[client].spawn;
    auto complete = add_spawn_block(message, spawn);
    if (!complete) spawn = {};
    if (TRY(std::move(complete))) return begin_spawn(client, std::exchange(spawn, {}));
  }
  return {};
}

void Server::spawned_v1(std::uint32_t client, const Result<std::string>& kvsname, const std::vector<int>& codes) {
  if (kvsname) {
    std::string list = code_list(codes);
    reply(client) += fmt::format("cmd=spawn_result rc=0{}{}\n", list.empty() ? "" : " errcodes=", list);
  } else {
    write_error(reply(client), "spawn_result", kvsname.error().message);
  }
}

}  // namespace nacre::pmi
