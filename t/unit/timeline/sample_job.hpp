// SPDX-License-Identifier: Apache-2.0
//
// Timelines by hand: shells that come, start tasks and pass barriers when a test wants it.
#pragma once

#include "timeline/facts.hpp"
#include "timeline/recorder.hpp"

namespace nacre::timeline {

inline constexpr Time kMs = 1'000'000;
inline constexpr Time kStart = 1'000 * kMs;  // of the leader's shell, by its clock

// What one shell notes. Times are milliseconds since kStart, by the leader's clock; the shell's own is `ahead`.
class ShellBy {
 public:
  explicit ShellBy(Time ahead = 0) : ahead_(ahead) { recorder.turn_on(); }

  ShellBy& at(double ms, Kind kind, const std::string& name = "", std::uint32_t subject = 0) {
    recorder.add_at(kStart + static_cast<Time>(ms * kMs) + ahead_, kind, subject, name);
    return *this;
  }
  ShellBy& phase(const std::string& name, double begin, double end) {
    return at(begin, Kind::phase_begins, name).at(end, Kind::phase_ends, name);
  }
  ShellBy& hold(const std::string& name, double begin, double end) {
    return at(begin, Kind::hold_begins, name).at(end, Kind::hold_ends, name);
  }
  ShellBy& barrier(const std::string& name, double in, double out) {
    return at(in, Kind::enters, name).at(out, Kind::passes, name);
  }
  ShellBy& task(std::uint32_t rank, double spawn, double exec, double exit) {
    return at(spawn, Kind::spawn, "", rank).at(exec, Kind::exec, "", rank).at(exit, Kind::exit, "", rank);
  }

  [[nodiscard]] ShellTimeline timeline(std::uint32_t shell) const {
    ShellTimeline out;
    out.shell = shell;
    out.host = "n" + std::to_string(shell);
    TimelineBatch batch;
    batch.names = recorder.names();
    batch.events = recorder.events();
    batch.dropped = recorder.dropped();
    out.take(batch);
    return out;
  }

  Recorder recorder;

 private:
  Time ahead_;
};

// Four shells with two tasks each. n2 starts slowest, by ssh; n3 has a slow prolog, so that it comes last at the
// start barrier; n1's clock is 5 s ahead of the leader's. Rank 5, of n2, ends last.
inline JobTimeline sample_job() {
  constexpr Time kAhead = 5'000 * kMs;
  JobTimeline out;
  out.job = "fSample";
  out.version = "0";
  out.tasks = 8;
  for (std::uint32_t shell = 0; shell < 4; ++shell) {
    ShellBy by(shell == 1 ? kAhead : 0);
    const double booted = shell == 0 ? 0 : shell == 2 ? 160 : 100;
    by.at(booted, Kind::booted).at(booted + 2, Kind::joining).at(172, Kind::joined);
    if (shell == 0) {
      for (std::uint32_t other = 1; other < 4; ++other)
        by.at(4, Kind::agent_starts, "ssh", other).at(170, Kind::agent_joined, "", other);
    }
    by.phase("shell.init", 172, shell == 2 ? 178 : 174).barrier("init", shell == 2 ? 178 : 174, 180);
    if (shell == 3) by.hold("hooks", 180, 187);
    const double spawning = shell == 3 ? 187 : 181;
    by.phase(kSpawnPhase, spawning, spawning + 10).barrier("start", spawning + 11, 200);
    by.task(2 * shell, spawning + 1, spawning + 3, 300)
        .task(2 * shell + 1, spawning + 3, spawning + 5, shell == 2 ? 400 : 300);
    by.barrier("exit", shell == 2 ? 402 : 302, 405);
    out.shells.push_back(by.timeline(shell));
  }
  out.shells[0].clock.set_same();
  for (std::uint32_t shell : {2, 3}) out.shells[shell].clock.set_same();
  // A question and its answer, 0.4 ms each way.
  Time asked = kStart + 201 * kMs;
  out.shells[1].clock.add_exchange(asked, asked + kAhead + kMs * 4 / 10, asked + kAhead + kMs * 5 / 10,
                                   asked + kMs * 9 / 10);
  out.anchor = kStart + 410 * kMs;
  out.wall = 1'700'000'000;
  out.until = out.anchor;
  out.is_over = true;
  return out;
}

}  // namespace nacre::timeline
