// SPDX-License-Identifier: Apache-2.0
#include "query_answer.hpp"

#include <algorithm>
#include <ctime>
#include <string_view>
#include <utility>

namespace nacre::pmix {
namespace {

constexpr const char* kKeys =
    PMIX_QUERY_SUPPORTED_KEYS "," PMIX_QUERY_NAMESPACES "," PMIX_QUERY_NAMESPACE_INFO "," PMIX_QUERY_JOB_STATUS
                              "," PMIX_QUERY_PROC_TABLE "," PMIX_QUERY_LOCAL_PROC_TABLE "," PMIX_QUERY_SPAWN_SUPPORT
                              "," PMIX_QUERY_DEBUG_SUPPORT "," PMIX_JOB_SIZE "," PMIX_TIME_REMAINING;

}  // namespace

void QueryAnswer::find(const std::vector<ClientQuery>& queries, double seconds) {
  for (const ClientQuery& each : queries) {
    for (const std::string& key : each.keys) {
      ++keys_;
      if (find_key(key, each.qualifiers, seconds)) ++found_;
    }
  }
  close();
}

void QueryAnswer::close() {
  if (--open_ > 0) return;
  pmix_status_t status = PMIX_SUCCESS;
  if (found_ < keys_) status = found_ > 0 ? PMIX_ERR_PARTIAL_SUCCESS : PMIX_ERR_NOT_SUPPORTED;
  answer(reply_, status, std::move(results_));
}

// Of the namespace that a qualifier names, else of the job's tasks.
bool QueryAnswer::find_key(const std::string& key, const InfoList& qualifiers, double seconds) {
  std::string nspace = clients_.home();
  if (const pmix_value_t* named = qualifiers.find(PMIX_NSPACE)) nspace = text_of(*named).value_or(nspace);
  const Namespace* space = clients_.find_namespace(nspace);
  if (key == PMIX_QUERY_SUPPORTED_KEYS) {
    results_.string(PMIX_QUERY_SUPPORTED_KEYS, kKeys);
  } else if (key == PMIX_QUERY_NAMESPACES) {
    std::string names;
    for (const auto& [name, each] : clients_.namespaces()) names += (names.empty() ? "" : ",") + name;
    results_.string(PMIX_QUERY_NAMESPACES, names);
  } else if (key == PMIX_QUERY_NAMESPACE_INFO) {
    add_namespaces();
  } else if (key == PMIX_QUERY_SPAWN_SUPPORT) {
    results_.string(PMIX_QUERY_SPAWN_SUPPORT, PMIX_WDIR);
  } else if (key == PMIX_QUERY_DEBUG_SUPPORT) {
    results_.string(PMIX_QUERY_DEBUG_SUPPORT, "");
  } else if (key == PMIX_TIME_REMAINING) {
    return add_time_remaining();
  } else if (space == nullptr) {
    return false;
  } else if (key == PMIX_JOB_SIZE) {
    results_.number(PMIX_JOB_SIZE, space->facts.size());
  } else if (key == PMIX_QUERY_JOB_STATUS) {
    pmix_status_t running = PMIX_SUCCESS;
    results_.add(PMIX_QUERY_JOB_STATUS, &running, PMIX_STATUS);
  } else if (key == PMIX_QUERY_PROC_TABLE) {
    ++open_;
    peers_.list(nspace, seconds, [self = shared_from_this(), nspace](const ProcessTables::Rows& rows) {
      self->add_table(PMIX_QUERY_PROC_TABLE, nspace, rows);
      self->close();
    });
  } else if (key == PMIX_QUERY_LOCAL_PROC_TABLE) {
    ProcessTables::Rows rows;
    for (ProcessRow& row : clients_.rows_of(nspace)) rows[row.rank] = std::move(row);
    add_table(PMIX_QUERY_LOCAL_PROC_TABLE, nspace, rows);
  } else {
    return false;
  }
  return true;
}

void QueryAnswer::add_namespaces() {
  InfoList all;
  for (const auto& [name, each] : clients_.namespaces()) {
    all.array(PMIX_JOB_INFO_ARRAY,
              std::move(InfoList().string(PMIX_NSPACE, name).number(PMIX_JOB_SIZE, each.facts.size())));
  }
  results_.array(PMIX_QUERY_NAMESPACE_INFO, std::move(all));
}

bool QueryAnswer::add_time_remaining() {
  double expiration = 0;
  if (flux_shell_info_unpack(shell_, "{s:{s:{s?F}}}", "R", "execution", "expiration", &expiration) < 0)
    return false;
  if (expiration <= 0) return false;
  double left = expiration - static_cast<double>(std::time(nullptr));
  results_.number(PMIX_TIME_REMAINING, static_cast<std::uint32_t>(std::max(left, 0.0)));
  return true;
}

// Of a process of another shell that has sent no row.
pmix_proc_state_t QueryAnswer::state_from_afar(Rank number) const {
  const std::uint32_t shell = peers_.processes().find(number)->node;
  if (lost_.count(shell) > 0) return PMIX_PROC_STATE_COMM_FAILED;
  return peers_.has_ended(number) ? PMIX_PROC_STATE_TERMINATED : PMIX_PROC_STATE_UNDEF;
}

// The local table has this shell's processes only.
void QueryAnswer::add_table(const char* key, const std::string& nspace, ProcessTables::Rows rows) {
  const JobShells& shells = clients_.shells();
  std::vector<pmix_proc_info_t> out;
  for (Rank number : peers_.processes().numbers_of(nspace)) {
    const ProcessMap::Place& place = *peers_.processes().find(number);
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
  results_.add(key, &array, PMIX_DATA_ARRAY);
}

}  // namespace nacre::pmix
