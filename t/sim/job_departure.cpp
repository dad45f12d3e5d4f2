// SPDX-License-Identifier: Apache-2.0
#include "job_departure.hpp"

#include "job_shell.hpp"

namespace nacre::sim {
namespace {

constexpr Time kUnjoinedGrace = 2 * kSecond;  // as leaving.cpp has it

}  // namespace

void JobDeparture::learn(int code) {
  code_ = code;
  if (!gives_up_absent_) return;
  shell_.process().post([this] { shell_.process().on_node([](Node& node) { node.suspect_absent(); }); });
}

void JobDeparture::finished() {
  finished_ = true;
  shell_.process().post([this] { go_if_due(); });
}

void JobDeparture::begin() {
  if (begun_) return;
  JobProcess& process = shell_.process();
  process.enter(Phase::leave);
  begun_ = true;
  if (!shell_.group().has_joined()) {
    process.later(kUnjoinedGrace, [this] {
      late_ = true;
      go_if_due();
    });
    gives_up_absent_ = true;
    if (code_) process.on_node([](Node& node) { node.suspect_absent(); });
  }
  if (process.leads() && !finished_) shell_.group().ask(End{static_cast<std::uint32_t>(shell_.ending().code())});
  if (shell_.group().has_left()) process.on_node([](Node& node) { node.tasks_ended(); });
  go_if_due();
}

void JobDeparture::go_if_due() {
  if (!begun_ || shell_.process().is_over()) return;
  bool is_cut_off = shell_.group().is_cut_off();
  if (!finished_ && (!is_cut_off || shell_.group().has_left()) && !late_) return;
  if (code_ && (finished_ || is_cut_off)) shell_.ending().agreed(*code_);
  shell_.end_process(shell_.ending().code());
}

}  // namespace nacre::sim
