// SPDX-License-Identifier: Apache-2.0
#include "cli/verbs.hpp"

#include "base/print.hpp"
#include "cli/command_line.hpp"
#include "value/wait_status.hpp"
#include "version.hpp"

namespace nacre::cli {
namespace {

// `nacre help VERB...` is `nacre VERB... --help`.
void replace_help(std::vector<std::string>& words) {
  if (words.empty() || words[0] != "help") return;
  words.erase(words.begin());
  words.emplace_back("--help");
}

// The verbs of the program, by their command lines.
using Verbs = std::map<CommandLine*, VerbPtr>;

const NamedVerb* find_verb(std::span<const NamedVerb> verbs, std::string_view name) {
  auto found = std::find_if(verbs.begin(), verbs.end(), [name](const NamedVerb& verb) {
    return name == verb.name || (*verb.other_name != '\0' && name == verb.other_name);
  });
  return found != verbs.end() ? &*found : nullptr;
}

// `are_named`: one of them may be given; else only their names are of use.
Verbs add_verbs(CommandLine& program, std::span<const NamedVerb> verbs, bool are_named) {
  Verbs out;
  for (const NamedVerb& each : verbs) {
    CommandLine* verb = program.add_subcommand(each.name, each.text);
    if (are_named) (out[verb] = each.make())->add_to(*verb);
  }
  return out;
}

// The verb that was given.
Verb* given_verb(const Verbs& verbs) {
  auto found = std::find_if(verbs.begin(), verbs.end(), [](const auto& each) { return each.first->parsed(); });
  return found != verbs.end() ? found->second.get() : nullptr;
}

// The exit code of a verb that has failed, after a line. If the reader of its output has gone it ends as if by
// SIGPIPE.
int code_of(const CommandLine& line, const Error& why) {
  if (!why.is_logged) print_err("{}: {}\n", line.program(), why.message);
  return why.is_logged && why.code == EPIPE ? value::kSignalBase + SIGPIPE : 1;
}

int run_verb(const CommandLine& line, Verb& verb) {
  Result<int> code = verb.run();
  return code ? *code : code_of(line, code.error());
}

// `own_name`: of the program; it may be a link of a verb's name.
int parse_and_run(CommandLine& program, std::string_view own_name, std::vector<std::string> words,
                  std::span<const NamedVerb> known) {
  replace_help(words);
  const NamedVerb* own = find_verb(known, own_name);
  if (own != nullptr) words.insert(words.begin(), own->name);
  const NamedVerb* named = words.empty() ? nullptr : find_verb(known, words[0]);
  if (named != nullptr) {
    words[0] = named->name;
    known = {named, 1};
  }
  const std::string shown =
      own != nullptr ? std::string(own_name) : fmt::format("nacre {}", words.empty() ? "" : words[0]);
  if (named != nullptr && named->translate != nullptr) {
    auto translated = named->translate(shown, {words.begin() + 1, words.end()});
    if (const Reply* reply = std::get_if<Reply>(&translated)) return print(*reply);
    words = std::move(std::get<std::vector<std::string>>(translated));
    words.insert(words.begin(), named->name);
  }
  auto names_verb = [known](const std::string& word) { return find_verb(known, word) != nullptr; };
  const Verbs verbs = add_verbs(program, known, std::any_of(words.begin(), words.end(), names_verb));
  if (own != nullptr) verbs.begin()->first->set_program(shown);
  Result<void> read = program.read(std::move(words));
  const CommandLine& line = program.last();
  Verb* verb = given_verb(verbs);
  if (read && line.count("--help") > 0) return print({0, line.help()});
  if (read && verb == nullptr) return print({0, fmt::format("nacre {} {}\n", kVersion, kFeatures)});
  if (read) read = verb->check_usage();
  if (read) return run_verb(line, *verb);
  return print(usage_error(line.program(), read.error().message));
}

}  // namespace

int run_nacre(int argc, char** argv, std::span<const NamedVerb> verbs) {
  CommandLine program("nacre", "Tools for jobs of nacre-shell.");
  bool version = false;
  program.add_help();
  program.add_flag("-V,--version", version, "Print the version")->suffices();
  program.expects("a verb, as in: nacre run -n 4 hostname");
  std::string_view own = argc > 0 ? argv[0] : "";
  own.remove_prefix(own.rfind('/') + 1);
  int code = parse_and_run(program, own, {argv + 1, argv + std::max(argc, 1)}, verbs);
  if (Result<void> flushed = flush_out(); !flushed) code = std::max(code, code_of(program.last(), flushed.error()));
  return code;
}

// ---- reply ------------------------------------------------------------------------------

Reply usage_error(const std::string& program, const std::string& message) {
  return {2, fmt::format("{}: {}\nTry '{} --help'.\n", program, message, program)};
}

int print(const Reply& reply) {
  if (reply.exit_code == 0)
    print_out(reply.text);
  else
    print_err("{}", reply.text);
  return reply.exit_code;
}

}  // namespace nacre::cli
