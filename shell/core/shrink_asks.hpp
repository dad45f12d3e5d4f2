// SPDX-License-Identifier: Apache-2.0
//
// Orders to shrink, from the plugins of all shells: the leader serves its own, and those of others, which come to
// it, and their answers back, by announcements. Each costs a message to every shell, as the shrink itself does.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string_view>

#include "core/shell_group.hpp"
#include "plugin/host.hpp"
#include "value/shrunk.hpp"

namespace nacre::core {

class ShrinkAsks {
 public:
  using WhenShrunk = plugin::Host::WhenShrunk;
  // The leader's: what an order does.
  using Serve = std::function<void(const value::ShrinkOrder&, WhenShrunk)>;

  // Both must outlive it.
  ShrinkAsks(plugin::Host& host, ShellGroup& shells) : host_(host), shells_(shells) {}

  void serve(Serve order);
  // See plugin::Host::shrink().
  plugin::Registration ask(const value::ShrinkOrder& order, WhenShrunk news);
  // What is open, and what is asked from now on, gets this error.
  void end(const Error& why);

 private:
  static constexpr std::string_view kAskTopic = "shell.shrink-ask";
  static constexpr std::string_view kAnswerTopic = "shell.shrink-answer";

  using Number = std::uint64_t;

  Result<void> send(Number number, const value::ShrinkOrder& order);
  void announced(std::string_view topic, std::string_view bytes);
  void asked(const Json& ask);
  void answered(const Json& answer);
  void pass_on(Number number, const Result<Json>& news, bool is_last);

  plugin::Host& host_;
  ShellGroup& shells_;
  Serve serve_;
  plugin::Registration announced_;
  std::map<Number, plugin::CallbackList<const Result<Json>&, bool>> open_;
  std::optional<Error> over_;
  Number last_ = 0;
};

}  // namespace nacre::core
