// SPDX-License-Identifier: Apache-2.0
//
// oom.adjust=N: how ready the kernel is to kill each task when memory runs out, -1000 (never; needs privilege) to
// 1000. See oom_score_adj in proc(5).
#include <fmt/format.h>

#include "base/json.hpp"
#include "plugins/builtins.hpp"

namespace nacre::plugins {
namespace {

class Oom final : public plugin::Plugin {
 public:
  explicit Oom(plugin::Host& host) : Plugin("oom"), host_(host) {
    on("shell.init", [this](plugin::Call&) { return read(); });
    on("task.init", [this](plugin::Call&) {
      host_.current_task()->command().setup.oom_score_adj = adjust_;
      return Result<void>();
    });
  }

 private:
  Result<void> read() {
    if (auto whole = host_.options().at("oom")) CHECK_OK(whole->only_keys({"adjust"}));
    if (auto option = host_.options().at("oom.adjust"))
      adjust_ = fmt::format("{}", TRY(option->integer(-1000, 1000)));
    return {};
  }

  plugin::Host& host_;
  std::optional<std::string> adjust_;
};

}  // namespace

PluginPtr make_oom(plugin::Host& host) { return std::make_unique<Oom>(host); }

}  // namespace nacre::plugins
