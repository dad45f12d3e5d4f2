// SPDX-License-Identifier: Apache-2.0
//
// batch: a jobspec with attributes.system.batch, as older versions of flux-batch(1) write it, {"script": TEXT,
// "broker-opts": [OPT, ...]}: each task is a broker of Flux, `flux broker OPT...`, and that of task 0 runs the
// script, which is the file `script` in FLUX_JOB_TMPDIR, with the arguments of the jobspec's command behind its
// first word. Later ones have the script in attributes.system.files, and the brokers as the command. A command that
// is `flux broker` or `flux start` already stays as it is.
#include <fcntl.h>

#include "base/file.hpp"
#include "plugins/builtins.hpp"

namespace nacre::plugins {
namespace {

constexpr mode_t kScriptMode = 0700;

bool is_broker(const std::vector<std::string>& command) {
  if (command.size() < 2 || (command[1] != "broker" && command[1] != "start")) return false;
  return command[0].substr(command[0].rfind('/') + 1) == "flux";
}

class Batch final : public plugin::Plugin {
 public:
  explicit Batch(plugin::Host& host) : Plugin("batch"), host_(host) {
    on("shell.init", [this] { return prepare(); });
    on("task.init", [this] {
      if (is_batch_) make_broker(*host_.current_task());
    });
  }

 private:
  Result<void> prepare() {
    static const Json::json_pointer kPlace("/attributes/system/batch");
    const job::Jobspec& spec = host_.job().spec;
    const Json& given = find_at(spec.document, kPlace);
    if (given.is_null()) return {};
    JsonAt batch = JsonAt::root(given, "attributes.system.batch");
    JsonAt script = TRY(batch.at("script"));
    std::string text = TRY(script.string());
    if (auto options = TRY(batch.find("broker-opts"))) broker_options_ = TRY(options->strings());
    auto directory = host_.environment().get("FLUX_JOB_TMPDIR");
    if (!directory) return script.error("there is no FLUX_JOB_TMPDIR to put it into");
    script_ = fmt::format("{}/script", *directory);
    is_batch_ = !is_broker(spec.command);
    return in(script.path(), write(text));
  }

  [[nodiscard]] Result<void> write(const std::string& text) const {
    UniqueFd file(::open(script_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kScriptMode));
    if (!file) return system_error(errno, script_);
    if (int code = write_all(file.get(), text); code != 0) return system_error(code, script_);
    return {};
  }

  void make_broker(task::Task& task) const {
    std::vector<std::string>& command = task.command().argv;
    std::vector<std::string> out{"flux", "broker"};
    out.insert(out.end(), broker_options_.begin(), broker_options_.end());
    if (task.rank() == 0) {
      out.push_back(script_);
      out.insert(out.end(), command.begin() + 1, command.end());
    }
    command = std::move(out);
  }

  plugin::Host& host_;
  std::string script_;  // a path
  std::vector<std::string> broker_options_;
  bool is_batch_ = false;
};

}  // namespace

PluginPtr make_batch(plugin::Host& host) { return std::make_unique<Batch>(host); }

}  // namespace nacre::plugins
