// SPDX-License-Identifier: Apache-2.0
#include "plugins/pmi/group.hpp"

#include <fmt/format.h>

namespace nacre::plugins {

std::string text_of(const pmi::Full& full, std::string_view name) {
  std::string what = full.client ? fmt::format("{}: what it puts is refused: with it", name)
                                 : "a barrier fails: with those of the other nodes";
  return fmt::format("{} the keys of the job would have {} bytes, and they may have {} (-o pmi.max-size=SIZE)",
                     what, full.bytes, full.limit);
}

PmiGroup::PmiGroup(event::Loop& loop, pmi::ClientGroup group, pmi::Names& names, pmi::KeyExchange& exchange,
                   Callbacks callbacks)
    : loop_(loop),
      server_(std::move(group), names),
      exchange_(exchange),
      callbacks_(std::move(callbacks)),
      links_(server_.clients().size()) {}

Result<void> PmiGroup::start(std::uint32_t client) {
  return links_[client].watch(loop_, [this, client](std::string_view bytes) { received(client, bytes); });
}

void PmiGroup::received(std::uint32_t client, std::string_view bytes) {
  if (!bytes.empty()) {
    if (callbacks_.on_bytes) callbacks_.on_bytes(client, false, bytes);
    if (bytes.find(kDead) != std::string_view::npos) {
      for (PmiLink& link : links_) link.drain_if_ended();
    }
    pmi::ClientStage before = server_.clients()[client].stage;
    server_.receive(client, bytes);
    pmi::ClientStage stage = server_.clients()[client].stage;
    if (callbacks_.on_stage && stage != before) callbacks_.on_stage(client, stage);
    return pump();
  }
  if (server_.clients()[client].stage != pmi::ClientStage::finalized) callbacks_.on_left(client);
  server_.closed(client);
  pump();
}

void PmiGroup::end(std::uint32_t client) {
  links_[client].close();
  server_.ended(client);
  pump();
}

void PmiGroup::reopen(std::uint32_t client) {
  links_[client].close();
  server_.reopened(client);
}

void PmiGroup::spawned(std::uint32_t client, const Result<std::string>& kvsname, const std::vector<int>& codes) {
  server_.spawned(client, kvsname, codes);
  pump();
}

void PmiGroup::close() {
  for (PmiLink& link : links_) link.close();
}

void PmiGroup::pump() {
  if (!pump_.run([this] { return step(); })) return;
  if (server_.barrier_begun() != waited_) callbacks_.on_wait(waited_ = !waited_);
}

bool PmiGroup::step() {
  std::vector<pmi::Event> events = server_.take_events();
  server_.take_pending(pending_);
  for (std::uint32_t client : pending_) {
    if (callbacks_.on_bytes) callbacks_.on_bytes(client, true, server_.output(client));
    links_[client].send(server_.output(client));
  }
  bool is_any = !events.empty() || !pending_.empty();
  for (pmi::Event& event : events) carry_out(event);
  return is_any;
}

void PmiGroup::carry_out(pmi::Event& event) {
  if (auto* fence = std::get_if<pmi::Fence>(&event)) {
    if (!callbacks_.on_barrier()) return;
    exchange_.fence(fence->entries, [this](Result<pmi::Entries> others) {
      server_.fenced(std::move(others));
      pump();
    });
  } else if (auto* abort = std::get_if<pmi::Abort>(&event)) {
    callbacks_.on_abort(*abort);
  } else if (auto* dropped = std::get_if<pmi::Dropped>(&event)) {
    links_[dropped->client].close_when_sent();
    callbacks_.on_dropped(*dropped);
  } else if (auto* full = std::get_if<pmi::Full>(&event)) {
    callbacks_.on_full(*full);
  } else {
    callbacks_.on_spawn(std::move(std::get<pmi::SpawnRequest>(event)));
  }
}

}  // namespace nacre::plugins
