// SPDX-License-Identifier: Apache-2.0
#include "cli/command_line.hpp"

#include <CLI/CLI.hpp>

#include "base/text.hpp"

namespace nacre::cli {

// ---- split words ------------------------------------------------------------------------
//
// Which words of a command line belong to which option. This is all that CLI11 is asked, and only what its versions
// 1.9 to 2.5 answer alike.

struct SplitOption {
  const std::vector<std::string>* names;  // with their dashes
  bool has_value = false;                 // in the same word or the next one; else only behind a '='
};

struct GivenWord {
  std::size_t option = 0;  // its index
  std::optional<std::string> value;
  bool by_equals = false;  // --NAME=VALUE; if VALUE is not empty, a next word may be it as well
};

struct SplitWords {
  std::vector<GivenWord> given;         // in order
  std::optional<std::size_t> no_value;  // the last word is this option, of which the value is missing
  std::vector<std::string> rest;        // from the first word on that is no option, or not a known one
};

namespace {

// CLI11 gives a meaning to an empty value, to "{}", "[...]" and "--"; with this before them it gives them none.
// Only a "[[...]]" right behind a short option's letter is left to it.
constexpr char kMark = '\x1f';
// Behind all words: an option that has it as its value has none. A NUL is in no word of a command line.
constexpr std::string_view kEnd{"\0", 1};

std::string marked(const std::string& word) {
  std::string out = word;
  if (std::size_t equals = word.find('='); word.starts_with("--") && equals != std::string::npos)
    out.insert(equals + 1, 1, kMark);
  else if (word == "--" || word.starts_with('[') || word.starts_with(kMark))
    out.insert(0, 1, kMark);
  return out;
}

std::string without_mark(std::string word) {
  std::size_t at = word.starts_with("--") ? word.find('=') + 1 : 0;
  if (at < word.size() && word[at] == kMark) word.erase(at, 1);
  return word;
}

// Whether an option may be among the words: to tell CLI11 of all would take time.
bool is_among(const SplitOption& option, const std::vector<std::string>& words) {
  auto is_in = [&option](const std::string& word) {
    return std::any_of(option.names->begin(), option.names->end(), [&word](const std::string& name) {
      bool is_long = name.starts_with("--");
      return is_long ? std::string_view(word).substr(0, word.find('=')) == name
                     : word.starts_with('-') && word.find(name[1]) != std::string::npos;
    });
  };
  return std::any_of(words.begin(), words.end(), is_in);
}

}  // namespace

SplitWords split_words(std::span<const SplitOption> options, const std::vector<std::string>& words) {
  CLI::App app("", "");
  app.set_help_flag();
  app.prefix_command();
  const CLI::callback_t ignore = [](const CLI::results_t&) { return true; };
  std::map<const CLI::Option*, std::size_t> known;
  for (std::size_t i = 0; i < options.size(); ++i) {
    if (!is_among(options[i], words)) continue;
    std::string names;
    for (const std::string& each : *options[i].names) names += (names.empty() ? "" : ",") + each;
    CLI::Option* added = app.add_option(names, ignore);
    added->expected(options[i].has_value ? 1 : 0)->allow_extra_args(false);
    added->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
    known[added] = i;
  }
  std::vector<std::string> reversed{std::string(kEnd)};  // CLI11 takes them in reverse order
  std::transform(words.rbegin(), words.rend(), std::back_inserter(reversed), marked);
  app.parse(reversed);
  SplitWords out;
  std::map<const CLI::Option*, std::size_t> taken;
  for (const CLI::Option* each : app.parse_order()) {
    GivenWord given{known.at(each), each->results().at(taken[each]++)};
    if (*given.value == kEnd) {
      out.no_value = given.option;
      break;
    }
    bool is_marked = given.value->starts_with(kMark);
    bool has_value = options[given.option].has_value;
    if (!has_value && !is_marked)
      given.value.reset();
    else
      given.value = without_mark(*std::move(given.value));
    given.by_equals = is_marked;
    out.given.push_back(std::move(given));
  }
  out.rest = app.remaining();
  if (!out.rest.empty() && out.rest.back() == kEnd) out.rest.pop_back();
  for (std::string& each : out.rest) each = without_mark(std::move(each));
  return out;
}

// ---- command line -----------------------------------------------------------------------

CommandLine::CommandLine(std::string program, std::string about)
    : program_(std::move(program)), about_(std::move(about)) {}

Option* CommandLine::add_help() {
  auto ignore = [](const std::string&) { return Result<void>(); };
  options_.push_back(std::make_unique<Option>("-h,--help", ignore, "Print this help", Option::Value::none));
  return options_.back()->suffices();
}

Option* CommandLine::add_option(const char* names, TakeValue take, const char* help) {
  options_.push_back(std::make_unique<Option>(names, std::move(take), help, Option::Value::required));
  options_.back()->group_ = group_;
  return options_.back().get();
}

namespace {

// An empty word is mostly a variable that is not set: the option must not count as not given then.
template <typename To>
TakeValue put_text(To& to) {
  return [&to](const std::string& value) -> Result<void> {
    if (value.empty()) return invalid("expected a value, got an empty one");
    to = value;
    return {};
  };
}

}  // namespace

Option* CommandLine::add_option(const char* names, std::string& to, const char* help) {
  return add_option(names, put_text(to), help);
}

Option* CommandLine::add_option(const char* names, std::optional<std::string>& to, const char* help) {
  return add_option(names, put_text(to), help);
}

Option* CommandLine::add_option(const char* names, std::vector<std::string>& to, const char* help) {
  auto take = [&to](const std::string& value) {
    to.push_back(value);
    return Result<void>();
  };
  return add_option(names, take, help)->repeatable();
}

Option* CommandLine::add_flag(const char* names, bool& to, const char* help) {
  auto take = [&to](const std::string&) {
    to = true;
    return Result<void>();
  };
  Option* out = add_option(names, take, help);
  out->value_ = Option::Value::none;
  return out;
}

Option* CommandLine::add_flag(const char* names, std::string& to, const char* help, const char* without_value) {
  auto take = [&to, without_value](const std::string& value) {
    to = value.empty() ? without_value : value;
    return Result<void>();
  };
  Option* out = add_option(names, take, help);
  out->value_ = Option::Value::behind_equals;
  return out;
}

Option* CommandLine::add_counter(const char* names, int& to, const char* help) {
  auto take = [&to](const std::string&) {
    ++to;
    return Result<void>();
  };
  Option* out = add_option(names, take, help);
  out->value_ = Option::Value::none;
  return out;
}

void CommandLine::begin_group(std::string title, std::string about) {
  auto is_it = [&title](const Group& each) { return each.title == title; };
  auto found = title.empty() ? groups_.begin() : std::find_if(groups_.begin(), groups_.end(), is_it);
  group_ = static_cast<std::size_t>(found - groups_.begin());
  if (found == groups_.end()) found = groups_.insert(found, {std::move(title), ""});
  if (!about.empty()) found->about = std::move(about);
}

void CommandLine::order_groups(std::initializer_list<const char*> titles) {
  for (const char* each : titles) groups_.push_back({each, ""});
}

CommandLine* CommandLine::add_subcommand(const std::string& verb, std::string about) {
  subcommands_.push_back(std::make_unique<CommandLine>(program_ + ' ' + verb, std::move(about)));
  subcommands_.back()->verb_ = verb;
  subcommands_.back()->add_help();
  return subcommands_.back().get();
}

// ---- a command line is read ------------------------------------------------------

Option* CommandLine::find(std::string_view name) const {
  auto is_it = [name](const auto& each) { return each->has_name(name); };
  auto found = std::find_if(options_.begin(), options_.end(), is_it);
  return found != options_.end() ? found->get() : nullptr;
}

Option& CommandLine::option(std::string_view name) const {
  Option* found = find(name);
  if (found == nullptr) std::abort();
  return *found;
}

CommandLine& CommandLine::last() {
  for (const auto& each : subcommands_)
    if (each->is_read_) return each->last();
  return *this;
}

std::vector<std::string> CommandLine::verbs() const {
  std::vector<std::string> out;
  for (const auto& each : subcommands_) out.push_back(each->verb_);
  return out;
}

// Options are not shortened; who does that is told the whole name.
std::string CommandLine::unknown(const std::string& word) const {
  // What is left of -l=3, where -l is a flag.
  if (word.starts_with("-="))
    return fmt::format("{} stands behind a short option that takes no value", in_quotes(word.substr(1)));
  if (const ForeignOption* foreign = find_foreign(word); foreign != nullptr && !foreign->instead.empty())
    return fmt::format("{} is not known here: {}", in_quotes(word), foreign->instead);
  std::string name = word.substr(0, word.find('='));
  std::vector<std::string> known;
  for (const auto& each : options_)
    std::copy_if(each->names_.begin(), each->names_.end(), std::back_inserter(known),
                 [](const std::string& known_name) { return known_name.starts_with("--"); });
  std::string meant = did_you_mean(word.starts_with("--") ? name : word, word.starts_with("--") ? known : verbs());
  auto begins = [&name](const std::string& each) { return each.starts_with(name); };
  auto first = std::find_if(known.begin(), known.end(), begins);
  if (word.starts_with("--") && name.size() > 3 && std::count_if(first, known.end(), begins) == 1)
    meant = "; did you mean " + *first + "?";
  return fmt::format("{} is not known here{}", in_quotes(word), meant);
}

const ForeignOption* CommandLine::find_foreign(std::string_view word) const {
  std::string_view name = word.starts_with("--") ? word.substr(0, word.find('=')) : word;
  for (const ForeignOption& each : foreign_)
    for (std::string_view known : nacre::split(each.names, ' '))
      if (known == name) return &each;
  return nullptr;
}

// Replaces the first word, and its value, by what they are here. False: it is not taken.
bool CommandLine::translate(std::vector<std::string>& words) const {
  const ForeignOption* foreign = find_foreign(words[0]);
  if (foreign == nullptr) return false;
  bool has_value = foreign->to.ends_with('%');
  std::size_t equals = words[0].starts_with("--") ? words[0].find('=') : std::string::npos;
  std::size_t used = 1;
  std::optional<std::string> value;
  if (equals != std::string::npos)
    value = words[0].substr(equals + 1);
  else if (has_value && words.size() > 1)
    value = words[used++];
  auto listed = nacre::split(foreign->values, ' ');
  bool is_listed = value && std::find(listed.begin(), listed.end(), *value) != listed.end();
  bool takes_any = foreign->values.empty();
  if (takes_any ? !foreign->instead.empty() || (value && !has_value) : value && !is_listed) return false;
  std::string to(foreign->to.substr(0, foreign->to.size() - (has_value ? 1 : 0)));
  words.erase(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(used));
  if (to.empty()) return true;
  if (has_value && !value) to.pop_back();
  words.insert(words.begin(), has_value ? to + value.value_or("") : to);
  return true;
}

CommandLine::Found CommandLine::split_up(std::vector<std::string> words) const {
  std::vector<SplitOption> known;
  std::vector<Option*> dashed;
  for (const auto& each : options_) {
    if (each->is_word()) continue;
    dashed.push_back(each.get());
    known.push_back({&each->names_, each->value_ == Option::Value::required});
  }
  Found out;
  auto is_option = [](const std::string& word) { return word.size() > 1 && word[0] == '-' && word != "--"; };
  // "-np" is more than "-n" with the value "p".
  auto is_foreign_word = [this](const std::string& word) {
    return word.size() > 2 && word[0] == '-' && word[1] != '-' && find_foreign(word) != nullptr;
  };
  for (;;) {
    auto foreign = std::find_if(words.begin(), words.end(), is_foreign_word);
    SplitWords some = split_words(known, {words.begin(), foreign});
    if (some.no_value)
      some = split_words(known, words);
    else
      some.rest.insert(some.rest.end(), foreign, words.end());
    for (GivenWord& each : some.given)
      out.given.push_back({dashed[each.option], std::move(each.value), each.by_equals});
    if (some.no_value) out.no_value = dashed[*some.no_value];
    words = std::move(some.rest);
    if (!words.empty() && is_option(words[0])) {
      if (translate(words)) continue;
      out.unknown = words[0];
    }
    if (words.empty() || out.unknown || is_prefix_ || !subcommands_.empty()) break;
    if (words[0] == "--") {
      out.words.insert(out.words.end(), words.begin() + 1, words.end());
      return out;
    }
    out.words.push_back(words[0]);
    words.erase(words.begin());
  }
  out.words.insert(out.words.end(), words.begin(), words.end());
  return out;
}

Result<void> CommandLine::read(std::vector<std::string> words) {
  is_read_ = true;
  Found found = split_up(std::move(words));
  for (const Given& each : found.given) {
    if (!each.option->suffices_) continue;
    ++each.option->count_;
    return {};
  }
  if (found.unknown) return invalid(unknown(*found.unknown));
  if (found.no_value != nullptr) return invalid(found.no_value->name() + ": expected a value");
  for (const Given& each : found.given) CHECK_OK(each.option->take(each.value, each.by_equals));
  rest_ = std::move(found.words);
  if (!subcommands_.empty()) return read_verb();
  if (!is_prefix_) CHECK_OK(take_words());
  return check_together();
}

Result<void> CommandLine::read_verb() {
  if (rest_.empty())
    return invalid(
        fmt::format("expected {}", expects_.empty() ? fmt::format("{}", fmt::join(verbs(), " or ")) : expects_));
  for (const auto& each : subcommands_)
    if (each->verb_ == rest_[0]) return each->read({rest_.begin() + 1, rest_.end()});
  return invalid(unknown(rest_[0]));
}

// A word with a name takes one, and a repeatable one all that follow.
Result<void> CommandLine::take_words() {
  auto word = rest_.begin();
  for (const auto& each : options_) {
    if (!each->is_word()) continue;
    for (; word != rest_.end() && (each->repeatable_ || each->count_ == 0); ++word)
      CHECK_OK(each->take(*word, false));
  }
  if (word != rest_.end()) return invalid(unknown(*word));
  return {};
}

Result<void> CommandLine::check_together() const {
  for (const auto& each : options_) {
    if (each->required_ && each->count_ == 0)
      return invalid(fmt::format("expected {}{}{}", each->name(), each->is_word() ? "" : "=",
                                 each->is_word() ? "" : each->text_));
    if (each->count_ == 0) continue;
    for (const char* other : each->needs_)
      if (count(other) == 0) return invalid(fmt::format("{} needs {}", each->name(), option(other).name()));
    for (const char* other : each->excludes_)
      if (count(other) > 0)
        return invalid(
            fmt::format("{} and {} exclude each other: give one of them", each->name(), option(other).name()));
  }
  for (const auto& names : alternatives_) {
    auto is_given = [this](const char* name) { return count(name) > 0; };
    if (std::count_if(names.begin(), names.end(), is_given) > 1)
      return invalid(fmt::format("give only one of {}", fmt::join(names, ",")));
  }
  return {};
}

// ---- command line help ------------------------------------------------------------------

namespace {

constexpr std::size_t kColumn = 30;  // where the texts begin

// "  NAME      TEXT", where the text has a line of its own if the name is long, and may have several.
std::string row(const std::string& name, std::string_view text) {
  std::string out = fmt::format("{:<{}}", "  " + name, kColumn);
  const std::string indent = '\n' + std::string(kColumn, ' ');
  if (name.size() + 2 >= kColumn) out += indent;
  for (char each : text) {
    if (each == '\n')
      out += indent;
    else
      out += each;
  }
  return out + '\n';
}

}  // namespace

std::string CommandLine::help_of(std::size_t group) const {
  std::string out;
  for (const auto& each : options_)
    if (!each->is_word() && each->group_ == group) out += row(each->shown(), each->help_);
  if (out.empty()) return out;
  const auto& [title, about] = groups_[group];
  const char* other = group == 0 && groups_.size() > 1 ? "Other options" : title.c_str();
  return fmt::format("\n{}:{}{}\n{}", other, about.empty() ? "" : " ", about, out);
}

std::string CommandLine::help() const {
  std::string words, usage;
  for (const auto& each : options_) {
    if (!each->is_word()) continue;
    std::string name = each->name() + (each->repeatable_ ? "..." : "");
    usage += each->required_ ? ' ' + name : fmt::format(" [{}]", name);
    words += row(each->shown(), each->help_);
  }
  if (*rest_text_ != '\0') usage += std::string(" ") + rest_text_;
  std::string out = fmt::format("{}\nUsage: {} [OPTIONS]{}{}\n", about_, program_, usage,
                                subcommands_.empty() ? "" : " SUBCOMMAND");
  if (!examples_.empty()) out += "\nExamples:\n";
  for (const auto& [command, about] : examples_) out += fmt::format("  {:<50}  {}\n", command, about);
  if (!words.empty()) out += "\nPositionals:\n" + words;
  for (std::size_t i = 1; i < groups_.size(); ++i) out += help_of(i);
  out += help_of(0);
  if (!subcommands_.empty()) out += "\nSubcommands:\n";
  for (const auto& each : subcommands_) out += row(each->verb_, each->about_);
  return out;
}

// ---- option -----------------------------------------------------------------------------

namespace {

// "a, b or c"
std::string alternatives(const std::vector<std::string>& words) {
  if (words.size() < 2) return fmt::format("{}", fmt::join(words, ""));
  return fmt::format("{} or {}", fmt::join(words.begin(), words.end() - 1, ", "), words.back());
}

}  // namespace

TakeValue one_of(std::vector<std::string> words) {
  return [words = std::move(words)](const std::string& value) -> Result<void> {
    if (std::find(words.begin(), words.end(), value) != words.end()) return {};
    return invalid(fmt::format("expected {}, got {}", alternatives(words), in_quotes(value)));
  };
}

TakeValue not_empty(const char* what) {
  return [what](const std::string& value) -> Result<void> {
    if (value.empty()) return invalid(fmt::format("expected {}", what));
    return {};
  };
}

Error NumberRange::expected(const std::string& text) const {
  std::string range = std::isinf(most) ? "" : fmt::format(" from {} to {}", least, most);
  return invalid(fmt::format("expected a number{}, got {}", range, in_quotes(text)));
}

Option::Option(const char* names, TakeValue take, const char* help, Value value)
    : take_(std::move(take)), help_(help), value_(value) {
  for (std::string_view each : split(names, ',')) names_.emplace_back(each);
}

Option* Option::option_text(const char* text) {
  text_ = text;
  return this;
}

Option* Option::description(const char* text) {
  help_ = text;
  return this;
}

Option* Option::required() {
  required_ = true;
  return this;
}

Option* Option::repeatable() {
  repeatable_ = true;
  return this;
}

Option* Option::suffices() {
  suffices_ = true;
  return this;
}

Option* Option::excludes(std::initializer_list<const char*> others) {
  excludes_.assign(others);
  return this;
}

Option* Option::needs(std::initializer_list<const char*> others) {
  needs_.assign(others);
  return this;
}

const std::string& Option::name() const {
  auto is_long = [](const std::string& each) { return each.starts_with("--"); };
  auto first = std::find_if(names_.begin(), names_.end(), is_long);
  return first != names_.end() ? *first : names_[0];
}

bool Option::has_name(std::string_view name) const {
  return std::find(names_.begin(), names_.end(), name) != names_.end();
}

Result<void> Option::take(const std::optional<std::string>& value, bool by_equals) {
  if (value && value->empty() && by_equals && value_ != Value::none)
    return invalid(fmt::format("{}=: expected a value behind =", name()));
  if (value && value_ == Value::none)
    return invalid(fmt::format("{}: takes no value, got {}", name(), in_quotes(*value)));
  if (count_++ > 0 && value_ == Value::required && !repeatable_)
    return invalid(fmt::format("{}: give it only once", name()));
  if (value) {
    for (const TakeValue& each : checks_) CHECK_OK(in(name(), each(*value)));
  }
  return in(name(), take_(value.value_or("")));
}

std::string Option::shown() const {
  std::string out = fmt::format("{}", fmt::join(names_, ","));
  return *text_ == '\0' ? out : out + ' ' + text_;
}

}  // namespace nacre::cli
