// SPDX-License-Identifier: Apache-2.0
#include "front/top_screen.hpp"

#define NCURSES_NOMACROS 1
#include <curses.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <clocale>

#include "archive/library.hpp"
#include "base/program.hpp"
#include "base/text.hpp"

namespace nacre::front {
namespace {

// clang-format off
#define NACRE_CURSES_FUNCTIONS(X)                                                                          \
  X(newterm) X(delscreen) X(endwin) X(cbreak) X(noecho) X(nonl) X(curs_set) X(set_escdelay) X(resizeterm)  \
  X(has_colors) X(start_color) X(use_default_colors) X(init_pair) X(newwin) X(delwin) X(keypad) X(nodelay) \
  X(wgetch) X(werase) X(wmove) X(wattrset) X(waddnstr) X(whline) X(wnoutrefresh) X(doupdate)
// clang-format on

struct Curses {
#define NACRE_DECLARE(name) decltype(&::name) name = nullptr;
  NACRE_CURSES_FUNCTIONS(NACRE_DECLARE)
#undef NACRE_DECLARE
};

Result<Curses> load_curses() {
  auto library = TRY(archive::DynamicLibrary::load("libncursesw.so.6", "libncursesw6"));
  Curses out;
#define NACRE_FIND(name) CHECK_OK(library.find(#name, out.name));
  NACRE_CURSES_FUNCTIONS(NACRE_FIND)
#undef NACRE_FIND
  library.keep();
  return out;
}

constexpr short kAlarmPair = 1;
constexpr int kEscapeDelay = 25;  // milliseconds after which an escape is a key of its own

// Text that is cut within a letter, or that the locale has no letters for, could take any number of columns.
std::string showable(std::string_view text) {
  constexpr auto is_rest = [](char each) { return (static_cast<unsigned char>(each) & 0xC0U) == 0x80U; };
  std::string out(text);
  if (MB_CUR_MAX == 1) {
    for (char& each : out) each = each >= ' ' && each < '\x7f' ? each : '?';
    return out;
  }
  std::size_t begin = out.size();
  while (begin > 0 && is_rest(out[begin - 1])) --begin;
  bool is_cut = begin > 0 && static_cast<unsigned char>(out[begin - 1]) >= 0xC0U &&
                std::mblen(out.data() + begin - 1, out.size() - begin + 1) < 0;
  if (is_cut) out.resize(begin - 1);
  return out;
}

// ncurses handles these if nobody else does: SIGTSTP as it should be, SIGINT and SIGTERM by an end with exit code
// 1.
class SignalActions : Noncopyable {
 public:
  SignalActions() {
    for (std::size_t i = 0; i < kSignals.size(); ++i) ::sigaction(kSignals[i], nullptr, &before_[i]);
  }
  ~SignalActions() {
    for (std::size_t i = 0; i < kSignals.size(); ++i) ::sigaction(kSignals[i], &before_[i], nullptr);
  }

 private:
  static constexpr std::array<int, 4> kSignals{SIGINT, SIGTERM, SIGTSTP, SIGWINCH};
  std::array<struct sigaction, kSignals.size()> before_{};
};

}  // namespace

struct TopScreen::State : Noncopyable {
  explicit State(const Curses& loaded) : curses(loaded) {}
  ~State() {
    if (window != nullptr) curses.delwin(window);
    if (screen == nullptr) return;
    curses.endwin();
    curses.delscreen(screen);
  }

  [[nodiscard]] attr_t look_of(TopLine::Style style) const {
    switch (style) {
      case TopLine::Style::title: return A_BOLD;
      case TopLine::Style::alarm: return is_coloured ? NCURSES_BITS(kAlarmPair, 0) | A_BOLD : A_BOLD;
      case TopLine::Style::heading: return A_BOLD | A_UNDERLINE;
      case TopLine::Style::selected: return A_REVERSE;
      case TopLine::Style::hint: return A_DIM;
      default: return A_NORMAL;
    }
  }

  Curses curses;
  SignalActions before;
  SCREEN* screen = nullptr;
  WINDOW* window = nullptr;  // of the whole screen
  bool is_coloured = false;
  Size size;
};

TopScreen::TopScreen(std::unique_ptr<State> state) : state_(std::move(state)) {}
TopScreen::TopScreen(TopScreen&&) noexcept = default;
TopScreen& TopScreen::operator=(TopScreen&&) noexcept = default;
TopScreen::~TopScreen() = default;

Result<TopScreen> TopScreen::open() {
  auto state = std::make_unique<State>(TRY(load_curses()));
  const Curses& curses = state->curses;
  std::setlocale(LC_CTYPE, "");
  state->screen = curses.newterm(nullptr, stdout, stdin);
  if (state->screen == nullptr) {
    return invalid(fmt::format("TERM={}: no such kind of terminal is known here; --once shows one table",
                               own_variable("TERM").value_or("")));
  }
  curses.cbreak();
  curses.noecho();
  curses.nonl();
  curses.curs_set(0);
  curses.set_escdelay(kEscapeDelay);
  if (curses.has_colors() && !own_variable("NO_COLOR")) {
    curses.start_color();
    curses.use_default_colors();
    state->is_coloured = curses.init_pair(kAlarmPair, COLOR_RED, -1) != ERR;
  }
  state->window = curses.newwin(0, 0, 0, 0);
  if (state->window == nullptr) return Error{ENOMEM, "ncurses makes no window"};
  curses.keypad(state->window, true);
  curses.nodelay(state->window, true);
  return TopScreen(std::move(state));
}

TopScreen::Size TopScreen::size() {
  winsize now{};
  bool is_known = ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &now) == 0 && now.ws_col > 0 && now.ws_row > 0;
  Size size = is_known ? Size{now.ws_col, now.ws_row} : Size{80, 24};
  if (size.width != state_->size.width || size.height != state_->size.height)
    state_->curses.resizeterm(static_cast<int>(size.height), static_cast<int>(size.width));
  state_->size = size;
  return size;
}

void TopScreen::draw(const std::vector<TopLine>& lines) {
  const Curses& curses = state_->curses;
  Size size = this->size();
  curses.werase(state_->window);
  int row = 0;
  for (const TopLine& line : lines) {
    if (static_cast<std::size_t>(row) >= size.height) break;
    attr_t look = state_->look_of(line.style);
    curses.wmove(state_->window, row++, 0);
    curses.wattrset(state_->window, static_cast<int>(look));
    std::string text = showable(std::string_view(line.text).substr(0, size.width));
    curses.waddnstr(state_->window, text.data(), static_cast<int>(text.size()));
    bool is_filled = line.style == TopLine::Style::heading || line.style == TopLine::Style::selected;
    if (is_filled && text.size() < size.width)
      curses.whline(state_->window, ' ' | look, static_cast<int>(size.width));
  }
  curses.wnoutrefresh(state_->window);
  curses.doupdate();
}

std::optional<TopKey> TopScreen::key() {
  using Kind = TopKey::Kind;
  constexpr int kEscape = 27, kDelete = 127, kControlH = 8;
  for (;;) {
    int key = state_->curses.wgetch(state_->window);
    switch (key) {
      case ERR: return std::nullopt;
      case KEY_UP: return TopKey{Kind::up};
      case KEY_DOWN: return TopKey{Kind::down};
      case KEY_PPAGE: return TopKey{Kind::page_up};
      case KEY_NPAGE: return TopKey{Kind::page_down};
      case KEY_HOME: return TopKey{Kind::home};
      case KEY_END: return TopKey{Kind::end};
      case '\n':
      case '\r':
      case KEY_ENTER:
      case KEY_RIGHT: return TopKey{Kind::enter};
      case kEscape:
      case KEY_LEFT: return TopKey{Kind::back};
      case KEY_BACKSPACE:
      case kDelete:
      case kControlH: return TopKey{Kind::erase};
      default:
        if (key >= ' ' && key < kDelete) return TopKey{Kind::text, static_cast<char>(key)};
    }
  }
}

}  // namespace nacre::front
