// SPDX-License-Identifier: Apache-2.0
#include "group/event_log.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <tuple>

#include "base/file.hpp"
#include "base/json.hpp"

namespace nacre::group {

Result<EventLog> EventLog::create(const std::string& path) {
  UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0644));
  if (!fd) return system_error(errno, "--eventlog: " + path);
  return EventLog(path, std::move(fd));
}

Result<void> EventLog::append(double timestamp, std::string_view name, const Json& context) {
  Json entry{{"timestamp", timestamp}, {"name", name}};
  if (!context.empty()) entry["context"] = context;
  off_t end = ::lseek(fd_.get(), 0, SEEK_END);
  int code = write_all(fd_.get(), dump_json(entry) + '\n');
  if (code == 0) return {};
  // The next event must not continue a part of this one. Only a file can be cut; another target has lost its
  // reader.
  std::ignore = ::ftruncate(fd_.get(), end);
  return system_error(code, "--eventlog: " + path_);
}

}  // namespace nacre::group
