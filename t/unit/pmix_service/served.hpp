// SPDX-License-Identifier: Apache-2.0
//
// The plugin pmix's service in a FakeHost, over a Server that only records its calls. The test calls the functions
// that libpmix's thread would call.
#pragma once

#include "capi/capi.hpp"

#include "fake_host.hpp"
#include "folder.hpp"
#include "service.hpp"
#include "spawns.hpp"

namespace nacre::pmix {

class FakeServer final : public ServerApi {
 public:
  struct Notice {
    pmix_status_t code;
    pmix_rank_t rank;
    std::int64_t exit_code;
    bool operator==(const Notice&) const = default;
  };

  std::string start(const ServerFacts& with) override;
  void stop() override;
  void abandon() override;
  [[nodiscard]] bool runs() const override { return runs_; }
  [[nodiscard]] bool answers(double /*seconds*/) override { return error_of("answers").empty(); }
  std::string add_job(const JobFacts& facts) override;
  void remove_job(const std::string& nspace) override { calls.push_back("remove_job " + nspace); }
  std::string environment(const pmix_proc_t& proc,
                          std::vector<std::pair<std::string, std::string>>& variables) override;
  void count_again(const std::string& nspace, int processes) override;
  std::string add_process(const pmix_proc_t& proc) override;
  void forget(const pmix_proc_t& proc) override;
  void notify(pmix_status_t code, const pmix_proc_t& source, pmix_data_range_t range, InfoList about) override;
  void find_modex(const pmix_proc_t& proc, std::uintptr_t question) override;
  void look_up_key(const pmix_proc_t& proc, const std::string& key, std::uintptr_t question) override;
  void add_resources(InfoList resources, InfoReply reply, InfoList results) override;
  void define_set(const std::string& name, const std::vector<pmix_proc_t>& members) override;
  void delete_set(const std::string& name) override { calls.push_back("delete_set " + name); }

  std::map<std::string, std::string> errors;  // of a function: why it fails
  std::vector<std::string> calls;             // but environment and notify: the function and what about
  std::vector<Notice> notices;
  std::optional<ServerFacts> facts;
  std::vector<JobFacts> jobs;

 private:
  std::string error_of(const std::string& function) const;
  bool runs_ = false;
};

// The answers to libpmix.
struct Answers {
  std::vector<pmix_status_t> statuses;
  std::string nspace;  // of a spawn
  static void op(pmix_status_t status, void* data) { static_cast<Answers*>(data)->statuses.push_back(status); }
  static void info(pmix_status_t status, pmix_info_t* info, std::size_t ninfo, void* data,
                   pmix_release_cbfunc_t release, void* kept);
  static void spawned(pmix_status_t status, char* nspace, void* data);
};

struct Served {
  // `nodes`: the number of tasks of each. This is shell 0; it hears its own messages.
  explicit Served(std::uint32_t tasks = 3, const Json& options = Json::object(), std::uint32_t nodes = 1,
                  Service::Times times = {});
  ~Served();

  void start();        // and its tasks
  void start_tasks();  // that have no processes but those that are given
  void listen();       // to the topics about spawns, after the builtin plugin pmi, which is loaded here
  // Acts as a call of a topic.
  Json call(int (Spawns::*handler)(flux_plugin_arg_t*), const Json& in);
  void call(void (Spawns::*handler)(flux_plugin_arg_t*), const Json& in);
  std::map<std::size_t, pid_t> pids;

  // As from libpmix's thread; the service has not read it yet.
  pmix_status_t post_connected(pmix_rank_t rank);
  pmix_status_t post_finalized(pmix_rank_t rank);
  pmix_status_t post_abort(pmix_rank_t rank, int status, const char* message, const std::vector<pmix_rank_t>& whom);
  void read() { service->inbox().read(); }
  // As the functions above; then the service reads it.
  void connect(pmix_rank_t rank) { post_connected(rank), read(); }
  void finalize(pmix_rank_t rank) { post_finalized(rank), read(); }
  void abort(pmix_rank_t rank, int status, const char* message = "N/A", const std::vector<pmix_rank_t>& whom = {}) {
    post_abort(rank, status, message, whom), read();
  }
  void end(std::size_t local_id, const value::WaitStatus& status);
  void exit(std::size_t local_id, int code) { end(local_id, value::WaitStatus::exited(code)); }
  void die(std::size_t local_id, int signum) { end(local_id, value::WaitStatus::killed(signum)); }

  [[nodiscard]] std::vector<std::string> raised() const;  // "CODE: MESSAGE", without a process's number
  [[nodiscard]] std::vector<std::string> logged(std::string_view level) const;  // without a process's number

  kit::TemporaryFolder folder;
  std::string directory = folder.path();  // the job's
  kit::FakeHost host;
  flux_plugin* plugin = nullptr;  // of the host's stack
  std::vector<std::string> said;  // announcements, by bytes
  plugin::Registration announced;
  Answers answers;
  FakeServer* server = nullptr;  // the service's
  std::unique_ptr<Service> service;
};

}  // namespace nacre::pmix
