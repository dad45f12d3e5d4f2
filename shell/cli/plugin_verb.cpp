// SPDX-License-Identifier: Apache-2.0
//
// nacre plugin new|list|check; see nacre-plugin(1).
#include <filesystem>
#include <fstream>

#include <fmt/format.h>

#include "base/print.hpp"
#include "base/text.hpp"
#include "cli/command_line.hpp"
#include "cli/plugin_verb_check.hpp"
#include "cli/plugin_verb_list.hpp"
#include "cli/skeletons.hpp"
#include "cli/verbs.hpp"

namespace nacre::cli {
namespace {

namespace fs = std::filesystem;

Result<void> make_directory(const fs::path& path) {
  std::error_code failed;
  if (fs::create_directory(path, failed)) return {};
  return system_error(failed ? failed.value() : EEXIST, path.string());
}

Result<void> write_file(const fs::path& path, const std::string& text) {
  std::ofstream out(path, std::ios::binary);
  out << text;
  out.close();
  if (!out) return system_error(errno != 0 ? errno : EIO, path.string());
  return {};
}

class PluginVerb final : public Verb {
 public:
  void add_to(CommandLine& verb) override {
    verb_ = &verb;
    add_new();
    add_list();
    add_check();
  }

  Result<void> check_usage() override {
    if (new_->parsed()) return check_plugin_name(name_);
    if (listing_.jobspec == "-" || listing_.resources == "-")
      return invalid("-j and -R have to be files here, not standard input");
    return {};
  }

  Result<int> run() override {
    if (new_->parsed()) return make_new();
    if (list_->parsed()) return list_plugins(listing_);
    return check();
  }

 private:
  void add_new() {
    new_ = verb_->add_subcommand("new", "Write a plugin that works, with a test, to start from");
    new_->add_option("NAME", name_, "The plugin's name")->required();
    new_->add_option("-l,--lang", language_, "c, c++ or lua")
        ->option_text("LANG")
        ->required()
        ->check(one_of({"c", "c++", "lua"}));
    new_->add_option("--dir", directory_, "Make the directory NAME in DIR (default: here)")->option_text("DIR");
  }

  void add_list() {
    list_ = verb_->add_subcommand("list", "Print the plugins that a job would load, in order");
    list_->add_option("--initrc", listing_.initrc, "Of a job with this initrc (default: the installed one)")
        ->option_text("FILE");
    add_setopt(list_, listing_.options);
    list_->add_option("-j,--jobspec", listing_.jobspec, "Of the job of this jobspec; needs -R")
        ->option_text("FILE")
        ->needs({"--resources"});
    list_->add_option("-R,--resources", listing_.resources, "The job's resource set R")
        ->option_text("FILE")
        ->needs({"--jobspec"});
    list_->add_flag("--json", listing_.json, "Print JSON");
  }

  void add_check() {
    check_ =
        verb_->add_subcommand("check", "Load a plugin in a process of its own, and print what is wrong with it");
    check_->add_option("FILE", files_, "Plugins: shared objects, or Lua files")->option_text("...")->required();
    check_
        ->add_number("-t,--timeout", checking_.time_limit, "How long it may take (default: 10)",
                     {0.001, kMaxCheckTimeLimit})
        ->option_text("SECONDS");
    add_setopt(check_, checking_.options);
  }

  static void add_setopt(CommandLine* app, std::vector<std::string>& options) {
    app->add_option("-o,--setopt", options, "Set a shell option of the job; may be repeated")
        ->option_text("OPT[=VAL]");
  }

  [[nodiscard]] Result<int> make_new() const {
    fs::path top = fs::path(directory_) / name_;
    CHECK_OK(make_directory(top));
    CHECK_OK(make_directory(top / "test"));
    for (const SkeletonFile& each : skeleton(*language_named(language_), name_)) {
      CHECK_OK(write_file(top / each.path, each.text));
    }
    std::string shown = top.lexically_normal().string();
    print_out("{}: ready; try it: make -C {} check\n", shown, shown);
    return 0;
  }

  Result<int> check() {
    int code = 0;
    for (const std::string& file : files_) {
      CheckResult checked = TRY(in(file, check_plugin(file, checking_)));
      bool fine = true;
      for (const Finding& each : checked.findings) {
        print_out("{}: {}{}: {}\n", file, each.is_problem ? "" : "note: ", each.what, each.remedy);
        fine = fine && !each.is_problem;
      }
      if (fine) print_out("{}: fine{}{}\n", file, checked.summary.empty() ? "" : ": ", checked.summary);
      CHECK_OK(flush_out());
      if (!fine) code = 1;
    }
    return code;
  }

  CommandLine* verb_ = nullptr;
  CommandLine* new_ = nullptr;
  CommandLine* list_ = nullptr;
  CommandLine* check_ = nullptr;

  std::string name_;
  std::string language_;
  std::string directory_ = ".";
  ListOptions listing_;
  CheckOptions checking_;
  std::vector<std::string> files_;
};

}  // namespace

VerbPtr make_plugin() { return std::make_unique<PluginVerb>(); }

}  // namespace nacre::cli
