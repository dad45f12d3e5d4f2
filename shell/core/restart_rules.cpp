// SPDX-License-Identifier: Apache-2.0
#include "core/restart_rules.hpp"

#include <algorithm>
#include <array>
#include <csignal>

#include <fmt/format.h>

#include "base/json.hpp"
#include "elastic/starts.hpp"

namespace nacre::core {
namespace {

constexpr std::array kEndingSignals{SIGHUP, SIGINT, SIGQUIT, SIGKILL, SIGTERM};

}  // namespace

bool RestartRules::is_to_end(int signum) {
  return std::find(kEndingSignals.begin(), kEndingSignals.end(), signum) != kEndingSignals.end();
}

bool RestartRules::is_chosen(const exits::Record& record) const {
  using When = job::RestartOption::When;
  if (option_.when == When::on_request) return false;
  if (option_.when == When::on_failure && !host_.exit_policy().is_failure(record)) return false;
  return option_.codes.empty() || option_.codes.contains(static_cast<Rank>(record.code()));
}

bool RestartRules::wants(const task::Task& task, bool is_ordered) const {
  exits::Record record = tasks_.record_of(task);
  if (record.kind() != exits::Record::Kind::ended) return false;
  if (!is_ordered && !is_chosen(record)) return false;
  auto sent = signals_.find(task.rank());
  if (sent != signals_.end() && std::any_of(sent->second.begin(), sent->second.end(), [&](int signum) {
        return is_to_end(signum) || task.status().signal() == signum;
      }))
    return false;
  return task.attempt() < elastic::Starts(host_.job().tasks()).most();
}

Result<bool> RestartRules::takes_all(const task::Task& task) const {
  using Scope = job::RestartOption::Scope;
  bool takes_all = TRY(pmi_takes_all(task.rank())) || option_.scope == Scope::job;
  std::string why = !takes_all && option_.scope == Scope::node ? why_not_node() : "";
  if (!why.empty()) return Error{ENOTSUP, why};
  return takes_all;
}

// With scope=node: why the tasks of this shell cannot start again.
std::string RestartRules::why_not_node() const {
  const value::Idset& over = tasks_.outcomes().ranks();
  if (over.empty()) return "";
  return fmt::format("all tasks of its shell would have to start again, and task {} {} ended for good", over.str(),
                     over.size() == 1 ? "has" : "have");
}

Result<bool> RestartRules::pmi_takes_all(Rank rank, std::string_view by) const {
  std::string why;
  bool takes_all = false;
  plugin::Call call("pmi.restart");
  call.in["rank"] = rank;
  if (Result<int> called = host_.stack().call(call); !called) why = called.error().message;
  for (const auto& [plugin, answer] : call.out.items()) {
    if (answer == "together")
      takes_all = takes_all || by.empty() || by == plugin;
    else if (answer != "alone")
      why = answer.is_string() ? answer.get<std::string>() : dump_json(answer);
  }
  if (host_.stack().find("pmix") != nullptr && !call.out.contains("pmix"))
    why = "the job's PMIx server (pmi=pmix) is of a plugin that does not say how a rank starts again";
  if (!why.empty()) return Error{ENOTSUP, why};
  return takes_all;
}

}  // namespace nacre::core
