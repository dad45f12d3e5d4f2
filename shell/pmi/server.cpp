// SPDX-License-Identifier: Apache-2.0
#include "pmi/server.hpp"

#include <algorithm>
#include <climits>
#include <utility>

#include <fmt/format.h>

#include "base/invariant.hpp"
#include "base/text.hpp"

namespace nacre::pmi {

Server::Server(ClientGroup group, Names& names)
    : group_(std::move(group)),
      keys_(names, group_.quota, events_),
      clients_(group_.ranks.size()),
      connections_(group_.ranks.size()),
      expected_(static_cast<std::uint32_t>(group_.ranks.size())) {}

void Server::receive(std::uint32_t client, std::string_view bytes) {
  Connection& connection = connections_[client];
  if (connection.over) return;
  connection.framer.add(bytes);
  for (;;) {
    auto frame = connection.framer.next();
    if (frame && !*frame) return;
    Result<void> taken = frame ? take(client, **frame) : Result<void>(frame.error());
    if (!taken) return drop(client, taken.error().message);
  }
}

Result<void> Server::take(std::uint32_t client, const Frame& frame) {
  if (frame.kind == Frame::Kind::body) return take_v2(client, TRY(PmiMessage::parse_body(frame.text)));
  if (connections_[client].aborts && !frame.text.starts_with("cmd=")) return {};
  bool is_spawn = frame.kind == Frame::Kind::spawn;
  PmiMessage message = TRY(is_spawn ? PmiMessage::parse_spawn(frame.text) : PmiMessage::parse_line(frame.text));
  if (message.command() == "init") return greet(client, message);
  return take_v1(client, message);
}

// Answers with the client's version or, if that is not offered, with rc=-1 and one that is.
Result<void> Server::greet(std::uint32_t client, const PmiMessage& message) {
  ClientProgress& asker = clients_[client];
  if (asker.stage != ClientStage::silent) return invalid("init: it has been called before");
  asker.last_command = message.command();
  auto version = TRY(message.integer("pmi_version"));
  auto minor = TRY(message.integer("pmi_subversion"));
  asker.asked = fmt::format("{}.{}", version, minor);
  bool offered = (version == 1 && group_.pmi1) || (version == 2 && group_.pmi2);
  int chosen = offered ? static_cast<int>(version) : (group_.pmi1 ? 1 : 2);
  reply(client) += fmt::format("cmd=response_to_init pmi_version={} pmi_subversion={} rc={}\n", chosen,
                               chosen == 1 ? std::clamp<std::int64_t>(minor, 0, 1) : 0, offered ? 0 : -1);
  if (!offered) return {};
  asker.version = chosen;
  asker.stage = ClientStage::greeted;
  if (chosen == 1) {
    join(client);
  } else {
    connections_[client].framer.counted();
  }
  return {};
}

void Server::join(std::uint32_t client) {
  clients_[client].stage = ClientStage::joined;
  clients_[client].has_joined = true;
  ++joined_;
}

void Server::closed(std::uint32_t client) {
  if (connections_[client].over) return;
  std::string_view rest = connections_[client].framer.rest();
  if (!rest.empty()) {
    constexpr std::size_t kShown = 40;
    return drop(client, fmt::format("the connection ended in the middle of a message: {}",
                                    in_quotes(rest.substr(0, kShown))));
  }
  leave(client);
}

void Server::ended(std::uint32_t client) { leave(client); }

void Server::reopened(std::uint32_t client) {
  if (clients_[client].stage == ClientStage::left) ++expected_;
  clients_[client] = {};
  bool is_pending = connections_[client].pending;
  connections_[client] = {};
  connections_[client].pending = is_pending;
}

void Server::drop(std::uint32_t client, std::string why) {
  events_.emplace_back(Dropped{client, std::move(why)});  // before the barrier that goes on without it
  leave(client);
}

void Server::leave(std::uint32_t client) {
  ClientProgress& asker = clients_[client];
  Connection& connection = connections_[client];
  if (std::exchange(connection.over, true)) return;
  connection.wanted.clear();
  if (asker.stage == ClientStage::finalized) return;
  asker.stage = ClientStage::left;
  asker.left_waiting = std::exchange(asker.waits, false);
  if (asker.left_waiting) {
    INVARIANT(waiting_ > 0);
    --waiting_;
  }
  INVARIANT(expected_ > 0);
  --expected_;
  check_barrier();
}

Result<void> Server::finalize(std::uint32_t client) {
  if (clients_[client].waits) return invalid("finalize: a barrier is not over");
  clients_[client].stage = ClientStage::finalized;
  INVARIANT(expected_ > 0);
  --expected_;
  check_barrier();
  return {};
}

// Obeyed at any time, whatever the message has besides: MPICH does this when init is refused, and then waits to be
// ended. In PMI-1 the text is a line, but MPICH 4.1 and later send all lines that it has: the others are ignored.
void Server::abort(std::uint32_t client, const PmiMessage& message) {
  auto code = message.integer("exitcode");
  bool fits = code && *code >= INT_MIN && *code <= INT_MAX;
  auto text = message.find("message");
  if (!text) text = message.find("error_msg");  // of Flux's clients
  if (!text) text = message.find("msg");
  std::string reason(text.value_or(""));
  clients_[client].last_command = message.command();
  if (clients_[client].version != 2) {
    reason = unescape(reason);
    connections_[client].aborts = true;
  }
  events_.emplace_back(Abort{client, fits ? static_cast<int>(*code) : 1, std::move(reason)});
}

Result<void> Server::begin_spawn(std::uint32_t client, Spawn spawn) {
  if (std::exchange(connections_[client].spawns, true)) return invalid("spawn: the one before is not over");
  events_.emplace_back(SpawnRequest{client, std::move(spawn)});
  return {};
}

// ---- barriers ----------------------------------------------------------------------------

Result<void> Server::enter_barrier(std::uint32_t client) {
  ClientProgress& asker = clients_[client];
  if (asker.waits) return invalid(fmt::format("{}: the one before is not over", asker.last_command));
  asker.waits = true;
  ++waiting_;
  check_barrier();
  return {};
}

void Server::check_barrier() {
  if (fencing_ || waiting_ == 0 || waiting_ < expected_) return;
  fencing_ = true;
  events_.emplace_back(Fence{keys_.take_fresh()});
}

void Server::fenced(Result<Entries> others) {
  Result<void> taken = others ? keys_.take_over(*std::move(others)) : Result<void>(std::move(others).error());
  fencing_ = false;
  waiting_ = 0;
  for (std::uint32_t client = 0; client < clients_.size(); ++client) {
    if (clients_[client].waits) end_barrier(client, taken);
  }
}

void Server::end_barrier(std::uint32_t client, const Result<void>& others) {
  ClientProgress& asker = clients_[client];
  asker.waits = false;
  ++asker.barriers;
  if (asker.version == 1) {
    reply(client) += others ? "cmd=barrier_out rc=0\n" : "cmd=barrier_out rc=-1\n";
    return;
  }
  BodyWriter answer = reply(client, "kvs-fence", connections_[client].fence_thread);
  answer.add("rc", others ? 0 : -1);
  if (!others) answer.add("errmsg", others.error().message);
  answer.finish();
}

// ---- output ------------------------------------------------------------------------------

std::string& Server::reply(std::uint32_t client) {
  Connection& connection = connections_[client];
  if (!std::exchange(connection.pending, true)) pending_.push_back(client);
  return connection.output;
}

BodyWriter Server::reply(std::uint32_t client, std::string_view command, std::string_view thread) {
  BodyWriter answer(reply(client), fmt::format("{}-response", command));
  if (!thread.empty()) answer.add("thrid", thread);
  return answer;
}

void Server::take_pending(std::vector<std::uint32_t>& out) {
  out.clear();
  std::swap(out, pending_);
  for (std::uint32_t client : out) connections_[client].pending = false;
}

std::vector<Event> Server::take_events() { return std::exchange(events_, {}); }

}  // namespace nacre::pmi
