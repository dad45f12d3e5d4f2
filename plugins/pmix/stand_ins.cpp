// SPDX-License-Identifier: Apache-2.0
#include "stand_ins.hpp"

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

namespace nacre::pmix {
namespace {

bool take_from(std::vector<pmix_proc_t>& list, const pmix_proc_t& proc) {
  return std::erase_if(list, [&](const pmix_proc_t& each) {
           return each.rank == proc.rank && std::strcmp(each.nspace, proc.nspace) == 0;
         }) > 0;
}

}  // namespace

void StandIns::expect_for(const pmix_proc_t& id, int failure) {
  missing_.push_back(id);
  alarms_.after(times_.late_connection, [this, id, failure] {
    if (take_from(missing_, id)) forget(id, failure);
  });
}

void StandIns::connected(const pmix_proc_t& id) { take_from(missing_, id); }

void StandIns::connection_lost(const pmix_proc_t& id) {
  take_from(missing_, id);
  take_from(forgetting_, id);
}

void StandIns::forget(const pmix_proc_t& id, int failure) {
  forgetting_.push_back(id);
  server_.forget(id);
  alarms_.after(times_.answer, [this, id, failure] {
    if (!take_from(forgetting_, id)) return;
    job_.libpmix_may_hang = true;
    job_.is_ending = true;
    flux_shell_raise_exit_status(failure,
                                 "rank %u died while it was connecting, and libpmix does not get over that; not "
                                 "even -o fault-tolerance lets "
                                 "the others go on",
                                 id.rank);
  });
}

void StandIns::forgotten(const pmix_proc_t& id) {
  if (!take_from(forgetting_, id) || job_.is_ending) return;
  if (std::string why = start(id); !why.empty()) {
    shell_warn("%s; collective operations that wait for rank %u will not end", why.c_str(), id.rank);
  }
}

std::string StandIns::start(const pmix_proc_t& id) {
  std::string path = flux_plugin_get_path(plugin_);
  std::size_t slash = path.rfind('/');
  path = (slash == std::string::npos ? std::string() : path.substr(0, slash + 1)) + "pmix-stand-in";
  std::vector<std::pair<std::string, std::string>> variables;
  std::string why = server_.add_process(id);
  if (why.empty()) why = server_.environment(id, variables);
  char* argv[] = {path.data(), nullptr};
  flux_cmd_t* command = flux_cmd_create(1, argv, nullptr);
  for (const auto& [name, value] : variables) flux_cmd_setenvf(command, 1, name.c_str(), "%s", value.c_str());
  flux_subprocess_t* process = flux_local_exec(flux_get_reactor(flux_shell_get_flux(shell_)), 0, command, nullptr);
  if (process == nullptr && why.empty()) why = path + ": " + std::strerror(errno);
  flux_cmd_destroy(command);
  if (process != nullptr) started_.push_back(process);
  return why;
}

void StandIns::clear() {
  for (flux_subprocess_t* process : started_) flux_subprocess_destroy(process);
  started_.clear();
}

}  // namespace nacre::pmix
