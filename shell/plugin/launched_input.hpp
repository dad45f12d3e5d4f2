// SPDX-License-Identifier: Apache-2.0
//
// The standard input of a job that `nacre run` or `nacre launch` has started, as the tasks get it. It has one
// owner: the launcher at first; when that has gone or lost it, a front end, or nobody.
//
//   launcher --own()--> other --leave()--> nobody --own()--> other
//   launcher --goes---> nobody             all of them --end()--> ended
#pragma once

#include <functional>
#include <string_view>

namespace nacre::plugin {

class LaunchedInput {
 public:
  virtual ~LaunchedInput() = default;

  // What becomes of it when its owner goes without having ended it. True: it ends. By default it waits for another
  // one.
  virtual void ends_with_owner(bool ends) = 0;
  [[nodiscard]] virtual bool has_ended() const = 0;
  [[nodiscard]] virtual bool is_launchers() const = 0;

  // From now on the caller is the owner. What the launcher has sent comes first; what it sends from now on is
  // dropped. `on_room`: write() has returned false: there is room again.
  virtual void own(std::function<void()> on_room) = 0;
  // ---- for the owner
  // Takes all. False: there is no room for more. What no task reads any more is dropped.
  virtual bool write(std::string_view bytes) = 0;
  virtual void end() = 0;
  virtual void leave() = 0;
};

}  // namespace nacre::plugin
