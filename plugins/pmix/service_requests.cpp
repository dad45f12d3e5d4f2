// SPDX-License-Identifier: Apache-2.0
//
// Queries, signals, log lines and groups that clients request.
#include <algorithm>
#include <csignal>
#include <cstring>

#include "service.hpp"
#include "targets.hpp"

namespace nacre::pmix {
namespace {

// What a directive does. Signal 0: it is none that is served.
struct Act {
  int signum = 0;
  bool ends = false;  // the processes are meant to end
};

Act act_of(const pmix_info_t& directive) {
  if (is(directive, PMIX_JOB_CTRL_SIGNAL)) {
    std::int64_t number = number_of(directive.value).value_or(0);
    return {number > 0 && number <= SIGRTMAX ? static_cast<int>(number) : 0};
  }
  if (!is_true(directive.value)) return {};
  if (is(directive, PMIX_JOB_CTRL_KILL)) return {SIGKILL, true};
  if (is(directive, PMIX_JOB_CTRL_TERMINATE)) return {SIGTERM, true};
  if (is(directive, PMIX_JOB_CTRL_PAUSE)) return {SIGSTOP};
  if (is(directive, PMIX_JOB_CTRL_RESUME)) return {SIGCONT};
  return {};
}

bool has_all(const Targets& all, const Targets& some) {
  auto has = [&all](PmixClient* each) {
    return std::find(all.here.begin(), all.here.end(), each) != all.here.end();
  };
  return std::all_of(some.here.begin(), some.here.end(), has) &&
         std::includes(all.elsewhere.begin(), all.elsewhere.end(), some.elsewhere.begin(), some.elsewhere.end());
}

std::string name_of(const Targets& all, const std::vector<pmix_proc_t>& named) {
  if (named.size() == 1 && named[0].rank <= PMIX_RANK_VALID) return "rank " + std::to_string(named[0].rank);
  return std::to_string(all.size()) + (all.size() == 1 ? " process" : " processes");
}

bool is_about_how(const pmix_info_t& info) {
  for (const char* key : {PMIX_JOB_CTRL_ID, PMIX_TIMEOUT, PMIX_USERID, PMIX_GRPID, PMIX_LOG_SOURCE,
                          PMIX_LOG_TIMESTAMP, PMIX_LOG_GENERATE_TIMESTAMP, PMIX_LOG_ONCE}) {
    if (is(info, key)) return true;
  }
  return false;
}

}  // namespace

void Service::control(const pmix_proc_t& id, const std::vector<pmix_proc_t>& targets, const InfoList& directives,
                      InfoReply reply) {
  std::vector<Act> acts;
  bool is_unknown = false;
  for (const pmix_info_t& directive : directives) {
    if (is_about_how(directive)) continue;
    Act act = act_of(directive);
    if (act.signum != 0) {
      acts.push_back(act);
    } else if (PMIX_INFO_IS_REQUIRED(&directive)) {
      return answer(reply, PMIX_ERR_NOT_SUPPORTED, {});
    } else {
      is_unknown = true;
    }
  }
  if (acts.empty()) return answer(reply, is_unknown ? PMIX_ERR_NOT_SUPPORTED : PMIX_ERR_BAD_PARAM, {});
  const Targets all = find_targets(clients_, *peers_, id, targets);
  const PmixClient* client = clients_.find(id);
  if (all.empty() || client == nullptr) return answer(reply, PMIX_ERR_NOT_FOUND, {});
  // Answers before it sends the signals, as one may end the client that asked.
  answer(reply, PMIX_SUCCESS, {});
  const bool is_job = has_all(all, find_targets(clients_, *peers_, proc_of(clients_.home(), 0), {}));
  for (const auto& [signum, ends] : acts) {
    if (ends && is_job) ends_.end_as_asked(id, *client, signum);
    if (ends && is_job && signum == SIGTERM) continue;  // the job's end sends it, too
    const char* what = signum == SIGKILL ? "kill" : "terminate";
    if (ends && !is_job) {
      shell_log("%s called PMIx_Job_control to %s %s", clients_.name_of(id, *client).c_str(), what,
                name_of(all, targets).c_str());
    }
    if (!all.elsewhere.empty()) peers_->signal(all.elsewhere, signum);
    signal_all(all.here, signum);
  }
}

void Service::query(const std::vector<ClientQuery>& queries, InfoReply reply) {
  std::make_shared<QueryAnswer>(shell_, clients_, *peers_, job_.lost, reply)->find(queries, times_.list);
}

void Service::log(const pmix_proc_t& id, const InfoList& data, OperationReply reply) {
  bool all = true, any = false;
  for (const pmix_info_t& info : data) {
    if (is_about_how(info)) continue;
    std::optional<std::string> text = text_of(info.value);
    bool known = is(info, PMIX_LOG_STDERR) || is(info, PMIX_LOG_STDOUT);
    if (!known || !text) {
      all = false;
      continue;
    }
    any = true;
    while (!text->empty() && text->back() == '\n') text->pop_back();
    shell_log("rank %u: %s", id.rank, text->c_str());
  }
  reply(all ? PMIX_SUCCESS : any ? PMIX_ERR_PARTIAL_SUCCESS : PMIX_ERR_NOT_SUPPORTED);
}

// All members of this node have come, but those that libpmix has seen end. One that has lost its connection it
// forgets, and does not mention in operations that begin after that.
void Service::group(GroupCall call, InfoReply reply) {
  shell_debug("group %s", call.name.c_str());
  for (const pmix_proc_t& member : call.members) {
    const Namespace* space = clients_.find_namespace(member.nspace);
    if (space == nullptr) continue;
    for (const auto& [rank, client] : space->clients) {
      bool is_member = member.rank == PMIX_RANK_WILDCARD || member.rank == rank;
      if (is_member && (client.ended || client.lost)) call.part.is_whole = false;
    }
  }
  call.part.number = ++group_calls_;
  peers_->group(call, reply);
}

}  // namespace nacre::pmix
