// SPDX-License-Identifier: Apache-2.0
//
// What a call of a topic costs: with no subscriber, and with each of 16 plugins subscribed to it.

#include "plugin/stack.hpp"

using namespace nacre;          // NOLINT
using namespace nacre::plugin;  // NOLINT

namespace {

constexpr int kPlugins = 16;  // about as many as are built in
constexpr int kCalls = 1000000;

double nanoseconds_of_a_call(Stack& stack, const std::string& topic) {
  auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < kCalls; ++i) {
    Call call(topic);
    if (!stack.call(call)) return -1;
  }
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - begin).count() / kCalls;
}

}  // namespace

int main() {
  Stack stack;
  int handled = 0;
  for (int i = 0; i < kPlugins; ++i) {
    auto plugin = std::make_unique<Plugin>(fmt::format("plugin{}", i));
    plugin->on("shell.*", [](Call&) { return Result<void>(); });
    plugin->on("heard", [&handled](Call&) {
      ++handled;
      return Result<void>();
    });
    stack.push(std::move(plugin));
  }
  double unheard = nanoseconds_of_a_call(stack, "task.init");
  double heard = nanoseconds_of_a_call(stack, "heard");
  fmt::print("one call of a topic, {} plugins: {:.0f} ns if none listens, {:.0f} ns if all do\n", kPlugins, unheard,
             heard);
  return handled == kPlugins * kCalls ? 0 : 1;
}
