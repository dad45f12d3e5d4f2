// SPDX-License-Identifier: Apache-2.0
//
// The plugins of a shell, in the order in which they were loaded. If two have the same name the last one loaded
// counts: the older one is removed with all its handlers.
#pragma once

#include <nlohmann/json.hpp>

#include "base/guarded.hpp"
#include "base/json_fwd.hpp"

namespace nacre::plugin {

// A plugin: a name, and handlers that are subscribed to topics by glob(7). Builtins, loaded objects and Lua plugins
// are all Plugins.

// What a topic tells, as a value for builtins: see plugin/events.hpp. Other plugins get its members.
struct TopicEvent {
  virtual ~TopicEvent() = default;
  [[nodiscard]] virtual Json members() const = 0;
};

// One call of a topic, passed from handler to handler.
struct Call {
  explicit Call(std::string_view call_topic) : topic(call_topic) {}
  // `call_event`: it has to outlive the call. Its members are `in`, for the handlers that read them.
  Call(std::string_view call_topic, const TopicEvent& call_event) : topic(call_topic), event(&call_event) {}

  std::string topic;
  const TopicEvent* event = nullptr;
  Json in = Json::object();   // arguments, as the topic defines them
  Json out = Json::object();  // results, as the topic defines them; a later handler sees and may change them
};

// After an error the other plugins are still called; then the call as a whole fails.
using Handler = std::function<Result<void>(Call&)>;

// One that reads no members of an event.
struct EventHandler {
  std::function<Result<void>(const Call&)> take;
  Result<void> operator()(Call& call) const { return take(call); }
};

class Plugin : Noncopyable {
 public:
  struct Subscription {
    std::string topic;  // a glob
    Handler handler;
  };

  // `origin`: "builtin", or the file that it comes from; for messages.
  explicit Plugin(std::string name, std::string origin = "builtin")
      : name_(std::move(name)), origin_(std::move(origin)) {}
  virtual ~Plugin() = default;

  [[nodiscard]] const std::string& name() const { return name_; }
  void set_name(std::string name) { name_ = std::move(name); }
  [[nodiscard]] const std::string& origin() const { return origin_; }
  // The component of nacre that a builtin is; null for others.
  [[nodiscard]] const Component* component() const { return component_; }
  void set_component(const Component* component) { component_ = component; }

  // Subscribes; a second handler for the same glob replaces the first.
  void on(std::string topic, Handler handler);
  // `act`: with the Call or without, and with a Result or without.
  template <typename Act, typename = std::enable_if_t<!std::is_same_v<std::decay_t<Act>, Handler>>>
  void on(std::string topic, Act act) {
    if constexpr (!std::is_invocable_v<Act, Call&>)
      on(std::move(topic), Handler([act = std::move(act)](Call&) -> Result<void> { return done(act); }));
    else if constexpr (std::is_void_v<std::invoke_result_t<Act, Call&>>)
      on(std::move(topic), Handler([act = std::move(act)](Call& call) -> Result<void> { return done(act, call); }));
    else
      on(std::move(topic), Handler(std::move(act)));
  }
  // Subscribes to the topic of a TopicEvent.
  template <typename What, typename Act>
  void on(Act act) {
    auto take = [act = std::move(act)](const Call& call) -> Result<void> {
      if (const auto* event = dynamic_cast<const What*>(call.event)) return done(act, *event);
      const What told = TRY(What::parse(call.in));  // a plugin has made the call
      return done(act, told);
    };
    on(What::kTopic, Handler(EventHandler{std::move(take)}));
  }
  void off(std::string_view topic);
  // The handler that a call of `topic` runs, at most one: the one with the same text, else the first glob that
  // matches.
  [[nodiscard]] const Handler* match(const std::string& topic) const;
  [[nodiscard]] const std::deque<Subscription>& subscriptions() const { return subscriptions_; }
  // Grows with each on() and off(): results of match() may be outdated then.
  [[nodiscard]] unsigned version() const { return version_; }

 private:
  template <typename Act, typename... Args>
  static Result<void> done(const Act& act, Args&... args) {
    if constexpr (std::is_void_v<std::invoke_result_t<const Act&, Args&...>>) {
      act(args...);
      return {};
    } else {
      return act(args...);
    }
  }

  std::string name_;
  std::string origin_;
  std::deque<Subscription> subscriptions_;
  unsigned version_ = 0;
  bool has_globs_ = false;  // among them
  const Component* component_ = nullptr;
};

class Stack {
 public:
  Stack() = default;
  ~Stack();  // in reverse order of loading

  void push(std::unique_ptr<Plugin> plugin);
  [[nodiscard]] const Plugin* find(std::string_view name) const;
  [[nodiscard]] const std::vector<std::unique_ptr<Plugin>>& plugins() const { return plugins_; }

  // Calls `call.topic` on each plugin that has a handler for it, in order; all of them, even if one fails. Returns
  // how many were called, or the first error: `plugin 'NAME': TOPIC: why`. Handlers may load plugins, and make
  // calls themselves.
  Result<int> call(Call& call);
  [[nodiscard]] bool listens(const std::string& topic) { return !listeners(topic).empty(); }
  [[nodiscard]] bool others_listen(const std::string& topic);  // plugins that are no builtins

  // The handler that runs, the innermost one; null: none runs.
  struct Running {
    const Plugin* plugin;
    const std::string* topic;
  };
  [[nodiscard]] const Running* running() const { return running_; }

 private:
  struct Listener {
    Plugin* plugin;
    const Handler* handler;
  };
  const std::vector<Listener>& listeners(const std::string& topic);
  [[nodiscard]] unsigned version() const;
  void drop_replaced();

  std::vector<std::unique_ptr<Plugin>> plugins_;
  std::vector<std::unique_ptr<Plugin>> replaced_;  // kept until no call runs: a handler may replace its own plugin
  std::unordered_map<std::string, std::vector<Listener>> cache_;
  unsigned cached_version_ = 0;
  int depth_ = 0;
  const Running* running_ = nullptr;
};

}  // namespace nacre::plugin
