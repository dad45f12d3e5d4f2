// SPDX-License-Identifier: Apache-2.0
//
// A FakeHost with an interpreter, and a directory of its own for Lua files.
#pragma once

#include "fake_host.hpp"
#include "folder.hpp"
#include "script/interpreter.hpp"

class LuaFixture {
 public:
  explicit LuaFixture(std::uint32_t tasks = 2) : host(tasks) { restart(""); }
  LuaFixture(std::string_view jobspec, std::string_view resources, std::uint32_t rank)
      : host(jobspec, resources, rank) {
    restart("");
  }

  // A file below the directory; its path.
  std::string write(const std::string& name, std::string_view text) const {
    std::filesystem::path path = directory / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
    return path;
  }

  // Runs `text` as rc.lua: "ok", or the error with the directory's name cut out of it.
  std::string run(std::string_view text) {
    auto ran = interpreter->run_file(write("rc.lua", text));
    return ran ? "ok" : shorten(ran.error().message);
  }

  // The text of the global variable `result` after `text`, or the error.
  std::string eval(const std::string& expression) {
    std::string path = write("eval.lua", "shell.setenv ('RESULT', tostring (" + expression + "))");
    auto ran = interpreter->run_file(path);
    if (!ran) return shorten(ran.error().message);
    return std::string(host.environment().get("RESULT").value_or("no result"));
  }

  std::string shorten(std::string text) const {
    std::string prefix = directory.string() + "/";
    for (std::size_t at; (at = text.find(prefix)) != std::string::npos;) text.erase(at, prefix.size());
    return text;
  }

  std::string call(std::string_view topic) {
    auto called = host.call(topic);
    return called ? "ok " + std::to_string(*called) : shorten(called.error().message);
  }

  std::string call_task(std::string_view topic, std::size_t local_id = 0) {
    auto called = host.call_task(topic, local_id);
    return called ? "ok " + std::to_string(*called) : shorten(called.error().message);
  }

  // Starts anew, with these files as the last ones of shell.source_rcpath.
  void restart(const std::string& more_drop_ins) {
    auto created = nacre::script::Interpreter::create(host, NACRE_SOURCE_DIR "/lua", more_drop_ins);
    if (created) interpreter = *std::move(created);
  }

  std::string env(std::string_view name) { return std::string(host.environment().get(name).value_or("(unset)")); }

  nacre::kit::TemporaryFolder folder;  // its name is short, so that Lua shows paths whole
  std::filesystem::path directory = folder.path();
  std::unique_ptr<nacre::script::Interpreter> interpreter;
  nacre::kit::FakeHost host;  // last: its plugins call the interpreter
};
