// SPDX-License-Identifier: Apache-2.0
#include "plugin/questions.hpp"

#include "event/clock.hpp"
#include "job/options.hpp"

namespace nacre::plugin {

// ---- failure evidence -------------------------------------------------------------------

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
  // A task writes these words before it closes its connections because of the failure.
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

// ---- pmi connected ----------------------------------------------------------------------

value::Idset pmi_connected(Host& host, std::string_view component) {
  Call call("pmi.connected");
  value::Idset all;
  if (Result<int> called = host.stack().call(call); !called)
    host.log().log(Level::warn, component, "{}", called.error().message);
  for (const auto& [plugin, ranks] : call.out.items()) {
    auto some = job::ranks_option(JsonAt::root(ranks, "pmi.connected: " + plugin));
    if (!some) host.log().log(Level::warn, component, "{}", some.error().message);
    if (some && *some) all = all | **some;
  }
  return all;
}

bool spawned_connected(Host& host) {
  Call call("pmi.spawned");
  if (Result<int> called = host.stack().call(call); !called)
    host.log().log(Level::warn, "", "{}", called.error().message);
  const auto& all = call.out.items();
  return std::any_of(all.begin(), all.end(), [](const auto& each) { return each.value() == true; });
}

// ---- shell questions --------------------------------------------------------------------

Registration serve_questions(Host& host, bulk::RecordQueue& records, std::string topic,
                             std::function<void(bulk::Id origin, std::string_view bytes)> take,
                             std::function<void(std::string_view question)> asked) {
  bulk::Port* port = host.bulk();
  if (port == nullptr) return {};
  records.serve(*port, std::move(take));
  return host.on_announcement([&host, topic = std::move(topic), asked = std::move(asked)](
                                  std::string_view announced, std::string_view bytes) {
    if (announced == topic && !host.job().leads()) asked(bytes);
  });
}

}  // namespace nacre::plugin
