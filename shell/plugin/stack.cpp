// SPDX-License-Identifier: Apache-2.0
#include "plugin/stack.hpp"

#include "base/current_call.hpp"
#include "base/text.hpp"

namespace nacre::plugin {

Stack::~Stack() {
  while (!plugins_.empty()) plugins_.pop_back();
}

void Stack::push(std::unique_ptr<Plugin> plugin) {
  cache_.clear();
  for (auto it = plugins_.begin(); it != plugins_.end(); ++it) {
    if ((*it)->name() != plugin->name()) continue;
    replaced_.push_back(std::move(*it));
    plugins_.erase(it);
    break;
  }
  plugins_.push_back(std::move(plugin));
  cached_version_ = version();
  if (depth_ == 0) drop_replaced();
}

const Plugin* Stack::find(std::string_view name) const {
  for (const auto& each : plugins_) {
    if (each->name() == name) return each.get();
  }
  return nullptr;
}

namespace {

// An exception is the error of a plugin that the job needs; from other plugins it is only reported.
Result<void> run(const Plugin& plugin, const Handler& handler, Call& call) {
  CurrentCall current(plugin.name(), call.topic);
  const Component* component = plugin.component();
  Result<void> result;
  if (component != nullptr && !component->is_vital) {
    guarded(component, [&] { result = handler(call); });
  } else {
    const InComponent in_component(component);
    result = caught([&] { return handler(call); });
  }
  return result;
}

}  // namespace

Result<int> Stack::call(Call& call) {
  // A copy: a handler that loads a plugin, or subscribes, changes the list for the next call.
  const std::vector<Listener> targets = listeners(call.topic);
  std::optional<Error> failed;
  ++depth_;
  for (const Listener& each : targets) {
    // A copy too: a handler may replace or unsubscribe itself.
    const Handler handler = *each.handler;
    if (!handler) continue;
    if (call.event != nullptr && call.in.empty() && handler.target<EventHandler>() == nullptr)
      call.in = call.event->members();
    Running running{each.plugin, &call.topic};
    const Running* outer = std::exchange(running_, &running);
    Result<void> result = run(*each.plugin, handler, call);
    running_ = outer;
    if (!result && !failed) {
      failed = in(fmt::format("plugin '{}': {}", each.plugin->name(), call.topic), std::move(result).error());
    }
  }
  if (--depth_ == 0) drop_replaced();
  if (failed) return *std::move(failed);
  return static_cast<int>(targets.size());
}

// Taken out first: a plugin that is destroyed may make a call, which comes here again.
void Stack::drop_replaced() { auto gone = std::exchange(replaced_, {}); }

bool Stack::others_listen(const std::string& topic) {
  const auto& all = listeners(topic);
  return std::any_of(all.begin(), all.end(),
                     [](const Listener& each) { return each.plugin->origin() != "builtin"; });
}

const std::vector<Stack::Listener>& Stack::listeners(const std::string& topic) {
  if (unsigned now = version(); now != cached_version_) {
    cache_.clear();
    cached_version_ = now;
  }
  auto [it, fresh] = cache_.try_emplace(topic);
  if (fresh) {
    for (const auto& each : plugins_) {
      if (const Handler* handler = each->match(topic)) it->second.push_back({each.get(), handler});
    }
  }
  return it->second;
}

unsigned Stack::version() const {
  unsigned sum = 0;
  for (const auto& each : plugins_) sum += each->version();
  return sum;
}

// ---- plugin -----------------------------------------------------------------------------

void Plugin::on(std::string topic, Handler handler) {
  ++version_;
  for (Subscription& each : subscriptions_) {
    if (each.topic == topic) {
      each.handler = std::move(handler);
      return;
    }
  }
  has_globs_ = has_globs_ || is_glob(topic);
  subscriptions_.push_back({std::move(topic), std::move(handler)});
}

void Plugin::off(std::string_view topic) {
  ++version_;
  // Emptied, not erased: a call in progress may still refer to it.
  for (Subscription& each : subscriptions_) {
    if (each.topic == topic) each = Subscription{};
  }
}

const Handler* Plugin::match(const std::string& topic) const {
  for (const Subscription& each : subscriptions_) {
    if (each.handler && each.topic == topic) return &each.handler;
  }
  if (!has_globs_) return nullptr;
  for (const Subscription& each : subscriptions_) {
    if (each.handler && is_glob(each.topic) && glob_match(each.topic, topic)) return &each.handler;
  }
  return nullptr;
}

}  // namespace nacre::plugin
