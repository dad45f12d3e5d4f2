// SPDX-License-Identifier: Apache-2.0
#include "core/shell_resize.hpp"

#include "core/shell.hpp"
#include "job/options.hpp"

namespace nacre::core {
namespace {

// These options name single ranks, or a number of tasks that does not change.
constexpr std::array kOfRanks{"taskmap",      "per-resource", "multi-prog",  "arguments",    "at-most",
                              "ended-before", "exit-main",    "input.ranks", "output.ranks", "exit-on-error.ranks"};

// Whether one of the programs that wrap tasks is for some tasks only.
bool has_ranks(const Json* wrap) {
  if (wrap == nullptr) return false;
  auto names_some = [](const Json& each) { return each.is_object() && each.value("ranks", Json("all")) != "all"; };
  return wrap->is_array() ? std::any_of(wrap->begin(), wrap->end(), names_some) : names_some(*wrap);
}

}  // namespace

Result<void> ShellResize::check_options() const {
  using Restart = job::RestartOption;
  const JsonAt at = *host_.options().at("resize");
  const Restart restart = TRY(Restart::read(host_.options()));
  if (!restart.is_on() || restart.when == Restart::When::on_request || restart.scope != Restart::Scope::job)
    return at.error("all tasks start again when the job's size changes: give restart=on-failure,scope=job, too");
  if (restart.where != Restart::Where::same)
    return at.error("restart=...,where= names other places for tasks: leave out one of them");
  if (!TRY(job::OnLost::read(host_.options())).replaces)
    return at.error("it is for jobs that go on without a lost host: give on-lost=replace, too");
  for (const char* name : kOfRanks) {
    if (host_.options().at(name))
      return at.error(fmt::format("{} is for tasks whose ranks stay: leave out one of them", name));
  }
  if (has_ranks(host_.options().find("wrap")))
    return at.error("wrap names tasks, whose ranks change: leave out one of them");
  if (host_.exit_policy().main() != 0)
    return at.error("the exit policy's main rank is one of a host, and ranks change: leave it out");
  if (host_.instance() != nullptr)
    return at.error("a Flux instance has started the shells, and their number does not change there");
  return {};
}

Result<void> ShellResize::serve() {
  if (!is_on()) return {};
  CHECK_OK(check_options());
  if (!shells_.may_have_others()) return {};
  restart_.when_started([this] { look_for_more(); });
  announced_ = host_.on_announcement([this](std::string_view topic, std::string_view bytes) {
    if (topic == elastic::JobResize::kTopic) announced(bytes);
  });
  return {};
}

// ---- the leader's ------------------------------------------------------------------------------

// The shells that have tasks, and others that have room for as many tasks.
value::Idset ShellResize::able() const {
  const value::Idset now = job_.shells_in_use();
  const std::uint64_t slots = job_.spec.slots_per_node.value_or(1);
  const std::uint64_t cores = shares_cores(host_.options()) ? 1 : slots * job_.spec.cores_per_slot;
  value::Idset out;
  for (std::uint32_t shell = 0; shell < job_.shells(); ++shell) {
    const job::NodeResources& node = job_.resources.nodes[shell];
    const bool has_room = node.all_cores().size() >= cores && node.gpus.size() >= slots * job_.spec.gpus_per_slot;
    if (shells_.roster().stays(shell) && job_.has_come(shell) && !job_.unfit.contains(shell) &&
        (now.contains(shell) || has_room))
      out.insert(shell);
  }
  return out;
}

Result<void> ShellResize::go_on_without(group::Rank shell) {
  return send({TRY(job_.shells_for(able())), shell, restart_.all_with_lost()});
}

void ShellResize::look_for_more() {
  if (!is_on() || !shells_.leads() || host_.ending() || !restart_.answers().is_quiet()) return;
  auto shells = job_.shells_for(able());
  if (!shells || shells->size() <= job_.nodes_in_use()) return;
  std::string why = restart_.answers().why_not();
  if (why.empty()) {
    auto sent = send({*shells, std::nullopt, {job_.restarts}});
    if (!sent) why = sent.error().message;
  }
  if (!why.empty() && why != said_)
    host_.log().log(Level::warn, "", "there are more nodes, and the job gets no more tasks: {}", why);
  said_ = why;
}

Result<void> ShellResize::send(const elastic::JobResize& what) {
  const auto most = elastic::Starts(job_.most_tasks()).most();
  for (value::Idset::Id rank : job_.all_ranks().ids()) {
    if (job_.attempt_of(rank) >= most)
      return Error{ERANGE, fmt::format("rank {} has started {} times, and no more is possible", rank, most)};
  }
  return host_.announce(elastic::JobResize::kTopic, what.text());
}

// ---- every shell's -----------------------------------------------------------------------------

void ShellResize::announced(std::string_view bytes) {
  auto what = elastic::JobResize::parse(bytes, job_.shells());
  if (!what)
    return host_.log().log(Level::warn, "", "resize: an announcement that this version does not understand");
  auto decision = restart_.start_resized(*what);
  if (on_decided_) on_decided_(*what, decision);
}

}  // namespace nacre::core
