// SPDX-License-Identifier: Apache-2.0
//
// PMIx_Query_info: what libpmix cannot answer itself.
#include <sys/wait.h>

#include <algorithm>
#include <ctime>

#include "service.hpp"

namespace nacre::pmix {
namespace {

constexpr const char* kKeys =
    PMIX_QUERY_SUPPORTED_KEYS "," PMIX_QUERY_NAMESPACES "," PMIX_QUERY_NAMESPACE_INFO "," PMIX_QUERY_JOB_STATUS
                              "," PMIX_QUERY_PROC_TABLE "," PMIX_QUERY_LOCAL_PROC_TABLE "," PMIX_QUERY_SPAWN_SUPPORT
                              "," PMIX_QUERY_DEBUG_SUPPORT "," PMIX_JOB_SIZE "," PMIX_TIME_REMAINING;

bool add_time_remaining(flux_shell_t* shell, InfoList& results) {
  double expiration = 0;
  if (flux_shell_info_unpack(shell, "{s:{s:{s?F}}}", "R", "execution", "expiration", &expiration) < 0) return false;
  if (expiration <= 0) return false;
  double left = expiration - static_cast<double>(std::time(nullptr));
  results.number(PMIX_TIME_REMAINING, static_cast<std::uint32_t>(std::max(left, 0.0)));
  return true;
}

}  // namespace

// What one call of a client asks for; other shells may have to be asked.
struct Service::Answer {
  InfoReply reply;
  InfoList results = {};
  std::size_t asked = 0, answered = 0;
  std::size_t open = 1;  // so much is still to come

  void close() {
    if (--open > 0) return;
    pmix_status_t status = PMIX_SUCCESS;
    if (answered < asked) status = answered > 0 ? PMIX_ERR_PARTIAL_SUCCESS : PMIX_ERR_NOT_SUPPORTED;
    pmix::answer(reply, status, std::move(results));
  }
};

void Service::query(const std::vector<Query>& queries, InfoReply reply) {
  auto answer = std::make_shared<Answer>(Answer{reply});
  for (const Query& each : queries) {
    for (const std::string& key : each.keys) {
      ++answer->asked;
      if (query_key(key, each.qualifiers, answer)) ++answer->answered;
    }
  }
  answer->close();
}

// Answers for the namespace that a qualifier names, else for the job's tasks.
bool Service::query_key(const std::string& key, const InfoList& qualifiers, const std::shared_ptr<Answer>& answer) {
  InfoList& results = answer->results;
  std::string nspace = clients_.home();
  if (const pmix_value_t* named = qualifiers.find(PMIX_NSPACE)) nspace = text_of(*named).value_or(nspace);
  const Namespace* space = clients_.find_namespace(nspace);
  if (key == PMIX_QUERY_SUPPORTED_KEYS) {
    results.string(PMIX_QUERY_SUPPORTED_KEYS, kKeys);
  } else if (key == PMIX_QUERY_NAMESPACES) {
    std::string names;
    for (const auto& [name, each] : clients_.namespaces()) names += (names.empty() ? "" : ",") + name;
    results.string(PMIX_QUERY_NAMESPACES, names);
  } else if (key == PMIX_QUERY_NAMESPACE_INFO) {
    InfoList all;
    for (const auto& [name, each] : clients_.namespaces()) {
      all.array(PMIX_JOB_INFO_ARRAY,
                std::move(InfoList().string(PMIX_NSPACE, name).number(PMIX_JOB_SIZE, each.facts.size())));
    }
    results.array(PMIX_QUERY_NAMESPACE_INFO, std::move(all));
  } else if (key == PMIX_QUERY_SPAWN_SUPPORT) {
    results.string(PMIX_QUERY_SPAWN_SUPPORT, PMIX_WDIR);
  } else if (key == PMIX_QUERY_DEBUG_SUPPORT) {
    results.string(PMIX_QUERY_DEBUG_SUPPORT, "");
  } else if (key == PMIX_TIME_REMAINING) {
    return add_time_remaining(shell_, results);
  } else if (space == nullptr) {
    return false;
  } else if (key == PMIX_JOB_SIZE) {
    results.number(PMIX_JOB_SIZE, space->facts.size());
  } else if (key == PMIX_QUERY_JOB_STATUS) {
    pmix_status_t running = PMIX_SUCCESS;
    results.add(PMIX_QUERY_JOB_STATUS, &running, PMIX_STATUS);
  } else if (key == PMIX_QUERY_PROC_TABLE) {
    ++answer->open;
    peers_->list(nspace, times_.list, [this, nspace, answer](const ProcessTables::Rows& rows) {
      add_table(answer->results, PMIX_QUERY_PROC_TABLE, nspace, rows);
      answer->close();
    });
  } else if (key == PMIX_QUERY_LOCAL_PROC_TABLE) {
    ProcessTables::Rows rows;
    for (ProcessRow& row : clients_.rows_of(nspace)) rows[row.rank] = std::move(row);
    add_table(results, PMIX_QUERY_LOCAL_PROC_TABLE, nspace, rows);
  } else {
    return false;
  }
  return true;
}

// Of a process of another shell that has sent no row.
pmix_proc_state_t Service::state_from_afar(Rank number) const {
  const std::uint32_t shell = peers_->processes().find(number)->node;
  if (again_.lost.count(shell) > 0) return PMIX_PROC_STATE_COMM_FAILED;
  return peers_->has_ended(number) ? PMIX_PROC_STATE_TERMINATED : PMIX_PROC_STATE_UNDEF;
}

// The local table has this shell's processes only.
void Service::add_table(InfoList& results, const char* key, const std::string& nspace, ProcessTables::Rows rows) {
  const JobShells& shells = clients_.shells();
  std::vector<pmix_proc_info_t> out;
  for (Rank number : peers_->processes().numbers_of(nspace)) {
    const ProcessMap::Place& place = *peers_->processes().find(number);
    if (key == std::string_view(PMIX_QUERY_LOCAL_PROC_TABLE) && place.node != shells.own) continue;
    auto known = rows.find(place.rank);
    if (known == rows.end())
      known = rows.emplace(place.rank, ProcessRow{place.rank, 0, state_from_afar(number), 0, {}}).first;
    pmix_proc_info_t& row = out.emplace_back();
    row.proc = proc_of(nspace, place.rank);
    row.hostname = const_cast<char*>(shells.hosts.at(place.node).c_str());
    row.executable_name = known->second.command.data();
    row.pid = known->second.pid;
    row.exit_code = known->second.exit_code;
    row.state = known->second.state;
  }
  pmix_data_array_t array{PMIX_PROC_INFO, out.size(), out.data()};
  results.add(key, &array, PMIX_DATA_ARRAY);
}

}  // namespace nacre::pmix
