// SPDX-License-Identifier: Apache-2.0
//
// PMI-2. The answer to NAME is NAME-response; an error is rc=-1 and errmsg=.
#include <algorithm>

#include <fmt/format.h>

#include "base/text.hpp"
#include "pmi/server.hpp"

namespace nacre::pmi {
namespace {

// The thread of the client that asks, if the client has several.
std::string_view thread_of(const PmiMessage& message) { return message.find("thrid").value_or(""); }

// Commands whose answer comes later.
bool answers_later(std::string_view command) { return command == "kvs-fence" || command == "spawn"; }

bool is_known(std::string_view command) {
  for (std::string_view each : {"fullinit", "finalize", "job-getid", "job-connect", "job-disconnect",
                                "info-putnodeattr", "info-getnodeattr", "info-getjobattr", "kvs-put", "kvs-get",
                                "name-publish", "name-unpublish", "name-lookup"}) {
    if (each == command) return true;
  }
  return answers_later(command);
}

}  // namespace

Result<void> Server::take_v2(std::uint32_t client, const PmiMessage& message) {
  ClientProgress& asker = clients_[client];
  std::string_view command = message.command();
  if (command == "abort") return abort(client, message), Result<void>();
  if (!is_known(command)) return invalid(fmt::format("unknown command {}", in_quotes(command)));
  asker.last_command = command;
  ClientStage needed = command == "fullinit" ? ClientStage::greeted : ClientStage::joined;
  Result<void> answered;
  if (asker.stage != needed) {
    answered = invalid(fmt::format("{} {}", command,
                                   asker.stage == ClientStage::finalized ? "after finalize"
                                   : needed == ClientStage::greeted      ? "a second time"
                                                                         : "before fullinit"));
  } else if (answers_later(command)) {
    answered = begin_v2(client, message);
    if (answered || command == "kvs-fence") return answered;
  } else {
    if (command == "info-getnodeattr" && waits_for_attribute(client, message)) return {};
    std::string& out = reply(client);
    std::size_t before = out.size();
    BodyWriter answer = reply(client, command, thread_of(message));
    answered = answer_v2(client, message, answer);
    if (answered) {
      answer.finish();
      if (command == "info-putnodeattr") answer_waiting(*message.find("key"));
      return {};
    }
    out.resize(before);
  }
  reply(client, command, thread_of(message)).add("rc", -1).add("errmsg", answered.error().message).finish();
  return {};
}

bool Server::waits_for_attribute(std::uint32_t client, const PmiMessage& message) {
  auto key = message.find("key");
  if (!key || key->empty() || message.find("wait") != "TRUE" || keys_.node_attribute(*key) != nullptr) return false;
  connections_[client].wanted.push_back({std::string(*key), std::string(thread_of(message))});
  return true;
}

void Server::answer_waiting(std::string_view key) {
  const std::string& value = *keys_.node_attribute(key);
  for (std::uint32_t client = 0; client < clients_.size(); ++client) {
    std::erase_if(connections_[client].wanted, [&](const Wanted& wanted) {
      if (wanted.key != key) return false;
      reply(client, "info-getnodeattr", wanted.thread)
          .add("rc", 0)
          .flag("found", true)
          .add("value", value)
          .finish();
      return true;
    });
  }
}

Result<void> Server::begin_v2(std::uint32_t client, const PmiMessage& message) {
  if (message.command() == "kvs-fence") {
    CHECK_OK(enter_barrier(client));
    connections_[client].fence_thread = thread_of(message);
    return {};
  }
  CHECK_OK(begin_spawn(client, TRY(read_spawn(message))));
  connections_[client].spawn_thread = thread_of(message);
  return {};
}

Result<void> Server::answer_v2(std::uint32_t client, const PmiMessage& message, BodyWriter& answer) {
  std::string_view command = message.command();
  auto found = [&](const std::string* value) {
    answer.add("rc", 0).flag("found", value != nullptr);
    if (value != nullptr) answer.add("value", *value);
  };
  if (command == "kvs-get") {
    auto space = message.find("jobid");
    if (space && !space->empty() && *space != group_.kvsname) {
      return invalid(fmt::format("there is no job {}", *space));
    }
    found(keys_.get(TRY(message.word("key"))));
  } else if (command == "kvs-put") {
    CHECK_OK(keys_.put(client, TRY(message.word("key")), TRY(message.text("value"))));
    answer.add("rc", 0);
  } else if (command == "info-getjobattr") {
    found(keys_.attribute(TRY(message.word("key"))));
  } else if (command == "info-getnodeattr") {
    found(keys_.node_attribute(TRY(message.word("key"))));
  } else if (command == "info-putnodeattr") {
    CHECK_OK(keys_.put_node_attribute(client, TRY(message.word("key")), TRY(message.text("value"))));
    answer.add("rc", 0);
  } else if (command == "job-getid") {
    answer.add("rc", 0).add("jobid", group_.kvsname);
  } else if (command == "name-publish") {
    CHECK_OK(keys_.publish(client, TRY(message.word("name")), TRY(message.word("port"))));
    answer.add("rc", 0);
  } else if (command == "name-unpublish") {
    CHECK_OK(keys_.names().unpublish(TRY(message.word("name"))));
    answer.add("rc", 0);
  } else if (command == "name-lookup") {
    std::string_view port = TRY(keys_.names().look_up(TRY(message.word("name"))));
    answer.add("rc", 0).add("port", port).add("value", port);  // MPICH's clients read `port`, Slurm's `value`
  } else {
    return answer_v2_session(client, message, answer);
  }
  return {};
}

// The start and end of a client, and other groups.
Result<void> Server::answer_v2_session(std::uint32_t client, const PmiMessage& message, BodyWriter& answer) {
  std::string_view command = message.command();
  if (command == "fullinit") {
    join(client);
    answer.add("rc", 0).add("pmi-version", 2).add("pmi-subversion", 0);
    answer.add("rank", group_.ranks[client]).add("size", group_.size).add("appnum", group_.appnum(client));
    if (group_.spawner) answer.add("spawner-jobid", *group_.spawner);
    answer.flag("debugged", false).flag("pmiverbose", false);
  } else if (command == "finalize") {
    CHECK_OK(finalize(client));
    answer.add("rc", 0);
  } else {
    std::string_view job = TRY(message.word("jobid"));
    if (job != group_.kvsname && job != group_.spawner) return invalid(fmt::format("there is no job {}", job));
    answer.add("rc", 0);
    if (command == "job-connect") answer.flag("kvscopy", false);
  }
  return {};
}

void Server::spawned(std::uint32_t client, const Result<std::string>& kvsname, const std::vector<int>& codes) {
  if (!std::exchange(connections_[client].spawns, false) || connections_[client].over) return;
  if (clients_[client].version == 1) return spawned_v1(client, kvsname, codes);
  BodyWriter answer = reply(client, "spawn", connections_[client].spawn_thread);
  if (kvsname) {
    auto failed = std::count_if(codes.begin(), codes.end(), [](int code) { return code != 0; });
    answer.add("rc", 0).add("jobid", *kvsname).add("nerrs", failed);
    if (std::string list = code_list(codes); !list.empty()) answer.add("errcodes", list);
  } else {
    answer.add("rc", -1).add("errmsg", kvsname.error().message);
  }
  answer.finish();
}

}  // namespace nacre::pmi
