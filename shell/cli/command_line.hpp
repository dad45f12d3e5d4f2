// SPDX-License-Identifier: Apache-2.0
//
// The command line of a program or a verb: its options and the words behind them, each with where its value goes.
// CLI11 only finds out which words belong to which option: its texts, and what it makes of a
// value, differ from version to version. All that a user reads, --help included, is made here.
#pragma once

#include "base/result.hpp"

namespace nacre::cli {

// An option of other programs that users know by heart. It is taken as an option of this program if its meaning is
// the same.
struct ForeignOption {
  std::string_view names;  // between blanks: "-np --np"
  // "--ntasks=%", where % stands for its value; without % the option has no value. "": the option changes nothing;
  // "%": neither the option nor its value does.
  std::string_view to;
  std::string_view values;  // between blanks: those that are taken; empty: any
  // What a message says if the option is not taken; without `values` it never is.
  std::string_view instead;
};

// An option of a command line: its names, where its value goes, and what is wrong with a value.

// Takes a value. An error says what was expected, without the name of the option.
using TakeValue = std::function<Result<void>(const std::string& value)>;

// An option, or a word behind the options, which has a name without dashes.
class Option {
 public:
  enum class Value { none, behind_equals, required };

  Option(const char* names, TakeValue take, const char* help, Value value);

  // What --help shows for the value.
  Option* option_text(const char* text);
  Option* description(const char* text);
  // Whether it has a value; with behind_equals the value is "" if there is none.
  Option* takes(Value value) {
    value_ = value;
    return this;
  }
  Option* required();
  Option* repeatable();
  // If it is given nothing else is checked.
  Option* suffices();
  // `looks` returns a Result; its error is why a value is refused.
  template <typename Check>
  Option* check(Check looks) {
    checks_.push_back([looks](const std::string& value) -> Result<void> {
      CHECK_OK(looks(value));
      return {};
    });
    return this;
  }
  // The other options, each by one of its names, must not be given together with this one, or have to be.
  Option* excludes(std::initializer_list<const char*> others);
  Option* needs(std::initializer_list<const char*> others);

  [[nodiscard]] const std::string& name() const;  // for messages: "--ntasks"
  [[nodiscard]] bool has_name(std::string_view name) const;
  [[nodiscard]] bool is_word() const { return !names_[0].starts_with('-'); }

 private:
  friend class CommandLine;

  [[nodiscard]] std::string shown() const;  // "-n,--ntasks N"
  // `value`: none if only the option was there; `by_equals`: it was behind a '='.
  Result<void> take(const std::optional<std::string>& value, bool by_equals);

  std::vector<std::string> names_;  // "-n", "--ntasks"
  TakeValue take_;
  const char* help_;
  Value value_;
  std::size_t group_ = 0;
  const char* text_ = "";
  bool required_ = false, repeatable_ = false, suffices_ = false;
  std::vector<TakeValue> checks_;
  std::vector<const char*> excludes_, needs_;
  std::size_t count_ = 0;
};

// Check that a value is one of these words; that it is not empty (`what`: "a file").
[[nodiscard]] TakeValue one_of(std::vector<std::string> words);
[[nodiscard]] TakeValue not_empty(const char* what);

struct NumberRange {
  double least = -HUGE_VAL;
  double most = HUGE_VAL;

  [[nodiscard]] Error expected(const std::string& text) const;  // "expected a number from 1 to 4, got 'x'"
};

template <typename To>
struct NumberIn {
  using Type = To;
};
template <typename To>
struct NumberIn<std::optional<To>> {
  using Type = To;
};

class CommandLine {
 public:
  // `program`: as in messages, "nacre run".
  CommandLine(std::string program, std::string about);

  Option* add_help();
  Option* add_option(const char* names, TakeValue take, const char* help);
  Option* add_option(const char* names, std::string& to, const char* help);
  Option* add_option(const char* names, std::optional<std::string>& to, const char* help);
  Option* add_option(const char* names, std::vector<std::string>& to, const char* help);  // may be repeated
  template <typename To>
  Option* add_number(const char* names, To& to, const char* help, NumberRange range = {}) {
    auto take = [&to, range](const std::string& text) -> Result<void> {
      typename NumberIn<To>::Type number{};
      const char* behind = text.data() + text.size();
      auto [end, error] = std::from_chars(text.data(), behind, number);
      auto size = static_cast<double>(number);
      if (error != std::errc() || end != behind || !(size >= range.least && size <= range.most))
        return range.expected(text);
      to = number;
      return {};
    };
    return add_option(names, take, help);
  }
  // Without a value.
  Option* add_flag(const char* names, bool& to, const char* help);
  // With a value behind a '=', or `without_value` if there is none.
  Option* add_flag(const char* names, std::string& to, const char* help, const char* without_value);
  Option* add_counter(const char* names, int& to, const char* help);
  // Options that are added later belong to this group; "": to none. --help has the groups in the order in which
  // they begin, or of order_groups(), and then the options without a group.
  void begin_group(std::string title, std::string about = "");
  void order_groups(std::initializer_list<const char*> titles);
  // What --help shows before the options: a line each.
  void add_example(const char* command, const char* about) { examples_.emplace_back(command, about); }
  // At most one of them may be given; a message has these names.
  void at_most_one(std::initializer_list<const char*> names) { alternatives_.emplace_back(names); }
  // The options end at the first word that is none of them: rest() has it and all behind it, a `--` included.
  // `words`: what --help calls them.
  void prefix_command(const char* words = "") {
    is_prefix_ = true;
    rest_text_ = words;
  }
  // Options of other programs among those of this one; they live as long as this does.
  void take_foreign(std::span<const ForeignOption> foreign) { foreign_ = foreign; }
  // `verb` as the first word is the subcommand's, and one is required; it lives as long as this does.
  CommandLine* add_subcommand(const std::string& verb, std::string about);

  // What a message says is expected if no verb is given.
  void expects(std::string text) { expects_ = std::move(text); }

  // Takes the words that are behind the program's name. An error is one of usage, about last(). If an option
  // suffices() only count() knows of it.
  Result<void> read(std::vector<std::string> words);
  [[nodiscard]] CommandLine& last();  // the innermost subcommand that was given
  [[nodiscard]] bool parsed() const { return is_read_; }
  [[nodiscard]] std::size_t count(std::string_view name) const { return option(name).count_; }
  [[nodiscard]] const std::vector<std::string>& rest() const { return rest_; }
  [[nodiscard]] Option* get_option(std::string_view name) { return &option(name); }
  [[nodiscard]] const std::string& program() const { return program_; }
  void set_program(std::string name) { program_ = std::move(name); }
  [[nodiscard]] const std::string& verb() const { return verb_; }  // its last word
  [[nodiscard]] std::string help() const;

 private:
  struct Group {
    std::string title, about;
  };
  struct Given {
    Option* option;
    std::optional<std::string> value;
    bool by_equals;
  };
  struct Found {
    std::vector<Given> given;  // in order
    std::vector<std::string> words;
    std::optional<std::string> unknown;  // the first word that looks like an option, and is none
    Option* no_value = nullptr;          // the last word, of which the value is missing
  };

  [[nodiscard]] Option* find(std::string_view name) const;
  [[nodiscard]] Option& option(std::string_view name) const;  // the option has to be there
  [[nodiscard]] std::vector<std::string> verbs() const;
  [[nodiscard]] std::string unknown(const std::string& word) const;
  [[nodiscard]] Found split_up(std::vector<std::string> words) const;
  [[nodiscard]] const ForeignOption* find_foreign(std::string_view word) const;
  [[nodiscard]] bool translate(std::vector<std::string>& words) const;
  Result<void> read_verb();
  Result<void> take_words();
  [[nodiscard]] Result<void> check_together() const;
  [[nodiscard]] std::string help_of(std::size_t group) const;

  std::string program_, about_, verb_, expects_;
  bool is_prefix_ = false, is_read_ = false;
  const char* rest_text_ = "";
  std::vector<std::pair<const char*, const char*>> examples_;
  std::vector<std::unique_ptr<Option>> options_;
  std::vector<Group> groups_{{"Options", ""}};
  std::size_t group_ = 0;
  std::span<const ForeignOption> foreign_;
  std::vector<std::vector<const char*>> alternatives_;
  std::vector<std::unique_ptr<CommandLine>> subcommands_;
  std::vector<std::string> rest_;
};

}  // namespace nacre::cli
