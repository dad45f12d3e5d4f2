// SPDX-License-Identifier: Apache-2.0
//
// Code of a plugin that is called back later, outside of any topic: by a watcher, a future, a message. Whoever
// keeps such a function keeps one of these with it: made while the plugin runs, it remembers whose code it is, so
// that a crash names the plugin, and what is thrown ends the job with a message and goes no further.
#pragma once

#include <exception>
#include <string>
#include <string_view>

#include "capi/capi.hpp"

namespace nacre::capi {

class Callback {
 public:
  // `what`, as in a message: "timer callback". A literal.
  explicit Callback(std::string_view what) : plugin_(plugin::running_plugin_name()), what_(what) {}

  // `code` may destroy this.
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
