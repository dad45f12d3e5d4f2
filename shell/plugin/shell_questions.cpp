// SPDX-License-Identifier: Apache-2.0
#include "plugin/shell_questions.hpp"

#include <utility>

namespace nacre::plugin {

Registration serve_questions(Host& host, bulk::RecordQueue& records, std::string topic,
                             std::function<void(bulk::Id origin, std::string_view bytes)> take,
                             std::function<void(std::string_view question)> asked) {
  bulk::Port* port = host.bulk();
  if (port == nullptr) return {};
  records.serve(*port, std::move(take));
  if (host.job().shell_rank == 0) return {};
  return host.on_announcement(
      [topic = std::move(topic), asked = std::move(asked)](std::string_view announced, std::string_view bytes) {
        if (announced == topic) asked(bytes);
      });
}

}  // namespace nacre::plugin
