// SPDX-License-Identifier: Apache-2.0
#include "pmi/server.hpp"

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
  // MPICH 5 asks for 1.1, and uses what is new in 1.2 if the server answers with that.
  const bool groups = offered && chosen == 1 && minor >= 1 && group_.takes_groups && group_.takes_groups(client);
  connections_[client].groups = groups;
  reply(client) += fmt::format("cmd=response_to_init pmi_version={} pmi_subversion={} rc={}\n", chosen,
                               groups        ? 2
                               : chosen == 1 ? std::clamp<std::int64_t>(minor, 0, 1)
                                             : 0,
                               offered ? 0 : -1);
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
  const bool waited = std::exchange(asker.waits, false);
  if (waited) {
    INVARIANT(waiting_ > 0);
    --waiting_;
  }
  asker.left_waiting = waited || asker.group_barriers > 0;
  group_waiting_ -= std::exchange(asker.group_barriers, 0);
  for (auto& [name, barrier] : group_barriers_) barrier.come.erase(client);
  INVARIANT(expected_ > 0);
  --expected_;
  check_barrier();
  check_group_barriers();
}

Result<void> Server::finalize(std::uint32_t client) {
  if (clients_[client].waits || clients_[client].group_barriers > 0) {
    return invalid("finalize: a barrier is not over");
  }
  clients_[client].stage = ClientStage::finalized;
  INVARIANT(expected_ > 0);
  --expected_;
  check_barrier();
  check_group_barriers();
  return {};
}

// Obeyed at any time, and with any further fields: MPICH sends it when init is refused, and then waits to be ended.
// In PMI-1 the text is a line, but MPICH 4.1 and later send all their lines: the others are ignored.
void Server::abort(std::uint32_t client, const PmiMessage& message) {
  auto code = message.integer("exitcode");
  bool fits = code && *code >= INT_MIN && *code <= INT_MAX;
  auto text = message.find("message");
  if (!text) text = message.find("error_msg");  // as Flux's clients call it
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
  given_.clear();
  for (auto& [name, barrier] : group_barriers_) barrier.given = 0;
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
    // MPICH 5 asks each for its tag.
    reply(client) +=
        fmt::format("cmd=barrier_out rc={}{}\n", others ? 0 : -1, connections_[client].groups ? " tag=0" : "");
    return;
  }
  BodyWriter answer = reply(client, "kvs-fence", connections_[client].fence_thread);
  answer.add("rc", others ? 0 : -1);
  if (!others) answer.add("errmsg", others.error().message);
  answer.finish();
}

// ---- barriers of groups ------------------------------------------------------------------

namespace {

constexpr std::uint32_t kMaxGroupBarriers = 1024;  // in which one client waits

}  // namespace

// A fault of the group is answered with an error; otherwise only this client would wait for the others of the
// group.
Result<void> Server::enter_group_barrier(std::uint32_t client, std::string_view text) {
  if (text == "WORLD") return enter_barrier(client);
  if (clients_[client].group_barriers >= kMaxGroupBarriers) {
    return invalid(fmt::format("{} barriers are not over", kMaxGroupBarriers));
  }
  auto group = BarrierGroup::parse(text, group_.size);
  auto refuse = [&](std::string_view tag, std::string why) {
    std::replace(why.begin(), why.end(), ' ', '_');
    reply(client) += fmt::format("cmd=barrier_out rc={} msg={} tag={}\n", -1, why, tag);
  };
  const auto colon = text.find(':');
  if (!group) {
    std::string_view tag = colon == std::string_view::npos ? "0" : text.substr(colon + 1);
    return refuse(parse_i64(tag) ? tag : "0", group.error().message), Result<void>();
  }
  const std::uint32_t own = group_.ranks[client];
  const bool is_member = group->ranks.empty() || std::binary_search(group->ranks.begin(), group->ranks.end(), own);
  if (!is_member) {
    return refuse(fmt::format_int(group->tag).str(), fmt::format("rank {} is not in its own group", own)),
           Result<void>();
  }
  GroupBarrier& barrier = group_barrier(*std::move(group));
  ++barrier.come[client];
  ++clients_[client].group_barriers;
  ++group_waiting_;
  check_group_barrier(barrier);
  return {};
}

Server::GroupBarrier& Server::group_barrier(BarrierGroup group) {
  auto [place, is_new] = group_barriers_.try_emplace(group.name());
  GroupBarrier& barrier = place->second;
  if (!is_new) return barrier;
  for (std::uint32_t client = 0; client < clients_.size(); ++client) {
    const bool is_member =
        group.ranks.empty() || std::binary_search(group.ranks.begin(), group.ranks.end(), group_.ranks[client]);
    if (is_member) barrier.members.push_back(client);
  }
  barrier.group = std::move(group);
  return barrier;
}

void Server::group_awaited(const BarrierGroup& group) {
  GroupBarrier& barrier = group_barrier(group);
  barrier.is_awaited = true;
  check_group_barrier(barrier);
}

bool Server::may_come(std::uint32_t client) const {
  const ClientStage stage = clients_[client].stage;
  return stage != ClientStage::finalized && stage != ClientStage::left;
}

void Server::check_group_barrier(GroupBarrier& barrier) {
  if (barrier.fencing || (barrier.come.empty() && !barrier.is_awaited)) return;
  const bool all_come = std::all_of(barrier.members.begin(), barrier.members.end(), [&](std::uint32_t client) {
    return !may_come(client) || barrier.come.contains(client);
  });
  if (!all_come) return;
  barrier.fencing = true;
  const EntryRefs& fresh = keys_.fresh();
  barrier.given = fresh.size();
  const std::size_t known = std::min(given_[barrier.group.members], fresh.size());
  events_.emplace_back(GroupFence{
      barrier.group, barrier.members, {fresh.begin() + static_cast<std::ptrdiff_t>(known), fresh.end()}});
}

void Server::check_group_barriers() {
  for (auto& [name, barrier] : group_barriers_) check_group_barrier(barrier);
}

void Server::group_fenced(const std::string& name, Result<Entries> others) {
  auto found = group_barriers_.find(name);
  if (found == group_barriers_.end()) return;
  GroupBarrier& barrier = found->second;
  Result<void> taken = others ? keys_.take_over(*std::move(others)) : Result<void>(std::move(others).error());
  if (taken && barrier.given > 0) given_[barrier.group.members] = barrier.given;
  barrier.fencing = barrier.is_awaited = false;
  std::string answer = fmt::format("cmd=barrier_out rc={} tag={}\n", taken ? 0 : -1, barrier.group.tag);
  for (auto each = barrier.come.begin(); each != barrier.come.end();) {
    reply(each->first) += answer;
    --clients_[each->first].group_barriers;
    --group_waiting_;
    each = --each->second == 0 ? barrier.come.erase(each) : std::next(each);
  }
  if (barrier.come.empty()) return void(group_barriers_.erase(found));
  check_group_barrier(barrier);
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

// ---- server v1 --------------------------------------------------------------------------
//
// PMI-1.1 and 1.2. The answer to each request has a name of its own. An error is rc=-1 and msg=, with '_' for
// blanks, since clients end a value at the first blank.

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

// Codes of <pmi.h>. Flux's libpmi2 asks again after kNoKey if it has to wait for a key; other clients only check
// whether a code is 0.
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
    auto group = message.find("group");
    return group ? enter_group_barrier(client, *group) : enter_barrier(client);
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

// ---- server v2 --------------------------------------------------------------------------
//
// PMI-2. The answer to NAME is NAME-response; an error is rc=-1 and errmsg=.

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

// ---- group keys -------------------------------------------------------------------------

namespace {

Result<void> fits(std::string_view key, std::string_view value) {
  if (key.size() >= kMaxKey) return invalid(fmt::format("a key has at most {} bytes", kMaxKey - 1));
  if (value.size() >= kMaxValue) return invalid(fmt::format("a value has at most {} bytes", kMaxValue - 1));
  return {};
}

}  // namespace

GroupKeys::~GroupKeys() {
  if (quota_ != nullptr) quota_->used -= charged_;
}

Result<void> GroupKeys::put(std::uint32_t client, std::string_view key, std::string_view value) {
  CHECK_OK(fits(key, value));
  if (const std::string* there = get(key)) {
    if (*there == value) return {};  // by a program that makes its exchange again
    return invalid(fmt::format("the key {} is there already, with another value", key));
  }
  CHECK_OK(look_for_room(client, key, value));
  fresh_.push_back(known_.emplace_back(kvs_.add(std::string(key), std::string(value))));
  charge();
  return {};
}

// All nodes then have the same keys and quota, so the barrier fails on all of them or on none.
Result<void> GroupKeys::take_over(Entries others) {
  std::uint64_t bytes = kvs_.bytes();
  for (const auto& [key, value] : others) {
    if (kvs_.find(key) == nullptr) bytes += Kvs::cost_of(key, value);
  }
  if (quota_ != nullptr && bytes > quota_->limit) return refuse(std::nullopt, bytes);
  for (auto& [key, value] : others) {
    if (auto entry = kvs_.add(std::move(key), std::move(value)); entry != nullptr) known_.push_back(entry);
  }
  charge();
  return {};
}

Result<void> GroupKeys::look_for_room(std::uint32_t client, std::string_view key, std::string_view value) {
  if (quota_ == nullptr) return {};
  std::uint64_t bytes = quota_->used + names_.bytes() + Kvs::cost_of(key, value);
  if (bytes > quota_->limit) return refuse(client, bytes);
  return {};
}

Error GroupKeys::refuse(std::optional<std::uint32_t> client, std::uint64_t bytes) {
  std::uint64_t limit = quota_->limit;
  if (!std::exchange(quota_->reported, true)) events_.emplace_back(Full{client, bytes, limit});
  return Error{ENOSPC, fmt::format("the keys of the job would have {} bytes, and may have {}", bytes, limit)};
}

void GroupKeys::charge() {
  if (quota_ == nullptr) return;
  std::uint64_t now = kvs_.bytes() + attributes_.bytes() + node_attributes_.bytes();
  quota_->used += now - std::exchange(charged_, now);
}

const std::string* GroupKeys::get(std::string_view key) const {
  const std::string* value = kvs_.find(key);
  return value != nullptr ? value : attributes_.find(key);
}

void GroupKeys::set_attribute(std::string_view key, std::string_view value) {
  attributes_.set(key, value);
  charge();
}

Result<void> GroupKeys::publish(std::uint32_t client, std::string_view name, std::string_view port) {
  if (port.size() >= kMaxValue) return invalid(fmt::format("a port has at most {} bytes", kMaxValue - 1));
  CHECK_OK(look_for_room(client, name, port));
  return names_.publish(name, port);
}

Result<void> GroupKeys::put_node_attribute(std::uint32_t client, std::string_view key, std::string_view value) {
  CHECK_OK(fits(key, value));
  CHECK_OK(look_for_room(client, key, value));
  node_attributes_.set(key, value);
  charge();
  return {};
}

}  // namespace nacre::pmi
