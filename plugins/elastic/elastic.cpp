// SPDX-License-Identifier: Apache-2.0
//
// elastic.manager=auto|off|COMMAND: when shells have left the job by a shrink, their nodes go back to the manager
// of the job's allocation before the shrink is answered. This runs on the leader; nothing happens in a job that
// does not shrink.

#include "base/program.hpp"
#include "job/batch_system.hpp"
#include "plugins/builtins.hpp"
#include "task/subprocess.hpp"

namespace nacre::plugins {
namespace {

class Elastic final : public plugin::Plugin, private plugin::NodeRelease {
 public:
  explicit Elastic(plugin::Host& host) : Plugin("elastic"), host_(host), run_(host.loop(), host.children()) {
    on("shell.init", [this] { return read(); });
  }
  ~Elastic() override {
    if (offers_) host_.offer_release(nullptr);
  }

 private:
  struct Request {
    value::Hostlist hosts;
    std::function<void(const Json& outcome)> done;
  };

  Result<void> read() {
    std::string manager = "auto";
    if (auto whole = host_.options().at(name())) CHECK_OK(whole->only_keys({"manager"}));
    if (auto option = host_.options().at("elastic.manager")) {
      if (!option->json().is_boolean()) manager = TRY(option->string());
      if (option->json() == false) manager = "off";
      if (option->json() == true || manager.empty()) return option->expected("auto, off or a command");
    }
    bool is_alone = host_.job().shells() == 1 && host_.bulk() == nullptr;
    if (manager == "off" || !host_.job().leads() || is_alone) return {};
    manager_ =
        manager == "auto" ? job::BatchSystem::of_environment(own_variable) : job::BatchSystem::of_command(manager);
    if (manager_.kind == job::BatchSystem::Kind::none) return {};
    offers_ = true;
    host_.offer_release(this);
    return {};
  }

  // Requests are served one after another, as each may change what the next one has to know.
  void release(const value::Hostlist& hosts, std::function<void(const Json& outcome)> done) override {
    waiting_.push_back({hosts, std::move(done)});
    if (waiting_.size() == 1) begin();
  }

  void begin() {
    if (auto why = manager_.obstacle()) return end(invalid(*why));
    const value::Hostlist& hosts = waiting_.front().hosts;
    task::CommandRun::What what;
    job::BatchSystem::Command command = manager_.release(hosts);
    what.argv = std::move(command.argv);
    what.name = std::move(command.name);
    what.variables = {{"NACRE_RELEASED_HOSTS", hosts.str()}, {"NACRE_JOB_ID", host_.job().id.f58_plain()}};
    Result<void> started =
        run_.start(std::move(what), [this](const Result<std::string>& released) { end(released); });
    if (!started) end(started.error());
  }

  void end(const Result<std::string>& released) {
    Request request = std::move(waiting_.front());
    waiting_.pop_front();
    Json outcome = job::release_outcome(manager_.name, request.hosts, released);
    if (!waiting_.empty()) begin();
    request.done(outcome);
  }

  plugin::Host& host_;
  task::CommandRun run_;
  job::BatchSystem manager_;
  bool offers_ = false;
  std::deque<Request> waiting_;  // the first one is served
};

}  // namespace

PluginPtr make_elastic(plugin::Host& host) { return std::make_unique<Elastic>(host); }

}  // namespace nacre::plugins
