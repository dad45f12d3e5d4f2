// SPDX-License-Identifier: Apache-2.0
#include "server.hpp"

#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <memory>
#include <mutex>

#include "callbacks.hpp"

namespace nacre::pmix {
namespace {

// Only the shell's own thread receives its signals.
class BlockedSignals {
 public:
  BlockedSignals() {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~BlockedSignals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;

 private:
  sigset_t before_{};
};

void watch_connections() {
  pmix_status_t code = PMIX_ERR_LOST_CONNECTION;
  PMIx_Register_event_handler(&code, 1, nullptr, 0, lost_connection, nullptr, nullptr);
}

}  // namespace

std::string words_of(pmix_status_t status) {
  return std::string(PMIx_Error_string(status)) + " (" + std::to_string(status) + ")";
}

std::string PmixServer::start(const ServerFacts& facts) {
  // Otherwise libpmix reports a lost connection only after a second, to collect more of them.
  ::setenv("PMIX_MCA_pmix_event_caching_window", "0", 0);
  if (facts.lockless) ::setenv("PMIX_MCA_gds", "hash", 1);
  InfoList info;
  info.string(PMIX_SERVER_NSPACE, facts.nspace).rank(PMIX_SERVER_RANK, facts.rank);
  info.string(PMIX_SERVER_TMPDIR, facts.directory).string(PMIX_SYSTEM_TMPDIR, facts.directory);
  info.string(PMIX_HOSTNAME, facts.host).number(PMIX_NODEID, facts.rank);
  info.flag(PMIX_SERVER_TOOL_SUPPORT, false).flag(PMIX_SERVER_REMOTE_CONNECTIONS, false);
  BlockedSignals blocked;
  pmix_server_module_t module = server_module();
  pmix_status_t status = PMIx_server_init(&module, info.data(), info.size());
  if (status != PMIX_SUCCESS) return words_of(status);
  runs_ = true;
  watch_connections();
  return {};
}

void PmixServer::stop() {
  if (!runs_) return;
  PMIx_server_finalize();
  runs_ = false;
}

// Of a process that it does not know it has nothing to forget.
bool PmixServer::answers(double seconds) {
  struct Answer {
    std::mutex mutex;
    std::condition_variable come;
    bool is_there = false;
  };
  auto answer = std::make_shared<Answer>();
  auto done = [](pmix_status_t, void* data) {
    std::unique_ptr<std::shared_ptr<Answer>> own(static_cast<std::shared_ptr<Answer>*>(data));
    std::lock_guard lock((*own)->mutex);
    (*own)->is_there = true;
    (*own)->come.notify_one();
  };
  pmix_proc_t nobody = proc_of("nobody", 0);
  PMIx_server_deregister_client(&nobody, done, new std::shared_ptr<Answer>(answer));
  std::unique_lock lock(answer->mutex);
  return answer->come.wait_for(lock, std::chrono::duration<double>(seconds), [&] { return answer->is_there; });
}

std::string PmixServer::environment(const pmix_proc_t& proc,
                                    std::vector<std::pair<std::string, std::string>>& variables) {
  // An empty environment, not none: with none, if `environ` is none too, libpmix uses the shell's own.
  auto** env = static_cast<char**>(std::calloc(1, sizeof(char*)));
  pmix_status_t status = PMIx_server_setup_fork(&proc, &env);
  for (char** each = env; each != nullptr && *each != nullptr; ++each) {
    std::string text = *each;
    std::free(*each);
    std::size_t equals = text.find('=');
    if (equals != std::string::npos) variables.emplace_back(text.substr(0, equals), text.substr(equals + 1));
  }
  std::free(env);
  return status == PMIX_SUCCESS ? std::string() : words_of(status);
}

void PmixServer::remove_job(const std::string& nspace) {
  PMIx_server_deregister_nspace(nspace.c_str(), nullptr, nullptr);
}

void PmixServer::count_again(const std::string& nspace, int processes) {
  auto info = std::make_unique<InfoList>();
  info->flag(PMIX_REGISTER_NODATA, true);
  auto done = [](pmix_status_t, void* data) { delete static_cast<InfoList*>(data); };
  pmix_status_t status =
      PMIx_server_register_nspace(nspace.c_str(), processes, info->data(), info->size(), done, info.get());
  if (status == PMIX_SUCCESS) (void)info.release();
}

std::string PmixServer::add_process(const pmix_proc_t& proc) {
  pmix_status_t status = PMIx_server_register_client(&proc, ::getuid(), ::getgid(), nullptr, nullptr, nullptr);
  return status == PMIX_SUCCESS || status == PMIX_OPERATION_SUCCEEDED ? std::string() : words_of(status);
}

void PmixServer::forget(const pmix_proc_t& proc) {
  PMIx_server_deregister_client(&proc, process_forgotten, new pmix_proc_t(proc));
}

void PmixServer::find_modex(const pmix_proc_t& proc, std::uintptr_t question) {
  auto* passed_on = reinterpret_cast<void*>(question);
  pmix_status_t status = PMIx_server_dmodex_request(&proc, modex_found, passed_on);
  if (status != PMIX_SUCCESS) modex_found(status, nullptr, 0, passed_on);
}

void PmixServer::look_up_key(const pmix_proc_t& proc, const std::string& key, std::uintptr_t question) {
  struct Search {
    std::string key;
    InfoList how;
    std::uintptr_t question;
  };
  std::unique_ptr<Search> search(new Search{key, {}, question});
  pmix_scope_t scope = PMIX_REMOTE;
  search->how.add(PMIX_DATA_SCOPE, &scope, PMIX_SCOPE);
  auto done = [](pmix_status_t status, pmix_value_t* value, void* data) {
    std::unique_ptr<Search> own(static_cast<Search*>(data));
    if (value != nullptr) PMIX_VALUE_RELEASE(value);
    key_looked_up(status, own->question);
  };
  pmix_status_t status =
      PMIx_Get_nb(&proc, search->key.c_str(), search->how.data(), search->how.size(), done, search.get());
  if (status != PMIX_SUCCESS) return key_looked_up(status, question);
  (void)search.release();
}

void PmixServer::add_resources(InfoList resources, InfoReply reply, InfoList results) {
  struct Waiting {
    InfoList resources;
    InfoReply reply;
    InfoList results;
  };
  std::unique_ptr<Waiting> waiting(new Waiting{std::move(resources), reply, std::move(results)});
  auto done = [](pmix_status_t status, void* data) {
    std::unique_ptr<Waiting> own(static_cast<Waiting*>(data));
    answer(own->reply, status, std::move(own->results));
  };
  InfoList& infos = waiting->resources;
  pmix_status_t status = PMIx_server_register_resources(infos.data(), infos.size(), done, waiting.get());
  if (status == PMIX_SUCCESS) {
    (void)waiting.release();
  } else {
    answer(reply, status, {});
  }
}

void PmixServer::notify(pmix_status_t code, const pmix_proc_t& source, pmix_data_range_t range, InfoList about) {
  auto kept = std::make_unique<InfoList>(std::move(about));
  auto done = [](pmix_status_t, void* data) { delete static_cast<InfoList*>(data); };
  pmix_status_t status = PMIx_Notify_event(code, &source, range, kept->data(), kept->size(), done, kept.get());
  if (status == PMIX_SUCCESS) (void)kept.release();
}

}  // namespace nacre::pmix
