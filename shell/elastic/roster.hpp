// SPDX-License-Identifier: Apache-2.0
//
// Which shells of a job are there, as one shell has it from the log. A shell may be lost at any time. One that is
// asked to leave is about to, and has left once it is taken out; if it is lost meanwhile it has left, too.
//
//   (grow) -> joining -> stays -> leaving -> left
#pragma once

#include "base/json.hpp"
#include "value/idset.hpp"

namespace nacre::elastic {

class Roster {
 public:
  using Idset = value::Idset;
  using Id = Idset::Id;

  void note_lost(const Idset& shells) { lost_.insert(shells); }
  void note_leaving(const Idset& shells) { leaving_.insert(shells); }
  void note_left(const Idset& shells) { left_.insert(shells); }
  // Of a grow: those of `missing` have not come. Returns those that get ready now, without any that have gone.
  Idset note_joining(const Idset& come, const Idset& missing);
  void note_ready(Id shell) { joining_.remove(shell); }

  [[nodiscard]] const Idset& lost() const { return lost_; }
  [[nodiscard]] const Idset& left() const { return left_; }
  [[nodiscard]] Idset gone() const { return lost_ | left_; }
  // It is of the job, and stays: so it may get tasks.
  [[nodiscard]] bool stays(Id shell) const { return !(lost_ | left_ | leaving_ | joining_).contains(shell); }
  // It has been asked to leave, whatever has become of it.
  [[nodiscard]] bool is_to_leave(Id shell) const { return leaving_.contains(shell); }
  // The same, and it is not gone.
  [[nodiscard]] bool leaves(Id shell) const { return (leaving_ - gone()).contains(shell); }

  // For a shell that joins, which adds it to what it has: {"lost": IDSET, "left", "leaving", "joining"}. Errors
  // name the place.
  [[nodiscard]] Json json() const;
  Result<void> add(const JsonAt& at);

 private:
  Idset lost_, leaving_, left_, joining_;
};

}  // namespace nacre::elastic
