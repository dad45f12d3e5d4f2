// SPDX-License-Identifier: Apache-2.0
//
// oom.adjust=N: how ready the kernel is to kill each task when memory runs out, -1000 (never; needs privilege) to
// 1000. See oom_score_adj in proc(5). If this shell may not go below its own score, it logs a warning, and the
// tasks have its score.

#include "base/file.hpp"
#include "base/text.hpp"
#include "plugins/builtins.hpp"
#include "task/settings.hpp"

namespace nacre::plugins {
namespace {

constexpr const char* kOwnScore = "/proc/self/oom_score_adj";
constexpr std::size_t kMostScore = 16;  // bytes

class Oom final : public plugin::Plugin {
 public:
  explicit Oom(plugin::Host& host) : Plugin("oom"), host_(host) {
    on("shell.init", [this] { return read(); });
    on("task.init", [this] { host_.current_task()->command().setup.settings.of<task::OomScore>() = adjust_; });
  }

 private:
  Result<void> read() {
    if (auto whole = host_.options().at("oom")) CHECK_OK(whole->only_keys({"adjust"}));
    auto option = host_.options().at("oom.adjust");
    if (!option) return {};
    std::int64_t wanted = TRY(option->integer(-1000, 1000));
    std::string before = TRY(in("oom.adjust", read_file(kOwnScore, kMostScore)));
    auto own = parse_i64(trim(before));
    if (own && wanted < *own && !may_lower_to(wanted, before)) {
      log(host_, *this, Level::warn,
          "oom.adjust: {} is below this shell's own, {}, and needs privilege; tasks have {}", wanted, *own, *own);
      return {};
    }
    adjust_ = fmt::format("{}", wanted);
    return {};
  }

  // The kernel does not report how low a process may go, but a score that was lowered may be raised again.
  static bool may_lower_to(std::int64_t wanted, const std::string& before) {
    int code = task::OomScore::set(fmt::format("{}", wanted));
    if (code == 0) code = task::OomScore::set(before);
    return code != EACCES && code != EPERM;
  }

  plugin::Host& host_;
  std::optional<std::string> adjust_;
};

}  // namespace

PluginPtr make_oom(plugin::Host& host) { return std::make_unique<Oom>(host); }

}  // namespace nacre::plugins
