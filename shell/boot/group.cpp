// SPDX-License-Identifier: Apache-2.0
#include "boot/group.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <chrono>

#include "base/json.hpp"

namespace nacre::boot {

Result<EventLog> EventLog::create(const std::string& path) {
  UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0644));
  if (!fd) return system_error(errno, "--eventlog: " + path);
  return EventLog(path, std::move(fd));
}

Result<void> EventLog::append(double timestamp, std::string_view name, const Json& context) {
  Json entry{{"timestamp", timestamp}, {"name", name}};
  if (!context.empty()) entry["context"] = context;
  std::string line = dump_json(entry) + '\n';
  std::string_view rest = line;
  while (!rest.empty()) {
    ssize_t written = ::write(fd_.get(), rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return system_error(errno, "--eventlog: " + path_);
    rest.remove_prefix(static_cast<std::size_t>(written));
  }
  return {};
}

void Alone::enter(std::string_view /*barrier*/, std::function<void(Result<void>)> done) { done({}); }

Result<void> Alone::post(std::string_view event, const Json& context) {
  if (!eventlog_) return {};
  auto now = std::chrono::system_clock::now().time_since_epoch();
  return eventlog_->append(std::chrono::duration<double>(now).count(), event, context);
}

}  // namespace nacre::boot
