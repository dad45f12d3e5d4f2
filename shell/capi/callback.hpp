// SPDX-License-Identifier: Apache-2.0
//
// Code of a plugin that is called later, outside of any topic: by a watcher, a future, or a message. Each such
// function is kept together with a Callback. That is made while the plugin runs and remembers the plugin, so that a
// crash names it, and so that an exception ends the job with a message and goes no further.
#pragma once

#include <exception>
#include <string>
#include <string_view>

#include "capi/capi.hpp"

namespace nacre::capi {

class Callback {
 public:
  // `what` is used in messages, as "timer callback"; it has to be a literal.
  explicit Callback(std::string_view what) : plugin_(plugin::running_plugin_name()), what_(what) {}

  // `code` may destroy this object.
  template <typename Code>
  void run(const Code& code) const {
    const std::string plugin = plugin_;
    const std::string what(what_);
    plugin::CrashScope scope(plugin, what);
    try {
      code();
    } catch (const std::exception& thrown) {
      failed(plugin, what, thrown.what());
    } catch (...) {
      failed(plugin, what, "what is no std::exception");
    }
  }

 private:
  static void failed(const std::string& plugin, const std::string& what, const char* why);

  std::string plugin_;
  std::string_view what_;
};

}  // namespace nacre::capi
