// SPDX-License-Identifier: Apache-2.0
#include "plugins/output/collector.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "event/clock.hpp"
#include "plugins/output/closed.hpp"

namespace nacre::plugins {

OutputCollector::OutputCollector(bulk::Port& port, const job::Job& job, OutputRouting& places, Callbacks callbacks)
    : port_(port), job_(job), places_(places), callbacks_(std::move(callbacks)), waits_for_(job.shells() - 1) {}

void OutputCollector::serve() {
  bulk::Port::Upward upward;
  upward.on_record = [this](bulk::Id shell, bulk::Numbered number, std::string_view bytes) {
    take(shell, number, bytes);
  };
  bulk::Port::Downward downward;
  downward.on_record = [this](bulk::Numbered number, std::string_view) { port_.consumed(number); };
  downward.on_room = [this] { send_closed(); };
  port_.serve(bulk::up::kOutput, std::move(upward));
  port_.serve(bulk::down::kOutputClosed, std::move(downward));
}

OutputCollector::Origin& OutputCollector::origin(bulk::Id shell) {
  auto [place, is_new] = origins_.try_emplace(shell);
  if (!is_new) return place->second;
  io::BatchReader::Take take;
  take.source = [this, shell](const io::Source& source) { return check(shell, source); };
  take.batch = [this](const io::Batch& batch) {
    for (OutputTarget* each : places_.collected(batch.source->stream)) each->put(batch);
    callbacks_.on_put();
  };
  take.end = [this](const io::Source& source, double time) {
    for (OutputTarget* each : places_.collected(source.stream)) each->end(source, time);
  };
  take.complete = [this, shell](std::uint32_t rank) -> Result<void> {
    CHECK_OK(check(shell, {rank}));
    callbacks_.on_complete(value::Idset::range(rank, rank));
    return {};
  };
  take.event = [this](std::string_view line) { places_.post_line(line); };
  place->second.reader = std::make_unique<io::BatchReader>(std::move(take));
  return place->second;
}

// What tasks have spawned on other shells writes as they do.
Result<void> OutputCollector::check(bulk::Id shell, const io::Source& source) const {
  bool is_part = source.is_part && source.rank < job_.tasks();
  if (shell < job_.shells() && (is_part || job_.has_had(shell, source.rank))) return {};
  return Error{EPROTO, fmt::format("output: task {} is none of its own", source.rank)};
}

void OutputCollector::take(bulk::Id shell, bulk::Numbered number, std::string_view bytes) {
  Origin& from = origin(shell);
  if (bytes.empty()) {
    over(shell);
  } else if (from.reader) {
    if (Result<void> read = from.reader->add(bytes); !read) {
      from.reader.reset();
      callbacks_.on_error(shell, read.error());
    }
  }
  if (!full()) return port_.taken(shell, number);
  untaken_.emplace_back(shell, number);
}

void OutputCollector::go_on() {
  if (full()) return;
  for (auto [shell, number] : std::exchange(untaken_, {})) port_.taken(shell, number);
}

void OutputCollector::lost(bulk::Id shell) {
  if (shell < job_.shells()) over(shell);
}

// What a lost shell has sent may still come while other shells are waited for.
void OutputCollector::over(bulk::Id shell) {
  if (shell == job_.shell_rank || std::exchange(origin(shell).over, true)) return;
  if (--waits_for_ == 0) {
    for (auto& [id, each] : origins_) {
      if (each.reader) each.reader->end_all(event::wall_clock());
    }
  }
  callbacks_.on_complete(job_.taskmap.ranks_on(shell));
  callbacks_.on_ended();
}

bool OutputCollector::full() const {
  return std::any_of(io::kStreams.begin(), io::kStreams.end(), [this](io::Stream stream) {
    const auto& places = places_.collected(stream);
    return std::any_of(places.begin(), places.end(), [](auto* place) { return place->full(); });
  });
}

void OutputCollector::look_for_closed() {
  for (io::Stream stream : io::kStreams) {
    const auto& places = places_.collected(stream);
    bool closed =
        !places.empty() && std::all_of(places.begin(), places.end(), [](auto* place) { return place->failed(); });
    if (!closed || std::find(closed_.begin(), closed_.end(), stream) != closed_.end()) continue;
    closed_.push_back(stream);
    unsent_.push_back(stream);
  }
  send_closed();
}

void OutputCollector::send_closed() {
  while (!unsent_.empty()) {
    Result<bool> sent = port_.broadcast(bulk::down::kOutputClosed, closing(unsent_.back()));
    if (sent && !*sent) return;
    unsent_.pop_back();
  }
}

}  // namespace nacre::plugins
