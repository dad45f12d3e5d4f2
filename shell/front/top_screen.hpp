// SPDX-License-Identifier: Apache-2.0
//
// The terminal on standard input and output, by ncurses, which is loaded only when one is opened: see ncurses(3X).
#pragma once

#include "front/top_view.hpp"

namespace nacre::front {

class TopScreen {
 public:
  struct Size {
    std::size_t width = 0, height = 0;
  };

  // ENOENT: ncurses cannot be loaded, and the message names the package. EINVAL: it does not know this kind of
  // terminal. Only one at a time. Ctrl-Z stops the program, with the terminal as it was before; SIGWINCH is the
  // caller's.
  static Result<TopScreen> open();
  TopScreen(TopScreen&&) noexcept;
  TopScreen& operator=(TopScreen&&) noexcept;
  ~TopScreen();  // the terminal is as before

  // Asks the terminal.
  Size size();
  // The rest of the screen is empty. Writes only what has changed.
  void draw(const std::vector<TopLine>& lines);
  // The next key that has been pressed; none: there is none now.
  std::optional<TopKey> key();

 private:
  struct State;
  explicit TopScreen(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace nacre::front
