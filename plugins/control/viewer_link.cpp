// SPDX-License-Identifier: Apache-2.0
#include "plugins/control/viewer_link.hpp"

#include <utility>

namespace nacre::plugins {

Viewers::Link viewer_link(const std::function<control::ControlServer*()>& server,
                          std::function<std::optional<int>()> code_of_tasks) {
  using ClientId = Viewers::ClientId;
  Viewers::Link link;
  link.room = [server](ClientId client, std::uint64_t id) {
    auto* there = server();
    return there != nullptr ? there->room(client, id) : 0;
  };
  link.put = [server](ClientId client, const control::StreamData& data) {
    auto* there = server();
    return there == nullptr || there->put(client, data);
  };
  link.put_end = [server](ClientId client, const control::StreamEnd& end) {
    if (auto* there = server()) there->put_end(client, end);
  };
  link.part = [server](ClientId client, std::uint64_t id, Json part) {
    if (auto* there = server()) there->answer_part(client, id, std::move(part));
  };
  link.answer = [server](ClientId client, std::uint64_t id, const Result<Json>& value) {
    if (auto* there = server()) there->answer(client, id, value);
  };
  link.code_of_tasks = std::move(code_of_tasks);
  return link;
}

}  // namespace nacre::plugins
