// SPDX-License-Identifier: Apache-2.0
#include "plugin/failure_evidence.hpp"

#include <algorithm>

#include "event/clock.hpp"

namespace nacre::plugin {

exits::FailureFacts failure_of(Host& host, const task::Task& task, const exits::Record& record,
                               std::string_view error) {
  TaskOutput* output = host.task_output();
  if (output != nullptr) output->read_now(task.rank());
  auto tail = output != nullptr ? output->tail(task.rank()) : std::nullopt;
  const bool has_terminal = task.pty() != nullptr;  // which shows both streams as one
  std::string_view err = !tail ? "" : has_terminal ? std::string_view(tail->out) : std::string_view(tail->err);
  exits::FailureFacts out{static_cast<value::Idset::Id>(task.rank()), record};
  out.clock = host.job().shell_rank;
  out.origin = exits::origin_of(record, err, error);
  out.at = task.death().at.count();
  out.order = task.death().order;
  // Its words are written before what they are about closes its connections.
  bool by_words = out.origin != exits::Origin::unknown && exits::origin_of(record, "") != out.origin;
  if (by_words && tail && tail->last_read > 0) {
    double read = event::clock_now().count() - (event::wall_clock() - tail->last_read);
    if (read < out.at) {
      out.at = read;
      out.order = 0;
    }
  }
  return out;
}

}  // namespace nacre::plugin
