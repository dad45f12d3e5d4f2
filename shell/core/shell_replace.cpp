// SPDX-License-Identifier: Apache-2.0
#include "core/shell_replace.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/json.hpp"
#include "job/on_lost.hpp"
#include "join/leaving.hpp"
#include "plugin/pmi_connected.hpp"

namespace nacre::core {

Result<void> ShellReplace::serve() {
  auto chosen = TRY(job::OnLost::read(host_.options()));
  if (!chosen.replaces || !shells_.has_others()) return {};
  announced_ = host_.on_announcement([this](std::string_view topic, std::string_view bytes) {
    if (topic == kTopic) announced(bytes);
  });
  if (shells_.leads()) shells_.when_lost_with_tasks([this](group::Rank shell) { return lost(shell); });
  return {};
}

// ---- the leader's ------------------------------------------------------------------------------

bool ShellReplace::lost(group::Rank shell) {
  if (host_.ending()) return false;
  if (!shells_.has_passed(join::kStartBarrier)) {
    shells_.give_up(shell, "not all tasks of the job had started");
    return true;
  }
  value::Idset asked;
  for (std::uint32_t each = 1; each < job_.shells(); ++each) {
    if (shells_.stays(each) && !shells_.unfinished_on(each).empty()) asked.insert(each);
  }
  shrink_.ask_connected(asked, [this, shell](const value::Idset& connected) {
    decide(shell, connected | plugin::pmi_connected(host_, ""));
  });
  return true;
}

// Much may have happened since the shell was lost.
void ShellReplace::decide(group::Rank shell, const value::Idset& connected) {
  value::Idset ranks = shells_.unfinished_on(shell);
  if (ranks.empty() || host_.ending()) return shells_.give_up(shell, "");
  if (!connected.empty()) {
    bool is_one = connected.size() == 1;
    return shells_.give_up(shell,
                           fmt::format("rank {} {} called PMI init and not finalize, and PMI does not take a "
                                       "rank that starts again",
                                       connected.str(), is_one ? "has" : "have"));
  }
  if (host_.stack().find("pmix") != nullptr)
    return shells_.give_up(shell,
                           "the job has a PMIx server (pmi=pmix), which does not take a rank that starts again");
  if (Result<void> replaced = replace(shell, ranks); !replaced) shells_.give_up(shell, replaced.error().message);
}

Result<void> ShellReplace::replace(group::Rank shell, const value::Idset& ranks) {
  // All of them have come to that shell together.
  std::uint32_t attempt = job_.attempt_of(*ranks.first()) + 1;
  if (attempt > elastic::Starts(job_.tasks()).most())
    return Error{ERANGE, fmt::format("they have started {} times, and no more is possible", attempt - 1)};
  std::uint32_t spare = TRY(replacements_.choose(spares(), needed(shell, ranks)));
  shells_.expect(ranks, attempt);
  Json what{{"from", shell}, {"to", spare}, {"ranks", ranks.str()}, {"try", attempt}};
  Result<void> sent = host_.announce(kTopic, dump_json(what));
  if (!sent) replacements_.ordered(spare);
  return sent;
}

std::vector<elastic::Replacements::Spare> ShellReplace::spares() const {
  std::vector<elastic::Replacements::Spare> out;
  for (std::uint32_t shell : job_.spare_shells().ids()) {
    const job::NodeResources& node = job_.resources.nodes[shell];
    if (shells_.stays(shell)) out.push_back({shell, {node.cores.size(), node.gpus.size()}});
  }
  return out;
}

// What their slots have, but no more than the node that they were on, and no cores where tasks may share them.
elastic::Replacements::Room ShellReplace::needed(group::Rank shell, const value::Idset& ranks) const {
  const job::NodeResources& node = job_.resources.nodes[shell];
  const job::Jobspec& spec = job_.spec;
  auto option = host_.options().at("oversubscribe");
  auto shares = option ? job::oversubscribe_of(*option) : job::Oversubscribe::no;
  bool may_share = shares && *shares != job::Oversubscribe::no;
  return {may_share ? 1 : std::min<std::uint64_t>(ranks.size() * spec.cores_per_slot, node.cores.size()),
          std::min<std::uint64_t>(ranks.size() * spec.gpus_per_slot, node.gpus.size())};
}

// ---- every shell's -----------------------------------------------------------------------------

void ShellReplace::announced(std::string_view bytes) {
  Json what = Json::parse(bytes, nullptr, false);
  auto ranks = value::Idset::parse(what.is_object() ? what.value("ranks", "") : "");
  job::Move move;
  if (ranks && !ranks->empty()) {
    move = {*ranks, what.value("from", job_.shells()), what.value("to", job_.shells()),
            what.value("try", std::uint32_t{0})};
  }
  bool is_known = !move.ranks.empty() && *move.ranks.last() < job_.tasks();
  if (!is_known || move.from >= job_.shells() || move.to >= job_.shells() || move.attempt == 0) {
    return host_.log().log(Level::warn, "", "on-lost: an announcement that this version does not understand");
  }
  bool stands = shells_.stays(move.to);
  if (shells_.leads()) replacements_.ordered(move.to);
  if (!stands && shells_.leads()) decide(move.from, {});
  if (!stands) return;
  job_.move(move);
  shells_.moved(move);
  if (move.to == job_.shell_rank) due_ = std::move(move);
}

Result<void> ShellReplace::take_over() {
  auto move = std::exchange(due_, std::nullopt);
  CHECK_OK(tasks_.make(move->ranks, move->attempt, job_.restarts));
  plugin::Call call("shell.take-over");
  call.in = {{"ranks", move->ranks.str()}, {"from", move->from}, {"try", move->attempt}};
  TRY(host_.stack().call(call));
  return {};
}

}  // namespace nacre::core
